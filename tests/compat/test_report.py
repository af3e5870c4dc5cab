"""generate_perf_report_pytorch as its users know it."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from handmade import HOSTILE, call, gpu, small_trace, span
from hypothesis import given
from made_traces import traces
from parity.cases import Case, cases, graph, parameters, path_of
from parity.comparing import parsed, read_reference
from profiles import examples

from tracelens_graph.compat.PerfModel.torch_op_mapping import TRACELENS_MODELS
from tracelens_graph.compat.report import generate_perf_report_pytorch
from tracelens_graph.compat.tree_perf import TreePerfAnalyzer
from tracelens_graph.errors import AnalysisError, MissingExtraError, TraceError
from tracelens_graph.loading.one import load_core

OPS = ["ops_summary_by_category", "ops_summary", "ops_unique_args"]
DEFAULT = ["gpu_timeline", *OPS, "unified_perf_summary", "GEMM"]
MI300X = {
    "name": "MI300X",
    "mem_bw_gbps": 5300,
    "max_achievable_tflops": {"matrix_fp32": 163, "matrix_bf16": 708, "vector_bf16": 163},
}
EVERYTHING: dict[str, Any] = {
    "micro_idle_thresh_us": 5,
    "kernel_summary": True,
    "short_kernel_study": True,
    "include_first_occurrence_time": True,
    "include_overlap_info": True,
}


def collective_trace() -> list[dict[str, Any]]:
    """Two launches of one op, a collective, and a kernel launched before the start."""
    gpu = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
    sizes = {"Input_Dims": [[2, 3], [3, 4]], "Input_type": ["float", "float"], "Concrete_Inputs": ["", "1"]}
    collective = {
        "Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2,
        "dtype": "Float", "In msg nelems": 1024, "Out msg nelems": 1024, "In split size": "[]", "Out split size": "[]",
    }  # fmt: skip
    events = []
    for i, (start, dur) in enumerate([(100, 30), (300, 20)]):
        events += [
            span("cpu_op", "aten::mm", start, 100, **sizes),
            span("cuda_runtime", "cudaLaunchKernel", start + 10, 5, correlation=i + 1),
            span("kernel", "gemm", start + 50, dur, **gpu, correlation=i + 1),
        ]
    events += [
        span("cpu_op", "c10d::allreduce_", 500, 50),
        span("cuda_runtime", "cudaLaunchKernel", 510, 5, correlation=4),
        span("kernel", "ncclDevKernel_AllReduce", 520, 40, 0, 9, device=0, stream=9, correlation=4),
        span("kernel", HOSTILE, 1, 5, **gpu),
    ]
    events[-2]["args"] |= collective
    return events


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": collective_trace()}).encode()))
    return path


def report(trace: Any, folder: Path, **options: Any) -> dict[str, pd.DataFrame]:
    return generate_perf_report_pytorch(trace, output_csvs_dir=folder / "report", **options)


def test_sheets_of_the_default(trace: Path, tmp_path: Path) -> None:
    frames = report(str(trace), tmp_path)
    assert list(frames) == [*DEFAULT, "coll_analysis"]
    assert sorted(path.stem for path in (tmp_path / "report").glob("*.csv")) == sorted(frames)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report", "trace.json.gz"]
    (mm,) = frames["ops_summary"].to_dict("records")
    assert (mm["name"], mm["total_direct_kernel_time_sum"], mm["Count"]) == ("aten::mm", 50.0, 2)
    times = frames["gpu_timeline"].set_index("type")["time ms"]
    assert (times["busy_time"], times["total_comm_time"]) == (0.09, 0.04)


def test_sheets_of_everything(trace: Path, tmp_path: Path) -> None:
    frames = report(trace, tmp_path, **EVERYTHING)
    assert list(frames) == [
        *DEFAULT[:4], "ops_unique_args_kl_overlap", *DEFAULT[4:], "kernel_summary", "short_kernel_histogram",
        "short_kernels_summary", "coll_analysis",
    ]  # fmt: skip
    assert {"micro_idle_time", "macro_idle_time"} < set(frames["gpu_timeline"]["type"])
    assert frames["ops_unique_args"]["first_occurrence_time"].tolist() == [0.0]
    assert frames["ops_unique_args_kl_overlap"]["overlapping_kernel_names"].tolist() == [[]]
    assert frames["kernel_summary"]["Kernel duration (µs)_count"].sum() == 4
    assert frames["short_kernels_summary"]["Short Kernel count"].sum() == 1


def test_cells(trace: Path, tmp_path: Path) -> None:
    frames = report(trace, tmp_path, **EVERYTHING)
    (row,) = frames["ops_unique_args"].to_dict("records")
    assert (row["Input Dims"], row["Input type"], row["Concrete Inputs"]) == (
        ((2, 3), (3, 4)),
        ("float", "float"),
        ("", "1"),
    )
    assert row["kernel_details_summary"][0] | {"name": "gemm", "count": 2} == row["kernel_details_summary"][0]
    assert row["trunc_kernel_details"] == [{"name": "gemm", "stream": 7, "mean_duration_us": 25.0}]
    assert frames["ops_summary"]["Categories"].tolist() == [["GEMM"]]
    assert frames["coll_analysis"]["Process Group Ranks"].tolist() == [[0, 1]]
    unlinked = frames["kernel_summary"].query("`Kernel name` == @HOSTILE")
    assert unlinked[["Parent op category", "Parent cpu_op"]].isna().all(axis=None)
    assert frames["ops_summary"].attrs["units"]["total_direct_kernel_time_ms"] == "ms"
    assert "left out" in frames["ops_summary"].attrs["notes"][0]


@pytest.mark.parametrize("options", [{}, EVERYTHING], ids=["default", "everything"])
def test_files_hold_what_pandas_writes(trace: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    for name, frame in report(trace, tmp_path, **options).items():
        assert (tmp_path / "report" / f"{name}.csv").read_bytes().decode() == frame.to_csv(index=False)


def test_the_timeline_may_cover_unlinked_kernels(trace: Path, tmp_path: Path) -> None:
    plain, wide = (report(trace, tmp_path, include_unlinked_kernels=value) for value in (False, True))
    assert wide["gpu_timeline"]["time ms"].iloc[3] - plain["gpu_timeline"]["time ms"].iloc[3] == pytest.approx(0.005)
    pd.testing.assert_frame_equal(wide["ops_unique_args"], plain["ops_unique_args"])


def test_top_ops_keep_their_shares(tmp_path: Path) -> None:
    events = collective_trace()
    events[3]["args"]["Input Dims"] = [[5, 5], [5, 5]]
    whole, top = (report(events, tmp_path, topk_ops=rows)["ops_unique_args"] for rows in (9, 1))
    assert (len(whole), len(top)) == (2, 1)
    assert top["Percentage (%)"].tolist() == whole["Percentage (%)"].tolist()[:1] == [60.0]
    assert top.attrs["notes"][-1] == "1 rows are left out"


def test_call_stacks_and_recompute(tmp_path: Path) -> None:
    frames = report(small_trace(), tmp_path, include_call_stack=True, detect_recompute=True)
    assert frames["unified_perf_summary"]["entry_point"].tolist() == ["train.py(3): step"]
    assert all("is_recompute" in frame for frame in frames.values())
    assert "call_stack" not in frames["ops_unique_args"]
    assert "entry_point" not in report(small_trace(), tmp_path)["unified_perf_summary"]


def test_a_trace_of_the_gpu_alone(tmp_path: Path) -> None:
    events = [event for event in collective_trace() if event["cat"] == "kernel"]
    frames = report(events, tmp_path, kernel_summary=True, include_unlinked_kernels=True)
    assert list(frames) == ["gpu_timeline", "kernel_summary", "coll_analysis"]
    assert len(frames["kernel_summary"]) == 3


def test_the_sheets_say_what_the_analyzer_says(trace: Path, tmp_path: Path) -> None:
    frames = report(trace, tmp_path)
    analyzer = TreePerfAnalyzer(load_core(trace))
    calls = analyzer.get_df_kernel_launchers(include_kernel_details=True)
    pd.testing.assert_frame_equal(analyzer.get_df_gpu_timeline(), frames["gpu_timeline"])
    pd.testing.assert_frame_equal(analyzer.get_df_kernel_launchers_summary(calls), frames["ops_summary"])
    pd.testing.assert_frame_equal(
        analyzer.get_df_kernel_launchers_summary_by_category(calls), frames["ops_summary_by_category"]
    )


@examples(40)
@given(trace=traces())
def test_made_traces(tmp_path_factory: pytest.TempPathFactory, trace: dict[str, Any]) -> None:
    folder = tmp_path_factory.mktemp("made")
    frames = report(trace, folder, **EVERYTHING, detect_recompute=True, include_call_stack=True)
    for name, frame in frames.items():
        with (folder / "report" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert rows[0] == list(frame)
        assert len(rows) == len(frame) + 1
    count = sum(event.get("cat") == "kernel" for event in trace["traceEvents"] if event["ph"] == "X")
    assert frames["kernel_summary"]["Kernel duration (µs)_count"].sum() == count


# --- cost, rates and roofline ------------------------------------------------------------------------------------


def test_the_sheet_of_a_family(trace: Path, tmp_path: Path) -> None:
    (row,) = report(trace, tmp_path)["GEMM"].to_dict("records")
    assert [row[f"param: {size}"] for size in ("M", "N", "K")] == [2, 4, 3]
    assert row["GFLOPS_first"] == 2 * 2 * 4 * 3 / 1e9
    assert row["Data Moved (MB)_first"] == 4 * (2 * 3 + 3 * 4 + 2 * 4) / 2**20
    assert (row["name_count"], row["Kernel Time (µs)_sum"], row["Compute Spec"]) == (2, 50.0, "matrix_fp32")
    assert row["TFLOPS/s_max"] == pytest.approx(48 / 20e-6 / 1e12)
    assert row["Input Dims_first"] == [[2, 3], [3, 4]]
    assert "Roofline Time (µs)_first" not in row


def test_each_linked_event_is_in_one_row_of_the_unified_summary(trace: Path, tmp_path: Path) -> None:
    (row,) = report(trace, tmp_path)["unified_perf_summary"].to_dict("records")
    assert (row["name"], row["operation_count"], row["has_perf_model"]) == ("aten::mm", 2, True)
    assert (row["Kernel Time (µs)_sum"], row["Percentage (%)"]) == (50.0, 100.0)
    assert row["perf_params"]["K"] == 3


def test_families_that_tracelens_has_no_sheets_of_come_last(tmp_path: Path) -> None:
    events = collective_trace()
    events[0] |= {"name": "aten::embedding"}
    events[0]["args"] |= {"Input Dims": [[100, 8], [4]], "Input type": ["float", "long int"]}
    frames = report(events, tmp_path)
    assert list(frames) == [*DEFAULT, "coll_analysis", "Embedding_fwd"]
    assert list(report(events, tmp_path, models=TRACELENS_MODELS)) == [*DEFAULT, "coll_analysis"]


def test_a_device_adds_the_roofline(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "mi300x.json"
    path.write_text(json.dumps(MI300X))
    frames = report(trace, tmp_path, gpu_arch=MI300X)
    (row,) = frames["GEMM"].to_dict("records")
    least = 4 * 26 / 5300e9 * 1e6
    assert row["Roofline Time (µs)_first"] == pytest.approx(least)
    assert row["Roofline Bound_first"] == "MEMORY_BOUND"
    assert row["Pct Roofline_max"] == pytest.approx(100 * least / 20)
    again = report(trace, tmp_path, gpu_arch_json_path=str(path))
    for name in ("GEMM", "unified_perf_summary"):
        pd.testing.assert_frame_equal(again[name], frames[name])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gpu_arch_json_path": "nothing.json"}, "nothing.json: No such file"),
        ({"gpu_arch_platform": "MI9"}, "no architecture has the name 'MI9'"),
        ({"gpu_arch": {"name": "x"}}, "max_achievable_tflops"),
        ({"gpu_arch": MI300X, "gpu_arch_platform": "MI300X"}, "more than one device"),
    ],
)
def test_what_is_no_device_is_an_error(trace: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(AnalysisError, match=said):
        generate_perf_report_pytorch(trace, **options)
    assert [path.name for path in trace.parent.iterdir()] == [trace.name]


def test_categories_of_kernels_by_name(trace: Path, tmp_path: Path) -> None:
    frames = report(trace, tmp_path, kernel_summary=True, use_kernel_name_categories=True)
    assert list(frames) == [
        *DEFAULT, "kernel_summary", "kernel_category_detail", "kernel_category_summary", "coll_analysis",
    ]  # fmt: skip
    told = frames["kernel_summary"].set_index("Kernel name")["kernel_category"]
    detail = frames["kernel_category_detail"].set_index("kernel_name")
    assert told["gemm"] == detail.loc["gemm", "kernel_category"]
    assert detail.loc["gemm", "count"] == 2
    assert "kernel_category" not in report(trace, tmp_path, kernel_summary=True)["kernel_summary"]


# --- where it is written -----------------------------------------------------------------------------------------


def test_a_workbook_beside_the_trace(trace: Path) -> None:
    pytest.importorskip("xlsxwriter")
    openpyxl = pytest.importorskip("openpyxl")
    frames = generate_perf_report_pytorch(str(trace))
    book = openpyxl.load_workbook(trace.with_name("trace_perf_report.xlsx"))
    assert book.sheetnames == [*frames, "about"]
    assert [cell.value for cell in book["ops_summary"][2]][:2] == ["aten::mm", 50.0]


def test_the_workbook_needs_an_extra(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xlsxwriter", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[xlsx\]'"):
        generate_perf_report_pytorch(trace)
    assert [path.name for path in trace.parent.iterdir()] == [trace.name]


def test_sources(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError):
        report(tmp_path / "nothing.json", tmp_path)
    pd.testing.assert_frame_equal(
        report(load_core(trace), tmp_path)["ops_unique_args"], report(collective_trace(), tmp_path)["ops_unique_args"]
    )


@pytest.mark.parametrize(
    ("argument", "missing"),
    [
        ({"enable_origami": True}, "simulated times"),
        ({"inductor_cache_dir": "cache"}, "performance models of compiled kernels"),
    ],
)
def test_what_is_missing_is_refused(trace: Path, argument: dict[str, Any], missing: str) -> None:
    with pytest.raises(AnalysisError, match=f"^not available: {missing}"):
        generate_perf_report_pytorch(trace, **argument)
    assert [path.name for path in trace.parent.iterdir()] == [trace.name]


# --- TraceLens's own ---------------------------------------------------------------------------------------------


def options_of(case: Case) -> dict[str, Any]:
    """The arguments that TraceLens made the tables with."""
    if case.flavour == "default":
        return {}
    again = any("is_recompute" in row for row in read_reference(case.folder / "gpu_timeline.csv"))
    return EVERYTHING | {"detect_recompute": again, "include_call_stack": True, "gpu_arch": MI300X}


def without_time(path: Path) -> bool:
    """Whether a sheet is of calls without GPU work, which have none here."""
    rows = read_reference(path)
    return all(float(row.get("Kernel Time (µs)_sum", 1)) == 0 for row in rows)


ONLY_HERE = {"b200/eager-serving": {"RoPE_fwd", "triton"}, "mi300/torch-compile-triton": {"triton"}}
"""Sheets of ops that TraceLens has models of and yet no sheets."""


@pytest.mark.parametrize("case", parameters(case for case in cases() if case.flavour == "inference-capture"))
def test_columns_of_inference_are_those_of_the_reference(case: Case, tmp_path: Path) -> None:
    frames = report(
        graph(case.trace), tmp_path, models=TRACELENS_MODELS, enable_pseudo_ops=True, group_by_parent_module=True,
        group_by_num_kernels=True, include_call_stack=True,
    )  # fmt: skip
    files = {path.stem: path for path in case.folder.glob("*.csv")}
    assert files.keys() <= frames.keys()
    assert frames.keys() - files.keys() <= {"triton"}
    for name, path in files.items():
        header, ours = path.read_text().split("\n", 1)[0].split(","), list(frames[name])
        assert set(ours) - set(header) <= {"param: dtype_KV"}
        assert [column for column in ours if "param" not in column] == [one for one in header if "param" not in one]


def test_norms_have_a_sheet_for_each_pass_in_a_report_of_inference(tmp_path: Path) -> None:
    events = [
        span("cpu_op", name, at, 10, Input_Dims=[[4, 8], [8], [8]], Input_type=["float"] * 3)
        for at, name in ((0, "aten::native_layer_norm"), (20, "aten::native_layer_norm_backward"))
    ]
    launches = [one for at in (1, 21) for one in (call(at, at), gpu(at + 100, 5, at))]
    frames = report({"traceEvents": [*events, *launches]}, tmp_path, group_by_parent_module=True)
    assert {name for name in frames if name.startswith("Norm")} <= {"Normalization_fwd", "Normalization_bwd"}
    assert frames["ops_summary"]["parent_module"].tolist() == ["NA", "NA"]
    assert frames["ops_summary"]["call_stack_first"].tolist() == [[events[0]["name"]], [events[1]["name"]]]
    assert frames["ops_summary"]["total_subtree_kernel_time_count"].tolist() == [1, 1]


@pytest.mark.parametrize("case", parameters(case for case in cases() if not case.trace.startswith("inference/")))
def test_sheets_and_columns_are_those_of_the_reference(case: Case, tmp_path: Path) -> None:
    frames = report(path_of(case.trace), tmp_path, models=TRACELENS_MODELS, **options_of(case))
    frames.pop("ops_unique_args_kl_overlap", None)
    files = {path.stem: path for path in case.folder.glob("*.csv") if not path.stem.endswith("_kl_overlap")}
    files = {name: path for name, path in files.items() if not without_time(path)}
    assert files.keys() - frames.keys() == set()
    assert frames.keys() - files.keys() <= ONLY_HERE.get(case.trace, set())
    for name, path in files.items():
        header = path.read_text().split("\n", 1)[0].split(",")
        # Without ops TraceLens leaves the column out, even where a runtime call is known.
        extra = {"Parent cpu_op"} if name == "kernel_summary" and "ops_summary" not in frames else set()
        assert [column for column in frames[name] if column not in extra] == header
    if "unified_perf_summary" in frames:
        theirs = {int(row["ex_UID"]): row for row in read_reference(files["unified_perf_summary"])}
        for row in frames["unified_perf_summary"].to_dict("records"):
            same = theirs.get(row["ex_UID"], {})
            if same.get("name") == row["name"] and row["perf_params"] and same["perf_params"]:
                assert list(row["perf_params"]) == list(parsed(same["perf_params"]))
