"""Alignments: what they must hold, sequences, points, gaps that are settled, and wide trees."""

from __future__ import annotations

import resource
from itertools import pairwise
from random import Random
from time import process_time
from typing import Any

import numpy as np
import pytest
from alignments import aligned, graph, kernels, unmatched
from call_trees import BACKWARD, FORWARD, Call, call_of, frame, launch, load, model, module, op, run, trace
from growth import cost
from handmade import span
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.analyses.alignment import containers, costs, root_pairs, sequence
from tracelens_graph.analyses.alignment.align import Alignment, align
from tracelens_graph.analyses.alignment.containers import common_places
from tracelens_graph.analyses.alignment.contexts import OUTSIDE_OF_OPS
from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.analyses.alignment.divergence_points import Point
from tracelens_graph.analyses.alignment.forest import Forest, Vocabulary, forest
from tracelens_graph.analyses.alignment.leaf_matching import settle_gaps
from tracelens_graph.analyses.alignment.sequence import NEVER, Pairs
from tracelens_graph.analyses.alignment.sequence import aligned as aligned_sequence
from tracelens_graph.graph import common_order as anchors
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loading.one import load_core


def training(layers: int, gone: int = -1) -> Core:
    """Equal layers, forward and backward, each op's backward found by its sequence number."""
    forward, backward = [], []
    for k in range(layers):
        if k != gone:
            work = [op(f"aten::{name}", call_of(name), seq=2 * k + i) for i, name in enumerate(("mm", "relu"))]
            forward.append(module(f"Layer_{k}", *work))
            backward += [
                run(f"{name}Backward0", call_of(f"{name}_back"), seq=2 * k + i) for i, name in enumerate(("mm", "relu"))
            ]
    calls: dict[tuple[int, int], list[Call]] = {
        FORWARD: [module("Net_0", *forward)], BACKWARD: backward[::-1]
    }  # fmt: skip
    return load(calls)


@pytest.mark.parametrize("gone", [0, 2, 5])
def test_backward_leaves_go_with_what_their_forward_leaves_are_matched_with(gone: int) -> None:
    found = aligned(training(6), training(6, gone))
    a, b = found.sides
    matched = found.leaves[0]
    # Backward leaves stand in the reverse order of forward ones.
    forward = [leaf for leaf, kernel in enumerate(kernels(a)) if not kernel.endswith("_back")]
    backward = [leaf for leaf, kernel in enumerate(kernels(a)) if kernel.endswith("_back")][::-1]
    back_b = [leaf for leaf, kernel in enumerate(kernels(b)) if kernel.endswith("_back")][::-1]
    assert len(forward) == len(backward) == 12
    for i, j in zip(forward, backward, strict=True):
        partner = int(matched[i])
        assert int(matched[j]) == (back_b[partner] if partner >= 0 else -1)
    assert [len(side) for side in unmatched(found)] == [4, 0]


def test_names_of_backward_ops_are_their_own_again_in_what_is_called() -> None:
    found = aligned(training(3), training(3))
    for side in found.sides:
        assert (side.name != side.called).any()
        assert np.isin(side.called, found.sides[0].called).all()


UNFUSED = (("aiter::sort", "sort_kernel", 3.0), ("aiter::up", "up_stage", 5.0), ("aiter::down", "down_stage", 5.0))
FUSED = (("triton::experts", "experts_fused", 8.0),)


def experts(layers: int, parts: tuple[tuple[str, str, float], ...], norm: bool) -> Core:
    """Layers whose expert layer runs some kernels, each behind a norm or alone."""
    calls = []
    for _ in range(layers):
        calls += [call_of("rms_norm")] if norm else []
        calls.append(op("moe_layer", *(op(name, launch(kernel, us)) for name, kernel, us in parts)))
    return load({FORWARD: calls})


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("norm", [False, True])
def test_calls_of_one_name_whose_work_has_nothing_in_common_are_one_place(layers: int, norm: bool) -> None:
    found = diff(experts(layers, UNFUSED, norm), experts(layers, FUSED, norm))
    (place,) = [place for place in found.places if place.names == ("moe_layer", "moe_layer")]
    assert place.ns == (layers * 13_000, layers * 8_000)
    assert [tuple(map(len, point.leaves)) for point in place.points] == [(3, 1)] * layers


def net(*classes: str, size: int = 8) -> list[Call]:
    """A model with a module of each class, each with an op."""
    inner = [module(f"{name}_0", call_of(f"op{k % 3}", size=size)) for k, name in enumerate(classes)]
    return [module(f"{classes[0]}Model_0", *inner)]


BERT = ("BertLayer", "BertAttention", "BertOutput", "BertPooler", "BertEmbeddings", "Linear")
VIT = ("ViTLayer", "ViTAttention", "ViTOutput", "ViTPooler", "ViTEmbeddings", "Linear")


def test_models_that_share_only_linear_layers() -> None:
    found = aligned(net(*BERT), net(*VIT, size=16))
    assert found.are_unrelated
    assert [(of >= 0).any() for of in found.leaves] == [False, False]
    assert [[len(leaves) for leaves in point.leaves] for point in found.points] == [[6, 0], [0, 6]]


TOKENS = st.lists(st.integers(0, 4), max_size=14)


def sides(first: list[int], second: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(first, np.int64), np.array(second, np.int64)


def paired(first: list[int], second: list[int]) -> Pairs:
    """Items are equal, near to each other (even and even), or never a pair."""
    a, b = sides(first, second)

    def costs(i: int, begin: int, end: int) -> np.ndarray:
        there = b[begin:end]
        return np.where(there == a[i], 0, np.where((there - a[i]) % 2 == 0, 7, NEVER))

    alone = [np.full(len(one), 5, np.int64) for one in (a, b)]
    return aligned_sequence(alone[0], alone[1], costs, (a, b), (a % 2, b % 2))


def price(first: list[int], second: list[int], pairs: Pairs) -> int:
    beside = sum(0 if first[i] == second[j] else 7 for i, j in pairs)
    return beside + 5 * (len(first) + len(second) - 2 * len(pairs))


def least(first: list[int], second: list[int]) -> int:
    """The textbook's table of all beginnings."""
    row = [5 * j for j in range(len(second) + 1)]
    for x in first:
        new = [row[0] + 5]
        for j, y in enumerate(second):
            beside = 0 if x == y else 7 if (x - y) % 2 == 0 else NEVER
            new.append(min(row[j] + beside, row[j + 1] + 5, new[j] + 5))
        row = new
    return row[-1]


@given(TOKENS, TOKENS)
def test_costs_as_little_as_can_be(first: list[int], second: list[int]) -> None:
    pairs = paired(first, second)
    assert pairs == sorted(set(pairs))
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
    assert price(first, second, pairs) == least(first, second)


def test_a_narrow_band_widens_until_the_path_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(1)
    first = [random.randrange(100, 200) for _ in range(2000)]
    second = first[1500:] + [1000 + k for k in range(1500)]
    monkeypatch.setattr(sequence, "_LARGE", 1 << 40)
    exact = price(first, second, paired(first, second))
    monkeypatch.setattr(sequence, "_CELLS", 1)
    assert price(first, second, paired(first, second)) == exact


@pytest.mark.parametrize("layers", [1, 30])
def test_anchors_of_repeated_work_find_what_was_edited(monkeypatch: pytest.MonkeyPatch, layers: int) -> None:
    monkeypatch.setattr(sequence, "_LARGE", 100)
    random = Random(2)
    layer = [random.randrange(50) for _ in range(40)]
    first = [value for k in range(layers) for value in (*layer, 1000 + k)]
    second = list(first)
    for _ in range(5):
        del second[random.randrange(len(second))]
        second.insert(random.randrange(len(second)), 999)
    pairs = paired(first, second)
    monkeypatch.setattr(sequence, "_LARGE", 1 << 40)
    assert price(first, second, pairs) == price(first, second, paired(first, second))


def test_the_longest_ascending_run() -> None:
    values = [3, 1, 4, 2, 5, 9, 6]
    found = [values[place] for place in anchors._longest_ascending(values)]
    assert found == sorted(found)
    assert len(found) == 4
    assert anchors._longest_ascending([]) == []


def container(found: Alignment, point: Point, side: int = 0) -> str:
    forest = found.sides[side]
    row = int(forest.row[point.container[side]])
    core = forest.window.core
    return core.names[core.columns.name[row]] if row >= 0 else ""


def point_of(found: Alignment, kernel: str, side: int) -> Point:
    leaf = kernels(found.sides[side]).index(kernel)
    (point,) = (point for point in found.points if leaf in point.leaves[side])
    return point


def test_a_renamed_op_that_nests_otherwise_is_told_at_the_lowest_op_of_one_name() -> None:
    a = op("aten::_convolution", op("aten::cudnn_convolution", launch("conv", 9.0)), op("aten::add_", launch("bias")))
    b = op("aten::_convolution", op("aten::miopen_convolution", launch("conv"), op("aten::add_", launch("bias"))))
    found = aligned([module("Net_0", a, call_of("relu"))], [module("Net_0", b, call_of("relu"))])
    point = point_of(found, "conv", 0)
    assert container(found, point) == container(found, point, 1) == "aten::_convolution"
    assert [len(leaves) for leaves in point.leaves] == [1, 1]
    assert point.change_ns == -8000
    assert container(found, point_of(found, "bias", 0)) == "aten::add_"


def test_what_only_one_side_has_is_a_point_per_gap() -> None:
    a, b = model(4), model(4)
    for one in b[0].calls:
        one.calls = [call_of("_to_copy"), *one.calls]
    found = aligned(a, b)
    extra = [point for point in found.points if not point.leaves[0]]
    assert [len(point.leaves[1]) for point in extra] == [1] * 4
    assert len({point.container for point in extra}) == 4


def test_replaced_work_below_a_frame_is_one_point_of_both_sides() -> None:
    def net(*names: str) -> list[Any]:
        return [frame("net.py(1): forward", *(call_of(name, call_of(name)) for name in ("mm", *names, "softmax")))]

    found = aligned(net("cumsum", "nll_loss"), net("native_dropout"))
    assert sum(len(point.leaves[0]) != len(point.leaves[1]) for point in found.points) == 1


def without_launch(*names: str) -> Any:
    document = trace([(FORWARD, [call_of("mm")])])
    last = document["traceEvents"][-1]
    for k, name in enumerate(names):
        args = {"device": 0, "stream": 7}
        document["traceEvents"].append({**last, "name": name, "ts": last["ts"] + 10 * k - 100, "args": args})
    return load_core(document)


def test_work_of_a_stream_without_launches_is_one_point() -> None:
    found = aligned(without_launch("gemm", "softmax", "gemm"), without_launch("gemm", "gemm"))
    (point,) = (point for point in found.points if len(point.leaves[0]) == 3)
    assert len(point.leaves[1]) == 2
    assert point.change_ns == -1000


def test_gaps_at_the_begin_of_every_thread_are_points_of_their_own() -> None:
    calls = {(1, k): [module(f"Net{k}_0", call_of("mm"), call_of("relu"))] for k in (1, 2)}
    more = {(1, k): [call_of("cumsum"), *calls[1, k]] for k in (1, 2)}
    found = aligned(calls, more)
    extra = [point for point in found.points if not point.leaves[0]]
    assert [len(point.leaves[1]) for point in extra] == [1, 1]


def test_launches_outside_of_ops_are_places_by_kernel() -> None:
    cores = [load_core(trace([(FORWARD, [launch("first", us), launch("second", 3.0)])])) for us in (2.0, 9.0)]
    found = diff(*cores)
    assert [(place.names, place.change_ns) for place in found.places] == [
        ((OUTSIDE_OF_OPS, OUTSIDE_OF_OPS), 7000),
        ((OUTSIDE_OF_OPS, OUTSIDE_OF_OPS), 0),
    ]
    assert found.places[0].kernels[0].keys() == {"first"}


def side(*blocks: list[str]) -> Forest:
    """Blocks of ops, one after the other, all of one name."""
    calls = [module("Net_0", *(module("Block_0", *(call_of(name) for name in block)) for block in blocks))]
    return forest(window_of(graph(calls)), Vocabulary(), Vocabulary())


def slid(a: Forest, of: list[int], others: int) -> tuple[list[int], list[int]]:
    mine, other = np.array(of), np.full(others, -1)
    paired = np.flatnonzero(mine >= 0)
    other[mine[paired]] = paired
    settle_gaps(a, mine, other, np.full(a.leaves, -1))
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


CALLS = 10_000


def wide_side(names: list[Any], size: int = 8) -> Window:
    calls = []
    for name in names:
        call = op(f"aten::{name}", launch("gemm"), **{"Input Dims": [[size, 4]]})
        calls.append(frame(f"wide.py(1): call_{name}", call))
    return window_of(graph([frame("wide.py(1): main", *calls)]))


def edited(names: list[Any]) -> list[Any]:
    random = Random(1)
    found = [name for name in names if random.random() > 0.01]
    for _ in range(100):
        found.insert(random.randrange(len(found)), f"new_{random.random()}")
    return found


def shuffled(names: list[Any]) -> list[Any]:
    return Random(1).sample(names, len(names))


NAMES: list[Any] = list(range(CALLS))
OTHERS: list[Any] = [f"other_{k}" for k in range(CALLS)]
CASES = {
    "equal but for some": (NAMES, edited(NAMES), 9890),
    "nothing alike": (NAMES, OTHERS, CALLS),
    "in any order": (NAMES, shuffled(NAMES), 200),
    "few names": ([k % 100 for k in NAMES], [k * k % 100 for k in NAMES], 200),
}


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES)
def test_ten_thousand_calls_below_one_frame(case: str) -> None:
    first, second, least = CASES[case]
    a, b = wide_side(first), wide_side(second, 16 if case == "few names" else 8)
    memory, start = _peak_memory(), process_time()
    found = align(a, b)
    seconds = process_time() - start
    assert int((found.leaves[0] >= 0).sum()) >= least
    # Takes up to 3 s of processor time; all pairs of children and their callers took minutes.
    assert seconds < 15
    assert _peak_memory() - memory < 400e6


@pytest.mark.proof
def test_long_chains_of_other_names_need_no_table() -> None:
    first, second = tuple(range(20_000)), tuple(range(20_000, 40_000))
    assert cost(lambda: common_places(first, second)).peak < 8 << 20
    found = common_places((*first, 7), (*second[:9000], *range(5, 15_000, 2), *second[9000:]))
    assert len(found) == 7497
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(found))


@pytest.mark.parametrize("link", [False, True])
def test_many_threads_and_streams_are_paired_with_their_like(link: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def lanes(count: int) -> Window:
        return window_of(load_core([event for k in range(count) for event in lane(k, link)]))

    def lane(k: int, link: bool) -> list[dict[str, Any]]:
        kernel = span("kernel", f"kernel_{k % 50}", 10.0 + k, 0.5, 0, 7 + k, device=0, stream=7 + k, correlation=k)
        call = span("cuda_runtime", "cudaLaunchKernel", float(k), 0.5, 100, 100 + k, correlation=k)
        return [call, kernel] if link else [kernel]

    monkeypatch.setattr(root_pairs, "_ROOT_PAIRS", 100)
    few, many = lanes(60), lanes(61)
    found = align(few, many)
    assert (found.leaves[0] >= 0).all()
    names = [kernels(one) for one in found.sides]
    assert all(names[0][i] == names[1][j] for i, j in enumerate(found.leaves[0].tolist()))


def test_what_is_too_long_for_a_band_is_cut_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "_CELLS", 1000)
    monkeypatch.setattr(sequence, "_MOST_CELLS", 5000)
    monkeypatch.setattr(sequence, "_LARGE", 1 << 40)
    first, second = np.arange(400), np.arange(400) + 1_000_000
    second[100:300:3] = first[100:300:3]
    ones = np.ones(400, np.int64)
    pairs = sequence.aligned(
        ones,
        ones,
        lambda i, j, k: np.where(first[i] == second[j:k], 0, sequence.NEVER),
        (first, second),
        (first, second),
    )
    # Neighbours that are cut apart may be lost.
    assert len(pairs) > 60
    assert all(first[i] == second[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))


def test_only_the_nearest_callers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(depth: int, name: str) -> Any:
        call = op(f"{name}{depth}", launch(f"kernel{depth}"))
        for level in reversed(range(depth)):
            call = op(f"{name}{level}", call, launch(f"kernel{level}"))
        return [frame("deep.py(1): main", call)]

    monkeypatch.setattr(costs, "_NEAREST", 3)
    monkeypatch.setattr(containers, "_WRAPPERS", 3)
    found = aligned(nested(40, "one"), nested(40, "other"))
    assert (found.leaves[0] >= 0).all()


def _peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes (Linux counts in KiB)."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
