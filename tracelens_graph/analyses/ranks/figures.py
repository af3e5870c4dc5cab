"""What the collectives of a job cost, and their process groups.

Waiting is not communication: how long a collective really takes shows on the rank that came last, for which nobody
had to wait. Sizes and factors of bandwidths are in `sizes`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.names import Names
from tracelens_graph.analyses.ranks.sizes import Messages, bus_factors, gb_per_s
from tracelens_graph.graph.arrays import lower_medians, positions_by
from tracelens_graph.graph.collective_kinds import kind_of
from tracelens_graph.graph.intervals import length_before, merge, overlapping, union
from tracelens_graph.perf.devices import Architecture, detect
from tracelens_graph.perf.roofs import peak_bus_bandwidth
from tracelens_graph.utils.arrays import Codes, Ns, Rows

NOISE = 3.0
"""How many times as late as ranks come by chance is late for a reason."""


DELAYS_ADD_UP = (
    "one delay counts again in every collective that it delays, so a repair saves less: `ranks --what-if repair=RANK` "
    "shows how much"
)
"""What holds of a sum of delays, in the definition of a column."""
HELD_UP = "held up ms counts one delay again in each collective that it delays, so a repair saves less"
"""The same below a table."""


class Figures:
    """What each collective cost.

    Args:
        matched: the collectives.
        architecture: the device; by default that of the traces, if all have the same.

    Attributes:
        matched: the collectives.
    """

    def __init__(self, matched: MatchedCollectives, architecture: Architecture | None = None) -> None:
        self.matched = matched
        self._architecture = architecture

    @cached_property
    def architecture(self) -> Architecture | None:
        """The device of all ranks; None where it is not known or they differ."""
        if self._architecture is not None:
            return self._architecture
        found = [detect(rank.properties) for rank in self.matched.ranks if rank.held]
        same = found and all(isinstance(one, Architecture) and one == found[0] for one in found)
        return found[0] if same and isinstance(found[0], Architecture) else None

    @cached_property
    def latency_ns(self) -> np.ndarray:
        """Duration of the part that came last to each collective: nobody keeps it waiting."""
        m = self.matched
        return (m.end_ns - m.start_ns)[m.last_part]

    @cached_property
    def size(self) -> np.ndarray:
        """Size of the message of each collective in bytes, NaN where not known: the largest that a rank records."""
        m = self.matched
        sizes = Messages.of(m.parts.forms).size[m.parts.form[m.order]]
        return np.fmax.reduceat(sizes, m.first) if len(m) else sizes

    @cached_property
    def algorithm_bandwidth(self) -> np.ndarray:
        """GB/s of each collective."""
        return gb_per_s(self.size, self.latency_ns)

    @cached_property
    def bus_bandwidth(self) -> np.ndarray:
        """GB/s of each collective on the links."""
        return self.algorithm_bandwidth * bus_factors(self.matched.kind, self.ranks)

    @cached_property
    def ranks(self) -> np.ndarray:
        """Ranks of the process group of each collective; of one that is not recorded those that took part."""
        return np.where(self.matched.group_size > 0, self.matched.group_size, self.matched.count)

    @cached_property
    def groups(self) -> ProcessGroups:
        """The process group of each collective."""
        return ProcessGroups.of(self.matched)

    @cached_property
    def names(self) -> Names:
        """What ranks, hosts, switches and links are called."""
        return Names(self.matched, self.groups.name)

    @cached_property
    def columns(self) -> Mapping[str, Sequence[Any]]:
        """What is known of each collective, by name: times in ns on the common clock, None for what is not known."""
        m, groups, trace = self.matched, self.groups, self.matched.trace[self.matched.last_part]
        last = [m.parts.collective(part) for part in m.last_part.tolist()]
        late = [m.ranks[place] for place in trace.tolist()]
        ranks = [groups.ranks[number] for number in groups.number.tolist()]
        ends: dict[int, list[int | None]] = {}
        for at, *parts in zip(*(each.tolist() for each in transfers(m)), strict=True):
            ends[at] = [m.ranks[m.trace[part]].rank for part in parts]
        computing = m.reduced(np.add, self.computing_ns)
        on_gpu = m.reduced(np.logical_or, np.array([one.has_gpu_work for one in m.ranks], bool)[m.trace])
        recorded = partial(m.reduced, values=m.parts.start_ns)
        ns = {
            "start": m.first_start_ns,
            "last_start": m.last_start_ns,
            "dur": m.last_end_ns - m.first_start_ns,
            "start_skew": m.last_start_ns - m.first_start_ns,
            "recorded_start_skew": recorded(np.maximum) - recorded(np.minimum),
            "end_skew": m.last_end_ns - m.first_end_ns,
            "wait": m.total_wait_ns,
            "latency": self.latency_ns,
            "shortest": m.shortest_ns,
            "longest": m.longest_ns,
            "duration_spread": m.longest_ns - m.shortest_ns,
            "exposed": m.reduced(np.add, m.end_ns - m.start_ns) - computing,
        }
        return {
            "number": range(len(m)),
            "kind": m.kind,
            "key": [one.key for one in last],
            "group": groups.name,
            "process_group": groups.number.tolist(),
            "group_ranks": [None if one is None else json.dumps(one) for one in ranks],
            "group_size": [size or None for size in m.group_size.tolist()],
            "source_rank": [ends.get(at, (None, None))[0] for at in range(len(m))],
            "target_rank": [ends.get(at, (None, None))[1] for at in range(len(m))],
            "sequence": [one.sequence for one in last],
            "step": self.step,
            "dtype": [one.dtype for one in last],
            "ranks": m.count.tolist(),
            "hosts": self.hosts,
            "message_bytes": [None if size is None else int(size) for size in known(self.size)],
            "algbw_gb_s": known(self.algorithm_bandwidth),
            "busbw_gb_s": known(self.bus_bandwidth),
            "peak_gb_s": known(self.peak),
            "percent_of_peak": known(100 * self.bus_bandwidth / self.peak),
            "last_trace": [one.name for one in late],
            "last_rank": [one.rank for one in late],
            **{f"{name}_ns": times.tolist() for name, times in ns.items()},
            "overlapped_ns": [ns if there else None for ns, there in zip(computing.tolist(), on_gpu, strict=True)],
        }

    @cached_property
    def hosts(self) -> list[int | None]:
        """Number of hosts of each collective, None where not known."""
        m, found = self.matched, []
        for at in range(len(m)):
            hosts = {m.hosts[trace] for trace in m.trace[m.parts_of(at)].tolist()}
            found.append(None if None in hosts else len(hosts))
        return found

    @cached_property
    def peak(self) -> np.ndarray:
        """Rate of the links that each collective uses, GB/s; NaN where not known."""
        rate = peak_bus_bandwidth(self.architecture) if self.architecture else None
        return np.array([np.nan if rate is None or hosts != 1 else rate for hosts in self.hosts], float)

    @cached_property
    def computing_ns(self) -> np.ndarray:
        """For each part how long its rank computed meanwhile."""
        m = self.matched
        found = np.zeros(len(m.parts), np.int64)
        for trace, here in positions_by(m.trace):
            begun, done = (times[here] for times in (m.parts.own_start_ns, m.parts.own_end_ns))
            computing = m.ranks[trace].gpu.computing
            found[here] = length_before(computing, done) - length_before(computing, begun)
        return found

    def exposed_wait_ns(self, trace: int, parts: np.ndarray) -> int:
        """How long a rank waited in some of its parts while it did not compute; what overlaps counts once."""
        start = self.matched.parts.own_start_ns[parts]
        return self.exposed_ns(trace, start, start + self.matched.wait_ns[parts])

    def bubble_ns(self, trace: int) -> int | None:
        """How long a pipeline stage did nothing: of its steps what is left beside computing, collectives and transfers.

        Waiting for a transfer counts as nothing. None for a rank that sends and receives nothing, or has no GPU work,
        so that nothing shows when it computes.
        """
        m, rank = self.matched, self.matched.ranks[trace]
        parts = m.parts.of_rank(trace)
        sends = m.parts.is_transfer[parts]
        if not sends.any() or not rank.has_gpu_work:
            return None
        begun = m.parts.own_start_ns[parts] + np.where(sends, m.wait_ns[parts], 0)
        working = union(rank.gpu.computing, merge(begun, m.parts.own_end_ns[parts]))
        measured = np.array(rank.measured_ns)
        return int(measured[1] - measured[0] - np.diff(length_before(working, measured))[0])

    @cached_property
    def exchanged_bytes(self) -> np.ndarray:
        """For each part of an uneven all-to-all the bytes that its rank got, such as tokens of an expert; else NaN."""
        parts = self.matched.parts
        got = [one.out_bytes if kind_of(one.kind) == "all_to_allv" else None for one in parts.forms]
        return np.array([np.nan if one is None else one for one in got], float)[parts.form]

    def exposed_ns(self, trace: int, start_ns: np.ndarray, end_ns: np.ndarray) -> int:
        """Length of the union of some stretches, on the clock of a rank's trace, in which the rank does not compute."""
        computing = self.matched.ranks[trace].gpu.computing
        start, end = merge(start_ns, end_ns)
        if not len(start):
            return 0
        # Of all that is computed only what is near, as this is asked for step by step.
        computing = overlapping(computing, start[0], end[-1])
        return int((end - start - length_before(computing, end) + length_before(computing, start)).sum())

    @cached_property
    def step(self) -> list[int | None]:
        """Number of the step in which most ranks launched each collective; None outside of steps."""
        m, found = self.matched, []
        for at in range(len(m)):
            numbers = Counter(m.step_of(part) for part in m.parts_of(at).tolist())
            found.append(numbers.most_common(1)[0][0])
        return found

    @cached_property
    def held_up_ns(self) -> tuple[np.ndarray, np.ndarray]:
        """Which rank came last to each collective, and how much later than the median start of the others.

        Place of the rank among the ranks, -1 where several came last; and ns.
        """
        return held_up_by(self.matched, self.later_ns)

    @cached_property
    def later_ns(self) -> tuple[np.ndarray, Ns]:
        """Matched parts by collective and start, and how much later each came than the median of those before it."""
        return later_by(self.matched, self.matched.start_ns)

    @cached_property
    def chance_ns(self) -> Ns:
        """For each collective how late ranks come by chance at most: as in all of its kind and number of ranks, and of
        these in all at its place of the step.

        That is how much a rank's place among the others differs from step to step, and how far apart the earlier half
        comes; both are little where few are late, and where a rank is late always.
        """
        m = self.matched
        order, _ = self.later_ns
        of, rank = m.number[order], m.trace[order]
        middle = m.start_ns[order[m.first + (m.count - 1) // 2]]
        early = np.where(m.count > 2, middle - m.first_start_ns, 0)
        apart = m.start_ns[order] - middle[of]
        kind = np.unique(
            [f"{kind} {count}" for kind, count in zip(m.kind, m.count.tolist(), strict=True)], return_inverse=True
        )[1]
        in_step: dict[tuple[int, int, int | None], int] = defaultdict(int)
        index = []
        # Ranks of a group may be compared in parts, of one clock each.
        for key in zip(self.groups.number.tolist(), m.reduced(np.minimum, m.trace).tolist(), self.step, strict=True):
            index.append(in_step[key])
            in_step[key] += 1
        group_place = np.array(index)[of]
        _, same = np.unique(np.stack([rank, self.groups.number[of], group_place]), axis=1, return_inverse=True)
        differs = np.abs(apart - lower_medians(same.ravel(), apart)[same.ravel()])
        place = np.unique(np.stack([kind, np.array(index, np.int64)]), axis=1, return_inverse=True)[1].ravel()
        noise = [_usual(one, of, rank, differs, early) for one in (kind, place)]
        return (NOISE * np.maximum(*noise)).astype(np.int64)

    @cached_property
    def mean_span_ns(self) -> float:
        """Mean of how long the ranks were recorded; 0 without any."""
        spans = [end - start for start, end in (rank.span_ns for rank in self.matched.ranks)]
        return float(np.mean(spans)) if spans else 0.0


def _usual(alike: Codes, of: Rows, rank: Codes, differs: Ns, early: Ns) -> np.ndarray:
    """For each collective how much ranks differ in those alike: the larger one of two medians, ns.

    Args:
        alike: per collective a number, the same for those alike.
        of, rank: per part its collective and its rank.
        differs: per part how much its place among the others differs from the usual one.
        early: per collective how far apart the earlier half comes.
    """
    keys, of_rank = np.unique(np.stack([alike[of], rank]), axis=1, return_inverse=True)
    usual = lower_medians(of_rank.ravel(), differs)
    noise = [
        max(1.48 * np.median(usual[keys[0] == one]), np.median(early[alike == one]))
        for one in range(int(alike.max(initial=-1)) + 1)
    ]
    return np.array(noise)[alike] if len(alike) else np.zeros(0)


def later_by(m: MatchedCollectives, start_ns: Ns) -> tuple[np.ndarray, Ns]:
    """As `Figures.later_ns`, if parts of collectives started at these moments."""
    # Of several that come together the one of the smallest rank is behind the others.
    order = m.order[np.lexsort((-np.arange(len(m.order)), start_ns[m.order], m.number[m.order]))]
    first = np.repeat(m.first, m.count)
    place = np.arange(len(order)) - first
    low, high = (start_ns[order[first + np.maximum(place - up, 0) // 2]] for up in (1, 0))
    return order, (2 * start_ns[order] - low - high) // 2


def held_up_by(m: MatchedCollectives, later: tuple[np.ndarray, Ns]) -> tuple[np.ndarray, Ns]:
    """As `Figures.held_up_ns`, of parts and how late they came."""
    at = m.first + m.count - 1
    part, later_ns = later[0][at], later[1][at]
    return np.where(later_ns > 0, m.trace[part], -1), later_ns


def known(values: np.ndarray) -> list[float | None]:
    """Values, None for NaN."""
    return [None if np.isnan(value) else value for value in values.tolist()]


@dataclass(frozen=True, eq=False)
class ProcessGroups:
    """Process groups of collectives. A group is known by its ranks, by its name where these are not recorded.

    Attributes:
        number: for each collective the number of its group, in the order of their first collectives.
        name: for each collective what the rank that came last calls the group: its description, else its name.
        ranks: for each group its ranks, ascending; None where not recorded.
    """

    number: np.ndarray
    name: Sequence[str | None]
    ranks: Sequence[tuple[int, ...] | None]

    @classmethod
    def of(cls, matched: MatchedCollectives) -> ProcessGroups:
        """Those of matched collectives."""
        numbers: dict[tuple[int, ...] | str | None, int] = {}
        names, number = [], []
        ascending = [tuple(sorted(one.ranks)) if one.ranks else None for one in matched.parts.forms]
        for at, part in enumerate(matched.last_part.tolist()):
            last = matched.parts.form_of(part)
            codes = np.unique(matched.parts.form[matched.parts_of(at)]).tolist()
            known = next((ranks for code in codes if (ranks := ascending[code])), None)
            key = known or last.group
            number.append(numbers.setdefault(key, len(numbers)))
            names.append(last.group_description or last.group)
        ranks = [key if isinstance(key, tuple) else None for key in numbers]
        return cls(np.array(number, np.int64), names, ranks)


def transfers(matched: MatchedCollectives) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The transfers with both ends known.

    Returns:
        For each the number of the collective, the part of the rank that sends, and that of the one that receives.
    """
    found = []
    for at in [at for at, kind in enumerate(matched.kind) if kind == "send"]:
        parts = matched.parts_of(at).tolist()
        sends = [_sends(matched, part) for part in parts]
        if sorted(sends) == [False, True]:  # else nothing shows which of them sends
            found.append((at, parts[sends.index(True)], parts[sends.index(False)]))
    ends = np.array(found, np.int64).reshape(-1, 3)
    return ends[:, 0], ends[:, 1], ends[:, 2]


def _sends(matched: MatchedCollectives, part: int) -> bool:
    """Whether a part of a transfer is that of the rank that sends: by both ends where recorded, else by its kind."""
    one, rank = matched.parts.form_of(part), matched.ranks[matched.trace[part]].rank
    ends = (one.source_rank, one.target_rank)
    return ends[0] == rank if None not in (*ends, rank) and ends[0] != ends[1] else one.kind == "send"
