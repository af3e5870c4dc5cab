"""Which kernel a captured call stands for where the capture names none, as on CUDA.

What is known of a call is the op that made it, and of a replayed kernel its name. Calls of one kind (op, its arguments,
which of its calls) run one kernel, in every layer. So kernels and calls are aligned by families at first, which shows
the kernel of most kinds, and then by these.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np

from tracelens_graph.captures.recording import CapturedGraph
from tracelens_graph.categories.kernels import kernel_category
from tracelens_graph.categories.ops import op_category
from tracelens_graph.utils.arrays import Rows

_FOREIGN = {
    "GEMM": {"Flash Attention Forward", "Normalization", "RoPE", "MoE"},
    "Normalization": {"GEMM", "Flash Attention Forward", "MoE"},
    "RoPE": {"GEMM", "Flash Attention Forward", "MoE"},
    "Elementwise": {"GEMM", "Flash Attention Forward", "Normalization", "MoE"},
    "Memory Ops": {"GEMM", "Flash Attention Forward", "Normalization", "MoE"},
    "Embedding": {"GEMM", "Flash Attention Forward", "Normalization", "MoE"},
    "Flash Attention Forward": {"MoE"},
    "MoE": {"Flash Attention Forward", "RoPE"},
}
"""Families of ops, and those of kernels that cannot belong to them. An op of no known family may run anything."""
_SAME, _UNKNOWN, _CONFLICT, _GAP = 2.0, 0.2, -3.0, -0.6
_USUAL, _OTHER = 3.0, -2.0
_BAND = 48
"""How far kernels may lie from where they would with none lost."""
_MOST_REPLAYS = 12
"""So many replays show what each call runs."""


@cache
def family_of_op(name: str) -> str:
    """What kind of work an op does, in the words for kernels."""
    return "GEMM" if op_category(name, "") == "GEMM" else kernel_category(name)


@cache
def belongs(kernel: str, op: str) -> bool:
    """Whether an op may run a kernel, by the families of both."""
    return kernel_category(kernel) not in _FOREIGN.get(family_of_op(op), ())


def kernels_of(graph: CapturedGraph, replays: Sequence[Sequence[str]]) -> tuple[str | None, ...] | None:
    """The name of the kernel of each captured call; None for one that no replay shows, or for all if nothing fits.

    Args:
        graph: the graph, whose calls have no names.
        replays: names of the kernels of each replay that is expected to be of the graph, in order.
    """
    size = len(graph)
    near = [names for names in replays if abs(len(names) - size) <= max(2, size // 8)]
    near = sorted(near, key=lambda names: abs(len(names) - size))[:_MOST_REPLAYS]
    if not near:
        return None
    ops, kinds = [op_of_call(graph, call) for call in range(size)], _kinds(graph)
    usual: dict[int, str] = {}
    for _ in range(3):
        votes: list[Counter[str]] = [Counter() for _ in range(size)]
        for names in near:
            for event, call in zip(*_alignment(names, ops, kinds, usual), strict=True):
                votes[call][names[event]] += 1
        of_kind: defaultdict[int, Counter[str]] = defaultdict(Counter)
        for kind, vote in zip(kinds, votes, strict=True):
            of_kind[kind].update(vote)
        before, usual = usual, {kind: vote.most_common(1)[0][0] for kind, vote in of_kind.items() if vote}
        if usual == before:
            break
    found = [usual.get(kind) for kind in kinds]
    foreign = sum(name is None or not belongs(name, op) for name, op in zip(found, ops, strict=True))
    return None if foreign > size // 10 else tuple(found)


def op_of_call(graph: CapturedGraph, call: int) -> str:
    """The op that made a call; empty for none."""
    node = int(graph.call[call])
    return graph.tree.names[graph.tree.name[node]] if node >= 0 else ""


def _kinds(graph: CapturedGraph) -> list[int]:
    """A number for what is equal of calls in all layers: op, arguments, and which of the op's calls."""
    numbers: dict[tuple[int, ...], int] = {}
    seen: Counter[int] = Counter()
    found = []
    for node, kind in zip(graph.call.tolist(), graph.kinds.tolist(), strict=True):
        key = (
            (kind, -1, -1, 0)
            if node < 0
            else (kind, int(graph.tree.name[node]), int(graph.tree.argset[node]), seen[node])
        )
        seen[node] += 1
        found.append(numbers.setdefault(key, len(numbers)))
    return found


def _alignment(
    names: Sequence[str], ops: Sequence[str], kinds: Sequence[int], usual: dict[int, str]
) -> tuple[Rows, Rows]:
    """Positions of kernels and of their calls: the best alignment in a band around the diagonal (Needleman, Wunsch)."""
    known = {name: place for place, name in enumerate(dict.fromkeys(names))}
    table: dict[int, np.ndarray] = {}
    for kind, op in zip(kinds, ops, strict=True):
        if kind not in table:
            table[kind] = np.array([_score(name, op, usual.get(kind)) for name in known])
    events = np.array([known[name] for name in names])
    n, m = len(names), len(ops)
    width = 2 * (_BAND + abs(n - m)) + 1
    best = np.full((m + 1, width), -np.inf)
    step = np.zeros((m + 1, width), np.int8)
    # Row i is the i-th call; column k stands for the first i + k - width // 2 kernels.
    offset = np.arange(width) - width // 2
    best[0] = np.where(offset >= 0, _GAP * offset, -np.inf)
    step[0] = 2
    for i in range(1, m + 1):
        j = i + offset
        valid = (j >= 0) & (j <= n)
        score = np.full(width, -np.inf)
        pairs = valid & (j >= 1)
        score[pairs] = table[kinds[i - 1]][events[j[pairs] - 1]]
        paired = best[i - 1] + score
        without = np.append(best[i - 1][1:], -np.inf) + _GAP
        row = np.where(valid, np.maximum(paired, without), -np.inf)
        came = np.where(paired >= without, 0, 1).astype(np.int8)
        # Kernels without a call: the running maximum from the left, each step to the right costing a gap.
        lifted = np.maximum.accumulate(row - _GAP * offset) + _GAP * offset
        extra = lifted > row
        best[i] = np.where(valid, lifted, -np.inf)
        step[i] = np.where(extra, 2, came)
    return _traced(step, n, m, width)


def _score(name: str, op: str, usual: str | None) -> float:
    if usual is not None:
        return _USUAL if name == usual else _OTHER
    if not belongs(name, op):
        return _CONFLICT
    return _SAME if kernel_category(name) == family_of_op(op) != "Other" else _UNKNOWN


def _traced(step: np.ndarray, n: int, m: int, width: int) -> tuple[Rows, Rows]:
    """The pairs of the best way through the table."""
    events, calls = [], []
    i, k = m, n - m + width // 2
    while i > 0:
        if step[i, k] == 0:
            events.append(i + k - width // 2 - 1)
            calls.append(i - 1)
            i -= 1
        elif step[i, k] == 1:
            i, k = i - 1, k + 1
        else:
            k -= 1
    return np.array(events[::-1], np.int64), np.array(calls[::-1], np.int64)
