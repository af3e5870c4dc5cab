"""Programs of a folder that somebody else made do not run, whatever their index says."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from calls_to_replay import calls
from replay_plans import converted, mm, scaled

from tracelens_graph.extensions.replayer import Replayer
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.replay_plan import Argument
from tracelens_graph.replay.folder import INDEX, Program, read_folder, write_folder
from tracelens_graph.replay.plan_json import NotAPlanError
from tracelens_graph.replay.programs import sequence_program
from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.replay.sequence import sequence
from tracelens_graph.replay.verify.trust import ForeignProgramError, trusted

FROM_FILE = ReplayPlan(
    "aten::from_file", "",
    "aten::from_file(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    (Argument("filename", "str", "mine"), Argument("shared", "bool?", True), Argument("size", "int?", 5)),
)  # fmt: skip
CUSTOM = ReplayPlan("acme::f", "", "acme::f(int x) -> int", (Argument("x", "int", 1),), imports=("acme.ops",))
ACME = Replayer("acme::f(int x) -> int", ["acme.ops"])


def written(folder: Path, plan: ReplayPlan) -> Program:
    write_folder(folder, [Program.of(plan, "a.py")], "t")
    return read_folder(folder)[0]


@pytest.mark.parametrize("plan", [mm(), scaled((2,), (3, 4)), scaled(), converted()])
def test_what_is_written_may_run(plan: ReplayPlan, tmp_path: Path) -> None:
    assert trusted(written(tmp_path, plan), tmp_path) == (plan,)


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (FROM_FILE, "reaches files"),
        (CUSTOM, "imports acme.ops; give the extension"),
        (replace(CUSTOM, imports=()), "neither an operation of PyTorch"),
    ],
)
def test_what_reaches_out_is_refused(plan: ReplayPlan, why: str, tmp_path: Path) -> None:
    with pytest.raises(ForeignProgramError, match=why):
        trusted(written(tmp_path, plan), tmp_path)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.write_text(mm(8).script()), "not what is written for its plan"),
        (lambda path: path.write_text(path.read_text() + "# more\n"), "not what is written for its plan"),
        (lambda path: path.write_text("print()\n" + path.read_text()), "not what is written for its plan"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")), "not what is written for its plan"),
        (lambda path: path.write_text(path.read_text().replace("return 130", "return 131")), "not what is written"),
        (lambda path: path.write_bytes(b"\xff" * 9), "not what is written for its plan"),
        (_pipe, "no file"),
        (_folder, "no file|irectory"),
    ],
)
def test_what_is_not_as_written_is_refused(change: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    program = written(tmp_path, mm())
    change(tmp_path / "a.py")
    with pytest.raises((ForeignProgramError, OSError), match=why):
        trusted(program, tmp_path)


def test_operations_of_the_extension_that_is_given(tmp_path: Path) -> None:
    program = written(tmp_path, CUSTOM)
    assert trusted(program, tmp_path, [ACME]) == (CUSTOM,)
    with pytest.raises(ForeignProgramError, match="imports acme.ops"):
        trusted(program, tmp_path, [replace(ACME, imports=["other"])])


def test_a_sequence_calls_what_its_plans_do(tmp_path: Path) -> None:
    made = sequence(load_core(calls()), "aten::matmul")
    write_folder(tmp_path, [sequence_program(made)], "t")
    (program,) = read_folder(tmp_path)
    assert trusted(program, tmp_path) == made.plans
    program.plan["steps"][0]["plan"] = FROM_FILE.json()
    with pytest.raises(ForeignProgramError, match="reaches files"):
        trusted(replace(program), tmp_path)
    with pytest.raises(ForeignProgramError, match="not what is written"):
        trusted(replace(program, plan=[]), tmp_path)


@pytest.mark.parametrize("kind", ["sequence", "collectives", "triton", "instruction"])
def test_the_kind_is_that_of_the_program(kind: str, tmp_path: Path) -> None:
    write_folder(tmp_path, [Program.of(mm(), "a.py")], "t")
    index = json.loads((tmp_path / INDEX).read_text())
    index["operations"][0]["kind"] = kind
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises((ForeignProgramError, NotAPlanError)):
        trusted(read_folder(tmp_path)[0], tmp_path)
