"""What the ranks of a job tell of one another, for tracks: who waited for whom in collectives, and the job's path.

A collective is split as `ranks` does it: a rank waits until the last one has come, then all communicate until the first
leaves; what is left is time in which the others are done.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.critical_path.critical_path import CriticalPath, critical_path
from tracelens_graph.analyses.ranks.matched_collectives import Meetings
from tracelens_graph.graph.trace_set import TraceSet, rank_titles
from tracelens_graph.reports.tracks import Met, Others, Slice, Track, path_slices

PATH = "critical path of the job"


class JobTracks:
    """The ranks of a job, for the tracks of each.

    Args:
        traces: the ranks, as whole graphs.
        meetings: which of their collectives are one, and on which clock they are; its ranks in the same order.

    Attributes:
        titles: what people call each rank.
    """

    def __init__(self, traces: TraceSet, meetings: Meetings) -> None:
        self._traces, self._meetings = traces, meetings
        self.titles: Sequence[str] = rank_titles(traces)

    def of(self, place: int, is_alone: bool) -> Others:
        """What the others tell of a rank.

        Args:
            place: its place in the set.
            is_alone: its tracks are those of no other rank beside it, so that the path is shown on all of them; else
                its part of the path.
        """
        return Others(self._met(place), Track(PATH, self._path_of(place, is_alone)))

    def path(self) -> Track:
        """The critical path of the job on the common clock; each segment says which rank it is of."""
        path = self._path
        if path is None:
            return Track(PATH, [])
        return Track(PATH, self._with_ranks(path_slices(path, path.start_ns, path.end_ns), ""))

    @cached_property
    def _path(self) -> CriticalPath | None:
        if not any(len(one.core.gpu_rows) for one in self._traces):
            return None
        return critical_path(self._traces, meetings=self._meetings)

    def _path_of(self, place: int, is_alone: bool) -> list[Slice]:
        path = self._path
        if path is None:
            return []
        times = (self._meetings.own_ns(place, times) for times in (path.start_ns, path.end_ns))
        slices = path_slices(path, *times)
        if is_alone:
            return self._with_ranks(slices, self.titles[place])
        own = self._number(place)
        return [one for one in slices if one.args.get("rank") == own]

    def _with_ranks(self, slices: Sequence[Slice], but: str) -> list[Slice]:
        """Slices of a path, each with the rank before its name, but for those of one rank."""
        of_rank = {self._number(place): title for place, title in enumerate(self.titles) if title != but}
        named = []
        for one in slices:
            title = of_rank.get(one.args.get("rank", -1), "")
            named.append(Slice(f"{title}: {one.name}" if title else one.name, one.start_ns, one.dur_ns, one.args))
        return named

    def _number(self, place: int) -> int:
        number = self._traces[place].rank
        return place if number is None else number

    def _met(self, place: int) -> dict[int, Met]:
        """By the row of its first kernel what a rank did in each collective."""
        m = self._meetings
        alone = dict(m.unmatched)
        found = {}
        for part in np.flatnonzero(m.trace == place).tolist():
            row = m.parts.collective(part).rows[0]
            number = int(m.meeting[part])
            if number < 0:
                found[row] = Met((), {"not_matched": alone[part]})
                continue
            wait, moving, after = (int(ns[part]) for ns in (m.wait_ns, m.transfer_ns, m.end_skew_ns))
            last = self.titles[int(m.trace[m.last_part[number]])]
            stretches = [(f"waiting for {last}", wait), ("communicating", moving), ("others are done", after)]
            told = {
                "collective": number, "came_last": last, "wait_us": wait / 1e3, "communication_us": moving / 1e3,
                "after_others_us": after / 1e3, "ranks": int(m.count[number]),
            }  # fmt: skip
            found[row] = Met(stretches, told)
        return found
