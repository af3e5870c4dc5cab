"""What the commands write of two traces for users of TraceLens."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from handmade import HOSTILE, Run, small_trace

FILES = {
    "cpu_op_map.json", "cpu_op_map_trace1.json", "cpu_op_map_trace2.json", "diff_stats.csv",
    "diff_stats_unique_args_summary.csv", "merged_tree_output.txt", "perf_summary_by_lca.csv",
}  # fmt: skip


def written(path: Path, name: str = "Cijk_gemm", dur: float = 70.25, **more: Any) -> Path:
    """The small trace with a GEMM of another name."""
    trace = small_trace()
    for event in trace["traceEvents"]:
        if event["name"] == "gemm":
            event |= {"name": name, "dur": dur}
    path.write_text(json.dumps(trace | more))
    return path


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    return written(tmp_path / "slower.json")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_layout_of_tracelens_is_its_files(run: Run, trace_file: Path, slower: Path, tmp_path: Path) -> None:
    folder = tmp_path / "rprt_diff"
    code, out, _ = run("diff", trace_file, slower, "--layout", "tracelens", "--csv", folder)
    assert (code, out) == (0, f"wrote 7 files to {folder}\n")
    assert {path.name for path in folder.iterdir() if path.name[0] != "."} == FILES
    (pair,) = [row for row in rows(folder / "perf_summary_by_lca.csv") if "gemm" in row["lowest_common_ancestor_name"]]
    assert pair["lowest_common_ancestor_name"] == "gemm | Cijk_gemm"
    assert (pair["kernel_time_trace1_us"], pair["kernel_time_trace2_us"]) == ("50.25", "70.25")
    assert pair["kernel_names_trace2"] == "['Cijk_gemm']"
    assert float(pair["speedup (trace2/trace1)"]) == 70.25 / 50.25
    assert float(pair["speedup_of_trace2"]) == 50.25 / 70.25
    assert "combined: gemm | Cijk_gemm" in (folder / "merged_tree_output.txt").read_text()
    assert json.loads((folder / "cpu_op_map_trace2.json").read_text())["aten::addmm"] == ["Cijk_gemm", "Memcpy DtoH"]
    arguments = {row["Input Dims"] for row in rows(folder / "diff_stats.csv")}
    assert all(text == "" or text[0] == "(" for text in arguments)


def test_a_second_run_replaces_the_files_of_the_first(run: Run, trace_file: Path, slower: Path, tmp_path: Path) -> None:
    command = ("diff", trace_file, slower, "--layout", "tracelens", "--csv", tmp_path / "rprt_diff")
    assert run(*command)[0] == run(*command)[0] == 0
    strange = tmp_path / "mine"
    strange.mkdir()
    (strange / "cpu_op_map.json").write_text("mine")
    (strange / "notes").touch()
    code, _, err = run("diff", trace_file, slower, "--layout", "tracelens", "--csv", strange)
    assert code == 1
    assert "cpu_op_map.json" in err
    assert (strange / "cpu_op_map.json").read_text() == "mine"


def test_names_of_a_trace_stay_on_their_line(run: Run, trace_file: Path, tmp_path: Path) -> None:
    hostile = written(tmp_path / "hostile.json", name=f"gemm\n{HOSTILE}")
    assert run("diff", trace_file, hostile, "--layout", "tracelens", "--csv", tmp_path / "out")[0] == 0
    for line in (tmp_path / "out" / "merged_tree_output.txt").read_text().splitlines():
        assert line.lstrip(" │")[:4] in ("├── ", "└── ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--layout", "tracelens"], "name a folder with --csv"),
        (["--layout", "tracelens", "--csv", "out", "--tree"], "for files: name a folder with --csv, and nothing else"),
        (["--layout", "other"], "'other' is not one of"),
    ],
)
def test_a_layout_needs_a_folder(run: Run, trace_file: Path, slower: Path, options: list[str], said: str) -> None:
    code, _, err = run("diff", trace_file, slower, *options)
    assert code == 2
    assert said in " ".join(err.split())


def test_a_report_compares_with_another_trace(run: Run, trace_file: Path, slower: Path, tmp_path: Path) -> None:
    assert run("report", trace_file, "--compare-with", slower, "--csv", tmp_path / "out")[0] == 0
    (row,) = [row for row in rows(tmp_path / "out" / "unified_perf_summary.csv") if row["name"] == "aten::addmm"]
    # The copy runs partly beside the GEMM, so that the row's 60 us are less than the 70.25 us of its two ancestors.
    assert float(row["lca_total_kernel_time_trace1_us"]) == 50.25 + 20
    assert float(row["delta_us (trace2 - trace1)"]) == 70.25 + 20 - 60
    assert float(row["speedup (trace2/trace1)"]) == 90.25 / 70.25
    assert rows(tmp_path / "out" / "diff_stats.csv")
    code, out, _ = run("report", trace_file, "--compare-with", slower, "--table", "diff_stats", "--format", "json")
    assert code == 0
    assert "Cijk_gemm" in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--table", "diff_stats"], "needs --compare-with"),
        (["--compare-with", "OTHER", "--no-models"], "--no-models leaves out"),
        (["OTHER", "--compare-with", "OTHER"], "takes one trace, not 2"),
    ],
)
def test_what_a_comparison_needs_is_said(
    run: Run, trace_file: Path, slower: Path, options: list[str], said: str
) -> None:
    code, _, err = run("report", trace_file, *(slower if option == "OTHER" else option for option in options))
    assert code != 0
    assert said in " ".join(err.split())
