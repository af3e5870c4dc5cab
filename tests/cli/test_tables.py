"""What timeline and attribution were, now questions: their options, and the formats of tables."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from handmade import HOSTILE, Run


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_timeline_as_csv(run: Run, trace_file: Path) -> None:
    code, out, err = run("timeline", trace_file, "--format", "csv")
    assert (code, out, err) == run("ask", "gpu_timeline", trace_file, "--format", "csv")
    assert code == 0
    times = {row["type"]: float(row["time ms"]) for row in rows(out)}
    # The kernels run 1001-1031 and 1100-1150.25, the copy until 1160.
    assert times == pytest.approx(
        {
            "computation_time": 0.08025, "exposed_comm_time": 0, "exposed_memcpy_time": 0.00975, "busy_time": 0.09,
            "idle_time": 0.069, "total_time": 0.159, "total_comm_time": 0, "total_memcpy_time": 0.02,
        }
    )  # fmt: skip


def test_timeline_options(run: Run, trace_file: Path) -> None:
    code, out, _ = run("timeline", trace_file, "-f", "csv", "--linked-only", "--micro-idle", "5", "--recompute")
    assert code == 0
    table = rows(out)
    assert {row["is_recompute"] for row in table} == {"False"}
    assert {row["type"]: float(row["time ms"]) for row in table}["total_time"] == pytest.approx(0.06)
    assert {"micro_idle_time", "macro_idle_time"} < {row["type"] for row in table}


def test_json(run: Run, trace_file: Path) -> None:
    _, out, _ = run("attribution", trace_file, "--level", "kernel", "-f", "json")
    table = json.loads(out)
    assert table["table"] == "attribution"
    assert [row["name"] for row in table["rows"]] == ["gemm", HOSTILE, "Memcpy DtoH"]
    assert table["units"]["inclusive_sum_us"] == "us"


def test_attribution_by_name(run: Run, trace_file: Path) -> None:
    _, out, _ = run("attribution", trace_file, "--name", "aten::linear", "-f", "csv")
    (row,) = rows(out)
    assert (row["count"], float(row["inclusive_sum_us"]), float(row["exclusive_sum_us"])) == ("1", 70.25, 0.0)


@pytest.mark.parametrize(("top", "expected"), [("1", 1), ("0", 3), ("2", 2)])
def test_top(run: Run, trace_file: Path, top: str, expected: int) -> None:
    _, out, _ = run("attribution", trace_file, "--level", "kernel", "--top", top, "-f", "json")
    table = json.loads(out)
    assert len(table["rows"]) == expected
    assert any("more row" in note for note in table["notes"]) == (expected < 3)


def test_hostile_names_are_harmless_but_in_csv(run: Run, trace_file: Path) -> None:
    for form in ("table", "md", "json"):
        _, out, _ = run("attribution", trace_file, "--level", "kernel", "-f", form)
        assert "\x1b" not in out
    _, out, _ = run("attribution", trace_file, "--level", "kernel", "-f", "csv")
    assert HOSTILE in [row["name"] for row in rows(out)]


def test_a_damaged_trace_is_said_on_standard_error_only(run: Run, trace_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    text = trace_file.read_bytes()
    path.write_bytes(text[: len(text) // 2])  # GPU events stand behind
    assert run("report", path)[0] == run("modules", path)[0] == 1
    assert run("ask", "host_times", path)[0] == 0
    code, out, err = run("ask", "gpu_timeline", path, "-f", "csv")
    assert (code, out) == (1, "type,time ms,percent\n")
    warning, note = err.splitlines()
    assert warning.startswith(
        f"warning: {path}: the end of the file is missing; entries lost: at least 1, bytes lost: "
    )
    assert note == "the trace has no GPU events"
