"""Programs of a folder that somebody else made do not run, whatever their index says."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from calls_to_replay import calls
from replay_plans import converted, mm, scaled

from tracelens_graph.extensions.replayer import Replayer
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.arguments import Argument
from tracelens_graph.replay.check import ForeignProgramError
from tracelens_graph.replay.folder import Kind, Program, read_folder, write_folder
from tracelens_graph.replay.programs import sequence_program
from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.replay.script import script
from tracelens_graph.replay.sequence import sequence
from tracelens_graph.replay.verify import trust
from tracelens_graph.replay.verify.trust import examined

FROM_FILE = ReplayPlan(
    "aten::from_file", "",
    "aten::from_file(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    (Argument("filename", "str", "mine"), Argument("shared", "bool?", True), Argument("size", "int?", 5)),
)  # fmt: skip
CUSTOM = ReplayPlan("acme::f", "", "acme::f(int x) -> int", (Argument("x", "int", 1),), imports=("acme.ops",))
ACME = Replayer("acme::f(int x) -> int", ["acme.ops"])


def written(folder: Path, source: str, *plans: ReplayPlan, kind: Kind = "op") -> Program:
    write_folder(folder, [Program("a.py", kind, source, plans)], "t")
    return read_folder(folder)[0]


@pytest.mark.parametrize("plan", [mm(), scaled((2,), (3, 4)), scaled(), converted()])
def test_what_is_written_may_run(plan: ReplayPlan, tmp_path: Path) -> None:
    assert examined(written(tmp_path, script(plan), plan), tmp_path) == script(plan).encode()


@pytest.mark.parametrize(
    ("source", "plan", "why"),
    [
        (script(FROM_FILE), FROM_FILE, "reaches files"),
        (script(FROM_FILE), mm(), "reaches files"),
        (script(mm(8)), mm(), "not what is written for its plan"),
        (script(mm()) + "# more\n", mm(), "not what is written for its plan"),
        (script(mm()).replace("\n", "\r\n"), mm(), "not what is written for its plan"),
        (script(mm()) + "print()\n", mm(), "statements"),
        (script(CUSTOM), CUSTOM, "imports acme.ops; give the extension"),
        (script(replace(CUSTOM, imports=())), replace(CUSTOM, imports=()), "neither an operation of PyTorch"),
    ],
)
def test_what_is_not_is_refused(source: str, plan: ReplayPlan, why: str, tmp_path: Path) -> None:
    with pytest.raises(ForeignProgramError, match=why):
        examined(written(tmp_path, source, plan), tmp_path)


def test_operations_of_the_extension_that_is_given(tmp_path: Path) -> None:
    program = written(tmp_path, script(CUSTOM), CUSTOM)
    assert examined(program, tmp_path, [ACME]) == script(CUSTOM).encode()
    with pytest.raises(ForeignProgramError, match="imports acme.ops"):
        examined(program, tmp_path, [replace(ACME, imports=["other"])])


def test_a_sequence_calls_what_its_plans_do(tmp_path: Path) -> None:
    made = sequence_program(sequence(load_core(calls()), "aten::matmul"))
    source = made.source.encode()
    program = written(tmp_path, made.source, *made.plans, kind="sequence")
    assert examined(program, tmp_path) == source
    with pytest.raises(ForeignProgramError, match="no plan of it"):
        examined(replace(program, plans=()), tmp_path)
    for more in (b"aten.fill_.Scalar", b"aten.from_file.default"):
        (tmp_path / program.file).write_bytes(source.replace(b"aten.matmul.default", more))
        with pytest.raises(ForeignProgramError, match="other operations than those of its plans|reaches files"):
            examined(program, tmp_path)


@pytest.mark.parametrize("kind", ["sequence", "collectives", "triton", "batch"])
def test_the_kind_is_that_of_the_program(kind: Kind, tmp_path: Path) -> None:
    with pytest.raises(ForeignProgramError, match=f"of the kind op, and the index says {kind}"):
        examined(written(tmp_path, script(mm()), mm(), kind=kind), tmp_path)


def _larger(path: Path) -> None:
    path.write_text(script(mm()) + "#" * 200)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("change", "why"), [(_larger, "larger than"), (_pipe, "no file"), (_folder, "no file|irectory")]
)
def test_only_files_of_a_reasonable_size_are_read(
    change: Callable[[Path], None], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = written(tmp_path, script(mm()), mm())
    monkeypatch.setattr(trust, "_LARGEST", len(script(mm())))
    assert examined(program, tmp_path)
    change(tmp_path / program.file)
    with pytest.raises((ForeignProgramError, OSError), match=why):
        examined(program, tmp_path)
