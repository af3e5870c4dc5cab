"""What pictures of ranks show: waits by rank and step, bandwidths by size of the message, one step over all ranks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.links import Link
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.rank_collectives import RankCollectives
from tracelens_graph.graph.intervals import Intervals, merge
from tracelens_graph.graph.ranks import rank_titles

MOST_RANKS, MOST_STEPS = 512, 200
"""Rows and columns; of more ranks some are chosen, of more steps neighbours are put together."""

LEAST_SHARE = 0.01
"""Share of a step from which on it matters that the others are held up."""

WHOLE = "whole recording"
"""What stands for a step where traces have none."""

_FIGURES = ("exposed_wait_ms", "held_up_ms", "device_step_ms")


@dataclass(frozen=True, eq=False)
class WaitMap:
    """Waits of ranks in steps.

    Attributes:
        ranks: places of the ranks in the job, one per row.
        labels: what to call them.
        steps: what to call the steps, one per column.
        wait_ms: exposed waiting, NaN where the rank has no such step.
        step_ms: duration of the step on the rank.
        held_up_ms: how long the rank held up the others.
        all_held_up_ms: for each row its sum over all steps.
        late: for each column the row that held up the others most, -1 where nobody did for more than `LEAST_SHARE`.
        notes: what is not shown.
    """

    ranks: list[int]
    labels: list[str]
    steps: list[str]
    wait_ms: np.ndarray
    step_ms: np.ndarray
    held_up_ms: np.ndarray
    all_held_up_ms: np.ndarray
    late: np.ndarray
    notes: list[str]

    @classmethod
    def of(cls, job: Job) -> WaitMap:
        """Those of a job, from its tables `rank_steps` and, without steps, `rank_balance`."""
        ranks = job.matched.ranks
        names, matrices = _matrices(job)
        held = np.nansum(matrices["held_up_ms"], axis=1)
        rows = chosen(held, MOST_RANKS)
        notes = _on_chosen(rows, ranks, "ranks are drawn: those that hold up the others most")
        together = -(-len(names) // MOST_STEPS)
        if together > 1:
            notes.append(f"each column is the mean of up to {together:,} steps, of {len(names):,}")
            matrices = {name: _means(matrix, together) for name, matrix in matrices.items()}
            names = [_span(names[at : at + together]) for at in range(0, len(names), together)]
        shown = {name: matrix[rows] for name, matrix in matrices.items()}
        return cls(
            rows.tolist(),
            [rank_titles(ranks)[row] for row in rows.tolist()],
            names,
            shown["exposed_wait_ms"],
            shown["device_step_ms"],
            shown["held_up_ms"],
            held[rows],
            _late(shown["held_up_ms"], shown["device_step_ms"]),
            notes,
        )


def _matrices(job: Job) -> tuple[list[str], dict[str, np.ndarray]]:
    """Names of steps, and each of `_FIGURES` by rank and step."""
    ranks = job.matched.ranks
    if not any(rank.steps for rank in ranks):
        table = job.table("rank_balance")
        columns = dict(zip(_FIGURES, ("exposed_wait_ms", "held_up_ms", "span_ms"), strict=True))
        return [WHOLE], {name: np.array(table[column], float)[:, None] for name, column in columns.items()}
    table = job.table("rank_steps")
    keys = step_keys(ranks)
    flat = [key for of_rank in keys for key in of_rank]
    known, column = np.unique(np.array(flat, np.int64), return_inverse=True)
    row = np.repeat(np.arange(len(ranks)), [len(of_rank) for of_rank in keys])
    found = {}
    for name in _FIGURES:
        matrix = np.full((len(ranks), len(known)), np.nan)
        matrix[row, column] = np.array(table[name], float)
        found[name] = matrix
    return [str(key) for key in known.tolist()], found


def step_keys(ranks: Sequence[RankCollectives]) -> list[list[int]]:
    """What stands for the steps of each rank: their numbers; where one has none, or twice the same, their places."""
    numbers = [[one.number for one in rank.steps] for rank in ranks]
    if any(None in of_rank or len(set(of_rank)) < len(of_rank) for of_rank in numbers):
        return [list(range(len(of_rank))) for of_rank in numbers]
    return [[number for number in of_rank if number is not None] for of_rank in numbers]


def chosen(weights: np.ndarray, most: int) -> np.ndarray:
    """Places to show of many, ascending: up to half of them for their weight, the others at equal distances."""
    if len(weights) <= most:
        return np.arange(len(weights))
    first = np.argsort(-weights, kind="stable")[: most // 2]
    first = first[weights[first] > 0]
    rest = np.setdiff1d(np.arange(len(weights)), first)
    evenly = rest[np.linspace(0, len(rest) - 1, most - len(first)).round().astype(np.int64)]
    return np.union1d(first, evenly)


def _on_chosen(shown: Sized, of: Sized, which: str) -> list[str]:
    """A note where not all are shown."""
    return [f"{len(shown):,} of {len(of):,} {which}, and others at equal distances"] if len(shown) < len(of) else []


def _means(matrix: np.ndarray, together: int) -> np.ndarray:
    """Means of neighbouring columns; NaN where all of them are."""
    lacking = -matrix.shape[1] % together
    padded = np.pad(matrix, ((0, 0), (0, lacking)), constant_values=np.nan)
    blocks = padded.reshape(len(matrix), -1, together)
    known = (~np.isnan(blocks)).sum(axis=2)
    total: np.ndarray = np.where(known > 0, np.nansum(blocks, axis=2) / np.maximum(known, 1), np.nan)
    return total


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]}-{names[-1]}"


def _late(held_up_ms: np.ndarray, step_ms: np.ndarray) -> np.ndarray:
    if not held_up_ms.size:
        return np.full(held_up_ms.shape[1], -1)
    known = np.nan_to_num(held_up_ms)
    row, columns = known.argmax(axis=0), np.arange(known.shape[1])
    durations = np.nan_to_num(step_ms[row, columns])
    late: np.ndarray = np.where(known[row, columns] > LEAST_SHARE * durations, row, -1)
    return late


MOST_POINTS = 2000
"""Collectives that are shown."""


@dataclass(frozen=True, eq=False)
class BandwidthPoints:
    """Collectives with known bandwidth and size.

    Attributes:
        kinds: kind -> rows of `rank_collectives`, the kind with most collectives first. Each has its `link`, how many
            `times_slower` that is than others of equal kind and size, and whether it `is_slow`.
        peaks: rates of the links, GB/s, the greatest first.
        device: name of the device of these links, None where not known.
        notes: what is not shown, and why.
    """

    kinds: Mapping[str, list[dict[str, Any]]]
    peaks: list[float]
    device: str | None
    notes: list[str]

    @classmethod
    def of(cls, job: Job) -> BandwidthPoints:
        """Those of a job, from its table `rank_collectives`."""
        records = job.table("rank_collectives").records()
        known = [row for row in records if _positive(row["message_bytes"]) and _positive(row["busbw_gb_s"])]
        notes = []
        if unknown := Counter(row["kind"] for row in records) - Counter(row["kind"] for row in known):
            kinds_left = ", ".join(f"{count:,} {kind}" for kind, count in unknown.most_common())
            notes.append(f"not drawn, since size or bandwidth are not known: {kinds_left}")
        shown = known
        if len(known) > MOST_POINTS:
            known.sort(key=lambda row: (row["kind"], row["message_bytes"], row["busbw_gb_s"]))
            places = np.linspace(0, len(known) - 1, MOST_POINTS).round().astype(int)
            shown = [known[at] for at in places.tolist()]
            notes.append(
                f"{len(shown):,} of {len(known):,} collectives are drawn, evenly spread over kinds, sizes and"
                " bandwidths"
            )
        kinds: dict[str, list[dict[str, Any]]] = {
            kind: [] for kind, _ in Counter(row["kind"] for row in known).most_common()
        }
        for row in shown:
            link = job.links.by_collective.get(row["collective"])
            about = {
                "link": link and job.figures.names.link(link.places, link.is_pair),
                "times_slower": link.factor if link and link.others else None,
                "is_slow": bool(link and link.is_slow),
            }
            kinds[row["kind"]].append(row | about)
        peaks = sorted({row["peak_gb_s"] for row in known if _positive(row["peak_gb_s"])}, reverse=True)
        device = job.figures.architecture
        return cls({kind: of for kind, of in kinds.items() if of}, peaks, device.name if device else None, notes)


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0


MOST_PAIRED = 64
"""Ranks whose pairs are shown."""


@dataclass(frozen=True, eq=False)
class PairMatrix:
    """Bandwidth from rank to rank: of the size of message that moved most between two ranks.

    Attributes:
        ranks: places of the ranks in the job, that send (rows) and receive (columns).
        pairs: row, column and link of each pair.
        notes: what is not shown.
    """

    ranks: list[int]
    pairs: list[tuple[int, int, Link]]
    notes: list[str]

    @classmethod
    def of(cls, job: Job) -> PairMatrix:
        """That of a job; without sends it has no ranks."""
        moved: dict[tuple[int, ...], Link] = {}
        for one in sorted((link for link in job.links.all if link.is_pair), key=_moved):
            moved[one.places] = one
        weight = np.zeros(len(job.matched.ranks))
        for places, one in moved.items():
            weight[list(places)] += max(one.excess_ns, 0.0) if one.is_slow else 0.0
        numbers = [(rank.rank is None, rank.rank or 0) for rank in job.matched.ranks]
        senders = {place for places in moved for place in places}
        there = np.array(sorted(senders, key=lambda place: (*numbers[place], place)), np.int64)
        ranks = there[chosen(weight[there], MOST_PAIRED)].tolist()
        row = {place: at for at, place in enumerate(ranks)}
        pairs = [(row[a], row[b], one) for (a, b), one in moved.items() if a in row and b in row]
        return cls(ranks, pairs, _on_chosen(ranks, there, "ranks that send are drawn: those with slow links"))


def _moved(link: Link) -> float:
    return link.size * len(link.collectives)


MOST_LANES = 48
"""Ranks that are shown; of more, some are chosen."""
MOST_PARTS = 1500
"""Parts of collectives that are shown one by one; further ones are put together."""
MOST_BARS = 12_000
"""Intervals of all lanes; where there are more, near ones become one."""
_FINEST = 4000
"""Parts of the time below which intervals are joined, at first."""


@dataclass(frozen=True, eq=False)
class Lane:
    """One rank; times on the common clock, ns.

    Attributes:
        rank: its place in the job.
        begins_ns: when its steps begin.
        computing: when it computes.
        waiting, moving: when it waits, and communicates, in collectives that are not shown one by one.
    """

    rank: int
    begins_ns: list[int]
    computing: Intervals
    waiting: Intervals
    moving: Intervals


@dataclass(frozen=True, eq=False)
class StepLanes:
    """A stretch of time over all ranks.

    Attributes:
        step: what stands for the step, None for the whole recording.
        begin_ns, end_ns: the stretch: from the first rank's begin of the step to the last one's end.
        lanes: the ranks.
        parts: parts of collectives that are shown one by one, by collective, then by rank.
        joined: the collectives that several of these are of.
        late_ns: those of them to which a rank comes late enough to matter, and how much later than the median of the
            others.
        notes: what is not shown.
    """

    step: int | None
    begin_ns: int
    end_ns: int
    lanes: list[Lane]
    parts: np.ndarray
    joined: list[int]
    late_ns: dict[int, int]
    notes: list[str]

    @classmethod
    def of(cls, job: Job) -> StepLanes:
        """The step of median duration; without steps the whole recording."""
        m = job.matched
        step, begin, end = _stretch(m)
        within = (m.end_ns > begin) & (m.start_ns < end)
        # All parts of a collective, so that its line leads to who came after the end of the stretch.
        there = np.flatnonzero(within | np.isin(m.number, m.number[within & (m.number >= 0)]))
        late_by = _late_by(job, there)
        ranks = chosen(late_by, MOST_LANES)
        notes = _on_chosen(ranks, m.ranks, "ranks are drawn: those that come latest")
        there = there[np.isin(m.trace[there], ranks)]
        single = _longest(m, there)
        rest = np.setdiff1d(there, single)
        if len(rest):
            notes.append(f"{len(rest):,} parts of shorter collectives are drawn without lines, near ones as one bar")
        raw = [_lane(m, rank, rest, begin, end) for rank in ranks.tolist()]
        lanes, finest = _coarse(raw, end - begin)
        if finest:
            notes.append(f"gaps of less than {finest / 1e3:,.3g} us between bars are not drawn")
        number = m.number[single]
        order = np.lexsort((m.trace[single], number))
        numbers, count = np.unique(number[number >= 0], return_counts=True)
        joined = numbers[count > 1].tolist()
        _, later = job.delays.held_up_ns
        late = {at: int(later[at]) for at in joined if later[at] > LEAST_SHARE * (end - begin)}
        return cls(step, begin, end, lanes, single[order], joined, late, notes)


def _stretch(m: MatchedCollectives) -> tuple[int | None, int, int]:
    """The step of median duration, mean over its ranks, and when it begins on the first and ends on the last rank."""
    times: dict[int, list[tuple[int, int]]] = {}
    for rank, keys in enumerate(step_keys(m.ranks)):
        steps = m.ranks[rank].steps
        begins = m.clock_ns(rank, np.array([one.start_ns for one in steps], np.int64)).tolist()
        ends = m.clock_ns(rank, np.array([one.end_ns for one in steps], np.int64)).tolist()
        for key, *time in zip(keys, begins, ends, strict=True):
            times.setdefault(key, []).append((time[0], time[1]))
    if not times:
        spans = [m.clock_ns(place, np.array(rank.span_ns)) for place, rank in enumerate(m.ranks)]
        known = np.concatenate([span for span in spans if span[1] > span[0]] or [np.zeros(1, np.int64)])
        return None, int(known.min()), int(known.max())
    mean = {key: sum(end - begin for begin, end in of) / len(of) for key, of in times.items()}
    step = sorted(mean, key=lambda key: (mean[key], key))[(len(mean) - 1) // 2]
    return step, min(begin for begin, _ in times[step]), max(end for _, end in times[step])


def _late_by(job: Job, there: np.ndarray) -> np.ndarray:
    """For each rank how much later than the others it comes to the collectives of some parts, where it is the last."""
    m = job.matched
    last, later = job.delays.held_up_ns
    at = np.unique(m.number[there][m.number[there] >= 0])
    at = at[last[at] >= 0]
    return np.bincount(last[at], weights=later[at], minlength=len(m.ranks))


def _longest(m: MatchedCollectives, there: np.ndarray) -> np.ndarray:
    """The parts of the collectives that take longest, all of a collective or none; what is not matched comes last."""
    number = m.number[there]
    key = np.where(number >= 0, number, len(m) + np.arange(len(there)))
    numbers, place, count = np.unique(key, return_inverse=True, return_counts=True)
    duration = np.bincount(place, weights=(m.end_ns - m.start_ns)[there], minlength=len(numbers))
    order = np.lexsort((-duration, numbers >= len(m)))
    taken = order[np.cumsum(count[order]) <= MOST_PARTS]
    return there[np.isin(place, taken)]


def _lane(m: MatchedCollectives, rank: int, rest: np.ndarray, begin: int, end: int) -> Lane:
    of_rank = m.ranks[rank]
    own = rest[m.trace[rest] == rank]
    start, stop, wait = m.start_ns[own], m.end_ns[own], m.wait_ns[own]
    steps = m.clock_ns(rank, np.array([one.start_ns for one in of_rank.steps], np.int64))
    starts, stops = (m.clock_ns(rank, edges) for edges in of_rank.gpu.computing)
    return Lane(
        rank,
        steps[(steps >= begin) & (steps < end)].tolist(),
        _within(starts, stops, begin, end),
        _within(start, start + wait, begin, end),
        _within(start + wait, stop, begin, end),
    )


def _within(start: np.ndarray, stop: np.ndarray, begin: int, end: int) -> Intervals:
    return merge(np.clip(start, begin, end), np.clip(stop, begin, end))


_BARS = ("computing", "waiting", "moving")


def _coarse(lanes: list[Lane], span: int) -> tuple[list[Lane], int]:
    """Lanes with at most `MOST_BARS` intervals in all, and the gaps that were closed for it, ns."""
    finest, found = 0, lanes
    while sum(len(getattr(lane, bar)[0]) for lane in found for bar in _BARS) > MOST_BARS:
        finest = max(2 * finest, span // _FINEST, 1)
        found = [_closed(one, finest) for one in lanes]
    return found, finest


def _closed(lane: Lane, finest: int) -> Lane:
    """A lane without gaps that are shorter."""
    bars: dict[str, Any] = {}
    for bar in _BARS:
        start, stop = getattr(lane, bar)
        start, stop = merge(start, stop + finest)
        bars[bar] = start, stop - finest
    return replace(lane, **bars)
