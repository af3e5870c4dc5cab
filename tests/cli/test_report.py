"""The report: what is printed, what is written, several traces, and odd ones."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from handmade import Run, call, small_trace, span
from html_pages import read

from tracelens_graph.output.files import COMMENT
from tracelens_graph.simulate import simulate, write

DEFAULT = {
    "gpu_timeline", "ops_summary_by_category", "ops_summary", "ops_unique_args", "kernel_summary", "coll_analysis",
    "runtime_summary", "step_summary",
}  # fmt: skip
MODELLED = {"unified_perf_summary"}
"""What models add; the op of the small trace has no shapes, so none applies."""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the traces of two ranks, one of which comes late, and what else the simulator writes."""
    folder = tmp_path_factory.mktemp("job")
    write(simulate(steps=1, layers=1, problem="late_rank"), folder)
    return folder


def as_file(folder: Path, events: list[dict[str, Any]], name: str = "t.json") -> Path:
    path = folder / name
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def test_for_people(run: Run, trace_file: Path) -> None:
    code, out, err = run("report", trace_file)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "small.json, rank 3 of 8, GPU of tests, 3 GPU events"
    assert any(line.startswith("* ") for line in lines)
    assert any(line.startswith("Where ") for line in lines)
    assert "(no launch in trace)" in out
    assert "\x1b" not in out
    code, out, err = run("report", trace_file, "--all")
    assert (code, err) == (0, "")
    for title in ("GPU timeline", "GPU time by category of operation", "GPU time by operation", "GPU time by kernel"):
        assert title in out.splitlines()
    assert "100/100" in run("report", trace_file, "--table", "ops_unique_args", env={"COLUMNS": "200"})[1]


def test_files(run: Run, trace_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "made" / "tables"
    code, text, _ = run(
        "report", trace_file, "--csv", out, "-o", tmp_path / "r.json", "-o", tmp_path / "r.md",
        "-o", tmp_path / "r.xlsx", "--short-kernels", "40", "--add", "call-stack", "--recompute",
    )  # fmt: skip
    assert code == 0
    short = {"short_kernel_histogram", "short_kernels_summary"}
    assert {path.stem for path in out.glob("*.csv")} == DEFAULT | MODELLED | short
    assert f"wrote {len(DEFAULT | MODELLED | short)} tables to {out}" in text
    document = json.loads((tmp_path / "r.json").read_text())
    assert set(document["tables"]) == DEFAULT | MODELLED | short
    assert document["options"]["short_kernels_us"] == 40
    assert document["verdict"]
    assert (tmp_path / "r.md").read_text().startswith(f"{COMMENT}## GPU report: small.json\n")
    import openpyxl

    assert set(openpyxl.load_workbook(tmp_path / "r.xlsx").sheetnames) >= DEFAULT
    with (out / "ops_unique_args.csv").open(newline="") as file:
        header = next(csv.reader(file))
    assert {"is_recompute", "call_stack", "entry_point"} < set(header)


def test_a_page(run: Run, trace_file: Path, tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    code, text, err = run("report", trace_file, "-o", page, "-o", tmp_path / "r.json")
    assert (code, err) == (0, "")
    assert f"wrote {page}\n" in text
    found = read(page.read_text())
    tables = {table["name"]: table for table in found.body["tables"]}
    assert set(tables) >= DEFAULT
    document = json.loads((tmp_path / "r.json").read_text())
    for name, told in document["tables"].items():
        assert tables[name]["rows"] == len(told["rows"])
    said = [finding["text"] for finding in found.head["overview"]["findings"]]
    assert said == [finding["text"] for finding in document["verdict"]]
    assert all("TRACE" not in finding["ask"] for finding in found.head["overview"]["findings"])
    assert str(tmp_path) not in json.dumps([found.head, found.body])
    code, text, _ = run("report", trace_file, "--step", "5", "-f", "html", "-o", "-")
    assert text.startswith("<!DOCTYPE html>")
    assert read(text).head["overview"]["window"] == "step 5"


def test_a_page_of_several_traces_is_refused(run: Run, job: Path, tmp_path: Path) -> None:
    code, _, err = run("report", job, "-o", tmp_path / "r.html")
    assert (code, "html takes one trace, not " in err) == (2, True)


def test_what_makes_a_page_is_imported_for_a_page_only(trace_file: Path) -> None:
    program = (
        "import sys; from tracelens_graph.cli import main; sys.argv = ['x', 'report', sys.argv[1]]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not [name for name in sys.modules if name.startswith('tracelens_graph.reports.html')]"
    )
    subprocess.run([sys.executable, "-c", program, str(trace_file)], check=True, capture_output=True)


def test_one_table(run: Run, trace_file: Path) -> None:
    _, text, _ = run("report", trace_file, "--table", "ops_unique_args", "--format", "csv")
    row, lone = csv.DictReader(text.splitlines())
    assert (row["name"], json.loads(row["Input Dims"]) if row["Input Dims"] else None) == ("aten::addmm", None)
    assert lone["name"] == "(no launch in trace)"
    _, text, _ = run("report", trace_file, "--table", "kernel_summary", env={"COLUMNS": "140"})
    assert text.splitlines()[1].split()[:2] == ["kernel", "category"]
    assert "uid" in text.splitlines()[1]
    _, text, _ = run("report", trace_file, "--table", "kernel_summary", "--table", "gpu_timeline")
    assert text.index("GPU time by kernel") < text.index("GPU timeline")
    _, text, _ = run("report", trace_file, "--table", "short_kernel_histogram", "--format", "json")
    assert json.loads(text)["table"] == "short_kernel_histogram"


def test_models_and_roofline(run: Run, job: Path, tmp_path: Path) -> None:
    trace = job / "rank0.json.gz"
    assert run("report", trace, "--csv", tmp_path / "m", "--arch", "auto")[0] == 0
    found = {path.stem for path in (tmp_path / "m").glob("*.csv")}
    assert found > DEFAULT | MODELLED | {"GEMM", "SDPA_fwd", "Normalization"}
    with (tmp_path / "m" / "GEMM.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    assert row["Roofline Bound_first"] in ("COMPUTE_BOUND", "MEMORY_BOUND")
    assert 0 < float(row["Pct Roofline_mean"]) < 105
    run("report", trace, "--csv", tmp_path / "n", "--no-models")
    assert {path.stem for path in (tmp_path / "n").glob("*.csv")} == DEFAULT
    _, text, _ = run("report", trace)
    assert "a table for each family of ops" in " ".join(text.split())
    assert "Cost and rates: GEMM" not in text
    for options in (["--table", "GEMM"], ["--all"]):
        assert "Cost and rates: GEMM" in run("report", trace, *options)[1]
    code, _, err = run("report", trace, "--table", "RoPE_fwd")
    assert code == 1
    assert "no op of the trace belongs in the table RoPE_fwd" in err


def test_a_device_that_is_not_known_is_said(run: Run, trace_file: Path) -> None:
    code, _, err = run("report", trace_file, "--arch", "auto", "--table", "unified_perf_summary")
    assert code == 0
    assert "warning: no roofline: " in err
    assert run("report", trace_file, "--arch", "h1000")[0] == 1
    assert run("report", trace_file, "--arch", "h200", "--no-models")[0] == 2


def test_linked_only(run: Run, trace_file: Path) -> None:
    _, text, _ = run("report", trace_file, "--linked-only", "--table", "ops_summary", "--format", "csv")
    assert [row["name"] for row in csv.DictReader(text.splitlines())] == ["aten::addmm"]


def test_top_and_sort(run: Run, job: Path) -> None:
    trace = job / "rank0.json.gz"

    def names(*options: str) -> list[str]:
        _, text, _ = run("report", trace, "--table", "ops_summary", "--format", "csv", *options)
        return [row["name"] for row in csv.DictReader(text.splitlines())]

    everything = names()
    assert names("--top", "2") == everything[:2] + [name for name in everything[2:] if name.startswith("(")]
    assert names("--sort", "name") == sorted(everything)
    assert names("--sort", "calls") != everything


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--table", "op_summary"], "did you mean ops_summary?"),
        (["--table", "zzz"], "there are gpu_timeline"),
        (["--format", "csv"], "no csv: a report (--csv DIR writes its tables, --table NAME chooses one) is written as"),
        (["--format", "csv", "--table", "ops_summary", "--table", "step_summary"], "csv takes one --table"),
        (["--all", "--table", "ops_summary"], "give one of them"),
        (["--sort", "zzz"], "no table has a column 'zzz'"),
        (["--fail-if", "idle_percentage > 3"], "idle_percent"),
        (["--fail-if", "idle_percent"], "--fail-if"),
    ],
)
def test_wrong_usage(run: Run, trace_file: Path, options: list[str], message: str) -> None:
    code, out, err = run("report", trace_file, *options)
    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())


def test_conditions(run: Run, trace_file: Path) -> None:
    code, _, err = run("report", trace_file, "--fail-if", "idle_percent > 20", "--fail-if", "busy_percent < 10")
    assert code == 3
    assert err.splitlines() == ["failed: idle_percent is 43.3962, which is > 20"]
    code, _, err = run("report", trace_file, "--fail-if", "op:aten::mm:ms > 1")
    assert code == 0
    assert "'aten::mm' is not in the trace" in err


def test_a_page_is_of_the_same_part_whatever_else_is_written(run: Run, tmp_path: Path) -> None:
    step = span("user_annotation", "ProfilerStep#7", 6_000, 52_000)
    early = [gpu("lone", 100 + 1_000 * n, 900, correlation=900 + n) for n in range(5)]
    own = [
        event
        for n in range(1, 26)
        for event in (call(6_100 + 20 * n, n), gpu("gemm", 5_000 + 2_000 * n, 1_900, correlation=n))
    ]
    trace = as_file(tmp_path, [step, *early, *own])
    pages = [tmp_path / f"{name}.html" for name in ("alone", "beside")]
    assert run("report", trace, "-o", pages[0])[0] == 0
    written = tmp_path / "report.json"
    assert run("report", trace, "-o", pages[1], "-o", written, "--csv", tmp_path / "tables")[0] == 0
    assert pages[0].read_text() == pages[1].read_text()
    assert "30 GPU events" in run("report", trace, "--all")[1]
    assert read(pages[1].read_text()).head["overview"]["window"] == "step 7"
    document = json.loads(written.read_text())
    assert (document["window"], document["trace"]["gpu_events"]) == (None, 30)
    assert document["note"].endswith("--step 7")
    assert "--step 7" in run("explain", trace, "headline")[1]
    of_step = json.loads(run("report", trace, "--step", "7", "-f", "json")[1])
    assert ("note" in of_step, of_step["trace"]["gpu_events"]) == (False, 25)


def test_ranks_get_a_line_each_and_the_late_one_the_report(run: Run, job: Path) -> None:
    code, out, err = run("report", job / "rank0.json.gz", job / "rank1.json.gz")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "2 traces"
    assert [line.split()[:2] for line in lines if line.startswith("rank") and "," not in line] == [
        ["rank0", "0"], ["rank1", "1"],
    ]  # fmt: skip
    assert any(line.startswith("kinds of run: 1 waits for a late rank ") for line in lines)
    (late,) = (at for at, line in enumerate(lines) if line.startswith("comes last: rank 1, "))
    assert next(line for line in lines[late:] if line.startswith("rank")).startswith("rank1.json.gz, rank 1")


def test_folders_and_patterns(run: Run, job: Path, tmp_path: Path) -> None:
    for name in ("rank0.json.gz", "rank1.json.gz"):
        shutil.copy(job / name, tmp_path / name)
    (tmp_path / "notes.txt").write_text("no trace")
    assert run("report", tmp_path)[1].startswith("2 traces")
    assert run("report", tmp_path / "rank?.json.gz")[1].startswith("2 traces")
    (tmp_path / "broken.json").write_text("no trace either")
    code, out, err = run("report", tmp_path, "--csv", tmp_path / "out", "--fail-if", "idle_percent >= 0")
    assert (code, out.splitlines()[0]) == (3, "2 traces")
    assert "left out: " in err
    assert "broken.json" in err
    assert "failed: rank0: idle_percent" in err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"rank0", "rank1"}
    code, _, err = run("report", tmp_path / "nothing*.json")
    assert code == 2
    code, _, err = run("report", tmp_path / "broken.json", tmp_path / "notes.txt")
    assert code == 1
    assert "none of the 2 files is a trace" in err
    assert run("report", tmp_path / "rank?.json.gz", "--table", "gpu_timeline")[1].count("GPU timeline") == 1
    code, _, err = run("report", tmp_path / "rank?.json.gz", "--table", "gpu_timeline", "--format", "csv")
    assert code == 2
    assert "csv takes one trace, not 2" in " ".join(err.replace("│", " ").split())


def test_a_broken_rank_is_not_passed_over_in_silence(run: Run, job: Path, tmp_path: Path) -> None:
    shutil.copy(job / "rank0.json.gz", tmp_path / "rank0.json.gz")
    (tmp_path / "rank1.json.gz").write_bytes(b"\x1f\x8b" + b"no gzip")
    code, out, err = run("report", tmp_path, "--fail-if", "idle_percent > 99")
    assert code == 1
    assert out.startswith("1 trace\n")
    assert "left out: " in err


def test_files_of_one_name_are_told_apart(run: Run, job: Path, tmp_path: Path) -> None:
    for rank in "01":
        (tmp_path / rank).mkdir()
        shutil.copy(job / f"rank{rank}.json.gz", tmp_path / rank / "trace.json.gz")
    _, out, _ = run(
        "report", tmp_path / "0" / "trace.json.gz", tmp_path / "1" / "trace.json.gz", "--csv", tmp_path / "o"
    )
    assert "0/trace" in out
    assert {path.name for path in (tmp_path / "o").iterdir()} == {"0_trace", "1_trace"}


def gpu(name: str, ts: float, dur: float, **where: int) -> dict[str, Any]:
    return span("kernel", name, ts, dur, pid=0, tid=7, **({"device": 0, "stream": 7} | where))


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([], id="no events"),
        pytest.param([span("cpu_op", "aten::add", 0, 1)], id="CPU only"),
        pytest.param([gpu("k", 0, 5)], id="one event"),
        pytest.param([gpu("k", 0, 0)], id="one empty event"),
        pytest.param([gpu("k", 0, 5), gpu("k", 2, 5), gpu("k", 20, 5)], id="overlapping kernels on one stream"),
        pytest.param([gpu("k", 0, 5), gpu("k", 2, 5, device=1)], id="two devices"),
        pytest.param([span("user_annotation", "ProfilerStep#1", 0, 5)], id="a step and nothing else"),
    ],
)
def test_odd_traces(run: Run, tmp_path: Path, events: list[dict[str, Any]]) -> None:
    path = as_file(tmp_path, events)
    code, out, err = run("report", path)
    assert (code, err) == (0, "")
    assert out
    added = ("overlap", "first-occurrence", "call-stack", "by-kernel-count", "by-module")
    every = ["--micro-idle", "5", "--short-kernels", "10", "--recompute", *(f"--add={one}" for one in added)]
    for options in ([], every, ["--linked-only", *every]):
        code, out, err = run("report", path, "--csv", tmp_path / "o", "-o", tmp_path / "r.json", "-o",
                             tmp_path / "r.md", "-o", tmp_path / "r.xlsx", *options)  # fmt: skip
        assert (code, err) == (0, "")
        json.loads((tmp_path / "r.json").read_text())
    if not any(event["cat"] == "kernel" for event in events):
        assert "no GPU events" in run("report", path)[1]


def test_the_cache_answers_the_second_command(
    run: Run, trace_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACELENS_GRAPH_CACHE", str(tmp_path))
    first = run("report", trace_file, "--cache")
    import tracelens_graph.loading.one

    monkeypatch.setattr(tracelens_graph.loading.one, "load_core", lambda *_, **__: pytest.fail("read the trace again"))
    assert run("report", trace_file, "--cache") == first


def test_standard_input(run: Run) -> None:
    code, out, _ = run(
        "report", "-", "--table", "gpu_timeline", input=gzip.compress(json.dumps(small_trace()).encode())
    )
    assert code == 0
    assert out.startswith("GPU timeline")


def test_two_folders_for_tables_are_refused(run: Run, trace_file: Path, tmp_path: Path) -> None:
    code, _, err = run("report", trace_file, "--csv", tmp_path / "a", "--csv", tmp_path / "b")
    assert code == 2
    assert "give one folder" in err
    assert not (tmp_path / "b").exists()
