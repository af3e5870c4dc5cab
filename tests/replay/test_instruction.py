"""Instructions of XLA as programs of JAX: what is planned, what is refused and why, and what the programs make."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from handmade_jax import training_profile
from made_hlo import BF16, F32, S32, U8, computation, dot_dims, instruction, packed, program, shape, tuple_of
from plain_xplane import Plane, block, number, written
from typer.testing import CliRunner

from corpus import CHECKOUT
from tracelens_graph.cli.app import app
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.xplane.arguments import argument_set
from tracelens_graph.loaders.xplane.hlo import read_program
from tracelens_graph.loading import load_core
from tracelens_graph.replay.check import ForeignProgramError, check
from tracelens_graph.replay.instruction import Array, InstructionPlan, plan_instruction
from tracelens_graph.replay.replay_plan import CannotReplay

HOSTILE = "dot.3\"]}\n'''; import os; os.system('x') #\\"
US = 1_000_000


def profile_of(opcode: str, of: bytes, operands: Sequence[bytes], more: bytes = b"", name: str = "op.1") -> Core:
    """A profile of one instruction, with a kernel."""
    given = [instruction(i, f"p{i}", "parameter", one) for i, one in enumerate(operands, 1)]
    body = computation(
        1, "body", 93, instruction(91, "a", "parameter", shape(F32)), instruction(92, "b", "parameter", shape(F32)),
        instruction(93, "sum", "add", shape(F32), [91, 92]),
    )  # fmt: skip
    last = instruction(50, name, opcode, of, range(1, len(operands) + 1), calls=[1] * (opcode == "reduce"), more=more)
    programs, device, host = Plane("/host:metadata"), Plane("/device:GPU:0"), Plane("/host:CPU")
    programs.program(3, "jit_f(3)", program("jit_f", 2, body, computation(2, "main", 50, *given, last)))
    told = {"hlo_op": f"&{name}", "program_id": 3}
    device.line(7, "Stream #7", 0, device.event("kernel", 50 * US, 7 * US, correlation_id=1, **told))
    host.line(1, "python", 0, host.event("launch", 0, US, correlation_id=1))
    return load_core(written(programs, device, host))


def plan(core: Core) -> InstructionPlan:
    (op,) = core.find("Op")
    return plan_instruction(core, core.row(op.uid))


CONVOLUTION = block(15, b"".join(block(1, number(1, 3) + number(2, 2) + number(3, 1) + number(4, 1)) for _ in "hw")) + (
    block(
        16,
        number(3, 2) + number(4, 3) + packed(6, [0, 1]) + number(7, 0) + number(8, 3) + packed(11, [1, 2])
        + number(9, 0) + number(10, 3) + packed(12, [1, 2]),
    )
)  # fmt: skip
"""Three by three with stride 2, padded by one: batch, height, width, channels."""

X, W, Y = shape(F32, 2, 9, 9, 4), shape(F32, 3, 3, 4, 8), shape(F32, 2, 5, 5, 8)
SQUARE = shape(F32, 6, 5)

CASES: dict[str, tuple[Any, ...]] = {
    "dot": ("dot", shape(F32, 3, 4, 6), [shape(BF16, 3, 5, 4), shape(BF16, 3, 5, 6)],
            block(30, packed(1, [1]) + packed(2, [1]) + packed(3, [0]) + packed(4, [0]))),
    "convolution": ("convolution", Y, [X, W], CONVOLUTION),
    "library convolution": ("custom-call", tuple_of(Y, shape(U8, 99)), [X, W],
                            CONVOLUTION + block(28, "__cudnn$convForward")),
    "reduce": ("reduce", shape(F32, 6), [SQUARE, shape(F32)], packed(14, [1])),
    "tanh": ("tanh", SQUARE, [SQUARE]),
    "select": ("select", SQUARE, [shape(1, 6, 5), SQUARE, SQUARE]),
    "convert": ("convert", shape(S32, 6, 5), [SQUARE]),
    "transpose": ("transpose", shape(F32, 5, 6), [SQUARE], packed(14, [1, 0])),
    "broadcast": ("broadcast", shape(F32, 4, 6, 5), [SQUARE], packed(14, [1, 2])),
    "concatenate": ("concatenate", shape(F32, 6, 10), [SQUARE, SQUARE], packed(14, [1])),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_computed_is_planned_and_its_program_passes_the_check(name: str) -> None:
    opcode, *_ = CASES[name]
    made = plan(profile_of(*CASES[name]))
    assert made.opcode == ("convolution" if name == "library convolution" else opcode)
    assert check(made.script()).kind == "instruction"
    assert bool(made.assumed) == (name == "library convolution")


def test_a_plan_has_shapes_types_and_dimensions() -> None:
    made = plan(profile_of(*CASES["dot"]))
    assert made.operands == (Array((3, 5, 4), "bf16"), Array((3, 5, 6), "bf16"))
    assert made.result == Array((3, 4, 6), "f32")
    assert made.call == {"dims": [[1], [1], [0], [0]]}
    made = plan(profile_of(*CASES["convolution"]))
    assert made.call["dims"] == [[0, 3, 1, 2], [3, 2, 0, 1], [0, 3, 1, 2]]
    assert (made.call["stride"], made.call["pad"]) == ([2, 2], [[1, 1], [1, 1]])


@pytest.mark.parametrize(
    ("opcode", "more", "why"),
    [
        ("fusion", b"", "a fusion: what is in it is not told in full"),
        ("while", b"", "control flow"),
        ("all-reduce", b"", "a collective"),
        ("custom-call", block(28, "te_fused_attn_forward"), "attention of a library"),
        ("custom-call", block(28, "lapack_ssyevd"), "a call of a library"),
        ("fft", b"", "no replay of fft"),
    ],
)
def test_what_cannot_be_replayed_says_why(opcode: str, more: bytes, why: str) -> None:
    with pytest.raises(CannotReplay) as told:
        plan(profile_of(opcode, SQUARE, [SQUARE], more))
    assert told.value.reason == why


def test_arrays_beyond_measure_and_of_unknown_types_are_refused() -> None:
    with pytest.raises(CannotReplay, match="larger than any memory"):
        plan(profile_of("tanh", shape(F32, 2**40), [shape(F32, 2**40)]))
    with pytest.raises(CannotReplay, match="no array of JAX is of type s4"):
        plan(profile_of("tanh", shape(21, 8), [shape(21, 8)]))


def test_hostile_names_stay_data() -> None:
    source = plan(profile_of("tanh", SQUARE, [SQUARE], name=HOSTILE)).script()
    assert source.isascii()
    assert check(source).kind == "instruction"
    assert "\nimport os" not in source


@pytest.mark.parametrize(
    ("old", "new"),
    [('"how": {}', '"how": __import__("os").getcwd()'), ("    return 0", "    return 1"), ('"tanh"', "print(1)")],
)
def test_a_program_that_was_changed_is_told_apart(old: str, new: str) -> None:
    source = plan(profile_of("tanh", SQUARE, [SQUARE])).script()
    assert source.count(old)
    with pytest.raises(ForeignProgramError):
        check(source.replace(old, new, 1))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "step.xplane.pb").write_bytes(training_profile())
    return tmp_path


def test_the_command_lists_and_writes(folder: Path) -> None:
    trace, target = str(folder / "step.xplane.pb"), str(folder / "programs")
    listed = CliRunner().invoke(app, ["replay", trace, "-f", "csv"]).output.splitlines()
    assert len(listed) == 4
    assert sum("a fusion: what is in it" in line for line in listed) == 1
    covered = CliRunner().invoke(app, ["replay", trace, "--table", "replay_coverage", "-f", "csv"]).output
    assert 'no,"a copy, or other work of no instruction",\n' in covered
    done = CliRunner().invoke(app, ["replay", trace, "-o", target])
    assert done.exit_code == 0, done.output
    files = sorted(path.name for path in Path(target).glob("*.py"))
    assert [name[:9] for name in files] == ["001_dot_5", "002_dot_3"]
    assert "verify" not in done.output
    refused = CliRunner().invoke(app, ["replay", trace, "-o", target, "--batch"])
    assert "of profiles of JAX there are programs of one instruction each" in " ".join(refused.output.split())


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_programs_make_what_was_traced(name: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    made = plan(profile_of(*CASES[name]))
    (tmp_path / "it.py").write_text(made.script())
    done = subprocess.run(
        [sys.executable, tmp_path / "it.py", "--calls", "2", "--json", tmp_path / "out.json"], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (result,) = json.loads((tmp_path / "out.json").read_text())
    assert (tuple(result["shape"]), result["calls"]) == (made.result.dims, 2)


PROGRAM = """
import json, sys, jax
jax.config.update("jax_enable_x64", True)
wrong = 0
for source in json.load(sys.stdin):
    it = {"__name__": "it"}
    exec(source, it)
    told, made = it["INSTRUCTION"], it["INSTRUCTION"]["result"]
    given = [jax.ShapeDtypeStruct(tuple(one["dims"]), it["TYPES"][one["type"]]) for one in told["operands"]]
    found = jax.eval_shape(it["compute"], *given)
    wrong += (list(found.shape), found.dtype.name) != (made["dims"], it["TYPES"][made["type"]])
print(wrong)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["costs.zip", "unseen.zip"])
def test_programs_of_compiled_functions_make_the_shapes_of_their_instructions(kept: str) -> None:
    pytest.importorskip("jax")
    sources = {}
    with zipfile.ZipFile(CHECKOUT / "tests/graph/hlo" / kept) as archive:
        for name in archive.namelist():
            if name.endswith(".hlo"):
                proto = block(1, archive.read(name))
                found = read_program(proto, 0, len(proto), 1)
                for one in found.instructions.values():
                    columns = SimpleNamespace(argset=[0], name=[0])
                    core: Any = SimpleNamespace(columns=columns, argsets=[argument_set(found, one)], names=[one.name])
                    with suppress(CannotReplay):
                        made = plan_instruction(core, 0)
                        sources[made.file_name(1).rpartition("_")[2]] = made.script()
    assert len(sources) > 100
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(list(sources.values())), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert int(done.stdout) == 0


def test_a_dot_is_told_apart_by_its_dimensions() -> None:
    square = shape(F32, 5, 5)
    one, other = (plan(profile_of("dot", square, [square, square], dot_dims([1], [at]))) for at in (0, 1))
    assert one.file_name(1) != other.file_name(1)
