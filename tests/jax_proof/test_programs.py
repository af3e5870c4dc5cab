"""What programs of JAX make of instructions of XLA, where JAX is."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from instructions_to_replay import CASES, plan, profile_of
from plain_xplane import block

from corpus import CHECKOUT
from tracelens_graph.errors import CannotReplay
from tracelens_graph.loaders.xplane.hlo import read_program
from tracelens_graph.loaders.xplane.programs import instruction_arguments
from tracelens_graph.replay.folder import program_name
from tracelens_graph.replay.instruction import plan_instruction


@pytest.mark.parametrize("name", CASES)
def test_programs_make_what_was_traced(name: str, tmp_path: Path) -> None:
    made = plan(profile_of(*CASES[name]))
    (tmp_path / "it.py").write_text(made.script())
    done = subprocess.run(
        [sys.executable, tmp_path / "it.py", "--iterations", "2", "--json", tmp_path / "out.json"], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (result,) = json.loads((tmp_path / "out.json").read_text())
    assert (tuple(result["shape"]), result["iterations"]) == (made.result.shape, 2)


PROGRAM = """
import json, sys, jax
jax.config.update("jax_enable_x64", True)
wrong = 0
for source in json.load(sys.stdin):
    it = {"__name__": "it"}
    exec(source, it)
    told, made = it["PLAN"], it["PLAN"]["result"]
    given = [jax.ShapeDtypeStruct(tuple(one["dims"]), one["dtype"]) for one in told["operands"]]
    found = jax.eval_shape(it["compute"], *given)
    wrong += (list(found.shape), found.dtype.name) != (made["dims"], made["dtype"])
print(wrong)
"""


@pytest.mark.parametrize("kept", ["costs.zip", "unseen.zip"])
def test_programs_of_compiled_functions_make_the_shapes_of_their_instructions(kept: str) -> None:
    sources = {}
    with zipfile.ZipFile(CHECKOUT / "tests/hlo" / kept) as archive:
        for name in archive.namelist():
            if name.endswith(".hlo"):
                proto = block(1, archive.read(name))
                found = read_program(proto, 0, len(proto), 1)
                for one in found.instructions.values():
                    columns = SimpleNamespace(argset=[0], name=[0])
                    argset, facts = instruction_arguments(found, one)
                    core: Any = SimpleNamespace(
                        columns=columns, argsets=[argset], instructions=[facts], names=[one.name]
                    )
                    core.once = lambda derive, core=core: derive(core)
                    with suppress(CannotReplay):
                        made = plan_instruction(core, 0)
                        sources[program_name(made, 1).rpartition("_")[2]] = made.script()
    assert len(sources) > 100
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps(list(sources.values())), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert int(done.stdout) == 0
