"""modules: the drawing, its options, and the same as tables."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from handmade import HOSTILE, Run, small_trace, span


def test_drawing(run: Run, trace_file: Path) -> None:
    code, out, err = run("modules", trace_file)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "GPU time by nn.Module instance",
        "                       (GPU Time µs)",
        "(all GPU events) .......... (100.25)",
        "├── nn.Module: Linear_0 .... (70.25)",
        "└── (no launch in trace) ... (30.00)",
        "1 GPU events (29.9 % of GPU time) have no launch in the trace: included",
    ]


def test_options_reach_the_analysis(run: Run, trace_file: Path) -> None:
    _, out, _ = run("modules", trace_file, "--by", "class", "--linked-only", "--sort", "time", "--min-percent", "1")
    assert out.splitlines()[0] == "GPU time by nn.Module class, GPU events with a launch in the trace"
    assert "└── nn.Module: Linear ... (70.25)" in out
    _, out, _ = run("modules", trace_file, "--depth", "0")
    assert "1 modules deeper than 0 are part of the lines above them" in out
    _, out, _ = run("modules", trace_file, "--min-percent", "80")
    assert "(1 below 80 %)" in out


def test_windows(run: Run, trace_file: Path) -> None:
    _, out, _ = run("modules", trace_file, "--step", "5", "--stream", "8")
    assert out.splitlines()[0] == "GPU time by nn.Module instance (step 5; stream 8)"
    assert "└── nn.Module: Linear_0 ... (20.00)" in out


def test_tables(run: Run, trace_file: Path) -> None:
    _, out, _ = run("modules", trace_file, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["path"], row["total_us"], row["uid"]) for row in rows] == [
        ("", "100.25", ""),
        ("Linear_0", "70.25", "4"),
        ("(no launch in trace)", "30.0", ""),
    ]
    _, out, _ = run("modules", trace_file, "-f", "json")
    assert json.loads(out)["table"] == "module_tree"
    _, out, _ = run("modules", trace_file, "-f", "md")
    assert "| Linear\\_0 |" in out
    _, out, _ = run("modules", trace_file, "-f", "table")
    assert out.splitlines()[1].split()[:3] == ["path", "depth", "module"]


def test_lines_fit_the_terminal_and_names_are_harmless(run: Run, tmp_path: Path) -> None:
    trace = small_trace()
    trace["traceEvents"].append(span("python_function", f"nn.Module: {HOSTILE}{'x' * 500}_0", 1045.0, 200.0))
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(trace))
    _, out, _ = run("modules", path, env={"COLUMNS": "70"})
    assert "\x1b" not in out
    drawn = [line for line in out.splitlines() if line.endswith(")")]
    assert len(drawn) == 5
    assert len({len(line) for line in drawn}) == 1
    assert len(drawn[0]) <= 70


@pytest.mark.parametrize(
    "arguments", [["--by", "name"], ["--depth", "-1"], ["--min-percent", "101"], ["--sort", "size"], ["-f", "xml"]]
)
def test_wrong_usage(run: Run, trace_file: Path, arguments: list[str]) -> None:
    code, _, err = run("modules", trace_file, *arguments)
    assert code == 2
    assert err.startswith("error: --")
    assert len(err.splitlines()) == 1
