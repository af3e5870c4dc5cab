"""Ranks on which all calls of a host thread take longer than on the others by one factor, over the whole recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median_low

from tracelens_graph.analyses.shared.common_factor import shared_factor
from tracelens_graph.analyses.stragglers.rank_work import HostLabels, Label
from tracelens_graph.graph.core import Core

ALL_CALLS = "all host calls"

Totals = Mapping[Label, tuple[int, int]]
"""Of each label how many calls there are, and their exclusive time, ns."""


def slow_hosts(cores: Sequence[Core]) -> list[str]:
    """Per rank the threads on which all calls take longer by a factor, in words; empty where they do not.

    Calls of a name are compared with the median of the other ranks, thread by thread in the order of their numbers.

    Args:
        cores: the ranks of a job.
    """
    found = [HostLabels(core).totals() for core in cores]
    return [
        _in_words(core, list(own), _slow_threads(found, at))
        for at, (core, own) in enumerate(zip(cores, found, strict=True))
    ]


def _slow_threads(found: Sequence[Mapping[int, Totals]], at: int) -> dict[int, tuple[float, float]]:
    """Threads of a rank whose calls take longer by one factor: their time, and what it usually is, ns."""
    slow = {}
    for place, (thread, totals) in enumerate(found[at].items()):
        others = [list(one.values())[place] for other, one in enumerate(found) if other != at and place < len(one)]
        usual = {}
        for label, (count, _) in totals.items():
            if there := [one[label][1] / one[label][0] for one in others if label in one]:
                usual[label] = count * median_low(there)
        if factor := shared_factor({label: ns for label, (_, ns) in totals.items()}, usual):
            ns = float(sum(totals[label][1] for label in usual))
            slow[thread] = ns, ns / factor
    return slow


def _in_words(core: Core, threads: Sequence[int], slow: Mapping[int, tuple[float, float]]) -> str:
    if not slow:
        return ""
    names = [] if len(slow) == len(threads) else [_name(core, thread) for thread in slow]
    of = f" of {' and '.join(names)}" * bool(names)
    ns, usual_ns = map(sum, zip(*slow.values(), strict=True))
    return f"{ALL_CALLS}{of}, {ns / usual_ns:.2f}x"


def _name(core: Core, thread: int) -> str:
    """What a thread does; else its number."""
    c, (pid, tid) = core.columns, core.threads[thread]
    if (c.forward_thread[c.thread == thread] != -1).any():
        return "the backward thread"
    return "the main thread" if pid == tid else f"thread {tid}"
