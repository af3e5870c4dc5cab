"""Compiled programs of profiles: what each is, which ops are of it, and in what files that survives."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import plain_xplane as plain
import pytest
from handmade import small_trace
from handmade_jax import F32, computation, instruction, mlp, program, shape, training_profile
from plain_xplane import Plane

import tracelens_graph as tlg
from tracelens_graph.db.database import image
from tracelens_graph.db.image import Placement
from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.device_graphs import by_device
from tracelens_graph.graph.programs import CompiledProgram, CompiledPrograms
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.stores.cache import cached_core
from tracelens_graph.stores.graph_file import read_graph, write_graph
from tracelens_graph.stores.sections import Sections

US = 1_000_000
RECORDED = Path(__file__).parent / "recorded.zip"


def looped(name: str = "jit_loop", size: int = 4) -> bytes:
    """A loop over a sum, a call of a negation, and a product of both."""
    of = shape(F32, size)
    return program(
        name, 4,
        computation(1, "body", 12, instruction(11, "p", "parameter", of), instruction(12, "add.1", "add", of, [11])),
        computation(2, "until", 22, instruction(21, "q", "parameter", of), instruction(22, "less.1", "compare", of)),
        computation(3, "called", 32, instruction(31, "r", "parameter", of), instruction(32, "neg.1", "negate", of)),
        computation(
            4, "main", 44,
            instruction(41, "x", "parameter", of),
            instruction(42, "while.1", "while", of, [41], calls=[1, 2]),
            instruction(43, "call.1", "call", of, [41], calls=[3]),
            instruction(44, "mul.1", "multiply", of, [42, 43]),
        ),
    )  # fmt: skip


def ran(*work: tuple[int, str], **programs: bytes) -> Core:
    """A profile of a CPU with instructions that ran one after the other; programs by `n` and their number."""
    known, host = Plane("/host:metadata"), Plane("/host:CPU")
    for key, proto in programs.items():
        known.program(int(key[1:]), f"jit_f({key[1:]})", proto)
    events = [
        host.event(name, 10 * US * at, 5 * US, hlo_op=f"&{name}", program_id=number)
        for at, (number, name) in enumerate(work)
    ]
    host.line(3, "pool", 1000, *events)
    return load_core(plain.written(known, host))


def codes(core: Core) -> list[tuple[str, int, int]]:
    """Of each op its name, the place of its program, and whether each execution runs it once."""
    assert core.programs is not None
    names = [core.names[code] for code in core.columns.name[core.columns.kind == Kind.Op].tolist()]
    return list(zip(names, core.programs.place.tolist(), core.programs.runs.tolist(), strict=True))


def test_what_a_program_is() -> None:
    assert load_core(training_profile()).programs == CompiledPrograms(
        (
            CompiledProgram(
                "jit_f", load_core(training_profile()).programs.listed[0].fingerprint, 8,  # type: ignore[union-attr]
                shapes="f32[4,8], f32[8,16] -> f32[4,16]", numbers=(3,), xla_flops=2 * 1024 + 64,
                xla_transcendentals=64, xla_bytes=2 * 896 + 512,
            ),
        ),
        np.full(6, 3, np.uint8), ("model.py:7",), np.array([1, 0, 0, 1, 0, 0], np.uint8),
    )  # fmt: skip


def test_ops_know_their_programs_and_which_loop_holds_them() -> None:
    core = ran((7, "while.1"), (7, "add.1"), (7, "add.1"), (7, "less.1"), (7, "call.1"), (7, "neg.1"), (7, "mul.1"),
               (2, "dot.3"), (9, "dot.3"), (7, "no such"), n7=looped(), n2=mlp())  # fmt: skip
    assert core.programs is not None
    assert [one.name for one in core.programs.listed] == ["jit_f", "jit_loop"]
    assert codes(core) == [
        ("while.1", 1, 1), ("add.1", 1, 0), ("add.1", 1, 0), ("less.1", 1, 0), ("call.1", 1, 1), ("neg.1", 1, 1),
        ("mul.1", 1, 1), ("dot.3", 0, 1), ("dot.3", -1, 0), ("no such", -1, 0),
    ]  # fmt: skip


def test_what_is_called_from_two_places_runs_more_than_once() -> None:
    of = shape(F32)
    twice = program(
        "jit_f", 2,
        computation(1, "called", 11, instruction(11, "neg.1", "negate", of)),
        computation(2, "main", 22, *(instruction(20 + n, f"call.{n}", "call", of, calls=[1]) for n in (1, 2))),
    )  # fmt: skip
    assert codes(ran((1, "call.1"), (1, "neg.1"), n1=twice)) == [("call.1", 0, 1), ("neg.1", 0, 0)]


def test_a_program_that_was_compiled_twice_is_one() -> None:
    core = ran((5, "mul.1"), (8, "mul.1"), (6, "mul.1"), n5=looped(), n6=looped(size=9), n8=looped())
    assert core.programs is not None
    assert [(one.numbers, one.shapes) for one in core.programs.listed] == [
        ((5, 8), "f32[4] -> f32[4]"), ((6,), "f32[9] -> f32[9]"),
    ]  # fmt: skip
    assert core.programs.place.tolist() == [0, 0, 1]


def test_what_is_left_of_damaged_programs_is_told() -> None:
    proto = looped()
    for end in range(0, len(proto), 5):
        core = ran((1, "mul.1"), n1=proto[:end])
        assert core.programs is None or core.programs.listed[0].numbers == (1,)


@pytest.mark.parametrize("name", ["scan", "pallas", "shard_map"])
def test_executions_are_those_that_jax_numbers(name: str) -> None:
    from tracelens_graph.analyses.ops.programs import programs

    with zipfile.ZipFile(RECORDED) as archive:
        data = archive.read(f"{name}.xplane.pb")
    found = programs(load_core(data))
    told = {
        (one.stats["program_id"], one.stats["run_id"], one.stats.get("device_ordinal", 0))
        for one in plain.events(data)
        if "hlo_op" in one.stats
    }
    assert found["executions"].sum() == len(told) > 0
    assert {int(number) for numbers in found["numbers"] for number in numbers} == {number for number, *_ in told}


# --- where they are kept ---------------------------------------------------------------------------------------------


@pytest.fixture
def core() -> Core:
    return ran((7, "while.1"), (7, "add.1"), (2, "dot.3"), (9, "dot.3"), n7=looped(), n2=mlp())


def test_saved_graphs_keep_them(core: Core, tmp_path: Path) -> None:
    write_graph(core, tmp_path / "one.tlg")
    again = read_graph(tmp_path / "one.tlg")
    assert again.programs == core.programs
    assert again.equals(core)
    write_graph(again, tmp_path / "two.tlg")
    assert read_graph(tmp_path / "two.tlg").programs == core.programs


def test_the_cache_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "step.xplane.pb"
    path.write_bytes(training_profile())
    loads = []

    def load() -> Core:
        loads.append(1)
        return load_core(path)

    first, again = (cached_core(path, load) for _ in range(2))
    assert len(loads) == 1
    assert again.programs == first.programs is not None


def test_files_of_other_graphs_hold_nothing_of_them(tmp_path: Path) -> None:
    write_graph(load_core(small_trace()), tmp_path / "one.tlg")
    data = (tmp_path / "one.tlg").read_bytes()
    assert b'"programs' not in data
    assert Sections(data, "one.tlg")
    assert read_graph(tmp_path / "one.tlg").programs is None


@pytest.mark.parametrize(
    "wrong",
    [
        CompiledPrograms((), np.full(4, 3, np.uint8)),
        CompiledPrograms((CompiledProgram("f", "x"),), np.full(4, 9, np.uint8)),
        CompiledPrograms((CompiledProgram("f", "x"),), np.full(4, 3, np.int32)),
        CompiledPrograms((CompiledProgram("f", "x"),), np.full(5, 3, np.uint8)),
        CompiledPrograms((CompiledProgram("f", "x", instructions=2**70),), np.full(4, 3, np.uint8)),
        CompiledPrograms((CompiledProgram(3, "x"),), np.full(4, 3, np.uint8)),  # type: ignore[arg-type]
    ],
)
def test_damaged_ones_are_told(core: Core, tmp_path: Path, wrong: CompiledPrograms) -> None:
    core.programs = wrong
    write_graph(core, tmp_path / "one.tlg")
    with pytest.raises(TraceError, match="damaged"):
        read_graph(tmp_path / "one.tlg")


def test_graphs_of_devices_keep_them() -> None:
    from handmade_jax import MIXED, profile

    whole = load_core(profile(*MIXED))
    ((_, one), (_, other)), = by_device([whole.everything])  # fmt: skip
    assert one.core.programs == other.core.programs == whole.programs is not None


def test_the_graph_has_nodes_for_them(core: Core) -> None:
    full = tlg.TraceGraph(core).full
    assert core.programs is not None
    keys = [f"program:{one.fingerprint}" for one in core.programs.listed]
    assert full.nodes[keys[1]] == {
        "kind": "Program", "name": "jit_loop", "fingerprint": keys[1][8:], "instructions": 10, "replicas": 1,
        "partitions": 1, "shapes": "f32[4] -> f32[4]", "numbers": "7", "xla_flops": 16,
        "xla_transcendentals": 0, "xla_bytes": 112,
    }  # fmt: skip
    of = {
        (full.nodes[op]["name"], to): told
        for op, to, kind, told in full.edges(keys=True, data=True)
        if kind == "OF_PROGRAM"
    }
    assert of == {
        ("while.1", keys[1]): {"runs": "once"},
        ("add.1", keys[1]): {"runs": "any"},
        ("dot.3", keys[0]): {"runs": "once"},
    }
    assert {to for _, to, kind in full.edges(keys=True) if kind == "RAN"} == set(keys)


def test_traces_that_ran_one_program_share_its_node() -> None:
    keys = [
        {key for key in tlg.TraceGraph(one).full if isinstance(key, str) and key.startswith("program:")}
        for one in (ran((7, "mul.1"), n7=looped()), ran((1, "mul.1"), (2, "dot.3"), n1=looped(), n2=mlp()))
    ]
    assert keys[0] < keys[1]


def test_the_image_has_them(core: Core) -> None:
    found = image(core, Placement("run", "name"))
    (nodes,) = (one for one in found.nodes if one.labels == ("Program",))
    assert [prop.name for prop in nodes.properties] == [
        "key", "name", "fingerprint", "instructions", "replicas", "partitions", "shapes", "xla_flops",
        "xla_transcendentals", "xla_bytes",
    ]  # fmt: skip
    of, ran_edges = (next(one for one in found.edges if one.type == name) for name in ("OF_PROGRAM", "RAN"))
    assert sorted(row[2] for row in of.rows(0, 9)) == ["any", "once", "once"]
    assert sorted(row[2] for row in ran_edges.rows(0, 9)) == [["2"], ["7"]]
    assert json.loads(found.properties["pulled_edges"])["OF_PROGRAM"] == 3
