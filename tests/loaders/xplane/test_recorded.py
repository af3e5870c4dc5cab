"""Profiles that JAX recorded on the CPU, beside the text of the programs that ran: each instruction and its shapes."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import plain_xplane as plain
import pytest

from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind

RECORDED = Path(__file__).parent / "recorded.zip"
RUNS = 2
LOOPS = {"scan": 3, "pallas": 4, "shard_map": 1}
DEVICES = {"scan": 1, "pallas": 1, "shard_map": 4}
"""Functions: how often the bodies of their loops run, and on how many devices they do."""

FREE = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")
"""Instructions for which XLA's runtime has nothing to do."""


class Written(NamedTuple):
    """An instruction as a program's text has it."""

    computation: str
    shape: str
    opcode: str
    operands: list[str]
    called: list[str]


def program(text: str) -> tuple[dict[str, Written], str]:
    """The instructions of a text by name, and the name of its entry computation."""
    found, computation, entry = {}, "", ""
    for line in text.splitlines():
        if head := re.match(r"(ENTRY )?%(\S+) \(.*\{$", line):
            computation = head[2]
            entry = computation if head[1] else entry
        elif one := re.match(r"\s+(?:ROOT )?%(\S+) = (\(.*?\)|\S+) ([\w-]+)\((.*?)\)(.*)", line):
            names = re.findall(r"%([\w.-]+)", one[4])
            called = re.findall(r"(?:body|condition)=%([\w.-]+)", one[5])
            found[one[1]] = Written(computation, one[2], one[3], names, called)
    return found, entry


def runs(instructions: dict[str, Written], entry: str, loops: int) -> dict[str, int]:
    """Computations that the runtime walks through -> how often it does, in one run. Conditions have no events."""
    times = {entry: 1}
    for one in instructions.values():
        if one.opcode == "while" and one.computation in times:
            times[one.called[1]] = times[one.computation] * loops
    return times


@cache
def recorded(name: str) -> tuple[Core, dict[str, Written], str]:
    with zipfile.ZipFile(RECORDED) as archive:
        core = load_core(archive.read(f"{name}.xplane.pb"))
        return core, *program(archive.read(f"{name}.hlo.txt").decode())


@pytest.mark.parametrize("name", LOOPS)
def test_every_instruction_ran_as_often_as_the_program_says(name: str) -> None:
    core, instructions, entry = recorded(name)
    times = runs(instructions, entry, LOOPS[name])
    expected = {
        key: RUNS * DEVICES[name] * times[one.computation]
        for key, one in instructions.items()
        if one.computation in times and one.opcode not in FREE
    }
    assert len(expected) > 5
    assert Counter(one.name for one in core.find(Kind.Op)) == expected


@pytest.mark.parametrize("name", LOOPS)
def test_every_instruction_has_the_shapes_of_the_program(name: str) -> None:
    core, instructions, _ = recorded(name)
    for op in core.find(Kind.Op):
        one = instructions[op.name]
        result = spelled(op.args["Instruction"]["result"])
        assert (op.args["opcode"], result) == (one.opcode, spelled(one.shape)[: len(result)])
        arrays = re.findall(r"(\w+)\[([\d,]*)\]", " ".join(instructions[name].shape for name in one.operands))
        dims = [[int(size) for size in sizes.split(",") if size] for _, sizes in arrays]
        assert op.args["Input Dims"] == dims
        assert op.args["Input type"] == [type for type, _ in arrays]


def spelled(shape: str) -> str:
    """A shape without remarks on the places of parts and the tiles of layouts."""
    return re.sub(r"/\*.*?\*/|\s", "", shape)


@pytest.mark.parametrize("name", LOOPS)
def test_recordings_are_as_a_plain_reader_reads_them(name: str) -> None:
    core, *_ = recorded(name)
    with zipfile.ZipFile(RECORDED) as archive:
        told = [one for one in plain.events(archive.read(f"{name}.xplane.pb")) if one.plane == "/host:CPU"]
    c = core.columns
    times: Counter[str] = Counter()
    for one in told:
        if "hlo_op" in one.stats:
            times[one.stats["hlo_op"]] += (one.start_ps + one.duration_ps + 500) // 1000 - (one.start_ps + 500) // 1000
    ours: Counter[str] = Counter()
    for op in core.find(Kind.Op):
        ours[op.name] += op.dur_ns
    assert ours == times
    assert len(told) == (c.kind != Kind.Module).sum()


def test_scopes_and_steps_of_recordings() -> None:
    core, *_ = recorded("scan")
    assert {one.name for one in core.find(Kind.Module)} == {"layers", "attention", "mlp"}
    assert [one.name for one in core.find(Kind.Step)] == ["train#0", "train#1"]
    assert {one.args["pass"] for one in core.find(Kind.Op)} == {"forward", "backward", "recompute"}
    exchange = {one.name for one in recorded("shard_map")[0].find(Kind.Module)}
    assert exchange == {"exchange"}
