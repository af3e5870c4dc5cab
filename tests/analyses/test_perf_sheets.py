"""Tables by family of operations: known answers, and counts on all traces and windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from call_trees import BACKWARD, FORWARD, Call, frame, launch, load, op, run
from extended import with_models
from hypothesis import given
from hypothesis import strategies as st

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.performance.perf_sheets import perf_sheets
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.unified import arguments_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.devices import architecture
from tracelens_graph.perf.model import CallContext, OpModel
from tracelens_graph.perf.registry import MODELS, model_named
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table

H100 = architecture("h100-sxm")
ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4>"
REDUCE = "void at::native::reduce_kernel<512>"
TOTAL = "Kernel Time (µs)_sum"


def by_rows(arguments: Arguments, context: CallContext) -> Cost:
    """A million operations per row of the first operand."""
    rows = arguments.tensor(0).shape[0]
    return Cost(rows * 10**6, rows * 1000, "matrix", "bf16", {"M": rows})


def backward_by_rows(arguments: Arguments, context: CallContext) -> Cost:
    rows = arguments.tensor(0).shape[0]
    return Cost(2 * rows * 10**6, rows * 1000, "matrix", "bf16", {"M": rows, "gradients": 2})


def of_kernels(arguments: Arguments, context: CallContext) -> Cost:
    return Cost(len(context.kernels) * 10**6, None, "vector", "fp32", {"kernels": len(context.kernels)})


def refuses(arguments: Arguments, context: CallContext) -> Cost:
    raise CannotModel("made to refuse")


REGISTRY: Mapping[str, OpModel] = {
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
    return perf_sheets(with_models(core, REGISTRY), **options)


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
    assert {(row["op category"], len(row["Input type"])) for row in unified} == {("elementwise", 2), ("reduce", 1)}


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


# --- counts


def expected(window: Window, models: Mapping[str, OpModel]) -> Counter[str]:
    """Calls by name whose model gives a cost and that have GPU events in the window, but those in one of their name."""
    core, c, found = window.core, window.core.columns, Counter[str]()
    reach: dict[str, int] = {}
    events = set(window.linked_gpu_rows.tolist())
    costs: dict[Any, bool] = {}
    for row in (c.kind == Kind.Op).nonzero()[0].tolist():
        name = core.names[c.name[row]]
        model = model_named(name, models)
        if model is None or not model.sheet or events.isdisjoint(range(row, int(c.last[row]) + 1)):
            continue
        node = core.nodes_at([row])[0]
        kernels, notes = tuple(kernel.name for kernel in node.kernels), []
        over = node.annotation
        while over is not None:
            notes.append(over.name)
            over = over.annotation
        forward = core.autograd.forward_of(row) if "Backward" in name else []
        context = CallContext(kernels, "\n".join(notes), arguments_of(core, forward[0]) if forward else None)
        key = (name, int(c.argset[row]), context if model.uses_context else None)
        if model.uses_context or key not in costs:
            try:
                model.estimate(arguments_of(core, row), context)
                costs[key] = True
            except CannotModel:
                costs[key] = False
        if costs[key] and reach.get(name, -1) < row:
            reach[name] = int(c.last[row])
            found[name] += 1
    return found


def check(window: Window, models: Mapping[str, OpModel]) -> None:
    """Each call of a modelled op is in one row of one table; besides there are forward ops in tables of backward."""
    tables = perf_sheets(with_models(window, models))
    counted: Counter[str] = Counter()
    for sheet, table in tables.items():
        for row in table.records():
            model = model_named(row["name"], models)
            assert model is not None
            if sheet in (model.sheet, "BinaryElementwise"):
                counted[row["name"]] += row["name_count"]
            else:
                assert model.backward
                assert sheet == model.sheet.removesuffix("_fwd") + "_bwd"
            mean, total = row["Kernel Time (µs)_mean"], row[TOTAL]
            assert mean * row["name_count"] == pytest.approx(total)
    assert counted == expected(window, models)


CALLS = st.recursive(
    st.builds(launch),
    lambda inner: st.builds(
        lambda name, rows, calls: sized(name, rows, *calls),
        st.sampled_from([*REGISTRY, "aten::other"]), st.integers(1, 3), st.lists(inner, max_size=3),
    ),
    max_leaves=10,
)  # fmt: skip


@given(st.lists(CALLS, max_size=4))
def test_counts_of_trees_of_calls(calls: list[Call]) -> None:
    check(load({FORWARD: calls}).everything, REGISTRY)


@parametrize("path", chosen_traces())
def test_counts_of_real_traces(path: Path) -> None:
    core = loaded(path)
    check(core.everything, MODELS)
    for step in list(dict.fromkeys(int(step.name.rpartition("#")[2]) for step in core.steps()))[:2]:
        check(core.window(step=step), MODELS)
