"""Compiled programs as a table: time, executions, versions, of everything and of a part."""

from __future__ import annotations

from pathlib import Path

import plain_xplane as plain
import pytest
from handmade import small_trace
from handmade_jax import KERNELS, training_profile
from made_hlo import F32, computation, instruction, program, shape
from plain_xplane import Plane

from corpus import loaded, parametrize, xplane_files
from tracelens_graph.analyses.ops.programs import programs
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.views import view
from tracelens_graph.tables.table import Table

US = 1_000_000
MS = 1000 * US


def double(name: str, size: int) -> bytes:
    """A loop that runs before a sum."""
    of = shape(F32, size)
    return program(
        name, 2,
        computation(1, "body", 11, instruction(11, "neg.1", "negate", of)),
        computation(
            2, "main", 23, instruction(21, "x", "parameter", of),
            instruction(22, "while.1", "while", of, [21], calls=[1]), instruction(23, "add.1", "add", of, [22, 22]),
        ),
    )  # fmt: skip


def recompiled() -> Core:
    """`jit_f` compiled for two sizes, one of these twice; `jit_g` without GPU work."""
    known, gpu, host = Plane("/host:metadata"), Plane("/device:GPU:0"), Plane("/host:CPU")
    for number, name, size in ((1, "jit_f", 4), (2, "jit_f", 8), (3, "jit_f", 4), (4, "jit_g", 4)):
        known.program(number, f"{name}({number})", double(name, size))
    ranges, work = [], []
    for at, (number, name, launches) in enumerate(
        ((1, "add.1", 2), (2, "add.1", 1), (2, "add.1", 1), (3, "add.1", 1), (4, "add.1", 0), (2, "no such", 1))
    ):
        begin = at * MS
        told = {"hlo_op": f"&{name}", "program_id": number}
        ranges.append(host.event(name, begin, 500 * US, **told))
        for k in range(launches):
            correlation = 10 * at + k + 1
            ranges.append(host.event("hipLaunchKernel", begin + (k + 1) * 9 * US, US, correlation_id=correlation))
            work.append(gpu.event(f"k{k}", begin + (k + 1) * 100 * US, 50 * US, correlation_id=correlation, **told))
    gpu.line(7, "Stream #7", 1000, *work)
    host.line(11, "python", 1000, *ranges)
    return load_core(plain.written(known, gpu, host))


def rows(table: Table, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in table.records()]


def test_time_executions_and_versions() -> None:
    found = programs(recompiled())
    assert rows(found, "program", "gpu_ms", "host_ms", "executions", "compiled", "versions", "numbers", "shapes") == [
        ("jit_f", 0.15, 1.0, 2, 2, 2, ["1", "3"], "f32[4] -> f32[4]"),
        ("jit_f", 0.1, 1.0, 2, 1, 2, ["2"], "f32[8] -> f32[8]"),
        ("jit_g", 0.0, 0.5, 1, 1, 1, ["4"], "f32[4] -> f32[4]"),
    ]
    assert list(found["percent"]) == pytest.approx([50, 100 / 3, 0])  # what is of no known program has the rest
    assert rows(found, "instructions", "devices") == [(4, 1)] * 3
    assert len({*found["fingerprint"]}) == 3


def test_executions_are_those_of_instructions_that_run_once() -> None:
    known, host = Plane("/host:metadata"), Plane("/host:CPU")
    known.program(1, "jit_f(1)", double("jit_f", 4))

    def ran(*names: str) -> int:
        events = [
            host.event(name, 10 * US * at, 5 * US, hlo_op=f"&{name}", program_id=1) for at, name in enumerate(names)
        ]
        host.lines.clear()
        host.line(3, "pool", 1000, *events)
        (found,) = programs(load_core(plain.written(known, host)))["executions"]
        return int(found)

    loop = ("while.1", "neg.1", "neg.1", "neg.1")
    assert ran(*loop, "add.1", *loop, "add.1") == 2
    assert ran("neg.1", "add.1", *loop, "add.1") == 2  # the recording began in a loop
    assert ran("neg.1", "neg.1") == 1  # and here it is all there is


def test_instructions_within_others_count_once() -> None:
    known, host = Plane("/host:metadata"), Plane("/host:CPU")
    known.program(1, "jit_f(1)", double("jit_f", 4))
    host.line(
        3, "pool", 1000,
        *(host.event(name, begin * US, dur * US, hlo_op=f"&{name}", program_id=1)
          for name, begin, dur in (("while.1", 0, 100), ("neg.1", 10, 20), ("neg.1", 40, 20), ("add.1", 200, 7))),
    )  # fmt: skip
    assert list(programs(load_core(plain.written(known, host)))["host_ms"]) == pytest.approx([0.107])


def test_a_step_alone() -> None:
    core = load_core(training_profile(steps=3))
    whole, one = programs(core), QUESTIONS["programs"](core, step=1)
    time = sum(duration for *_, duration in KERNELS) / 1000
    assert list(whole["gpu_ms"]) == pytest.approx([3 * time])
    assert list(one["gpu_ms"]) == pytest.approx([time])
    assert (list(whole["executions"]), list(one["executions"])) == ([3], [1])


def test_gpu_work_without_its_op_counts() -> None:
    """A window of time can hold the kernels of an instruction that began before it."""
    core = load_core(training_profile(steps=1))
    first = int(core.columns.start_ns[core.gpu_rows].min())
    launches_end = 40_000
    part = programs(core.window(after_ns=max(first, launches_end)))
    assert rows(part, "program", "executions") == [("jit_f", 0)]
    assert part["gpu_ms"][0] > 0


@pytest.mark.parametrize(("trace", "why"), [(small_trace(), "only profiles of JAX"), (b"", "holds no program")])
def test_without_programs_it_is_said_why(trace: object, why: str) -> None:
    host = Plane("/host:CPU")
    host.line(3, "python", 1000, host.event("PjitFunction(f)", 0, 100))
    table = programs(load_core(trace or plain.written(host)))
    assert len(table) == 0
    assert why in table.notes[0]


def test_the_inventory_has_them_of_jax_alone() -> None:
    assert "programs" not in inventory(load_core(small_trace()))
    assert list(inventory(recompiled())["programs"]["compiled"]) == [2, 1, 1]


@parametrize("path", xplane_files())
def test_real_profiles(path: Path) -> None:
    core = loaded(path)
    found, c = programs(core), core.columns
    assert found["gpu_ms"][0] == pytest.approx(int(c.dur_ns[c.owner >= 0].sum()) / 1e6)
    assert list(found["executions"]) == [5]


@pytest.mark.parametrize("width", [80, 100])
def test_recompilation_is_seen_on_a_terminal(width: int) -> None:
    shown = view(programs(recompiled())).text(width)
    header, _, first, *_ = shown.splitlines()[1:]
    assert {"program", "ms", "runs", "compiled", "versions", "shapes"} <= {*header.split()}
    assert "f32[4] -> f32[4]" in first
