"""Reports and trees of host time."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from handmade import Run

RECORDED = Path(__file__).parents[1] / "analyses" / "host_only.zip"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A recording without GPU events, with stacks."""
    path = tmp_path / "host.json"
    with zipfile.ZipFile(RECORDED) as files:
        path.write_bytes(files.read("stacks.json"))
    return path


def test_a_report_of_host_time(run: Run, trace: Path, tmp_path: Path) -> None:
    _, out, _ = run("report", trace)
    assert "Host time by op" in out
    assert "Host time by line" in out
    outputs = [str(tmp_path / f"report.{suffix}") for suffix in ("json", "md", "xlsx", "html")]
    run("report", trace, *(part for path in outputs for part in ("-o", path)), "--csv", str(tmp_path / "tables"))
    tables = {"host_times", "host_functions", "host_lines", "host_modules", "host_threads"}
    assert tables <= {path.stem for path in (tmp_path / "tables").glob("*.csv")}
    report = json.loads((tmp_path / "report.json").read_text())
    assert tables <= report["tables"].keys()
    assert "Host time by op" in (tmp_path / "report.md").read_text()
