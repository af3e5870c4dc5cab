"""Cost, rates and roofline of calls as users of TraceLens ask for them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pandas as pd
import pytest
from extended import with_models
from handmade import span
from hypothesis import given
from made_traces import traces
from parity.cases import Case, cases, graph, parameters
from profiles import examples

from tracelens_graph.analyses.kernels.kernels import kernel_category_detail
from tracelens_graph.analyses.performance.perf_sheets import perf_sheets
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.compat.cells import in_order
from tracelens_graph.compat.PerfModel.torch_op_mapping import TRACELENS_MODELS
from tracelens_graph.compat.report import generate_perf_report_pytorch
from tracelens_graph.compat.tree_perf import TreePerfAnalyzer
from tracelens_graph.errors import AnalysisError
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.devices import architecture
from tracelens_graph.perf.model import OpModel
from tracelens_graph.perf.registry import model_named
from tracelens_graph.schema import Kind

FIVE = ["mean", "median", "std", "min", "max"]
DEVICE = {"mem_bw_gbps": 1000, "max_achievable_tflops": {"matrix_fp32": 100, "matrix_bf16": 100, "vector_fp32": 10}}
CONV = [[[1, 2, 4, 4], [3, 2, 1, 1], [3], [], [], [], [], [], []], ["float", "float", "float", *[""] * 6]]
SETTINGS = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]


def events() -> list[dict[str, Any]]:
    """Two products, one with a copy inside; a forward convolution with its backward pass; an all-reduce."""
    gpu = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
    product = {"Input_Dims": [[2, 3], [3, 4]], "Input_type": ["float", "float"]}
    forward = {"Input_Dims": CONV[0], "Input_type": CONV[1], "Concrete_Inputs": SETTINGS, "Sequence_number": 5}
    return [
        span("cpu_op", "aten::mm", 100, 90, **product),
        span("cuda_runtime", "cudaLaunchKernel", 110, 5, correlation=1),
        span("kernel", "gemm", 150, 30, **gpu, correlation=1),
        span("cpu_op", "aten::mm", 200, 90, **product),
        span("cuda_runtime", "cudaLaunchKernel", 210, 5, correlation=2),
        span("kernel", "direct_copy_kernel_cuda", 220, 5, **gpu, correlation=2),
        span("cuda_runtime", "cudaLaunchKernel", 230, 5, correlation=3),
        span("kernel", "gemm", 240, 20, **gpu, correlation=3),
        span("cpu_op", "aten::convolution", 300, 90, **forward),
        span("cuda_runtime", "cudaLaunchKernel", 310, 5, correlation=4),
        span("kernel", "conv", 320, 10, **gpu, correlation=4),
        span("cpu_op", "ConvolutionBackward0", 400, 90, tid=2, Sequence_number=5, Fwd_thread_id=1),
        span("cuda_runtime", "cudaLaunchKernel", 410, 5, tid=2, correlation=5),
        span("kernel", "conv_bwd", 420, 40, **gpu, correlation=5),
        span("cpu_op", "c10d::allreduce_", 500, 50),
        span("cuda_runtime", "cudaLaunchKernel", 510, 5, correlation=6),
        span("kernel", "ncclDevKernel_AllReduce", 520, 15, 0, 9, device=0, stream=9, correlation=6),
        span("cuda_runtime", "cudaLaunchKernel", 600, 5, correlation=7),
        span("kernel", "fill", 610, 4, **gpu, correlation=7),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def analyzer() -> TreePerfAnalyzer:
    return TreePerfAnalyzer(events(), arch=DEVICE)


def named(analyzer: TreePerfAnalyzer, *names: str) -> list[Any]:
    return [event for event in analyzer.tree.events if event["name"] in names]


# --- one call ----------------------------------------------------------------------------------------------------


def test_metrics_of_a_call(analyzer: TreePerfAnalyzer) -> None:
    found = analyzer.compute_perf_metrics({"UID": 0})
    moved = 4 * (2 * 3 + 3 * 4 + 2 * 4)
    assert found.pop("param: stride_A") is found.pop("param: stride_B") is None
    assert found == {
        "GFLOPS": 48 / 1e9, "Data Moved (MB)": moved / 2**20, "FLOPS/Byte": 48 / moved,
        "TB/s": pytest.approx(moved / 1e12 / 30e-6), "TFLOPS/s": pytest.approx(48 / 1e12 / 30e-6),
        "Kernel Time (µs)": 30.0, "Compute Spec": "matrix_fp32", "Roofline Time (µs)": pytest.approx(moved / 1e6),
        "Roofline Bound": "MEMORY_BOUND", "Pct Roofline": pytest.approx(100 * moved / 1e6 / 30),
        "param: M": 2, "param: N": 4, "param: K": 3, "param: bias": False, "param: dtype_A_B": ("float", "float"),
        "param: B": 1,
    }  # fmt: skip
    assert analyzer.compute_fwd_perf_metrics({"UID": 0})["GFLOPS"] == found["GFLOPS"]


def test_metrics_of_a_backward_pass(analyzer: TreePerfAnalyzer) -> None:
    forward, backward = (analyzer.compute_perf_metrics({"UID": 8}, bwd=bwd) for bwd in (False, True))
    assert (forward["Kernel Time (µs)"], backward["Kernel Time (µs)"]) == (10.0, 40.0)
    products = 2 * (2 * 1 * 1) * (3 * 4 * 4)
    assert forward["GFLOPS"] == (products + 3 * 4 * 4) / 1e9
    assert backward["GFLOPS"] >= 2 * products / 1e9
    assert analyzer.compute_bwd_perf_metrics({"UID": 8}) == backward


def test_a_model_of_the_callers_own(analyzer: TreePerfAnalyzer) -> None:
    mine = OpModel(lambda arguments, context: Cost(7, None, "vector"), "Mine")
    found = analyzer.compute_perf_metrics({"UID": 14}, perf_model_class=mine)
    assert (found["GFLOPS"], found["Data Moved (MB)"], found["Kernel Time (µs)"]) == (7e-9, None, 15.0)
    assert math.isnan(found["TB/s"])
    assert found["Roofline Time (µs)"] is None
    own = TreePerfAnalyzer(events(), models={"c10d::allreduce_": mine})
    assert own.compute_perf_metrics({"UID": 14})["GFLOPS"] == 7e-9


def test_where_there_is_no_cost(analyzer: TreePerfAnalyzer) -> None:
    def refuses(arguments: Any, context: Any) -> Cost:
        raise CannotModel("the sizes are not recorded")

    with pytest.raises(AnalysisError, match=r"no cost of 'c10d::allreduce_' \(UID 14\): no model is known"):
        analyzer.compute_perf_metrics({"UID": 14})
    with pytest.raises(AnalysisError, match="no formula is known for its backward pass"):
        analyzer.compute_perf_metrics({"UID": 0}, bwd=True)
    with pytest.raises(AnalysisError, match="the sizes are not recorded"):
        analyzer.compute_perf_metrics({"UID": 0}, perf_model_class=OpModel(refuses, ""))
    with pytest.raises(AnalysisError, match="has to be an OpModel"):
        analyzer.compute_perf_metrics({"UID": 0}, perf_model_class=dict)  # type: ignore[arg-type]


def test_devices() -> None:
    assert TreePerfAnalyzer(events(), arch="MI300X").arch == architecture("mi300x")
    assert TreePerfAnalyzer(events(), arch=architecture("h100-sxm")).arch == architecture("h100-sxm")
    with pytest.raises(AnalysisError, match="no architecture has the name 'MI9'"):
        TreePerfAnalyzer(events(), arch="MI9")


def test_categories_of_kernels() -> None:
    plain, told = (TreePerfAnalyzer(events(), use_kernel_name_categories=value) for value in (False, True))
    assert "kernel_category" not in plain.get_df_kernels()
    frame = told.get_df_kernels(cpu_op_detail=False)
    detail = kernel_category_detail(told.tree.graph)
    pairs = set(zip(detail["kernel_name"], detail["kernel_category"], strict=True))
    assert set(zip(frame["Kernel name"], frame["kernel_category"], strict=True)) == pairs
    details = told.get_kernel_details({"UID": 2})
    assert details is not None
    assert ("gemm", details["kernel_category"]) in pairs
    assert len(pairs) == 6


@pytest.mark.parametrize(
    ("names", "op", "ordered"),
    [
        ("M N K bias dtype_A_B B stride_A stride_B", "aten::mm", "M N K bias stride_A stride_B dtype_A_B B"),
        ("M N K B stride_A mine", "aten::bmm", "B M N K stride_A mine"),
        (
            "convNd input_shape bias groups weight_stride",
            "aten::convolution",
            "convNd input_shape weight_stride bias groups",
        ),
        ("op_shape input_shape", "aten::copy_", "op_shape input_shape"),
    ],
)
def test_sizes_stand_as_tracelens_shows_them(names: str, op: str, ordered: str) -> None:
    assert in_order(names.split(), op) == ordered.split()
    assert in_order([f"param: {name}" for name in names.split()], op) == [f"param: {name}" for name in ordered.split()]


# --- frames of a family ------------------------------------------------------------------------------------------


def test_a_frame_of_calls(analyzer: TreePerfAnalyzer) -> None:
    frame = analyzer.build_df_perf_metrics(
        named(analyzer, "aten::mm"), include_kernel_details=True, include_args=True, non_data_mov=True
    )
    assert frame["UID"].tolist() == [0, 3]
    assert frame["Kernel Time (µs)"].tolist() == [30.0, 25.0]
    assert frame["Non-Data-Mov Kernel Time (µs)"].tolist() == [30.0, 20.0]
    assert frame["Input Dims"].tolist() == [[[2, 3], [3, 4]]] * 2
    assert [len(details) for details in frame["kernel_details"]] == [1, 2]
    assert frame.loc[0, ["cat", "name", "pid", "tid"]].tolist() == ["cpu_op", "aten::mm", 100, 100]
    plain = analyzer.build_df_fwd_perf_metrics(named(analyzer, "aten::mm"))
    assert not {"kernel_details", "Input Dims", "Non-Data-Mov Kernel Time (µs)"} & set(plain)


def test_calls_without_an_estimate_are_counted(analyzer: TreePerfAnalyzer) -> None:
    calls = named(analyzer, "aten::mm", "c10d::allreduce_")
    with pytest.warns(UserWarning, match="1 of 3 calls have no estimate and are left out: c10d::allreduce_: no model"):
        assert analyzer.build_df_perf_metrics(calls)["UID"].tolist() == [0, 3]
    with pytest.warns(UserWarning, match="3 of 3 calls"):
        assert analyzer.build_df_bwd_perf_metrics(calls).empty


def test_a_summary_of_calls(analyzer: TreePerfAnalyzer) -> None:
    calls = named(analyzer, "aten::mm")
    frame = analyzer.build_df_perf_metrics(calls, non_data_mov=True, include_kernel_details=True)
    (row,) = analyzer.summarize_df_perf_metrics(frame).to_dict("records")
    assert (row["name_count"], row["Kernel Time (µs)_sum"], row["Non-Data-Mov Kernel Time (µs)_sum"]) == (2, 55.0, 50.0)
    assert row["TFLOPS/s_mean"] == pytest.approx((48 / 30e-6 + 48 / 25e-6) / 2 / 1e12)
    assert "TFLOPS/s_max" not in row
    assert analyzer.summarize_df_perf_metrics(frame, ["max"])["Kernel Time (µs)_max"].tolist() == [30.0]
    apart = analyzer.summarize_df_perf_metrics(frame, group_by_num_kernels=True)
    assert apart["num_kernels"].tolist() == [1, 2]
    with pytest.raises(AnalysisError, match="include_kernel_details=True"):
        analyzer.summarize_df_perf_metrics(frame.drop(columns="kernel_details"), group_by_num_kernels=True)


# --- the unified table -------------------------------------------------------------------------------------------


def test_each_gpu_event_is_in_one_row(analyzer: TreePerfAnalyzer) -> None:
    assert [event["UID"] for event in analyzer.collect_unified_perf_events()] == [0, 3, 8, 11]
    frame = analyzer.build_df_unified_perf_table()
    assert frame["UID"].tolist() == [0, 3, 8, 11, 18]
    assert frame["name"].tolist()[-1] == "cudaLaunchKernel->fill (Synthetic Op)"
    assert frame["Kernel Time (µs)"].tolist() == [30.0, 25.0, 10.0, 40.0, 4.0]
    assert frame["has_perf_model"].tolist()[:3] == [True, True, True]
    assert frame["duration_us"].tolist() == [90.0, 90.0, 90.0, 90.0, 5.0]
    assert frame.loc[0, "perf_params"]["M"] == 2
    assert frame.loc[4, "perf_params"] is None


def test_the_callers_own_events(analyzer: TreePerfAnalyzer) -> None:
    frame = analyzer.build_df_unified_perf_table(
        [{"UID": 3}, {"UID": 0}, {"UID": 18}],
        include_args=False,
        include_perf_metrics=False,
        include_kernel_details=False,
    )
    assert frame["UID"].tolist()[:2] == [3, 0]
    assert not {"Input Dims", "GFLOPS", "perf_params", "kernel_details"} & set(frame)
    assert frame["Kernel Time (µs)"].tolist()[:2] == [25.0, 30.0]


def test_a_unified_summary(analyzer: TreePerfAnalyzer) -> None:
    frame = analyzer.build_df_unified_perf_table()
    table = analyzer.summarize_df_unified_perf_table(frame, FIVE, include_pct=True)
    assert table["name"].tolist()[0] == "aten::mm"
    assert table["operation_count"].tolist()[0] == 2
    assert table["Percentage (%)"].sum() == pytest.approx(100)
    assert "Percentage (%)" not in analyzer.summarize_df_unified_perf_table(frame)
    assert len(analyzer.summarize_df_unified_perf_table(frame, group_by_num_kernels=True)) == len(table) + 1


@examples(40)
@given(trace=traces())
def test_made_traces(trace: dict[str, Any]) -> None:
    core = load_core(trace)
    analyzer = TreePerfAnalyzer(core, arch=DEVICE)
    frame = analyzer.build_df_unified_perf_table(include_nccl=True)
    uids = {uid for event in analyzer.collect_unified_perf_events() for uid in [event["UID"]]}
    assert uids <= set(frame["UID"])
    table = analyzer.summarize_df_unified_perf_table(frame, FIVE)
    assert table["Kernel Time (µs)_sum"].sum() == pytest.approx(frame["Kernel Time (µs)"].sum())
    expected = unified_perf_summary(core, linked_only=True)
    without = analyzer.summarize_df_unified_perf_table(analyzer.build_df_unified_perf_table())
    assert without["ex_UID"].tolist() == list(expected["ex_UID"])


# --- whole traces ------------------------------------------------------------------------------------------------


WITH_TRACES = pytest.mark.parametrize(
    "case",
    parameters(
        case
        for case in cases()
        if case.flavour == "full" or case.trace in ("mi300/normalization-layers", "mi300/torch-compile-triton")
    ),
)


def same(ours: pd.DataFrame, sheet: pd.DataFrame) -> None:
    """The same table, but for details that only a report shows, and lists in place of tuples."""
    sheet = sheet.drop(columns=["trunc_kernel_details"])
    assert list(ours) == list(sheet)
    details = [name for name in sheet if "kernel_details" in name]
    for column in sheet:
        if column in details:
            assert [len(cell) for cell in ours[column]] == [len(cell) for cell in sheet[column]]
        elif pd.api.types.is_numeric_dtype(sheet[column]):
            pd.testing.assert_series_equal(ours[column], sheet[column], check_dtype=False)
        else:
            assert ours[column].map(str).tolist() == sheet[column].map(str).tolist()


@WITH_TRACES
def test_the_sheets_of_a_report(case: Case, tmp_path: Any) -> None:
    core = graph(case.trace)
    analyzer = TreePerfAnalyzer(core, arch=DEVICE, models=TRACELENS_MODELS)
    report = generate_perf_report_pytorch(core, output_csvs_dir=tmp_path, gpu_arch=DEVICE, models=TRACELENS_MODELS)
    models = {name: model_named(name, TRACELENS_MODELS) for name in core.names}
    shown = perf_sheets(with_models(core, TRACELENS_MODELS))
    for sheet in shown:
        family, bwd = (sheet, False)
        if not any(model and model.sheet == sheet for model in models.values()):
            family, bwd = sheet.replace("_bwd", "_fwd"), True
        calls = [
            event
            for event in analyzer.tree.events
            if (model := models[event["name"]])
            and model.sheet == family
            and (bwd or event.node.gpu_time.count)
            # An overload inside its own name is part of that call in a report; here the caller chooses the events.
            and not any(above.kind == Kind.Op and above.name == event["name"] for above in event.node.ancestors)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            frame = analyzer.build_df_perf_metrics(calls, bwd, include_kernel_details=True, include_args=True)
        frame = frame[frame["Kernel Time (µs)"] > 0]
        same(analyzer.summarize_df_perf_metrics(frame, FIVE), report[sheet])


@WITH_TRACES
def test_the_unified_summary_of_a_report(case: Case, tmp_path: Any) -> None:
    core = graph(case.trace)
    analyzer = TreePerfAnalyzer(core, arch=DEVICE)
    report = generate_perf_report_pytorch(core, output_csvs_dir=tmp_path, gpu_arch=DEVICE)
    frame = analyzer.build_df_unified_perf_table()
    if "unified_perf_summary" in report:
        table = analyzer.summarize_df_unified_perf_table(frame, FIVE, include_pct=True)
        same(table, report["unified_perf_summary"])
    else:
        assert frame.empty or analyzer.gpu_only
