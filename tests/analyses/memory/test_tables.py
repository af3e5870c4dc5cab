"""What is in use at the peak, and what modules allocate: known answers, sums, and a plain reading of real files."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import small_trace
from memory_traces import instant, training

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.memory import instants
from tracelens_graph.analyses.memory.holders import BEFORE, memory_peak
from tracelens_graph.analyses.memory.instants import instants_of
from tracelens_graph.analyses.memory.peak import allocations_by_module, memory_summary
from tracelens_graph.analyses.report.inventory import OPTIONS
from tracelens_graph.graph.info import OLD_MEMORY
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.tables.table import Table

INFERENCE = traces_named("tracelens/h100/bert-small", "tracelens/h100/qwen1.5-0.5b", "tracelens/mi300/vit-nsfw")
TRAINING = traces_named("tracelens/mi300/normalization-layers")
TABLES = (memory_summary, memory_peak, allocations_by_module)

LINEAR = "Net_0/Linear_0"
EVALUATES = "autograd::engine::evaluate_function: "


def cells(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in table.records()]


def test_arguments_are_read_in_one_pass_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = memory_peak(load_core(training())).records()
    monkeypatch.setattr(instants, "_AT_ONCE", 2)
    core, passes = load_core(training()), []
    texts = core.details.texts
    monkeypatch.setattr(core.details, "texts", lambda blocks: passes.append(list(blocks)) or texts(blocks))
    assert memory_peak(core).records() == expected
    assert len(instants_of(core).rows) > 2
    assert len(passes) == 1


def test_what_is_in_use_at_the_peak() -> None:
    table = memory_peak(load_core(training()))
    assert cells(table, "device", "module_path", "op", "blocks", "bytes", "unreleased_bytes", "line", "uid") == [
        ("cuda:0", BEFORE, None, None, 1000, 400, None, None),
        ("cuda:0", LINEAR, "aten::linear", 1, 400, 0, "net.py(8): forward", 5),
        ("cuda:0", LINEAR, f"{EVALUATES}AddmmBackward0", 1, 300, 0, "net.py(8): forward", 10),
        ("cpu", LINEAR, "aten::linear", 1, 16, 16, "net.py(8): forward", 5),
    ]
    assert cells(table, "peak_us", "allocated_bytes", "reserved_bytes", "fragmentation_bytes")[0] == (
        310, 1700, 4096, 2396,
    )  # fmt: skip
    assert cells(table, "peak_us", "allocated_bytes", "reserved_bytes", "fragmentation_bytes")[-1] == (
        45, 16, None, None,
    )  # fmt: skip
    assert table.notes == [
        "cuda:0: at 0.310 ms 1,700 bytes are in use of 4,096 reserved; 2,396 of these are not in use",
        "cpu: at 0.045 ms 16 bytes are in use",
    ]


def test_what_modules_allocate() -> None:
    table = allocations_by_module(load_core(training()))
    assert cells(table, *list(table.columns)) == [
        ("cuda:0", LINEAR, "forward", 2, 500, 500, 0, 500, 0, 197.5, 3),
        ("cuda:0", LINEAR, "backward", 1, 300, 300, 0, 300, 0, 490.0, 3),
        ("cuda:0", "(optimizer)", "optimizer", 1, 200, 0, 200, 200, 1, None, 16),
        ("cuda:0", "(no module)", "backward", 1, 50, 0, 50, 50, 1, None, None),
        ("cpu", LINEAR, "forward", 1, 16, 0, 16, 16, 1, None, 3),
    ]


def test_devices_in_short() -> None:
    table = memory_summary(load_core(training()))
    assert cells(table, *list(table.columns)) == [
        ("cuda:0", 9, 1000, 1700, 650, 310, 4096, 2396, 2, 250, 1, 600),
        ("cpu", 1, 0, 16, 16, 45, None, None, 1, 16, 0, 0),
    ]


def test_of_a_window_the_peak_is_that_of_its_moments() -> None:
    core = load_core(training())
    table = memory_peak(core.window(under="Linear_0"))
    assert table.title == "Memory in use at the peak (under Linear_0)"
    assert cells(table, "module_path", "blocks", "bytes")[:2] == [(BEFORE, None, 1000), (LINEAR, 2, 500)]
    table = memory_peak(core.window(after_ns=500_000))
    assert cells(table, "module_path", "op", "bytes", "unreleased_bytes") == [
        (BEFORE, None, 1000, 400),
        (LINEAR, f"{EVALUATES}AddmmBackward0", 300, 0),  # allocated before the window
        ("(optimizer)", "aten::zeros_like", 200, 200),
        ("(no module)", f"{EVALUATES}torch::autograd::AccumulateGrad", 50, 50),
    ]
    assert cells(allocations_by_module(core.window(before_ns=60_000)), "allocations", "released_bytes") == [
        (2, 500), (1, 0),
    ]  # fmt: skip


def test_gradients_without_modules_are_backward() -> None:
    events = [one for one in training() if not one["name"].startswith("nn.Module")]
    assert cells(allocations_by_module(load_core(events)), "device", "module_path", "pass", "allocated_bytes") == [
        ("cuda:0", "(no module)", "forward", 500),
        ("cuda:0", "(no module)", "backward", 350),
        ("cuda:0", "(optimizer)", "optimizer", 200),
        ("cpu", "(no module)", "forward", 16),
    ]


def test_failures_sums_and_lost_addresses_are_said() -> None:
    failed = load_core([instant(1, 8, 1, 8), instant(2, 10**12, 0, 8, name="[OutOfMemory]")])
    assert "1 allocation failed: out of memory (1,000,000,000,000 bytes)" in memory_peak(failed).notes
    old = memory_peak(load_core(small_trace()))
    assert cells(old, "device", "module_path", "bytes") == [("device:0", BEFORE, 1024)]
    assert old.notes[1:] == [
        "totals of device:0 are not recorded: changes are summed up, so what was in use before and is not released is "
        "missing",
        "1 of 1 changes have no address: nobody is said to hold what they allocate",
    ]


@pytest.mark.parametrize("size", [None, "x", 2**70, 2**62, -(2**62), [8]])
def test_sizes_that_cannot_be_read_are_said(size: Any) -> None:
    events = training()
    allocations = [one for one in events if one["name"] == "[memory]"]
    for one in allocations[::2]:
        one["args"]["Bytes"] = size
    core = load_core(events)
    for table in TABLES:
        assert (
            "5 of 10 allocations and releases have no readable size and do not count: what they allocated or released "
            "seems to be allocated earlier, or unreleased"
        ) in table(core).notes
    assert sum(row["events"] for row in memory_summary(core).records()) == 5
    for one in allocations:
        one["args"]["Bytes"] = size
    for table in TABLES:
        asked = table(load_core(events))
        assert not len(asked)
        assert asked.notes == ["10 allocations and releases are recorded, but no size can be read"]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sign", [1, -1])
def test_sums_do_not_overflow(sign: int) -> None:
    """Sizes that are no more than plausible by themselves, but so many that their sum is none."""
    events = [instant(at, sign * 2**50, at) for at in range(5000)]
    assert memory_summary(load_core(events)).notes == [
        "5,000 allocations and releases are recorded, but no size can be read"
    ]
    events.append(instant(6000, 1024, 1))
    assert [row["peak_bytes"] for row in memory_summary(load_core(events)).records()] == [1024]
    few = memory_summary(load_core([instant(at, 2**50, at) for at in range(1, 5)]))
    assert cells(few, "peak_bytes", "unreleased_bytes") == [(2**52, 2**52)]


@pytest.mark.parametrize("total", [-1, 2**51, 2**63, 10**40, "x", [1]])
def test_totals_that_cannot_be_are_not_taken(total: Any) -> None:
    events = [instant(1, 8, 1, total, reserved=total), instant(2, 16, 2, total, reserved=total)]
    table = memory_summary(load_core(events))
    assert cells(table, "peak_bytes", "peak_reserved_bytes", "fragmentation_bytes") == [(24, None, None)]
    assert table.notes[0] == "2 of 2 allocations and releases have no total of the allocator that can be true"


@parametrize("path", [*INFERENCE, *TRAINING])
def test_bytes_add_up_to_what_the_allocator_says(path: Path) -> None:
    w: Window = loaded(path).everything
    peak, modules, summary = memory_peak(w), allocations_by_module(w), memory_summary(w)
    found = instants_of(w.core)
    for row in summary.records():
        here = [one for one in peak.records() if one["device"] == row["device"]]
        assert sum(one["bytes"] for one in here) == row["peak_bytes"] == here[0]["allocated_bytes"]
        assert sum(one["percent"] for one in here) == pytest.approx(100)
        of = [one for one in modules.records() if one["device"] == row["device"]]
        change = found.change[found.device == found.devices.index(row["device"])]
        assert sum(one["allocated_bytes"] for one in of) == change[change > 0].sum()
        assert sum(one["allocations"] for one in of) == (change > 0).sum()
        assert sum(one["net_bytes"] for one in of) - row["earlier_bytes"] == row["end_bytes"] - row["start_bytes"]
        assert all(0 < one["peak_bytes"] <= one["allocated_bytes"] for one in of)


@parametrize("path", INFERENCE)
def test_modules_of_real_traces_by_their_json(path: Path) -> None:
    """Whoever reads the file with a dictionary of addresses and the frames around each instant finds the same."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    changes = sorted(
        (one for one in events if one.get("name") == "[memory]" and one["args"]["Device Type"]),
        key=lambda one: one["ts"],
    )
    peak = max(range(len(changes)), key=lambda i: (changes[i]["args"]["Total Allocated"], -i))
    live: dict[int, dict[str, Any]] = {}
    for one in changes[: peak + 1]:
        if one["args"]["Bytes"] > 0:
            live[one["args"]["Addr"]] = one
        else:
            live.pop(one["args"]["Addr"])
    frames = [one for one in events if str(one.get("name")).startswith("nn.Module: ") and "dur" in one]
    begin, end, tid = (
        np.array(values, float)
        for values in zip(*[(one["ts"], one["ts"] + one["dur"], one["tid"]) for one in frames], strict=True)
    )
    held: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for one in live.values():
        over = np.flatnonzero((begin <= one["ts"]) & (one["ts"] < end) & (tid == one["tid"]))
        inner = over[np.argmin((end - begin)[over])] if len(over) else None
        name = "(no module)" if inner is None else frames[inner]["name"].removeprefix("nn.Module: ")
        held[name][0] += 1
        held[name][1] += one["args"]["Bytes"]
    most = changes[peak]["args"]["Total Allocated"]
    held[BEFORE] = [0, most - sum(size for _, size in held.values())]
    ours: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in memory_peak(loaded(path)).records():
        if row["device"] != "cpu":
            name = row["module_path"].rpartition("/")[2]
            ours[name][0] += row["blocks"] or 0
            ours[name][1] += row["bytes"]
    assert ours == held


@parametrize("path", TRAINING)
def test_backward_work_is_that_of_modules(path: Path) -> None:
    """All norms of the network allocate in both passes; autograd's threads have no frames of modules."""
    rows = allocations_by_module(loaded(path)).records()
    passes = defaultdict(set)
    for row in rows:
        passes[row["module_path"]].add(row["pass"])
    norms = [name for name in passes if "Norm" in name]
    assert len(norms) >= 8
    assert all(passes[name] == {"forward", "backward"} for name in norms)


@pytest.mark.parametrize("table", [memory_peak, memory_summary, allocations_by_module])
def test_allocations_without_address_are_not_called_missing(table: Any) -> None:
    """As PyTorch wrote them in 2021: no category, and nothing that says which release is of which allocation."""
    old = [one for one in training() if one["name"] == "[memory]"]
    for one in old:
        del one["cat"]
        one["args"] = {"Device Type": 0, "Device Id": -1, "Bytes": one["args"]["Bytes"]}
    core = load_core([*(one for one in training() if one["name"] != "[memory]"), *old])
    assert table(core).notes[0].startswith(f"{len(old)} allocations and releases are recorded as in 2021, without")
    assert core.info.left_out[OLD_MEMORY] == len(old)
    assert next(one for one in OPTIONS if one.name == "memory events").missing(core).startswith(f"{len(old)} lack")
