"""What bound each point: in simulated jobs, for awaited work, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handmade import span
from hypothesis import given
from hypothesis import strategies as st
from joint_causes import causes
from lockstep import call, gpu, sync, trace
from made_jobs import JOBS, SimulatedJob, simulated_job

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.collective_points import (
    Member,
    awaited_parts,
    recorded_root,
    waits_partly,
)
from tracelens_graph.analyses.critical_path.path_nodes import host_pieces
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core

CALLED = {Edge.launch: "launch", Edge.stream: "stream", Edge.event: "wait"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((name, waits), marks=() if waits == bool(at % 4) else pytest.mark.proof,
                     id=f"{name}, {'with' if waits else 'without'} cuda_sync")
        for at, name in enumerate(JOBS) for waits in (True, False)
    ],
)  # fmt: skip
def job(request: pytest.FixtureRequest) -> SimulatedJob:
    """Each job with or without recorded waits; the other way is left to `make proof`."""
    name, waits = request.param
    return simulated_job(**{"steps": 2, "cuda_sync": waits, **JOBS[name]})


def cause(known: Causes, point: int) -> tuple[Edge | None, int]:
    """Kind of the edge that binds a point, and the point it comes from."""
    edge = int(known.binding[point])
    return (Edge(known.kind[edge]), int(known.before[edge])) if edge >= 0 else (None, -1)


def gpu_points(known: Causes, ordinal: int, rows: np.ndarray, role: Role) -> np.ndarray:
    """Start or end points of GPU events of a rank, by their rows."""
    points = np.flatnonzero((known.ordinal == ordinal) & (known.role == role))
    return points[np.argsort(known.row[points])][np.searchsorted(np.sort(known.row[points]), rows)]


@pytest.mark.proof
def test_starts_of_gpu_events(job: SimulatedJob) -> None:
    """At least 99.5 % are right. Of causes that allowed a start at the same moment each is."""
    right = total = 0
    for ordinal, truth in enumerate(job.truth):
        known = truth["gpu_events"]
        starts = gpu_points(job.causes, ordinal, job.traces[ordinal].core.rows_of(known["uid"]), Role.gpu_start)
        for point, said, slack in zip(starts.tolist(), known["binding"], known["slack_ns"], strict=True):
            kind, _ = cause(job.causes, point)
            told = CALLED.get(kind) if kind is not None else None
            right += told == said or slack.get(told) == 0 or (kind is None and set(slack) == {"launch"})
            total += 1
    assert right >= 0.995 * total


def test_ends_of_collectives(job: SimulatedJob) -> None:
    """Each part ended after the last of those had come whom it waits for."""
    for one in job.truth[0]["collectives"]:
        if None in one["kernels"]:  # not all ranks recorded it
            continue
        for at, rank in enumerate(one["ranks"]):
            core = job.traces[rank].core
            end = gpu_points(job.causes, rank, np.array([core.row(one["kernels"][at])]), Role.gpu_end)
            _, source = cause(job.causes, int(end[0]))
            if job.causes.role[source] == Role.complete:
                _, source = cause(job.causes, source)
            awaited = one["awaits"][at] or one["ranks"]
            start = {other: one["start_ns"][one["ranks"].index(other)] for other in awaited}
            came = int(job.causes.ordinal[source])
            # Clocks of hosts are known to a few us: who comes last by less cannot be told.
            unsure = 20_000 if job.truth[0]["options"]["nodes"] else 0
            assert start[came] >= max(start.values()) - unsure


def test_returns_of_calls_that_wait(job: SimulatedJob) -> None:
    """A call that waits, returns after the work it waits for, but where that ended as soon as it was asked for."""
    right = total = 0
    for ordinal, truth in enumerate(job.truth):
        core = job.traces[ordinal].core
        waits = truth["host_waits"]
        for number, last, waited in zip(*(waits.get(key, ()) for key in ("call", "last", "had_to_wait")), strict=True):
            at = (job.causes.ordinal == ordinal) & (job.causes.row == core.row(number))
            kind, source = cause(job.causes, int(np.flatnonzero(at & (job.causes.role == Role.returned))[0]))
            if waited:
                right += kind is Edge.sync and int(core.columns.uid[job.causes.row[source]]) == last
            else:
                right += kind is not Edge.sync
            total += 1
    assert right >= 0.9 * total


def bound(core: Core, name: str) -> tuple[str, str]:
    """By what the start of a GPU event, or the return of a call, is bound: kind and name."""
    known = causes(TraceSet.of(core))
    names = [core.names[core.columns.name[row]] if row >= 0 else "" for row in known.row.tolist()]
    point = next(
        at for at, one in enumerate(names) if one == name and known.role[at] in (Role.gpu_start, Role.returned)
    )
    kind, source = cause(known, point)
    return (kind.name if kind is not None else "", names[source])


def waiting_copy(record: dict[str, Any], **waits: Any) -> list[dict[str, Any]]:
    """A copy on stream 9 that waits for `first` on stream 7, of which `second` comes after the event was recorded."""
    return [
        call("cudaLaunchKernel", 0.0, 2.0, 1), gpu("first", 5.0, 50.0, 7, 1), record,
        call("cudaLaunchKernel", 10.0, 12.0, 3), gpu("second", 51.0, 52.0, 7, 3),
        call("cudaStreamWaitEvent", 20.0, 21.0, 4), sync("Stream Wait Event", 20.0, 4, 9, **waits),
        call("cudaMemcpyAsync", 40.0, 42.0, 5), gpu("Memcpy HtoD", 55.0, 60.0, 9, 5),
    ]  # fmt: skip


def test_a_stream_waits_for_what_was_launched_before_the_record() -> None:
    record = call("cudaEventRecord", 6.0, 7.0, 2)
    told = load_core(trace(waiting_copy(record, wait_on_stream=7, wait_on_cuda_event_record_corr_id=2)))
    assert bound(told, "Memcpy HtoD") == ("event", "first")


@pytest.mark.parametrize(
    ("name", "rows", "expected"),
    [
        ("cudaDeviceSynchronize", [sync("Context Sync", 10.0, 2)], ("sync", "other")),
        ("cudaDeviceSynchronize", [sync("Context Sync", 10.0, 2, 2**32 - 1)], ("sync", "other")),
        ("cudaDeviceSynchronize", [], ("sync", "other")),
        ("cudaStreamSynchronize", [sync("Stream Sync", 10.0, 2, 7)], ("sync", "work")),
        ("cudaStreamSynchronize", [], ("sync", "other")),  # of the last launch of its thread
        ("cudaEventSynchronize", [sync("Event Sync", 10.0, 2, -1, wait_on_stream=7)], ("sync", "work")),
        ("hipDeviceSynchronize", [], ("sync", "other")),
    ],
)
def test_calls_that_wait(name: str, rows: list[dict[str, Any]], expected: tuple[str, str]) -> None:
    core = load_core(trace([
        call("cudaLaunchKernel", 0.0, 2.0, 1), gpu("work", 5.0, 40.0, 7, 1),
        call("cudaLaunchKernel", 3.0, 4.0, 3), gpu("other", 8.0, 50.0, 8, 3), call(name, 10.0, 55.0, 2), *rows,
    ]))  # fmt: skip
    assert bound(core, name) == expected


def test_a_query_does_not_wait() -> None:
    core = load_core(trace([
        call("cudaLaunchKernel", 0.0, 2.0, 1), gpu("work", 5.0, 40.0, 7, 1),
        call("cudaEventQuery", 10.0, 45.0, 2), sync("Event Sync", 10.0, 2, -1, wait_on_stream=7),
    ]))  # fmt: skip
    known = causes(TraceSet.of(core))
    assert not (known.role == Role.returned).any()


@pytest.mark.parametrize(("copied", "waits"), [("Memcpy DtoH (Device -> Pageable)", True),
                                               ("Memcpy DtoH (Device -> Pinned)", False)])  # fmt: skip
def test_a_copy_to_pageable_memory_blocks(copied: str, waits: bool) -> None:
    core = load_core(trace([call("cudaMemcpyAsync", 0.0, 25.0, 1), gpu(copied, 5.0, 20.0, 7, 1)]))
    known = causes(TraceSet.of(core))
    assert bool((known.role == Role.returned).any()) == waits
    if waits:
        assert bound(core, "cudaMemcpyAsync") == ("sync", copied)


def test_circles_within_one_moment_are_cut() -> None:
    """Everything at one microsecond: a launch, its work, and a call that waits for it."""
    core = load_core(trace([
        call("cudaLaunchKernel", 5.0, 5.0, 1), gpu("work", 5.0, 5.0, 7, 1),
        call("cudaDeviceSynchronize", 5.0, 5.0, 2), call("cudaLaunchKernel", 5.0, 5.0, 3), gpu("next", 5.0, 5.0, 7, 3),
    ]))  # fmt: skip
    known = causes(TraceSet.of(core))
    moment = known.time * 1000 + known.level
    assert (moment[known.before] < moment[known.after]).all()


AWAITED_KINDS = ("broadcast", "reduce", "gather", "scatter", "send", "all_to_all", "all_to_allv")


@pytest.mark.parametrize("nothing_recorded", [False, True])
def test_against_the_simulator(nothing_recorded: bool) -> None:
    """With what PyTorch records all is right; without a root, times tell it but for a few collectives."""
    job = simulated_job(
        ranks=4, steps=3, program="loop", step_collectives=AWAITED_KINDS, collective_mb=(1.0, 32.0), slow_rank=2
    )
    right = total = 0
    for one in job.truth[0]["collectives"]:
        kind = "send" if one["kind"] == "send_recv" else one["kind"]
        if not waits_partly(kind):
            continue
        nodes = []
        for rank, uid in zip(one["ranks"], one["kernels"], strict=True):
            found = job.traces[rank].core.collectives
            node = found.nodes[found.of_row[job.traces[rank].core.row(uid)]]
            nodes.append(Member(node, rank, recorded_root(job.traces[rank].core, node.rows)))
        if nothing_recorded and kind not in ("send", "all_to_all", "all_to_allv"):
            nodes = [Member(said.node, 0) for said in nodes]  # nobody is the root then
        awaited, guess = awaited_parts(kind, nodes, np.array(one["start_ns"]), np.array(one["end_ns"]))
        assert guess == (nothing_recorded and kind in ("broadcast", "reduce", "gather", "scatter"))
        whole = np.ones((len(nodes), len(nodes)), bool)
        expected = np.array([[awaits is None or rank in awaits for rank in one["ranks"]] for awaits in one["awaits"]])
        # Whom a part need not have waited for, because they came before it, no time can tell.
        start = np.array(one["start_ns"])
        came = [np.where(np.array(rows), start, 0).max(axis=1).clip(min=start)
                for rows in (whole if awaited is None else awaited, expected)]  # fmt: skip
        right += bool((came[0] == came[1]).all())
        total += 1
    assert total > 40
    assert right == total if not nothing_recorded else right >= 0.9 * total


@given(st.data())
def test_a_root_by_times(data: st.DataObject) -> None:
    """Whoever comes last is the root of a broadcast if all others end together after it."""
    count = data.draw(st.integers(3, 8))
    start = np.array(data.draw(st.lists(st.integers(0, 1000), min_size=count, max_size=count, unique=True)))
    root = int(start.argmax())
    awaited, guess = awaited_parts("broadcast", _strangers(count), start, np.full(count, int(start.max()) + 50))
    assert guess
    assert awaited is not None
    assert awaited[:, root].all()


def _strangers(count: int) -> list[Member]:
    """Parts of a collective whose rank is not known."""
    job = simulated_job(ranks=2, steps=1, program="loop", collective_args="none")
    return [Member(job.traces[0].core.collectives.nodes[0], 0)] * count


calls = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=12)


@given(calls, st.lists(st.integers(0, 90), min_size=2, max_size=8, unique=True))
def test_any_nested_calls(given_calls: list[tuple[int, int]], cuts: list[int]) -> None:
    core = load_core({"traceEvents": [span("cpu_op", f"op{n}", start, length)
                                      for n, (start, length) in enumerate(given_calls)]})  # fmt: skip
    c = core.columns
    base = min(start for start, _ in given_calls)
    bounds = 1000 * (np.array(sorted(cuts)) - base)
    start, end = bounds[:-1], bounds[1:]
    pieces = host_pieces(core, np.zeros(len(start), np.int64), start, end)
    assert np.bincount(pieces.span, pieces.end_ns - pieces.start_ns, len(start)).tolist() == (end - start).tolist()
    # Within an event that outlives its caller, who is the innermost is a matter of cutting; none of these here.
    if c.flags.any():
        return
    outermost = set(c.start_ns[c.parent < 0].tolist()) | set(c.end_ns[c.parent < 0].tolist())
    for low, high, row in zip(pieces.start_ns.tolist(), pieces.end_ns.tolist(), pieces.row.tolist(), strict=True):
        assert not outermost & set(range(low + 1000, high, 1000))
        inside = np.minimum(c.end_ns, high) - np.maximum(c.start_ns, low)
        most = np.flatnonzero(2 * inside > high - low)  # rows are in the order of nesting
        assert row == (most.max() if len(most) else -1)
