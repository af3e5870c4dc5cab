"""Which process group each collective of a job is of."""

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
