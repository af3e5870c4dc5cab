from __future__ import annotations

import numpy as np
from alignments import graph
from call_trees import module
from trees_of_calls import call_of

from tracelens_graph.analyses.alignment.forest import Forest, Vocabulary, forest
from tracelens_graph.analyses.alignment.leaf_matching import settle_gaps
from tracelens_graph.graph.window import window_of


def side(*blocks: list[str]) -> Forest:
    """Blocks of ops, one after the other, all of one name."""
    calls = [module("Net_0", *(module("Block_0", *(call_of(name) for name in block)) for block in blocks))]
    return forest(window_of(graph(calls)), Vocabulary(), Vocabulary())


def slid(a: Forest, of: list[int], others: int) -> tuple[list[int], list[int]]:
    mine, other = np.array(of), np.full(others, -1)
    paired = np.flatnonzero(mine >= 0)
    other[mine[paired]] = paired
    settle_gaps(a, mine, other)
    return mine.tolist(), other.tolist()


def test_a_gap_across_two_blocks_moves_to_one_whole_block() -> None:
    a = side(["mm", "add"], ["mm", "add"], ["mm", "add"])
    # The gap is `add` of the first block and `mm` of the second.
    assert slid(a, [0, -1, -1, 1, 2, 3], 4)[0] in ([-1, -1, 0, 1, 2, 3], [0, 1, -1, -1, 2, 3])


def test_a_gap_between_blocks_stays() -> None:
    a = side(["mm", "add"], ["mm", "add"], ["mm", "add"])
    assert slid(a, [0, 1, -1, -1, 2, 3], 4) == ([0, 1, -1, -1, 2, 3], [0, 1, 4, 5])


def test_a_gap_does_not_move_past_other_work() -> None:
    a = side(["mm", "add", "relu"], ["cumsum"])
    assert slid(a, [0, -1, 1, 2], 3) == ([0, -1, 1, 2], [0, 2, 3])


def test_no_gap() -> None:
    a = side(["mm", "add"])
    assert slid(a, [0, 1], 2) == ([0, 1], [0, 1])
