"""The critical path: by hand, of simulated jobs whose truth is known, of real traces and of JAX."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span
from hypothesis import given
from joint_causes import causes
from lockstep import ALL_REDUCE, PRODUCT, call, gpu, rank_events, sync, trace, two_ranks
from made_jobs import simulated_job
from made_traces import traces

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.critical_path import path_tables
from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.critical_path import (
    CriticalPath,
    critical_path,
    step_paths,
)
from tracelens_graph.analyses.critical_path.path_nodes import NO_CALL
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.analyses.critical_path.walk import Class
from tracelens_graph.analyses.critical_path.what_if import what_if
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate.xla.__main__ import main as simulate

Short = list[tuple[str, int | None, str, int]]


def short(path: CriticalPath) -> Short:
    """Class, rank, name and duration in ns of each segment."""
    table = path.segments()
    return list(zip(*(list(table[name]) for name in ("class", "rank", "name", "dur_ns")), strict=True))


def assert_whole(path: CriticalPath) -> None:
    """Segments lie end to end, and every table adds up to the length."""
    assert (path.start_ns[1:] == path.end_ns[:-1]).all()
    assert (path.end_ns > path.start_ns).all()
    length = path.length_ns
    assert length == path.end_ns[-1] - path.start_ns[0]
    assert sum(path.ns_by_class.values()) == length == int(np.sum(path.segments()["dur_ns"]))
    for table in (path.classes(), path.names()):
        assert sum(table["time_ms"]) == pytest.approx(length / 1e6)
        assert sum(table["percent"]) == pytest.approx(100)
        assert sum(table["segments"]) == len(path)
    of_ranks = path.ranks()
    for name in path.ns_by_class:
        gaps = path.ordinal < 0
        expected = int((path.end_ns - path.start_ns)[(path.kind == Class[name]) & ~gaps].sum())
        assert sum(of_ranks[f"{name}_ms"]) == pytest.approx(expected / 1e6)


# --- known paths ------------------------------------------------------------------------------------------------------


def test_of_two_ranks_it_runs_over_the_late_one() -> None:
    path = critical_path(two_ranks(), 1)
    assert short(path) == [
        ("host", 1, "data.py(1): next_batch", 79_000),
        ("host", 1, NO_CALL, 1_000),
        ("launch", 1, "cudaLaunchKernel", 10_000),
        ("computation", 1, PRODUCT, 10_000),
        ("event", 1, ALL_REDUCE, 2_000),
        ("communication", 1, ALL_REDUCE, 48_000),
    ]
    assert_whole(path)
    assert list(path.segments()["op"]) == [None, None, "aten::mm", "aten::mm", None, None]
    assert path.notes == []
    assert list(path.ranks()["rank"]) == [1]
    assert repr(path) == (
        "<Critical path of step 1, 2 ranks: 0.150 ms: host 53.3 %, communication 32.0 %, launch 6.7 %, "
        "computation 6.7 %, event 1.3 %>"
    )


def test_of_one_rank_what_its_collective_waited_for_is_not_known() -> None:
    path = critical_path(two_ranks()[0].core, 1)
    assert short(path) == [
        ("host", 0, "data.py(1): next_batch", 9_000),
        ("host", 0, NO_CALL, 1_000),
        ("launch", 0, "cudaLaunchKernel", 10_000),
        ("computation", 0, PRODUCT, 40_000),
        ("event", 0, ALL_REDUCE, 2_000),
        ("communication", 0, ALL_REDUCE, 88_000),
    ]


def test_waiting_for_ranks_that_are_not_there_is_told_by_shorter_equal_collectives() -> None:
    events = rank_events(0)
    again = next(dict(event) for event in events if event["name"] == ALL_REDUCE)
    again |= {"ts": 160.0, "dur": 30.0, "args": again["args"] | {"correlation": 9, "Seq": 2}}
    path = critical_path(load_core(trace([*events, call("cudaLaunchKernel", 100.0, 101.0, 9), again])))
    assert [(kind, ns) for kind, _, name, ns in short(path) if name == ALL_REDUCE] == [
        ("event", 2_000), ("peer", 58_000), ("communication", 30_000), ("stream", 10_000), ("communication", 30_000),
    ]  # fmt: skip
    assert_whole(path)


def test_where_the_shortest_equal_collective_lasts_no_time_all_is_waiting() -> None:
    kernels = [gpu(ALL_REDUCE, 10.0, 10.0, 7, 1), gpu(ALL_REDUCE, 20.0, 25.0, 7, 2)]
    path = critical_path(load_core(trace([
        call("cudaLaunchKernel", 0.0, 1.0, 1), call("cudaLaunchKernel", 15.0, 16.0, 2), *kernels,
    ])))  # fmt: skip
    assert short(path)[-1] == ("peer", 0, ALL_REDUCE, 5_000)
    assert_whole(path)


def test_waiting_for_a_rank_that_is_missing() -> None:
    """Rank 3 reads its data late and leaves no trace; the others wait for it in their collectives."""
    job = simulated_job(ranks=4, steps=2, cuda_sync=True, late_rank=3, late_us=4_000.0, missing_ranks=(3,))
    assert len(job.traces) == 3
    path = critical_path(job.job, 3)
    assert path.ns_by_class["peer"] > 2_000_000
    everyone = simulated_job(ranks=4, steps=2, cuda_sync=True, late_rank=3, late_us=4_000.0)
    assert any(note.startswith("ranks are missing") for note in path.notes)
    whole = critical_path(everyone.job, 3)
    assert "peer" not in whole.ns_by_class
    assert not any(note.startswith("ranks are missing") for note in whole.notes)
    assert_whole(path)


def test_without_recorded_waits_they_are_inferred_and_that_is_said() -> None:
    told, untold = critical_path(two_ranks(), 1), critical_path(two_ranks(cuda_sync=False), 1)
    assert short(told) == short(untold)
    assert any("2 are inferred" in note for note in untold.notes)
    assert not any("inferred" in note for note in told.notes)


def test_a_step_begins_where_the_one_before_it_ended() -> None:
    """Two steps of one thread and stream; the second kernel waits for the first one, which ends in the second step.

    The thread did something from the mark of its step on, though no call of it is recorded.
    """
    core = load_core(trace([
        span("user_annotation", "ProfilerStep#4", 0.0, 50.0), span("user_annotation", "ProfilerStep#5", 50.0, 50.0),
        call("cudaLaunchKernel", 10.0, 12.0, 1), call("cudaLaunchKernel", 60.0, 62.0, 2),
        gpu("first", 16.0, 90.0, 7, 1), gpu("second", 91.0, 120.0, 7, 2),
    ]))  # fmt: skip
    first, second = step_paths(core)
    assert (first.step, second.step) == (4, 5)
    assert short(first) == [("host", 0, NO_CALL, 10_000), ("launch", 0, "cudaLaunchKernel", 6_000),
                            ("computation", 0, "first", 74_000)]  # fmt: skip
    assert short(second) == [("stream", 0, "second", 1_000), ("computation", 0, "second", 29_000)]
    assert first.length_ns + second.length_ns == 120_000
    for path in (first, second):
        assert_whole(path)


def test_a_call_that_waits_gives_the_path_back_to_the_host() -> None:
    core = load_core(trace([
        call("cudaLaunchKernel", 10.0, 12.0, 1), gpu("long", 16.0, 90.0, 7, 1),
        call("cudaStreamSynchronize", 20.0, 93.0, 2), sync("Stream Sync", 20.0, 2, 7),
        span("cpu_op", "aten::relu", 95.0, 10.0, External_id=4), call("cudaLaunchKernel", 100.0, 102.0, 3),
        gpu("short", 105.0, 106.0, 7, 3),
    ]))  # fmt: skip
    assert short(critical_path(core)) == [
        ("launch", 0, "cudaLaunchKernel", 6_000),
        ("computation", 0, "long", 74_000),
        ("sync", 0, "cudaStreamSynchronize", 3_000),
        ("host", 0, NO_CALL, 2_000),
        ("host", 0, "aten::relu", 5_000),
        ("launch", 0, "cudaLaunchKernel", 5_000),
        ("computation", 0, "short", 1_000),
    ]


def test_the_backward_thread_works_while_the_forward_one_waits() -> None:
    """Thread 200 begins when thread 100 has called it, and thread 100 goes on when it has ended."""
    core = load_core(trace([
        span("cpu_op", "aten::mm", 9.0, 4.0, Sequence_number=1, External_id=1), call("cudaLaunchKernel", 10.0, 12.0, 1),
        span("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 40.0, 20.0, tid=200, External_id=2,
             Sequence_number=1, Fwd_thread_id=1),
        call("cudaLaunchKernel", 50.0, 52.0, 2, tid=200),
        span("cpu_op", "aten::add_", 70.0, 20.0, External_id=3), call("cudaLaunchKernel", 80.0, 82.0, 3),
        gpu("forward", 14.0, 15.0, 7, 1), gpu("backward", 54.0, 55.0, 7, 2), gpu("step", 84.0, 85.0, 7, 3),
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 100, "tid": 100, "ts": 9.0},
        {"ph": "f", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 100, "tid": 200, "ts": 40.0, "bp": "e"},
    ]))  # fmt: skip
    names = [(name, ns) for kind, _, name, ns in short(critical_path(core)) if kind == "host"]
    evaluates = "autograd::engine::evaluate_function: MmBackward0"
    assert names == [
        ("aten::mm", 1_000), ("cudaLaunchKernel", 3_000), (NO_CALL, 27_000), (evaluates, 10_000),
        (evaluates, 10_000), (NO_CALL, 10_000),
        ("aten::add_", 10_000),
    ]  # fmt: skip


def test_gaps_that_nothing_explains_are_called_so() -> None:
    core = load_core(trace([
        call("cudaLaunchKernel", 0.0, 2.0, 1), call("cudaLaunchKernel", 2.0, 4.0, 2), gpu("first", 5.0, 10.0, 7, 1),
        gpu("second", 200.0, 210.0, 7, 2),
    ]))  # fmt: skip
    assert short(critical_path(core))[-2:] == [
        ("unrecorded", 0, "second", 190_000),
        ("computation", 0, "second", 10_000),
    ]
    assert "0.190 ms of the path have no recorded cause" in critical_path(core).notes


def test_work_of_another_stream_that_ended_just_before_explains_a_gap() -> None:
    core = load_core(trace([
        call("cudaGraphLaunch", 0.0, 4.0, 1), gpu("first", 5.0, 10.0, 7, 1), gpu("branch", 11.0, 199.0, 8, 1),
        gpu("second", 200.0, 210.0, 7, 1),
    ]))  # fmt: skip
    path = critical_path(core)
    assert short(path)[-3:] == [("computation", 0, "branch", 188_000), ("event", 0, "second", 1_000),
                                ("computation", 0, "second", 10_000)]  # fmt: skip
    assert any(note.startswith("1 GPU events start long after") for note in path.notes)


# --- what it says of itself -------------------------------------------------------------------------------------------


def test_near_ties_name_both_causes() -> None:
    path = critical_path(simulated_job(ranks=8, steps=2, cuda_sync=True, seed=3).job, 4)
    table = path.near_ties()
    assert len(table) == len(path.ties.columns["uid"]) > 0
    assert (np.asarray(table["margin_us"]) < 2).all()
    assert set(table["bound_by"]) | set(table["other"]) <= {edge.name for edge in Edge}
    arrivals = [row for row in table.records() if row["other"] == "arrive"]
    assert arrivals
    assert all(row["bound_rank"] != row["other_rank"] for row in arrivals)


def test_slack_is_how_much_later_work_could_end() -> None:
    path = critical_path(two_ranks(), 1)
    table = {row["name"]: row for row in path.slack().records()}
    assert table[PRODUCT]["least_slack_us"] == 0.0
    assert table[PRODUCT]["median_slack_us"] == 20.0  # of rank 1 none, of rank 0 40
    assert table[PRODUCT]["on_path_ms"] == 0.01
    assert table[ALL_REDUCE]["gpu_events"] == 2
    assert table[ALL_REDUCE]["on_path_ms"] == 0.048


def test_the_table_of_steps() -> None:
    job = simulated_job(ranks=2, steps=3, cuda_sync=True)
    paths = step_paths(job.job)
    table = path_tables.steps(paths)
    assert list(table["step"]) == [3, 4, 5]
    assert table["length_ms"] == [path.length_ns / 1e6 for path in paths]


def test_of_a_window_it_leads_from_its_first_event_to_its_last_gpu_end() -> None:
    core = load_core(trace([
        call("cudaLaunchKernel", 10.0, 12.0, 1), gpu("first", 16.0, 90.0, 7, 1),
        call("cudaLaunchKernel", 60.0, 62.0, 2), gpu("second", 91.0, 120.0, 7, 2),
    ]))  # fmt: skip
    path = critical_path(core.window(after_ns=50_000, before_ns=100_000))
    assert short(path) == [("computation", 0, "first", 30_000), ("stream", 0, "second", 1_000),
                           ("computation", 0, "second", 29_000)]  # fmt: skip
    assert path.title == "Critical path, 1 rank (from 0.050 ms to 0.100 ms)"
    assert critical_path(TraceSet.of([core]).narrowed(after_ns=50_000, before_ns=100_000)).length_ns == path.length_ns
    with pytest.raises(AnalysisError, match="the window has no GPU events"):
        critical_path(core.window(after_ns=200_000))


def test_clocks_that_disagree_are_flagged() -> None:
    """By 30 us per rank: collectives end on some ranks before others have come."""
    job = simulated_job(ranks=4, steps=2, cuda_sync=True, clock_offset_us=30, nodes=4)
    matched = MatchedCollectives(job.traces, correct=False)
    wrong = causes(job.traces, matched)
    assert 0 < wrong.worst_negative_ns <= 90_000
    assert any("clocks disagree" in note for note in critical_path(job.traces, matched=matched).notes)
    assert_whole(critical_path(job.traces, 4, matched=matched))
    assert job.causes.worst_negative_ns == 0


# --- what always holds ------------------------------------------------------------------------------------------------

JOBS: dict[str, dict[str, Any]] = {
    "one rank": {},
    "eight ranks": {"ranks": 8, "cuda_sync": True, "seed": 3},
    "late data loader": {"ranks": 8, "cuda_sync": True, "seed": 3, "dataloader_us": 12_000.0, "dataloader_rank": 5},
    "clocks apart": {"ranks": 4, "nodes": 2, "end_noise_us": 5.0, "clock_offset_us": 700.0},
    "waiting hosts": {"ranks": 2, "sync_every_step": True, "read_loss": True, "unlaunched": 5},
    "reentrant, no stacks": {"ranks": 2, "recompute": "reentrant", "python_stacks": False},
    "from mid-step on": {"ranks": 4, "late_rank": 1, "recording_begins_us": 4_000.0},
    "one from mid-step on": {"ranks": 4, "late_rank": 1, "recording_begins_us": 4_000.0, "recording_begins_rank": 1},
}


@pytest.mark.parametrize("job", JOBS)
def test_steps_add_up(job: str) -> None:
    known = simulated_job(**{"steps": 3, **JOBS[job]}).job
    paths = step_paths(known)
    for path in paths:
        assert_whole(path)
    steps = known.steps
    assert sum(path.length_ns for path in paths) == steps.end_ns[-1] - steps.start_ns[0]
    whole = critical_path(known)
    assert_whole(whole)
    assert whole.end_ns[-1] == steps.end_ns[-1]


@given(traces())
def test_any_trace(made: dict[str, Any]) -> None:
    core = load_core(made)
    if not len(core.gpu_rows):
        with pytest.raises(AnalysisError, match="no GPU events"):
            critical_path(core)
        return
    path = critical_path(core)
    known = causes(TraceSet.of([core]))
    moment = known.time * (int(known.level.max()) + 1) + known.level
    assert (moment[known.before] < moment[known.after]).all()
    if len(path):
        assert_whole(path)
    for table in (path.segments(), path.classes(), path.ranks(), path.names(), path.near_ties(), path.slack()):
        assert table.text(100)
    for path in step_paths(core):
        assert path.length_ns == sum(path.ns_by_class.values())


@given(traces(), traces())
def test_any_two_traces(one: dict[str, Any], other: dict[str, Any]) -> None:
    cores = [load_core(one), load_core(other)]
    if not any(len(core.gpu_rows) for core in cores):
        return
    path = critical_path(TraceSet.of(cores))
    assert path.length_ns == sum(path.ns_by_class.values())
    assert path.segments().text(100)


@parametrize("path", chosen_traces())
def test_real_traces(path: Path) -> None:
    core = loaded(path)
    if not len(core.gpu_rows):
        with pytest.raises(AnalysisError, match="no GPU events"):
            critical_path(core)
        return
    found = critical_path(core)
    assert_whole(found)
    assert found.end_ns[-1] == core.columns.end_ns[core.gpu_rows].max()
    for table in (found.near_ties(), found.slack()):
        assert table.text(100)


END = (Role.gpu_end, Role.returned)


@pytest.fixture
def event_sync(corpus: Path) -> Causes:
    return causes(TraceSet.of([loaded(corpus / "hta/critical-path/event-sync.json.gz")]))


def points_of(known: Causes, points: list[int]) -> list[tuple[int, str]]:
    """uid and which end of it, of points."""
    core = known.core(0)
    return [(int(core.columns.uid[known.row[at]]), "end" if known.role[at] in END else "start") for at in points]


def test_event_sync_runs_as_hta_says(event_sync: Causes, goldens: Path) -> None:
    """From the first launch on every point of the path is one of HTA's, in its order.

    But for a copy to pageable memory: its call returns when the copy has ended, so the path runs through that. HTA
    takes the time for the host's. It also weighs much of the time that it spans as nothing, so lengths are no measure.
    """
    with (goldens / "hta/event-sync/critical_path_all_0_rank0.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    theirs = [(int(row["to_event"]), row["to_at"]) for row in rows]
    known = event_sync
    # HTA's path goes on to the last call of the step; ours to the last GPU end, so it is followed from that call back.
    synchronized = known.core(0).row(41)
    at = int(np.flatnonzero((known.role == Role.returned) & (known.row == synchronized))[0])
    walked = [at]
    while (edge := int(known.binding[walked[-1]])) >= 0:
        walked.append(int(known.before[edge]))
    ours = points_of(known, walked[::-1])
    launched = ours.index((13, "start"))
    copy = [(23, "start"), (23, "end")]
    places = [theirs.index(point) for point in ours[launched:] if point not in copy]
    assert places == sorted(places)
    assert [point for point in ours if point in copy] == copy
    gpu_edges = [(row["edge_type"], int(row["from_event"]), int(row["to_event"])) for row in rows
                 if row["edge_type"] in ("KERNEL_LAUNCH_DELAY", "SYNC_DEPENDENCY")]  # fmt: skip
    assert gpu_edges == [("KERNEL_LAUNCH_DELAY", 35, 33), ("SYNC_DEPENDENCY", 33, 41)]
    assert ours[-4:] == [(35, "start"), (33, "start"), (33, "end"), (41, "end")]


def test_backward_thread_is_as_long_as_hta_says(corpus: Path) -> None:
    """Weight and span are one there: 64,232 us, of which 64,135 a launch."""
    path = critical_path(loaded(corpus / "hta/backward-thread.json.gz"))
    assert path.length_ns == 64_232_000
    assert path.ns_by_class == {"host": 52_000, "launch": 64_135_000, "computation": 45_000}


def test_event_sync_multi_stream_ends_on_the_stream_that_waited(corpus: Path) -> None:
    path = critical_path(loaded(corpus / "hta/critical-path/event-sync-multi-stream.json.gz"))
    assert path.length_ns == 19_917_000  # HTA's span
    table = path.segments()
    assert list(table["uid"])[-2:] == [92, 90]
    assert not any("inferred" in note for note in path.notes)


def test_old_rows_of_simple_add(corpus: Path) -> None:
    """Its rows do not tell the records that streams wait for, and Context Sync is on stream 4294967295."""
    known = causes(TraceSet.of([loaded(corpus / "hta/critical-path/simple-add.json.gz")]))
    bound = known.kind[known.binding[known.binding >= 0]]
    assert {Edge.event, Edge.sync} <= {Edge(one) for one in bound.tolist()}


def test_eight_ranks_of_dlrm(corpus: Path) -> None:
    """8 collectives of 8 ranks; rank 7 is mostly the last to come, so the path runs over it."""
    files = sorted((corpus / "dlrm-8-ranks/kineto").glob("*.json.gz"))
    ranks = TraceSet.of([loaded(file) for file in files])
    known = causes(ranks)
    assert (known.role == Role.complete).sum() == 8
    assert known.worst_negative_ns == 0
    last = known.ordinal[known.role == Role.complete]
    assert np.bincount(last, minlength=8).tolist() == [0, 0, 0, 0, 1, 2, 0, 5]
    path = critical_path(ranks)
    assert 7 in path.ranks()["rank"]
    assert path.length_ns == sum(path.ns_by_class.values())
    assert any("are inferred from the order of calls" in note for note in path.notes)
    faster = what_if(ranks, collectives=2.0)
    assert 0 <= faster.saved_ns <= path.ns_by_class["communication"]


@pytest.mark.parametrize("devices", [1, 2])
def test_what_is_computed_bounds_steps_that_are_launched_ahead(tmp_path: Path, devices: int) -> None:
    assert simulate([str(tmp_path), "--devices", str(devices), "--steps", "3"]) == 0
    path = critical_path(TraceSet.of(load_core(tmp_path)).by_device())
    time = {row["class"]: row["time_ms"] for row in path.classes().records()}
    total = sum(time.values())
    assert time["computation"] > 0.8 * total
    # From one step to the next: Python is told that the GPU is done, and gives threads of the pool the next step.
    assert 0 < time["host"] < 0.15 * total
    assert 0 < time["sync"] < 0.05 * total
    names = {(row["class"], row["name"]) for row in path.names().records()}
    assert any(of == "sync" and "block_until_ready" in name for of, name in names)
