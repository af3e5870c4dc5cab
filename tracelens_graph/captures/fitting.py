"""How what replays of a graph ran fits a captured one: by names and order, else by what ops may run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph.captures.matching import ALIKE, COPY, FILL, Reference, Vocabulary, bounds, token_of
from tracelens_graph.captures.recording import CapturedGraph
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.graph.common_order import common_order
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Rows

BY_NAME, BY_NODE, BY_ALIGNMENT = "equal names in order", "equal names, by graph node ids", "aligned by name"
BY_COUNT, BY_KIND = "equal number, in order", "aligned by kind of kernel"

_ALIKE_IN_KIND = 0.9
"""As `ALIKE`, where kernels and calls are compared by kind alone."""
_IMPLAUSIBLE = 0.1
"""Share of the kernels that cannot be the work of their ops, from which on a graph does not fit."""
_LEAST_PART = 8
"""Calls of a capture that have to be recorded for a part of it to be joined: fewer fit elsewhere, too."""


@dataclass(frozen=True, eq=False)
class Fit:
    """How a reference fits a captured graph.

    Attributes:
        graph: the graph.
        call: of each event of the reference the position of its captured call, -1 for none.
        rule: how they were joined.
        doubtful: which of them fit another call as well.
        implausible: which of them cannot be the work of the op that they stand for; joined by order alone they are left
            out, by names they are not.
    """

    graph: CapturedGraph
    call: Rows
    rule: str
    doubtful: Mask
    implausible: Mask

    @property
    def score(self) -> int:
        """Number of joined events, less what is left over on either side."""
        joined = int(np.count_nonzero(self.call >= 0))
        return 3 * joined - len(self.call) - len(self.graph)

    @property
    def is_whole(self) -> bool:
        """Whether each event and each captured call are joined."""
        return len(self.call) == len(self.graph) and bool((self.call >= 0).all())

    @property
    def fits(self) -> bool:
        """Whether enough is joined for the graph to be the one that was replayed: of what ran, and up to its end.

        The end of a replay may be lost, but little before it is. Kinds of kernels fit more than names do.
        """
        joined = int(np.count_nonzero(self.call >= 0))
        least = _ALIKE_IN_KIND if self.rule == BY_KIND else ALIKE
        captured = max(int(self.call.max(initial=-1)) + 1, len(self.graph) // 2)
        replayed = min(len(self.call), len(self.graph)) if self.graph.is_part else len(self.call)
        return joined >= least * max(replayed, 1) and joined >= least * captured


def fit(reference: Reference, graph: CapturedGraph, words: Vocabulary) -> Fit:
    """How a reference fits a captured graph. A part of a capture is the first or the last of it."""
    whole, missing = _fit(reference, graph, words), len(reference) - len(graph)
    if missing <= 0 or not graph.is_part or np.count_nonzero(whole.call >= 0) >= ALIKE * len(reference):
        return whole
    events = slice(missing, None) if graph.cut == "begin" else slice(len(graph))
    found = _fit(reference.part(events), graph, words)
    call, doubtful, implausible = (np.full(len(reference), what) for what in (-1, False, False))
    is_sure = found.rule in (BY_NAME, BY_NODE) or (found.rule == BY_COUNT and not found.implausible.any())
    if reference.is_ordered and len(graph) >= _LEAST_PART and is_sure:
        call[events], doubtful[events], implausible[events] = found.call, found.doubtful, found.implausible
    return Fit(graph, call, found.rule, doubtful, implausible)


def _fit(reference: Reference, graph: CapturedGraph, words: Vocabulary) -> Fit:
    calls = words.of(graph.kinds.tolist(), graph.names)
    if (calls < 0).any():
        return _by_kind(reference, graph, calls)
    found = _by_name(reference, graph, calls)
    # The capture says that the op ran the kernel, so it stays joined.
    ops = [graph.ops[call] if call >= 0 else None for call in found.call.tolist()]
    return replace(found, implausible=conflicts(reference.names, ops))


def _by_name(reference: Reference, graph: CapturedGraph, calls: Codes) -> Fit:
    """The fit of a graph whose calls name their kernels."""
    nothing = np.zeros(len(reference), bool)
    if reference.is_ordered:
        if np.array_equal(calls, reference.token):
            return Fit(graph, np.arange(len(calls)), BY_NODE if reference.by_node else BY_NAME, nothing, nothing)
        call, last = bounds(reference.token, calls)
        return Fit(graph, call, BY_ALIGNMENT, call != last, nothing)

    def aligned(at: Rows, of: Rows) -> tuple[Rows, Rows]:
        return common_order(reference.token[at], calls[of])

    call = _stream_by_stream(reference, len(calls), aligned)
    doubtful = _exchanged(reference, graph, call, calls)
    complete = len(calls) == len(reference) and (call >= 0).all()
    return Fit(graph, call, BY_NAME + " on each stream" if complete else BY_ALIGNMENT, doubtful, nothing)


def _by_kind(reference: Reference, graph: CapturedGraph, calls: Codes) -> Fit:
    """The fit of a graph whose kernels have no names: by number and order, else by what ops run."""
    ops = graph.ops
    same = (
        np.array([_kind_of(*one) for one in zip(reference.kinds, reference.names, strict=True)]) == graph.kinds
        if len(reference) == len(graph)
        else np.zeros(1, bool)
    )
    if reference.is_ordered and same.all():
        call = np.arange(len(graph))
        implausible = conflicts(reference.names, ops)
        if np.count_nonzero(implausible) <= _IMPLAUSIBLE * len(call):
            return Fit(graph, np.where(implausible, -1, call), BY_COUNT, np.zeros(len(call), bool), implausible)
    score = scores(reference.kinds, reference.names, graph.kinds.tolist(), ops)

    def aligned(at: Rows, of: Rows) -> tuple[Rows, Rows]:
        return _best_order(score[np.ix_(at, of)])

    if reference.is_ordered:
        call = np.full(len(reference), -1, np.int64)
        at, of = aligned(np.arange(len(reference)), np.arange(len(graph)))
        call[at] = of
        doubtful = call >= 0
        from_end, to_end = _best_order(score[::-1, ::-1])
        again = np.full(len(reference), -1, np.int64)
        again[len(reference) - 1 - from_end] = len(graph) - 1 - to_end
        doubtful &= call != again
    else:
        call = _stream_by_stream(reference, len(graph), aligned)
        doubtful = _exchanged(reference, graph, call, calls)
    return Fit(graph, call, BY_KIND, doubtful, np.zeros(len(call), bool))


def _kind_of(kind: int, name: str) -> int:
    token = token_of(kind, name)
    return {COPY: Kind.Memcpy, FILL: Kind.Memset}.get(token or "", Kind.Kernel)


def _best_order(score: np.ndarray) -> tuple[Rows, Rows]:
    """Pairs in the same order on both sides whose scores add up to the most; what scores 0 is never paired.

    That is the algorithm of Needleman and Wunsch without a price for gaps.
    """
    n, m = score.shape
    best = np.zeros((n + 1, m + 1), np.int32)
    for row in range(n):
        paired = best[row, :-1] + score[row]
        np.maximum.accumulate(np.maximum(best[row, 1:], np.where(score[row] > 0, paired, 0)), out=best[row + 1, 1:])
    first, second = [], []
    while n and m:
        here = best[n, m]
        if here == best[n - 1, m]:
            n -= 1
        elif here == best[n, m - 1]:
            m -= 1
        else:
            n, m = n - 1, m - 1
            first.append(n)
            second.append(m)
    return np.array(first[::-1], np.int64), np.array(second[::-1], np.int64)


def _stream_by_stream(reference: Reference, calls: int, aligned: Any) -> Rows:
    """Of each event its captured call: the longest stream takes its calls first, the others of those that are left."""
    call = np.full(len(reference), -1, np.int64)
    left = np.arange(calls)
    for stream in _longest_first(reference.stream):
        here = np.flatnonzero(reference.stream == stream)
        at, of = aligned(here, left)
        call[here[at]] = left[of]
        left = np.delete(left, of)
    return call


def _longest_first(stream: Codes) -> list[int]:
    found, count = np.unique(stream, return_counts=True)
    return [int(one) for one in found[np.argsort(-count, kind="stable")]]


def _exchanged(reference: Reference, graph: CapturedGraph, call: Rows, calls: Codes) -> Mask:
    """Exchange the calls of equal events of two streams where that fits better, in place.

    Grids say which is which; where they do not, the longest stream has the earlier call, and both are doubtful.
    """
    doubtful = np.zeros(len(call), bool)
    main = _longest_first(reference.stream)[0]
    before, after = _neighbours(reference.stream, call)
    joined = np.flatnonzero(call >= 0)
    joined = joined[np.argsort(call[joined], kind="stable")]
    latest: dict[int, int] = {}
    for second in joined.tolist():
        token = int(reference.token[second])
        first = latest.get(token)
        latest[token] = second
        if first is None or reference.stream[first] == reference.stream[second]:
            continue
        low, high = int(call[first]), int(call[second])
        if not (high < after[first] and low > before[second]):
            continue  # on its stream, one of the two would overtake
        one, two = ((reference.grids[at], graph.grids[to]) for at, to in ((first, low), (second, high)))
        known = None not in (*one, *two) and one[1] != two[1]
        crossed = known and one[0] == two[1] and two[0] == one[1]
        sure = known and (crossed or (one[0] == one[1] and two[0] == two[1]))
        if crossed or (not sure and reference.stream[second] == main):
            call[first], call[second] = high, low
            latest[token] = first
        doubtful[[first, second]] = not sure
    return doubtful


def _neighbours(stream: Codes, call: Rows) -> tuple[Rows, Rows]:
    """The calls of the joined events before and behind each on its stream."""
    before, after = np.full(len(call), -1, np.int64), np.full(len(call), np.iinfo(np.int64).max, np.int64)
    for one in np.unique(stream).tolist():
        here = np.flatnonzero((stream == one) & (call >= 0))
        before[here[1:]], after[here[:-1]] = call[here[:-1]], call[here[1:]]
    return before, after


_ANY = ""
_OPS: tuple[tuple[str, str], ...] = (
    ("communication", r"nccl|rccl|c10d|all_?reduce|all_?gather|reduce_scatter|record_param_comms"),
    ("moe", r"moe|expert|topk|sorttokens|grouped|align_block"),
    ("attention", r"attention|attn|fmha|mla_|sdpa"),
    ("norm", r"norm"),
    ("rope", r"rotary|rope|apply_qk"),
    ("gemm", r"(?:^|::|_)(?:mm|bmm|addmm|baddbmm|matmul|linear)\b|gemm|scaled_mm|(?:^|::)linear"),
    ("copy", r"copy|clone|contiguous|::(?:to|_to_copy|cat|stack|fill_|zero_|zeros|index|gather|embedding|arange)|"
             r"index_|store_cache|and_cache|scatter|cast"),
    ("elementwise", r"silu|gelu|relu|::(?:mul|add|sub|div|neg|exp|sigmoid|tanh|where|pow|clamp|sqrt)_?\b"),
    ("reduce", r"argmax|::(?:sum|mean|max|min|cumsum|softmax|_softmax)\b"),
)  # fmt: skip
"""Kind of an op -> its name; the first that fits counts."""
_KERNELS = {
    "GEMM": "gemm", "Normalization": "norm", "RoPE": "rope", "MoE": "moe", "Elementwise": "elementwise",
    "Memory Ops": "copy", "Communication": "communication", "Reduction": "reduce",
}  # fmt: skip
"""Category of a kernel -> its kind; those of attention all begin with the word, or hold it."""
_SMALL = frozenset(("elementwise", "copy", "reduce", _ANY))
_RUNS = {
    "gemm": frozenset(("gemm",)) | _SMALL,
    "attention": frozenset(("attention", "gemm", "rope")) | _SMALL,
    "norm": frozenset(("norm",)) | _SMALL,
    "rope": frozenset(("rope", "norm")) | _SMALL,
    "moe": frozenset(("moe", "gemm", "norm")) | _SMALL,
    "communication": frozenset(("communication",)) | _SMALL,
    "copy": _SMALL,
    "elementwise": frozenset(("norm",)) | _SMALL,
    "reduce": frozenset(("moe", "norm")) | _SMALL,
}
"""Kind of an op -> kinds of kernels that it runs."""


def _kernel_kinds(names: Sequence[str]) -> list[str]:
    found = kernel_categories([(name, "") for name in names])
    return ["attention" if "ttention" in one else _KERNELS.get(one, _ANY) for one in found]


def _coded(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The different texts, and of each its position among them."""
    codes: dict[str, int] = {}
    at = np.array([codes.setdefault(one, len(codes)) for one in texts], np.int64)
    return list(codes), at


def _fits(names: Sequence[str], ops: Sequence[str | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How well each different kernel fits each different op: 0 not at all, 1 perhaps, 3 by its kind; and places."""
    kernels, kernel = _coded(names)
    different, op = _coded([one or "" for one in ops])
    table = np.ones((len(kernels), len(different)), np.int64)
    kinds = _kernel_kinds(kernels)
    for column, one in enumerate(different):
        kind = next((kind for kind, pattern in _OPS if re.search(pattern, one, re.I)), _ANY) if one else _ANY
        for row, found in enumerate(kinds):
            if kind == _ANY:
                continue
            table[row, column] = 0 if found not in _RUNS[kind] else 3 if found == kind else 1
    return table, kernel, op


def conflicts(names: Sequence[str], ops: Sequence[str | None]) -> Mask:
    """For each kernel and its op whether the kernel cannot be the op's work."""
    table, kernel, op = _fits(names, ops)
    return table[kernel, op] == 0


def scores(
    kinds: Sequence[int], names: Sequence[str], of_kinds: Sequence[int], ops: Sequence[str | None]
) -> np.ndarray:
    """How well each GPU event fits each captured call; 0 where it cannot be its work."""
    table, kernel, op = _fits(names, ops)
    is_kernel, launches = np.array(kinds) == Kind.Kernel, np.array(of_kinds) == Kind.Kernel
    return np.where(is_kernel[:, None] == launches[None, :], table[kernel][:, op], 0)
