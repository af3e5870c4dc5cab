"""Commands that are suggested: complete, quoted, and good for something."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from handmade import Run
from instructions_to_replay import CASES, profile_of
from recorded_calls import calls

from corpus import kineto_traces, parametrize
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.cli.app import app
from tracelens_graph.cli.hints import ASKED_OF_A_DEVICE, COMMANDS_WITH, Asked, Call, without_folders
from tracelens_graph.cli.options import ANYWHERE, Anywhere
from tracelens_graph.cli.windows import WindowChoice
from tracelens_graph.graph.window import whole_window
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate, write
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.table import Table

MARKS = ("ask next: ", "open in Perfetto UI: ")


def hints(text: str) -> list[str]:
    return [line.partition(mark)[2] for line in text.splitlines() for mark in MARKS if mark in line]


def test_a_command_keeps_the_window_and_the_extension() -> None:
    window = WindowChoice(step=(3, 4), annotation="it's", threads="all", after_ns=5, under=12, device=(0, 1))
    call = Call("my trace.json", window, ["ext.py"])
    assert shlex.split(call.complete("tracelens-graph report TRACE --table idle_causes"))[1:] == [
        "report", "my trace.json", "--table", "idle_causes", "--step", "3,4", "--annotation", "it's", "--all-threads",
        "--from", "5ns", "--under", "12", "--device", "0", "--device", "1", "--extension", "ext.py",
    ]  # fmt: skip
    assert "--extension" not in call.complete("tracelens-graph ranks TRACE")
    assert "--annotation" not in call.complete("tracelens-graph cut TRACE")
    assert call.complete("tracelens-graph report TRACE --step 7").count("--step") == 1
    assert call.cut(5) == "tracelens-graph cut 'my trace.json' --uid 5 -o event-5.json.gz"


@pytest.mark.parametrize("option", COMMANDS_WITH)
def test_commands_that_take_what_hints_repeat(option: str) -> None:
    program: Any = typer.main.get_command(app)
    took = {name for name, one in program.commands.items() if any(option in p.opts for p in one.params)}
    assert took == COMMANDS_WITH[option]


def test_a_command_keeps_the_device_and_what_joined_replays() -> None:
    call, token = Call("t.json", arch="h200"), ANYWHERE.set(Anywhere(capture=("c",), identify=True))
    try:
        for command in COMMANDS_WITH["--arch"] - {"model", "ranks"}:
            assert call.complete(f"tracelens-graph {command} TRACE").endswith(
                f"{command} t.json --arch h200 --capture c --identify"
            )
        for question in ASKED_OF_A_DEVICE:
            assert f"{question} t.json -p arch=h200 --capture" in call.complete(f"tracelens-graph ask {question} TRACE")
        assert "h200" not in call.complete("tracelens-graph ask phases TRACE") + call.cut(3)
        of_ranks = Asked(["a", "b"], WindowChoice(), "h200")
        assert of_ranks.next("--path").endswith("ranks a b --arch h200 --capture c --identify --path")
        assert "--capture c --identify" in of_ranks.cut(1, "key")
    finally:
        ANYWHERE.reset(token)


def test_questions_that_take_a_device_are_known() -> None:
    assert {name for name, one in QUESTIONS.items() if "arch" in one.parameters} == ASKED_OF_A_DEVICE


def test_what_came_through_a_pipe_is_not_named(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for trace in ("-", str(pipe)):
        assert Call(trace).cut(5) == "tracelens-graph cut TRACE --uid 5 -o event-5.json.gz"


def test_hints_run_with_the_window_of_the_call(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "it's a job"
    write(simulate(steps=3, layers=1), folder)
    monkeypatch.chdir(tmp_path)
    trace = folder / "rank0.json.gz"
    _, out, _ = run("report", trace, "--step", "4")
    found = hints(out)
    assert any("--step 4" in command for command in found)
    assert any(" cut " in command for command in found)
    for command in found:
        code, said, err = run(*shlex.split(command)[1:])
        assert (code, err) == (0, ""), command
        assert said.strip()


def test_replay_is_suggested_for_operations_of_pytorch_and_instructions_of_xla() -> None:
    call, eager = Call("t.json"), load_core(calls())
    uids = [10, 1]  # of my::fused and aten::mm
    assert call.to_replay(eager, uids, "--top 2") == ["ask next: tracelens-graph replay t.json --top 2"]
    assert call.to_replay(eager, uids[:1], "--top 2") == []
    assert call.to_replay(eager, uids, "--top 2", [90, 9]) == []
    assert call.to_replay(eager, uids, "--top 2", [80, 20]) != []
    assert call.to_replay(profile_of(*CASES["tanh"]), [], "--top 2")


def test_commands_that_would_write_no_program_are_left_out() -> None:
    core = load_core(calls())
    commands = [f"tracelens-graph replay TRACE --uid {uid} -o F" for uid in (1, 3, 10, 16)]
    about = {"command": Column("")}
    table = Table("t", {"command": [*commands, "tracelens-graph info TRACE"]}, about)
    assert [core.names[core.columns.name[core.row(uid)]] for uid in (1, 3, 10, 16)] == [
        "aten::mm", "gemm", "my::fused", "c10d::allreduce_",
    ]  # fmt: skip
    assert Call("t.json").completed(table, whole_window(core))["command"] == [
        *(one.replace("TRACE", "t.json") for one in commands[:2]), "", "", "tracelens-graph info t.json",
    ]  # fmt: skip


def test_hints_of_comparisons_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    traces = [write(simulate(steps=3, layers=layers), tmp_path / f"run {layers}")[0] for layers in (1, 2)]
    _, out, _ = run("diff", "--by-name", *traces, "--step", "4")
    (comparison,) = hints(out)
    assert shlex.split(comparison)[1:2] == ["diff"]
    found = [comparison]
    for command in found:
        assert "--step 4" in command or " diff " not in command
        code, out, err = run(*shlex.split(command)[1:])
        assert (code, err) == (0, ""), command
        found += [hint for hint in hints(out) if hint not in found]
    assert [shlex.split(command)[1] for command in found] == ["diff", "diff", "tree", "replay", "cut"]


@pytest.mark.proof
@parametrize("path", kineto_traces())
def test_hints_of_every_real_trace_run(run: Run, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {}
    for command in (["report"], ["report", "--table", "runtime_summary"], ["info"], ["attribution"]):
        code, out, err = run(command[0], path, *command[1:])
        assert code == 0, err
        found |= dict.fromkeys(hints(out), out)
    for command, screen in found.items():
        code, out, err = run(*shlex.split(command)[1:])
        assert code == 0, (command, err)
        assert out.strip()
        assert not set(out.splitlines()) <= set(screen.splitlines()), f"{command} only repeats"


@pytest.mark.parametrize("command", [["attribution"], ["modules", "--format", "table"], ["ask", "runtime_summary"]])
def test_rows_that_name_an_event_can_be_opened(run: Run, tmp_path: Path, command: list[str]) -> None:
    write(simulate(steps=1, layers=1), tmp_path)
    _, out, _ = run(*command, tmp_path / "rank0.json.gz")
    (found,) = hints(out)
    assert shlex.split(found)[:2] == ["tracelens-graph", "cut"]


@pytest.mark.parametrize("form", ["{}", "{:,}"])
def test_uids_are_taken_with_and_without_commas(run: Run, tmp_path: Path, form: str) -> None:
    write(simulate(steps=2, layers=2), tmp_path)
    trace = tmp_path / "rank0.json.gz"
    core = load_core(trace)
    op = next(row for row in core.columns.owner.tolist() if row >= 0 and core.columns.uid[row] > 1000)
    number = int(core.columns.uid[op])
    uid = form.format(number)
    for command in (["tree", "--uid"], ["attribution", "--under"], ["cut", "-o", tmp_path / "c.json", "--uid"]):
        code, out, err = run(command[0], trace, *command[1:], uid)
        assert (code, err) == (0, ""), command
        if command[0] == "attribution":
            assert f"uid {number}" in out.splitlines()[0]
    code, _, err = run("tree", trace, "--uid", "1,00")
    assert code == 2
    assert "is no uid" in " ".join(err.replace("│", " ").split())


def test_what_goes_elsewhere_names_no_folders() -> None:
    assert without_folders(["/home/me/a/x.json", "/home/me/b/y.json"]) == ["x.json", "y.json"]
    assert without_folders(["/home/me/a/x.json", "/home/me/b/x.json"]) == ["a/x.json", "b/x.json"]
    assert without_folders(["/home/me/x.json", "/home/me/x.json"]) == ["x.json", "x.json"]
    assert without_folders([".", "../..", "-"])[2] == "-"
    assert without_folders(["."]) == [Path.cwd().name]
    assert without_folders(["/dev/stdin"]) == ["/dev/stdin"]
    assert Call("-").without_folders().complete("tracelens-graph tree TRACE") == "tracelens-graph tree TRACE"
    pair = Call("run/a.json", extensions=["x/ext.py", "y/ext.py"], et="et/a.json")
    assert pair.without_folders().complete("tracelens-graph ask TRACE") == (
        "tracelens-graph ask run/a.json --extension x/ext.py --extension y/ext.py --et et/a.json"
    )
    call = Call("/home/me/x.json", extensions=["/home/me/own.py", "module"], et="/home/me/et.json")
    assert call.without_folders().complete("tracelens-graph ask TRACE") == (
        "tracelens-graph ask x.json --extension own.py --extension module --et et.json"
    )


def test_what_goes_elsewhere_names_captures_from_the_folder_of_the_trace(tmp_path: Path) -> None:
    anywhere = Anywhere(capture=(str(tmp_path / "dumps/capture"), "/elsewhere/capture"), identify="/elsewhere/y.json")
    token = ANYWHERE.set(anywhere)
    try:
        line = Call(str(tmp_path / "x.json")).without_folders().complete("tracelens-graph ask phases TRACE")
    finally:
        ANYWHERE.reset(token)
    assert line == "tracelens-graph ask phases x.json --capture dumps/capture --capture capture --like y.json"
