"""Columns that tables of calls share: threads by name, recorded arguments, tensors, statistics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.shared.grouping import Cells, Groups, picked, text_codes
from tracelens_graph.graph.arguments import ARGUMENTS, INSTRUCTION, argset_text
from tracelens_graph.graph.core import Core
from tracelens_graph.tables.column import About, Column
from tracelens_graph.utils.arrays import Rows

SIGNATURE: About = {
    "input_dims": Column.key("sizes of the inputs, JSON"),
    "input_types": Column.key("types of the inputs, JSON"),
    "input_strides": Column.key("strides of the inputs, JSON; absent where not recorded"),
    "concrete_inputs": Column.key("values of the inputs that are not tensors, JSON"),
}
"""What separates calls of one op; `argument_texts` fills it."""

if TYPE_CHECKING:
    from tracelens_graph.execution.sides import Argument


def thread_labels(core: Core) -> tuple[list[tuple[str, str, str]], np.ndarray]:
    """Names of process, label and thread of every thread code, and a code per different triple."""
    # Devices of JAX have no labels.
    no_label = "" if core.framework.compiles_programs else "Unknown"
    processes = {str(pid): (name or "Unknown", label or no_label) for pid, name, label in core.info.processes}
    threads = {(str(pid), str(tid)): name for pid, tid, name in core.info.threads}
    triples = [
        (*processes.get(str(pid), ("Unknown", "Unknown")), threads.get((str(pid), str(tid)), "Unknown"))
        for pid, tid in core.threads
    ]
    codes = {triple: i for i, triple in enumerate(dict.fromkeys(triples))}
    return list(codes), np.array([codes[triple] for triple in triples] or [0], np.int64)


def place_columns(core: Core, rows: Rows, suffix: str = "") -> dict[str, Cells]:
    """Names of process, label and thread of some calls."""
    labels, label = thread_labels(core)
    codes = label[core.columns.thread[rows]].tolist()
    names = ("process_name", "process_label", "thread_name")
    return {f"{name}{suffix}": [labels[code][i] for code in codes] for i, name in enumerate(names)}


def argument_codes(core: Core) -> np.ndarray:
    """For each argument set a code that is equal for sets that read the same; the last entry is "none recorded"."""
    return text_codes([*(argset_text(core, code) for code in range(len(core.argsets))), None])


def argument_cells(core: Core, argset: np.ndarray, suffix: str = "") -> dict[str, Cells]:
    """Arguments of argument sets as lists, and of JAX facts of instructions; None where nothing was recorded."""
    texts = [core.argsets[code] if code >= 0 else ("",) * 4 for code in argset.tolist()]
    cells: dict[str, Cells] = {
        column: [json.loads(text[i]) if text[i] else None for text in texts] for i, column in enumerate(ARGUMENTS)
    }
    if core.instructions:
        cells[INSTRUCTION] = [core.instructions[code] or None if code >= 0 else None for code in argset.tolist()]
    return {f"{name}{suffix}": values for name, values in cells.items()}


def argument_texts(core: Core, argset: np.ndarray) -> dict[str, Cells]:
    """Arguments of argument sets as JSON; None where nothing was recorded."""
    texts = [core.argsets[code] if code >= 0 else ("",) * len(SIGNATURE) for code in argset.tolist()]
    return {column: [text[i] or None for text in texts] for i, column in enumerate(SIGNATURE)}


def statistic(values: Groups, which: str) -> np.ndarray:
    """A statistic by its name; `std` has one degree of freedom less."""
    return values.std() if which == "std" else getattr(values, which)


def by_time(columns: dict[str, Cells], by: str, uid: np.ndarray) -> dict[str, Cells]:
    """Rows by time, the greatest first, then by first uid."""
    order = np.lexsort((uid, -np.asarray(columns[by])))
    return {name: picked(cells, order) for name, cells in columns.items()}


def numbers(cells: Cells) -> np.ndarray:
    """Cells as floats, None as NaN."""
    return np.array(cells, float)


def tensor_cells(core: Core, rows: Sequence[int]) -> dict[str, Cells]:
    """What some calls read and made, by column; None for calls that are not joined. No columns without a link."""
    if core.link is None:
        return {}
    from tracelens_graph.execution.link import link_of

    link = link_of(core)
    assert link is not None
    columns: dict[str, list[Any]] = {
        "et_node": [], "input_tensors": [], "input_storages": [], "output_tensors": [], "output_storages": [],
    }  # fmt: skip
    for node in link.node_of_row[rows].tolist():
        cells: list[Any] = [None] * len(columns)
        if node >= 0:
            cells = [int(link.execution.id[node])]
            for side in (link.execution.inputs, link.execution.outputs):
                tensors = list(_tensors(side[node].decoded()))
                cells += [[tensor[0] for tensor in tensors], [tensor[1] for tensor in tensors]]
        for column, cell in zip(columns.values(), cells, strict=True):
            column.append(cell)
    return dict(columns)


def _tensors(arguments: list[Argument]) -> list[list[Any]]:
    """The tensors among arguments, also of lists, as the observer wrote them."""
    found: list[list[Any]] = []
    pending = [one.value for one in reversed(arguments) if "Tensor(" in one.type]
    while pending:
        value = pending.pop()
        if isinstance(value, list) and len(value) == 6 and isinstance(value[5], str):
            found.append(value)
        elif isinstance(value, list):
            pending += reversed(value)
    return found
