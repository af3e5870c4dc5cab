"""Programs of JAX: time, executions, versions, compilations, costs of instructions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import plain_xplane as plain
import pytest
from handmade import small_trace, span
from handmade_jax import (
    F32,
    KERNELS,
    TRIPS,
    computation,
    instruction,
    looping_profile,
    program,
    shape,
    training_profile,
)
from plain_xplane import Plane

from corpus import loaded, parametrize, xplane_files
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.idle.idle_causes import idle_causes
from tracelens_graph.analyses.ops.instruction_costs import instruction_costs
from tracelens_graph.analyses.ops.programs import compilations, programs, recorded_executions
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.roofline_summary import roofline_summary
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import architecture
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


def recorded(*calls: tuple[str, int], steps: bool = True) -> Core:
    """Calls of functions, 100 ms apart, with a compilation of so many ms in each but where it is 0.

    Three programs `jit_f` and one `jit__lambda_` ran, one in each of the first four calls.
    """
    known, host, pool = Plane("/host:metadata"), Plane("/host:CPU"), []
    for number, name in ((1, "jit_f"), (2, "jit_f"), (3, "jit_f"), (4, "jit__lambda_")):
        of = shape(F32, number)
        known.program(
            number, f"{name}({number})",
            program(name, 1, computation(1, "main", 12, instruction(11, "x", "parameter", of),
                                         instruction(12, "neg.1", "negate", of, [11]))),
        )  # fmt: skip
    python = []
    for at, (function, ms) in enumerate(calls):
        begin = at * 100 * MS
        if steps:
            python.append(host.event("train", begin, 90 * MS, step_num=at))
        python += [host.event(f"PjitFunction({function})", begin + US, 89 * MS)] * 2
        if ms:
            python.append(host.event("lower_sharding_computation", begin + 2 * US, MS))
            python.append(host.event("backend_compile_and_load", begin + 2 * MS, ms * MS))
            # The compiler's own thread works while Python's waits for it: that counts once.
            pool.append(host.event("PjRtCpuClient::Compile", begin + 2 * MS + US, ms * MS // 2))
        python.append(host.event("neg.1", begin + 80 * MS, MS, hlo_op="&neg.1", program_id=at % 4 + 1))
    host.line(3, "python", 1000, *python)
    host.line(4, "pool", 1000, *pool)
    return load_core(plain.written(known, host))


def test_the_last_numbers_of_a_name_were_compiled_meanwhile() -> None:
    core = recorded(("f", 0), ("f", 20), ("f", 30), ("<lambda>", 5))
    found = compilations(core.everything)
    assert (found.count, found.ns) == (3, (20 + 30 + 5 + 3) * 10**6)
    assert found.of_call == {"f": [21_000_000, 31_000_000], "<lambda>": [6_000_000]}
    told = {row["shapes"]: row["compile_ms"] for row in programs(core).records()}
    assert np.isnan(told.pop("f32[1] -> f32[1]"))  # before
    assert told == {"f32[2] -> f32[2]": 21, "f32[3] -> f32[3]": 31, "f32[4] -> f32[4]": 6}


def test_more_compilations_than_programs_are_divided_among_none() -> None:
    core = recorded(*[("f", 10)] * 4)
    assert compilations(core.everything).count == 4
    assert np.isnan(np.array(programs(core)["compile_ms"], float)).all()


def test_a_step_alone_of_compilations() -> None:
    core = recorded(("f", 10), ("f", 20), ("f", 0))
    found = compilations(core.window(step=1))
    assert (found.count, found.of_call) == (1, {"f": [21_000_000]})


def test_a_report_has_the_programs_of_jax_alone() -> None:
    assert "programs" in list(report_tables(recorded(("f", 0))))
    assert "programs" not in list(report_tables(load_core(small_trace())))


def test_nothing_is_said_where_nothing_was_compiled() -> None:
    core = load_core(training_profile(steps=2))
    assert compilations(core.everything).count == 0
    assert "compiled" not in [one.topic for one in verdict(core)]
    facts = {row["what"]: row["value"] for row in inventory(core)["trace"].records()}
    assert facts["programs compiled"] is None


def profile(*kernels: int, unlinked: int = 0, devices: int = 1, name: str = "jit_f") -> Core:
    """Executions of a program 1 ms apart, each with so many kernels of 0.3 ms; the n-th on device n % devices."""
    host, gpus = Plane("/host:CPU"), [Plane(f"/device:GPU:{n}") for n in range(devices)]
    calls, work, number = [], [[] for _ in gpus], 0
    for at, many in enumerate(kernels):
        begin = at * 1000 * US
        calls.append(host.event(f"{name}:XLA GPU module", begin, 200 * US))
        for place in range(many):
            number += 1
            calls.append(host.event("cuLaunchKernel", begin + (1 + 3 * place) * US, US, correlation_id=number))
            start, gpu = begin + (100 + 300 * place) * US, at % devices
            work[gpu].append(gpus[gpu].event("k", start, 300 * US, correlation_id=number))
    work[0] += [gpus[0].event("k", (len(kernels) + n) * 1000 * US, US, correlation_id=900 + n) for n in range(unlinked)]
    for gpu, events in zip(gpus, work, strict=True):
        gpu.line(7, "Stream #7", 1000, *events)
    host.line(1, "python", 1000, *calls)
    return load_core(plain.written(*gpus, host))


@pytest.mark.parametrize(
    ("kernels", "told"),
    [
        ((3, 3, 3), ""),
        ((3, 0, 3, 0), "2 of 4 executions of programs left no GPU events"),
        ((0, 0), ""),  # nothing says that the program has kernels
    ],
)
def test_executions_without_gpu_events(kernels: tuple[int, ...], told: str) -> None:
    assert recorded_executions(profile(*kernels).everything).text == told


@pytest.mark.parametrize("table", [idle_causes, gpu_timeline, lambda g: roofline_summary(g, architecture("mi300x"))])
def test_tables_of_idle_time_say_what_was_lost(table: Callable[[Core], Table]) -> None:
    note = "2 of 4 executions of programs left no GPU events: time without any need not be idle time"
    assert [table(profile(*kernels)).notes.count(note) for kernels in ((3, 0, 3, 0), (3, 3))] == [1, 0]


def test_events_without_a_launch_may_be_theirs() -> None:
    assert recorded_executions(profile(3, 0, unlinked=1).everything).text == ""
    assert recorded_executions(profile(3, 0, 0, unlinked=1).everything).lost_in_all == 2


def test_a_part_counts_its_own() -> None:
    core = profile(3, 0, 3, 0)
    late = core.window(after_ns=1_500_000)
    assert recorded_executions(late).text == "1 of 2 executions of programs left no GPU events"


def test_a_device_alone_does_not_take_the_work_of_others_for_lost() -> None:
    ranks = TraceSet.of({"host": profile(3, 3, 3, 3, devices=2)}).by_device()
    assert len(ranks) == 2
    assert [recorded_executions(one.window).lost_in_all for one in ranks] == [0, 0]


def test_what_is_said() -> None:
    core = profile(10, 0, 10, 0)
    first, *others = verdict(core)
    assert (first.evidence["kind"], others) == ("too_little", [])
    assert "2 of 4 executions of programs left no GPU events" in first.text
    assert verdict(profile(10, 10, 10, 10))[0].evidence["kind"] != "too_little"
    assert verdict(profile(*[10] * 9, 0))[0].evidence["kind"] != "too_little"
    row = next(row for row in inventory(core)["recording"].records() if row["what"] == "GPU work of executions")
    assert (row["recorded"], row["missing"]) == (False, "2 of 4 executions of programs left no GPU events")
    assert any("2 of 4 executions" in note for note in idle_causes(core).notes)


@parametrize("path", [path for path in xplane_files() if path.name.startswith("conv-legacy")])
def test_a_real_profile_that_lost_most(path: Path) -> None:
    core = loaded(path)
    runs = recorded_executions(core.everything)
    assert (len(runs.row), runs.lost_in_all) == (80, 75)
    assert programs(core).notes == [
        "75 of 80 executions of programs left no GPU events: runs and times are of the others"
    ]
    assert verdict(core)[0].evidence["kind"] == "too_little"


DOT = 2 * 8 * 8 * 8
"""Operations of the product in the loop."""
MOVED = 4 * 3 * 8 * 8
"""Its traffic."""


def test_costs_by_both_rules() -> None:
    names = ("instruction", "calls", "flops", "bytes", "xla_flops", "xla_bytes", "departs")
    found = [tuple(row[name] for name in names) for row in instruction_costs(load_core(looping_profile())).records()]
    rows, indices, three = 4 * 2 * 8, 4 * 2, 4 * 2 * 3
    assert found == [
        ("while.1", 2, TRIPS * (DOT + 1), TRIPS * (MOVED + 4), DOT + 1, MOVED + 4, "loop trips"),
        ("dot.1", 2 * TRIPS, DOT, MOVED, DOT, MOVED, None),
        ("fusion.2", 2, 0, 2 * rows + indices, 0, 4 * 100 * 8 + rows + indices, "gathered rows"),
        ("top_k.3", 2, 0, rows + three, -1, -1, "libraries"),
    ]


def test_programs_cost_what_xla_says() -> None:
    core = load_core(looping_profile())
    (row,) = programs(core).records()
    theirs = DOT + 1 - 1, 0, MOVED + 4 + 4 * 100 * 8 + 4 * 2 * 8 + 4 * 2 - 1
    assert (row["xla_flops"], row["xla_transcendentals"], row["xla_bytes"]) == theirs
    (note,) = instruction_costs(core).notes
    assert note.startswith("jit_loop by XLA's rules")
    assert note.endswith(f"{theirs[0]:,} FLOPs, 0 transcendentals, {theirs[2]:,} bytes")


def test_a_step_alone_of_instruction_costs() -> None:
    found = QUESTIONS["instruction_costs"](load_core(looping_profile()), step=1)
    assert dict(zip(found["instruction"], found["calls"], strict=True)) == {
        "while.1": 1, "dot.1": TRIPS, "fusion.2": 1, "top_k.3": 1,
    }  # fmt: skip


def test_where_rules_agree_nothing_departs() -> None:
    found = instruction_costs(load_core(training_profile()))
    assert list(found["instruction"]) == ["dot.3", "dot.5", "fusion.4"]
    assert list(found["departs"]) == [None] * 3
    for name in ("flops", "transcendentals", "bytes"):
        assert list(found[name]) == list(found[f"xla_{name}"])


def test_the_work_of_a_loop_counts_once() -> None:
    """Kernels count for the instructions in the loop, and the loop has no work beside these."""
    core = load_core(looping_profile())
    rows = {row["name"]: row for row in unified_perf_summary(core).records()}
    assert "while.1" not in rows
    assert rows["dot.1"]["operation_count"] == 2 * TRIPS
    assert rows["dot.1"]["GFLOPS"] * 1e9 == pytest.approx(DOT)
    tables = report_tables(core)
    families = {row["name"]: name for name in tables for row in tables[name].records() if "GFLOPS_first" in row}
    assert families == {"dot.1": "GEMM", "fusion.2": "XLA", "top_k.3": "XLA"}


def test_traces_without_instructions_say_so() -> None:
    found = instruction_costs(load_core(small_trace()))
    assert (len(found), found.notes) == (0, ["no arguments of instructions of XLA are recorded"])


@pytest.mark.parametrize("figure", [2**63, -(2**63) - 1, 10**19], ids=str)
def test_figures_beyond_64_bits_are_no_costs(figure: int) -> None:
    ops = [span("cpu_op", name, at, 5, Instruction={"kind": "add", "flops": flops, "xla_bytes": flops})
           for name, at, flops in (("add.1", 0, figure), ("add.2", 9, 7))]  # fmt: skip
    (row,) = instruction_costs(load_core(ops)).records()
    assert (row["instruction"], row["flops"], row["bytes"], row["xla_bytes"]) == ("add.2", 7, 0, 7)
