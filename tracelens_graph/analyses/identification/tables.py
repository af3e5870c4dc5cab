"""Identified kernels by layer and role."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.identification.calls import PREFIX
from tracelens_graph.analyses.identification.kernels import nothing_found, place_of, replayed_passes
from tracelens_graph.analyses.identification.layers import Place
from tracelens_graph.analyses.shared.gpu_work import names_of
from tracelens_graph.analyses.shared.grouping import Groups, group_by, text_codes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows

IDENTIFIED_KERNELS = TableSchema(
    "identified_kernels",
    "What replayed kernels are, by layer and role inferred from their names and order; ops and shapes of a capture.",
    {
        "layer": Column.key("number of the layer, from 0; absent beside the layers, and by role", "layer"),
        "block": Column.key("attention, mlp or moe; before or after the layers", "block", drop_priority=3),
        "role": Column.key("what the kernels do there", "role"),
        "op": Column.text("op that ran the first kernel, where a capture describes it", "op", drop_priority=-1),
        "shapes": Column.text(
            "dims of its inputs; inferred for products that no capture describes", "shapes", drop_priority=-1
        ),
        "kernels": Column.count("number of kernels", "kernels", drop_priority=2),
        "gpu_time_us": Column.total("sum of their durations", "us", "GPU us", compared="main"),
        "percent": Column.share("share of the sum of the durations of all GPU events", "% of GPU"),
        "confidence": Column("how sure it is, from 0 to 1, as the mean over the kernels", heading="confidence"),
        "out_of_order": Column.count("kernels out of the order of their layer; their times may be those of others"),
        "kernel": Column.text("short name of the first kernel", "kernel"),
        "uid": Column.instance("uid of the first kernel"),
    },
    counts="kernel",
    leads="role",
)


def identified_kernels(g: Core | Window, by: str = "layer") -> Table:
    """Replayed kernels by their identified layer, block and role, in the order of layers.

    Kernels are replayed from graphs, or run without an op. Layers are repeats of attention
    and what stands around it; roles follow from the grammar of kernel families.

    Args:
        by: layer, for a row per layer and role; role, for the same roles of all layers in one row, the greatest time
            first.

    Raises:
        AnalysisError: `by` is something else.
    """
    if by not in ("layer", "role"):
        raise AnalysisError(f"identified_kernels by={by!r}: rows are by layer or by role")
    w = window_of(g)
    core, c = w.core, w.core.columns
    rows, places = _inside(w)
    layer = np.array([place.layer for place in places], np.int64)
    is_after = np.array([place.slot.block == "after" for place in places], bool)
    roles = text_codes([f"{place.slot.block} {place.slot.role}" for place in places])
    at = np.where(is_after, layer.max(initial=0) + 1, layer)
    group, first = group_by(at if by == "layer" else np.zeros_like(at), roles)
    times = Groups(group, c.dur_ns[rows], len(first))
    sure = np.bincount(group, [place.confidence for place in places], len(first)) / np.maximum(times.count, 1)
    odd = np.bincount(group, [place.out_of_order for place in places], len(first)).astype(np.int64)
    owner = c.owner[rows[first]]
    given = np.where(owner >= 0, c.argset[owner], -1)
    heads = [places[at] for at in first.tolist()]
    whole = max(int(c.dur_ns[w.gpu_rows].sum()), 1)
    columns = {
        "layer": [place.layer if place.layer >= 0 and by == "layer" else None for place in heads],
        "block": [place.slot.block for place in heads],
        "role": [place.slot.role for place in heads],
        "op": [op if op and not op.startswith(PREFIX) else None for op in names_of(core, owner)],
        "shapes": [core.argsets[one][0] if one >= 0 else None for one in given.tolist()],
        "kernels": times.count,
        "gpu_time_us": times.sum / 1e3,
        "percent": 100 * times.sum / whole,
        "confidence": sure,
        "out_of_order": odd,
        "kernel": [short_name(core.names[code]) for code in c.name[rows[first]].tolist()],
        "uid": c.uid[rows[first]],
    }
    order = np.lexsort((c.start_ns[rows[first]], at[first] if by == "layer" else -times.sum))
    return IDENTIFIED_KERNELS.table(
        columns, w.titled("Identified kernels, inferred from names and order"), notes_on(core)
    ).take(order)


def _inside(w: Window) -> tuple[Rows, list[Place]]:
    """Identified kernels in the window, in order of time, and their places."""
    found = place_of(replayed_passes(w.core))
    rows = np.array([*found], np.int64)
    rows = rows[w.holds(rows)]
    rows = rows[np.lexsort((w.core.columns.uid[rows], w.core.columns.start_ns[rows]))]
    return rows, [found[row] for row in rows.tolist()]


def notes_on(core: Core) -> list[str]:
    """What is to be known of the identified kernels of a trace, a line each."""
    if not replayed_passes(core):
        return [f"{nothing_found(core)}, so nothing was identified"]
    odd = sum(place.out_of_order for place in place_of(replayed_passes(core)).values())
    if odd:
        return [
            f"{odd:,} kernels are recorded out of the order of their layers, as profilers of ROCm do with kernels of "
            "graphs, or kernels beside them were lost: their roles follow from the order of equal names, their times "
            "may be those of other kernels"
        ]
    return []
