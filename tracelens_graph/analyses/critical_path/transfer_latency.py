"""How much of the time of collectives is latency, which no bandwidth shortens.

A message takes a latency, and then its bytes over the bandwidth of its link. Two sizes on a link show both: a straight
line through the median of the least and of the most bytes meets 0 bytes at the latency. Bytes are those that the link
carries (`sizes.RULES`), so that kinds of collectives lie on one line.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracelens_graph.analyses.critical_path.rerun import Latency
from tracelens_graph.analyses.ranks.links import LATENCY_BYTES
from tracelens_graph.analyses.ranks.sizes import Messages, ring_latency_ns, ring_steps
from tracelens_graph.analyses.shared.grouping import text_codes
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.collectives import Collective
from tracelens_graph.utils.arrays import Ns

_APART = 2.0
"""Sizes that differ by this factor show what is latency."""


def latencies_of(own: Sequence[Collective], ns: Ns) -> dict[Latency, Ns]:
    """Latency of each of some collectives of a rank, ns: the least that it may be, the usual, and the most.

    All three are that of the line where there are two sizes of one kind on one link. A line through several kinds is
    the usual one. Without two sizes that is what NCCL reckons for a ring; the least is 0, and the most what the
    smallest message takes. A message below 64 KiB is latency.

    Args:
        own: the collectives.
        ns: how long each takes once all have come.
    """
    messages = Messages.of(own)
    steps = np.array(
        [ring_steps(one.kind, one.group_size or len(one.ranks or ()) or 2, None not in _ends(one)) for one in own]
    )
    moved = messages.size * messages.factor
    usual = np.where(np.isnan(moved), 0.0, ring_latency_ns(steps))
    least, most = np.zeros(len(own)), ns.astype(float)
    if not np.isnan(moved).all():
        smallest = moved <= np.nanmin(moved)
        grows = np.maximum(steps / np.median(steps[smallest]), 1.0)
        most = np.median(ns[smallest]) * grows
    link = text_codes([one.group_key if None in (ends := _ends(one)) else ends for one in own])
    kind = text_codes([(of, one.kind) for of, one in zip(link.tolist(), own, strict=True)])
    for code, found in ((link, (usual,)), (kind, (least, usual, most))):
        for _, of in positions_by(code):
            if (latency := _at_no_bytes(moved[of], ns[of])) is not None:
                for one in found:
                    one[of] = latency
    small = messages.size < LATENCY_BYTES
    bounds: dict[Latency, np.ndarray] = {"least": least, "usual": usual, "most": most}
    return {bound: np.rint(np.where(small, ns, np.clip(one, 0, ns))).astype(np.int64) for bound, one in bounds.items()}


def _ends(one: Collective) -> tuple[int | None, int | None]:
    return one.source_rank, one.target_rank


def _at_no_bytes(moved: np.ndarray, ns: Ns) -> float | None:
    """What a message of no bytes would take; None where sizes do not show it."""
    low, high = moved <= np.nanmin(moved, initial=np.inf), moved >= np.nanmax(moved, initial=0.0)
    if not (low.any() and high.any()) or moved[high][0] < _APART * moved[low][0]:
        return None
    slope = (np.median(ns[high]) - np.median(ns[low])) / (moved[high][0] - moved[low][0])
    return float(np.median(ns[low]) - max(slope, 0.0) * moved[low][0])
