"""How often ops are called: by category, by name, by arguments. This needs no times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.shared.call_columns import SIGNATURE, argument_texts
from tracelens_graph.analyses.shared.gpu_work import names_of, percent
from tracelens_graph.analyses.shared.grouping import Cells, group_by, text_codes
from tracelens_graph.categories.ops import op_category
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import outermost
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_CALLS = Column.count("number of calls", "calls")

_PERCENT = Column("share of all calls of ops", "%", Role.share, "% of all calls")

_PERCENT_OF_THESE = Column("share of all calls of ops with arguments", "%", Role.share, "% of these")

_TOP = Column.count("how many of them are not inside of another op", "outermost")

CALLS_BY_CATEGORY = TableSchema(
    "calls_by_category",
    "What kinds of ops are called, without times.",
    {
        "category": Column.key("category of the ops", "category"),
        "calls": _CALLS,
        "percent": _PERCENT,
        "outermost": _TOP,
        "ops": Column("number of different names", heading="ops"),
    },
)

CALLS_BY_OP = TableSchema(
    "calls_by_op",
    "Which ops are called, and how often, without times.",
    {
        "op": Column.key("name of the op", "op"),
        "category": Column.text("its category", "category"),
        "calls": _CALLS,
        "percent": _PERCENT,
        "outermost": _TOP,
        "argument_sets": Column("number of different sets of arguments", heading="argument sets"),
        "threads": Column("number of threads that call it", heading="threads"),
        "uid": Column.uid("the first call"),
    },
)

_SHOWN = {"input_dims": "sizes", "input_types": "types"}

CALLS_BY_ARGUMENTS = TableSchema(
    "calls_by_arguments",
    "With which arguments ops are called, without times.",
    {
        "op": Column.key("name of the op", "op"),
        **{name: replace(column, heading=_SHOWN.get(name), cells="list") for name, column in SIGNATURE.items()},
        "calls": _CALLS,
        "percent": _PERCENT_OF_THESE,
        "uid": Column.uid("the first call"),
    },
)


class _Calls:
    """Calls of ops in a window.

    Attributes:
        rows: their rows, by uid.
        core, title: of the window.
    """

    def __init__(self, w: Window) -> None:
        self.window, self.core = w, w.core
        rows = w.rows_of_kind(Kind.Op)
        self.rows = rows[np.argsort(w.core.columns.uid[rows], kind="stable")]

    def is_outermost(self) -> np.ndarray:
        """Of each call whether no other op is above it."""
        c = self.core.columns
        ops = np.flatnonzero(c.kind == Kind.Op)
        return np.isin(self.rows, ops[outermost(np.zeros(len(ops), np.int64), ops, c.last[ops])])

    def categories(self) -> np.ndarray:
        """Category of each name code."""
        return np.array([op_category(name, "") for name in self.core.names] or [""], object)

    def table(self, schema: TableSchema, title: str, group: np.ndarray, columns: dict[str, Cells]) -> Table:
        """A table of groups of calls, the most frequent first; calls and their share are added."""
        calls = np.bincount(group)
        columns |= {"calls": calls, "percent": percent(calls, len(self.rows))}
        order = np.lexsort((np.arange(len(calls)), -calls))
        return schema.table({name: columns[name] for name in schema}, self.window.titled(title)).take(order)


def calls_by_category(g: Core | Window) -> Table:
    """How often ops of each category are called, the most frequent first."""
    calls = _Calls(window_of(g, needs_times=False))
    names = calls.core.columns.name[calls.rows]
    categories = calls.categories()
    group, first = group_by(text_codes(categories.tolist())[names])
    columns: dict[str, Cells] = {
        "category": categories[names[first]].tolist(),
        "outermost": np.bincount(group, calls.is_outermost(), len(first)).astype(np.int64),
        "ops": _different(group, names, len(first)),
    }
    return calls.table(CALLS_BY_CATEGORY, "Calls by category", group, columns)


def calls_by_op(g: Core | Window) -> Table:
    """How often each op is called, the most frequent first."""
    calls = _Calls(window_of(g, needs_times=False))
    c = calls.core.columns
    names = c.name[calls.rows]
    group, first = group_by(names)
    columns: dict[str, Cells] = {
        "op": names_of(calls.core, calls.rows[first]),
        "category": calls.categories()[names[first]].tolist(),
        "outermost": np.bincount(group, calls.is_outermost(), len(first)).astype(np.int64),
        "argument_sets": _different(group, c.argset[calls.rows], len(first)),
        "threads": _different(group, c.thread[calls.rows], len(first)),
        "uid": c.uid[calls.rows[first]],
    }
    return calls.table(CALLS_BY_OP, "Calls by op", group, columns)


def calls_by_arguments(g: Core | Window) -> Table:
    """With which arguments ops are called and how often, the most frequent first; none of ops without any."""
    w = window_of(g, needs_times=False)
    calls = _Calls(w)
    c = calls.core.columns
    calls.rows = calls.rows[c.argset[calls.rows] >= 0]
    group, first = group_by(c.name[calls.rows], c.argset[calls.rows])
    columns: dict[str, Cells] = {
        "op": names_of(calls.core, calls.rows[first]),
        **argument_texts(calls.core, c.argset[calls.rows[first]]),
        "uid": c.uid[calls.rows[first]],
    }
    title = "Calls with arguments, by their arguments"
    return calls.table(CALLS_BY_ARGUMENTS, title, group, columns)


def _different(group: np.ndarray, values: np.ndarray, groups: int) -> np.ndarray:
    """How many different values each group has; negative ones are none."""
    codes, value = distinct(values)
    pairs, _ = distinct((group.astype(np.int64) * max(len(codes), 1) + value)[values >= 0])
    return np.bincount(pairs // max(len(codes), 1), minlength=groups)
