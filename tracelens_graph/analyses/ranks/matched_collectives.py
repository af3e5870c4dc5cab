"""The collectives that ranks of a job took part in together, on one clock.

Parts are matched (`matching`), and clocks of several hosts are corrected by the ends of what was matched (`clocks`).
Then what was matched is verified: a rank that waits for the last one runs its kernel meanwhile, so the kernels of one
collective overlap, or are short and end close together. What does neither is not one collective, or its clocks cannot
be compared. Only where a trace names the process group, and the kind lets ranks leave before others have come, it need
not be so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.ranks.clocks import Clocks, RankClock, Way, clocks_by_ends, with_transfers
from tracelens_graph.analyses.ranks.matching import SAME_END_NS, matched
from tracelens_graph.analyses.ranks.numbers import are_together, by_time, split_by_end
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT, Parts, PartsByCollective
from tracelens_graph.analyses.ranks.rank_collectives import Nodes, RankCollectives
from tracelens_graph.graph.arrays import distinct, lower_medians
from tracelens_graph.graph.collectives import Collective
from tracelens_graph.graph.deferred import Deferred
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.utils.arrays import Codes, Rows

ALONE = "no other rank has it"
NONE_NEAR = f"no other rank has one of its kind that ends within {SAME_END_NS / 1e6:g} ms of it"
NO_PARTNER = "the other end of the transfer is not recorded"
APART = f"it neither overlaps with the others nor ends within {SAME_END_NS / 1e6:g} ms of them"


@dataclass(frozen=True, eq=False)
class _Verified:
    number: np.ndarray
    reason: np.ndarray


def _by_clock(number: Codes, clock: Codes) -> Codes:
    """Numbers from 0 on for collectives by number, and of each those whose clocks have a number, ascending."""
    return distinct(number.astype(np.int64) * (int(clock.max(initial=0)) + 1) + clock)[1]


class MatchedCollectives(PartsByCollective):
    """Collectives of several ranks.

    Args:
        ranks: the ranks: a set of their traces, or what each took part in.
        correct: correct the clocks of several hosts by the ends of collectives.
        whole: the same ranks with all of their traces, where `ranks` are parts of these; windows in a set know
            theirs.
        left_out: which traces are no ranks of the job, and why, in words.

    Attributes:
        ranks: the ranks.
        left_out: as given.
        parts: their parts in collectives, as recorded.
        trace, node: per part the place of its rank, and of its collective in what that held.
        nodes: which ranks run on one host.
        hosts: the number of the host of each rank, None where not known.
    """

    def __init__(
        self,
        ranks: TraceSet | Sequence[RankCollectives],
        correct: bool = True,
        whole: TraceSet | None = None,
        left_out: Sequence[str] = (),
    ) -> None:
        given = [RankCollectives.of(one) for one in ranks] if isinstance(ranks, TraceSet) else list(ranks)
        self._windows = whole if any(one.part for one in given) else None
        if isinstance(ranks, TraceSet) and not all(
            isinstance(one.graph, Deferred) or one.window.is_whole for one in ranks
        ):
            self._windows = ranks
        self.ranks: list[RankCollectives] = given
        self.left_out = tuple(left_out)
        self.is_corrected = correct
        self.parts = Parts.of(given)
        self.trace, self.node = self.parts.trace, self.parts.node
        known = [rank for rank in given if rank.rank is not None]
        self.nodes = Nodes.of(
            [one.rank or 0 for one in known], [one.host for one in known], [one.devices for one in known]
        )
        self.hosts = [None if one.rank is None else self.nodes.node_of(one.rank) for one in given]

    @property
    def part(self) -> str:
        """What sums are over: the whole recording, or the part of it that was looked at."""
        parts = dict.fromkeys(one.part for one in self.ranks)
        return next(iter(parts), "") or "the whole recording" if len(parts) < 2 else "the chosen parts"

    # --- clocks --------------------------------------------------------------------------------------------------

    @cached_property
    def _host_of(self) -> np.ndarray:
        """For each rank the number of its host; who is of an unknown one has one alone."""
        unknown = len(self.ranks)
        named = [unknown + place if host is None else host for place, host in enumerate(self.hosts)]
        return np.unique(np.array(named, np.int64), return_inverse=True)[1]

    @cached_property
    def whole(self) -> MatchedCollectives:
        """The collectives of the whole traces, of whose windows these are; else these.

        Clocks are those of the whole: a step may have too few collectives to show them.
        """
        if self._windows is None:
            return self
        return MatchedCollectives(self._windows.whole(), self.is_corrected)

    @cached_property
    def clock_of(self) -> np.ndarray:
        """For each rank the number of its clock: ranks of one host share one, but for those that plainly do not."""
        if self.whole is not self:
            return self.whole.clock_of
        clock_of = self._host_of.copy()
        for host in range(int(clock_of.max(initial=-1)) + 1):
            ranks = np.flatnonzero(self._host_of == host)
            ranks = ranks[np.isfinite(self.estimated.error_ns[ranks])]
            if not len(ranks):
                continue
            apart = self.estimated.offset_ns[ranks] - np.median(self.estimated.offset_ns[ranks])
            odd = np.abs(apart) > SAME_END_NS
            clock_of[ranks[odd]] = clock_of.max() + 1 + np.arange(int(odd.sum()))
        return np.unique(clock_of, return_inverse=True)[1]

    @cached_property
    def _matched(self) -> np.ndarray:
        return matched(self.parts, self._host_of)

    @cached_property
    def estimated(self) -> Clocks:
        """The clock of each rank by the ends of collectives, against that of the first rank; corrected or not."""
        return clocks_by_ends(self.parts, self._matched, np.arange(len(self.ranks)))

    @cached_property
    def clocks(self) -> Clocks:
        """The clock of each host by the ends of collectives, as far as these show it."""
        if self.whole is not self:
            return self.whole.clocks
        if np.array_equal(self.clock_of, np.arange(len(self.ranks))):
            found = self.estimated
        else:
            found = clocks_by_ends(self.parts, self._matched, self.clock_of)
        if not np.isfinite(found.error_ns).all() and self.parts.on_host.any():
            with_host = clocks_by_ends(self.parts, self._matched, self.clock_of, on_host=True)
            found = max(found, with_host, key=lambda one: int(np.isfinite(one.error_ns).sum()))
        if not np.isfinite(found.error_ns).all() and None not in self.hosts:
            found = with_transfers(found, self._ways)
        return found.beyond_doubt()

    @cached_property
    def _ways(self) -> list[Way]:
        """What transfers between clocks show of these."""
        parts, clock = self.parts, self.clock_of[self.parts.trace]
        rows = np.flatnonzero(parts.is_transfer & (self._matched >= 0))
        rows = rows[np.argsort(self._matched[rows], kind="stable")]
        first = np.flatnonzero(self._matched[rows][1:] == self._matched[rows][:-1])
        of: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for one, other in zip(rows[first].tolist(), rows[first + 1].tolist(), strict=True):
            if clock[one] == clock[other]:
                continue
            ends = (parts.form_of(one).source_rank, self.ranks[parts.trace[one]].rank)
            send, receive = (one, other) if ends[0] == ends[1] else (other, one)
            takes = min(int(parts.end_ns[part] - parts.start_ns[part]) for part in (send, receive))
            way = int(clock[send]), int(clock[receive])
            of[way].append((int(parts.end_ns[receive] - parts.start_ns[send]), takes))
        return [Way(*way, *(min(times) for times in zip(*seen, strict=True))) for way, seen in of.items()]

    @cached_property
    def _together_clock(self) -> np.ndarray:
        """For each rank a number, equal for those whose clocks can be compared: known ones, or one of their own."""
        if self.whole is not self:
            return self.whole._together_clock
        if not self._unknown_clocks:
            return np.zeros(len(self.ranks), np.int64)
        return np.where(np.isfinite(self.clocks.error_ns[self.clock_of]), 0, 1 + self.clock_of)

    @cached_property
    def comparable(self) -> MatchedCollectives:
        """The same, with only those ranks of a collective together whose clocks can be compared."""
        if not self.unknown_clocks:
            return self
        number = _by_clock(self.number, self._together_clock[self.trace])
        return self.numbered(np.where((self.number >= 0) & (np.bincount(number)[number] > 1), number, -1))

    def numbered(self, number: np.ndarray) -> MatchedCollectives:
        """The same parts as other collectives; -1 for none."""
        made = copy(self)
        own = (
            "ranks", "parts", "is_corrected", "nodes", "hosts", "_windows", "start_ns", "end_ns", "trace", "node",
            "left_out",
        )  # fmt: skip
        made.__dict__ = {name: getattr(self, name) for name in own} | {"number": by_time(number, self.start_ns)}
        if self.whole is not self:
            made.__dict__["whole"] = self.whole
        return made

    def clock_ns(self, rank: int, times_ns: np.ndarray) -> np.ndarray:
        """Times on the clock of a rank's trace, put on the common clock.

        Args:
            rank: place in `ranks`.
            times_ns: int64, ns from the start of its trace.
        """
        return self.rank_clock(rank)(rank, times_ns)

    def rank_clock(self, rank: int) -> RankClock:
        """The clock of a rank, by its place in `ranks`; see `clock_ns`."""
        only = self.clocks.only(int(self.clock_of[rank])) if self._is_moved else None
        return RankClock(int(self.parts.shift_ns[rank]), only)

    @cached_property
    def _is_moved(self) -> bool:
        return self.is_corrected and bool(self.clocks.offset_ns.any() or self.clocks.drift.any())

    def own_ns(self, rank: int, times_ns: np.ndarray) -> np.ndarray:
        """Times on the common clock, put on the clock of a rank's trace: the other way round of `clock_ns`.

        Args:
            rank: place in `ranks`.
            times_ns: int64, ns.
        """
        own = times_ns.astype(np.int64)
        for _ in range(2):  # clocks that drift differ by little, so the second correction is below a nanosecond
            own = own + times_ns - self.clock_ns(rank, own)
        return own

    def _corrected(self, times_ns: np.ndarray, trace: np.ndarray) -> np.ndarray:
        return self.clocks.of(times_ns, self.clock_of[trace]) if self._is_moved else times_ns

    # --- what was matched ----------------------------------------------------------------------------------------

    @cached_property
    def start_ns(self) -> np.ndarray:
        """Start of each part on the common clock."""
        return self._corrected(self.parts.start_ns, self.trace)

    @cached_property
    def end_ns(self) -> np.ndarray:
        """End of each part on the common clock."""
        return self._corrected(self.parts.end_ns, self.trace)

    @cached_property
    def _verified(self) -> _Verified:
        start, end = self.start_ns, self.end_ns
        pair = split_by_end(self._matched, end, self.parts.is_barrier & ~self.parts.is_recorded)
        number = pair.copy()
        reason = np.zeros(len(number), np.int8)
        # Times of clocks that cannot be compared contradict no recorded numbers.
        clock = np.where(self.parts.sequence >= 0, self._together_clock[self.trace], 0)
        within = _by_clock(pair, clock)
        apart = np.zeros(int(pair.max(initial=-1)) + 1, bool)
        np.logical_or.at(apart, pair, ~are_together(within, start, end)[within])
        apart &= ~self._may_leave_early(pair)
        if apart.any():
            # Of a collective that does not hold together, what ends with most of it is kept.
            odd = apart[pair] & (np.abs(end - lower_medians(within, end)[within]) > SAME_END_NS)
            held = np.where(odd, -1, pair)
            count = int(pair.max(initial=-1)) + 1
            left = np.bincount(held[held >= 0], minlength=count)
            whole = np.bincount(pair, minlength=count)
            # A majority has to agree: of two that disagree nobody knows which is meant.
            fails = apart & ((2 * left <= whole) | (left < 2))
            number[odd | fails[pair]] = -1
            reason[odd | fails[pair]] = 2
        kept = number >= 0
        whole_before = np.bincount(self._matched, minlength=int(self._matched.max(initial=-1)) + 1)
        alone = np.bincount(number[kept], minlength=int(pair.max(initial=-1)) + 1) < 2
        lonely = kept & alone[pair]
        number[lonely] = -1
        was_split = (whole_before > 1)[self._matched[lonely]]
        reason[lonely] = np.select((self.parts.lacks_partner[lonely], was_split), (3, 4), 1)
        return _Verified(by_time(number, start).astype(np.int32), reason)

    def _may_leave_early(self, number: np.ndarray) -> np.ndarray:
        """For each number whether its process group is known and ranks may leave before others come."""
        early = np.ones(int(number.max(initial=-1)) + 1, bool)
        parts = self.parts
        early[number[parts.is_barrier | ~parts.is_known | ~parts.is_recorded]] = False
        return early

    @cached_property
    def number(self) -> np.ndarray:
        """Number of the collective that each part is of, by first start; -1 where it was not matched."""
        return self._verified.number

    def step_of(self, part: int) -> int | None:
        """Number of the step in which a part was launched; None outside of steps."""
        rank = self.ranks[self.trace[part]]
        place = rank.step_of[self.node[part]] if len(rank.step_of) else -1
        return rank.steps[place].number if place >= 0 else None

    def members(self, number: int) -> list[Collective]:
        """What its ranks know of a collective."""
        return [self.parts.collective(part) for part in self.parts_of(number).tolist()]

    @cached_property
    def kind(self) -> list[str]:
        """Kind of each collective; of a transfer `send`."""
        kinds = [self.parts.form_of(part).kind for part in self.order[self.first].tolist()]
        return ["send" if kind in POINT_TO_POINT else kind for kind in kinds]

    # --- figures -------------------------------------------------------------------------------------------------

    @cached_property
    def total_wait_ns(self) -> np.ndarray:
        """Sum over the ranks of each collective of how long they waited for the last one."""
        return self.reduced(np.add, self.wait_ns)

    @cached_property
    def wait_ns(self) -> np.ndarray:
        """How long each part waited for the last rank; 0 for what was not matched.

        Wait, transfer and end skew of a part add up to its duration.
        """
        duration = self.end_ns - self.start_ns
        return np.where(self.number >= 0, np.clip(self.per_part(self.last_start_ns) - self.start_ns, 0, duration), 0)

    @cached_property
    def end_skew_ns(self) -> np.ndarray:
        """How much later each part ended than the first that ended after all had come; 0 for what was not matched."""
        # Who left before all had come did not wait for them: that is no common end.
        all_came = self.end_ns >= self.per_part(self.last_start_ns)
        common = self.per_part(self.reduced(np.minimum, np.where(all_came, self.end_ns, np.iinfo(np.int64).max)))
        return np.where(self.number >= 0, np.maximum(self.end_ns - common, 0), 0)

    @cached_property
    def transfer_ns(self) -> np.ndarray:
        """How long each part communicated: from the last start to the first end."""
        return np.where(self.number >= 0, self.end_ns - self.start_ns - self.wait_ns - self.end_skew_ns, 0)

    # --- notes --------------------------------------------------------------------------------------------------------

    @property
    def unmatched(self) -> list[tuple[int, str]]:
        """Parts that are of no collective, and why."""
        reasons = {1: ALONE, 2: APART, 3: NO_PARTNER, 4: NONE_NEAR}
        at = np.flatnonzero(self.number < 0)
        return [
            (part, reasons[code]) for part, code in zip(at.tolist(), self._verified.reason[at].tolist(), strict=True)
        ]

    @cached_property
    def group_size(self) -> np.ndarray:
        """Ranks of the process group of each collective, 0 where not recorded; of a transfer two."""
        known = np.array([one.group_size or len(one.ranks or ()) for one in self.parts.forms], np.int64)
        largest = self.reduced(np.maximum, known[self.parts.form]) if len(self) else known[:0]
        return np.where([kind == "send" for kind in self.kind], 2, largest)

    @property
    def incomplete(self) -> Rows:
        """Numbers of the collectives that lack ranks of their group, whose size is known."""
        return np.flatnonzero(self.group_size > self.count)

    @property
    def job_size(self) -> int:
        """Ranks of the job; 0 where not recorded."""
        return max((rank.world_size or 0 for rank in self.ranks), default=0)

    @property
    def lacking(self) -> int:
        """Number of collectives that lack ranks of their group, or may: these may be the last."""
        unknown = int((self.group_size == 0).sum()) if self.job_size > len(self.ranks) else 0
        return len(self.incomplete) + unknown

    @property
    def unknown_clocks(self) -> int:
        """Number of clocks that share too few collectives with the others to be known; 0 for ranks of one host."""
        return self._unknown_clocks if len(self) else 0

    @property
    def _unknown_clocks(self) -> int:
        is_one_host = len({*self.hosts} - {None}) < 2
        return 0 if is_one_host else int((~np.isfinite(self.clocks.error_ns)).sum())
