"""`tracelens-graph ask`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.document import table_object
from tracelens_graph.simulate import simulate, write

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write(simulate(ranks=2, steps=2, layers=1), folder)
    return folder


def test_the_list_of_questions(run: Run) -> None:
    code, out, _ = run("ask")
    assert code == 0
    assert all(any(line.startswith(name) for line in out.splitlines()) for name in QUESTIONS)
    _, out, _ = run("ask", "--format", "json")
    listed = [row["question"] for row in json.loads(out)["rows"]]
    assert listed[0] == "opportunities"
    assert sorted(listed) == sorted(QUESTIONS)


def test_of_one_trace(run: Run, job: Path) -> None:
    trace = job / "rank0.json.gz"
    code, out, _ = run("ask", "idle_gaps", trace, "-p", "top=3", "--format", "json")
    assert code == 0
    assert json.loads(out)["rows"] == table_object(QUESTIONS["idle_gaps"](load_core(trace), top=3))["rows"]
    _, out, _ = run("ask", "ops_summary", trace, "--step", "3", "--top", "2")
    assert "step 3" in out
    assert "more rows (--top 0 shows all)" in out
    _, of_window, _ = run("ask", "ops_summary", trace, "--step", "3", "-f", "csv")
    _, of_parameter, _ = run("ask", "ops_summary", trace, "-p", "step=3", "-f", "csv")
    assert of_window == of_parameter


def test_numbers_are_taken_with_commas(run: Run, job: Path) -> None:
    trace = job / "rank0.json.gz"
    core = load_core(trace)
    uid = int(next(uid for uid in core.columns.uid[core.gpu_rows] if uid >= 1000))
    plain, grouped = (run("ask", "path_to_python", trace, "-p", f"uid={text}") for text in (uid, f"{uid:,}"))
    assert plain == grouped
    assert plain[0] == 0


def test_of_a_linked_trace(run: Run, job: Path) -> None:
    et = job / "rank0.execution-trace.json"
    code, out, _ = run("ask", "peak_bytes_by_module", job / "rank0.json.gz", "--et", et, "--format", "json")
    assert code == 0
    linked = load_core(job / "rank0.json.gz", et=et)
    assert json.loads(out).items() > table_object(QUESTIONS["peak_bytes_by_module"](linked)).items()
    assert json.loads(out)["rows"]
    code, _, err = run("ask", "slowest_ranks", job, "--et", et)
    assert code == 2
    assert "--et" in err


def test_of_several(run: Run, job: Path) -> None:
    code, out, err = run("ask", "slowest_ranks", job, "--format", "json")
    assert code == 0
    assert {row["trace"] for row in json.loads(out)["rows"]} == {"rank0", "rank1"}
    assert err.count("left out") == 1
    assert "2 files that are not traces" in err
    code, out, _ = run("ask", "run_history", job / "rank0.json.gz", job / "rank1.json.gz", "--device", "0")
    assert code == 0
    assert "rank1" in out


@pytest.mark.proof
@pytest.mark.parametrize(
    "name", [name for name, one in QUESTIONS.items() if one.several and name != "incomplete_traces"]
)
@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--from", "100s"), "(from 100,000.000 ms)"),
        (("--to", "1us"), "(up to 0.001 ms)"),
        (("--step", "3"), "(step 3)"),
        (("--stream", "7"), "(stream 7)"),
        (("--device", "0"), "(device 0)"),
        (("--under", "aten::mm"), "(under aten::mm)"),
        (("--annotation", "ProfilerStep#3", "--all-threads"), "(annotation ProfilerStep#3, all threads)"),
    ],
)
def test_of_windows_of_several(run: Run, job: Path, name: str, option: tuple[str, ...], said: str) -> None:
    code, out, err = run("ask", name, job / "rank*.json.gz", *option, "--format", "json")
    assert (code, "error" in err) == (0, False)
    assert json.loads(out)["title"].endswith(said)


def test_incomplete_traces_are_whole(run: Run, job: Path) -> None:
    code, _, err = run("ask", "incomplete_traces", job / "rank*.json.gz", "--step", "3")
    assert (code, err) == (1, "error: incomplete_traces is asked of whole traces, not of a window (step 3)\n")


def test_top_is_the_parameter_of_a_question_that_has_one(run: Run, job: Path) -> None:
    trace = job / "rank0.json.gz"
    every = QUESTIONS["idle_gaps"](load_core(trace), top=0, min_us=0)
    assert len(every) > 20

    def rows(*options: str) -> tuple[int, list[str]]:
        _, out, _ = run("ask", "idle_gaps", trace, "-p", "min_us=0", *options, "--format", "json")
        return len(json.loads(out)["rows"]), json.loads(out)["notes"]

    cut = f"of {len(every):,} rows (top 0 shows all)"
    assert rows("--top", "0") == rows("-p", "top=0") == (len(every), [])
    assert rows("--top", "25") == rows("-p", "top=25") == rows("-p", "top=25", "--top", "25")
    assert rows("--top", "25") == (25, [f"the first 25 {cut}"])
    assert rows() == (20, [f"the first 20 {cut}"])
    _, out, _ = run("ask", "idle_gaps", trace, "-p", "min_us=0", "-p", "top=25")
    assert f"the first 25 {cut}" in out
    _, out, err = run("ask", "idle_gaps", trace, "-p", "min_us=0", "-f", "csv")
    assert (len(out.splitlines()), err) == (21, f"the first 20 {cut}\n")
    code, _, err = run("ask", "idle_gaps", trace, "--top", "3", "-p", "top=4")
    assert (code, "--top 3 and --param top=4" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("idle_gap",), "did you mean idle_gaps?"),
        (("nothing of this",), "there is no question"),
        (("idle_gaps", "T", "-p", "tops=3"), "did you mean top?"),
        (("idle_gaps", "T", "-p", "top"), "it has the form NAME=VALUE"),
        (("idle_gaps", "T", "-p", "top=x"), "a whole number is wanted"),
        (("slowest_ranks", "T", "-p", "run=x"), "of no named run"),
        (("idle_gaps", "T", "T2"), "is asked of one trace, not of 2"),
    ],
)
def test_wrong_usage(run: Run, job: Path, arguments: tuple[str, ...], said: str) -> None:
    places = {"T": job / "rank0.json.gz", "T2": job / "rank1.json.gz"}
    code, _, err = run("ask", *(places.get(one, one) for one in arguments))
    assert code == 2
    assert said in " ".join(err.replace("│", " ").split())


def test_traces_that_lack_what_is_asked_for(run: Run, job: Path, tmp_path: Path) -> None:
    code, _, err = run("ask", "ops_summary", job / "rank0.json.gz", "-p", "step=99")
    assert (code, "has no step 99" in err) == (1, True)
    code, _, err = run("ask", "run_history", tmp_path)
    assert (code, "no file in it ends" in " ".join(err.replace("│", " ").split())) == (2, True)


@pytest.mark.parametrize("command", [("report",), ("ask", "slowest_ranks")])
def test_a_trace_that_cannot_be_read_is_a_failure(run: Run, trace_file: Path, tmp_path: Path, command: Any) -> None:
    shutil.copy(trace_file, tmp_path / "a.json")
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    assert run(*command, tmp_path)[0] == 0
    (tmp_path / "b.tlg").write_bytes(b"TLGRAPH1 and nothing that a graph could be")
    code, out, err = run(*command, tmp_path)
    assert (code, bool(out)) == (1, True)
    assert "b.tlg" in err
