"""What the operations of recorded ranks would take where work is even.

Ranks that run the same kernels at the same place of a step take the mean of these; what is left between ranks that run
others, as the stages of a pipeline do, is spread evenly. Transfers of equal collectives take the median. Host time
between two calls takes the median of equal stretches; the published definition leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.critical_path.lanes import Lane, Lanes, compared_by
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT, ends_of
from tracelens_graph.analyses.stragglers.even_on_rank import Even
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

KINDS = ("computation", "host")
"""Types of operations that every job has; see `even_on_rank`."""

SAME_SHARE = 0.5
"""A rank that does this share of the same as others, from the beginning and to the end, is compared with them in it."""

_Ideal = dict[tuple[int, str, int], Ns]
"""Lane -> what each of it would take; -1 for what is no operation."""


def ideals(job: JobCauses, apart: Mask, stage: Codes, between_programs: bool) -> tuple[list[str], list[Even]]:
    """The types of operations of a job, and what those of each rank would take.

    Args:
        job: the ranks.
        apart: ranks that are not compared.
        stage: per rank its pipeline stage.
        between_programs: spread work evenly also over ranks that run different programs, as stages of a pipeline do.
    """
    of_ranks: list[Lanes] = [{} if apart[at] else one.lanes for at, one in enumerate(job.did)]
    ideal: list[_Ideal] = [{key: np.full(len(lane.names), -1) for key, lane in one.items()} for one in of_ranks]
    for what in ("gpu", "host"):
        _even_out(of_ranks, what, stage, ideal)
    if between_programs:
        _spread(of_ranks, ideal)
        _limit(of_ranks, stage, ideal)
    return [*KINDS, *(of := _Transfers(job)).kinds], [of.even(at, lanes) for at, lanes in enumerate(ideal)]


_Member = tuple[Lane, Rows, Ns]
"""A lane, the place of each of it among those that it is compared with, -1 for none, and what each would take."""


def _even_out(of_ranks: Sequence[Lanes], what: str, stage: Codes, ideal: Sequence[_Ideal]) -> None:
    """Let lanes that do the same take the same."""
    by_place: dict[int, dict[tuple[str, ...], dict[int, list[tuple[Lane, Ns]]]]] = {}
    for ordinal, found in enumerate(of_ranks):
        for key, lane in found.items():
            if key[1] == what:
                same = by_place.setdefault(key[2], {}).setdefault(lane.names, {})
                same.setdefault(ordinal, []).append((lane, ideal[ordinal][key]))
    for signatures in by_place.values():
        joined: dict[tuple[str, ...], list[_Member]] = {}
        for names, ranks in signatures.items():
            home, position = _home(names, ranks, signatures, stage)
            members = [(lane, position, takes) for lanes_of in ranks.values() for lane, takes in lanes_of]
            joined.setdefault(home, []).extend(members)
            if what == "gpu" and home != names and _stages(signatures[home], stage) >= _stages(ranks, stage):
                # What no other rank of the stage runs is not spread over them: none of it is even work.
                for lane, _, takes in members:
                    takes[(position < 0) & (lane.takes >= 0)] = 0
        for home, compared in joined.items():
            _make_typical(compared, len(home), what)


def _stages(ranks: Iterable[int], stage: Codes) -> set[int]:
    return {int(stage[one]) for one in ranks}


def _home(
    names: tuple[str, ...],
    ranks: Mapping[int, object],
    signatures: Mapping[tuple[str, ...], Mapping[int, object]],
    stage: Codes,
) -> tuple[tuple[str, ...], Rows]:
    """The names that those of a lane are compared with, and the place of each among them; -1 for none.

    These are its own where other ranks have the same; else the most alike of more ranks.
    """
    best, most = names, (np.arange(len(names)), SAME_SHARE * len(names))
    for other, of in signatures.items():
        if len(of) > len(ranks) and (len(ranks) < 2 or _stages(of, stage) == _stages(ranks, stage)):
            place = _common(names, other)
            if (count := int((place >= 0).sum())) >= most[1]:
                best, most = other, (place, count + 1)
    return best, most[0]


def _common(names: Sequence[str], other: Sequence[str]) -> Rows:
    """Per name the place of the same one in others, counted from the beginning, then from the end; -1 for none."""
    shorter = min(len(names), len(other))
    first = next((at for at in range(shorter) if names[at] != other[at]), shorter)
    last = next((at for at in range(shorter - first) if names[-1 - at] != other[-1 - at]), shorter - first)
    place = np.full(len(names), -1)
    place[:first] = np.arange(first)
    place[len(names) - last :] = np.arange(len(other) - last, len(other))
    return place


def _make_typical(members: Sequence[_Member], length: int, what: str) -> None:
    """Let all of a place take the same: the mean, or of host time the median, which is no more than was taken."""
    takes = np.full((len(members), length), -1)
    own = np.zeros((len(members), length), bool)
    for at, (lane, place, _) in enumerate(members):
        takes[at, place[place >= 0]] = lane.takes[place >= 0]
        own[at, place[place >= 0]] = lane.own[place >= 0]
    takes[own != own[0]] = -1
    count = (takes >= 0).sum(axis=0)
    if what == "gpu":
        typical = np.rint(np.where(takes >= 0, takes, 0).sum(axis=0) / np.maximum(count, 1)).astype(np.int64)
    else:
        # Unknown times are sorted behind all others.
        ascending = np.sort(np.where(takes >= 0, takes, np.iinfo(np.int64).max), axis=0)
        typical = ascending[np.maximum(count - 1, 0) // 2, np.arange(length)]
    for at, (_, place, ideal) in enumerate(members):
        known = np.flatnonzero(place >= 0)
        known = known[takes[at, place[known]] >= 0]
        ideal[known] = typical[place[known]]
        if what == "host":  # no work that others could do: a delay would be gone, not shared
            ideal[known] = np.minimum(ideal[known], takes[at, place[known]])


def _spread(of_ranks: Sequence[Lanes], ideal: Sequence[_Ideal]) -> None:
    """Scale GPU work so that all ranks have equally much of it in a step."""
    totals: dict[int, dict[int, int]] = {}
    for ordinal, found in enumerate(of_ranks):
        for key, lane in found.items():
            if key[1] == "gpu":
                takes = np.where(ideal[ordinal][key] >= 0, ideal[ordinal][key], lane.takes)
                of_step = totals.setdefault(key[0], {})
                of_step[ordinal] = of_step.get(ordinal, 0) + int(takes[lane.takes >= 0].sum())
    for ordinal, of_rank in enumerate(ideal):
        for (step, what, _), takes in of_rank.items():
            if what == "gpu" and (own := totals[step][ordinal]):
                factor = float(np.mean(list(totals[step].values()))) / own
                takes[takes >= 0] = np.rint(takes[takes >= 0] * factor)


def _limit(of_ranks: Sequence[Lanes], stage: Codes, ideal: Sequence[_Ideal]) -> None:
    """Let the host of a stage take no longer between two calls than that of any other stage does anywhere."""
    most: dict[int, dict[tuple[object, ...], int]] = {}
    of_stages = [
        (int(stage[at]), lane, ideal[at][key])
        for at, found in enumerate(of_ranks)
        for key, lane in found.items()
        if key[1] == "host"
    ]
    if len({one for one, _, _ in of_stages}) < 2:
        return
    for one, lane, _ in of_stages:
        longest = most.setdefault(one, {})
        for key, takes in zip(compared_by(lane, "host"), lane.takes.tolist(), strict=True):
            longest[key] = max(longest.get(key, -1), takes)
            longest[key[1:]] = max(longest.get(key[1:], -1), takes)
    for one, lane, now in of_stages:
        others = [longest for other, longest in most.items() if other != one]
        limit = np.array([_longest(others, key) for key in compared_by(lane, "host")], np.int64)
        known = (limit >= 0) & (now >= 0)
        now[known] = np.minimum(now[known], limit[known])


def _longest(others: Sequence[Mapping[tuple[object, ...], int]], key: tuple[object, ...]) -> int:
    longest = max(one.get(key, -1) for one in others)
    return longest if longest >= 0 else max(one.get(key[1:], -1) for one in others)


class _Transfers:
    """What moving data takes: the median of equal collectives that all ranks took part in.

    What ranks without a file make others wait is not known: they are taken to hold nobody up. Collectives that lack
    ranks take no longer than equal ones, or the fastest of them, in all replays.
    """

    def __init__(self, job: JobCauses) -> None:
        self._job, m, part = job, job.matched, job.meetings.part
        self._ideal, self._type = np.full(len(part), -1), np.full(len(part), -1)
        self._alone: list[dict[int, int]] = [{} for _ in job.traces]
        self.kinds: list[str] = []
        if m is None or not len(part):
            return
        takes = np.concatenate([one.moves_ns for one in job.did])
        number = m.number[part]
        passes = self._passes
        is_whole = (m.count[number] >= m.group_size[number]) & (passes[part] < 0)
        keys = [self._key(at) for at in part.tolist()]
        equal: dict[tuple[object, ...], list[int]] = {}
        for at in np.flatnonzero((takes >= 0) & is_whole).tolist():
            equal.setdefault(keys[at], []).append(at)
        self.kinds = list(dict.fromkeys(str(key[0]) for key in equal))
        usual = {key: int(np.median(takes[of])) for key, of in equal.items()}
        for key, of in equal.items():
            self._ideal[of], self._type[of] = usual[key], len(KINDS) + self.kinds.index(str(key[0]))
        lacking = np.flatnonzero((takes >= 0) & ~is_whole).tolist()
        alone = self._parts_alone()
        took = [(keys[at], int(takes[at])) for at in lacking]
        took += [(self._key(at), int(m.parts.end_ns[at] - m.parts.start_ns[at])) for at in alone]
        for key, ns in took:
            if key not in equal:
                usual[key] = min(ns, usual.get(key, ns))
        for at in lacking:
            least = int(passes[part[at]])
            self._ideal[at] = min(usual[keys[at]] if least < 0 else least, int(takes[at]))
        for at in alone:
            self._alone[m.trace[at]] |= dict.fromkeys(m.parts.kernels(at), usual[self._key(at)])

    def _key(self, part: int) -> tuple[object, ...]:
        """What equal collectives have in common."""
        assert self._job.matched is not None
        one = self._job.matched.parts.form_of(part)
        size = one.in_bytes if one.kind in POINT_TO_POINT else (one.in_bytes, one.out_bytes)
        return one.kind, size, one.group_size, self._job.meetings.bridges.ahead.get(part)

    @cached_property
    def _passes(self) -> Ns:
        """Per part how long at least what follows from a rank without a file takes; -1 of others. See `bridged`."""
        m = self._job.matched
        assert m is not None
        found = np.full(len(m.number), -1)
        for one in self._job.meetings.bridges.over:
            found[np.isin(m.number, m.number[one.follows])] = one.moves_ns
        return found

    def _parts_alone(self) -> list[int]:
        """Parts on the GPU that fit those of no other rank, as no other rank of the group has a file."""
        m = self._job.matched
        assert m is not None
        there = {one.rank for one in m.ranks}
        others = [
            {*(ends_of(one) if one.kind in POINT_TO_POINT else one.ranks or ())} - {None} for one in m.parts.forms
        ]
        is_alone = np.array(
            [
                not one.on_host and len(of) > 1 and len(of & there) < 2
                for one, of in zip(m.parts.forms, others, strict=True)
            ]
        )
        is_send = np.array([one.kind == "send" for one in m.parts.forms], bool)
        return np.flatnonzero(((m.number < 0) | is_send[m.parts.form]) & is_alone[m.parts.form]).tolist()

    def even(self, rank: int, lanes: _Ideal) -> Even:
        """What operations of a rank would take.

        Args:
            rank: its place.
            lanes: what those that are no transfers would take.
        """
        own = slice(*self._job.meetings.first[rank : rank + 2].tolist())
        return Even(lanes, self._ideal[own], self._type[own], self._alone[rank])
