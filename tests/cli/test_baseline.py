"""report --against: what changed against a baseline, on the screen, in a comment, and for a gate."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from github_markdown import read
from handmade import Run, small_trace


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
        "json": ["report", traces[0], "--json", path], "csv": ["report", traces[0], "--csv", path],
    }  # fmt: skip
    assert run(*how[request.param])[0] == 0
    return path


def test_every_form_of_a_baseline_tells_the_same(run: Run, traces: tuple[Path, Path], baseline: Path) -> None:
    code, out, err = run(
        "report",
        traces[1],
        "--against",
        baseline,
        "--fail-if",
        "total_ms:pct > 6",
        "--fail-if",
        "op:aten::addmm:ms:diff > 1",
    )
    assert code == 3
    assert err == "failed: total_ms:pct is 6.44654, which is > 6\n"
    change = out.partition(f"\nafter against {baseline.stem}\n")[2].splitlines()
    assert change[0].split() == ["total", "0.159", "->", "0.169", "ms", "+0.010", "+6.4", "%"]
    assert change[4].split() == ["aten::addmm", "0.060", "->", "0.070", "ms", "+0.010", "+17.1", "%"]
    assert f"ask next: tracelens-graph compare {baseline} {traces[1]}" in change
    said = run("compare", baseline, traces[1])[1].splitlines()
    assert said[1:5] == change[:4]


def test_a_comment_tells_the_change(run: Run, traces: tuple[Path, Path], baseline: Path, tmp_path: Path) -> None:
    comment = tmp_path / "c.md"
    code, out, err = run("report", traces[1], "--against", baseline, "--markdown", comment)
    assert (code, err) == (0, "")
    assert out == f"wrote {comment}\n"
    page = read(comment.read_text())
    assert f"Change against {baseline.stem}: GPU span 0.159 -> 0.169 ms (+6.4 %)" in page.paragraphs
    assert page.tables[1][1] == ["GPU span", "0.159", "0.169", "+0.010", "+6.4 %"]
    assert f"All that changed: tracelens-graph compare {baseline.name} {traces[1].name}" in page.paragraphs
    assert str(tmp_path) not in comment.read_text()
    assert page.links == []


def test_files_and_tables_beside_a_baseline(run: Run, traces: tuple[Path, Path], tmp_path: Path) -> None:
    code, out, _ = run(
        "report", traces[1], "--against", traces[0], "--csv", tmp_path / "t", "--json", tmp_path / "r.json"
    )
    assert code == 0
    title, total, *_ = out.splitlines()[2:]
    assert (title, total.split()) == (
        "after against before",
        ["total", "0.159", "->", "0.169", "ms", "+0.010", "+6.4", "%"],
    )
    assert "after against before" in run("report", traces[1], "--against", traces[0], "--csv", tmp_path / "t")[1]
    table = ["--table", "gpu_timeline", "--fail-if", "total_ms:pct > 9"]
    code, out, err = run("report", traces[1], "--against", traces[0], *table)
    assert (code, err) == (0, "")
    assert out.startswith("GPU timeline\n")
    assert "after against before" in run("report", traces[1], "--against", traces[0], "--all")[1]


def test_standard_input(run: Run, traces: tuple[Path, Path]) -> None:
    packed = gzip.compress(traces[0].read_bytes())
    code, out, _ = run("report", traces[1], "--against", "-", input=packed)
    assert code == 0
    assert "0.159  ->  0.169" in out
    assert "tracelens-graph compare" not in out
    code, _, err = run("report", "-", "--against", "-", input=packed)
    assert (code, err) == (2, "error: standard input: a pipe gives one trace, once\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["T", "T2", "--against", "T"], 2, "--against takes one trace, not 2; compare takes several runs"),
        (["T", "--against", "T", "--layout", "tracelens"], 2, "--layout tracelens has no baseline"),
        (["T", "--against", "T", "--table", "gpu_timeline"], 2, "--against adds nothing to --table; compare --table"),
        (["T", "--against", "nowhere.json"], 1, "nowhere.json: "),
        (["T", "--fail-if", "idle_ms:pct > 2"], 2, "there is no figure 'idle_ms:pct'"),
        (["T", "--against", "T", "--fail-if", "idel_ms:pct > 2"], 2, "did you mean idle_ms?"),
        (["T", "--against", "ODD"], 1, "odd.json: no report on a trace, as report --json writes it"),
    ],
)
def test_what_does_not_go(
    run: Run, traces: tuple[Path, Path], tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    odd = tmp_path / "odd.json"
    odd.write_text('{"schema_version": 1}')
    named = {"T": traces[0], "T2": traces[1], "ODD": odd}
    found, out, err = run("report", *(named.get(one, one) for one in arguments))
    assert (found, out) == (code, "")
    assert words in err


def test_the_baseline_is_never_overwritten(run: Run, traces: tuple[Path, Path], tmp_path: Path) -> None:
    base = tmp_path / "b.json"
    assert run("report", traces[0], "--json", base)[0] == 0
    code, _, err = run("report", traces[1], "--against", base, "--json", base, "--force")
    assert (code, err) == (1, f"error: {base}: is what the command reads; name another file\n")
