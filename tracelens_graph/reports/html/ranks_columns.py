"""What the page of a job draws, in columns: a stretch of time over all ranks, and each rank's part in collectives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.matched_collectives import Meetings
from tracelens_graph.analyses.ranks.pictures import StepLanes
from tracelens_graph.reports.html.shell import Packed

MOST_SPLIT = 200_000
"""Parts of ranks in collectives, those of the collectives with most waiting."""

_COMPUTING, _WAITING, _MOVING = range(3)


def lane_columns(lanes: StepLanes) -> Mapping[str, Packed]:
    """Bars of the lanes that are of no single collective: lane, what (computing, waiting, communicating), start from
    the begin of the stretch, and duration, ns."""
    kinds = [("computing", _COMPUTING), ("waiting", _WAITING), ("moving", _MOVING)]
    rows = [
        (np.full(len(starts), place), np.full(len(starts), what), starts - lanes.begin_ns, ends - starts)
        for place, lane in enumerate(lanes.lanes)
        for field, what in kinds
        for starts, ends in [getattr(lane, field)]
    ]
    lane, what, start, dur = (
        (np.concatenate(one) for one in zip(*rows, strict=True)) if rows else [np.zeros(0, np.int64)] * 4
    )
    return {
        "bar.lane": Packed(lane, True), "bar.what": Packed(what), "bar.start": Packed(start, True),
        "bar.dur": Packed(dur),
    }  # fmt: skip


def part_columns(lanes: StepLanes, job: Job) -> Mapping[str, Packed]:
    """Parts of collectives that are drawn one by one: lane, start from the begin of the stretch, time that it waits,
    duration, one more than the number of the collective (0 for none), and one more than its size in bytes."""
    m, parts = job.meetings, lanes.parts
    place = {lane.rank: at for at, lane in enumerate(lanes.lanes)}
    # The last one stands for what is not matched, whose number is -1.
    size = np.append(job.figures.size, np.nan)[m.meeting[parts]]
    return {
        "part.lane": Packed(np.array([place[rank] for rank in m.trace[parts].tolist()], np.int64)),
        "part.start": Packed(m.start_ns[parts] - lanes.begin_ns, True),
        "part.wait": Packed(m.wait_ns[parts]),
        "part.dur": Packed(m.end_ns[parts] - m.start_ns[parts]),
        "part.collective": Packed(m.meeting[parts] + 1, True),
        "part.size": Packed(np.where(np.isnan(size), 0, np.nan_to_num(size) + 1).astype(np.int64)),
    }


def split_columns(m: Meetings) -> tuple[Mapping[str, Packed], int]:
    """How each rank's part of a collective is made up: number of the collective, rank, start from the first start, time
    that it waits, communicates, and stays longer than the first that ends, ns; and how many collectives are left out.
    """
    wait = np.bincount(m.meeting[m.meeting >= 0], m.wait_ns[m.meeting >= 0], minlength=len(m))
    by_wait = np.lexsort((np.arange(len(m)), -wait))
    taken = np.zeros(len(m) + 1, bool)
    taken[by_wait[np.cumsum(m.count[by_wait]) <= MOST_SPLIT]] = True
    parts = np.flatnonzero(taken[m.meeting])
    parts = parts[np.lexsort((m.trace[parts], m.meeting[parts]))]
    of = m.meeting[parts]
    columns = {
        "split.collective": Packed(of, True),
        "split.rank": Packed(m.trace[parts]),
        "split.start": Packed(m.start_ns[parts] - (m.first_start_ns[of] if len(of) else 0)),
        "split.wait": Packed(m.wait_ns[parts]),
        "split.transfer": Packed(m.transfer_ns[parts]),
        "split.skew": Packed(m.end_skew_ns[parts]),
    }
    return columns, len(m) - int(taken.sum())
