"""generate_perf_report_jax as its users know it."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade import small_trace
from handmade_jax import MIXED, profile

from tracelens_graph.compat import generate_perf_report_jax
from tracelens_graph.compat.jax.tables import SHEETS
from tracelens_graph.errors import AnalysisError, OutputError
from tracelens_graph.loading.one import load_core


@pytest.fixture
def xplane(tmp_path: Path) -> Path:
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(profile(*MIXED))
    return path


def test_sheets_as_frames_and_files(xplane: Path, tmp_path: Path) -> None:
    frames = generate_perf_report_jax(xplane, output_csvs_dir=tmp_path / "sheets")
    assert list(frames) == [*SHEETS, "op_gemm"]
    assert {path.stem for path in (tmp_path / "sheets").glob("*.csv")} == set(frames)
    launchers = frames["kernel_launchers"]
    assert launchers["Input Dims"][0] == ((4, 8), (8, 16))
    assert launchers["total_direct_kernel_time"].sum() == 40
    assert frames["op_gemm"]["param: dtype_A_B"][0] == ("f32", "f32")
    assert not list(tmp_path.glob("*.xlsx"))


def test_a_workbook_beside_the_profile(xplane: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    frames = generate_perf_report_jax(str(xplane))
    book = openpyxl.load_workbook(xplane.with_name("host_perf_report.xlsx"))
    assert book.sheetnames == [*(name[:31] for name in frames), "about"]


def test_what_is_not_there_is_refused(xplane: Path, tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="^not available: filters of kernels by text"):
        generate_perf_report_jax(xplane, output_csvs_dir=tmp_path, kernel_metadata_keyword_filters=["remat"])
    with pytest.raises(AnalysisError, match="no profile of JAX"):
        generate_perf_report_jax(load_core(small_trace()), output_csvs_dir=tmp_path / "sheets")
    with pytest.raises(OutputError, match="say where to write"):
        generate_perf_report_jax(load_core(profile(*MIXED)))
