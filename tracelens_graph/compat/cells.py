"""Cells as TraceLens has them: tuples for arguments, sizes in its order, and in files as Python spells them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tracelens_graph.analyses.shared.call_columns import thread_labels
from tracelens_graph.analyses.shared.call_stacks import module_stacks
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.compat.PerfModel.torch_op_mapping import TRACELENS_MODELS
from tracelens_graph.graph.core import Core
from tracelens_graph.perf.registry import model_named
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows


def as_tuples(value: Any) -> Any:
    """A value with tuples in place of lists, at every depth."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def as_lists(value: Any) -> Any:
    """A value with lists in place of tuples, at every depth."""
    return list(map(as_lists, value)) if isinstance(value, list | tuple) else value


def has_model(ops: Iterable[str], applies: Iterable[Any]) -> list[bool]:
    """Whether there is a model of some ops, ours or TraceLens's; where sizes for it are missing it does not apply."""
    known = zip(ops, applies, strict=True)
    return [bool(does) or model_named(op, TRACELENS_MODELS) is not None for op, does in known]


def in_python(table: Table) -> Table:
    """A table with lists, tuples and dictionaries as pandas writes them to CSV: as Python spells them."""
    columns = {
        name: [str(cell) if isinstance(cell, list | tuple | dict) else cell for cell in cells]
        if isinstance(cells, list)
        else cells
        for name, cells in table.columns.items()
    }
    return replace(table, columns=columns)


_GEMM = ("M", "N", "K", "bias", "stride_A", "stride_B", "dtype_A_B", "B", "transpose")
_CONVOLUTION = ("convNd", "input_shape", "filter_shape", "dtype_input_weight", "input_stride", "weight_stride")


def in_order(names: Iterable[str], op: str) -> list[str]:
    """Names of sizes in TraceLens's order; those that it does not have keep theirs, after the others.

    Args:
        names: the names, each with the same prefix or none.
        op: the op; products of batches show the batch first.
    """
    known = list(names)
    plain = {name: name.removeprefix("param: ") for name in known}
    first: tuple[str, ...] = _CONVOLUTION if "convNd" in plain.values() else _GEMM if "M" in plain.values() else ()
    if "bmm" in op:
        first = ("B", *(name for name in first if name != "B"))
    rank = {name: place for place, name in enumerate(first)}
    return sorted(known, key=lambda name: rank.get(plain[name], len(rank)))


NO_MODULE = "NA"
"""What TraceLens calls the module of calls that no module is around."""


def stacks_of_modules(core: Core, rows: Rows) -> list[list[str]]:
    """For each call its name, and those of the modules around it, the innermost first."""
    names = core.columns.name[rows].tolist()
    return [[core.names[code], *reversed(stack)] for code, stack in zip(names, module_stacks(core, rows), strict=True)]


def thread_columns(core: Core, rows: Rows) -> dict[str, Cells]:
    """Names of process and thread of the events at some rows, and the label of the process."""
    labels, label = thread_labels(core)
    found = [labels[code] for code in label[core.columns.thread[rows]].tolist()]
    names = ("process_name", "process_label", "thread_name")
    return {name: [one[at] for one in found] for at, name in enumerate(names)}
