"""All that is asked of the ranks of a job: what they took part in together, and every table of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.critical_path.what_if import WhatIf, what_if
from tracelens_graph.analyses.ranks.collective_tables import collectives_table, kinds_table, unmatched_collectives
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.link_delays import LinkDelays
from tracelens_graph.analyses.ranks.link_tables import (
    open_links,
    rank_links,
    slow_link_lines,
    with_slow_links,
)
from tracelens_graph.analyses.ranks.links import Links
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.rank_collectives import RankCollectives, has_gpu_work
from tracelens_graph.analyses.ranks.rank_tables import balance_table, rank_steps, times_table
from tracelens_graph.analyses.ranks.rings import slow_ns
from tracelens_graph.analyses.ranks.slow_links import SlowLinks, slow_links
from tracelens_graph.analyses.ranks.strangers import of_one_job
from tracelens_graph.analyses.stragglers.culprits import culprits_table
from tracelens_graph.analyses.stragglers.late_causes import are_few, late_arrivals, late_ranks
from tracelens_graph.analyses.stragglers.lateness import Lateness, lateness
from tracelens_graph.analyses.stragglers.reasons import OTHERS, UNNAMED
from tracelens_graph.analyses.stragglers.slowdown import SLOWDOWN, Slowdown, slowdown
from tracelens_graph.analyses.stragglers.sound import Sound
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.perf.devices import Architecture, architecture
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import hint

TABLES = (
    "rank_times", "rank_balance", "collective_kinds", "rank_collectives", "rank_links", "rank_steps",
    "unmatched_collectives",
)  # fmt: skip
"""Tables for which lean graphs suffice."""
LATE_TABLES = ("culprits", "late_ranks", "late_arrivals", "slowdown")
"""Tables that need whole graphs."""

LEAST_PERCENT = 0.1
"""A change of a link that saves less of the recording is not suggested."""
NOTICEABLE_PERCENT = 5.0
"""Communication that nothing hides is worth a line from this share of a step on."""


class Job:
    """The ranks of a job.

    Args:
        ranks: a set of their traces, or what each took part in.
        architecture: the device, for the rate of its links; by default that of the traces.
        correct: correct the clocks of several hosts by the ends of collectives.
        whole: the traces with whole graphs; without them nothing shows why a rank is late. Where `ranks` are windows of
            them, reasons are still looked for in all that was recorded: what made a rank late to the first collective
            of a step often happened before the step.
    """

    def __init__(
        self,
        ranks: TraceSet | Sequence[RankCollectives],
        architecture: Architecture | None = None,
        correct: bool = True,
        whole: TraceSet | None = None,
    ) -> None:
        self.matched, whole = of_one_job(ranks, correct, whole)
        self._whole = None if whole is None else whole.whole()
        self.figures = Figures(self.matched, architecture)
        self._made: dict[str, Table] = {}

    @cached_property
    def _is_small(self) -> bool:
        return self._whole is not None and are_few(self._whole)

    @cached_property
    def _ranks(self) -> TraceSet | None:
        """The whole traces; of a small job with their graphs, as replays ask for them often."""
        return self._whole.with_graphs(_read_whole) if self._is_small and self._whole is not None else self._whole

    @cached_property
    def links(self) -> Links:
        """How fast process groups and pairs of ranks are."""
        return Links(self.figures)

    @cached_property
    def slow_links(self) -> list[SlowLinks]:
        """The slow links by what they have in common, the most expensive first."""
        return slow_links(self.links)

    @cached_property
    def delays(self) -> LinkDelays:
        """What slow links delay."""
        return LinkDelays(self.links)

    @property
    def link_lines(self) -> list[str]:
        """The slow links; of none which could not be judged and why, where communication takes a noticeable time."""
        if self.slow_links:
            return slow_link_lines(self.slow_links)
        percent = dict(zip(*(self.table("rank_times")[name] for name in ("time", "percent")), strict=True))
        moves = (percent.get("exposed") or 0) - (percent.get("exposed_waiting") or 0)
        line = open_links(self.figures, self.links) if moves >= NOTICEABLE_PERCENT else ""
        return [line] if line else []

    @cached_property
    def lateness(self) -> Lateness | None:
        """Who makes the others wait; None for a single trace, or where nothing is shared."""
        is_known = self._whole is not None and len(self.matched) > 0
        arrivals = None
        if is_known and self._whole is not None:
            evidence = self.matched.comparable
            is_all = evidence is self.matched
            arrivals = (self.table("late_arrivals") if is_all else self._late_arrivals(self._whole, evidence)).records()
        return lateness(self.figures, arrivals, self.delays, self.sound)

    @cached_property
    def _causes(self) -> JobCauses | None:
        """What bound the points of all ranks, over all that was recorded; None of lean graphs, or without GPU work.

        None as well where ranks share no collective, and where clocks of hosts are not known.
        """
        if (whole := self._ranks) is None or len(whole) < 2 or not len(self.matched) or self.matched.unknown_clocks:
            return None
        return JobCauses(whole, self.matched.whole) if all(map(has_gpu_work, whole)) else None

    @property
    def is_replayed(self) -> bool:
        """Whether the recording of all ranks can be run again with changes, in a short time."""
        return self._is_all and self._is_small and self._causes is not None

    @property
    def _is_all(self) -> bool:
        return len(self.matched.whole) == len(self.matched)  # as of the only step

    @cached_property
    def sound(self) -> Sound | None:
        """What each rank costs, by a replay of the whole recording; None where that is not known.

        Also of parts that are no steps, and where most collectives are on the host.
        """
        if not self._is_all and not self.matched.part.startswith("step "):
            return None
        if not self._is_small or self._causes is None or not self._causes.is_covered:
            return None
        links = self.links if self._is_all else Links(Figures(self.matched.whole, self.figures.architecture))
        found = Sound(self._causes, slow_ns(links))
        return found if self._is_all else found.within({step for step in self.figures.step if step is not None})

    def repaired(self, places: Sequence[int]) -> WhatIf | None:
        """The recording with some ranks repaired, by a replay.

        None where it is not replayed, where ranks of collectives are missing, or no other rank does the like.
        """
        if not places or self.matched.lacking:
            return None
        return self._replayed(repair=[self.matched.ranks[place].name for place in places])

    def _replayed(self, **edits: Any) -> WhatIf | None:
        """The recording with changes; None where it is not replayed, or nothing can be changed so."""
        try:
            return what_if(self._causes, **edits) if self.is_replayed else None
        except AnalysisError:
            return None

    @cached_property
    def link_edit(self) -> str:
        """What mends the worst slow link, as `bandwidth=` takes it; empty where a replay shows that it saves little."""
        if not self.slow_links:
            return ""
        name, _, factor = self.slow_links[0].edit.rpartition(":")
        found = self._replayed(bandwidth={name: float(factor)})
        worth = found is None or 100 * found.saved_ns >= LEAST_PERCENT * found.path.length_ns
        return self.slow_links[0].edit if worth else ""

    @cached_property
    def slowdown(self) -> Slowdown | None:
        """How much slower the job is than with even work, over the whole recording; None as for `_causes`."""
        return None if self._causes is None else slowdown(self._causes)

    @property
    def slowdown_line(self) -> str:
        """The same as one line; empty of part of a recording, and where nothing is known of it or replays take long."""
        if not (self._is_small and self._is_all) or self.slowdown is None:
            return ""
        return self.slowdown.line(self.matched.lacking > 0, self._known)

    @property
    def _known(self) -> Mapping[int, tuple[str, str]]:
        """Places of culprits -> their reason, and the work with most of it."""
        culprits = self.lateness.culprits if self.lateness is not None else ()
        return {place: (one.reason, one.what) for one in reversed(culprits) for place in one.places}

    def _culprits(self) -> Table:
        found = self.lateness
        lines = () if found is None else found.lines
        notes = [line for line in lines if not line.startswith("late: ")]
        return culprits_table(() if found is None else found.culprits, self.matched, notes)

    @property
    def repairable(self) -> tuple[int, ...]:
        """Places of the most expensive culprit, where something that the latest did itself made it late; else none.

        That is what `what_if(..., repair=...)` takes away.
        """
        first = None if self.lateness is None else next(iter(self.lateness.culprits), None)
        if self._whole is None or first is None or first.reason in (*UNNAMED, OTHERS):
            return ()
        return first.places if all(self.matched.whole.ranks[place].has_gpu_work for place in first.places) else ()

    def _late_arrivals(self, whole: TraceSet, shown: MatchedCollectives) -> Table:
        """Late arrivals to some collectives of this job, of clocks that can be compared, explained by whole traces."""
        whole = self._ranks or whole
        everything = self.matched.whole.comparable
        causes = self._causes if self._is_small and everything is self.matched.whole else None
        if everything is shown:
            figures = self.figures if shown is self.matched else Figures(shown, self.figures.architecture)
            return late_arrivals(figures, whole, causes=causes)
        return late_arrivals(Figures(everything, self.figures.architecture), whole, shown=shown, causes=causes)

    @cached_property
    def _makers(self) -> Mapping[str, Callable[[], Table]]:
        why: dict[str, Callable[[], Table]] = {}
        if (whole := self._whole) is not None:
            why = {
                "culprits": self._culprits,
                "late_ranks": lambda: late_ranks(self.table("late_arrivals"), self.figures),
                "late_arrivals": lambda: self._late_arrivals(whole, self.matched),
                "slowdown": lambda: (
                    SLOWDOWN.empty(
                        "Slowdown against even work",
                        ["no GPU work of all ranks, nothing that they share, or clocks that cannot be compared"],
                    )
                    if self.slowdown is None
                    else with_slow_links(self.slowdown.table(self._known), self.matched, self.slow_links)
                ),
            }
        return {
            "rank_times": lambda: times_table(self.figures),
            "rank_balance": lambda: balance_table(self.figures, self.delays),
            "collective_kinds": lambda: kinds_table(self.figures),
            "rank_collectives": lambda: collectives_table(self.figures),
            "rank_links": lambda: rank_links(self.figures, self.links),
            "rank_steps": lambda: rank_steps(self.figures, self.delays),
            "unmatched_collectives": lambda: unmatched_collectives(self.figures),
            **why,
        }

    @property
    def names(self) -> list[str]:
        """Names of the tables, in the order of a report."""
        return list(self._makers)

    def table(self, name: str) -> Table:
        """A table by its name; made when first asked for.

        Raises:
            AnalysisError: there is none of this name.
        """
        if name not in self._makers:
            raise AnalysisError(f"there is no table {name!r}; {hint(name, self._makers)}")
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def tables(self) -> dict[str, Table]:
        """All tables by name."""
        return {name: self.table(name) for name in self.names}


def _read_whole(core: Core) -> Core:
    core.read_all()
    return core


def collectives(ranks: Any, kind: str | None = None, top: int = 0, arch: Any = None, correct: bool = True) -> Table:
    """What each collective of a job cost: waiting, communication, bandwidth, and who came last.

    Parts of the ranks are matched by sequence numbers where the profiler wrote them, else by kind, size and the times
    at which they ended; the clocks of several hosts are corrected by these.

    Args:
        ranks: the traces of the ranks: a `TraceSet`, such as `load_set(folder)` gives, or graphs. The devices of a
            profile of JAX are ranks.
        kind: only collectives of this kind, such as `allreduce`.
        top: number of rows, those with the most waiting first; 0 for all.
        arch: the device, a name or an `Architecture`, for the rate of its links; by default that of the traces.
        correct: correct the clocks of several hosts by the ends of collectives.

    Returns:
        One row per collective; columns are in `RANK_COLLECTIVES`.

    Raises:
        AnalysisError: no graphs are given, no device has the name, or `top` is negative.
    """
    return collectives_table(_job(ranks, arch, correct).figures, kind, top)


def rank_tables(ranks: Any, arch: Any = None, correct: bool = True) -> dict[str, Table]:
    """All tables of the ranks of a job by name: times of a step, ranks, kinds of collectives, who is late and why.

    Args:
        ranks: the traces of the ranks, loaded whole: a `TraceSet`, such as `load_set(folder)` gives, or graphs. The
            devices of a profile of JAX are ranks.
        arch: the device, a name or an `Architecture`, for the rate of its links; by default that of the traces.
        correct: correct the clocks of several hosts by the ends of collectives.

    Raises:
        AnalysisError: no graphs are given, or no device has the name.
    """
    return _job(ranks, arch, correct).tables()


def _job(ranks: Any, arch: Any, correct: bool) -> Job:
    traces = TraceSet.of(ranks).by_device()
    return Job(traces, architecture(arch) if isinstance(arch, str) else arch, correct, traces)
