"""Forward and backward work of a profile of JAX whose instructions are in no scopes: what their names alone tell."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.hlo.origin import Pass


def told_passes(core: Core, rows: np.ndarray) -> list[str]:
    """One line on the GPU time of each pass by the names of instructions; none where nothing is known of backward work.

    The names stand in the profile only, so the line is missing where that cannot be read any more.

    Args:
        core: the graph.
        rows: rows of GPU events.
    """
    c = core.columns
    rows = rows[c.owner[rows] >= 0]
    group, first = group_by(c.name[c.owner[rows]], c.argset[c.owner[rows]])
    uids = c.uid[c.owner[rows[first]]].tolist()
    try:
        events = core.details.events(uids)
    except TraceLensGraphError:
        return []
    passes = [one.value for one in Pass]
    arguments = (events.get(uid, {}).get("args") for uid in uids)
    told = [one.get("pass") if isinstance(one, dict) else None for one in arguments]
    code = np.array([passes.index(one) if one in passes else len(passes) for one in told], np.int64)
    ns = sum_by_group(code[group], c.dur_ns[rows], len(passes) + 1).tolist()
    if not ns[passes.index(Pass.backward.value)]:
        return []
    times = (f"{name} {time / 1e3:,.3f} us" for name, time in zip(passes, ns, strict=False) if time)
    return [f"by the names of instructions: {', '.join(times)}"]
