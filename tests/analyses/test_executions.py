"""Executions of programs of JAX that left no GPU events, of everything and of parts, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import plain_xplane as plain
import pytest
from plain_xplane import Plane

from corpus import loaded, parametrize, xplane_files
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.idle.idle import idle_causes
from tracelens_graph.analyses.ops.programs import programs, recorded_executions
from tracelens_graph.analyses.performance.roofline_summary import roofline_summary
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import architecture
from tracelens_graph.tables.table import Table

US = 1_000_000


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
