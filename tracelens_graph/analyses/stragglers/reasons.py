"""The reason of a late arrival: in what the stretch before it differs between the late rank and the median one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import brief, percent, shown_ms
from tracelens_graph.analyses.idle.host_states import (
    ALLOCATION,
    COPY_TO_DEVICE,
    DATA_LOADER,
    LAUNCH,
    PROFILER,
    PYTHON,
    SYNCHRONIZATION,
)
from tracelens_graph.analyses.shared.common_factor import shared_factor
from tracelens_graph.analyses.stragglers.chains import Share
from tracelens_graph.analyses.stragglers.rank_work import DISTRIBUTED, UNRECORDED, WORKS, Kernels, Label, Spent
from tracelens_graph.analyses.stragglers.segments import Arrivals, Late
from tracelens_graph.analyses.stragglers.slow_hosts import ALL_CALLS
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import ancestors
from tracelens_graph.graph.user_code import user_lines
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Ns

EVEN_NS = 20_000
"""Ranks differ by this much without a reason worth a name."""
EVEN_PERCENT = 1.0
"""Or by this share of the time since the collective before."""
NEW_PERCENT = 10.0
"""Share of the lateness that must be new to be called a reason of it."""
EXPLAINED_PERCENT = 30.0
"""Share of the new lateness that a difference must account for to be called its reason."""
MOST_PERCENT = 50.0
"""A call with less than this share of the difference is said to have that share only."""
PART = "% of the difference"
"""So ends what is said of it."""
JITTER_PERCENT = 3.0
"""A difference below this share of what the median rank spent on the same is none."""

COMMON_PERCENT, SAME_PERCENT = 50.0, 80.0
"""Ranks run the same program where the late one ran at least the first share of the kernels of the median one; ranks
that transfers join, where at least the second share of the kernels of either is common."""

EARLIER, EVEN, UNKNOWN, OWN = "earlier", "even", "unknown", "own_work"
SLOWER, LARGER, MORE, OTHERS = "slower_kernels", "other_inputs", "more_gpu_work", "other_collective"
LINK, SLOW_HOST = "slow_transfers", "slow_host"

GPU_REASONS = (SLOWER, LARGER, MORE)
"""Reasons that lie on the GPU."""

OF_STATE: Mapping[int, str] = {
    DATA_LOADER: "data_loader", PROFILER: "profiler", SYNCHRONIZATION: "synchronization",
    COPY_TO_DEVICE: "host_to_device_copy", ALLOCATION: "allocation", LAUNCH: "op", PYTHON: "python",
    UNRECORDED: "unrecorded",
}  # fmt: skip

_WAITS = (SYNCHRONIZATION, COPY_TO_DEVICE)

_NEVER_WORK = ("data_loader", "allocation", "profiler")
"""Reasons that hold whatever program a rank runs."""

UNNAMED = (EARLIER, EVEN, UNKNOWN, OWN)
"""Words that give no reason."""

REASONS: Mapping[str, str] = {
    "data_loader": "waiting for the next batch, or making it",
    "profiler": "the profiler's own code",
    "synchronization": "calls that wait for the GPU",
    "host_to_device_copy": "copies to the device that hold the host",
    "allocation": "allocating or releasing memory",
    "op": "host time in ops and launch calls",
    "python": "Python, also that of ops",
    "unrecorded": "host time without any record",
    SLOW_HOST: "all calls of the host took longer by one factor, as with a slower or busier processor",
    SLOWER: "the same GPU work took longer",
    LARGER: "the same kernels took longer, on inputs of other sizes",
    MORE: "GPU work that the median rank did not have",
    OTHERS: "a collective or transfer with other ranks",
    LINK: "transfers that take longer than equal ones",
    OWN: "its own work: the two ranks run different programs, as two ends of a transfer do",
    EARLIER: "it was late already: at the collective before, when its step began, or when its recording began",
    EVEN: "no more than ranks differ anyhow",
    UNKNOWN: "no difference between the traces accounts for it",
}
"""Reason of a late arrival -> what it means."""


@dataclass(frozen=True)
class Reason:
    """The reason of a late arrival.

    Attributes:
        word: one of `REASONS`.
        new_ns: how much of the lateness is new, ns.
        what: the call or GPU work that differs most, and where it stands.
        evidence: its time against that on the median rank.
        row: its row on the late rank, -1 for none.
    """

    word: str
    new_ns: int
    what: str = ""
    evidence: str = ""
    row: int = -1


def reason_of(arrivals: Arrivals, late: Late) -> Reason:
    """The reason of a late arrival: the largest difference in what the starts of the two ranks had to wait for."""
    blamed, median = late.blamed, late.median
    least = max(EVEN_NS, EVEN_PERCENT / 100 * (median.end_ns - median.start_ns))
    more = np.zeros(len(Share), np.int64)
    if blamed.rank.on_gpu:
        shares = [side.rank.chains.shares(side.chain, side.start_ns) for side in (blamed, median)]
        more = shares[0] - shares[1]
    new = late.new_ns
    if blamed.rank.on_gpu and more.argmax() == Share.host and late.host_ran_on():
        new = min(new, max(_host_excess(late), 0))
    if new < max(least, NEW_PERCENT / 100 * late.late_ns):
        return _earlier(arrivals, late, new) if late.late_ns - new >= least else Reason(EVEN, new)
    order = [Share(share) for share in np.argsort(-more, kind="stable").tolist()]
    if blamed.rank.on_gpu:
        order = [share for share in order if more[share] >= EXPLAINED_PERCENT / 100 * new]
    else:  # all that a collective without kernels waits for is the host
        order = [Share.host]
    found = [_of_share(arrivals, late, share, new) for share in order]
    named = [one for one in found if one is not None]
    reason = next((one for one in named if one.word != EVEN), Reason(EVEN if named else UNKNOWN, new))
    if reason.word in (*_NEVER_WORK, *UNNAMED) or _same_program(arrivals, late):
        return reason
    return Reason(OWN, new, reason.what, reason.evidence, reason.row)


def _same_program(arrivals: Arrivals, late: Late) -> bool:
    """Whether the two ranks run the same program in the stretch, though the late one may run more.

    The stages of a pipeline do not, though all run kernels of the same names, or wait while others do.
    """
    if not late.blamed.rank.on_gpu:
        labels = [set(spent) for spent in _labels(late)]
        return len(labels[0] & labels[1]) >= COMMON_PERCENT / 100 * len(labels[1])
    mine, others = _kernels(late)
    counts = [
        tuple(len(side[name].rows) if name in side else 0 for side in (mine, others)) for name in {*mine, *others}
    ]
    common = sum(min(pair) for pair in counts)
    one, other = (arrivals.pipeline[side.rank.ordinal] for side in (late.blamed, late.median))
    if one == other:
        return common > 0 and common >= SAME_PERCENT / 100 * sum(max(pair) for pair in counts)
    return common >= COMMON_PERCENT / 100 * sum(other for _, other in counts)


def _of_share(arrivals: Arrivals, late: Late, share: Share, new: int) -> Reason | None:
    """The reason that a share of the chain shows; `EVEN` where the difference is jitter, None without any."""
    if share == Share.host:
        return _host(arrivals, late, new)
    if share in (Share.computation, Share.copy):
        return _gpu(arrivals, late, new)
    return _communication(arrivals, late, new) if share == Share.communication else None


def _earlier(arrivals: Arrivals, late: Late, new: int) -> Reason:
    name = arrivals.traces[late.median.rank.ordinal].name
    if late.is_first and late.before_ns > 0:
        if 2 * late.recorded_ns < late.before_ns:
            return Reason(EARLIER, new, f"it began the step {shown_ms(late.before_ns)} later than {name}")
        recorded = shown_ms(late.recorded_ns)
        what = f"it began its recording {recorded} later than {name}: the reason lies before the recording"
        return Reason(EARLIER, new, what)
    return Reason(EARLIER, new)


def most_by_chance(ns: Ns, other_ns: Ns, name: Codes) -> float:
    """By how much a sum of durations is larger by chance at most: three standard deviations of the differences, ns.

    These are robust, of the differences relative to both, about the median of those of a name. 0 of too few.

    Args:
        ns, other_ns: durations of the same work on two ranks.
        name: what it is called.
    """
    place, names = np.unique(name, return_inverse=True)[1], len(np.unique(name))
    mean = (ns + other_ns) / 2
    if len(ns) < names + 3 or not mean.all():
        return 0.0
    relative = (ns - other_ns) / mean
    middle = np.array([np.median(relative[place == one]) for one in range(names)])
    spread = 1.48 * float(np.median(np.abs(relative - middle[place]))) * (len(ns) / (len(ns) - names)) ** 0.5
    return 3 * spread * float((mean**2).sum()) ** 0.5


def _is_enough(ns: float, other_ns: float, new: int) -> bool | None:
    """Whether a difference explains new lateness; None where it would, but is no more than jitter."""
    if ns < EXPLAINED_PERCENT / 100 * new:
        return False
    return True if ns >= JITTER_PERCENT / 100 * other_ns else None


# --- on the host -----------------------------------------------------------------------------------------------------


def _labels(late: Late) -> tuple[dict[Label, Spent], dict[Label, Spent]]:
    mine, other = (side.rank.host.within(*side.host_ns) for side in (late.blamed, late.median))
    return mine, other


def _by_state(spent: Mapping[Label, Spent]) -> dict[int, int]:
    found = dict.fromkeys(OF_STATE, 0)
    for (state, _), one in spent.items():
        found[state] = found.get(state, 0) + one.ns
    return found


def _host_excess(late: Late) -> int:
    """How much more the host of the late rank did in the stretch; that others waited longer for the GPU is no less."""
    mine, other = map(_by_state, _labels(late))
    more = {state: ns - other.get(state, 0) for state, ns in mine.items()}
    return sum(max(ns, 0) if state in _WAITS else ns for state, ns in more.items())


def _host(arrivals: Arrivals, late: Late, new: int) -> Reason | None:
    """The state in which the host of the late rank spent more time than the other, and the call with most of that."""
    mine, others = _labels(late)
    sums, other_sums = _by_state(mine), _by_state(others)
    state = max(OF_STATE, key=lambda one: sums[one] - other_sums[one])
    more = sums[state] - other_sums[state]
    is_enough = _is_enough(more, other_sums[state], new)
    if not is_enough:
        return None if is_enough is False else Reason(EVEN, new)
    ours = [label for label in mine if label[0] == state]
    label = max(ours, key=lambda one: mine[one].ns - others.get(one, Spent()).ns)
    core, spent = late.blamed.rank.core, mine[label]
    evidence = _compared(arrivals, late, sums[state], other_sums[state])
    if not late.blamed.rank.on_gpu and label[1].startswith(DISTRIBUTED):
        return Reason(OTHERS, new, called(core, spent), evidence, spent.row)
    works, others_work = ({one: spent.ns for one, spent in of.items() if one[0] in WORKS} for of in (mine, others))
    other_ns = others.get(label, Spent()).ns
    # A stretch may hold few calls of a host on which all take longer.
    always = arrivals.slow_hosts[late.blamed.rank.ordinal] if spent.ns < 2 * other_ns else ""
    if state in WORKS and (always or shared_factor(works, others_work)):
        evidence = _compared(arrivals, late, sum(works.values()), sum(others_work.values()))
        return Reason(SLOW_HOST, new, always or ALL_CALLS, evidence)
    if len(ours) > 1:
        evidence += f"; of this call {shown_ms(spent.ns)} against {shown_ms(other_ns)}"
    what = called(core, spent)
    if what and (spent.ns - other_ns) < MOST_PERCENT / 100 * more:
        what += f", {percent(spent.ns - other_ns, more):.0f} {PART}"
    return Reason(OF_STATE[state], new, what, evidence, spent.row)


def called(core: Core, spent: Spent) -> str:
    """What calls of a label are called, and what stands around most of them; empty for none."""
    rows, c = [row for row in spent.calls if row >= 0], core.columns
    if not rows:
        return ""
    ns: dict[int, int] = defaultdict(int)
    above = {row: int(c.name[c.parent[row]]) if c.parent[row] >= 0 else -1 for row in rows}
    for row in rows:
        ns[above[row]] += spent.calls[row]
    is_there = 2 * ns[above[spent.row]] >= spent.ns
    return brief(core.names[c.name[spent.row]]) + (around(core, spent.row) if is_there else "")


# --- on the GPU ------------------------------------------------------------------------------------------------------


def _kernels(late: Late) -> tuple[dict[str, Kernels], dict[str, Kernels]]:
    mine, others = (side.rank.kernels(*side.host_ns) for side in (late.blamed, late.median))
    return mine, others


def _gpu(arrivals: Arrivals, late: Late, new: int) -> Reason | None:
    """Whether the GPU work between took longer, or there was more of it; and the work that differs most."""
    mine, others = _kernels(late)
    none = np.zeros(0, np.int64)
    takes = {name: tuple(side[name].takes if name in side else none for side in (mine, others))
             for name in (*mine, *(one for one in others if one not in mine))}  # fmt: skip
    slower = {name: min(len(one), len(other)) * (one.mean() - other.mean()) if len(one) and len(other) else 0.0
              for name, (one, other) in takes.items()}  # fmt: skip
    extra = {name: float(one.sum() - other.sum()) - slower[name] for name, (one, other) in takes.items()}
    total, total_other = (int(sum(pair[at].sum() for pair in takes.values())) for at in (0, 1))
    word, by = max(((SLOWER, slower), (MORE, extra)), key=lambda one: sum(one[1].values()))
    is_enough = _is_enough(sum(by.values()), total_other, new)
    if word == SLOWER and is_enough and sum(by.values()) < _most_by_chance(list(takes.values())):
        is_enough = None
    if not mine or not is_enough:
        return Reason(EVEN, new) if is_enough is None else None
    name = max(mine, key=lambda one: by[one])
    one, other = takes[name]
    row = int(mine[name].rows[one.argmax()])
    evidence = (
        f"{_compared(arrivals, late, total, total_other)}; of this kernel {len(one):,} of {shown_ms(int(one.sum()))} "
        f"against {len(other):,} of {shown_ms(int(other.sum()))}"
    )
    if word == SLOWER and mine[name].inputs != (others[name].inputs if name in others else frozenset()):
        word = LARGER
    return Reason(word, new, brief(name) + around(late.blamed.rank.core, row), evidence, row)


def _most_by_chance(takes: Sequence[tuple[Ns, ...]]) -> float:
    """By how much kernels that two ranks ran take longer on one by chance at most."""
    both = [tuple(side[: min(map(len, pair))] for side in pair) for pair in takes if all(map(len, pair))]
    if not both:
        return 0.0
    code = np.repeat(np.arange(len(both)), [len(one) for one, _ in both])
    ns, other_ns = (np.concatenate(side) for side in zip(*both, strict=True))
    return most_by_chance(ns, other_ns, code)


def _communication(arrivals: Arrivals, late: Late, new: int) -> Reason | None:
    """The collective with other ranks that took most of the late rank's chain."""
    blamed = late.blamed
    core = blamed.rank.core
    row = blamed.rank.chains.longest(blamed.chain, blamed.start_ns, Share.communication)
    if row < 0:
        return None
    at = collectives_of(core).of_row.get(row)
    what = brief(core.names[core.columns.name[row]])
    if at is not None:
        one = collectives_of(core).nodes[at]
        group = one.group_description or one.group
        what = one.kind + (f" of group {group}" if group else "")
    evidence = f"it took {shown_ms(int(core.columns.dur_ns[row]))}"
    rank, wait_ns = blamed.rank.waited_for(row)
    if rank >= 0:
        evidence += f", {shown_ms(wait_ns)} of it waiting for {arrivals.traces[rank].name}"
    return Reason(OTHERS, new, what, evidence, row)


# --- words -----------------------------------------------------------------------------------------------------------


def in_words(reason: str, what: str) -> str:
    """A word of `REASONS` and the work that it is about, for people."""
    if reason in UNNAMED or not what:
        return what or REASONS.get(reason, reason.replace("_", " "))
    return f"{reason.replace('_', ' ')} ({what})"


def _compared(arrivals: Arrivals, late: Late, ns: int, other_ns: int) -> str:
    return f"{shown_ms(ns)} against {shown_ms(other_ns)} on {arrivals.traces[late.median.rank.ordinal].name}"


def around(core: Core, row: int) -> str:
    """The op, the module and the line of Python around a call or GPU event."""
    c = core.columns
    above, found = ancestors(c, row), [core.names[c.name[row]]]
    line = int(user_lines(core, np.array([row]))[0])
    for one in (*(next((one for one in above if c.kind[one] == kind), -1) for kind in (Kind.Op, Kind.Module)), line):
        if one >= 0 and (name := core.names[c.name[one]]) not in found:
            found.append(name)
    return "".join(f", in {brief(name.removeprefix('nn.Module: '))}" for name in found[1:])
