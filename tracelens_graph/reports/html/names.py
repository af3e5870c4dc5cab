"""Names on a page: each stored once, short enough, with its class, which gives its colour; and tables of them.

An event's category follows from its name, so it is found once per name. Classes are the colours of a picture: fewer
than there are categories, because nobody can distinguish twenty colours.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import gpu_categories
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.user_code import Code, code_of
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.html.shell import Packed
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.names import frame_caption, short_name
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import list_text
from tracelens_graph.utils.arrays import Codes, Rows
from tracelens_graph.utils.texts import printable, shorten

LONGEST = 400
"""Characters of a name; those of kernels of C++ templates may be a million."""
LONGEST_LINE = 2000
"""Characters of a sentence or a command."""
_LONGEST_LABEL = 120

CLASSES = (
    "gemm", "attention", "conv", "norm", "elementwise", "reduce", "copy", "communication", "other",
    "module", "python", "op", "call", "annotation", "step", "forward", "backward", "optimizer", "none",
)  # fmt: skip
"""Classes: of GPU work, then of the host, then of passes; `none` is for what no launch leads to."""

_OF_CATEGORY: Mapping[str, str] = {
    "communication": "comm|collective",
    "attention": "attention|sdpa",
    "gemm": "gemm|moe",
    "conv": "conv",
    "norm": "norm|softmax",
    "reduce": "reduc|sampling|sort",
    "copy": "copy|copies|memory ops|embedding",
    "elementwise": "elementwise|triton|rope|quant|optimizer|multi_tensor",
}
"""Class -> what a category of kernels or of ops holds that has its colour; of several the first, of none `other`."""

_OF_KIND: Mapping[int, str] = {
    Kind.Module: "module", Kind.PythonFunction: "python", Kind.Op: "op", Kind.RuntimeCall: "call",
    Kind.Memcpy: "copy", Kind.Memset: "copy", Kind.Annotation: "annotation", Kind.Step: "step",
}  # fmt: skip


@cache
def category_class(category: str) -> str:
    """The class of a category of kernels or of ops: its colour, wherever it is shown."""
    text = category.lower()
    return next((of for of, pattern in _OF_CATEGORY.items() if re.search(pattern, text)), "other")


def categories_by_class(w: Window) -> dict[str, str]:
    """What each class of GPU work is on a page of a window: the categories that there are, as other screens have them.

    Nothing where nothing ran on a GPU.
    """
    found: dict[str, list[str]] = {}
    for category in gpu_categories(w)[0] if len(w.core.gpu_rows) else ():
        found.setdefault(category_class(category), []).append(clean(category))
    return {of: ", ".join(several) for of, several in found.items()}


def clean(text: str, longest: int = LONGEST) -> str:
    """A text of a trace as a page shows it: capped, with nothing invisible in it."""
    return printable(shorten(text, longest))


class Names:
    """The names of events of some kinds, and further ones, each with a number.

    Attributes:
        texts: the names, those of events by falling use.
        shorts: the same, short enough for labels.
        classes: for each its position in CLASSES.
        codes: for each whose code a frame of Python of that name runs.
    """

    def __init__(self, w: Window, kinds: Iterable[int]) -> None:
        self._core = w.core
        c = self._core.columns
        rows = np.flatnonzero(is_kind(c.kind, kinds))
        keys, first, key = np.unique(self._keys(c.kind[rows], c.name[rows]), return_index=True, return_inverse=True)
        order = np.argsort(-np.bincount(key, minlength=len(keys)), kind="stable")
        self._sorted, self._number = keys, np.empty(len(keys), np.int64)
        self._number[order] = np.arange(len(keys))
        self.texts: list[str] = []
        self.shorts: list[str] = []
        self.classes: list[int] = []
        self.codes: list[int] = []
        self._known: dict[tuple[str, str], int] = {}
        names = self._core.names
        labels, category = gpu_categories(w) if Kind.Kernel in c.kind[rows] else ([], c.kind)
        for row in rows[first[order]].tolist():
            kind = int(c.kind[row])
            self._append(names[c.name[row]], _OF_KIND.get(kind) or category_class(labels[category[row]]), kind)

    def of_rows(self, rows: Rows) -> Codes:
        """Numbers of the names of rows, which must be of the kinds that the names were made of."""
        c = self._core.columns
        return self._number[np.searchsorted(self._sorted, self._keys(c.kind[rows], c.name[rows]))]

    def add(self, text: str, of: str) -> int:
        """The number of a name with its class, be it an event's or not."""
        key = clean(text), of
        if key not in self._known:
            self._append(text, of, -1)
        return self._known[key]

    def add_each(self, found: Iterable[tuple[str, str]]) -> Codes:
        """Numbers of names, each with its class."""
        return np.array([self.add(text, of) for text, of in found], np.int64)

    def class_of(self, number: int) -> str:
        """The class of a name."""
        return CLASSES[self.classes[number]]

    def _append(self, name: str, of: str, kind: int) -> None:
        text = clean(name)
        self._known.setdefault((text, of), len(self.texts))
        self.texts.append(text)
        self.shorts.append(clean(_caption(name, kind), _LONGEST_LABEL))
        self.classes.append(CLASSES.index(of))
        self.codes.append(code_of(name) if kind == Kind.PythonFunction else Code.no_line)

    def _keys(self, kinds: Codes, codes: Codes) -> Codes:
        return kinds.astype(np.int64) * max(len(self._core.names), 1) + codes


def _caption(name: str, kind: int) -> str:
    if kind in GPU_KINDS:
        return short_name(name)
    if kind == Kind.PythonFunction:
        return frame_caption(name)
    return name.removeprefix("nn.Module: ")


def texts_of(names: Iterable[str], shorts: Iterable[str], longest: int = LONGEST) -> dict[str, list[Any]]:
    """Names as a page has them: `names`, and `shorts`, null where a name is short itself."""
    texts, labels = ([clean(text, longest) for text in some] for some in (names, shorts))
    return {
        "names": texts,
        "shorts": [None if short == text else short for text, short in zip(texts, labels, strict=True)],
    }


def used_names(
    columns: Mapping[str, Packed], names: Names, longest: int = LONGEST
) -> tuple[dict[str, Packed], dict[str, list[Any]]]:
    """Columns whose names are numbered anew, because names that are in none of them are left out.

    Args:
        columns: columns; those of names end with `.name`.
        names: what they number.
        longest: characters of a name.

    Returns:
        The columns, with the classes and codes of the names (`name.class`, `name.code`); and the names.
    """
    of_names = {name: column for name, column in columns.items() if name.endswith(".name")}
    is_used = np.zeros(len(names.texts), bool)
    for column in of_names.values():
        is_used[column.values] = True
    number, used = np.cumsum(is_used) - 1, np.flatnonzero(is_used)
    again = {name: Packed(number[column.values], column.is_delta) for name, column in of_names.items()}
    of_names = {
        f"name.{part}": Packed(np.array(values, np.int64)[used])
        for part, values in (("class", names.classes), ("code", names.codes))
    }
    texts, shorts = ([some[one] for one in used.tolist()] for some in (names.texts, names.shorts))
    return {**columns, **again, **of_names}, texts_of(texts, shorts, longest)


# --- tables ---------------------------------------------------------------------------------------------------------


MOST_ROWS = 20_000
"""Rows of a table on a page; `--csv` and `--json` have all."""
_FURTHER = "--csv DIR writes them"
"""Where the rows are that a page leaves out."""

_IN_PATH = ("module", "class")
"""Columns that say what the path of a module beside them says."""


class Texts:
    """Texts of cells, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The place of a text in `listed`."""
        return self._numbers.setdefault(clean(text), len(self._numbers))

    @property
    def listed(self) -> list[str]:
        """All texts."""
        return list(self._numbers)


def table_objects(
    tables: Mapping[str, Table], texts: Texts, most: int = MOST_ROWS, further: str = _FURTHER
) -> list[dict[str, Any]]:
    """Tables with columns: name, heading, unit, definition, whether it is shown at first, what its cells are, cells.

    Cells of kind `text` are places in the texts, `uid` numbers of nodes, `number` numbers, `flag` true or false; null
    where there is none.

    Args:
        tables: by the names that the page calls them.
        texts: where their texts go.
        most: rows of a table.
        further: where the rest of them is.
    """
    return [_table_object(name, table, texts, most, further) for name, table in tables.items()]


def _table_object(name: str, table: Table, texts: Texts, most: int, further: str) -> dict[str, Any]:
    notes = list(table.notes)
    if (rows := len(table)) > most:
        table = table.take(np.arange(most))
        notes.append(f"{rows - most:,} more rows: {further}")
    has_headings = any(column.heading for column in table.about.values())
    repeated = _IN_PATH if next(iter(table.columns), "") == "path" else ()
    columns = []
    for key, cells in table.columns.items():
        about = table.about.get(key, Column(""))
        kind, values = _cells(cells.tolist() if isinstance(cells, np.ndarray) else list(cells), about, texts)
        of = {"classes": _classes(values, texts)} if "categor" in key.lower() and kind == "text" else {}
        columns.append({
            "name": clean(key), "heading": clean(about.heading or key.replace("_", " ")), "unit": about.unit,
            "about": about.definition, "kind": kind, "cells": values,
            "shown": key not in repeated and (bool(about.heading) or not has_headings or about.is_id),
            **of,
        })  # fmt: skip
    return {
        "name": name, "title": clean(table.title or name), "rows": len(table), "notes": [clean(one) for one in notes],
        "columns": columns,
    }  # fmt: skip


def _cells(values: list[Any], about: Column, texts: Texts) -> tuple[str, list[Any]]:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return "flag", values
    if all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in known):
        return "uid" if about.is_id else "number", [_number(value) for value in values]
    return "text", [None if value is None else texts.number(_text(value)) for value in values]


def _classes(cells: Iterable[int | None], texts: Texts) -> dict[int, str]:
    """Classes of the categories in cells, by the places of their texts."""
    listed = texts.listed
    return {cell: category_class(listed[cell]) for cell in dict.fromkeys(cells) if cell is not None}


def _number(value: Any) -> int | float | None:
    if value is None:
        return None
    plain: int | float = value.item() if isinstance(value, np.number) else value
    return plain if abs(plain) <= sys.float_info.max else None  # a whole number can be beyond all that browsers know


def _text(value: Any) -> str:
    return list_text(value) if isinstance(value, list) else str(value)
