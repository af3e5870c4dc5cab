"""Allocations: blocks from instants, their edges in the graph, bytes over time."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span
from hypothesis import assume, given
from hypothesis import strategies as st
from made_traces import traces
from memory_traces import instant, training

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.memory.blocks import blocks_of, whose_work
from tracelens_graph.analyses.memory.instants import instants_of
from tracelens_graph.analyses.memory.peak import DeviceMemory, memory_over_time
from tracelens_graph.analyses.places.modules import PASSES
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.membership import calls_at
from tracelens_graph.loading.one import load_core
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.schema import HOST_KINDS, Flag, Kind
from tracelens_graph.simulate import simulate


def told(core: Core) -> list[tuple[float, float | None, bool, int]]:
    """Of each block start and end in us, whether it is released, and its size."""
    found, blocks = instants_of(core), blocks_of(core)
    at = core.columns.start_ns[found.rows] / 1e3
    return [
        (float(at[begin]), float(at[end]) if end >= 0 else None, released, size)
        for begin, end, released, size in zip(
            blocks.begin.tolist(), blocks.end.tolist(), blocks.is_released.tolist(), blocks.bytes.tolist(), strict=True
        )
    ]


def test_allocations_end_with_the_next_change_at_their_address() -> None:
    core = load_core(training())
    assert told(core) == [
        (40, 390, True, 400), (50, 95, True, 100), (310, 800, True, 300), (415, None, False, 50),
        (520, None, False, 200), (45, None, False, 16),
    ]  # fmt: skip
    assert core.columns.bytes[instants_of(core).rows[blocks_of(core).before]].tolist() == [-600]


def test_an_address_that_is_given_out_again_was_released_unseen() -> None:
    core = load_core([instant(1, 8, 1), instant(5, 16, 1), instant(9, -16, 1), instant(11, -4, 1)])
    assert [(begin, end, released) for begin, end, released, _ in told(core)] == [(0, 4, False), (4, 8, True)]
    assert blocks_of(core).before.tolist() == [3]


def test_changes_of_one_moment_are_in_the_order_of_the_file() -> None:
    core = load_core([instant(1, 8, 1), instant(1, -8, 1), instant(1, 16, 1)])
    assert told(core) == [(0, 0, True, 8), (0, None, False, 16)]


def test_blocks_without_address_are_left_out() -> None:
    events = [instant(1, 8, 1), instant(2, 16, 2)]
    del events[1]["args"]["Addr"]
    assert [size for *_, size in told(load_core(events))] == [8]


CHANGES = st.lists(
    st.tuples(
        st.integers(0, 30), st.integers(-20, 20).filter(bool), st.integers(1, 3), st.sampled_from([(1, 0), (0, -1)])
    ),
    max_size=40,
)


@given(CHANGES)
def test_pairs_are_those_of_a_dictionary(changes: list[tuple[int, int, int, tuple[int, int]]]) -> None:
    events = [instant(t, n, a, kind=kind, device=device) for t, n, a, (kind, device) in changes]
    core = load_core(events)
    uid, found, blocks = core.columns.uid[instants_of(core).rows], instants_of(core), blocks_of(core)
    ours = {
        int(uid[begin]): int(uid[end]) if end >= 0 else None
        for begin, end in zip(blocks.begin.tolist(), blocks.end.tolist(), strict=True)
    }
    live: dict[Any, int] = {}
    expected: dict[int, int | None] = {}
    before = []
    for number in sorted(range(len(changes)), key=lambda i: (changes[i][0], i)):
        _, change, address, device = changes[number]
        if (above := live.pop((address, device), None)) is not None:
            expected[above] = number
        elif change < 0:
            before.append(number)
        if change > 0:
            live[address, device] = number
            expected[number] = None
    assert ours == expected
    assert sorted(uid[blocks.before].tolist()) == sorted(before)
    for device, here in found.of_devices():
        total = found.allocated[here]
        assert len(total), device
        assert total.min() >= 0


@given(CHANGES, st.integers(0, 200))
def test_what_is_alive_adds_up(changes: list[tuple[int, int, int, tuple[int, int]]], at: int) -> None:
    """Blocks alive at a position are those begun and not ended, whatever the device."""
    core = load_core([instant(t, n, a, kind=kind, device=device) for t, n, a, (kind, device) in changes])
    found, blocks = instants_of(core), blocks_of(core)
    for _, here in found.of_devices():
        position = here.start + at % (here.stop - here.start)
        alive = [
            i
            for i, (begin, end) in enumerate(zip(blocks.begin.tolist(), blocks.end.tolist(), strict=True))
            if here.start <= begin <= position and not 0 <= end <= position
        ]
        assert blocks.alive_at(position, here).tolist() == alive


def test_whose_work_it_is() -> None:
    core = load_core(training())
    found, whose = instants_of(core), whose_work(core)
    names = [core.names[code] for code in core.columns.name.tolist()]
    rows = [
        (
            int(core.columns.start_ns[row] // 1000),
            names[call] if call >= 0 else None,
            names[op] if op >= 0 else None,
            whose.paths[path],
            PASSES[of],
        )
        for row, call, op, path, of in zip(
            found.rows.tolist(), whose.call.tolist(), whose.op.tolist(), whose.path.tolist(), whose.passes.tolist(),
            strict=True,
        )
    ]  # fmt: skip
    linear, evaluates = "Net_0/Linear_0", "autograd::engine::evaluate_function: "
    assert rows == [
        (40, "aten::addmm", "aten::linear", linear, "forward"),
        (50, "aten::addmm", "aten::linear", linear, "forward"),
        (95, "net.py(8): forward", None, linear, "forward"),
        (310, "AddmmBackward0", f"{evaluates}AddmmBackward0", linear, "backward"),
        (390, f"{evaluates}AddmmBackward0", f"{evaluates}AddmmBackward0", linear, "backward"),  # as for GPU work
        (415, f"{evaluates}torch::autograd::AccumulateGrad", f"{evaluates}torch::autograd::AccumulateGrad",
         "(no module)", "backward"),
        (520, "aten::zeros_like", "aten::zeros_like", "(optimizer)", "optimizer"),
        (700, "train.py(5): main", None, "(no module)", "forward"),
        (800, "train.py(5): main", None, "(no module)", "forward"),
        (45, "aten::addmm", "aten::linear", linear, "forward"),
    ]  # fmt: skip


@pytest.mark.parametrize("at", [0, 4.5, 5, 9.999, 10, 15, 19.999, 20, 25])
def test_an_instant_is_in_the_call_that_holds_it(at: float) -> None:
    """From the start of a call on, and no longer at its end."""
    core = load_core([span("cpu_op", "outer", 5, 15), span("cpu_op", "inner", 5, 5), instant(at, 1, 1)])
    (call,) = calls_at(core.columns, instants_of(core).rows).tolist()
    expected = "inner" if 5 <= at < 10 else "outer" if 10 <= at < 20 else None
    assert (core.names[core.columns.name[call]] if call >= 0 else None) == expected


@given(traces(), st.lists(st.tuples(st.integers(0, 130), st.integers(0, 3)), max_size=12))
def test_calls_are_those_of_brute_force(trace: dict[str, Any], where: list[tuple[int, int]]) -> None:
    places = {(str(one["pid"]), str(one["tid"])): one for one in trace["traceEvents"] if "tid" in one}
    threads = [{"pid": one["pid"], "tid": one["tid"]} for one in places.values()]
    instants = [
        instant(1_700_000_000_000 + at / 1000, 1, 1) | threads[number % len(threads)] for at, number in where if threads
    ]
    core = load_core({**trace, "traceEvents": [*trace["traceEvents"], *instants]})
    c = core.columns
    assume(not (c.flags & Flag.outlives_parent).any())
    rows = np.flatnonzero(c.kind == Kind.MemoryEvent)
    host = np.flatnonzero(np.isin(c.kind, HOST_KINDS))
    for row, call in zip(rows.tolist(), calls_at(c, rows).tolist(), strict=True):
        at = c.start_ns[row]
        over = host[(c.thread[host] == c.thread[row]) & (c.start_ns[host] <= at) & (c.end_ns[host] > at)]
        assert call == (over.max() if len(over) else -1)


def test_the_simulator_says_what_stays() -> None:
    """Blocks that the simulated allocator has not taken back are those that are not released."""
    (rank,) = simulate(ranks=1, steps=2, layers=1).ranks
    core = load_core(rank.trace)
    blocks = blocks_of(core)
    live: dict[int, int] = {}
    for event in sorted(
        (one for one in rank.trace["traceEvents"] if one.get("name") == "[memory]"), key=lambda one: one["ts"]
    ):
        args = event["args"]
        if args["Bytes"] > 0:
            live[args["Addr"]] = args["Bytes"]
        else:
            live.pop(args["Addr"], None)
    assert live
    assert sorted(blocks.bytes[~blocks.is_released].tolist()) == sorted(live.values())


def test_allocations_lead_to_calls_modules_and_from_releases() -> None:
    g = TraceGraph(load_core(training()))
    full, at = g.full, {node.uid: node.start_ns // 1000 for node in g.find(kind="MemoryEvent")}
    found: dict[str, set[tuple[int, object]]] = {"ALLOCATED_IN": set(), "IN_MODULE": set(), "RELEASES": set()}
    for source, target, kind in full.edges(keys=True):
        if source in at and kind in found:
            found[kind].add((at[source], at.get(target, full.nodes[target]["name"])))
    autograd = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    assert found == {
        "ALLOCATED_IN": {
            (40, "aten::addmm"), (45, "aten::addmm"), (50, "aten::addmm"), (310, "AddmmBackward0"), (415, autograd),
            (520, "aten::zeros_like"),
        },
        "IN_MODULE": {
            *((time, "nn.Module: Linear_0") for time in (40, 45, 50, 310)), (520, "Optimizer.step#SGD.step"),
        },
        "RELEASES": {(95, 50), (390, 40), (800, 310)},
    }  # fmt: skip


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
