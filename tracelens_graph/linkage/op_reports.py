"""What there is to tell of single operators: metadata, events, kernels, and whether the kernels lead back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.ops.launchers import launchers
from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.execution.link import tensors_of
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import window_of
from tracelens_graph.linkage.cpu_metadata import metadata_of_row
from tracelens_graph.linkage.kernel_metadata import metadata_of_gpu_row
from tracelens_graph.linkage.op_events import events_of_op, row_of_event
from tracelens_graph.linkage.records import rows_inside
from tracelens_graph.linkage.traces import row_of_node
from tracelens_graph.linkage.validation import Validation
from tracelens_graph.schema import GPU_KINDS
from tracelens_graph.utils.suggest import did_you_mean

_MOST_DIGITS = 4000
"""Digits of an id that are read: Python refuses to read more than 4,300."""
MOST_KERNELS = 3
"""Kernels of an operator whose configuration is told, the dearest first."""


def top_ops(validation: Validation, most: int | None = None) -> dict[int, str]:
    """Of each kind of op the one whose own launches brought most GPU time.

    Args:
        validation: the linked pair.
        most: how many kinds; None for all.

    Returns:
        Id of the op's node -> its kind; the kind with most GPU time first. Ops without a node are passed over.
    """
    core, link = validation.core, validation.link
    calls = launchers(window_of(core))
    has_node = link.node_of_row[calls.rows] >= 0
    time = np.where(has_node, calls.direct_ns, -1)
    kinds = np.bincount(calls.category, calls.direct_ns, len(calls.categories))
    found = {}
    for kind in np.argsort(-kinds, kind="stable").tolist():
        of_kind = np.flatnonzero((calls.category == kind) & has_node & (time > 0))
        if len(of_kind):
            row = int(calls.rows[of_kind[time[of_kind].argmax()]])
            found[int(link.execution.id[link.node_of_row[row]])] = calls.categories[kind]
    return dict(list(found.items())[:most])


def chosen_ops(validation: Validation, asked: Sequence[str]) -> dict[int, str]:
    """The ops that a user names.

    Args:
        validation: the linked pair.
        asked: ids of nodes, and names; a name stands for the linked op of that name with most GPU time.

    Returns:
        Id of the op's node -> what was asked for.

    Raises:
        NodeNotFoundError: there is no such node, or none that has an event.
    """
    core, link = validation.core, validation.link
    execution = link.execution
    found = {}
    for one in asked:
        if one.strip().isascii() and one.strip().isdecimal():
            number = int(one.strip()[:_MOST_DIGITS])
            row_of_node(execution, number)
            row_of_event(core, link, number)
            found[number] = one
            continue
        names = np.flatnonzero([name == one for name in execution.names])
        rows = link.row_of_node[np.isin(execution.name, names)]
        rows = rows[rows >= 0]
        if not len(rows):
            joined = {execution.names[code] for code in execution.name[link.row_of_node >= 0].tolist()}
            largest = [str(name) for name in validation.by_name["name"][:5]]
            meant = did_you_mean(one, sorted(joined)) or f"most GPU time have {', '.join(largest) or 'none'}"
            raise NodeNotFoundError(f"no op that is in both traces is called {one[:80]!r}; {meant}")
        node = link.node_of_row[rows[core.gpu_sum_ns[rows].argmax()]]
        found[int(execution.id[node])] = one
    return found


def op_report(validation: Validation, cpu_op_id: int, why: str) -> dict[str, Any]:
    """What there is to tell of an operator.

    Args:
        validation: the linked pair.
        cpu_op_id: id of its node, which has an event.
        why: what it stands for: its kind, or what the user asked for.

    Returns:
        A dictionary of plain values: `cpu_op_id`, `why`, `uid` of its event; `metadata`, as `operation_metadata_scrape`
        gives, and of each tensor the `name`, `form` and `storage` that lineage tells, such as `t12#2`,
        `float32[4,8]` and `s13`; `tracing`, as `op_to_kernel_tracing` gives; `kernels`, the dearest GPU events as
        `kernel_metadata_scrape` gives them; `gpu_events`, how many there are in all; `returning`, how many of these
        lead back to the operator or to one that it called.
    """
    core, link = validation.core, validation.link
    row = row_of_event(core, link, cpu_op_id)
    inside = rows_inside(core, row)
    gpu = inside[is_kind(core.columns.kind[inside], GPU_KINDS)]
    largest = gpu[np.argsort(-core.columns.dur_ns[gpu], kind="stable")[:MOST_KERNELS]]
    return {
        "cpu_op_id": cpu_op_id,
        "why": why,
        "uid": int(core.columns.uid[row]),
        "metadata": _with_names(core, row, metadata_of_row(link.execution, row_of_node(link.execution, cpu_op_id))),
        "tracing": events_of_op(core, link, cpu_op_id),
        "kernels": [metadata_of_gpu_row(core, one) for one in largest.tolist()],
        "gpu_events": len(gpu),
        "returning": int(validation.leads_back(row, gpu).sum()),
    }


def _with_names(core: Core, row: int, metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata of an operator, its tensors with their names."""
    tensors = tensors_of(core)
    assert tensors is not None
    told = tensors.lineage
    sides = {}
    for side, uses in zip(("inputs", "outputs"), tensors.uses_at(row), strict=True):
        sides[side] = [
            {
                **tensor,
                "name": tensors.tensor_name(int(told.tensor[use])),
                "form": tensors.form(use),
                "storage": tensors.storage_name(int(told.storage[use])) if told.storage[use] >= 0 else None,
            }
            for tensor, use in zip(metadata[side], uses, strict=True)
        ]
    return {**metadata, **sides}
