"""The round trip: what may run, every outcome, and what its row says."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace as with_field
from pathlib import Path
from typing import Any

import fake_torch
import pytest
from fake_torch import call, profile, writing
from msgspec.structs import replace
from recorded_calls import calls
from replay_plans import converted, mm, scaled

from tracelens_graph.errors import ForeignProgramError
from tracelens_graph.extensions.extension import Replayer
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.folder import INDEX, Program, read_folder, write_folder
from tracelens_graph.replay.replay_plan import Argument, Launch, Recorded, ReplayPlan, TensorValue, Traced
from tracelens_graph.replay.sequence import sequence
from tracelens_graph.replay.tables import OUTCOMES
from tracelens_graph.replay.verify import verify as verifying
from tracelens_graph.replay.verify.processes import Ran
from tracelens_graph.replay.verify.verify import Observed, Outcome, compared, trusted, verify
from tracelens_graph.tables.table import Table

DIMS = ((4, 8), (8, 2))
TYPES = ("float", "float")
MM = ReplayPlan(
    "aten::mm", "", "aten::mm(Tensor self, Tensor mat2) -> Tensor",
    (
        Argument("self", "Tensor", TensorValue((4, 8), "float32")),
        Argument("mat2", "Tensor", TensorValue((8, 2), "float32")),
    ),
    recorded=Recorded(DIMS, TYPES, ((8, 1), (2, 1)), ("", "")), traced=Traced(uid=7, children=("aten::empty",)),
)  # fmt: skip
LACKING = Replayer("lib::f(int x) -> int", imports=("no_such_module",))
OTHERS = {"other kernel", "no torch", "no jax", "not run", "ran", "reference", "equal shapes"}
"""Outcomes that have tests of their own."""
AS_TRACED = call("aten::mm", DIMS, TYPES, ["aten::empty"])


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """There is PyTorch, and every script is as it was written unless it says that it is not."""
    monkeypatch.setenv("PYTHONPATH", str(fake_torch.install(tmp_path)))
    accept(monkeypatch)
    return tmp_path


def accept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are what their headings say."""
    monkeypatch.setattr("tracelens_graph.replay.folder.program", lambda kind, about, plan: about)


def verified(folder: Path, *programs: Program, edited: str = "", **options: Any) -> Table:
    write_folder(folder / "scripts", programs, "trace.json")
    if edited:
        (folder / "scripts" / edited).write_text("edited")
    return verify(folder / "scripts", **options)


def program(number: int, source: str, *plans: ReplayPlan, kind: Any = "full") -> Program:
    told: list[Any] = [one.json() for one in plans or (MM,)]
    form: dict[str, Any] = {"sequence": {"steps": [{"plan": one} for one in told]}}
    return Program(f"{number:03d}.py", kind, source, form.get(kind, told))


def test_every_outcome(torch: Path) -> None:
    assumed = replace(MM, positional=(replace(MM.positional[0], assumed="dense"), MM.positional[1]))
    on_gpu = replace(MM, traced=replace(MM.traced, kernels=("gemm",), gpu="H100"))
    calls = [
        ("equal", MM, AS_TRACED, ""),
        ("equal but assumed", assumed, AS_TRACED, "self: dense"),
        ("equal arguments", on_gpu, AS_TRACED, ""),
        ("new sizes", replace(MM, traced=replace(MM.traced, uid=-1)), AS_TRACED, ""),
        ("no library", replace(MM, imports=("no_such_module",)), AS_TRACED, "No module named 'no_such_module'"),
        ("other children", MM, {**AS_TRACED, "children": ["aten::zeros"]}, "op 1 of 1: aten::zeros, not aten::empty"),
        ("other children", MM, {**AS_TRACED, "children": []}, "op 1: aten::empty is missing"),
        ("other arguments", MM, call("aten::mm", [[4, 8], [8, 3]], TYPES), "sizes of mat2: [8, 3], not [8, 2]"),
        ("other arguments", MM, call("aten::mm", DIMS, ["float", "double"]), "type of mat2: double, not float"),
        ("other arguments", MM, call("aten::mm", DIMS[:1], TYPES[:1]), "1 arguments are recorded, not 2"),
        ("other arguments", MM, call("aten::bmm", DIMS, TYPES), "aten::bmm ran"),
    ]
    programs = [program(at, writing(profile(made)), plan) for at, (_, plan, made, _) in enumerate(calls)]
    programs += [
        program(20, "import sys\nprint('aten::mm: no memory', file=sys.stderr)\nsys.exit(1)\n"),
        program(21, "pass\n"),
        program(22, ""),
        program(23, "", replace(MM, launch=Launch("gemm", "gemm_source.py", (1, 1, 1)))),
        program(24, "", kind="collectives"),
    ]
    table = verified(torch, *programs, edited="022.py", replayers=[LACKING])
    rows = {one["file"]: (one["outcome"], one["why"]) for one in table.records()}
    expected = {f"{at:03d}.py": (outcome, why) for at, (outcome, _, _, why) in enumerate(calls)}
    assert {file: rows[file] for file in expected} == expected
    assert rows["020.py"] == ("failed", "aten::mm: no memory")
    assert rows["021.py"][0] == "failed"
    assert "profile" in rows["021.py"][1]
    assert rows["022.py"] == ("refused", "it is not what is written for its plan")
    assert [rows[f"{at:03d}.py"][0] for at in (23, 24)] == ["not filled", "needs ranks"]
    assert {outcome for outcome, _ in rows.values()} == OUTCOMES.keys() - OTHERS
    assert "3 other arguments" not in table.title
    assert "4 other arguments" in table.title
    assert "other children: other ops below" in table.notes


def test_kernels_are_compared_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_torch.install(tmp_path, on_gpu=True)))
    accept(monkeypatch)
    on_gpu = replace(MM, traced=replace(MM.traced, kernels=("gemm", "split"), gpu="H100"))
    of_cpu = program(3, writing(profile({**AS_TRACED, "kernels": ["gemm"]})))
    made = [{**AS_TRACED, "kernels": kernels} for kernels in (["gemm", "split"], ["gemm", "sum"], ["gemm"])]
    table = verified(tmp_path, *(program(at, writing(profile(one)), on_gpu) for at, one in enumerate(made)), of_cpu)
    assert [(one["outcome"], one["kernels"], one["why"]) for one in table.records()] == [
        ("equal", "equal", ""),
        ("other kernel", "other", "kernel 2 of 2: sum, not split"),
        ("other kernel", "other", "kernel 2: split is missing"),
        ("equal arguments", "not compared", ""),
    ]


def test_an_operation_that_leads_to_the_traced_one_is_held_against_what_is_below_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_torch.install(tmp_path, on_gpu=True)))
    accept(monkeypatch)
    traced = replace(MM.traced, kernels=("gemm",), gpu="H100", within="lib::mm", children=("lib::part",))
    plan = replace(MM, traced=traced)
    made = [
        {**AS_TRACED, "kernels": ["gemm"], "children": children}
        for children in (["aten::_mm", "lib::mm", "lib::part"], ["aten::_mm"], ["lib::mm", "lib::other"])
    ]
    table = verified(tmp_path, *(program(at, writing(profile(one)), plan) for at, one in enumerate(made)))
    assert [(one["outcome"], one["why"]) for one in table.records()] == [
        ("equal", ""),
        ("other children", "lib::mm was not called"),
        ("other children", "op 1 of 1: lib::other, not lib::part"),
    ]


def test_a_script_of_several_operations_has_a_row_for_each(torch: Path) -> None:
    both = writing(profile(AS_TRACED, {**AS_TRACED, "children": []}))
    table = verified(torch, program(1, both, MM, MM, kind="sequence"), program(2, both, MM))
    assert [(one["file"], one["outcome"], one["seconds"] is None) for one in table.records()] == [
        ("001.py", "equal", False), ("001.py", "other children", True), ("002.py", "other arguments", False),
    ]  # fmt: skip
    assert table.records()[2]["why"] == "2 operations are recorded, not 1"


def test_what_an_older_pytorch_does_not_record_is_said() -> None:
    seen = Observed("aten::mm", Recorded(DIMS, TYPES, (), ("", "")), ("aten::empty",))
    assert compared(MM, seen, False) == Outcome("equal", "equal", "equal", "not compared", "strides not recorded")
    other = compared(MM, Observed("aten::mm", Recorded(DIMS, ("float", "double"), (), ("", ""))), False)
    assert (other.outcome, other.why) == ("other arguments", "type of mat2: double, not float")
    schema = "aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor"
    arguments = (MM.positional[0], Argument("dim", "int", 1), Argument("dtype", "ScalarType?", None))
    recorded = Recorded(((4, 8), (), ()), ("float", "Scalar", ""), ((8, 1), (), ()), ("", "1", ""))
    plan = ReplayPlan("aten::softmax", "int", schema, arguments, recorded=recorded, traced=MM.traced)
    older = Recorded(((4, 8), ()), ("float", "Scalar"), ((8, 1), ()), ("", "1"))
    ran = compared(plan, Observed("aten::softmax", older, ("aten::empty",)), False)
    assert (ran.outcome, ran.why) == ("equal", "dtype not recorded")
    one = Recorded(((4, 8),), ("float",), ((8, 1),), ("",))
    assert compared(plan, Observed("aten::softmax", one), False).why == "1 arguments are recorded, not 3"


def test_a_size_that_the_trace_does_not_have_is_equal_in_its_arguments_alone() -> None:
    seen = Observed("aten::mm", MM.recorded, ("aten::empty",))
    assert compared(replace(MM, traced=Traced(calls=0)), seen, False).outcome == "new sizes"
    other = Observed("aten::mm", replace(MM.recorded, dims=((9, 8), (8, 2))))
    assert compared(replace(MM, traced=Traced(calls=0)), other, False).outcome == "other arguments"


def test_instructions_compare_their_results_themselves(torch: Path) -> None:
    (torch / "jax.py").write_text("__version__ = '0'\n\n\ndef default_backend():\n    return 'cpu'\n")
    sources = ["import jax\n", "import sys\nsys.exit('gives float32[3], which is not what was traced')\n"]
    plan = [{"op": "dot.3", "assumed": ["operands: lie row by row"]}]
    table = verified(torch, *(Program(f"{at}.py", "instruction", one, plan) for at, one in enumerate(sources)))
    assert [(one["op"], one["outcome"], one["arguments"], one["why"]) for one in table.records()] == [
        ("dot.3", "equal shapes", "not compared", "operands: lie row by row"),
        ("dot.3", "failed", "not compared", "gives float32[3], which is not what was traced"),
    ]


def test_without_jax_that_is_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accept(monkeypatch)
    (tmp_path / "jax.py").write_text("raise ImportError(\"No module named 'jax'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    table = verified(tmp_path, Program("1.py", "instruction", "", [{}]))
    assert table["outcome"] == ["no jax"]


def test_a_library_that_is_missing_is_replaced_by_plain_torch_where_that_is_asked_for(torch: Path) -> None:
    """The fake program says with what it was called."""
    library = replace(MM, imports=("no_such_module",))
    source = "import sys\nassert '--reference' in sys.argv\n" + writing(profile({**AS_TRACED, "children": ["other"]}))
    programs = program(1, source, library), program(2, source.replace("assert", "assert not"), MM)
    given: dict[str, Any] = {"replayers": [LACKING]}
    assert verified(torch, *programs, **given)["outcome"] == ["no library", "other children"]
    assert verified(torch, *programs, **given, reference=True)["outcome"] == ["reference", "other children"]
    changed = replace(library, recorded=replace(MM.recorded, dims=((9, 8), (8, 2))))
    assert verified(torch, program(1, source, changed), **given, reference=True)["outcome"] == ["other arguments"]


def test_of_a_sequence_kernels_without_their_source_are_not_compared(torch: Path) -> None:
    kernel = replace(MM, launch=Launch("gemm", "gemm_source.py", (1, 1, 1)))
    table = verified(torch, program(1, writing(profile(AS_TRACED)), MM, kernel, kind="sequence"))
    assert table["outcome"] == ["equal", "not filled"]


def test_of_a_batch_each_operation_runs_alone(torch: Path) -> None:
    other = replace(MM, op="aten::bmm", schema=MM.schema.replace("aten::mm", "aten::bmm"))
    table = verified(torch, program(1, writing(profile(AS_TRACED)), MM, other, kind="full"))
    assert [(one["file"], one["op"], one["outcome"], one["why"]) for one in table.records()] == [
        ("001.py", "aten::mm", "equal", ""),
        ("001.py", "aten::bmm", "other arguments", "aten::mm ran"),
    ]


def test_a_crash_and_a_standstill_lose_one_script_each(torch: Path) -> None:
    good = writing(profile(AS_TRACED))
    sources = [good, "import os\nos.abort()\n", good, "import time\ntime.sleep(99)\n", good]
    done: list[tuple[int, int]] = []
    table = verified(
        torch, *(program(at, source) for at, source in enumerate(sources)), timeout_s=1.5,
        progress=lambda *at: done.append(at),
    )  # fmt: skip
    assert [one["outcome"] for one in table.records()] == ["equal", "failed", "equal", "failed", "equal"]
    assert [one["why"] for one in table.records()][1::2] == ["was killed by SIGABRT", "took longer than 1.5 s"]
    assert done == [(at, 5) for at in range(1, 6)]


def test_without_torch_the_rest_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    accept(monkeypatch)
    (tmp_path / "torch.py").write_text("raise ImportError(\"No module named 'torch'\")\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    table = verified(tmp_path, program(1, ""), program(2, ""), program(3, "", kind="collectives"), edited="002.py")
    assert [one["outcome"] for one in table.records()] == ["no torch", "refused", "needs ranks"]
    assert table.notes[-1].endswith(
        "No module named 'torch'; name an interpreter that has PyTorch: --python /path/to/python"
    )
    assert sys.executable in table.notes[-1]


def test_scripts_are_checked_before_they_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_torch.install(tmp_path)))
    ran = tmp_path / "ran"
    write_folder(tmp_path / "scripts", [Program.of(MM, "001.py", full=True), Program.of(MM, "002.py")], "trace.json")
    (tmp_path / "scripts/002.py").unlink()
    with open(tmp_path / "scripts/001.py", "a") as file:
        file.write(f"open({str(ran)!r}, 'w')\n")
    table = verify(tmp_path / "scripts")
    assert [one["outcome"] for one in table.records()] == ["refused", "refused"]
    assert table["op"] == ["aten::mm", "aten::mm"]
    assert table.records()[1]["why"] == "no such file or directory"
    assert not ran.exists()


def test_a_plan_that_cannot_be_read_loses_its_script_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_torch.install(tmp_path)))
    monkeypatch.setattr(verifying, "run_scripts", lambda scripts, *_: (Ran("cpu", 1, "it ran") for _ in scripts))
    folder = tmp_path / "scripts"
    write_folder(folder, [Program.of(MM, "001.py", full=True), Program.of(MM, "002.py", full=True)], "trace.json")
    index = json.loads((folder / INDEX).read_text())
    index["operations"][0]["plan"][0]["positional"]["self\n"] = None
    (folder / INDEX).write_text(json.dumps(index))
    refused, ran = verify(folder).records()
    assert (refused["outcome"], refused["why"].startswith("positional: ")) == (
        "refused", True
    )  # fmt: skip
    assert (ran["outcome"], ran["why"]) == ("failed", "it ran")


def test_more_memory_than_there_is_is_not_asked_for(torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = replace(MM, positional=(replace(MM.positional[0], value=TensorValue((1 << 30, 8), "float32")),))
    monkeypatch.setattr(verifying, "memory_bytes", lambda: 1 << 30)
    source = writing(profile(AS_TRACED))
    rows = verified(torch, program(1, source, MM), program(2, source, large)).records()
    assert [one["outcome"] for one in rows] == ["equal", "not run"]
    assert rows[1]["why"] == "its tensors need 34.4 GB, and this machine has 1.1 GB"


@pytest.mark.parametrize("part", ["dims", "types", "strides", "values"])
def test_what_the_trace_does_not_tell_is_not_compared(part: str) -> None:
    silent = replace(MM, recorded=replace(MM.recorded, **{part: ()}))
    other: Sequence[Any] = ("other",) * 2
    seen = Observed("aten::mm", replace(MM.recorded, **{part: other}), ("aten::empty",), ())
    assert compared(silent, seen, on_gpu=False).outcome == "equal"
    assert compared(MM, seen, on_gpu=False).outcome == "other arguments"


# --- Programs of a folder that somebody else made do not run, whatever their index says

FROM_FILE = ReplayPlan(
    "aten::from_file", "",
    "aten::from_file(str filename, bool? shared=None, int? size=0, *, ScalarType? dtype=None, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    (Argument("filename", "str", "mine"), Argument("shared", "bool?", True), Argument("size", "int?", 5)),
)  # fmt: skip
CUSTOM = ReplayPlan("acme::f", "", "acme::f(int x) -> int", (Argument("x", "int", 1),), imports=("acme.ops",))


def written(folder: Path, plan: ReplayPlan, full: bool = False) -> Program:
    write_folder(folder, [Program.of(plan, "a.py", full)], "t")
    return read_folder(folder)[0]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("plan", [mm(), scaled((2,), (3, 4)), scaled(), converted()])
def test_what_is_written_may_run(plan: ReplayPlan, full: bool, tmp_path: Path) -> None:
    program = written(tmp_path, plan, full)
    assert program.kind == ("full" if full else "op")
    assert trusted(program, tmp_path) == (plan,)


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
        (lambda path: path.write_text(mm().script(full=True)), "not what is written for its plan"),
        (lambda path: path.write_text(path.read_text() + "# more\n"), "not what is written for its plan"),
        (lambda path: path.write_text("print()\n" + path.read_text()), "not what is written for its plan"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")), "not what is written for its plan"),
        (lambda path: path.write_text(path.read_text().replace("[10:]", "[11:]")), "not what is written"),
        (lambda path: path.write_bytes(b"\xff" * 9), "not what is written for its plan"),
        (_pipe, "not a file"),
        (_folder, "not a file|irectory"),
    ],
)
def test_what_is_not_as_written_is_refused(change: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    program = written(tmp_path, mm())
    change(tmp_path / "a.py")
    with pytest.raises((ForeignProgramError, OSError), match=why):
        trusted(program, tmp_path)


def test_a_sequence_calls_what_its_plans_do(tmp_path: Path) -> None:
    made = sequence(load_core(calls()), "aten::matmul")
    write_folder(tmp_path, [Program.of(made, made.file_name)], "t")
    (program,) = read_folder(tmp_path)
    assert trusted(program, tmp_path) == made.plans
    program.plan["steps"][0]["plan"] = FROM_FILE.json()
    with pytest.raises(ForeignProgramError, match="reaches files"):
        trusted(with_field(program), tmp_path)
    with pytest.raises(ForeignProgramError, match="not what is written"):
        trusted(with_field(program, plan=[]), tmp_path)
