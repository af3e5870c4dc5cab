"""How often ops are called: by category, by name, by arguments. This needs no times."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.ops.launchers import main_categories
from tracelens_graph.analyses.shared.call_columns import SIGNATURE, argument_texts
from tracelens_graph.analyses.shared.gpu_work import names_of, percent
from tracelens_graph.analyses.shared.grouping import Cells, group_by, text_codes
from tracelens_graph.extensions.extension import extension_of
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


def calls_by_category(g: Core | Window) -> Table:
    """How often ops of each category are called, the most frequent first."""
    return _calls(g, CALLS_BY_CATEGORY, "Calls by category")


def calls_by_op(g: Core | Window) -> Table:
    """How often each op is called, the most frequent first."""
    return _calls(g, CALLS_BY_OP, "Calls by op")


def calls_by_arguments(g: Core | Window) -> Table:
    """With which arguments ops are called and how often, the most frequent first; none of ops without any."""
    return _calls(g, CALLS_BY_ARGUMENTS, "Calls with arguments, by their arguments")


def _calls(g: Core | Window, schema: TableSchema, title: str) -> Table:
    """Calls of ops by the key of one of the tables above, the most frequent first."""
    w = window_of(g, needs_times=False)
    core, c = w.core, w.core.columns
    rows = w.rows_of_kind(Kind.Op)
    if schema is CALLS_BY_ARGUMENTS:
        rows = rows[c.argset[rows] >= 0]
    rows = rows[np.argsort(c.uid[rows], kind="stable")]
    name = c.name[rows]
    categories = _categories(w)
    keys = {"category": text_codes([*categories, ""])[name], "op": name, "input_dims": c.argset[rows]}
    group, first = group_by(*(codes for key, codes in keys.items() if key in schema and schema[key].role is Role.key))
    count = np.bincount(group)
    ops = np.flatnonzero(c.kind == Kind.Op)
    is_outermost = np.isin(rows, ops[outermost(np.zeros(len(ops), np.int64), ops, c.last[ops])])
    columns: dict[str, Cells] = {
        "op": names_of(core, rows[first]),
        "category": [categories[code] for code in name[first].tolist()],
        **argument_texts(core, c.argset[rows[first]]),
        "calls": count,
        "percent": percent(count, len(rows)),
        "outermost": np.bincount(group, is_outermost, len(first)).astype(np.int64),
        "ops": _different(group, name, len(first)),
        "argument_sets": _different(group, c.argset[rows], len(first)),
        "threads": _different(group, c.thread[rows], len(first)),
        "uid": c.uid[rows[first]],
    }
    order = np.lexsort((np.arange(len(count)), -count))
    return schema.table({column: columns[column] for column in schema}, w.titled(title)).take(order)


def _categories(w: Window) -> list[str]:
    """For each name the category of ops: of its kernels where it launches any, else by the name."""
    from tracelens_graph.categories.kernels import category_of_op

    launched, rules = main_categories(w), extension_of(w).all_kernel_rules
    return [found or category_of_op(text, rules) for text, found in zip(w.core.names, launched, strict=True)]


def _different(group: np.ndarray, values: np.ndarray, groups: int) -> np.ndarray:
    """How many different values each group has; negative ones are none."""
    codes, value = distinct(values)
    pairs, _ = distinct((group.astype(np.int64) * max(len(codes), 1) + value)[values >= 0])
    return np.bincount(pairs // max(len(codes), 1), minlength=groups)
