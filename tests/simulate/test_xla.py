"""Simulated profiles of JAX: the loaded graph says what is true of them, whoever launched the kernels."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracelens_graph.analyses.ops.passes import forward_backward
from tracelens_graph.analyses.places.modules import modules
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.files import trace_files
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind, OwnerRule
from tracelens_graph.simulate.xla import Run, simulate, write
from tracelens_graph.simulate.xla.__main__ import main

SMALL: dict[str, Any] = {"batch": 2, "tokens": 64, "width": 128, "heads": 4, "vocabulary": 512}
VARIANTS: dict[str, dict[str, Any]] = {
    "one device": {"devices": 1},
    "two devices": {"devices": 2, "seed": 3},
    **{
        f"command buffers: {mode}": {"devices": 2, "command_buffers": mode}
        for mode in ("instructions", "launch", "unnamed", "whole")
    },
}
KNOWN = ("one device", "two devices", "command buffers: instructions")
"""Those in which every kernel can be charged to its own instruction."""


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[Run, Core]]:
    made = {name: simulate(**(SMALL | variant)) for name, variant in VARIANTS.items()}
    return {name: (run, load_core(run.profile)) for name, run in made.items()}


@pytest.fixture(params=list(VARIANTS))
def any_run(request: pytest.FixtureRequest, runs: dict[str, tuple[Run, Core]]) -> tuple[Run, Core]:
    return runs[request.param]


@pytest.fixture(params=KNOWN)
def known_run(request: pytest.FixtureRequest, runs: dict[str, tuple[Run, Core]]) -> tuple[Run, Core]:
    return runs[request.param]


def gpu_rows(run: Run) -> list[dict[str, Any]]:
    columns = run.truth["gpu_events"]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def test_gpu_events_are_as_simulated(any_run: tuple[Run, Core]) -> None:
    run, core = any_run
    c = core.columns
    origin = core.info.start_epoch_ns - core.info.metadata["baseTimeNanoseconds"]
    assert sorted(c.uid[core.gpu_rows].tolist()) == run.truth["gpu_events"]["uid"]
    for told in gpu_rows(run):
        row = core.row(told["uid"])
        assert (core.names[c.name[row]], Kind(c.kind[row]).name) == (told["name"], told["kind"])
        assert (c.device[row], c.stream[row]) == (told["device"], told["stream"])
        assert (c.start_ns[row] + origin, c.dur_ns[row]) == (told["start_ns"], told["duration_ns"])
        assert c.bytes[row] == (-(2**63) if told["bytes"] is None else told["bytes"])


def test_owners_are_what_can_be_known(any_run: tuple[Run, Core]) -> None:
    run, core = any_run
    c = core.columns
    for told in gpu_rows(run):
        row = core.row(told["uid"])
        owner = core.names[c.name[c.owner[row]]] if c.owner[row] >= 0 else None
        assert (owner, OwnerRule(c.owner_rule[row]).name) == (told["owner"], told["owner_rule"])


def test_time_of_instructions(any_run: tuple[Run, Core]) -> None:
    run, core = any_run
    c = core.columns
    charged: Counter[str] = Counter()
    for row in core.gpu_rows[c.owner[core.gpu_rows] >= 0].tolist():
        charged[core.names[c.name[c.owner[row]]]] += int(c.dur_ns[row])
    assert charged == run.truth["charged_ns"]


def test_launches_are_above_their_work(any_run: tuple[Run, Core]) -> None:
    run, core = any_run
    for told in gpu_rows(run):
        above, node = [], core.node(told["uid"]).parent
        while node is not None:
            above.append(node.uid)
            node = node.parent
        assert told["launch"] in above


def test_owners_ran_on_the_device_that_they_are_of(any_run: tuple[Run, Core]) -> None:
    _, core = any_run
    c = core.columns
    rows = core.gpu_rows[c.owner[core.gpu_rows] >= 0]
    threads = {(int(c.device[row]), core.threads[c.thread[c.owner[row]]][1]) for row in rows.tolist()}
    assert len(threads) == len({device for device, _ in threads}) == len({thread for _, thread in threads})


def test_scopes_hold_their_forward_pass(known_run: tuple[Run, Core]) -> None:
    run, core = known_run
    found: Counter[str] = Counter()
    for node in core.find(Kind.Module):
        path, above = [node.name], node.parent
        while above is not None:
            path += [above.name] if above.kind is Kind.Module else []
            above = above.parent
        found["/".join(reversed(path))] += int(core.gpu_sum_ns[core.row(node.uid)])
    assert found == run.truth["scopes_ns"]


def test_backward_instructions_belong_to_the_forward_pass_of_their_scope(known_run: tuple[Run, Core]) -> None:
    run, core = known_run
    c, told = core.columns, run.truth["instructions"]
    pairs = [
        (told[core.names[c.name[a]]], told[core.names[c.name[b]]])
        for a, b in zip(core.autograd.forward, core.autograd.backward, strict=True)
    ]
    assert all((a["pass"], b["pass"]) == ("forward", "backward") for a, b in pairs)
    assert all(a["scopes"] == b["scopes"] for a, b in pairs)
    assert len({*core.autograd.backward}) == sum(told[op.name]["pass"] == "backward" for op in core.find(Kind.Op))


def test_modules_say_what_is_of_no_known_pass(runs: dict[str, tuple[Run, Core]]) -> None:
    told = {
        name: [note for note in modules(core).notes if "of no known pass" in note] for name, (_, core) in runs.items()
    }
    _, core = runs["command buffers: unnamed"]
    kernels = core.gpu_rows[core.columns.kind[core.gpu_rows] == Kind.Kernel]
    ns = int(core.columns.dur_ns[kernels[core.columns.owner[kernels] < 0]].sum())
    assert [name for name, notes in told.items() if notes] == ["command buffers: unnamed"]
    assert told["command buffers: unnamed"][0].startswith(f"{ns / 1e6:.3f} ms of kernels")


def test_the_backward_pass_of_two_products_of_one_name_is_that_of_both(runs: dict[str, tuple[Run, Core]]) -> None:
    run, core = runs["one device"]
    ns: Counter[str] = Counter()
    for op in core.find(Kind.Op):
        ns[run.truth["instructions"][op.name]["op_name"]] += int(core.gpu_sum_ns[core.row(op.uid)])
    scope = "jvp(layer_0)"
    forward, backward = (ns[f"jit(train_step)/{part}/mlp/dot_general"] for part in (scope, f"transpose({scope})"))
    table = forward_backward(core)
    names = ("forward_us", "backward_us", "forward_calls", "backward_calls")
    rows = list(zip(*(np.asarray(table[name]).tolist() for name in names), strict=True))
    assert forward > 0
    assert (forward / 1e3, backward / 1e3, 4, 8) in rows


def test_instructions_have_their_shapes_and_flops(any_run: tuple[Run, Core]) -> None:
    run, core = any_run
    ops = core.find(Kind.Op)
    assert ops
    for op in ops:
        told = run.truth["instructions"][op.name]
        args = op.args
        dims = [[int(n) for n in shape.split("[")[1].split("]")[0].split(",")] for shape in told["operands"]]
        assert args["Input Dims"][: len(dims)] == dims
        assert args["Input type"][: len(dims)] == [shape.split("[")[0] for shape in told["operands"]]
        assert (args["opcode"], args.get("op_name", "")) == (told["opcode"], told["op_name"])
        if told["flops"]:
            assert args["Instruction"]["flops"] == told["flops"]


def test_steps(any_run: tuple[Run, Core]) -> None:
    run, core = any_run
    assert [step.name for step in core.steps()] == [f"train#{number}" for number, _, _ in run.truth["steps"]]
    c = core.columns
    for told in gpu_rows(run):
        step = core.step[core.row(told["uid"])]
        assert core.names[c.name[step]] == f"train#{told['step']}"


def test_it_is_written_as_jax_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = simulate(**SMALL)
    file = write(run, tmp_path / "one")
    assert [Path(found) for found in trace_files([str(file.parent)])] == [file]
    assert main([str(tmp_path / "two"), "--batch", "2", "--no-python-stacks", "--command-buffers", "launch"]) == 0
    assert "events on the GPU" in capsys.readouterr().out
    assert main([str(tmp_path / "three"), "--width", "100"]) == 1
    assert "not a multiple of heads" in capsys.readouterr().err
