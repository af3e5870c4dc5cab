"""Structure: known answers on small trees of calls, and the database's answers beside ours."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from call_trees import BACKWARD, FORWARD, Call, annotation, frame, launch, load, op, run
from handmade import small_trace, span
from hypothesis import given
from made_traces import traces
from same_tables import Ask, assert_same, twins, with_queries

from corpus import loaded, needs_corpus, traces_named
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate
from tracelens_graph.tables.table import Table

QUERIES = with_queries("odd_layers path_to_python recomputed_share repeated_subtrees unusual_kernels")

odd_layers = QUESTIONS["odd_layers"]
path_to_python = QUESTIONS["path_to_python"]
recomputed_share = QUESTIONS["recomputed_share"]
repeated_subtrees = QUESTIONS["repeated_subtrees"]
unusual_kernels = QUESTIONS["unusual_kernels"]

QWEN = "tracelens/h100/qwen1.5-0.5b"
FILES = traces_named(
    "tracelens/h100/bert-small", QWEN, "tracelens/mi300/normalization-layers", "tracelens/mi210/gpu-only"
)

DIMS, OTHER = {"Input Dims": [[8, 16], [16, 8]]}, {"Input Dims": [[8, 16], [16, 4]]}


def linear(number: int, *kernels: str, **args: Any) -> Call:
    """A module whose product is three ops deep."""
    inner = op("aten::linear", op("aten::matmul", op("aten::mm", *map(launch, kernels or ("gemm",)), **(args or DIMS))))
    return frame(f"nn.Module: Linear_{number}", frame(f"linear.py({number}): forward", inner))


def block(number: int, *inside: Call) -> Call:
    """A layer: a product, an activation, a product."""
    calls = inside or (linear(2 * number), op("aten::relu", launch("relu")), linear(2 * number + 1, "gemm", "add"))
    return frame(f"nn.Module: Block_{number}", frame("torch/nn/modules/module.py(10): _call_impl", *calls))


@cache
def layered() -> Core:
    """Twice a network of layers, three of which are odd in the second call only."""
    usual = [block(n) for n in range(7)]
    odd = [block(n) for n in range(7)]
    odd[1] = block(1, linear(2), op("aten::relu", launch("gelu")), linear(3, "gemm", "add"))
    odd[3] = block(3, linear(6), op("aten::relu", launch("relu")), linear(7, "gemm", "add", **OTHER))
    odd[4] = block(4, linear(8), op("aten::relu", launch("relu")))
    return load({FORWARD: [frame("nn.Module: Net_0", *usual), frame("nn.Module: Net_0", *odd)]})


@cache
def trained() -> Core:
    """A forward pass under Python, its backward pass, and in that a recomputation."""
    forward = op("aten::mm", launch("gemm"), seq=1, **DIMS)
    again = frame(
        "torch/utils/checkpoint.py(1): recompute_fn",
        frame("nn.Module: Linear_7", op("aten::linear", op("aten::mm", launch("gemm"), launch("bias")), seq=2)),
        launch("lone"),
    )
    backward = run("MmBackward0", again, op("aten::mm", launch("dgrad")), seq=1)
    calls = [frame("train.py(3): step", frame("nn.Module: Linear_7", op("aten::linear", forward)))]
    return load({FORWARD: calls, BACKWARD: [backward]}, [(forward, backward.calls[0])])


@cache
def chosen() -> Core:
    """Six calls of an op; one has a kernel of its own for the same arguments, one for others."""
    calls = [op("aten::outer", op("aten::mm", launch("gemm"), **DIMS)) for _ in range(4)]
    calls += [
        op("aten::mm", launch("gemm"), launch("slow"), launch("slow"), **DIMS),
        op("aten::mm", launch("tiny"), **OTHER),
    ]
    return load({FORWARD: [annotation("ProfilerStep#1", *calls, op("aten::relu", launch("relu")))]})


@cache
def simulated() -> Core:
    return load_core(simulate(steps=2, layers=3, recompute=True, seed=3).ranks[0].trace)


@cache
def reentrant() -> Core:
    return load_core(simulate(steps=2, layers=2, recompute="reentrant", python_stacks=False, seed=4).ranks[0].trace)


def rows(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(record[name] for name in columns) for record in table.records()]


# --- repetition -------------------------------------------------------------------------------------------------


def test_only_the_largest_repeated_part_is_named() -> None:
    found = repeated_subtrees(layered())
    assert rows(found, "name", "count", "gpu_events", "gpu_time_us") == [
        # Names of kernels make no class. The second product of a block runs as often as the block: nothing new.
        ("nn.Module: Block", 12, 4, 48.0),
        ("nn.Module: Linear", 14, 1, 14.0),
    ]
    assert set(found["kind"]) == {"Module"}
    layers = repeated_subtrees(layered(), min_count=13)
    assert rows(layers, "name", "count") == [("nn.Module: Linear", 14)]


def test_parts_of_ops_that_run_as_often_as_the_op_are_left_out() -> None:
    assert rows(repeated_subtrees(layered(), kind="Op"), "name", "count") == [
        ("aten::linear", 12), ("aten::linear", 14), ("aten::relu", 14),
    ]  # fmt: skip
    assert rows(repeated_subtrees(chosen()), "name", "kind", "count") == [("aten::outer", "Op", 4)]
    with pytest.raises(AnalysisError, match="Module or Op"):
        repeated_subtrees(chosen(), kind="Kernel")


@given(traces())
def test_repetitions_are_of_one_class(made: dict[str, Any]) -> None:
    core = load_core(made)
    for kind in ("Module", "Op"):
        every = repeated_subtrees(core, kind=kind, min_count=1)
        known = {f"class:{one['class']}": one for one in core.classes().records()}
        for one in every.records():
            whole = known[one["class"]]
            assert (one["count"], one["name"], one["uid"]) == (whole["count"], whole["name"], whole["uid"])
            assert one["gpu_time_us"] * 1e3 == pytest.approx(whole["gpu_sum_ns"])
        repeated = repeated_subtrees(core, kind=kind)
        assert len(repeated) <= sum(1 for one in known.values() if one["count"] > 1 and one["kind"] == kind)


# --- odd layers -------------------------------------------------------------------------------------------------


def test_layers_that_are_not_as_the_others() -> None:
    found = odd_layers(layered(), min_layers=5)
    columns = ("module", "inside", "times", "layers", "alike", "differs", "departs_at", "instead_of")
    assert rows(found, *columns) == [
        ("nn.Module: Block_1", "nn.Module: Net_0", 1, 7, 4, "kernel", "gelu", "relu"),
        ("nn.Module: Block_3", "nn.Module: Net_0", 1, 7, 4, "arguments", "aten::mm", "aten::mm"),
        ("nn.Module: Block_4", "nn.Module: Net_0", 1, 7, 4, "call", None, "nn.Module: Linear_1"),
    ]
    first, _, last = found.records()
    assert first["way"] == (
        "nn.Module: Block_1 > torch/nn/modules/module.py(10): _call_impl > aten::relu > cudaLaunchKernel > gelu"
    )
    assert last["way"] == "nn.Module: Block_0 > torch/nn/modules/module.py(10): _call_impl > nn.Module: Linear_1"
    assert (first["gpu_time_us"], last["gpu_time_us"], first["usual_gpu_time_us"]) == (4.0, 2.0, 4.0)
    assert layered().node(first["uid"]).name == first["module"]
    assert layered().node(first["departs_uid"]).name == "gelu"
    assert last["departs_uid"] is None
    assert layered().node(first["usual_uid"]).name == "nn.Module: Block_0"


def test_what_is_odd_again_and_again_is_one_row() -> None:
    small = [frame(f"nn.Module: Attention_{n}", *(linear(4 * n + i) for i in range(3)), linear(4 * n + 3, **OTHER))
             for n in range(5)]  # fmt: skip
    found = odd_layers(load({FORWARD: small}))
    assert rows(found, "module", "times", "layers", "alike", "differs") == [
        ("nn.Module: Linear_3", 5, 4, 3, "arguments")
    ]


@needs_corpus
def test_odd_layers_of_a_real_model() -> None:
    found = odd_layers(*map(loaded, traces_named(QWEN)))
    # Every attention has one projection, every MLP one, whose sizes are not those of its neighbours.
    assert rows(found, "module", "times", "layers", "differs", "departs_at") == [
        ("nn.Module: Linear_3", 24, 4, "arguments", "aten::linear"),
        ("nn.Module: Linear_6", 24, 3, "arguments", "aten::linear"),
    ]


# --- from kernel to Python --------------------------------------------------------------------------------------


def named(core: Core, name: str) -> int:
    """Uid of the first node of a name."""
    return core.find(name=name)[0].uid


def test_the_way_from_a_kernel_up() -> None:
    found = path_to_python(trained(), uid=named(trained(), "gemm"))
    assert rows(found, "level", "link", "kind", "name") == [
        (0, None, "Kernel", "gemm"),
        (1, "launched by", "RuntimeCall", "cudaLaunchKernel"),
        (2, "called by", "Op", "aten::mm"),
        (3, "called by", "Op", "aten::linear"),
        (4, "called by", "Module", "nn.Module: Linear_7"),
        (5, "called by", "PythonFunction", "train.py(3): step"),
    ]
    assert list(found["gpu_time_us"]) == [1.0] * 6


def test_frames_that_pass_a_call_on_are_no_rows() -> None:
    core = load({FORWARD: [block(1)]})
    assert "torch/nn/modules/module.py(10): _call_impl" in core.names
    assert rows(path_to_python(core), "link", "name")[-2:] == [
        ("called by", "nn.Module: Linear_2"),
        ("called by", "nn.Module: Block_1"),
    ]


def test_backward_work_comes_from_the_line_of_its_forward_op() -> None:
    found = path_to_python(trained(), uid=named(trained(), "dgrad"))
    assert rows(found, "link", "name")[2:6] == [
        ("called by", "aten::mm"),
        ("called by", "MmBackward0"),
        ("backward of", "aten::mm"),
        ("called by", "aten::linear"),
    ]
    assert list(found["name"])[-1] == "train.py(3): step"


def test_the_longest_kernel_is_one_with_a_launch() -> None:
    where = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
    launched = [span("cuda_runtime", "cudaLaunchKernel", 0.0, 2.0, correlation=1),
                span("kernel", "short", 5.0, 1.0, **where, correlation=1)]  # fmt: skip
    lone = span("kernel", "long", 10.0, 50.0, **where)
    assert list(path_to_python(load_core([*launched, lone]))["name"]) == ["short", "cudaLaunchKernel"]
    assert list(path_to_python(load_core([span("cpu_op", "aten::mm", 0.0, 1.0), lone]))["name"]) == ["long"]
    assert not len(path_to_python(load_core([span("cpu_op", "aten::mm", 0.0, 1.0)])))


# --- kernels that are unusual, and work that is done again --------------------------------------------------------


def test_kernels_that_one_call_runs() -> None:
    columns = ("op", "kernel", "calls", "same_arguments", "input_dims", "count", "gpu_time_us", "percent")
    assert rows(unusual_kernels(chosen()), *columns) == [
        ("aten::mm", "slow", 6, 5, "[[8,16],[16,8]]", 2, 2.0, 25.0),
        ("aten::mm", "tiny", 6, 1, "[[8,16],[16,4]]", 1, 1.0, 12.5),
    ]
    assert not len(unusual_kernels(chosen(), min_calls=7))
    assert list(unusual_kernels(chosen(), min_calls=1)["kernel"]) == ["slow", "tiny", "relu"]


def test_recomputed_time_by_op_and_module() -> None:
    found = recomputed_share(trained())
    assert rows(found, "op", "module", "gpu_events", "gpu_time_us", "percent") == [
        ("aten::mm", "nn.Module: Linear", 2, 2.0, 40.0),
        ("MmBackward0", None, 1, 1.0, 20.0),
    ]
    assert not len(recomputed_share(layered()))


# --- all of them ------------------------------------------------------------------------------------------------


test_the_database_says_the_same, test_the_database_says_the_same_of_real_traces = twins(
    QUERIES,
    {
        "layered": layered, "trained": trained, "chosen": chosen, "simulated": simulated, "reentrant": reentrant,
        "hostile": lambda: load_core(small_trace()),
    },
    [
        ("repeated_subtrees", {"kind": "Op"}),
        ("repeated_subtrees", {"kind": "Module", "min_count": 1}),
        ("odd_layers", {"min_layers": 5}),
        ("odd_layers", {"kernels": False}),
        ("unusual_kernels", {"min_calls": 1}),
    ],
    also=[
        (trace, name, {"step": step})
        for trace, step in (("simulated", 4), ("chosen", 1))
        for name in ("unusual_kernels", "recomputed_share")
    ],
    files=FILES,
)  # fmt: skip


def test_the_database_says_the_same_of_every_kernel(ask: Ask) -> None:
    for core in (trained(), load_core(small_trace())):
        for row in core.gpu_rows.tolist():
            assert_same(*ask(core, "path_to_python", uid=int(core.columns.uid[row])))
    # Of a training step a kernel of the backward pass, which has its Python elsewhere.
    g = simulated()
    uids = g.columns.uid[g.gpu_rows[::-1]].tolist()
    backward = next(uid for uid in uids if "backward of" in path_to_python(g, uid=uid)["link"])
    assert_same(*ask(g, "path_to_python", uid=backward))
