"""Tensors of calls, from the execution trace that a graph is linked with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.execution.sides import Argument
from tracelens_graph.graph.core import Core


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
