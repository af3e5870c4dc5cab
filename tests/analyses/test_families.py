"""Costs of ops, one op to each GPU event and by family: known answers, the rule spelled out once more, sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from call_trees import BACKWARD, FORWARD, Call, annotation, frame, launch, load, op, run
from extended import with_models
from handmade import span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.performance.perf_sheets import perf_sheets
from tracelens_graph.analyses.performance.perf_tables import COMMUNICATION_LINE, attributed_calls, unified_perf_summary
from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.compat.PerfModel.torch_op_mapping import TRACELENS_MODELS
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.devices import architecture
from tracelens_graph.perf.model import CallContext, OpModel
from tracelens_graph.perf.registry import MODELS
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table

GPU = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
TOTAL = "Kernel Time (µs)_sum"


def matrix_product(arguments: Arguments, context: CallContext) -> Cost:
    return Cost(2_000_000, 1_000_000, "matrix", "bf16", {"M": 1})


def refuses(arguments: Arguments, context: CallContext) -> Cost:
    raise CannotModel("made to refuse")


def backward_product(arguments: Arguments, context: CallContext) -> Cost:
    return Cost(4_000_000, 1_000_000, "matrix", "bf16")


REGISTRY: Mapping[str, OpModel] = {
    "aten::mm": OpModel(matrix_product, "GEMM"),
    "aten::linear": OpModel(matrix_product, "GEMM", backward=backward_product),
    "nn.Module: A_0": OpModel(refuses, "GEMM"),
    "ProfilerStep#1": OpModel(matrix_product, "GEMM"),
}

SILENT: Mapping[str, OpModel] = {
    name: OpModel(product, "GEMM", claims=False)
    for name, product in (("aten::x", matrix_product), ("aten::y", refuses), ("LinearBackward0", matrix_product))
}
"""Models that say what an op should cost, and leave events to whom they are without them."""

BOTH = {**REGISTRY, **SILENT}


def launched(ts: float, number: int, name: str = "kernel", dur: float = 2.0, tid: int = 1) -> list[dict[str, Any]]:
    return [
        span("cuda_runtime", "cudaLaunchKernel", ts, 0.5, tid=tid, correlation=number),
        span("kernel", name, 1000 + 10 * number, dur, **GPU, correlation=number),
    ]


def by_name(core: Core, models: Mapping[str, OpModel] = REGISTRY, **options: Any) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in unified_perf_summary(with_models(core, models), **options).records()}


def test_the_outermost_modelled_op_has_all_below_it() -> None:
    core = load_core([
        span("cpu_op", "aten::linear", 0, 20, tid=1), span("cpu_op", "aten::mm", 1, 8, tid=1), *launched(2, 1, "gemm"),
        *launched(10, 2, "bias"),
    ])  # fmt: skip
    assert list(by_name(core)) == ["aten::linear"]
    row = by_name(core)["aten::linear"]
    assert (row[TOTAL], row["operation_count"], row["GFLOPS"], row["has_perf_model"]) == (4.0, 1, 0.002, True)
    assert row["TFLOPS/s_mean"] == pytest.approx(2e6 / 4e-6 / 1e12)
    assert row["TB/s_mean"] == pytest.approx(1e6 / 4e-6 / 1e12)


def test_events_beside_a_modelled_op_stand_for_themselves() -> None:
    """The outer op launches work itself, but its other work belongs to the modelled op below it."""
    core = load_core([
        span("cpu_op", "aten::outer", 0, 20, tid=1), *launched(1, 1, "fill"),
        span("cpu_op", "aten::mm", 5, 5, tid=1), *launched(6, 2, "gemm"), *launched(30, 3, "graph"),
    ])  # fmt: skip
    rows = by_name(core, call_stack=True)
    assert {name: row[TOTAL] for name, row in rows.items()} == {
        "aten::mm": 2.0, "aten::outer->fill (Synthetic Op)": 2.0, "cudaLaunchKernel->graph (Synthetic Op)": 2.0,
    }  # fmt: skip
    alone = rows["aten::outer->fill (Synthetic Op)"]
    assert core.node(alone["ex_UID"]).name == "fill"
    assert alone["has_perf_model"] is False
    assert alone["call_stack_full"] == ["aten::outer", "fill"]


def test_an_op_whose_model_does_not_apply_is_as_without_a_model() -> None:
    core = load_core([span("cpu_op", "nn.Module: A_0", 0, 9, tid=1), *launched(1, 1)])
    row = by_name(core)["nn.Module: A_0"]
    assert (row["has_perf_model"], row["GFLOPS"], row[TOTAL]) == (False, None, 2.0)


def test_models_that_claim_nothing_price_the_rows_that_there_are() -> None:
    core = load_core([
        # a wrapper: what it calls does the work
        span("cpu_op", "aten::embedding", 0, 9, tid=1), span("cpu_op", "aten::index_select", 1, 5, tid=1),
        *launched(2, 1, "rows"),
        # it fills by an op with such a model, and works by itself
        span("cpu_op", "lib::sum", 20, 9, tid=1), span("cpu_op", "aten::index_select", 21, 3, tid=1),
        *launched(22, 2, "fill"), *launched(26, 3, "sum"),
        # the op in it claims its events, and the rest stands for itself
        span("cpu_op", "aten::embedding", 40, 9, tid=1), span("cpu_op", "aten::mm", 41, 3, tid=1),
        *launched(42, 4, "gemm"), *launched(46, 5, "rest"),
        # the model of an op that does all its work itself
        span("cpu_op", "aten::embedding", 60, 9, tid=1), *launched(62, 6, "rows"), *launched(65, 7, "rows"),
    ])  # fmt: skip
    more = dict.fromkeys(("aten::embedding", "aten::index_select"), OpModel(matrix_product, "GEMM", claims=False))
    rows = by_name(core, {**REGISTRY, **more})
    assert {name: (row[TOTAL], row["GFLOPS"]) for name, row in rows.items()} == {
        "aten::index_select": (2.0, 0.002), "lib::sum": (4.0, None), "aten::mm": (2.0, 0.002),
        "aten::embedding->rest (Synthetic Op)": (2.0, None), "aten::embedding": (4.0, 0.002),
    }  # fmt: skip
    assert {name: row[TOTAL] for name, row in by_name(core).items()} == {name: row[TOTAL] for name, row in rows.items()}
    claiming = {name: replace(model, claims=True) for name, model in more.items()}
    assert {name: row[TOTAL] for name, row in by_name(core, {**REGISTRY, **claiming}).items()} == {
        "aten::embedding": 10.0, "aten::index_select": 2.0, "lib::sum->sum (Synthetic Op)": 2.0,
    }  # fmt: skip


def test_the_only_backward_op_has_the_cost_of_the_backward_pass() -> None:
    def trace(*more: dict[str, Any]) -> Core:
        return load_core([
            span("cpu_op", "aten::linear", 0, 9, tid=1, Sequence_number=5), *launched(1, 1, "forward"),
            span("cpu_op", "autograd::engine::evaluate_function: LinearBackward0", 100, 50, tid=2, Sequence_number=5,
                 Fwd_thread_id=1),
            span("cpu_op", "LinearBackward0", 101, 20, tid=2, Sequence_number=5, Fwd_thread_id=1),
            *launched(102, 2, "gradient", tid=2), *more,
            {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 100, "tid": 1, "ts": 0},
            {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 100, "tid": 2, "ts": 101, "bp": "e"},
        ])  # fmt: skip

    assert by_name(trace())["LinearBackward0"]["GFLOPS"] == 0.004
    assert by_name(trace(), BOTH)["LinearBackward0"]["GFLOPS"] == 0.002  # it has a model of its own
    second = by_name(trace(span("cpu_op", "aten::add_", 130, 9, tid=2), *launched(131, 3, "add", tid=2)))
    assert second["LinearBackward0"]["GFLOPS"] is None


def test_calls_stack_up_to_where_they_part() -> None:
    core = load_core([
        span("python_function", "a.py(1): run", 0, 100, tid=1),
        span("python_function", "nn.Module: Net_7", 1, 90, tid=1),
        span("python_function", "<built-in function mm>", 2, 80, tid=1), span("cpu_op", "aten::linear", 3, 70, tid=1),
        span("cpu_op", "aten::zero_", 4, 5, tid=1), *launched(5, 1, "fill", 1.0), *launched(20, 2, "gemm", 5.0),
        *launched(30, 3, "gemm", 5.0),
    ])  # fmt: skip
    row = by_name(core, call_stack=True)["aten::linear"]
    above = ["a.py(1): run", "nn.Module: Net", "aten::linear"]
    assert row["call_stack_full"] == [*above, ["aten::zero_", "fill"], ["gemm"]]
    assert row["entry_point"] == "a.py(1): run"


def test_a_category_is_that_of_what_the_op_launches_itself() -> None:
    core = load_core([
        span("cpu_op", "aten::pool", 0, 30, tid=1), span("cpu_op", "aten::fill_", 1, 5, tid=1),
        *launched(2, 1, "void at::native::vectorized_elementwise_kernel<4>"),
        *launched(9, 2, "void at::native::reduce_kernel<512>"),
    ])  # fmt: skip
    assert {name: row["op category"] for name, row in by_name(core).items()} == {"aten::pool": "Reduction"}


def test_communication_and_lost_launches_have_a_line_each() -> None:
    core = load_core([
        span("cpu_op", "c10d::allreduce_", 0, 9, tid=1), *launched(1, 1, "ncclDevKernel_AllReduce", 7.0),
        span("kernel", "before", 900, 3, **GPU, correlation=99), span("cpu_op", "aten::mm", 20, 9, tid=1),
        *launched(21, 2, "gemm"),
    ])  # fmt: skip
    table = unified_perf_summary(with_models(core, REGISTRY))
    assert [(row["name"], row[TOTAL]) for row in table.records()] == [
        ("aten::mm", 2.0), (COMMUNICATION_LINE, 7.0), (NO_LAUNCH, 3.0),
    ]  # fmt: skip
    assert sum(table["Percentage (%)"]) == pytest.approx(100)
    only = unified_perf_summary(with_models(core, REGISTRY), linked_only=True)
    assert list(only["name"]) == ["aten::mm"]


# --- the rule, spelled out

LEAVES = st.sampled_from(["kernel", "ncclDevKernel_AllReduce", "fill"]).map(launch)
CALLS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda make, name, calls: make(name, *calls),
        st.sampled_from([op, op, op, frame, annotation]),
        st.sampled_from(["aten::mm", "aten::linear", "aten::x", "aten::y", "nn.Module: A_0", "ProfilerStep#1"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=12,
)
"""Trees of calls, launches of computation and of communication among them."""


def owner(event: Node, communicates: set[int]) -> int | None:
    """The op that an event is given to, by looking at its ancestors one by one."""
    for one in (node for node in reversed(event.ancestors) if node.kind == Kind.Op):
        if applies(one):
            return one.uid
        # What an op launches itself is what has no op between.
        own = [event.uid for event in one.kernels if nearest_op(event) == one.uid]
        below = any(applies(node) for node in one.subtree if node.uid != one.uid)
        if own and not below and not communicates & set(own):
            return one.uid
    return None


def applies(node: Node) -> bool:
    return node.kind == Kind.Op and node.name in ("aten::mm", "aten::linear", "ProfilerStep#1") and bool(node.kernels)


def nearest_op(event: Node) -> int | None:
    return next((node.uid for node in event.ancestors if node.kind == Kind.Op), None)


@given(st.lists(CALLS, max_size=4), st.sampled_from([REGISTRY, BOTH]))
def test_events_are_given_by_the_rule(calls: list[Call], models: Mapping[str, OpModel]) -> None:
    core = load({FORWARD: calls})
    found, c = unified(with_models(core, models)), core.columns
    is_communication = gpu_classes(core, core.gpu_rows) == COMMUNICATION
    communicates = set(c.uid[core.gpu_rows[is_communication]].tolist())
    for row, given_to, alone in zip(core.gpu_rows.tolist(), found.owner.tolist(), found.alone.tolist(), strict=True):
        event = core.node(int(c.uid[row]))
        expected = owner(event, communicates)
        assert (int(c.uid[given_to]) if given_to >= 0 else None) == expected
        assert alone == (expected is None and event.parent is not None and event.uid not in communicates)


# --- sums


def check(window: Window, models: Mapping[str, OpModel]) -> np.ndarray:
    """Each event of the window is in one row or one of the two lines; the rows of those that are in rows."""
    core, c = window.core, window.core.columns
    calls, _ = attributed_calls(with_models(window, models))
    assert len(np.unique(calls.gpu)) == len(calls.gpu)
    assert set(calls.gpu.tolist()) <= set(window.gpu_rows.tolist())
    left = np.setdiff1d(window.gpu_rows, calls.gpu)
    linked = c.parent[left] >= 0
    assert (gpu_classes(core, left[linked]) == COMMUNICATION).all()
    assert int(c.dur_ns[calls.gpu].sum() + c.dur_ns[left].sum()) == int(c.dur_ns[window.gpu_rows].sum())
    table = unified_perf_summary(with_models(window, models))
    times = dict(zip(table["name"], table[TOTAL], strict=True))
    assert sum(table[TOTAL]) * 1e3 == pytest.approx(int(calls.direct_ns.sum() + c.dur_ns[left].sum()), abs=1)
    for line, part in ((COMMUNICATION_LINE, left[linked]), (NO_LAUNCH, left[~linked])):
        assert (line in times) == bool(len(part))
        assert times.get(line, 0.0) * 1e3 == pytest.approx(int(c.dur_ns[part].sum()), abs=1)
    assert sum(table["operation_count"]) == len(calls) + len(left)
    gone = unified_perf_summary(with_models(window, models), linked_only=True)
    assert len(table.records()) - len(gone.records()) == len({*times} & {COMMUNICATION_LINE, NO_LAUNCH})
    return calls.gpu


def check_steps(core: Core, models: Mapping[str, OpModel]) -> None:
    """Steps share no event, and together have those of all steps."""
    steps = list(dict.fromkeys(int(step.name.rpartition("#")[2]) for step in core.steps()))
    if steps:
        parts = np.concatenate([check(core.window(step=step), models) for step in steps])
        assert sorted(parts.tolist()) == sorted(check(core.window(step=steps), models).tolist())


@given(traces())
def test_sums_of_made_traces(made: dict[str, Any]) -> None:
    core = load_core(made)
    check(core.everything, BOTH)
    check_steps(core, BOTH)


@given(st.lists(CALLS, max_size=4), st.lists(CALLS, max_size=4))
def test_sums_of_trees_of_calls(first: list[Call], second: list[Call]) -> None:
    core = load({FORWARD: first, BACKWARD: second})
    check(core.everything, BOTH)
    check_steps(core, BOTH)


@parametrize("path", chosen_traces())
def test_sums_of_real_traces(path: Path) -> None:
    core = loaded(path)
    check(core.everything, MODELS)
    check_steps(core, MODELS)


@parametrize("path", chosen_traces())
def test_further_models_move_no_event(path: Path) -> None:
    core = loaded(path)
    with_all, with_those_of_tracelens = unified(with_models(core, MODELS)), unified(with_models(core, TRACELENS_MODELS))
    assert with_all.owner.tolist() == with_those_of_tracelens.owner.tolist()
    assert with_all.alone.tolist() == with_those_of_tracelens.alone.tolist()
    for row, code in with_those_of_tracelens.codes.items():
        if code >= 0:
            assert with_all.costs[with_all.codes[row]] == with_those_of_tracelens.costs[code]


H100 = architecture("h100-sxm")
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4>"
REDUCE = "void at::native::reduce_kernel<512>"


def by_rows(arguments: Arguments, context: CallContext) -> Cost:
    """A million operations per row of the first operand."""
    rows = arguments.tensor(0).shape[0]
    return Cost(rows * 10**6, rows * 1000, "matrix", "bf16", {"M": rows})


def backward_by_rows(arguments: Arguments, context: CallContext) -> Cost:
    rows = arguments.tensor(0).shape[0]
    return Cost(2 * rows * 10**6, rows * 1000, "matrix", "bf16", {"M": rows, "gradients": 2})


def of_kernels(arguments: Arguments, context: CallContext) -> Cost:
    return Cost(len(context.kernels) * 10**6, None, "vector", "fp32", {"kernels": len(context.kernels)})


FAMILIES: Mapping[str, OpModel] = {
    "aten::mm": OpModel(by_rows, "GEMM"),
    "aten::linear": OpModel(by_rows, "GEMM"),
    "aten::conv": OpModel(by_rows, "CONV_fwd", backward=backward_by_rows),
    "aten::conv_backward": OpModel(by_rows, "CONV_bwd"),
    "fused": OpModel(of_kernels, "Fused_fwd", uses_context=True),
    "aten::odd": OpModel(refuses, "GEMM"),
}


def sized(name: str, rows: int, *calls: Call, seq: int | None = None) -> Call:
    shapes = {"Input Dims": [[rows, 4]], "Input type": ["c10::BFloat16"], "Input Strides": [[4, 1]]}
    return op(name, *calls, seq=seq, **shapes)


def sheets(core: Core | Window, **options: Any) -> dict[str, Table]:
    return perf_sheets(with_models(core, FAMILIES), **options)


def said(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in table.records()]


def test_nested_ops_are_in_the_tables_of_their_families_too() -> None:
    core = load({FORWARD: [
        sized("aten::linear", 8, sized("aten::mm", 8, launch()), launch("bias")),
        sized("aten::mm", 2, launch()), sized("aten::mm", 8, launch()), sized("aten::mm", 8), op("aten::odd", launch()),
    ]})  # fmt: skip
    (table,) = sheets(core).values()
    assert table.name == "GEMM"
    assert said(table, "name", "param: M", "name_count", TOTAL, "GFLOPS_first") == [
        ("aten::linear", 8, 1, 2.0, 0.008), ("aten::mm", 8, 2, 2.0, 0.008), ("aten::mm", 2, 1, 1.0, 0.002),
    ]  # fmt: skip


def test_an_overload_inside_its_own_name_is_one_call() -> None:
    """Sizes may differ: the inner one is given the result, too."""
    core = load({FORWARD: [
        sized("aten::mm", 8, sized("aten::mm", 8, launch())), sized("aten::mm", 8, sized("aten::mm", 2, launch())),
        sized("aten::mm", 2, launch()),
    ]})  # fmt: skip
    assert said(sheets(core)["GEMM"], "param: M", "name_count", TOTAL) == [(8, 2, 2.0), (2, 1, 1.0)]


def test_the_larger_of_two_tensors_is_binary_elementwise() -> None:
    def of(*dims: list[int]) -> Call:
        inner = op("aten::maximum", launch(ELEMENTWISE)) if len(dims) == 2 else launch(REDUCE)
        return op("aten::max", inner, **{"Input Dims": list(dims), "Input type": ["float"] * len(dims)})

    core = load({FORWARD: [of([8, 4], [8, 4]), of([8, 4])]})
    names = {name: [row["name"] for row in table.records()] for name, table in perf_sheets(core).items()}
    assert names == {"BinaryElementwise": ["aten::max"], "Reduce_fwd": ["aten::max"]}
    unified = unified_perf_summary(core).records()
    assert {(row["op category"], len(row["Input type"])) for row in unified} == {("Elementwise", 2), ("Reduction", 1)}


def test_rates_and_roof() -> None:
    core = load({FORWARD: [sized("aten::mm", 8, launch())]})
    (row,) = sheets(core, arch=H100)["GEMM"].records()
    assert row["TFLOPS/s_mean"] == row["TFLOPS/s_max"] == pytest.approx(8e6 / 1e-6 / 1e12)
    assert row["TB/s_median"] == pytest.approx(8000 / 1e-6 / 1e12)
    assert row["FLOPS/Byte_first"] == 1000
    assert row["Compute Spec"] == "matrix_bf16"
    assert row["Roofline Time (µs)_first"] == pytest.approx(8e6 / 989.4e6)
    assert row["Roofline Bound_first"] == "COMPUTE_BOUND"
    assert row["Pct Roofline_max"] == pytest.approx(100 * 8e6 / 989.4e6)


def test_a_forward_op_stands_for_its_backward_pass() -> None:
    """Its time is that of its backward ops. Where one of these has a model of the same pass, that one is shown."""
    forward = sized("aten::conv", 8, launch(), seq=5)
    alone = sized("aten::conv", 8, launch(), seq=7)
    backward = run("ConvBackward0", launch(), launch(), launch(), seq=5)
    other = sized("aten::conv", 2, launch(), seq=9)
    its_own = run("ConvBackward0", sized("aten::conv_backward", 3, launch()), seq=9)
    core = load({FORWARD: [forward, alone, other], BACKWARD: [backward, its_own]},
                [(forward, backward.calls[0]), (other, its_own.calls[0])])  # fmt: skip
    tables = sheets(core)
    assert said(tables["CONV_fwd"], "name", "name_count", TOTAL) == [("aten::conv", 2, 2.0), ("aten::conv", 1, 1.0)]
    assert said(tables["CONV_bwd"], "name", "param: M", "param: gradients", "name_count", TOTAL, "GFLOPS_first") == [
        ("aten::conv", 8, 2, 1, 3.0, 0.016), ("aten::conv_backward", 3, None, 1, 1.0, 0.003),
    ]  # fmt: skip


def test_models_that_look_at_kernels_are_asked_again() -> None:
    core = load({FORWARD: [op("fused", launch()), op("fused", launch(), launch()), op("fused", launch())]})
    (row, other) = sheets(core)["Fused_fwd"].records()
    assert sorted((one["param: kernels"], one["name_count"]) for one in (row, other)) == [(1, 2), (2, 1)]
    assert row["Data Moved (MB)_first"] is row["FLOPS/Byte_first"] is None


def test_calls_are_told_apart_by_number_of_kernels_and_by_recomputation() -> None:
    again = frame("torch/utils/checkpoint.py(1): recompute_fn", sized("aten::mm", 8, launch()))
    core = load({FORWARD: [sized("aten::mm", 8, launch()), sized("aten::mm", 8, launch(), launch())],
                 BACKWARD: [run("MmBackward0", again, seq=3)]})  # fmt: skip
    assert said(sheets(core)["GEMM"], "name_count") == [(3,)]
    counted = sheets(core, by_kernel_count=True)["GEMM"]
    assert sorted(said(counted, "num_kernels", "name_count")) == [(1, 2), (2, 1)]
    told = sheets(core, recompute=True)["GEMM"]
    assert sorted(said(told, "is_recompute", "name_count")) == [(False, 2), (True, 1)]


def test_without_models_there_is_no_table() -> None:
    assert perf_sheets(with_models(load({FORWARD: [sized("aten::mm", 8, launch())]}), {})) == {}
