"""Identified kernels by layer and role, and one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tracelens_graph.analyses.identification.kernels import all_passes, nothing_found, passes, place_of
from tracelens_graph.analyses.identification.layers import Place
from tracelens_graph.analyses.identification.pairs import Labels, common_labels
from tracelens_graph.analyses.shared.grouping import Groups, group_by, text_codes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceMember, TraceSet, titled
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows

IDENTIFIED_KERNELS = TableSchema(
    "identified_kernels",
    "What replayed kernels are that no capture describes, by layer and role; inferred from their names and order.",
    {
        "layer": Column.key("number of the layer, from 0; absent beside the layers, and by role", "layer"),
        "block": Column.key("attention, mlp or moe; before or after the layers", "block"),
        "role": Column.key("what the kernels do there", "role"),
        "kernels": Column.count("number of kernels", "kernels"),
        "gpu_time_us": Column.total("sum of their durations", "us", "GPU us", compared="main"),
        "percent": Column.share("share of the sum of the durations of all GPU events", "% of GPU"),
        "confidence": Column("how sure it is, from 0 to 1, as the mean over the kernels", heading="confidence"),
        "out_of_order": Column.count("kernels recorded out of the order of their layer: their times may be others'"),
        "kernel": Column.text("short name of the first kernel", "kernel"),
        "uid": Column.instance("uid of the first kernel"),
    },
    counts="kernel",
    leads="role",
)

IDENTIFIED_LABELS = TableSchema(
    "identified_labels",
    "Which place of the model each GPU event of two traces is, in labels that they share.",
    {
        "source": Column.text("trace1 or trace2, in the order in which they were given", "source"),
        "trace": Column.text("name of the trace", "trace"),
        "uid": Column.uid("the kernel"),
        "label": Column.text("layer, block and role; equal labels are equal places of the model", "label"),
        "confidence": Column(
            "how sure it is, from 0 to 1; absent for kernels that are in no pass of layers", heading="confidence"
        ),
        "gpu_time_us": Column("its duration", "us", heading="GPU us"),
        "kernel": Column.text("its name", "kernel"),
    },
    reads=("device", "external_id", "owner", "owner_rule", "stream", "thread"),
)


def identified_kernels(g: Core | Window, by: str = "layer") -> Table:
    """Replayed kernels by what they were identified as: layer, block and role; layers in their order.

    Kernels are replayed from graphs that no capture describes, or run without an op. Layers are repeats of attention
    and what stands around it; roles follow from the grammar of kernel families.

    Args:
        g: the graph, or a window of it.
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
    heads = [places[at] for at in first.tolist()]
    whole = max(int(c.dur_ns[w.gpu_rows].sum()), 1)
    columns = {
        "layer": [place.layer if place.layer >= 0 and by == "layer" else None for place in heads],
        "block": [place.slot.block for place in heads],
        "role": [place.slot.role for place in heads],
        "kernels": times.count,
        "gpu_time_us": times.sum / 1e3,
        "percent": 100 * times.sum / whole,
        "confidence": sure,
        "out_of_order": odd,
        "kernel": [short_name(core.names[code]) for code in c.name[rows[first]].tolist()],
        "uid": c.uid[rows[first]],
    }
    order = np.lexsort((c.start_ns[rows[first]], at[first] if by == "layer" else -times.sum))
    return IDENTIFIED_KERNELS.table(columns, w.titled("Identified kernels"), _notes(core)).take(order)


def identified_labels(traces: TraceSet, a: str | None = None, b: str | None = None) -> Table:
    """The labels of all GPU events of two traces, as of two platforms or batch sizes, in order of time.

    Kernels in layers are paired by their places, the others in the order in which they were launched. What one trace
    does differently in a block of a layer shares a label.

    Args:
        traces: the two traces; several, if `a` and `b` name two of them.
        a: path, name or id of one trace; by default the first of two.
        b: path, name or id of the other; by default the second.

    Raises:
        AnalysisError: these are not two traces.
    """
    if len(traces) != 2 and None in (a, b):
        there = "there is 1" if len(traces) == 1 else f"there are {len(traces):,}"
        raise AnalysisError(f"identified_labels: two traces are wanted, {there}")
    pair = traces.pair(a, b)
    both = zip(("trace1", "trace2"), pair, common_labels(pair[0].core, pair[1].core), strict=True)
    rows = [row for source, one, labels in both for row in _labelled(source, one, labels)]
    notes = [f"{one.name}: {note}" for one in pair for note in _notes(one.core)]
    return IDENTIFIED_LABELS.of_records(rows, titled("Labels of kernels", pair), notes)


def _labelled(source: str, one: TraceMember, labels: Labels) -> Iterable[dict[str, Any]]:
    core, c, places = one.core, one.core.columns, place_of(all_passes(one.core))
    rows = np.array([*labels], np.int64)
    rows = rows[one.window.holds(rows)]
    for row in rows[np.lexsort((c.uid[rows], c.start_ns[rows]))].tolist():
        yield {
            "source": source,
            "trace": one.name,
            "uid": int(c.uid[row]),
            "label": labels[row],
            "confidence": places[row].confidence if row in places else None,
            "gpu_time_us": int(c.dur_ns[row]) / 1e3,
            "kernel": core.names[c.name[row]],
        }


def _inside(w: Window) -> tuple[Rows, list[Place]]:
    """Identified kernels in the window, in order of time, and their places."""
    found = place_of(passes(w.core))
    rows = np.array([*found], np.int64)
    rows = rows[w.holds(rows)]
    rows = rows[np.lexsort((w.core.columns.uid[rows], w.core.columns.start_ns[rows]))]
    return rows, [found[row] for row in rows.tolist()]


def _notes(core: Core) -> list[str]:
    if not passes(core):
        return [f"{nothing_found(core)}, so nothing was identified"]
    odd = sum(place.out_of_order for place in place_of(passes(core)).values())
    if odd:
        return [
            f"{odd:,} kernels are recorded out of the order of their layers, as profilers of ROCm do with kernels of "
            "graphs, or kernels beside them were lost: their roles follow from the order of equal names, their times "
            "may be those of other kernels"
        ]
    return []
