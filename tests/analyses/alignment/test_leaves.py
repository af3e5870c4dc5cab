"""Leaves of aligned trees, and edits of known effect."""

from __future__ import annotations

from itertools import count
from random import Random

import numpy as np
import pytest
from alignments import (
    EDITS,
    aligned,
    cost,
    delete,
    edited,
    insert,
    kept,
    layered,
    made,
    pairs,
    rename,
    repeat,
    torn,
    unmatched,
    unwrap,
    wrap,
)
from call_trees import BACKWARD, FORWARD, Call, call_of, copy, fill, frame, launch, layer, model, module, op
from hypothesis import given
from hypothesis import strategies as st
from profiles import rounds

from tracelens_graph.analyses.alignment import leaf_matching
from tracelens_graph.analyses.alignment.align import Alignment
from tracelens_graph.analyses.alignment.costs import LeafCosts, LeafTable
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.matches import MatchKind
from tracelens_graph.analyses.alignment.several import Structures


@pytest.mark.parametrize("depth", [1, 3, 40])
def test_wrappers_of_any_depth_on_one_side(depth: int) -> None:
    wrapped = model(3)
    for k in range(depth):
        wrapped = [frame(f"wrapper.py({k}): call_{k}", *wrapped)]
    found = aligned(model(3), wrapped)
    assert unmatched(found) == ([], [])
    assert MatchKind.wrapped not in found.leaf_kinds[0]


def test_a_deep_wrapper_needs_no_recursion() -> None:
    """Deeper than Python's stack; written flat, as the layout of traces recurses."""
    from handmade import span

    from tracelens_graph.loading.one import load_core

    def trace(depth: int) -> dict[str, object]:
        frames = [span("python_function", f"f.py(1): f{k % 7}", 10.0 + k, 1e5 - 2 * k) for k in range(depth)]
        work = []
        for k in range(3):
            start = 2e4 + 100 * k
            work += [
                span("cpu_op", "aten::mm", start, 50.0),
                span("cuda_runtime", "cudaLaunchKernel", start + 1, 5.0, correlation=k + 1),
                span("kernel", "gemm", start + 10, 20.0, 0, 7, device=0, stream=7, correlation=k + 1),
            ]
        return {"schemaVersion": 1, "traceEvents": frames + work}

    found = aligned(load_core(trace(3000)), load_core(trace(2)))
    assert unmatched(found) == ([], [])


def test_an_inlined_call() -> None:
    a = [module("Net_0", call_of("linear", call_of("addmm")), call_of("relu"))]
    b = [module("Net_0", call_of("addmm"), call_of("relu"))]
    found = aligned(a, b)
    assert pairs(found) == [("addmm", "addmm"), ("relu", "relu")]
    assert found.leaf_kinds[0].tolist() == [MatchKind.identical] * 2
    # Net, linear, addmm below it, relu, the thread.
    kinds = [MatchKind(kind) for kind in found.node_kinds[0].tolist()]
    assert kinds[1:4] == [MatchKind.unmatched, MatchKind.wrapped, MatchKind.identical]


def test_a_fill_beside_a_gemm_is_one_leaf() -> None:
    a = [module("Net_0", op("aten::mm", fill(), launch("gemm", 5.0)), call_of("relu"))]
    b = [module("Net_0", op("aten::mm", launch("gemm", 7.0)), call_of("relu"))]
    found = aligned(a, b)
    assert [side.leaves for side in found.sides] == [2, 2]
    assert unmatched(found) == ([], [])
    assert found.leaf_kinds[0].tolist() == [MatchKind.fused, MatchKind.identical]
    assert sorted(point.change_ns for point in found.points) == [0, 1000]


def test_two_ops_fused_into_one() -> None:
    a = [module("Net_0", call_of("mm"), call_of("mul"), call_of("add"), call_of("softmax"))]
    b = [module("Net_0", call_of("mm"), call_of("addcmul"), call_of("softmax"))]
    found = aligned(a, b)
    assert ("mm", "mm") in pairs(found)
    assert ("softmax", "softmax") in pairs(found)
    assert len(unmatched(found)[0]) - len(unmatched(found)[1]) == 1


def test_n_kernels_of_an_op_against_m_are_one_point() -> None:
    a = [module("Net_0", op("attn", call_of("q"), call_of("k"), call_of("v")), call_of("relu"))]
    b = [module("Net_0", op("attn", call_of("qkv"), call_of("bias")), call_of("relu"))]
    found = aligned(a, b)
    point = max(found.points, key=lambda point: len(point.leaves[0]))
    assert [len(leaves) for leaves in point.leaves] == [3, 2]


@pytest.mark.parametrize("at", [0, 11, 32])
def test_a_layer_inserted_among_32_is_one_insertion(at: int) -> None:
    a, b = model(32), model(32)
    b[0].calls = [*b[0].calls[:at], layer(99), *b[0].calls[at:]]
    found = aligned(a, b)
    assert [len(side) for side in unmatched(found)] == [0, 5]
    assert torn(found, "Layer") == 0
    assert torn(aligned(b, a), "Layer") == 0


@pytest.mark.parametrize("gone", [0, 7, 15])
def test_a_layer_deleted_where_every_other_one_has_a_cast_more(gone: int) -> None:
    a, b = model(16), model(15)
    for one in b[0].calls:
        one.calls = [call_of("_to_copy"), *one.calls]
    found = aligned(a, b)
    assert torn(found, "Layer") == 0
    assert [len(side) for side in unmatched(found)] == [5, 15]
    assert set(unmatched(found)[1]) == {"_to_copy"}


def test_casts_in_every_layer_and_ops_removed() -> None:
    a, b = model(8), model(8)
    for one in b[0].calls:
        (forward,) = one.calls
        forward.calls = [call_of("_to_copy"), *forward.calls[:-1]]
    found = aligned(a, b)
    assert set(unmatched(found)[1]) == {"_to_copy"}
    assert set(unmatched(found)[0]) == {"add"}
    assert torn(found, "Layer") == 0


@pytest.mark.parametrize("what", ["module", "frame", "all"])
def test_other_names_of_modules_and_frames(what: str) -> None:
    found = aligned(model(4), model(4, rename=what))
    assert unmatched(found) == ([], [])
    assert set(found.leaf_kinds[0].tolist()) == {MatchKind.identical}
    if what != "frame":
        assert MatchKind.renamed in found.node_kinds[0]


def test_an_op_of_another_name_that_does_the_same() -> None:
    found = aligned(
        [module("Net_0", op("aten::cudnn_convolution", launch("conv_fprop")), call_of("relu"))],
        [module("Net_0", op("aten::miopen_convolution", launch("conv_fprop")), call_of("relu"))],
    )
    assert unmatched(found) == ([], [])
    assert found.leaf_kinds[0].tolist() == [MatchKind.renamed, MatchKind.identical]


def test_swapped_blocks_of_one_name_are_paired_by_what_they_do_and_one_has_moved() -> None:
    one = module("Block_0", *(call_of(name) for name in ("mm", "relu", "mm", "relu", "mm")))
    two = module("Block_1", *(call_of(name) for name in ("softmax", "cumsum")))
    a = [module("Net_0", one, two)]
    b = [module("Net_0", *(module(f"Block_{k}", *c) for k, c in enumerate((
        [call_of(name) for name in ("softmax", "cumsum")],
        [call_of(name) for name in ("mm", "relu", "mm", "relu", "mm")],
    ))))]  # fmt: skip
    found = aligned(a, b)
    assert unmatched(found) == ([], [])
    assert all(one == other for one, other in pairs(found))
    assert [point.leaves for point in found.points if point.is_moved] == [([5, 6], [0, 1])]


def test_threads_are_paired_by_what_they_do() -> None:
    first = [call_of("mm"), call_of("relu")]
    second = [call_of("nll_loss"), call_of("cumsum")]
    again = [call_of("mm"), call_of("relu")], [call_of("nll_loss"), call_of("cumsum")]
    found = aligned({FORWARD: first, BACKWARD: second}, {(1, 7): again[1], (1, 9): again[0]})
    assert sorted(pairs(found)) == [(name, name) for name in ("cumsum", "mm", "nll_loss", "relu")]


def test_eager_against_the_same_kernels_of_one_graph_launch() -> None:
    names = ("gemm", "elementwise_add", "softmax", "gemm")
    eager = [module("Net_0", *(op(f"aten::op{k}", launch(name)) for k, name in enumerate(names)))]
    replay = Call("cudaGraphLaunch", "cuda_runtime", kernel=names[0])
    from tracelens_graph.graph.core import Core
    from tracelens_graph.loading.one import load_core

    def with_graph() -> Core:
        from call_trees import trace

        document = trace([(FORWARD, [replay])])
        kernel = document["traceEvents"][-1]
        for k, name in enumerate(names[1:], 1):
            document["traceEvents"].append({**kernel, "name": name, "ts": kernel["ts"] + k})
        return load_core(document)

    found = aligned(eager, with_graph())
    assert pairs(found) == [(name, name) for name in names]


@pytest.mark.parametrize("us", [1e11, 1e12, 9e12])
def test_kernels_of_absurd_durations(us: float) -> None:
    sides = [[op(name, launch(f"k{i}", us)) for i, name in enumerate(names)] for names in ("abcde", "xyazb")]
    found = aligned(*sides)
    assert pairs(found) == [("k0", "k2"), ("k1", "k4")]


def test_copies_are_compared_by_direction() -> None:
    found = aligned(
        [op("aten::copy_", copy("HtoD (Pageable -> Device)"))], [op("aten::copy_", copy("HtoD (Host -> Device)"))]
    )
    assert found.leaf_kinds[0].tolist() == [MatchKind.identical]
    other = aligned([copy("HtoD (Pageable -> Device)")], [copy("DtoH (Device -> Pageable)")])
    assert len(pairs(other)) == 0


def test_leaves_that_are_not_equal_have_costs_of_their_own() -> None:
    """The number of the arguments of the third op is that of the kernel of the fourth, and the other way round."""
    calls = [
        op("aten::mm", launch(f"kernel{kernel}"), **{"Input Dims": [[n, 8]], "Input type": ["float"]})
        for n, kernel in enumerate([1, 3, 2, 0, 4, 5, 6, 7])
    ]
    a, b = aligned(calls, calls[::-1]).sides
    table = LeafTable(LeafCosts(a, b), range(a.leaves), range(b.leaves))
    rows = np.array([table.row(i, 0, b.leaves) for i in range(a.leaves)])
    assert (rows == 0).tolist() == np.eye(a.leaves, dtype=bool)[::-1].tolist()


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


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: str(edit.__name__))
def test_one_edit_costs_no_more_than_it_must(edit) -> None:  # type: ignore[no-untyped-def]
    for seed in range(rounds(120)):
        random, numbers = Random(seed), count()
        tree = made(random, numbers) if seed % 2 else layered(random, numbers, random.randint(2, 6))
        changed = tree.clone()
        edit(changed, random, numbers)
        found = aligned([tree.call()], [changed.call()])
        assert cost_of(found) <= cost(*found.sides, kept(tree, changed)), seed


def test_several_edits_cost_hardly_ever_more_than_they_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """Units first is no exact method, where what stands elsewhere is no pair.

    How often it costs more than the edits, how often than the best, and by how much.
    Trees of thirty ops with up to four edits; dearer by parts of the cost of leaving everything alone.
    """
    monkeypatch.setattr(leaf_matching, "moved_units", lambda *_: [])
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


@pytest.mark.parametrize(
    "kernels",
    [
        ("transpose_32x32", "implicit_convolve_sgemm"),
        ("implicit_convolve_sgemm", "vectorized_elementwise_kernel"),
        ("softmax_warp_forward", "reduce_kernel"),
        ("batched_transpose", "Memset (Device)"),
    ],
)
def test_equal_calls_are_identical_whichever_of_their_kernels_takes_longest(kernels: tuple[str, str]) -> None:
    def side(*us: float) -> list[Call]:
        made = [fill(of) if "Memset" in name else launch(name, of) for name, of in zip(kernels, us, strict=True)]
        return [module("Net_0", call_of("convolution", *made), call_of("relu"))]

    found = aligned(side(4, 2), side(2, 4))
    assert found.leaf_kinds[0].tolist() == [MatchKind.identical] * 2
    assert set(found.node_kinds[0].tolist()) == {MatchKind.identical}
    first, second = found.sides
    assert first.kernel.tolist() == second.kernel.tolist()
    numbers = Structures()
    assert [numbers.of(side.window) for side in found.sides] == [1, 1]
