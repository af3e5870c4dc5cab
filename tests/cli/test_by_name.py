"""diff --by-name: verdict, tables, inputs, names, conditions, files."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from github_markdown import read
from handmade import HOSTILE, Run, small_trace


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def changed(**durations: float) -> dict[str, Any]:
    """The small trace with other durations of some events."""
    trace = small_trace()
    for event in trace["traceEvents"]:
        if event["name"] in durations:
            event["dur"] = durations[event["name"]]
    return trace


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    """The small trace with a gemm that takes 70.25 us in place of 50.25, and another kernel in place of the copy."""
    trace = changed(gemm=70.25)
    for event in trace["traceEvents"]:
        if event["name"] == "aten::addmm":
            event["name"] = "aten::mm"
    path = tmp_path / "slower.json"
    path.write_text(json.dumps(trace))
    return path


def test_verdict_and_key_tables(run: Run, trace_file: Path, slower: Path) -> None:
    code, out, err = run("diff", "--by-name", trace_file, slower)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "slower against small"
    assert lines[1].split() == ["total", "0.159", "->", "0.169", "ms", "+0.010", "+6.4", "%"]
    assert "only in small: 1 op, 0.060 ms: aten::addmm (0.060)" in lines
    assert "only in slower: 1 op, 0.070 ms: aten::mm (0.070)" in lines
    for title in ("GPU timeline", "GPU time by category of operation", "GPU time by operation", "GPU time by kernel"):
        assert f"{title}: slower against small" in lines
    assert out.count("have no launch in the trace") == 2  # one note per run, not one per table
    assert lines[-2] == "more with --table: ops_unique_args, unified_perf_summary, work_summary"
    assert lines[-1] == f"ask next: tracelens-graph diff {trace_file} {slower}"


def test_the_earlier_command_and_tables_alone_ask_for_the_same(run: Run, trace_file: Path, slower: Path) -> None:
    asked = run("diff", trace_file, slower, "--by-name")
    assert run("compare", trace_file, slower) == asked
    assert run("--cache", "compare", trace_file, slower) == asked
    one = run("diff", trace_file, slower, "--table", "ops_summary")
    assert one == run("compare", trace_file, slower, "--table", "ops_summary")
    for words in (["--within", trace_file, slower, slower], ["--tree", trace_file, slower]):
        assert run("diff", "--by-name", *words)[0] == 2
    code, _, err = run("diff", trace_file, slower, "--linked-only")
    assert (code, err) == (2, "error: --linked-only goes with --by-name\n")


def test_a_trace_does_not_differ_from_itself(run: Run, trace_file: Path) -> None:
    code, out, _ = run("diff", "--by-name", trace_file, trace_file, "--fail-if", "busy_ms:diff != 0")
    assert code == 0
    assert out.startswith("small#2 against small#1\n")
    assert "no op takes longer or shorter" in out
    assert out.count("2 rows without a difference") == 3
    assert "only in" not in out


@pytest.mark.parametrize("form", ["csv", "json"])
def test_one_table_with_all_columns(run: Run, trace_file: Path, slower: Path, form: str) -> None:
    code, out, _ = run(
        "diff", "--by-name", trace_file, slower, "--table", "kernel_summary", "-f", form, "--names", "old, new"
    )
    assert code == 0
    found = rows(out) if form == "csv" else json.loads(out)["rows"]
    by_kernel = {(row["Parent cpu_op"], row["Kernel name"]): row for row in found}
    gone, new = by_kernel["aten::addmm", "gemm"], by_kernel["aten::mm", "gemm"]
    assert (gone["only_in"], new["only_in"]) == ("old", "new")
    assert float(gone["Kernel duration (µs)_sum__new_diff"]) == -50.25
    assert float(new["new::Kernel duration (µs)_sum"]) == 70.25
    assert HOSTILE in {row["Kernel name"] for row in found}


def test_a_folder_of_our_tables_is_a_run(run: Run, trace_file: Path, tmp_path: Path) -> None:
    from tracelens_graph.analyses.report.report_tables import report_tables
    from tracelens_graph.loading.one import load_core
    from tracelens_graph.reports.csv import write_folder

    write_folder(dict(report_tables(load_core(trace_file))), tmp_path / "tables")
    code, out, err = run("diff", "--by-name", trace_file, tmp_path / "tables", "--csv", tmp_path / "diff")
    assert (code, err) == (0, "")
    assert "no op takes longer or shorter" in out
    assert out.endswith(f"wrote 6 tables to {tmp_path / 'diff'}\n")
    for file in (tmp_path / "diff").glob("*.csv"):
        found = rows(file.read_text())
        assert found
        for row in found:
            assert row["only_in"] == ""
            assert {float(row[column] or 0) for column in row if column.endswith("_diff")} == {0.0}


def test_names_come_from_files_else_from_folders(run: Run, trace_file: Path, tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rank0.pt.trace.json").write_text(json.dumps(small_trace()))
    _, out, _ = run("diff", "--by-name", tmp_path / "x/rank0.pt.trace.json", tmp_path / "y/rank0.pt.trace.json")
    assert out.startswith("y against x\n")
    _, out, _ = run("diff", "--by-name", trace_file, tmp_path / "y/rank0.pt.trace.json", tmp_path / "x")
    assert [line for line in out.splitlines() if " against " in line][:2] == [
        "y/rank0 against small",
        "x/rank0 against small",
    ]
    _, out, _ = run("diff", "--by-name", trace_file, tmp_path / "y/rank0.pt.trace.json")
    assert out.startswith("rank0 against small\n")


def test_folders_of_traces_and_patterns(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        trace = small_trace() | {"trace_name": name}
        (tmp_path / f"{name}.json").write_text(json.dumps(trace))
    for named in (tmp_path, tmp_path / "*.json"):
        code, out, _ = run("diff", "--by-name", named)
        assert code == 0
        assert [line for line in out.splitlines() if line.endswith(" against a")][:2] == ["b against a", "c against a"]
    code, out, err = run("diff", "--by-name", tmp_path / "[ab].json", "--names", "x,y", "--table", "ops_summary")
    assert (code, err) == (0, "")
    assert "y against x" in out
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "a.json").write_text("{}")
    assert run("diff", "--by-name", tmp_path / "only")[0] == 2
    assert run("diff", "--by-name", tmp_path / "nosuch*")[0] == 2


@pytest.mark.parametrize(
    ("condition", "code", "line"),
    [
        ("total_ms:pct > 5", 3, "failed: total_ms:pct is 6.44654, which is > 5\n"),
        ("total_ms:pct > 7", 0, ""),
        ("total_ms:diff < 0", 0, ""),
        ("category:GEMM:count:diff >= 0", 3, "failed: category:GEMM:count:diff is 0, which is >= 0\n"),
        ("op:aten::addmm:ms:pct == -100", 3, None),
        ("op:aten::mm:ms:pct > 1000", 3, None),
    ],
)
def test_conditions(run: Run, trace_file: Path, slower: Path, condition: str, code: int, line: str | None) -> None:
    found, _, err = run("diff", "--by-name", trace_file, slower, "--fail-if", condition)
    assert found == code
    assert err == line if line is not None else "is not in the trace" in err


def test_a_change_from_nothing_is_beyond_every_limit() -> None:
    from tracelens_graph.cli import gate
    from tracelens_graph.cli.by_name import _change

    (condition,) = gate.parse(["busy_ms:pct > 5"], ("diff", "pct"))
    assert _change(condition, gate.Reading(0.0), gate.Reading(2.0)).value == math.inf
    assert _change(condition, gate.Reading(0.0), gate.Reading(0.0)).value == 0
    assert _change(condition, gate.Reading(4.0), gate.Reading(3.0)).value == -25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{a}"], "at least two runs"),
        (["-", "-"], "standard input"),
        (["{a}", "{b}", "--names", "x"], "1 names for 2 runs"),
        (["{a}", "{b}", "--names", "x,x"], "a name of its own"),
        (["{a}", "{b}", "--names", "x,"], "a name of its own"),
        (["{a}", "{b}", "{a}", "--names", "a,b/c,b:c", "--layout", "tracelens", "--csv", "x"], "two of them are one"),
        (["{a}", "{b}", "--table", "ops_sumary"], "did you mean ops_summary?"),
        (["{a}", "{b}", "--format", "csv"], "(--table NAME chooses a table)"),
        (["{a}", "{b}", "--table", "ops_summary", "--csv", "x"], "one of them"),
        (["{a}", "{b}", "--layout", "tracelens"], "needs --csv or --table"),
        (["{a}", "{b}", "--layout", "tracelens", "--table", "x"], "there is no table"),
        (["{a}", "{b}", "--fail-if", "busy_ms > 5"], "busy_ms:diff"),
        (["{a}", "{b}", "--fail-if", "bussy_ms:pct > 5"], "did you mean"),
        (["{a}", "{b}", "--fail-if", "slower_percent > 5"], "needs two traces"),
        (["{a}", "{b}", "--table", "diff_totals"], "--csv DIR of two traces writes diff_totals"),
    ],
)
def test_wrong_usage(run: Run, trace_file: Path, slower: Path, arguments: list[str], message: str) -> None:
    code, out, err = run("diff", "--by-name", *(text.format(a=trace_file, b=slower) for text in arguments))
    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())


def test_layout_of_tracelens(run: Run, trace_file: Path, slower: Path, tmp_path: Path) -> None:
    out_dir = tmp_path / "out"
    code, out, err = run(
        "diff", "--by-name", trace_file, slower, "--names", "a,../b", "--layout", "tracelens", "--csv", out_dir
    )
    assert (code, err) == (0, "")
    assert out.startswith("wrote 9 tables to ")
    assert {"ops_unique_args_only_baseline_.._b.csv", "gpu_timeline.csv"} < {file.name for file in out_dir.iterdir()}
    found = {row["type"]: row for row in rows((out_dir / "gpu_timeline.csv").read_text())}
    assert float(found["total_time"]["time ms__../b_diff"]) == pytest.approx(0.01025)


def test_what_is_no_trace_in_a_folder_is_left_out(run: Run, trace_file: Path, slower: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    slower.rename(folder / "slower.json")
    (folder / "void.json").write_bytes(b"")
    code, out, err = run("diff", "--by-name", trace_file, folder)
    assert (code, err) == (0, "left out 1 file that is not a trace: void.json\n")
    assert out.startswith("slower against small\n")
    code, _, err = run("diff", "--by-name", trace_file, folder / "void.json")
    assert code == 1
    assert "void.json: is empty, not a trace" in err
    (folder / "slower.json").unlink()
    code, _, err = run("diff", "--by-name", trace_file, folder)
    assert code == 1
    assert err.endswith("error: fewer than two of the files are traces that can be read\n")


# --- against a baseline ----------------------------------------------------------------------------------------------


def write(path: Path, **durations: float) -> Path:
    """The small trace with other durations of some events."""
    trace = small_trace()
    for event in trace["traceEvents"]:
        event["dur"] = durations.get(event["name"], event.get("dur"))
    path.write_text(json.dumps(trace))
    return path


@pytest.fixture
def traces(tmp_path: Path) -> tuple[Path, Path]:
    return write(tmp_path / "before.json"), write(tmp_path / "after.json", gemm=70.25)


@pytest.fixture(params=["trace", "graph", "json", "csv"])
def baseline(request: pytest.FixtureRequest, run: Run, traces: tuple[Path, Path], tmp_path: Path) -> Path:
    """The run before, in each of the forms in which it can be kept."""
    kept = {"trace": traces[0], "graph": tmp_path / "b.tlg", "json": tmp_path / "b.json", "csv": tmp_path / "b"}
    path: Path = kept[request.param]
    how: dict[str, list[Any]] = {
        "trace": ["info", traces[0]], "graph": ["save", traces[0], "-o", path],
        "json": ["report", traces[0], "-o", path], "csv": ["report", traces[0], "--csv", path],
    }  # fmt: skip
    assert run(*how[request.param])[0] == 0
    return path


def test_every_form_of_a_baseline_tells_the_same(run: Run, traces: tuple[Path, Path], baseline: Path) -> None:
    conditions = ("--fail-if", "total_ms:pct > 6", "--fail-if", "op:aten::addmm:ms:diff > 1")
    code, out, err = run("diff", "--by-name", baseline, traces[1], *conditions)
    assert code == 3
    *notes, verdict = err.splitlines()
    assert verdict == "failed: total_ms:pct is 6.44654, which is > 6"
    assert len(notes) == (baseline.name in ("b.json", "b"))  # saved tables hold no noise
    change = out.partition(f"after against {baseline.stem}\n")[2].splitlines()
    assert change[0].split() == ["total", "0.159", "->", "0.169", "ms", "+0.010", "+6.4", "%"]
    assert change[4].split() == ["aten::addmm", "0.060", "->", "0.070", "ms", "+0.010", "+17.1", "%"]


def test_a_comment_tells_the_change(run: Run, traces: tuple[Path, Path], baseline: Path, tmp_path: Path) -> None:
    comment = tmp_path / "c.md"
    code, out, err = run("diff", "--by-name", baseline, traces[1], "-o", comment)
    assert (code, err) == (0, "")
    assert out.endswith(f"wrote {comment}\n")
    page = read(comment.read_text())
    assert "after: GPU span 0.159 -> 0.169 ms (+6.4 %)" in page.paragraphs
    (change,) = [rows for rows in page.tables if "baseline ms" in rows[0]]
    assert change[1] == ["GPU span", "0.159", "0.169", "+0.010", "+6.4 %"]
    assert f"All that changed: tracelens-graph diff {baseline.name} {traces[1].name} --by-name" in page.paragraphs
    assert str(tmp_path) not in comment.read_text()
    assert page.links == []


def test_standard_input(run: Run, traces: tuple[Path, Path]) -> None:
    packed = gzip.compress(traces[0].read_bytes())
    code, out, _ = run("diff", "--by-name", "-", traces[1], input=packed)
    assert code == 0
    assert "0.159  ->  0.169" in out
    assert "tracelens-graph diff" not in out
    code, _, err = run("diff", "--by-name", "-", "-", input=packed)
    assert (code, err) == (2, "error: standard input: a pipe gives one trace, once\n")


def test_a_baseline_that_is_no_report(run: Run, traces: tuple[Path, Path], tmp_path: Path) -> None:
    odd = tmp_path / "odd.json"
    odd.write_text('{"schema_version": 1}')
    code, _, err = run("diff", "--by-name", odd, traces[0])
    assert (code, "odd.json: no report on a trace, as report -o FILE.json writes it" in err) == (1, True)


def test_the_baseline_is_never_overwritten(run: Run, traces: tuple[Path, Path], tmp_path: Path) -> None:
    base = tmp_path / "b.json"
    assert run("report", traces[0], "-o", base)[0] == 0
    code, _, err = run("diff", "--by-name", base, traces[1], "-o", base, "--force")
    assert (code, err) == (1, f"error: {base}: is what the command reads; name another file\n")
