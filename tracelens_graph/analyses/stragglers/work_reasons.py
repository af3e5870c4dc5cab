"""Why operations of a rank take longer than with even work: what host or kernels did, and how they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import median_low

import numpy as np

from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.diagnosis.finding import percent
from tracelens_graph.analyses.shared.common_factor import CLOCK, agreed_factor
from tracelens_graph.analyses.stragglers.even_on_rank import (
    COMPUTATION,
    HOST,
    Even,
    KernelsOf,
    excess_on,
    host_on,
    kernels_on,
    label_on,
)
from tracelens_graph.analyses.stragglers.rank_work import pipelines
from tracelens_graph.analyses.stragglers.reasons import (
    LARGER,
    LINK,
    MORE,
    MOST_PERCENT,
    OF_STATE,
    PART,
    SLOW_HOST,
    SLOWER,
    UNKNOWN,
)
from tracelens_graph.analyses.stragglers.slow_hosts import HostTotals, slow_hosts

MORE_OFTEN = 1.05
"""What runs more often than this many times as often as on the median rank is more work."""
LEAST_PERCENT = 10.0
"""A call with less than this share of the difference is no reason of it."""
MANY_CALLS = "calls of the host, none of them with much of the difference"
"""What is said where no call accounts for what the host took longer."""

_NO_KERNELS = KernelsOf(0, frozenset(), None, 0)


class WorkReasons:
    """Why operations of ranks take longer than with even work.

    Args:
        job: the ranks.
        kinds: names of the types of operations.
        even: per rank what its operations would take.
        is_judged: whether GPU work that takes no longer than by chance is even already.
    """

    def __init__(self, job: JobCauses, kinds: Sequence[str], even: Sequence[Even], is_judged: bool = False) -> None:
        self._job, self._kinds, self._even, self._is_judged = job, kinds, even, is_judged
        self._stage = np.zeros(len(even)) if job.matched is None else pipelines(job.matched)[1]
        self._kernels_in: dict[tuple[int, ...], list[Mapping[str, KernelsOf]]] = {}

    def of(self, worker: int, kind: int, edges: Sequence[int] | None = None) -> tuple[str, str]:
        """How operations of a type on a rank differ from even ones, and the work with most of that.

        Both are empty where none takes longer, or the same kernels do so by no more than chance.

        Args:
            worker: place of the rank.
            kind: number of the type.
            edges: those that are meant, as the rank numbers them; all by default.
        """
        is_shared = kind == COMPUTATION and edges is None and not self._is_judged
        more = self._more(worker) if is_shared else {}
        asked = self._job.given[worker], self._even[worker], kind, edges, more
        ((_, found),) = self._job.traces.ask(excess_on, {worker: asked})
        if found is None:
            return "", ""
        if kind == HOST:
            # A factor shows in all stretches, a call in those that hold it.
            if not found.is_most and (slow := self._slow_hosts[worker]):
                return SLOW_HOST, slow
            (what,) = found.what
            asked_of = [(found.label, found.steps)] * len(self._even)
            takes = [ns for _, ns in sorted(self._job.ask(label_on, asked_of))]
            share = percent(takes[worker] - median_low(takes[:worker] + takes[worker + 1 :]), found.ns)
            if share < LEAST_PERCENT:
                return UNKNOWN, MANY_CALLS
            return OF_STATE.get(found.label[0], "op"), what + f", {share:.0f} {PART}" * (share < MOST_PERCENT)
        if kind != COMPUTATION:
            return LINK, f"{self._kinds[kind]}: {found.what[0]}"
        steps = tuple(found.steps) if self._is_judged else ()
        words = [self._of_computation(worker, name, steps) for name in found.names]
        # Kernels with other inputs show that those without recorded inputs have others, too.
        first = words.index(LARGER) if LARGER in words and words[0] == SLOWER else 0
        word, what = words[first], found.what[first]
        if word == SLOWER:
            if found.is_chance and not self._is_judged:
                return "", ""
            if factor := self._factor(worker, steps):
                what = f"all kernels {factor:.2f}x: {CLOCK}"
        return word, what

    def _of_computation(self, worker: int, name: str, steps: tuple[int, ...]) -> str:
        """How kernels of a name differ from those of all ranks: in number, in the sizes of their inputs, or in time."""
        of_ranks = [one.get(name, _NO_KERNELS) for one in self._kernels(steps)]
        if of_ranks[worker].number > MORE_OFTEN * float(np.median([one.number for one in of_ranks])):
            return MORE
        peers = np.flatnonzero(self._stage == self._stage[worker]).tolist()
        own, ranks = of_ranks[worker].inputs, Counter(one.inputs for one in of_ranks)
        is_known_elsewhere = any(other and (other != own or count > 1) for other, count in ranks.items())
        is_other = ranks[own] < 2 or (
            len(peers) > 1 and 2 * sum(of_ranks[at].inputs == own for at in peers) <= len(peers)
        )
        return LARGER if is_known_elsewhere and (not own or is_other) else SLOWER

    def _more(self, worker: int) -> dict[str, float]:
        """Names of GPU work that takes more time on a rank than on the median rank -> how much more, ns.

        Even work is shared out, and what is too much for a rank is so in equal shares of all that it runs.
        """
        kernels = self._kernels(())
        usual = {name: np.median([one.get(name, _NO_KERNELS).ns for one in kernels]) for name in kernels[worker]}
        return {name: max(of.ns - float(usual[name]), 0.0) for name, of in kernels[worker].items()}

    @cached_property
    def _hosts(self) -> list[list[HostTotals]]:
        return [one for _, one in sorted(self._job.ask(host_on, [None] * len(self._even)), key=lambda one: one[0])]

    @cached_property
    def _slow_hosts(self) -> list[str]:
        return slow_hosts(self._hosts)

    def _kernels(self, steps: tuple[int, ...]) -> list[Mapping[str, KernelsOf]]:
        """Per rank its GPU work by name, in some steps; without steps in all."""
        if steps not in self._kernels_in:
            found = self._job.ask(kernels_on, [steps] * len(self._even))
            self._kernels_in[steps] = [one for _, one in sorted(found, key=lambda one: one[0])]
        return self._kernels_in[steps]

    def _factor(self, worker: int, steps: tuple[int, ...]) -> float | None:
        """By which factor all kernels of a rank take longer than on the median rank; None for none."""
        items = []
        for code, (name, own) in enumerate(self._kernels(steps)[worker].items()):
            medians = [one[name].median_ns for one in self._kernels(steps) if name in one]
            known = [one for one in medians if one is not None]
            if own.median_ns and len(known) > 1 and (usual := median_low(known)):
                items.append((own.median_ns / usual, own.ns, code))
        factor = agreed_factor(*map(np.array, zip(*items, strict=True))) if items else None
        return factor if factor and factor > 1 else None
