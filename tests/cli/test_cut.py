"""cut: what is written, said and refused."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from handmade import Run, small_trace, span

from tracelens_graph.loading.one import load_core


def names(data: bytes) -> set[str]:
    return {event["name"] for event in json.loads(data)["traceEvents"] if event["ph"] == "X"}


def test_one_line_says_what_was_written_and_how_to_open_it(run: Run, trace_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut.json.gz"
    code, said, err = run("cut", trace_file, "--uid", 9, "--around", "20us", "-o", out)
    assert (code, err) == (0, "")
    assert said == (f"wrote {out}, 0.7 kB: 15 events, 0.080 to 0.170 ms; to see it: ui.perfetto.dev, Open trace file\n")
    data = gzip.decompress(out.read_bytes())
    assert "gemm" in names(data)
    assert "aten::empty" not in names(data)
    assert load_core(out).info.events == 15


def test_the_name_tells_whether_it_is_compressed(run: Run, trace_file: Path, tmp_path: Path) -> None:
    for name in ("a.json", "a.json.gz", "A.JSON.GZ"):
        assert run("cut", trace_file, "--step", 5, "-o", tmp_path / name)[0] == 0
    plain, *packed = ((tmp_path / name).read_bytes() for name in ("a.json", "a.json.gz", "A.JSON.GZ"))
    assert plain.startswith(b"{")
    assert [gzip.decompress(data) for data in packed] == [plain, plain]


def test_a_step_is_cut_with_its_margin(run: Run, tmp_path: Path) -> None:
    trace, out = tmp_path / "steps.json", tmp_path / "cut.json"
    events = [span("user_annotation", f"ProfilerStep#{n}", 10_000 * n, 9_000) for n in range(5)]
    events += [span("cpu_op", f"op of {n}", 10_000 * n + 4_000, 10) for n in range(5)]
    trace.write_text(json.dumps({"traceEvents": events}))
    assert run("cut", trace, "--step", 2, "-o", out)[1].startswith(
        f"wrote {out}, 0.5 kB: 4 events, 19.000 to 30.000 ms"
    )
    assert names(out.read_bytes()) == {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3", "op of 2"}
    assert run("cut", trace, "--step", 2, "--around", "0", "-o", out)[0] == 0
    assert names(out.read_bytes()) == {"ProfilerStep#2", "op of 2"}
    code, _, err = run("cut", trace, "--step", 7, "-o", out)
    assert (code, err) == (1, "error: the trace has no step 7; steps in it: 0-4\n")


@pytest.mark.parametrize(
    ("window", "kept"),
    [
        (["--from", "400us"], {"aten::empty", "ProfilerStep#5", "train.py(3): step", "nn.Module: Linear_0"}),
        (["--to", "0.005ms"], {"ProfilerStep#5"}),
        (["--from", "495", "--to", "502us"], {"aten::empty", "nn.Module: Linear_0"}),
    ],
)
def test_a_time_window(run: Run, trace_file: Path, tmp_path: Path, window: list[str], kept: set[str]) -> None:
    code, _, err = run("cut", trace_file, *window, "-o", tmp_path / "cut.json")
    assert (code, err) == (0, "")
    found = names((tmp_path / "cut.json").read_bytes())
    assert kept <= found
    assert "gemm" not in found


def test_to_a_pipe_goes_the_trace_and_nothing_else(trace_file: Path) -> None:
    program = [sys.executable, "-c", "from tracelens_graph.cli import main; main()"]
    environment = {**os.environ, "COLUMNS": "200"}
    first = subprocess.run(
        [*program, "cut", trace_file, "--uid", "9", "--around", "0", "-o", "-"],
        capture_output=True,
        env=environment,
        check=True,
    )
    assert "gemm" in names(first.stdout)
    # A pipe in, a pipe out: standard input is read again for the events.
    second = subprocess.run(
        [*program, "cut", "-", "--from", "0", "-o", "-"],
        input=trace_file.read_bytes(), capture_output=True, env=environment, check=True,
    )  # fmt: skip
    assert names(first.stdout) < names(second.stdout)
    assert first.stderr == second.stderr == b""


def test_a_saved_graph_is_cut_without_its_trace(run: Run, tmp_path: Path) -> None:
    trace, saved = tmp_path / "trace.json", tmp_path / "trace.tlg"
    trace.write_text(json.dumps(small_trace()))
    run("cut", trace, "--uid", 9, "-o", tmp_path / "a.json")
    run("save", trace, "-o", saved)
    trace.unlink()
    assert run("cut", saved, "--uid", 9, "-o", tmp_path / "b.json")[0] == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "say what to cut out"),
        (["--uid", "9", "--step", "5"], "say what to cut out"),
        (["--uid", "9", "--to", "5"], "say what to cut out"),
        (["--to", "5", "--around", "5"], "--around goes with --uid, --step, --iteration or --collective"),
        (["--from", "6ms", "--to", "5ms"], "--to: is before --from"),
        (["--uid", "9", "--around", "5 parsecs"], "--around: '5 parsecs' is no time"),
        (
            ["--uid", "9", "-o", "cut.csv"],
            "--output: cut.csv: .csv stands for CSV, and this is a trace; name a file .json",
        ),
    ],
)
def test_wrong_usage(run: Run, trace_file: Path, options: list[str], words: str) -> None:
    code, out, err = run("cut", trace_file, "-o", "x.json", *options)
    assert (code, out) == (2, "")
    assert words in " ".join(err.replace("│", " ").split())
    assert not Path("x.json").exists()
