"""Ranks without their delays: what takes longer on them than on all others takes the median of theirs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.critical_path.lanes import Key, Lane, Lanes, compared_by
from tracelens_graph.analyses.critical_path.rerun import Latency
from tracelens_graph.analyses.stragglers.rank_work import pipelines
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.ranks import rank_called, rank_number
from tracelens_graph.utils.arrays import Mask, Ns, Rows
from tracelens_graph.utils.texts import counted

LATE_SHARE, LATE_NS = 0.1, 1_000
"""What takes this much longer than the median of the others, and longer than on any of them, is late."""

_SIGMAS, _LEAST, _FEWEST = 4.0, 0.02, 6
"""Kernels of one name that take longer than those of the others by so many standard errors of their mean, and by this
share, are late together, if they are this many at least."""
_OF_MEDIAN = 1.57
"""Variance of the median of many over that of their mean."""

Bounds = dict[Latency, Ns]
"""The least, the usual, and the most that other ranks take."""

Repair = Mapping[tuple[int, str, int], tuple[Rows, Bounds]]
"""Lane of a rank -> places in it that take otherwise, and how long."""


class Repairs(NamedTuple):
    """Ranks without their delays.

    Attributes:
        of_rank: place of a repaired rank -> what it takes otherwise.
        words: what is repaired.
        notes: what a reader must know.
    """

    of_rank: Mapping[int, Repair]
    words: str
    notes: list[str]


def repairs_of(job: JobCauses, rank: int | str | Sequence[int | str]) -> Repairs:
    """Some ranks of a job without their delays.

    Args:
        job: the ranks.
        rank: which are repaired; see `what_if`.

    Raises:
        AnalysisError: no rank is called so, most collectives ran on the host, or no other rank does the like.
    """
    called = [rank] if isinstance(rank, int | str) else rank
    places = list(dict.fromkeys(place for one in called for place in _ranks(job, one)))
    if not job.is_covered:
        raise AnalysisError(
            "what_if: repair: most collectives ran on the host, where waiting counts as host time, so what "
            "a repair saves is not known"
        )
    if len(job.traces) < 2 or job.matched is None:
        raise AnalysisError("what_if: repairing a rank takes other ranks to compare it with")
    stage, lanes = pipelines(job.matched)[1].tolist(), [one.lanes for one in job.did]
    found = {place: _Compared(lanes, place, places, stage) for place in places}
    if not any(one.is_any for one in found.values()):
        raise AnalysisError(
            f"what_if: repair: no other rank does work like that of {', '.join(map(str, called))}, so what "
            "a repair saves is not known"
        )
    words = (
        f"rank {rank_number(job.traces, places[0])} as its median peer"
        if len(places) == 1
        else f"{', '.join(f'rank {one}' if isinstance(one, int) else one for one in called)} as their median peers"
    )
    notes = [
        f"rank {rank_number(job.traces, place)} does not run the same as any other in "
        f"{counted(len(one.unlike), 'step')}: there its calls and kernels are compared with those of the same name"
        for place, one in found.items()
        if one.unlike
    ]
    return Repairs({place: one.repair for place, one in found.items()}, words, notes)


_SEVERAL = re.compile(r"(stage|host)[:_ ]?(\d{1,6})")


def _ranks(job: JobCauses, called: int | str) -> list[int]:
    """Places of the ranks that are meant: one, those of a stage or a host, or all."""
    if called == "all":
        return list(range(len(job.traces)))
    named = [at for at, one in enumerate(job.traces) if str(called) == one.value_of("host")]
    several = _SEVERAL.fullmatch(str(called))
    if several is not None and job.matched is not None:
        numbers = pipelines(job.matched)[1] if several[1] == "stage" else job.matched.hosts
        named = [at for at, number in enumerate(numbers) if number == int(several[2])]
    try:
        return named or [rank_called(job.traces, called)]
    except AnalysisError as error:
        raise AnalysisError(f"what_if: repair: {error}") from None


class _Like(NamedTuple):
    """A lane of a rank beside the like of others.

    Attributes:
        known: which of its work can be compared.
        bounds: what that takes elsewhere.
        is_same: whether another rank does the same there.
    """

    place: tuple[int, str, int]
    lane: Lane
    known: Mask
    bounds: Bounds
    is_same: bool


class _Compared:
    """What is late on a rank, by comparing the same stretches of other ranks.

    Stretches are the same if they are at the same place in the same step, and the calls, or GPU events, of the thread
    or stream are the same there. Where no other rank does the same, its work is compared by name.

    Args:
        of_ranks: what the threads and streams of each rank did.
        ordinal: place of the rank among them.
        among: places of ranks that are repaired together with it, which are no measure for it unless all are.
        stage: per rank its pipeline stage; ranks of one stage run the same program.

    Attributes:
        repair: what it takes otherwise.
        is_any: whether any work of the rank could be compared with that of others.
        unlike: steps in which no other rank runs the same.
    """

    def __init__(self, of_ranks: Sequence[Lanes], ordinal: int, among: Sequence[int], stage: Sequence[int]) -> None:
        beside = {ordinal} if len(among) == len(of_ranks) else {ordinal, *among}
        others = [at for at in range(len(of_ranks)) if at not in beside]
        self.repair: dict[tuple[int, str, int], tuple[Rows, Bounds]] = {}
        self.unlike: set[int] = set()
        self.is_any = False
        compared: list[_Like] = []
        for place, lane in of_ranks[ordinal].items():
            found = {at: one for at in others if (one := of_ranks[at].get(place)) is not None}
            same = [one for one in found.values() if one.names == lane.names]
            if same:
                known, bounds = _by_place(lane, same)
            else:
                self.unlike.add(place[0])
                peers = [one for at, one in found.items() if stage[at] == stage[ordinal]]
                known, bounds = _by_name(lane, peers or list(found.values()), place[1], bool(peers))
            self.is_any |= bool(known.any())
            if not same:  # of what no other rank does it is not known how long it would take
                unknown = ~known & (lane.takes >= 0)
                bounds["least"][unknown] = 0
                bounds["usual"][unknown] = bounds["most"][unknown] = lane.takes[unknown]
            compared.append(_Like(place, lane, known, bounds, bool(same)))
        slow = _slow_kernels(compared, len(others))
        for place, lane, known, bounds, is_same in compared:
            late = known & (lane.takes > bounds["most"])
            late &= lane.takes > bounds["usual"] * (1 + LATE_SHARE) + LATE_NS
            if not is_same:
                late |= ~known & (lane.takes >= 0)
            if slow and place[1] == "gpu":
                late |= known & np.fromiter((name in slow for name in lane.names), bool, len(lane.names))
            if late.any():
                self.repair[place] = np.flatnonzero(late), {bound: values[late] for bound, values in bounds.items()}


def _slow_kernels(compared: Sequence[_Like], others: int) -> set[str]:
    """Names of kernels that are late together, though each alone may be within what it takes elsewhere."""
    ratios: dict[str, list[float]] = {}
    for place, lane, known, bounds, _ in compared:
        if place[1] == "gpu":
            for at in np.flatnonzero(known & (bounds["usual"] > 0)).tolist():
                ratios.setdefault(lane.names[at], []).append(lane.takes[at] / bounds["usual"][at] - 1)
    slow = set()
    for name, found in ratios.items():
        error = (
            np.std(found, ddof=1) * np.sqrt((1 + _OF_MEDIAN / others) / len(found)) if len(found) >= _FEWEST else np.inf
        )
        if np.mean(found) > max(_SIGMAS * error, _LEAST):
            slow.add(name)
    return slow


def _by_place(lane: Lane, same: Sequence[Lane]) -> tuple[Mask, Bounds]:
    """Which work of a lane can be compared with that of others with the same names, and what it takes there."""
    theirs = np.stack([one.takes for one in same]).astype(float)
    # Of ranks that are handed that work by another thread it shows nothing: stages may make equal calls.
    theirs[(theirs < 0) | (np.stack([one.own for one in same]) != lane.own)] = np.nan
    known = (lane.takes >= 0) & ~np.isnan(theirs).all(axis=0)
    theirs = np.where(known, theirs, 0)
    return known, {
        "least": np.nanmin(theirs, axis=0).astype(np.int64),
        "usual": np.rint(np.nanmedian(theirs, axis=0)).astype(np.int64),
        "most": np.nanmax(theirs, axis=0).astype(np.int64),
    }


def _by_name(lane: Lane, others: Sequence[Lane], what: str, is_same_program: bool) -> tuple[Mask, Bounds]:
    """The same for lanes that run other things: kernels by name and place, host time by the calls around it.

    Kernels beyond those of ranks with the same program take nothing there, as long as they are the lesser part.
    """
    theirs: dict[Key, list[int]] = {}
    for other in others:
        for key, takes in zip(compared_by(other, what, is_same_program), other.takes.tolist(), strict=True):
            if takes >= 0:
                theirs.setdefault(key, []).append(takes)
                if what == "host":
                    theirs.setdefault(key[1:], []).append(takes)
    # A call that follows another one than on other ranks is compared with all calls of its name.
    keys = [key if key in theirs or what == "gpu" else key[1:] for key in compared_by(lane, what, is_same_program)]
    known = np.array([key in theirs for key in keys], bool) & (lane.takes >= 0)
    further = ~known & (lane.takes >= 0)
    if what == "gpu" and is_same_program and further.sum() <= known.sum():
        known |= further
    found = [theirs.get(key, [0]) for key in keys]
    return known, {
        "least": np.array([min(one) for one in found], np.int64),
        "usual": np.array([round(float(np.median(one))) for one in found], np.int64),
        "most": np.array([max(one) for one in found], np.int64),
    }
