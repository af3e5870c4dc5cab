"""Why operations of a rank take longer than with even work: what host or kernels did, and how they differ."""

from __future__ import annotations

from collections import Counter, defaultdict
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
        words = [self._of_computation(worker, name) for name in found.names]
        # Kernels with other inputs show that those without recorded inputs have others, too.
        first = words.index(LARGER) if LARGER in words and words[0] == SLOWER else 0
        word, what = words[first], found.what[first]
        if word == SLOWER:
            if found.is_chance and not self._is_judged:
                return "", ""
            if factor := self._factors[worker]:
                what = f"all kernels {factor:.2f}x: {CLOCK}"
        return word, what

    def _of_computation(self, worker: int, name: str) -> str:
        """How kernels of a name differ from those of all ranks: in number, in the sizes of their inputs, or in time."""
        of_ranks = [one.get(name, _NO_KERNELS) for one in self._kernels]
        if of_ranks[worker].number > MORE_OFTEN * float(np.median([one.number for one in of_ranks])):
            return MORE
        own, ranks = of_ranks[worker].inputs, Counter(one.inputs for one in of_ranks)
        is_known_elsewhere = any(other and (other != own or count > 1) for other, count in ranks.items())
        # Ranks that have others in turn have those of all as well, and as many kernels.
        alike = [one.inputs for one in of_ranks if one.number == of_ranks[worker].number]
        has_more = 2 * sum(bool(one) and one < own for one in alike) >= len(alike)
        return LARGER if is_known_elsewhere and (not own or ranks[own] < 2 or has_more) else SLOWER

    def _more(self, worker: int) -> dict[str, float]:
        """Names of GPU work that takes more time on a rank than on the median rank -> how much more, ns.

        Even work is shared out, and what is too much for a rank is so in equal shares of all that it runs.
        """
        usual = {name: np.median([one.get(name, _NO_KERNELS).ns for one in self._kernels])
                 for name in self._kernels[worker]}  # fmt: skip
        return {name: max(of.ns - float(usual[name]), 0.0) for name, of in self._kernels[worker].items()}

    @cached_property
    def _hosts(self) -> list[list[HostTotals]]:
        return [one for _, one in sorted(self._job.ask(host_on, [None] * len(self._even)), key=lambda one: one[0])]

    @cached_property
    def _slow_hosts(self) -> list[str]:
        return slow_hosts(self._hosts)

    @cached_property
    def _kernels(self) -> list[Mapping[str, KernelsOf]]:
        return [one for _, one in sorted(self._job.ask(kernels_on, [None] * len(self._even)), key=lambda one: one[0])]

    @cached_property
    def _factors(self) -> list[float | None]:
        """Per rank by which factor all its kernels take longer than on the median rank; None for none."""
        of_name: dict[str, dict[int, tuple[float, int]]] = defaultdict(dict)
        for at, kernels in enumerate(self._kernels):
            for name, one in kernels.items():
                if one.median_ns is not None:
                    of_name[name][at] = one.median_ns, one.ns
        items: list[list[tuple[float, int, int]]] = [[] for _ in self._kernels]
        for code, of_rank in enumerate(of_name.values()):
            usual = sorted(median for median, _ in of_rank.values())[(len(of_rank) - 1) // 2]
            for at, (median, ns) in of_rank.items():
                if len(of_rank) > 1 and usual and median:
                    items[at].append((median / usual, ns, code))
        factors = [agreed_factor(*map(np.array, zip(*some, strict=True))) if some else None for some in items]
        return [factor if factor and factor > 1 else None for factor in factors]
