"""Memory over time: totals as recorded, else summed up; each device by itself; windows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span
from memory_traces import instant, training

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.memory.instants import instants_of
from tracelens_graph.analyses.memory.peak import DeviceMemory, memory_over_time
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind

WITH_MEMORY = traces_named(
    "tracelens/h100/bert-small", "tracelens/h100/qwen1.5-0.5b", "tracelens/mi300/normalization-layers"
)
NAMES = {0: "cpu", 1: "cuda:0", 6: "hip:0"}


def of(events: list[dict[str, Any]], **window: Any) -> dict[str, DeviceMemory]:
    core = load_core(events)
    return {one.device: one for one in memory_over_time(core.window(**window) if window else core.everything)}


def test_a_device_by_itself() -> None:
    found = of(training())
    assert list(found) == ["cuda:0", "cpu"]
    gpu, cpu = found.values()
    assert gpu.time_ns.tolist() == [40000, 50000, 95000, 310000, 390000, 415000, 520000, 700000, 800000]
    assert gpu.change_bytes.tolist() == [400, 100, -100, 300, -400, 50, 200, -600, -300]
    assert gpu.allocated_bytes.tolist() == [1400, 1500, 1400, 1700, 1300, 1350, 1550, 950, 650]
    assert gpu.reserved_bytes is not None
    assert gpu.reserved_bytes.tolist() == [4096] * 8 + [2048]
    assert (cpu.allocated_bytes.tolist(), cpu.reserved_bytes) == ([16], None)


def test_rows_are_those_of_the_instants() -> None:
    core = load_core(training())
    for one in memory_over_time(core.everything):
        assert core.columns.bytes[one.rows].tolist() == one.change_bytes.tolist()
        assert core.columns.start_ns[one.rows].tolist() == one.time_ns.tolist()


@pytest.mark.parametrize(
    ("window", "times"),
    [
        ({"step": 7}, [40, 50, 95, 310, 390, 415, 520, 700, 800]),
        ({"under": "Linear_0"}, [40, 50, 95]),
        ({"under": "aten::addmm"}, [40, 50]),
        ({"after_ns": 95_000, "before_ns": 400_000}, [95, 310, 390]),
        ({"annotation": "Optimizer.step#SGD.step"}, [520]),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_windows_keep_the_totals_of_the_trace(window: dict[str, Any], times: list[int]) -> None:
    gpu, whole = of(training(), **window)["cuda:0"], of(training())["cuda:0"]
    assert (gpu.time_ns // 1000).tolist() == times
    assert gpu.allocated_bytes.tolist() == whole.allocated_bytes[np.isin(whole.time_ns, gpu.time_ns)].tolist()


def test_a_device_is_a_window_of_its_memory() -> None:
    launch = span("cuda_runtime", "cudaLaunchKernel", 60, 5, correlation=1)
    kernel = span("kernel", "k", 70, 5, 0, 7, device=0, stream=7, correlation=1)
    found = of([*training(), launch, kernel], device=0)
    assert list(found) == ["cuda:0"]
    assert len(found["cuda:0"].rows) == 9


def test_totals_that_are_not_recorded_are_summed_up() -> None:
    gpu = of([instant(1, 100, 1), instant(2, -40, 2), instant(3, -100, 1), instant(4, 8, 3)])["cuda:0"]
    assert gpu.allocated_bytes.tolist() == [140, 100, 0, 8]  # the 40 were there before
    assert gpu.reserved_bytes is None


def test_single_gaps_are_filled() -> None:
    events = [instant(1, 100, 1), instant(2, 50, 2, 950, reserved=2000), instant(3, -50, 2), instant(4, 5, 3, 905)]
    gpu = of(events)["cuda:0"]
    assert gpu.allocated_bytes.tolist() == [900, 950, 900, 905]
    assert gpu.reserved_bytes is not None
    assert gpu.reserved_bytes.tolist()[:3] == [2000, 2000, 2000]


def test_devices_of_every_kind() -> None:
    kinds = [(1, 10), (1, 2), (6, 0), (0, -1), (0, 0), (99, 1)]
    events = [instant(i, 8, i, 8, kind=kind, device=device) for i, (kind, device) in enumerate(kinds)]
    assert list(of(events)) == ["cuda:2", "cuda:10", "hip:0", "type99:1", "cpu", "cpu:0"]


def test_old_traces_name_the_device_by_its_index() -> None:
    events = [instant(1, 8, 1), instant(2, 8, 1)]
    for one, index in zip(events, (0, -1), strict=True):
        one["args"] = {"Bytes": 8, "Device Id": index}
    found = of(events)
    assert list(found) == ["device:0", "cpu"]
    assert found["cpu"].allocated_bytes.tolist() == [8]


def test_failed_allocations_are_none() -> None:
    core = load_core([instant(1, 8, 1, 8), instant(2, 10**12, 0, 8, name="[OutOfMemory]")])
    assert [len(one.rows) for one in memory_over_time(core.everything)] == [1]
    assert len(instants_of(core).failed) == 1


@pytest.mark.parametrize("value", ["x", None, [1], {}, 1e300, "12", 2**64, -(2**80), True, 1.5])
@pytest.mark.parametrize("name", ["Addr", "Total Allocated", "Total Reserved", "Device Type", "Device Id"])
def test_odd_values_are_not_recorded(name: str, value: Any) -> None:
    events = [instant(1, 8, 1, 8), instant(2, 8, 2, 16)]
    events[1]["args"][name] = value
    core = load_core(events)
    nodes = core.find(kind=Kind.MemoryEvent)
    assert len(nodes) == 2 - (value is True and name == "Device Id")  # the loader counts that one as unreadable
    assert sum(len(one.rows) for one in memory_over_time(core.everything)) == len(nodes)


def test_a_trace_without_memory() -> None:
    assert of([span("cpu_op", "aten::mm", 1, 2)]) == {}
    assert of([]) == {}


@parametrize("path", WITH_MEMORY)
def test_real_traces_by_their_json(path: Path) -> None:
    """What a plain reading of the file says, device by device."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    told = [one for one in events if one.get("name") == "[memory]"]
    found = {one.device: one for one in memory_over_time(loaded(path).everything)}
    assert sum(len(one.rows) for one in found.values()) == len(told)
    for kind in {one["args"]["Device Type"] for one in told}:
        here = sorted((one for one in told if one["args"]["Device Type"] == kind), key=lambda one: one["ts"])
        gpu = found[NAMES[kind]]
        assert gpu.change_bytes.tolist() == [one["args"]["Bytes"] for one in here]
        assert gpu.allocated_bytes.tolist() == [one["args"]["Total Allocated"] for one in here]
        reserved = [one["args"]["Total Reserved"] for one in here]
        assert (gpu.reserved_bytes if gpu.reserved_bytes is None else gpu.reserved_bytes.tolist()) == (
            reserved if any(reserved) else None
        )
        micros = np.array([one["ts"] for one in here]) - here[0]["ts"]
        assert np.abs((gpu.time_ns - gpu.time_ns[0]) / 1e3 - micros).max() < 1
