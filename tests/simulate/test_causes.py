"""The truth about causes: why work started when it did, and what would have been had other work taken less."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from simulate.jobs import LOOP, SMALL, check_causes, collectives, members, rows
from simulate.reading import HOST, of, span

from tracelens_graph.simulate import RankTrace, Run, simulate

SYNCHRONIZING: dict[str, dict[str, Any]] = {
    "data parallel": {"ranks": 2},
    "reading": {"ranks": 2, "sync_every_step": True, "read_loss": True},
    "tensor parallel": {"ranks": 2, "tensor_parallel": 2},
    "pipeline": {"ranks": 2, "layers": 2, "pipeline_parallel": 2, "micro_batches": 2},
    "barriers": {"ranks": 3, "host_barrier": True, "step_collectives": ("broadcast", "send")},
    "loop": {**LOOP, "ranks": 3},
}


@pytest.fixture(scope="module", params=SYNCHRONIZING)
def run(request: pytest.FixtureRequest) -> Run:
    return simulate(**(SMALL | {"cuda_sync": True} | SYNCHRONIZING[request.param]))


def waits_by_trace(rank: RankTrace) -> dict[int, set[int]]:
    """Kernel -> work of other streams that it waits for, from the Stream Wait Event rows of a trace alone."""
    events = rank.trace["traceEvents"]
    calls = {e["args"]["correlation"]: span(e)[0] for e in of(rank.trace, *HOST).values() if "correlation" in e["args"]}
    launched = sorted(
        (calls[events[uid]["args"]["correlation"]], events[uid]["tid"], uid)
        for uid in rank.truth["gpu_events"]["uid"]
        if events[uid]["args"]["correlation"] in calls
    )
    found: dict[int, set[int]] = {}
    for event in of(rank.trace, "cuda_sync").values():
        args = event["args"]
        if args["cuda_sync_kind"] != "Stream Wait Event":
            continue
        assert calls[args["correlation"]] == span(event)[0]
        recorded = calls[args["wait_on_cuda_event_record_corr_id"]]
        before = [uid for time, stream, uid in launched if stream == args["wait_on_stream"] and time < recorded]
        after = [uid for time, stream, uid in launched if stream == args["stream"] and time > span(event)[0]]
        if before and after:
            found.setdefault(after[0], set()).add(before[-1])
    return found


def test_stream_wait_events_say_what_waits_for_what(run: Run) -> None:
    for rank in run.ranks:
        known = {row["uid"]: set(row["awaited"]) for row in rows(rank.truth["gpu_events"]) if row["awaited"]}
        assert waits_by_trace(rank) == known
        assert known


def test_calls_that_wait_return_after_what_they_wait_for(run: Run) -> None:
    for rank in run.ranks:
        events = rank.trace["traceEvents"]
        ends = {row["uid"]: row["true_end_ns"] for row in rows(rank.truth["gpu_events"])}
        waits = rows(rank.truth["host_waits"])
        for row in waits:
            assert row["last_end_ns"] == ends[row["last"]] == max(ends[uid] for uid in row["awaited"])
            start, end = span(events[row["call"]])
            assert end == row["end_ns"] > row["last_end_ns"]
            if row["had_to_wait"]:
                assert start < row["last_end_ns"]
                assert 900 <= row["wake_ns"] <= row["end_ns"] - row["last_end_ns"] <= row["wake_ns"] + 200
            else:
                assert row["last_end_ns"] < start + 400
        kinds = Counter(e["name"] for e in of(rank.trace, "cuda_sync").values())
        assert Counter(row["kind"] for row in waits) == kinds - Counter({"Stream Wait Event": kinds.total()})


def test_work_starts_when_its_last_cause_allows_it(run: Run) -> None:
    for rank in run.ranks:
        check_causes(rank)
    found = Counter(row["binding"] for rank in run.ranks for row in rows(rank.truth["gpu_events"]))
    assert found.keys() <= {"launch", "stream", "wait"}
    assert min(found["launch"], found["stream"] + found["wait"]) > 0


def test_without_synchronization_rows_the_same_times() -> None:
    bare = simulate(**(SMALL | {"ranks": 2}))
    told = simulate(**(SMALL | {"ranks": 2, "cuda_sync": True}))
    for one, other in zip(bare.ranks, told.ranks, strict=True):
        assert not of(one.trace, "cuda_sync")
        assert one.truth["gpu_events"] == other.truth["gpu_events"]


def replay(run: Run, transfers: dict[tuple[str, int], int]) -> dict[tuple[int, int], tuple[int, int]]:
    """Start and end of all work of a run whose hosts never wait, with other transfer times, from its truth alone."""
    table = {(rank.rank, row["uid"]): row for rank in run.ranks for row in rows(rank.truth["gpu_events"])}
    of_kernel = {(p["ranks"], p["kernels"]): (one, p) for one in collectives(run) for p in members(one)}
    kernel = {(one["key"], rank): uid for (rank, uid), (one, _) in of_kernel.items()}
    ready = {key: row["true_start_ns"] - row["slack_ns"]["launch"] for key, row in table.items()}
    start, end = dict(ready), dict.fromkeys(table, 0)
    changed = True
    while changed:
        changed = False
        for (rank, uid), row in table.items():
            causes = [ready[rank, uid], *(end[rank, other] for other in row["awaited"])]
            if row["previous"] is not None:
                causes.append(end[rank, row["previous"]] + row["stream_gap_ns"])
            start[rank, uid] = max(causes)
            if (rank, uid) in of_kernel:
                one, part = of_kernel[rank, uid]
                last = max(start[peer, kernel[one["key"], peer]] for peer in part["awaits"] or one["ranks"])
                ended = last + transfers[one["key"], rank] + part["end_noise_ns"]
            else:
                ended = start[rank, uid] + row["duration_ns"]
            changed |= ended != end[rank, uid]
            end[rank, uid] = ended
    return {key: (start[key], end[key]) for key in table}


def transfer_times(run: Run) -> dict[tuple[str, int], int]:
    return {(one["key"], part["ranks"]): part["transfers_ns"] for one in collectives(run) for part in members(one)}


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
@pytest.mark.parametrize(
    "job",
    [{"ranks": 3}, {"ranks": 2, "tensor_parallel": 2}, {"ranks": 2, "layers": 2, "pipeline_parallel": 2, "batch": 4}],
    ids=["data parallel", "tensor parallel", "pipeline"],
)
def test_the_truth_tells_what_another_bandwidth_would_give(job: dict[str, Any], factor: float) -> None:
    usual = {**SMALL, "width": 256, "vocabulary": 4096, "steps": 1, "end_noise_us": 3.0, **job}
    before = simulate(**usual, bus_gb_per_s=20.0)
    after = simulate(**usual, bus_gb_per_s=20.0 * factor)
    known = {
        (rank.rank, row["uid"]): (row["true_start_ns"], row["true_end_ns"])
        for rank in after.ranks
        for row in rows(rank.truth["gpu_events"])
    }
    assert replay(before, transfer_times(after)) == known
    if factor != 1.0:
        assert replay(before, transfer_times(before)) != known
