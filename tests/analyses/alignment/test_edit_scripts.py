"""Generated call trees against edited ones: what the alignment costs, what the edits cost, and the least."""

from __future__ import annotations

from itertools import count
from random import Random

import numpy as np
import pytest
from alignments import aligned, assert_same, cost, graph, torn, unmatched
from edited_trees import EDITS, delete, edited, insert, kept, layered, made, rename, repeat, unwrap, wrap
from hypothesis import given
from hypothesis import strategies as st
from profiles import rounds

from tracelens_graph.analyses.alignment.align import Alignment, align
from tracelens_graph.analyses.alignment.costs import LeafCosts, LeafTable
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.graph.window import window_of

SEEDS = st.integers(0, 2**32)


def least(a: Forest, b: Forest) -> int:
    """The cost of the best alignment of the leaves: the textbook's table of all beginnings."""
    costs = LeafCosts(a, b)
    table = LeafTable(costs, range(a.leaves), range(b.leaves))
    lose, gain = (weights.tolist() for weights in costs.weights)
    row = np.concatenate(([0], np.cumsum(gain))).tolist()
    for i in range(a.leaves):
        beside = table.row(i, 0, b.leaves).tolist()
        new = [row[0] + lose[i]]
        for j in range(b.leaves):
            new.append(min(row[j] + beside[j], row[j + 1] + lose[i], new[j] + gain[j]))
        row = new
    return int(row[-1])


def cost_of(found: Alignment) -> int:
    a, b = found.sides
    return cost(a, b, [(i, j) for i, j in enumerate(found.leaves[0].tolist()) if j >= 0])


@given(SEEDS, st.integers(0, 6))
def test_every_event_is_in_one_point_changes_add_up_and_swapping_mirrors(seed: int, edits: int) -> None:
    random, numbers = Random(seed), count()
    tree = made(random, numbers, times=(1.0, 2.5, 7.0))
    aligned([tree.call()], [edited(tree, random, numbers, edits).call()])


@given(SEEDS)
def test_trees_that_have_nothing_to_do_with_each_other(seed: int) -> None:
    random, numbers = Random(seed), count()
    aligned([made(random, numbers).call()], [made(random, numbers).call()])


@given(SEEDS)
def test_a_tree_against_itself_is_all_matched(seed: int) -> None:
    tree = made(Random(seed), count())
    found = aligned([tree.call()], [tree.clone().call()])
    assert unmatched(found) == ([], [])
    assert not any(point.change_ns for point in found.points)


@given(SEEDS)
def test_the_same_twice(seed: int) -> None:
    random, numbers = Random(seed), count()
    tree = made(random, numbers)
    a, b = (window_of(graph([one.call()])) for one in (tree, edited(tree, random, numbers, 3)))
    assert_same(align(a, b), align(a, b))


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: str(edit.__name__))
def test_one_edit_costs_no_more_than_it_must(edit) -> None:  # type: ignore[no-untyped-def]
    for seed in range(rounds(120)):
        random, numbers = Random(seed), count()
        tree = made(random, numbers) if seed % 2 else layered(random, numbers, random.randint(2, 6))
        changed = tree.clone()
        edit(changed, random, numbers)
        found = aligned([tree.call()], [changed.call()])
        assert cost_of(found) <= cost(*found.sides, kept(tree, changed)), seed


def test_several_edits_cost_hardly_ever_more_than_they_must() -> None:
    """Units first is no exact method. How often it is dearer than the edits, how often than the best, and by how much.

    Trees of thirty ops with up to four edits; dearer by parts of the cost of leaving everything alone.
    """
    dearer, above_least, tries = [], 0, rounds(800)
    for seed in range(tries):
        random, numbers = Random(seed), count()
        tree = made(random, numbers) if seed % 3 else layered(random, numbers, random.randint(2, 6))
        changed = edited(tree, random, numbers, random.randint(0, 4))
        found = aligned([tree.call()], [changed.call()])
        mine, best = cost_of(found), least(*found.sides)
        assert mine >= best
        above_least += mine > best
        if mine > (script := cost(*found.sides, kept(tree, changed))):
            dearer.append((mine - script) / max(cost(*found.sides, []), 1))
    assert len(dearer) <= max(0.01 * tries, 2)
    assert max(dearer, default=0) < 0.15
    assert above_least <= max(0.06 * tries, 6)


def test_no_layer_is_torn() -> None:
    for seed in range(rounds(120)):
        random, numbers = Random(seed), count()
        tree = layered(random, numbers, random.randint(4, 16))
        changed = tree.clone()
        # A layer more or less, in every layer the same op more or less, and other names.
        for one in changed.calls:
            if seed % 3 == 0:
                one.calls[1].calls.insert(1, one.calls[0].calls[0].copy(numbers))
            elif seed % 3 == 1:
                del one.calls[1].calls[0]
        place = random.randrange(len(changed.calls))
        if seed % 2:
            del changed.calls[place]
        else:
            changed.calls.insert(place, changed.calls[0].copy(numbers))
        found = aligned([tree.call()], [changed.call()])
        assert torn(found, "Layer") == 0, seed


@pytest.mark.parametrize("edits", [(delete, insert, repeat), (rename, wrap, unwrap)])
def test_large_trees_of_equal_layers(edits) -> None:  # type: ignore[no-untyped-def]
    for seed in range(rounds(20)):
        random, numbers = Random(seed), count()
        tree = layered(random, numbers, 24)
        changed = tree.clone()
        for _ in range(10):
            random.choice(edits)(changed, random, numbers)
        found = aligned([tree.call()], [changed.call()])
        assert cost_of(found) <= 1.2 * cost(*found.sides, kept(tree, changed)) or rename in edits
