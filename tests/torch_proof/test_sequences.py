"""Sequences run with PyTorch on a CPU: recorded again, they call the same operations on the same tensors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from recording import record_both
from torch.profiler import record_function
from workloads import WORKLOADS

from tracelens_graph.execution.link import tensors_of
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.sequence import SequencePlan, sequence
from tracelens_graph.replay.verify.verify import outermost_ops
from tracelens_graph.schema import Kind

QUICK = ("--device", "cpu", "--warmup", "1", "--iterations", "2")
Told = tuple[object, list[str], list[tuple[int, int, int]], list[int]]


def told(core: Core, rows: list[int]) -> list[Told]:
    """Of each call: signature, ops below, tensors by place, and storages; numbers count from the first one met."""
    c, known = core.columns, tensors_of(core)
    assert known is not None
    tensors: dict[int, int] = {}
    storages: dict[int, int] = {-1: -1}
    found = []
    for row in rows:
        code = int(c.argset[row])
        below = [core.names[c.name[one]] for one in range(row + 1, int(c.last[row]) + 1) if c.kind[one] == Kind.Op]
        of = known.lineage
        into, out = known.uses_at(row)
        # What has no dimensions may be a number of Python, which no tensor is kept of.
        uses = [use for use in into if of.uses.shapes[of.uses.shape[use]]] + out
        found.append(
            (
                (core.names[c.name[row]], core.argsets[code] if code >= 0 else ()),
                below,
                [
                    (
                        tensors.setdefault(int(of.tensor[use]), len(tensors)),
                        int(of.uses.position[use]),
                        int(of.uses.element[use]),
                    )
                    for use in uses
                ],
                [storages.setdefault(int(of.storage[use]), len(storages)) for use in uses],
            )
        )
    return found


def run(source: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(source)
    command = [sys.executable, "program.py", *QUICK, *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def recorded(name: str, folder: Path) -> Core:
    """A step of a workload, within an annotation, and its execution trace."""
    torch.manual_seed(0)
    step = WORKLOADS[name]()
    step()

    def whole() -> None:
        with record_function("whole step"):
            step()

    files = record_both(whole, folder, name)
    return load_core(str(files.trace), et=str(files.execution_trace))


def agreement(core: Core, plan: SequencePlan, folder: Path) -> tuple[Counter[str], int]:
    """How many calls of a sequence, run again, have the same signature, ops, tensors, storages; and how many it has."""
    source = plan.script()
    done = run(source, folder, "--profile", "again.json", "--execution-trace", "again.et.json", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    [result] = json.loads((folder / "out.json").read_text())
    again = load_core(str(folder / "again.json"), et=str(folder / "again.et.json"))
    rows = outermost_ops(again)
    rows = rows[np.argsort(again.columns.start_ns[rows], kind="stable")].tolist()
    ran = [step for at, step in enumerate(plan.steps) if at + 1 not in {one["step"] for one in result["failed"]}]
    assert len(rows) == len(ran)
    wanted = told(core, [core.row(step.plan.traced.uid) for step in ran])
    same: Counter[str] = Counter()
    for before, after in zip(wanted, told(again, rows), strict=True):
        for what, one, other in zip(("signature", "ops", "tensors", "storages"), before, after, strict=True):
            same[what] += one == other
    return same, len(plan.steps)


@pytest.mark.parametrize("name", ["cnn", "optimizers"])
def test_a_step_runs_again_on_the_same_tensors(name: str, tmp_path: Path) -> None:
    core = recorded(name, tmp_path)
    plan = sequence(core, "whole step")
    same, calls = agreement(core, plan, tmp_path)
    assert calls > 100
    assert min(same["signature"], same["ops"]) >= 0.995 * calls
    assert min(same["tensors"], same["storages"]) >= 0.995 * calls


def test_without_an_execution_trace_it_runs_on_tensors_of_its_own(tmp_path: Path) -> None:
    core = recorded("cnn", tmp_path)
    alone = sequence(load_core(str(tmp_path / "cnn.json")), "whole step")
    assert alone.linked is None
    # What has too long lists gives way to what it calls.
    assert len(alone.steps) >= len(sequence(core, "whole step").steps)
    done = run(alone.script(), tmp_path, "--each")
    assert done.returncode == 0, done.stderr
    assert "no execution trace was given: each operation has arguments of its own" in " ".join(done.stdout.split())
    assert done.stdout.count("aten::") >= len(alone.steps)
    assert max(map(len, done.stdout.splitlines())) <= 80


def main() -> None:
    """Print the agreement of all workloads: `python tests/torch_proof/test_sequences.py FOLDER`."""
    for name in [*sys.argv[2:]] or WORKLOADS:
        core = recorded(name, Path(sys.argv[1]))
        plan = sequence(core, "whole step")
        same, calls = agreement(core, plan, Path(sys.argv[1]))
        print(f"{name}: {calls} calls", dict(same), [one.line for one in plan.left_out])


if __name__ == "__main__":
    main()
