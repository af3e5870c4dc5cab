"""The unified table of a report beside another trace, by lowest common ancestors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.alignment.common_ancestors import Ancestor, TraceLensDiff, ratio
from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.analyses.performance.perf_tables import (
    UNIFIED_COMPARISON,
    attributed_calls,
    example_uids,
    rows_of_calls,
)
from tracelens_graph.graph.window import Window
from tracelens_graph.tables.table import Table

_BEHIND = "Kernel Time (µs)_sum"


def compared_with(w: Window, other: Window) -> TraceLensDiff:
    """A window, trace1, against another, trace2; found once."""
    return w.once(_compared, other)


def _compared(w: Window, other: Window) -> TraceLensDiff:
    return TraceLensDiff(diff(w, other))


def with_comparison(unified: Table, w: Window, difference: TraceLensDiff, recompute: bool = False) -> Table:
    """`unified_perf_summary` with what its calls took in another trace, by lowest common ancestor (LCA).

    A row has the LCAs of its GPU events. An LCA around the work of several rows stands whole in each of them; a note
    counts these.

    Args:
        unified: the table of the window.
        difference: the window against another.
        recompute: whether the table separates recomputation of activations from the rest.
    """
    ancestors = difference.ancestors
    of_event = {row: at for at, one in enumerate(ancestors) if one.node is not None for row in one.events[0]}
    calls, alone = attributed_calls(w)
    group, first = rows_of_calls(calls, alone, recompute)
    found: dict[int, set[int]] = {}
    uids = example_uids(calls, alone, first).tolist()
    for event, row in zip(calls.gpu.tolist(), group[calls.of].tolist(), strict=True):
        if event in of_event:
            found.setdefault(uids[row], set()).add(of_event[event])
    columns: dict[str, list[Any]] = {name: [] for name in UNIFIED_COMPARISON}
    for uid, kernel_us in zip(unified["ex_UID"], unified[_BEHIND], strict=True):
        chosen = [ancestors[at] for at in sorted(found.get(uid, ()))]
        for name, cell in _cells(chosen, float(kernel_us)).items():
            columns[name].append(cell)
    names = list(unified.columns)
    place = names.index(_BEHIND) + 1
    every = {**unified.columns, **columns}
    ordered = {name: every[name] for name in [*names[:place], *UNIFIED_COMPARISON, *names[place:]]}
    counts = np.bincount([at for places in found.values() for at in places], minlength=len(ancestors))
    shared = int((counts > 1).sum())
    notes = [f"{shared:,} lowest common ancestors hold work of several rows, and count whole in each"] if shared else []
    about = {**unified.about, **UNIFIED_COMPARISON}
    return replace(
        unified, columns=ordered, about={name: about[name] for name in ordered if name in about},
        notes=[*unified.notes, *notes],
    )  # fmt: skip


def _cells(ancestors: list[Ancestor], kernel_us: float) -> dict[str, Any]:
    if not ancestors:
        return dict.fromkeys(UNIFIED_COMPARISON)
    first, second = (sum(one.busy_ns[side] for one in ancestors) for side in (0, 1))
    return {
        "speedup (trace2/trace1)": ratio(second, first),
        "delta_us (trace2 - trace1)": second / 1e3 - kernel_us,
        "lca_count_trace2": sum(bool(one.events[1]) for one in ancestors),
        "lca_id": "; ".join(str(one.node) for one in ancestors),
        "lca_name": "; ".join(str(one.name) for one in ancestors),
        "lca_total_kernel_time_trace1_us": first / 1e3,
        "lca_total_kernel_time_trace2_us": second / 1e3,
        "speedup_of_trace2": ratio(first, second),
    }
