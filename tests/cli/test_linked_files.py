"""Files of a pair that are broken, in each other's place, or too little: each command says so in one line."""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from handmade import Run
from linked_pairs import Call, calls, execution_trace, kineto

from corpus import CHECKOUT
from tracelens_graph.loading.one import load_core
from tracelens_graph.stores.graph_file import read_graph

LINKED = CHECKOUT / "examples/traces/linked"
TRACE, EXECUTION = LINKED / "one-step.json.gz", LINKED / "one-step.execution-trace.json.gz"
PROGRAM = calls([f"op{place % 10}" for place in range(30)])
TENSOR_QUESTIONS = ("tensor_makers", "copy_chains", "peak_bytes_by_module")

Commands = dict[str, list[str]]


def commands(trace: Any, et: Any) -> Commands:
    """Each command that links two files, by its name."""
    return {
        "link": ["link", str(trace), "--et", str(et)],
        "report": ["report", str(trace), "--et", str(et)],
        "tensor": ["tensor", str(trace), "--et", str(et), "t7"],
        "ask": ["ask", "copy_chains", str(trace), "--et", str(et)],
        "save": ["save", str(trace), "--et", str(et), "-o", f"{Path(str(et)).parent}/saved.tlg"],
    }


NAMES = list(commands("", ""))


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """An execution trace whose gzip stream lacks its end, and whose JSON is whole."""
    text = gzip.decompress(EXECUTION.read_bytes())
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(text)[:-8])
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_packed_file_that_is_cut_short(run: Run, cut: Path, name: str) -> None:
    code, _, err = run(*commands(TRACE, cut)[name])
    assert code == 0
    (line,) = err.splitlines()
    assert line.startswith(f"warning: {cut}: the compressed file is cut short: ")


def damaged(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> Path:
    """The execution trace of the example, its nodes changed."""
    document = json.loads(gzip.decompress(EXECUTION.read_bytes()))
    change(document["nodes"])
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("name", NAMES)
def test_inputs_and_outputs_that_are_no_lists(run: Run, tmp_path: Path, name: str) -> None:
    def change(nodes: list[dict[str, Any]]) -> None:
        nodes[3]["inputs"], nodes[5]["outputs"]["values"] = "x", 7

    code, _, err = run(*commands(TRACE, damaged(tmp_path / "et.json", change))[name])
    assert code == 0
    (line,) = err.splitlines()
    assert line.endswith("inputs or outputs of nodes of an execution trace that are not lists left out (2)")


@pytest.mark.parametrize("name", NAMES)
def test_a_refusal_tells_what_is_broken_too(run: Run, tmp_path: Path, name: str) -> None:
    other = execution_trace([Call(one.number, one.thread, f"other{one.name}") for one in PROGRAM])
    other["nodes"] += [dict(other["nodes"][0])] * 3
    (tmp_path / "et.json").write_text(json.dumps(other))
    code, out, err = run(*commands(TRACE, tmp_path / "et.json")[name])
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert "% of the names are equal, 95 % are needed; " in line
    assert line.endswith("with the id of an earlier one left out (3)")


@pytest.mark.parametrize("name", NAMES)
def test_an_execution_trace_in_the_place_of_the_trace(run: Run, name: str, tmp_path: Path) -> None:
    et = shutil.copy(EXECUTION, tmp_path / "et.json.gz")
    code, out, err = run(*commands(et, et)[name])
    assert (code, out) == (2, "")
    assert err == (
        f"error: {et}: is a PyTorch execution trace, in the place of the profiler's trace that --et goes with; name "
        "the profiler's trace of its run\n"
    )
    code, out, err = run(*commands(et, TRACE)[name])
    assert (code, out) == (2, "")
    assert err.endswith("--et goes with; are the two swapped?\n")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("et", "said"), [
    ("", "--et: the name is empty; name an execution trace"),
    (str(LINKED), "is a folder, and one file is wanted: name an execution trace"),
    (f"{LINKED}/*.execution-trace.json.gz", "files fit, and one file is wanted"),
])  # fmt: skip
def test_no_file_or_several(run: Run, name: str, et: str, said: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*(commands(TRACE, et)[name] if name != "save" else ["save", TRACE, "--et", et, "-o", "x.tlg"]))
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_folder_of_execution_traces_alone(run: Run, tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / "ets").mkdir(exist_ok=True)
        (tmp_path / "kineto").mkdir(exist_ok=True)
        (tmp_path / f"ets/rank{rank}.json").write_text(json.dumps(execution_trace(PROGRAM, pid=500 + rank)))
        (tmp_path / f"kineto/rank{rank}.json").write_text(json.dumps(kineto(PROGRAM, pid=500 + rank)))
    for command in (("report",), ("ranks",), ("ask", "collective_spread")):
        code, out, err = run(*command, tmp_path / "ets")
        assert (code, out) == (1, "")
        assert err == (
            "error: all 3 files are PyTorch execution traces, which have no times and no kernels: name the profiler's "
            "traces of the same ranks as well, by their folder or by the one above both\n"
        )
        for advised in ((tmp_path / "kineto", tmp_path / "ets"), (tmp_path,)):
            code, _, err = run("ask", "collective_spread", *advised)
            assert code == 0
            assert "linked 3 traces with their execution traces" in err


def test_in_folders_damage_of_execution_traces_is_told(run: Run, tmp_path: Path) -> None:
    for rank in range(2):
        document = execution_trace(PROGRAM, pid=500 + rank)
        document["nodes"].append(dict(document["nodes"][0]))
        (tmp_path / f"rank{rank}.execution-trace.json").write_text(json.dumps(document))
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(kineto(PROGRAM, pid=500 + rank)))
    _, _, err = run("ask", "collective_spread", tmp_path)
    assert err.count("with the id of an earlier one left out (1)") == 2


# --- what an execution trace alone answers, and saved links ----------------------------------------------------


@pytest.mark.parametrize("question", TENSOR_QUESTIONS)
def test_questions_that_need_no_times(run: Run, question: str) -> None:
    trace, et = LINKED / "lineage.json.gz", LINKED / "lineage.execution-trace.json.gz"
    alone, linked = (
        json.loads(run("ask", question, *files, "-f", "json")[1])["rows"] for files in ((et,), (trace, "--et", et))
    )
    assert alone
    if question == "peak_bytes_by_module":
        assert sum(row["bytes"] for row in alone) == sum(row["bytes"] for row in linked)
        assert "at_us" not in alone[0]
    if question == "copy_chains":
        assert [row["way"] for row in alone] == [row["way"] for row in linked]
    code, out, err = run("ask", question, et)
    assert (code, err) == (0, "")
    assert "tracelens-graph cut" not in out, "it has no times to cut by"


def test_an_execution_trace_alone_is_saved(run: Run, tmp_path: Path) -> None:
    saved = tmp_path / "et.tlg"
    code, out, err = run("save", EXECUTION, "-o", saved)
    assert (code, err) == (0, "")
    assert out.endswith(": 245 nodes\n")
    for command in (("tree",), ("report", "--table", "calls_by_op"), ("ask", "tensor_makers")):
        assert run(*command, saved)[:2] == run(*command, EXECUTION)[:2]
    code, out, _ = run("link", TRACE, "--et", saved)
    assert (code, out.splitlines()[0]) == (0, "245 of 245 nodes link; the trace has no GPU work")
    assert f"tracelens-graph report KINETO --et {saved}" in run("report", saved)[1]


def test_a_linked_graph_is_saved_with_its_link(run: Run, tmp_path: Path) -> None:
    saved = tmp_path / "linked.tlg"
    assert run("save", TRACE, "--et", EXECUTION, "-o", saved)[0] == 0
    link = read_graph(saved).link
    assert link is not None
    assert link.summary == load_core(TRACE, et=EXECUTION).link.summary  # type: ignore[union-attr]
    assert run("ask", "copy_chains", saved)[1] == run("ask", "copy_chains", TRACE, "--et", EXECUTION)[1]
    assert run("tensor", saved, "t7")[1] == run("tensor", TRACE, "--et", EXECUTION, "t7")[1]


def test_a_saved_graph_without_an_execution_trace_is_none(run: Run, tmp_path: Path) -> None:
    run("save", TRACE, "-o", tmp_path / "x.tlg")
    code, _, err = run("report", TRACE, "--et", tmp_path / "x.tlg")
    assert code == 1
    assert err == f"error: {tmp_path}/x.tlg: is the saved graph of a profiler's trace, not an execution trace\n"


def test_damage_is_told_of_a_saved_link_too(run: Run, cut: Path, tmp_path: Path) -> None:
    run("save", TRACE, "--et", cut, "-o", tmp_path / "x.tlg")
    assert "the compressed file is cut short: " in run("tensor", tmp_path / "x.tlg", "t7")[2]


# --- advice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [
    "timeline ET", "modules ET", "attribution ET", "export ET -o x.csv", "ask gpu_timeline ET",
    "ask bytes_alive ET -p points=3", "cut ET -o x.json --from 1ms --to 2ms", "tree ET --from 1ms",
    "report --table gpu_timeline ET", "ET --table gpu_timeline", "report ET --fail-if 'idle_percent < 0'",
    "report ET -o x.md", "report TRACE --compare-with ET", "tree --from 1ms ./ET", "diff --by-name ET ET",
])  # fmt: skip
def test_advice_fits_the_command_and_runs(run: Run, given: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    for name, source in (("et.json.gz", EXECUTION), ("trace.json.gz", TRACE)):
        shutil.copy(source, tmp_path / name)
    words = shlex.split(given.replace("ET", "et.json.gz").replace("TRACE", "trace.json.gz"))
    code, out, err = run(*words)
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    said, _, advice = line.partition("; name the profiler's trace of the same run: ")
    assert said == "error: et.json.gz: is a PyTorch execution trace, which has no times and no kernels"
    program, command, *rest = shlex.split(advice.replace("KINETO", "trace.json.gz"))
    assert program == "tracelens-graph"
    now = {"timeline": "ask", "attribution": "ask", "et.json.gz": "report"}
    assert command == now.get(words[0], words[0])
    assert ("--et" in rest) is (command in ("report", "ask") and "--compare-with" not in rest)
    code, _, err = run(command, *rest)
    assert code in (0, 3), err
