"""Allocations and their releases, and whose work they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handmade import span
from hypothesis import assume, given
from hypothesis import strategies as st
from made_traces import traces
from memory_traces import instant, training

from tracelens_graph.analyses.memory.blocks import blocks_of, whose_work
from tracelens_graph.analyses.memory.instants import instants_of
from tracelens_graph.analyses.places.modules import PASSES
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.membership import calls_at
from tracelens_graph.loading.one import load_core
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
        (390, f"{evaluates}AddmmBackward0", f"{evaluates}AddmmBackward0", "(no module)", "backward"),  # as for GPU work
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
