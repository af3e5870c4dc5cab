"""Forward ops and their backward ops; recomputation of activations.

An autograd node is made by one forward op and run by one backward op. Ops carry the sequence number that their
thread was about to give to its next node, so a number is shared by the op that made the node and by ops around
and before it: the one that starts last made it. The backward op carries the number together with the small
number of the forward thread; it is the innermost op that does (`AddmmBackward0`, inside of
`autograd::engine::evaluate_function: AddmmBackward0`). These are the ends of PyTorch's own arrows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter

import numpy as np

from tracelens_graph.graph.arrays import distinct, distinct_pairs
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.flows import Flows
from tracelens_graph.graph.membership import process_of_thread
from tracelens_graph.graph.recompute import ENGINE, Passes, recomputation
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Rows

Pairs = tuple[Rows, Rows]
"""Rows of forward ops and of their backward ops."""


@dataclass(frozen=True)
class Autograd:
    """Links between the passes of a training step.

    Attributes:
        forward, backward: rows of linked pairs, many to many, by forward and then backward row.
        recompute: per row of the graph whether it belongs to a recomputation of activations.
        by_arrow: rows of the pairs that the file's own arrows join, in the order of the arrows.
        engine: rows of the engine's ops that run a backward op of these pairs, ascending, and that op. What such an op
            launches beside it, as the gradient of a bias or the sum of two gradients, is work of the same pass.
        lost_arrows: arrows of the file with an end on no op.
    """

    forward: Rows
    backward: Rows
    recompute: Mask
    by_arrow: Pairs
    engine: Pairs
    lost_arrows: int = 0

    def backward_of(self, row: int) -> list[int]:
        """Rows of the backward ops of a forward op."""
        low, high = np.searchsorted(self.forward, (row, row + 1))
        return self.backward[low:high].tolist()

    def forward_of(self, row: int) -> list[int]:
        """Rows of the forward ops of a backward op: the op itself and, with checkpointing, its recomputation."""
        backward, forward = self._by_backward
        low, high = np.searchsorted(backward, (row, row + 1))
        return forward[low:high].tolist()

    def run_by(self, rows: Rows) -> Rows:
        """The backward op for each row of the engine's ops; other rows as they are."""
        engine, runs = self.engine
        if not len(engine):
            return rows
        at = np.minimum(np.searchsorted(engine, rows), len(engine) - 1)
        return np.where(engine[at] == rows, runs[at], rows)

    @cached_property
    def _by_backward(self) -> Pairs:
        order = np.argsort(self.backward, kind="stable")
        return self.backward[order], self.forward[order]


def autograd_of(core: Core) -> Autograd:
    """Forward ops, their backward ops, and what was recomputed; found once per graph.

    Links come from PyTorch's arrows, and from forward thread and sequence number where no arrow leads. A trace without
    either has no links.
    """
    return core.once(_autograd)


def _autograd(core: Core) -> Autograd:
    c = core.columns
    numbered = np.flatnonzero((c.sequence >= 0) & (c.kind == Kind.Op))
    is_backward = c.forward_thread[numbered] != -1
    makers = _makers(core, numbered[~is_backward])
    runners = _innermost(core, numbered[is_backward])
    by_arrow, lost = _by_arrow(core, numbered[~is_backward], runners)
    by_number = _by_number(core, makers, runners, by_arrow)
    forward, backward = (np.concatenate(ends) for ends in zip(by_arrow, by_number, strict=True))
    again = recomputation(core, Passes(makers, runners, forward, backward))
    forward, backward = distinct_pairs(
        np.concatenate((forward, again.forward)), np.concatenate((backward, again.backward))
    )
    return Autograd(forward, backward, again.mask, by_arrow, _engine(core, backward), lost)


def _engine(core: Core, backward: Rows) -> Pairs:
    """The engine's ops right above backward ops, and the first of those that each runs."""
    c, backward = core.columns, distinct(backward)[0]
    named = np.fromiter((name.startswith(ENGINE) for name in (*core.names, "")), bool, len(core.names) + 1)
    above = c.parent[backward]
    is_engine = (above >= 0) & (c.kind[above] == Kind.Op) & named[c.name[above]]
    runs = np.flatnonzero(is_engine & ~np.isin(above, backward))
    engine, first = np.unique(above[runs], return_index=True)
    return engine, backward[runs[first]]


def _makers(core: Core, rows: Rows) -> Rows:
    """Of forward ops those that made a node, by thread and sequence number.

    Among ops with one number it is the one that starts last, the inner one where a clock of microseconds makes
    them start together.
    """
    c = core.columns
    rows = rows[np.lexsort((rows, c.start_ns[rows], c.sequence[rows], c.thread[rows]))]
    thread, sequence = c.thread[rows], c.sequence[rows]
    is_latest = np.ones(len(rows), bool)
    is_latest[:-1] = (thread[1:] != thread[:-1]) | (sequence[1:] != sequence[:-1])
    return rows[is_latest]


def _innermost(core: Core, rows: Rows) -> Rows:
    """Of backward ops those without another of the same number inside, ascending."""
    c = core.columns
    rows = rows[np.lexsort((rows, c.sequence[rows], c.forward_thread[rows], c.thread[rows]))]
    has_inner = np.zeros(len(rows), bool)
    # Among ops of one number by row, the next one is inside if any is: a subtree is a range of rows.
    inside = rows[1:] <= c.last[rows[:-1]]
    for column in (c.thread, c.forward_thread, c.sequence):
        inside &= column[rows[1:]] == column[rows[:-1]]
    has_inner[:-1] = inside
    return np.sort(rows[~has_inner])


def _by_arrow(core: Core, forwards: Rows, runners: Rows) -> tuple[Pairs, int]:
    """Pairs joined by arrows, and the number of arrows that join none."""
    c = core.columns
    tail_thread, tail_time, head_thread, head_time = _arrows(
        Flows.of(core.autograd_flows), process_of_thread(core.threads)
    )
    none = np.zeros(0, np.int64)
    if not len(tail_time) or not len(c):
        return (none, none), len(tail_time)

    def or_any_op(found: np.ndarray, thread: Codes, time: np.ndarray) -> np.ndarray:
        if (found >= 0).all():
            return found
        ops = np.flatnonzero(c.kind == Kind.Op)
        return np.where(found >= 0, found, _last_equal(ops, (c.thread[ops], c.start_ns[ops]), (thread, time)))

    head = _last_equal(runners, (c.thread[runners], c.start_ns[runners]), (head_thread, head_time))
    head = or_any_op(head, head_thread, head_time)
    # Where several ops start together, the arrow begins at the one with the number of the backward op.
    tail = _last_equal(
        forwards,
        (c.thread[forwards], c.start_ns[forwards], c.sequence[forwards]),
        (tail_thread, tail_time, c.sequence[head]),
    )
    tail = or_any_op(tail, tail_thread, tail_time)
    joined = (tail >= 0) & (head >= 0) & (tail != head)
    return (tail[joined], head[joined]), int(len(joined) - joined.sum())


def _arrows(flows: Flows, process: Codes) -> tuple[np.ndarray, ...]:
    """Thread and time of the starts and of the finishes of arrows; an id counts within its process."""
    start, finish = (flows.of_phase(phase) for phase in "sf")
    has, wants = ((process[flows.thread[ends]], flows.id[ends]) for ends in (start, finish))
    found = _last_equal(np.arange(len(start)), has, wants)
    start, finish = start[found[found >= 0]], finish[found >= 0]
    return flows.thread[start], flows.time[start], flows.thread[finish], flows.time[finish]


def _by_number(core: Core, makers: Rows, runners: Rows, by_arrow: Pairs) -> Pairs:
    """Pairs of equal process, forward thread and sequence number, for backward ops that no arrow reaches."""
    c = core.columns
    process = process_of_thread(core.threads)
    maker_key, runner_key = _codes(
        (process[c.thread[makers]], c.sequence[makers]), (process[c.thread[runners]], c.sequence[runners])
    )
    m, r = _equal(maker_key, runner_key)
    forward, backward = makers[m], runners[r]
    # Each thread counts for itself: others reach the same number, even after the backward op ran.
    earlier = c.start_ns[forward] <= c.start_ns[backward]
    forward, backward = forward[earlier], backward[earlier]
    forward_thread = _forward_threads(core, process, (forward, backward), by_arrow)
    ours = (c.thread[forward] == forward_thread[backward]) & ~np.isin(backward, by_arrow[1])
    return forward[ours], backward[ours]


def _forward_threads(core: Core, process: Codes, candidates: Pairs, by_arrow: Pairs) -> np.ndarray:
    """Per row the code of the forward thread that its small thread number means, -1 where nothing shows it.

    The file does not say which thread has which number, so pairs of ops that would follow vote: arrows first,
    then pairs whose names fit, then all. A number is one thread of its process and a thread has one number.
    """
    c = core.columns
    forward, backward = (np.concatenate(ends) for ends in zip(by_arrow, candidates, strict=True))
    found = np.full(len(c), -1, np.int64)
    known = c.forward_thread[backward] != -1
    forward, backward = forward[known], backward[known]
    arrow = (np.arange(len(known)) < len(by_arrow[0]))[known]
    numbers, number = np.unique(
        np.stack((process[c.thread[backward]], c.forward_thread[backward]), axis=1), axis=0, return_inverse=True
    )
    number = number.reshape(-1)
    choices, choice = np.unique(np.stack((number, c.thread[forward]), axis=1), axis=0, return_inverse=True)
    choice = choice.reshape(-1)
    votes = [
        np.bincount(choice, weights, len(choices)).astype(np.int64).tolist()
        for weights in (arrow, _names_fit(core, forward, backward), np.ones(len(forward)))
    ]
    ranked = sorted(zip(zip(*votes, strict=True), choices.tolist(), strict=True), reverse=True)
    thread_of = np.full(len(numbers), -1, np.int64)
    settled: set[int] = set()
    taken: set[int] = set()
    for _, equals in groupby(ranked, key=itemgetter(0)):
        free = [(code, thread) for _, (code, thread) in equals if code not in settled and thread not in taken]
        # What stands equal cannot be separated, and is left without a thread.
        codes, threads = (Counter(ends) for ends in zip(*free, strict=True)) if free else (Counter(), Counter())
        for code, thread in free:
            settled.add(code)
            taken.add(thread)
            if codes[code] == threads[thread] == 1:
                thread_of[code] = thread
    found[backward] = thread_of[number]
    return found


def _names_fit(core: Core, forward: Rows, backward: Rows) -> Mask:
    """Whether names belong together, as `aten::native_batch_norm` and `NativeBatchNormBackward0` do."""
    c = core.columns
    pairs, back = np.unique(c.name[forward].astype(np.int64) * len(core.names) + c.name[backward], return_inverse=True)
    fits = [
        _plain(core.names[f]) == _plain(re.sub(r"Backward\d*$", "", core.names[b]))
        for f, b in (divmod(pair, len(core.names)) for pair in pairs.tolist())
    ]
    return np.array(fits, bool)[back.reshape(-1)] if fits else np.zeros(0, bool)


def _plain(name: str) -> str:
    return re.split(r"::|: ", name)[-1].replace("_", "").lower()


def _codes(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """One number per tuple of values, equal for equal tuples on either side."""
    code = np.zeros(len(left[0]) + len(right[0]), np.int64)
    for a, b in zip(left, right, strict=True):
        _, value = np.unique(np.concatenate((a, b)), return_inverse=True)
        # Renumbered after each column, so that codes stay below the number of entries and products fit.
        _, code = np.unique(code * (len(value) + 1) + value, return_inverse=True)
    return code[: len(left[0])], code[len(left[0]) :]


def _equal(left: np.ndarray, right: np.ndarray) -> Pairs:
    """Positions of all pairs of equal values."""
    order = np.argsort(left, kind="stable")
    low, high = (np.searchsorted(left[order], right, side) for side in ("left", "right"))
    count = high - low
    r = np.repeat(np.arange(len(right)), count)
    first = np.repeat(low - np.concatenate(([0], np.cumsum(count)[:-1])) if len(count) else low, count)
    return order[first + np.arange(len(r))], r


def _last_equal(rows: Rows, have: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> Rows:
    """For each wanted tuple the last of the rows that has it, -1 for none."""
    has, wants = _codes(have, want)
    row_of = np.full(int(max(has.max(initial=-1), wants.max(initial=-1))) + 1, -1, np.int64)
    np.maximum.at(row_of, has, rows)
    return row_of[wants]
