"""`report --layout tracelens`: its sheets of PyTorch and of JAX, in files and on the terminal."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from handmade import Run
from handmade_jax import MIXED, profile

from tracelens_graph.compat.jax.tables import SHEETS
from tracelens_graph.compat.report import generate_perf_report_pytorch

LAYOUT = ("--layout", "tracelens")
OF_JAX = {*SHEETS, "op_gemm"}
EXCEL = 31
"""Characters that the name of a sheet may have there."""


@pytest.fixture
def xplane(tmp_path: Path) -> Path:
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(profile(*MIXED))
    return path


def names(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.csv")}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_sheets_of_a_jax_profile(run: Run, xplane: Path, tmp_path: Path) -> None:
    folder, book = tmp_path / "sheets", tmp_path / "sheets.xlsx"
    code, out, err = run("report", xplane, *LAYOUT, "--csv", folder, "-o", book)
    assert (code, err) == (0, "")
    assert out == f"wrote 9 tables to {folder}\nwrote {book}\n"
    assert names(folder) == OF_JAX
    assert set(openpyxl.load_workbook(book).sheetnames) == {*(name[:EXCEL] for name in OF_JAX), "about"}
    first = rows(folder / "kernel_launchers.csv")[0]
    assert (first["Input Dims"], first["Input type"]) == ("((4, 8), (8, 16))", "('f32', 'f32')")
    assert first["kernel_details"].startswith("[{'name': 'gemm_fusion_dot_1', 'dur': 20.0, ")


def test_sheets_are_printed_where_no_file_is_named(run: Run, xplane: Path) -> None:
    code, out, err = run("report", xplane, *LAYOUT, "--top", "1")
    assert (code, err) == (0, "")
    assert "GPU timeline of each GPU" in out.splitlines()
    assert "Cost and rates of kernels: gemm" in out
    code, out, _ = run("report", xplane, *LAYOUT, "--table", "xla_summary", "--format", "json")
    assert (code, json.loads(out)["table"]) == (0, "xla_summary")


def test_a_window_and_a_condition_go_with_it(run: Run, xplane: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sheets"
    code, _, err = run("report", xplane, *LAYOUT, "--device", 1, "--csv", folder, "--fail-if", "busy_percent < 100")
    assert (code, names(folder)) == (3, set(SHEETS))
    assert "busy_percent" in err
    assert [row["name"] for row in rows(folder / "kernel_launchers.csv")] == ["lonely"]


def test_options_that_the_report_of_jax_has_not_are_named(run: Run, xplane: Path) -> None:
    code, _, err = run("report", xplane, *LAYOUT, "--table", "gpu_timeline", "--add", "overlap", "--short-kernels", 5)
    assert code == 0
    assert err == "warning: TraceLens's report of JAX has no option like --short-kernels, --add overlap: left out\n"


def test_sheets_of_pytorch_are_those_of_the_python_call(run: Run, trace_file: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    assert run("report", trace_file, *LAYOUT, "--add", "call-stack", "--csv", here)[0] == 0
    generate_perf_report_pytorch(trace_file, output_csvs_dir=there, kernel_summary=True, include_call_stack=True)
    assert names(here) == names(there)
    for name in names(here):
        assert (here / f"{name}.csv").read_text() == (there / f"{name}.csv").read_text()


def test_each_of_several_traces_has_its_sheets(run: Run, trace_file: Path, xplane: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sheets"
    assert run("report", trace_file, xplane, *LAYOUT, "--csv", folder)[0] == 0
    assert sorted(len(names(one)) for one in folder.iterdir() if one.is_dir()) == [6, 9]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--all"], "goes with --csv, xlsx and --table, not with --all"),
        (["-o", "x.json"], "no json: --layout tracelens is written as xlsx"),
        (["-o", "x.md"], "no md: --layout tracelens is written as xlsx"),
        (["--no-models"], "leave out --no-models"),
    ],
)
def test_what_the_report_has_not_is_refused(run: Run, xplane: Path, more: list[Any], said: str) -> None:
    code, _, err = run("report", xplane, *LAYOUT, *more)
    assert code == 2
    assert said in err


def test_a_sheet_that_is_not_there_is_an_error_with_a_hint(run: Run, xplane: Path) -> None:
    code, out, err = run("report", xplane, *LAYOUT, "--table", "op_gem")
    assert (code, out) == (1, "")
    assert err == "error: TraceLens's report of this trace has no sheet 'op_gem'; did you mean op_gemm?\n"
