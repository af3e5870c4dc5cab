"""Ranks on which all calls of a host thread take longer than on the others by one factor, over the whole recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import NamedTuple

from tracelens_graph.analyses.shared.common_factor import shared_factor
from tracelens_graph.analyses.stragglers.rank_work import HostLabels, Label
from tracelens_graph.graph.core import Core

ALL_CALLS = "all host calls"


class HostTotals(NamedTuple):
    """What a thread of a rank worked.

    Attributes:
        name: what the thread does; else its number.
        of: label -> how many calls there are, and their exclusive time, ns.
    """

    name: str
    of: Mapping[Label, tuple[int, int]]


def totals_of(core: Core, labels: HostLabels) -> list[HostTotals]:
    """What the threads of a rank worked, in the order of their numbers."""
    return [HostTotals(_name(core, thread), totals) for thread, totals in labels.totals().items()]


def slow_hosts(found: Sequence[Sequence[HostTotals]]) -> list[str]:
    """Per rank the threads on which all calls take longer by a factor, in words; empty where they do not.

    Calls of a name are compared with the median of the other ranks, thread by thread.

    Args:
        found: the threads of each rank of a job.
    """
    return [_in_words(own, _slow_threads(found, at)) for at, own in enumerate(found)]


def _slow_threads(found: Sequence[Sequence[HostTotals]], at: int) -> dict[int, tuple[float, float]]:
    """Places of the threads of a rank whose calls take longer by one factor: their time, and what it usually is, ns."""
    slow = {}
    for place, (_, totals) in enumerate(found[at]):
        others = [one[place].of for other, one in enumerate(found) if other != at and place < len(one)]
        usual = {}
        for label, (count, _) in totals.items():
            if there := [one[label][1] / one[label][0] for one in others if label in one]:
                usual[label] = count * median_low(there)
        if factor := shared_factor({label: ns for label, (_, ns) in totals.items()}, usual):
            ns = float(sum(totals[label][1] for label in usual))
            slow[place] = ns, ns / factor
    return slow


def _in_words(threads: Sequence[HostTotals], slow: Mapping[int, tuple[float, float]]) -> str:
    if not slow:
        return ""
    of = "" if len(slow) == len(threads) else f" of {' and '.join(threads[place].name for place in slow)}"
    ns, usual_ns = map(sum, zip(*slow.values(), strict=True))
    return f"{ALL_CALLS}{of}, {ns / usual_ns:.2f}x"


def _name(core: Core, thread: int) -> str:
    c, (pid, tid) = core.columns, core.threads[thread]
    if (c.forward_thread[c.thread == thread] != -1).any():
        return "the backward thread"
    return "the main thread" if pid == tid else f"thread {tid}"
