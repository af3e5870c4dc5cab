"""Recordings that begin in mid-step: what they lack, and that the run itself is the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from simulate.jobs import SMALL, check_causes, check_clocks, check_collectives, collectives
from simulate.reading import GPU, HOST, of, span

import tracelens_graph
from tracelens_graph.simulate import RankTrace, simulate

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


def test_a_collective_that_began_before_is_not_recorded_on_that_rank() -> None:
    whole, run = (simulate(**JOB, recording_begins_us=later, recording_begins_rank=1) for later in (0.0, LATER_US))
    lacking = 0
    for one, before in zip(collectives(run), collectives(whole), strict=True):
        assert (one["start_ns"], one["end_ns"], one["wait_ns"]) == (
            before["start_ns"], before["end_ns"], before["wait_ns"],
        )  # fmt: skip
        is_gone = one["start_ns"][1] < begins(run.ranks[1])
        assert [kernel is None for kernel in one["kernels"]] == [False, is_gone, False]
        lacking += is_gone
    assert lacking
    assert run.ranks[0].trace["traceEvents"] == whole.ranks[0].trace["traceEvents"]
    planted = {"trouble": "late_recording", "rank": 1, "us": LATER_US}
    assert planted in run.ranks[0].truth["planted"]


def test_work_that_was_launched_before_has_no_launch() -> None:
    run = simulate(**{**JOB, "batch": 8, "width": 1024}, recording_begins_us=LATER_US)
    lone = 0
    for rank in run.ranks:
        table = rank.truth["gpu_events"]
        kept = {event["args"]["correlation"] for event in of(rank.trace, "cuda_runtime", "cuda_driver").values()}
        events = rank.trace["traceEvents"]
        for uid, launch in zip(table["uid"], table["launch"], strict=True):
            assert (launch is None) == (events[uid]["args"]["correlation"] not in kept)
            lone += launch is None
    assert lone


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"recording_begins_us": -1.0}, "recording_begins_us must not be negative"),
        ({"recording_begins_us": 1e9}, "rank 0 has nothing left to record"),
        ({"recording_begins_us": 1.0, "recording_begins_rank": 3}, "recording_begins_rank names rank 3 of 3"),
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        simulate(**JOB, **wrong)
