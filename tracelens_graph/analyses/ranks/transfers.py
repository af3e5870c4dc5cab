"""Point-to-point transfers between ranks: who sent to whom."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.ranks.meetings import Meetings


def transfers(meetings: Meetings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The transfers of which both ends are known.

    Returns:
        For each the number of the collective, the part of the rank that sends, and that of the one that receives.
    """
    found = []
    for at in [at for at, kind in enumerate(meetings.kind) if kind == "send"]:
        parts = meetings.parts_of(at).tolist()
        sends = [_sends(meetings, part) for part in parts]
        if sorted(sends) == [False, True]:  # else nobody tells who of them sends
            found.append((at, parts[sends.index(True)], parts[sends.index(False)]))
    ends = np.array(found, np.int64).reshape(-1, 3)
    return ends[:, 0], ends[:, 1], ends[:, 2]


def _sends(meetings: Meetings, part: int) -> bool:
    """Whether a part of a transfer is that of the rank that sends: by both ends where recorded, else by its kind."""
    one, rank = meetings.parts.collective(part), meetings.attendances[meetings.trace[part]].rank
    ends = (one.source_rank, one.target_rank)
    return ends[0] == rank if None not in (*ends, rank) and ends[0] != ends[1] else one.kind == "send"
