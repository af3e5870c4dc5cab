"""TreePerfAnalyzer as its users know it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import small_trace, span
from parity.cases import Case, cases, graph, parameters
from parity.comparing import compare
from parity.tolerances import tolerances

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.ops.ops import ops_summary, ops_summary_by_category, ops_unique_args
from tracelens_graph.analyses.shared.gpu_work import as_tracelens_counts
from tracelens_graph.compat.trace_to_tree import TraceToTree
from tracelens_graph.compat.tree_perf import TreePerfAnalyzer
from tracelens_graph.errors import AnalysisError, NotATraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import whole_window
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table

FIVE = ["mean", "median", "std", "min", "max"]


def with_modules() -> list[dict[str, Any]]:
    """Two modules in one: the inner ones compute 30 and 20 us, the outer one 10 us by itself."""
    gpu = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
    return [
        span("python_function", "nn.Module: Net_0", 0, 1000),
        span("python_function", "nn.Module: Linear_0", 100, 200),
        span("cpu_op", "aten::mm", 110, 100, Input_Dims=[[2, 3], [3, 4]], Input_type=["float", "float"]),
        span("cuda_runtime", "cudaLaunchKernel", 120, 5, correlation=1),
        span("kernel", "gemm", 200, 30, **gpu, correlation=1, grid=[4, 1, 1], block=[128, 1, 1]),
        span("python_function", "nn.Module: Linear_1", 400, 200),
        span("cpu_op", "aten::mm", 410, 100, Input_Dims=[[2, 3], [3, 4]], Input_type=["float", "float"]),
        span("cuda_runtime", "cudaLaunchKernel", 420, 5, correlation=2),
        span("kernel", "gemm", 500, 20, **gpu, correlation=2),
        span("cuda_runtime", "cudaLaunchKernel", 700, 5, correlation=3),
        span("kernel", "fill", 800, 10, **gpu, correlation=3),
        span("cpu_op", "c10d::allreduce_", 900, 50),
        span("cuda_runtime", "cudaLaunchKernel", 910, 5, correlation=4),
        span("kernel", "ncclDevKernel_AllReduce", 920, 40, 0, 9, device=0, stream=9, correlation=4),
        span("kernel", "before_the_start", 1, 5, **gpu),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def analyzer() -> TreePerfAnalyzer:
    return TreePerfAnalyzer(TraceToTree(with_modules()), add_python_func=True)


@pytest.fixture(scope="module")
def calls(analyzer: TreePerfAnalyzer) -> pd.DataFrame:
    return analyzer.get_df_kernel_launchers(
        id_cols=True, include_kernel_details=True, include_call_stack=True, include_first_occurrence_time=True
    )


# --- timeline ----------------------------------------------------------------------------------------------------


def test_timeline(analyzer: TreePerfAnalyzer) -> None:
    frame = analyzer.get_df_gpu_timeline(micro_idle_thresh_us=280)
    times = dict(zip(frame["type"], frame["time ms"], strict=True))
    assert times == {
        "computation_time": 0.060, "exposed_comm_time": 0.040, "exposed_memcpy_time": 0.0, "busy_time": 0.100,
        "micro_idle_time": 0.270 + 0.110, "macro_idle_time": 0.280, "total_time": 0.760,
        "total_comm_time": 0.040, "total_memcpy_time": 0.0,
    }  # fmt: skip
    assert frame.attrs["units"] == {"time ms": "ms", "percent": "%"}


# --- launchers ---------------------------------------------------------------------------------------------------


def test_launchers_are_events_with_their_times(analyzer: TreePerfAnalyzer) -> None:
    found = analyzer.get_kernel_launchers()
    assert [event["UID"] for event in found] == [2, 6, 9]
    first = found[0]
    assert first == analyzer.tree.get_UID2event(2)
    assert dict(first) == dict(analyzer.tree.get_UID2event(2)) | {
        "op category": "GEMM",
        "total_direct_kernel_time": 30.0,
        "total_subtree_kernel_time": 30.0,
        "direct_kernel_count": 1,
        "kernel_details": [{"name": "gemm", "dur": 30.0, "stream": 7}],
    }
    assert (first["name"], len(first)) == ("aten::mm", len(list(first)))
    assert found[2]["name"] == "cudaLaunchKernel"
    with pytest.raises(KeyError):
        first["nn_module_children"]


def test_times_are_busy_times() -> None:
    (addmm,) = TreePerfAnalyzer(small_trace()).get_kernel_launchers()
    assert (addmm["name"], addmm["total_direct_kernel_time"], addmm["direct_kernel_count"]) == ("aten::addmm", 60.0, 2)


def test_one_row_per_call(calls: pd.DataFrame) -> None:
    assert list(calls.columns) == [
        "name", "op category", "UID", "total_direct_kernel_time", "total_subtree_kernel_time", "direct_kernel_count",
        "ts", "Input Dims", "Input type", "Input Strides", "Concrete Inputs", "pid", "tid", "external_id",
        "kernel_details", "call_stack", "parent_module", "process_name", "process_label", "thread_name",
        "overlapping_kernel_names", "overlapping_kernels_details", "overlap_pct",
    ]  # fmt: skip
    first, last = calls.iloc[0], calls.iloc[2]
    assert (first["ts"], first["Input Dims"], first["Input Strides"]) == (110.0, ((2, 3), (3, 4)), None)
    assert (first["pid"], first["tid"], first["external_id"] is pd.NA) == (100, 100, True)
    assert (first["call_stack"], first["parent_module"]) == (
        ["aten::mm", "nn.Module: Linear_0", "nn.Module: Net_0"],
        "nn.Module: Linear",
    )
    assert (last["name"], last["op category"], last["Input Dims"], last["process_name"]) == (
        "cudaLaunchKernel",
        "other",
        None,
        "Unknown",
    )
    assert calls["direct_kernel_count"].tolist() == [1, 1, 1]


def test_without_gpu_work_there_are_columns_and_no_rows() -> None:
    analyzer = TreePerfAnalyzer([span("cpu_op", "aten::add", 0, 5)])
    frame = analyzer.get_df_kernel_launchers(include_kernel_details=True, include_call_stack=True)
    assert len(frame) == 0
    assert analyzer.get_kernel_launchers() == []
    assert len(analyzer.get_df_gpu_timeline()) == 0
    for summary in SUMMARIES:
        assert len(summary(frame)) == 0
    assert list(analyzer.get_df_kernel_launchers_summary(frame))[:2] == ["name", "total_direct_kernel_time_sum"]
    assert len(analyzer.get_df_kernels(True, True, True)) == 0


def test_recompute_is_told_apart() -> None:
    events = with_modules()
    events[1]["name"] = "torch/utils/checkpoint.py(1): recompute_fn"
    analyzer = TreePerfAnalyzer(events, detect_recompute=True)
    assert analyzer.add_python_func
    frame = analyzer.get_df_kernel_launchers()
    assert frame["is_recompute"].tolist() == [True, False, False]
    summary = analyzer.get_df_kernel_launchers_summary(frame)
    assert summary[["name", "is_recompute", "Count"]].to_numpy().tolist() == [
        ["aten::mm", True, 1],
        ["aten::mm", False, 1],
        ["cudaLaunchKernel", False, 1],
    ]
    assert "is_recompute" in analyzer.get_df_kernel_launchers_unique_args(frame)
    assert set(analyzer.get_df_gpu_timeline()["is_recompute"]) == {True, False}


# --- summaries of frames -----------------------------------------------------------------------------------------

SUMMARIES: list[Callable[[pd.DataFrame], pd.DataFrame]] = [
    TreePerfAnalyzer.get_df_kernel_launchers_summary,
    TreePerfAnalyzer.get_df_kernel_launchers_summary_module,
    TreePerfAnalyzer.get_df_kernel_launchers_summary_by_category,
    TreePerfAnalyzer.get_df_kernel_launchers_summary_by_category_module,
    lambda calls: TreePerfAnalyzer.get_df_kernel_launchers_unique_args(
        calls, agg_metrics=FIVE, include_pct=True, group_by_parent_module=True, include_overlapping_kernels=True
    ),
]


def test_summary(calls: pd.DataFrame) -> None:
    summary = TreePerfAnalyzer.get_df_kernel_launchers_summary(calls)
    assert summary.to_dict("records") == [
        {
            "name": "aten::mm", "total_direct_kernel_time_sum": 50.0, "total_subtree_kernel_time_sum": 50.0,
            "total_direct_kernel_time_ms": 0.05, "total_subtree_kernel_time_ms": 0.05, "Count": 2,
            "Categories": ["GEMM"], "Percentage (%)": pytest.approx(500 / 6),
            "Cumulative Percentage (%)": pytest.approx(500 / 6),
        },
        {
            "name": "cudaLaunchKernel", "total_direct_kernel_time_sum": 10.0, "total_subtree_kernel_time_sum": 10.0,
            "total_direct_kernel_time_ms": 0.01, "total_subtree_kernel_time_ms": 0.01, "Count": 1,
            "Categories": ["other"], "Percentage (%)": pytest.approx(100 / 6),
            "Cumulative Percentage (%)": pytest.approx(100),
        },
    ]  # fmt: skip


def test_summary_of_a_part(calls: pd.DataFrame) -> None:
    part = calls[calls["parent_module"] == "nn.Module: Linear"].iloc[1:]
    (row,) = TreePerfAnalyzer.get_df_kernel_launchers_summary(part).to_dict("records")
    assert (row["name"], row["total_direct_kernel_time_sum"], row["Percentage (%)"]) == ("aten::mm", 20.0, 100.0)
    (row,) = TreePerfAnalyzer.get_df_kernel_launchers_unique_args(part).to_dict("records")
    assert (row["ex_UID"], row["first_occurrence_time"]) == (6, 0.0)


def test_summaries_by_category_and_module(calls: pd.DataFrame) -> None:
    by_category = TreePerfAnalyzer.get_df_kernel_launchers_summary_by_category(calls)
    assert by_category[["op category", "Count", "total_direct_kernel_time_ms"]].to_numpy().tolist() == [
        ["GEMM", 2, 0.05],
        ["other", 1, 0.01],
    ]
    modules = TreePerfAnalyzer.get_df_kernel_launchers_summary_module(calls)
    assert modules[["name", "parent_module", "Count"]].to_numpy().tolist() == [
        ["aten::mm", "nn.Module: Linear", 2],
        ["cudaLaunchKernel", "nn.Module: Net", 1],
    ]
    assert modules["call_stack_first"][1] == ["cudaLaunchKernel", "nn.Module: Net_0"]
    both = TreePerfAnalyzer.get_df_kernel_launchers_summary_by_category_module(calls)
    assert list(both) == [
        "op category", "parent_module", "Count", "call_stack_first", "total_direct_kernel_time_ms",
        "Percentage (%)", "Cumulative Percentage (%)",
    ]  # fmt: skip


def test_unique_arguments(calls: pd.DataFrame) -> None:
    table = TreePerfAnalyzer.get_df_kernel_launchers_unique_args(calls, "aten::mm", FIVE, include_pct=True)
    (row,) = table.to_dict("records")
    assert row["operation_count"] == 2
    assert (row["Input Dims"], row["ex_UID"], row["first_occurrence_time"]) == (((2, 3), (3, 4)), 2, 0.0)
    assert [row[f"total_direct_kernel_time_{which}"] for which in [*FIVE, "sum"]] == [
        25.0, 25.0, pytest.approx(50**0.5), 20.0, 30.0, 50.0,
    ]  # fmt: skip
    assert row["kernel_details_summary"] == [
        {
            "name": "gemm", "stream": 7, "count": 2, "total_duration_us": 50.0, "mean_duration_us": 25.0,
            "median_duration_us": 25.0, "std_dev_duration_us": 5.0, "min_duration_us": 20.0, "max_duration_us": 30.0,
        }
    ]  # fmt: skip
    assert row["Percentage (%)"] == 100.0


def test_calls_with_other_numbers_of_kernels_are_counted(calls: pd.DataFrame) -> None:
    details = calls["kernel_details"].tolist()
    frame = calls.assign(kernel_details=[details[0], details[1] * 2, details[2]])
    table = TreePerfAnalyzer.get_df_kernel_launchers_unique_args(frame)
    assert table["kernel_details_summary"][0][0]["count"] == 1
    assert table.attrs["notes"] == [
        "1 calls with another number of GPU events than the first of their row are not in kernel details"
    ]


def as_table(name: str, frame: pd.DataFrame) -> Table:
    return Table(
        name, {column: frame[column].astype(object).where(frame[column].notna(), None).tolist() for column in frame}
    )


def check_summaries_equal_our_tables(core: Core) -> None:
    """Whole frames say what the tables of the graph say."""
    analyzer = TreePerfAnalyzer(core, add_python_func=True, detect_recompute=True)
    calls = analyzer.get_df_kernel_launchers(
        include_kernel_details=True, include_call_stack=True, include_first_occurrence_time=True
    )
    core = as_tracelens_counts(whole_window(core)).core
    plain = calls.drop(columns="is_recompute")
    pairs = [
        (analyzer.get_df_kernel_launchers_summary(calls), ops_summary(core, True, recompute=True)),
        (analyzer.get_df_kernel_launchers_summary(plain), ops_summary(core, True)),
        (
            analyzer.get_df_kernel_launchers_summary_module(plain),
            ops_summary(core, True, by_module=True, call_stack=True),
        ),
        (analyzer.get_df_kernel_launchers_summary_by_category(plain), ops_summary_by_category(core, True)),
        (
            analyzer.get_df_kernel_launchers_summary_by_category_module(plain),
            ops_summary_by_category(core, True, by_module=True, call_stack=True),
        ),
        (
            analyzer.get_df_kernel_launchers_unique_args(
                calls, agg_metrics=FIVE, include_pct=True, group_by_num_kernels=True, group_by_parent_module=True,
                include_overlapping_kernels=True,
            ),
            ops_unique_args(
                core, True, first_occurrence=True, call_stack=True, overlapping=True, recompute=True,
                by_kernel_count=True, by_module=True,
            ),
        ),
    ]  # fmt: skip
    assert calls["ts"].tolist() == [analyzer.tree.get_UID2event(uid)["ts"] for uid in calls["UID"].tolist()]
    for summary, table in pairs:
        frame, ours = in_our_words(summary), table.to_pandas()
        left_out = [c for c in ours if c.startswith("trunc_") or c == "entry_point"]
        ours = ours.drop(columns=left_out)
        assert set(frame) == set(ours)
        assert len(frame) == len(ours)
        for column in frame:
            # A start on the file's clock has as few digits behind the point as float64 leaves it.
            tolerance = 0.26 if column == "first_occurrence_time" else 1e-6
            assert_same(frame[column], ours[column], tolerance)


def in_our_words(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with modules and stacks of modules as our tables spell them."""
    found = frame.copy()
    if "parent_module" in frame:
        found["parent_module"] = frame["parent_module"].replace("NA", "(no module)")
    for column in {"call_stack", "call_stack_first"} & set(frame):
        found[column] = [stack[:0:-1] for stack in frame[column]]
    return found


def assert_same(ours: pd.Series[Any], theirs: pd.Series[Any], tolerance: float) -> None:
    if ours.dtype.kind in "fiu" and theirs.dtype.kind in "fiu":
        np.testing.assert_allclose(ours.to_numpy(float), theirs.to_numpy(float), rtol=1e-9, atol=tolerance)
    else:
        for a, b in zip(ours, theirs, strict=True):
            assert in_lists(a) == in_lists(b), ours.name


def in_lists(value: Any) -> Any:
    """A cell with lists for tuples, rounded numbers, and None for what is absent."""
    if isinstance(value, list | tuple):
        return [in_lists(each) for each in value]
    if isinstance(value, dict):
        return {key: in_lists(each) for key, each in value.items()}
    if value is pd.NA or (isinstance(value, float) and value != value):
        return None
    return round(value, 6) if isinstance(value, float) else value


@parametrize("path", chosen_traces())
def test_whole_frames_equal_our_tables(path: Path) -> None:
    check_summaries_equal_our_tables(loaded(path))


@pytest.mark.parametrize(
    "case",
    parameters(
        case
        for case in cases()
        if case.flavour == "default" and "ops_summary" in case.reference and not case.trace.startswith("inference/")
    ),
)
def test_summaries_equal_the_reference(case: Case) -> None:
    analyzer = TreePerfAnalyzer(core := graph(case.trace))
    calls = analyzer.get_df_kernel_launchers(include_kernel_details=True)
    frames = {
        "ops_summary": analyzer.get_df_kernel_launchers_summary(calls),
        "ops_summary_by_category": analyzer.get_df_kernel_launchers_summary_by_category(calls),
        "ops_unique_args": analyzer.get_df_kernel_launchers_unique_args(calls, agg_metrics=FIVE, include_pct=True),
    }
    reference = case.reference
    allowed = tolerances(reference, lambda uid: len(core.node(uid).kernels), len(core.gpu_rows))
    for name, frame in frames.items():
        wanted = [column for column in reference[name][0] if column != "trunc_kernel_details"]
        assert list(frame) == wanted
        rows = [{column: row[column] for column in wanted} for row in reference[name]]
        assert compare(name, rows, as_table(name, frame), allowed[name]).differences == []
        for column in {"Input Dims", "Input type", "Input Strides", "Concrete Inputs"} & set(frame):
            assert {str(cell) for cell in frame[column] if cell is not None} == {
                row[column] for row in rows if row[column]
            }


# --- kernels -----------------------------------------------------------------------------------------------------


def test_kernels_one_by_one(analyzer: TreePerfAnalyzer) -> None:
    frame = analyzer.get_df_kernels(launcher_detail=True, nn_module_detail=True)
    assert frame["UID"].tolist() == [4, 8, 10, 13, 14]
    first = frame.iloc[0].to_dict()
    assert first == {
        "UID": 4, "Kernel name": "gemm", "Kernel t start": 200.0, "Kernel duration (µs)": 30.0, "Kernel stream": 7,
        "Launcher UID": 3, "Launcher": "cudaLaunchKernel", "Grid": (4, 1, 1), "Block": (128, 1, 1),
        "Parent cpu_op UID": 2, "Parent cpu_op": "aten::mm", "Input dims": ((2, 3), (3, 4)),
        "Input types": ("float", "float"), "Input strides": None, "Concrete Inputs": None, "kernel_file": None,
        "Parent cpu_op busy time (µs)": 30.0, "Parent cpu_op kernel count": 1,
        "Percent of Parent cpu_op busy time (%)": 100.0, "Parent nn.Module UID": 1,
        "Parent nn.Module": "nn.Module: Linear_0", "Parent nn.Module kernel count": 1,
        "Parent nn.Module GPU busy time (µs)": 30.0, "Percent of Parent nn.Module busy time (%)": 100.0,
    }  # fmt: skip
    assert frame["Percent of Parent nn.Module busy time (%)"].tolist()[2:4] == [10.0, 40.0]
    assert frame["Parent cpu_op"].isna().tolist() == [False, False, True, False, True]
    assert frame["Launcher UID"].isna().tolist() == [False] * 4 + [True]


def test_details_of_a_kernel(analyzer: TreePerfAnalyzer) -> None:
    frame = analyzer.get_df_kernels(launcher_detail=True, nn_module_detail=True)
    for uid, row in zip(frame["UID"].tolist(), frame.to_dict("records"), strict=True):
        details = analyzer.get_kernel_details({"UID": uid}, launcher_detail=True, nn_module_detail=True)
        assert details is not None
        assert details.items() <= row.items()
    lone = analyzer.get_kernel_details({"UID": 14}, launcher_detail=True, nn_module_detail=True)
    assert lone == {
        "UID": 14, "Kernel name": "before_the_start", "Kernel t start": 1.0, "Kernel duration (µs)": 5.0,
        "Kernel stream": 7,
    }  # fmt: skip
    assert analyzer.get_kernel_details({"UID": 2}) is None


def test_aggregation_of_kernels(analyzer: TreePerfAnalyzer, capsys: pytest.CaptureFixture[str]) -> None:
    net, linear, gemm = (analyzer.tree.get_UID2event(uid) for uid in (0, 1, 4))
    assert analyzer.agg_kernels_in_subtree(net) == (100.0, [4, 8, 10, 13])
    assert analyzer.agg_kernels_in_subtree(gemm) == (30.0, [4])
    assert analyzer.agg_kernels_in_subtree(net, lambda event: event["name"] != "gemm") == (50.0, [10, 13])
    assert analyzer.loop_and_aggregate_kernels([linear, net]) == (130.0, [4, 4, 8, 10, 13])
    assert analyzer.loop_and_aggregate_kernels([]) == (0.0, [])
    assert capsys.readouterr().out == ""
    analyzer.agg_kernels_in_subtree(linear, verbose=True)
    assert capsys.readouterr().out == "30.0 us  gemm\n"


@parametrize("path", chosen_traces())
def test_kernels_are_those_of_the_graph(path: Path) -> None:
    core = loaded(path)
    frame = TreePerfAnalyzer(core).get_df_kernels()
    kernels = core.find(Kind.Kernel)
    assert sorted(frame["UID"].tolist()) == sorted(node.uid for node in kernels)
    assert frame["Kernel duration (µs)"].sum() * 1000 == pytest.approx(sum(node.dur_ns for node in kernels))
    for row in frame.iloc[:: max(len(frame) // 40, 1)].to_dict("records"):
        owner = next((above for above in core.node(row["UID"]).ancestors if above.kind is Kind.Op), None)
        assert (owner.name if owner else None) == in_lists(row["Parent cpu_op"])
        if owner:
            assert row["Parent cpu_op busy time (µs)"] == owner.gpu_time.busy / 1000
            assert row["Parent cpu_op kernel count"] == len(owner.kernels)


# --- modules -----------------------------------------------------------------------------------------------------


def test_latency_of_modules(analyzer: TreePerfAnalyzer) -> None:
    tree = analyzer.build_nn_module_latency_tree(analyzer.tree.get_UID2event(0))
    keys = ("GPU Time", "nn Parent GPU Time", "Non-nn.Module GPU Time")
    assert {uid: tuple(event.get(key) for key in keys) for uid, event in tree.items()} == {
        0: (100.0, None, 50.0),
        1: (30.0, 100.0, None),
        5: (20.0, 100.0, None),
    }
    assert tree[1]["name"] == "nn.Module: Linear_0"
    assert list(analyzer.build_nn_module_latency_tree({"UID": 5})) == [5]
    with pytest.raises(AnalysisError, match=r"'aten::mm' is no nn\.Module"):
        analyzer.build_nn_module_latency_tree({"UID": 2})


@parametrize("path", chosen_traces())
def test_latency_of_modules_is_that_of_the_graph(path: Path) -> None:
    core = loaded(path)
    analyzer = TreePerfAnalyzer(core, add_python_func=True)
    roots = [node for node in core.find(Kind.Module) if len(node.modules) == 1][:3]
    for root in roots:
        found = analyzer.build_nn_module_latency_tree({"UID": root.uid})
        assert list(found) == [node.uid for node in root.subtree if node.kind is Kind.Module]
        for uid, event in found.items():
            node = core.node(uid)
            assert event["GPU Time"] == node.gpu_time.busy / 1000
            inside = [inner for inner in node.subtree if inner.kind is Kind.Module and inner != node]
            assert ("Non-nn.Module GPU Time" in event) == bool(inside)
            if inside:
                own = [gpu for gpu in node.kernels if gpu.modules[-1] == node]
                assert event["Non-nn.Module GPU Time"] <= sum(gpu.dur_ns for gpu in own) / 1000
                assert (event["Non-nn.Module GPU Time"] > 0) == any(gpu.dur_ns for gpu in own)


# --- making one --------------------------------------------------------------------------------------------------


def test_from_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 1, "pid": 0, "tid": 7}]}'
    )
    analyzer = TreePerfAnalyzer.from_file(str(path), include_unlinked_kernels=True)
    assert analyzer.gpu_only
    assert analyzer.get_df_gpu_timeline()["time ms"].iloc[0] == 0.001
    path.write_text("no trace")
    with pytest.raises(NotATraceError):
        TreePerfAnalyzer.from_file(str(path))


def test_a_tree_can_be_kept_as_it_is() -> None:
    tree = TraceToTree(with_modules())
    tree.build_tree(add_python_func=True)
    assert TreePerfAnalyzer(tree, rebuild_tree=False).add_python_func
    assert not TreePerfAnalyzer(tree).add_python_func
    assert not TreePerfAnalyzer(tree).gpu_only
    TreePerfAnalyzer(tree, event_to_category=lambda event: event["cat"].upper())
    assert tree.event_to_category(tree.get_UID2event(2)) == "CPU_OP"


@pytest.mark.parametrize(
    ("argument", "missing"),
    [
        ({"jax": True}, "trees of JAX"),
        ({"tree_postprocess_extension": print}, "extensions"),
    ],
)
def test_what_is_missing_is_refused(argument: dict[str, Any], missing: str) -> None:
    with pytest.raises(AnalysisError, match=f"^not available: {missing}"):
        TreePerfAnalyzer.from_file(with_modules(), **argument)
