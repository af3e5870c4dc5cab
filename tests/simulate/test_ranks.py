"""Ranks of a simulated job: clocks, hosts, noise, and what is planted to make one of them late or its trace lack."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from simulate.jobs import (
    LOOP,
    SMALL,
    check_causes,
    check_clocks,
    check_collectives,
    collectives,
    members,
    of,
    rows,
)

import tracelens_graph
from tracelens_graph.simulate import RankTrace, simulate, write

BASE_NS = 1_428_625_700_000_000


def by_name(rank: RankTrace, name: str) -> list[dict[str, Any]]:
    return [event for event in rank.trace["traceEvents"] if event["name"] == name]


# -- clocks and hosts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offset", "known"),
    [
        (250, [0, 250_000, 500_000, 750_000]),
        ([0, 50_000, -3.5, 7], [0, 50_000_000, -3_500, 7_000]),
        (lambda clock: clock * clock, [0, 1_000, 4_000, 9_000]),
    ],
    ids=["times the rank", "listed", "function"],
)
def test_clocks_are_ahead(offset: Any, known: list[int]) -> None:
    run = simulate(**LOOP, ranks=4, clock_offset_us=offset, clock_drift_ppm=[0, 50, -20, 1])
    right = simulate(**LOOP, ranks=4)
    clocks = run.ranks[0].truth["clocks"]
    assert [clock["offset_ns"] for clock in clocks] == [rank.truth["clock_offset_ns"] for rank in run.ranks] == known
    assert [clock["drift_ppm"] for clock in clocks] == [0, 50, -20, 1]
    assert {clock["at_ns"] for clock in clocks} == {BASE_NS}
    check_clocks(run)
    for one, other in zip(collectives(run), collectives(right), strict=True):
        assert (one["start_ns"], one["end_ns"]) == (other["start_ns"], other["end_ns"])
        assert other["recorded_end_ns"] == other["end_ns"]
        for part in members(one):
            shown = known[part["ranks"]]
            drift = (part["end_ns"] - BASE_NS) * clocks[part["ranks"]]["drift_ppm"] / 1e6
            assert abs(part["recorded_end_ns"] - part["end_ns"] - shown - drift) <= 0.5


def test_ranks_of_a_host_share_its_clock() -> None:
    run = simulate(**LOOP, ranks=4, nodes=2, clock_offset_us=[0, 9_000], clock_drift_ppm=10.0)
    clocks = run.ranks[0].truth["clocks"]
    assert [clock["host_name"] for clock in clocks] == ["node000", "node000", "node001", "node001"]
    assert [clock["offset_ns"] for clock in clocks] == [0, 0, 9_000_000, 9_000_000]
    assert [clock["drift_ppm"] for clock in clocks] == [0, 0, 10, 10]
    check_clocks(run)
    assert [rank.trace["host_name"] for rank in run.ranks] == [clock["host_name"] for clock in clocks]
    for rank in run.ranks:
        assert len(rank.trace["deviceProperties"]) == 2
        device = rank.rank % 2
        kernels = of(rank.trace, "kernel").values()
        assert {(event["pid"], event["args"]["device"]) for event in kernels} == {(device, device)}
        assert rank.trace["distributedInfo"]["world_size"] == 4
    assert len({event["pid"] for rank in run.ranks for event in of(rank.trace, "cpu_op").values()}) == 4
    assert all("host_name" not in rank.trace for rank in simulate(**LOOP, ranks=2).ranks)


# -- noise -------------------------------------------------------------------------------------------------


# -- late and slow -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "name"),
    [
        ("data_loader", "multiprocessing/queues.py(113): get"),
        ("python", "train.py(52): augment"),
        ("op", "aten::sort"),
        ("allocation", "cudaMalloc"),
    ],
)
def test_a_late_rank_is_late_for_its_reason_and_nothing_else_changes(reason: Any, name: str) -> None:
    job: dict[str, Any] = {**SMALL, "ranks": 3, "steps": 3}
    run = simulate(**job, late_rank=1, late_reason=reason, late_us=3000.0, late_every=2)
    usual = simulate(**job)
    planted = {"trouble": "late_rank", "rank": 1, "reason": reason, "us": 3000.0, "steps": [3, 5]}
    assert run.ranks[0].truth["planted"] == [planted]
    assert usual.ranks[0].truth["planted"] == []
    for rank in run.ranks:
        longer = [event for event in by_name(rank, name) if event["dur"] >= 3000]
        assert len(longer) == (2 if rank.rank == 1 else 0)
    late = [one for one in collectives(run) if one["step"] in (3, 5)]
    assert sum(one["last_rank"] == 1 and one["skew_ns"] > 2_500_000 for one in late) >= 2
    for one, other in zip(run.ranks, usual.ranks, strict=True):
        durations = [
            [row["duration_ns"] for row in rows(rank.truth["gpu_events"]) if row["kind"] != "communication"]
            for rank in (one, other)
        ]
        assert durations[0] == durations[1]
        assert one.truth["gpu_events"]["stream_gap_ns"] == other.truth["gpu_events"]["stream_gap_ns"]
        assert one.truth["gpu_events"]["launch_latency_ns"] == other.truth["gpu_events"]["launch_latency_ns"]


# -- what recordings lack ----------------------------------------------------------------------------------


def test_a_missing_rank_leaves_no_trace(tmp_path: Path) -> None:
    run = simulate(**LOOP, ranks=4, missing_ranks=(1, 3))
    assert [rank.rank for rank in run.ranks] == [0, 2]
    assert [path.name for path in write(run, tmp_path)] == ["rank0.json.gz", "rank2.json.gz"]
    assert [one["rank"] for one in run.ranks[0].truth["planted"]] == [1, 3]
    for one in collectives(run):
        assert one["ranks"] == [0, 1, 2, 3]
        assert [kernel is None for kernel in one["kernels"]] == [False, True, False, True]
    for rank in run.ranks:
        assert rank.trace["distributedInfo"]["world_size"] == 4


def test_a_dropped_collective_is_absent_from_one_trace() -> None:
    whole, run = (simulate(**SMALL, ranks=3, dropped_collectives=dropped) for dropped in ((), [(1, 2)]))
    (planted,) = run.ranks[0].truth["planted"]
    assert (planted["trouble"], planted["rank"], planted["place"]) == ("dropped_collective", 1, 2)
    for before, after in zip(collectives(whole), collectives(run), strict=True):
        assert (before["start_ns"], before["end_ns"], before["seq"]) == (
            after["start_ns"],
            after["end_ns"],
            after["seq"],
        )
        lacks = [1] if after["key"] == planted["key"] else []
        assert [part["ranks"] for part in members(after) if part["kernels"] is None] == lacks
    counts = [Counter(event["name"] for event in one.ranks[1].trace["traceEvents"]) for one in (whole, run)]
    missing = counts[0] - counts[1]
    assert missing["record_param_comms"] == missing["cudaLaunchKernelExC"] == 1
    assert missing["c10d::allreduce_"] + missing["c10d::_allgather_base_"] == 1
    assert sum(count for name, count in missing.items() if name.startswith("ncclDevKernel")) == 1
    assert not counts[1] - counts[0]
    assert run.ranks[0].trace["traceEvents"] == whole.ranks[0].trace["traceEvents"]
    tracelens_graph.load(run.ranks[1].trace)


@pytest.mark.parametrize("counts", [False, True])
def test_an_extra_collective_is_recorded_on_one_rank_alone(counts: bool) -> None:
    run = simulate(**SMALL, ranks=3, extra_collectives=[(2, 1)], extra_counts=counts)
    check_collectives(run)
    (extra,) = (one for one in collectives(run) if one["is_extra"])
    assert (extra["ranks"], extra["wait_ns"], extra["group_ranks"]) == ([2], [0], [0, 1, 2])
    args = [
        [event["args"]["Seq"] for event in of(rank.trace, "kernel").values() if "Seq" in event["args"]]
        for rank in run.ranks
    ]
    assert args[0] == args[1]
    assert len(args[2]) == len(args[0]) + 1
    if counts:  # all later ones of rank 2 are one off
        assert args[2] == [*args[0], args[0][-1] + 1]
        assert [one["seqs"][2] - one["seq"] for one in collectives(run) if not one["is_extra"]] == [0] + [1] * 7
    else:
        assert set(args[2]) - set(args[0]) == {extra["seq"]}
    # the kernel it stands before is the next of its kind
    assert extra["end_ns"][0] < next(one for one in collectives(run) if one["key"].endswith("#2"))["start_ns"][2]


# -- many ranks, and any job -------------------------------------------------------------------------------


@examples(10)
@given(data=st.data())
def test_any_job_holds_together(data: st.DataObject) -> None:
    tensor, stages, experts, replicas = (data.draw(st.integers(1, 2)) for _ in range(4))
    ranks = tensor * stages * experts * replicas
    wanted = {
        "ranks": ranks, "tensor_parallel": tensor, "pipeline_parallel": stages, "expert_parallel": experts,
        "layers": stages, "steps": 1, "micro_batches": data.draw(st.sampled_from([1, 2])),
        "seed": data.draw(st.integers(0, 99)), "python_stacks": False, "memory": False,
        "nodes": data.draw(st.sampled_from([None, 1, ranks])), "cuda_sync": data.draw(st.booleans()),
        "clock_offset_us": data.draw(st.floats(-50_000, 50_000)), "clock_drift_ppm": data.draw(st.floats(-50, 50)),
        "end_noise_us": data.draw(st.floats(0, 20)), "odd_share": data.draw(st.floats(0, 1)),
        "expert_skew": data.draw(st.floats(0, 1)), "read_loss": data.draw(st.booleans()),
        "repeat_group_names": data.draw(st.booleans()), "host_barrier": data.draw(st.booleans()),
        "late_rank": data.draw(st.sampled_from([None, ranks - 1])),
        "recompute": data.draw(st.sampled_from(["none", "non_reentrant", "reentrant"])),
        "dropped_collectives": data.draw(st.sampled_from([(), ((0, 1), (ranks - 1, 0))])),
    }  # fmt: skip
    run = simulate(**SMALL | wanted)
    if ranks > 1:
        check_collectives(run)
    check_clocks(run)
    for rank in run.ranks:
        check_causes(rank)
        tracelens_graph.load(rank.trace)


# -- settings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ranks": 3, "tensor_parallel": 2}, "not a multiple of tensor_parallel times pipeline_parallel"),
        ({"ranks": 4, "expert_parallel": 3}, "does not divide the 4 data parallel ranks"),
        ({"ranks": 2, "pipeline_parallel": 2, "layers": 1}, "fewer than pipeline_parallel 2"),
        ({"ranks": 2, "pipeline_parallel": 2, "micro_batches": 3}, "not a multiple of micro_batches 3"),
        ({"ranks": 3, "tensor_parallel": 3, "heads": 16}, "heads 16 is not a multiple of tensor_parallel 3"),
        ({"ranks": 4, "nodes": 3}, "ranks 4 is not a multiple of nodes 3"),
        ({"ranks": 2, "clock_offset_us": [1.0]}, "clock_offset_us gives 1 numbers for 2 clocks"),
        ({"ranks": 2, "late_rank": 2}, "late_rank names rank 2 of 2"),
        ({"ranks": 2, "dropped_collectives": [(7, 0)]}, "dropped_collectives names rank 7 of 2"),
        ({"ranks": 2, "missing_ranks": [0, 1]}, "leaves no rank"),
        ({"odd_share": 1.5}, "odd_share is a share"),
        ({"end_noise_us": -1.0}, "end_noise_us must not be negative"),
        ({"late_reason": "weather"}, "late_reason is data_loader, python, op or allocation, not 'weather'"),
        ({"step_collectives": ["allreduced"]}, "step_collectives has no kind 'allreduced'; did you mean allreduce"),
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(**wrong)
