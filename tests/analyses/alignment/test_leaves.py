"""Pairs of call trees made by hand, whose alignment is known."""

from __future__ import annotations

import pytest
from alignments import aligned, pairs, torn, unmatched
from call_trees import BACKWARD, FORWARD, Call, copy, fill, frame, launch, module, op
from trees_of_calls import call_of, layer, model

from tracelens_graph.analyses.alignment.matches import MatchKind


def test_a_trace_against_itself() -> None:
    found = aligned(model(4), model(4))
    assert unmatched(found) == ([], [])
    assert set(found.leaf_kinds[0].tolist()) == {MatchKind.identical}
    assert set(found.node_kinds[0].tolist()[:-1]) == {MatchKind.identical}
    assert all(point.change_ns == 0 for point in found.points)


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


def test_modules_on_one_side_only() -> None:
    flat = [call for one in model(4)[0].calls for call in one.calls]
    found = aligned(model(4), flat)
    assert unmatched(found) == ([], [])


def test_other_arguments() -> None:
    found = aligned([call_of("mm", size=8)], [call_of("mm", size=16)])
    assert found.leaf_kinds[0].tolist() == [MatchKind.other_arguments]
    assert found.node_kinds[0].tolist()[0] == MatchKind.other_arguments


def test_an_op_of_another_name_that_does_the_same() -> None:
    found = aligned(
        [module("Net_0", op("aten::cudnn_convolution", launch("conv_fprop")), call_of("relu"))],
        [module("Net_0", op("aten::miopen_convolution", launch("conv_fprop")), call_of("relu"))],
    )
    assert unmatched(found) == ([], [])
    assert found.leaf_kinds[0].tolist() == [MatchKind.renamed, MatchKind.identical]


def test_ops_in_another_order() -> None:
    a = [module("Net_0", *(call_of(name) for name in ("mm", "relu", "softmax", "cumsum")))]
    b = [module("Net_0", *(call_of(name) for name in ("mm", "softmax", "relu", "cumsum")))]
    found = aligned(a, b)
    assert {("mm", "mm"), ("cumsum", "cumsum")} <= set(pairs(found))
    assert all(first == second for first, second in pairs(found))


def test_swapped_blocks_of_one_name_are_no_pairs_by_position() -> None:
    one = module("Block_0", *(call_of(name) for name in ("mm", "relu", "mm", "relu", "mm")))
    two = module("Block_1", *(call_of(name) for name in ("softmax", "cumsum")))
    a = [module("Net_0", one, two)]
    b = [module("Net_0", *(module(f"Block_{k}", *c) for k, c in enumerate((
        [call_of(name) for name in ("softmax", "cumsum")],
        [call_of(name) for name in ("mm", "relu", "mm", "relu", "mm")],
    ))))]  # fmt: skip
    found = aligned(a, b)
    assert [len(side) for side in unmatched(found)] == [2, 2]


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


def test_copies_are_compared_by_direction() -> None:
    found = aligned(
        [op("aten::copy_", copy("HtoD (Pageable -> Device)"))], [op("aten::copy_", copy("HtoD (Host -> Device)"))]
    )
    assert found.leaf_kinds[0].tolist() == [MatchKind.identical]
    other = aligned([copy("HtoD (Pageable -> Device)")], [copy("DtoH (Device -> Pageable)")])
    assert len(pairs(other)) == 0


def test_a_side_without_gpu_work() -> None:
    found = aligned([op("aten::empty")], model(2))
    assert [side.leaves for side in found.sides] == [0, 10]
    assert pairs(found) == []
    assert aligned([op("aten::empty")], [op("aten::empty")]).points == []
