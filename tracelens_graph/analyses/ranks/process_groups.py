"""Which process group each collective of a job is of, and of transfers who sent to whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.ranks.meetings import Meetings


@dataclass(frozen=True, eq=False)
class ProcessGroups:
    """Process groups of collectives. A group is told by its ranks, by its name where these are not recorded.

    Attributes:
        number: for each collective the number of its group, in the order of their first collectives.
        name: for each collective what the rank that came last calls the group: its description, else its name.
        ranks: for each group its ranks, ascending; None where not recorded.
    """

    number: np.ndarray
    name: Sequence[str | None]
    ranks: Sequence[tuple[int, ...] | None]

    @classmethod
    def of(cls, meetings: Meetings) -> ProcessGroups:
        """Those of matched collectives."""
        numbers: dict[tuple[int, ...] | str | None, int] = {}
        names, number = [], []
        for at, part in enumerate(meetings.last_part.tolist()):
            last = meetings.parts.collective(part)
            known = next((one.ranks for one in meetings.said(at) if one.ranks), None)
            key = tuple(sorted(known)) if known else last.group
            number.append(numbers.setdefault(key, len(numbers)))
            names.append(last.group_description or last.group)
        ranks = [key if isinstance(key, tuple) else None for key in numbers]
        return cls(np.array(number, np.int64), names, ranks)


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
