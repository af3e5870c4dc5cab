"""The truth about causes: why work started when it did, what other work would have meant, late recordings."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from simulate.jobs import (
    GPU,
    HOST,
    LOOP,
    SMALL,
    check_causes,
    check_clocks,
    check_collectives,
    of,
    rows,
    span,
)

import tracelens_graph
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


JOB: dict[str, Any] = {**SMALL, "ranks": 3, "steps": 3, "late_rank": 2}
LATER_US = 2_500.0


def begins(rank: RankTrace) -> int:
    """When the program of a rank began, ns: the profiler's mark is 40 us before."""
    (mark,) = (one for one in rank.trace["traceEvents"] if one["name"] == "PyTorch Profiler (0)")
    return span(mark)[0] + 40_000


@pytest.mark.parametrize(
    ("settings", "only"),
    [
        ({}, None), ({}, 1), ({"cuda_sync": True, "recompute": "reentrant"}, 1),
        ({"pipeline_parallel": 3, "layers": 3, "micro_batches": 2}, None),
    ],
)  # fmt: skip
def test_what_began_before_is_not_recorded(settings: dict[str, Any], only: int | None) -> None:
    whole = simulate(**{**JOB, **settings})
    run = simulate(**{**JOB, **settings}, recording_begins_us=LATER_US, recording_begins_rank=only)
    check_collectives(run)
    check_clocks(run)
    for one, before in zip(run.ranks, whole.ranks, strict=True):
        is_late = only in (None, one.rank)
        assert begins(one) - begins(before) == (1000 * LATER_US if is_late else 0)
        kept = [span(event) for event in of(one.trace, *GPU, *HOST).values() if event["pid"] != 0 or "stream" in
                event.get("args", {})]  # fmt: skip
        every = [span(event) for event in of(before.trace, *GPU, *HOST).values() if event["pid"] != 0 or "stream" in
                 event.get("args", {})]  # fmt: skip
        assert sorted(kept) == sorted(one for one in every if not is_late or one[0] >= begins(before) + 1000 * LATER_US)
        check_causes(one)
        graph = tracelens_graph.load(one.trace)
        assert not graph.info.repairs
        marks, every_mark = (
            {event["name"]: span(event)[0] for event in of(rank.trace, "user_annotation").values()
             if event["name"].startswith("ProfilerStep#")} for rank in (one, before)
        )  # fmt: skip
        assert marks == {name: start for name, start in every_mark.items() if start >= begins(one)}
        assert 0 < len(marks) < len(every_mark) or not is_late
        assert json.dumps(one.execution_trace)
