"""Nodes and edges of a graph as plain columns: what tables, exports and databases are filled from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arguments import ARGSET_PARTS, INSTRUCTION
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edges import edge_rows
from tracelens_graph.graph.traversals import climb, launcher
from tracelens_graph.graph.window import step_number
from tracelens_graph.schema import EVENT_EDGES, STORED, Kind, OwnerRule
from tracelens_graph.utils.arrays import Codes, Rows
from tracelens_graph.utils.suggest import hint

PLACES: Mapping[str, str] = {
    "module": "the innermost nn.Module around the event, itself if it is one",
    "step": "the step that holds it, by its number",
    "launcher": "of GPU work the op that launched it, or the runtime call where no op did",
}
"""What can be asked for in `place_columns`, and what it is."""

_ROWS = ("parent", "last", "owner")


@dataclass(frozen=True)
class Texts:
    """A column of text: for each row the number of its text, -1 where it has none.

    Attributes:
        codes: int32, one per row.
        texts: the texts there are, each once.
    """

    codes: Codes
    texts: Sequence[str]

    @classmethod
    def of(cls, codes: Codes, texts: Sequence[str], empty_is_absent: bool = False) -> Texts:
        """From codes into texts where some may be equal; code -1 is none."""
        kept = [text for text in dict.fromkeys(texts) if text or not empty_is_absent]
        place = {text: number for number, text in enumerate(kept)}
        table = np.array([*(place.get(text, -1) for text in texts), -1], np.int32)
        return cls(table[codes], kept)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice) -> Texts:
        return Texts(self.codes[rows], self.texts)

    def tolist(self) -> list[str | None]:
        """One text, or None, per row."""
        return list(map([*self.texts, None].__getitem__, self.codes.tolist()))

    def without(self, characters: re.Pattern[str]) -> tuple[Texts, int]:
        """The column with U+FFFD in place of some characters, and how many places that are in all rows."""
        found = [characters.subn("\ufffd", text) for text in self.texts]
        places = np.array([*(count for _, count in found), 0], np.int64)
        return Texts(self.codes, [text for text, _ in found]), int(places[self.codes].sum())


Frame = dict[str, np.ndarray | Texts]
"""Columns of one length: numbers (a masked array where some are absent), or texts."""


def node_columns(core: Core) -> Frame:
    """All event nodes, one row each in row order.

    Columns are those of `schema.STORED` and `schema.DERIVED`, times in ns. `thread` is `pid` and `tid` as text,
    an argument set is four columns of JSON text, of JAX's five, and `parent`, `last`, `owner`, `step` and `annotation`
    hold uids. What was not recorded is masked, or text of code -1.
    """
    uid, columns = core.columns.uid, recorded_columns(core)
    columns |= {name: _uids(uid, getattr(core.columns, name)) for name in _ROWS}
    columns["step"] = _uids(uid, core.step)
    columns["annotation"] = _uids(uid, core.annotation)
    columns["recompute"] = autograd_of(core).recompute
    columns["gpu_sum_ns"] = core.gpu_sum_ns
    columns["gpu_busy_ns"] = core.gpu_busy_ns(np.arange(len(uid)))
    return columns


def recorded_columns(core: Core) -> Frame:
    """Those of `node_columns` that take no computing and name no other node."""
    columns: Frame = {}
    for prop in STORED:
        values = getattr(core.columns, prop.name)
        if prop.name in _ROWS:
            continue
        if prop.name == "thread":
            for place, name in enumerate(("pid", "tid")):
                columns[name] = Texts.of(values, [str(thread[place]) for thread in core.threads])
        elif prop.name == "argset":
            for place, name in enumerate(ARGSET_PARTS):
                parts = [argset[place] for argset in core.argsets]
                columns[name] = Texts.of(values, parts, empty_is_absent=True)
            if core.instructions:
                columns[INSTRUCTION.lower()] = Texts.of(values, core.instructions, empty_is_absent=True)
        elif prop.code_of:
            tables = {"kind": [k.name for k in Kind], "owner_rule": [r.name for r in OwnerRule], "names": core.names}
            columns[prop.name] = Texts.of(values, tables[prop.code_of])
        else:
            columns[prop.name] = np.ma.masked_equal(values, prop.absent) if prop.absent else values
    return columns


def place_columns(core: Core, place: str) -> Frame:
    """Where every event stands, one row each in row order: what `node_columns` leaves out because few ask for it.

    Args:
        place: one of `PLACES`.

    Returns:
        Of `module` and `launcher` the uid and, as `module_name` or `launcher_name`, the name; of `step` the number, as
        `step_number`.

    Raises:
        AnalysisError: there is no such place.
    """
    if place not in PLACES:
        raise AnalysisError(f"no place has the name {place!r}; {hint(place, PLACES)}")
    c, every = core.columns, np.arange(len(core.columns))
    if place == "step":
        return {"step_number": step_numbers(core)}
    rows = climb(c.parent, every, c.kind == Kind.Module) if place == "module" else _launchers(core)
    names = np.where(rows < 0, -1, c.name[np.maximum(rows, 0)]) if len(c) else rows
    return {place: _uids(c.uid, rows), f"{place}_name": Texts.of(names, core.names)}


def step_numbers(core: Core) -> np.ma.MaskedArray:
    """n of the `ProfilerStep#n` of each row, absent outside of steps."""
    steps = np.flatnonzero(core.columns.kind == Kind.Step)
    numbers = np.full(len(core.columns) + 1, -1, np.int64)
    found = (step_number(core.names[code]) for code in core.columns.name[steps].tolist())
    numbers[steps] = [-1 if number is None else number for number in found]
    return np.ma.masked_less(numbers[core.step], 0)


def _launchers(core: Core) -> np.ndarray:
    rows = np.full(len(core.columns), -1, np.int64)
    rows[core.gpu_rows] = launcher(core.columns, core.gpu_rows)
    return rows


def edge_columns(core: Core) -> Frame:
    """All edges between event nodes: `source` and `target` as uids, and `type`."""
    uid = core.columns.uid
    types = [edge.name for edge in EVENT_EDGES]
    pairs = [edge_rows(core, name) for name in types]
    codes = np.repeat(np.arange(len(types), dtype=np.int32), [len(source) for source, _ in pairs])
    source, target = (uid[np.concatenate(rows)] for rows in zip(*pairs, strict=True))
    return {"source": source, "target": target, "type": Texts(codes, types)}


def _uids(uid: np.ndarray, rows: Rows) -> Any:
    absent = rows < 0
    return np.ma.MaskedArray(uid[np.where(absent, 0, rows)], absent)
