"""Simulated collectives: by hand, their kinds, what traces say of them, who takes part, how their times add up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from simulate.jobs import LOOP, SMALL, check_causes, check_collectives, collectives, members

from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import Run, simulate
from tracelens_graph.simulate.events import Collective, GpuEvent, Member
from tracelens_graph.simulate.job import Devices, drive
from tracelens_graph.simulate.options import CALLED_ALONE, KINDS, awaited_ranks
from tracelens_graph.simulate.places import Group

JOBS: dict[str, dict[str, Any]] = {
    "every kind": {**LOOP, "ranks": 4, "step_collectives": CALLED_ALONE, "collective_mb": (0.01, 10.0), "nodes": 2},
    "three ranks": {**LOOP, "ranks": 3, "step_collectives": ("send", "all_to_allv", "broadcast", "reduce")},
    "tensor parallel": {**SMALL, "ranks": 4, "tensor_parallel": 2},
    "pipeline": {**SMALL, "ranks": 4, "layers": 4, "pipeline_parallel": 4, "batch": 4},
    "experts": {**SMALL, "ranks": 4, "expert_parallel": 2},
    "all of these": {
        **SMALL, "ranks": 8, "layers": 2, "pipeline_parallel": 2, "tensor_parallel": 2, "expert_parallel": 2,
        "micro_batches": 2, "repeat_group_names": True, "nodes": 2, "steps": 1,
    },
    "recomputed": {
        **SMALL, "ranks": 4, "layers": 2, "pipeline_parallel": 2, "tensor_parallel": 2, "micro_batches": 2,
        "recompute": "non_reentrant", "steps": 1,
    },
    "reentrant": {**SMALL, "ranks": 4, "tensor_parallel": 2, "expert_parallel": 2, "recompute": "reentrant"},
}  # fmt: skip


@pytest.fixture(scope="module", params=JOBS)
def run(request: pytest.FixtureRequest) -> Run:
    return simulate(**JOBS[request.param])


def test_times_add_up_and_work_has_causes(run: Run) -> None:
    check_collectives(run)
    for rank in run.ranks:
        check_causes(rank)
        assert rank.truth["collectives"] == collectives(run)


def test_kernels_say_what_they_do(run: Run) -> None:
    for one in collectives(run):
        is_transfer = one["kind"] == "send_recv"
        for part in members(one):
            events = run.ranks[part["ranks"]].trace["traceEvents"]
            args = events[part["kernels"]]["args"]
            assert args["Process Group Name"] == one["group"]
            assert args["Process Group Description"] == one["description"]
            assert json.loads(args["Process Group Ranks"]) == one["group_ranks"]
            assert args["Group size"] == len(one["group_ranks"])
            assert (args["Seq"], args["dtype"]) == (part["seqs"], one["dtype"])
            assert args["In msg nelems"] == part["elements_in"]
            assert args["Out msg nelems"] == part["elements_out"]
            assert json.loads(args["In split size"]) == part["split_in"]
            assert json.loads(args["Out split size"]) == part["split_out"]
            assert 2**63 <= args["Comms Id"] < 2**64
            if not is_transfer:
                assert args["Collective name"] == one["kind"]
                assert args["Seq"] == one["seq"]
            elif part["ranks"] == one["source"]:
                assert (args["Collective name"], args["Dst Rank"]) == ("send", one["target"])
            else:
                assert (args["Collective name"], args["Src Rank"]) == ("recv", one["source"])


def test_a_rank_lists_the_groups_it_is_in(run: Run) -> None:
    groups = run.ranks[0].truth["groups"]
    for rank in run.ranks:
        told = rank.trace["distributedInfo"]
        assert told["pg_count"] == len(told["pg_config"])
        listed = [(one["pg_name"], one["pg_desc"], one["ranks"], one["pg_size"]) for one in told["pg_config"]]
        known = [(one["name"], one["description"], one["ranks"]) for one in groups if rank.rank in one["ranks"]]
        assert sorted(listed) == sorted((*one, len(one[2])) for one in known)


def test_the_graph_finds_the_same_collectives(run: Run) -> None:
    known = {(part["ranks"], part["kernels"]): one["key"] for one in collectives(run) for part in members(one)}
    keys: dict[str, set[str]] = {}
    for rank in run.ranks:
        found = load_core(rank.trace).collectives
        assert not len(found.unassigned)
        for node in found.nodes:
            (uid,) = node.uids
            keys.setdefault(node.key, set()).add(known.pop((rank.rank, uid)))
    assert not known
    assert all(len(one) == 1 for one in keys.values())


def test_sources_leave_early_and_targets_late() -> None:
    run = simulate(**LOOP, ranks=4, step_collectives=("broadcast", "scatter", "reduce", "gather"), end_noise_us=0.0)
    for one in collectives(run):
        ends = dict(zip(one["ranks"], one["end_ns"], strict=True))
        starts = dict(zip(one["ranks"], one["start_ns"], strict=True))
        if one["kind"] in ("broadcast", "scatter"):
            assert one["source"] == 3
            assert all(ends[3] <= end for end in ends.values())
        if one["kind"] in ("reduce", "gather"):
            assert one["target"] == 3
            assert ends[3] == max(ends.values()) > max(starts.values())
            assert all(ends[rank] == starts[rank] + one["transfer_ns"] for rank in (0, 1, 2))
    assert len(collectives(run)) == 2 * (4 + 2)


def test_long_groups_are_cut_as_pytorch_does() -> None:
    run = simulate(**LOOP | {"layers": 1, "steps": 1}, ranks=33)
    (one, *_) = collectives(run)
    args = run.ranks[0].trace["traceEvents"][one["kernels"][0]]["args"]
    assert args["Process Group Ranks"] == f"[{', '.join(map(str, range(30)))}, ...]"
    assert run.ranks[0].trace["distributedInfo"]["pg_config"][0]["ranks"] == one["group_ranks"] == list(range(33))


def work(ready: int, duration: int = 0, stream: int = 7, waits: tuple[GpuEvent, ...] = ()) -> GpuEvent:
    return GpuEvent("kernel", "k", stream, duration, ready=ready, waits=waits, gap=10)


def together(kind: str, works: list[GpuEvent], root: int | None = None, noise: tuple[int, ...] = (0, 0, 0)) -> None:
    """Make works of the ranks 0, 1, … one collective that takes 30 ns once those have come that count."""
    ranks = tuple(range(len(works)))
    what = KINDS[kind]
    one = Collective(Group("0", "d", ranks), 1, kind, "Float", ranks, 1, "seed", 5, what.is_barrier)
    for rank, gpu in enumerate(works):
        gpu.collective = one
        awaits = awaited_ranks(what, rank, ranks, root, (1,) * len(ranks), 1)
        one.members[rank] = Member(rank, gpu, 1, 1, 1, 30, noise[rank], awaits)


def times(devices: list[list[GpuEvent]]) -> list[list[tuple[int, int]]]:
    processes: Any = [SimpleNamespace(gpus=works) for works in devices]
    Devices(processes).run()
    return [[(gpu.start, gpu.end) for gpu in works] for works in devices]


def test_work_waits_for_launch_stream_and_other_streams() -> None:
    first = work(100, 50)
    second, other = work(120, 40), work(0, 500, stream=20)
    third = work(160, 5, waits=(other,))
    assert times([[first, second, other, third]]) == [[(100, 150), (160, 200), (0, 500), (500, 505)]]
    assert [gpu.previous for gpu in (first, second, third, other)] == [None, first, second, None]


def test_a_barrier_ends_when_all_have_come() -> None:
    works = [work(100), work(250), work(0)]
    together("allreduce", works, noise=(0, 7, 0))
    assert times([[gpu] for gpu in works]) == [[(100, 280)], [(250, 287)], [(0, 280)]]
    collective = works[0].collective
    assert collective is not None
    assert [member.wait for member in collective.members.values()] == [150, 0, 250]


def test_a_source_leaves_before_others_come() -> None:
    works = [work(900), work(100), work(0)]
    together("broadcast", works, root=1)
    assert times([[gpu] for gpu in works]) == [[(900, 930)], [(100, 130)], [(0, 130)]]


def test_ranks_that_wait_for_each_other_for_ever_are_named() -> None:
    alone = work(0)
    together("allreduce", [alone, work(0)])

    def program(works: tuple[GpuEvent, ...]) -> Iterator[tuple[GpuEvent, ...]]:
        yield works

    processes: Any = [SimpleNamespace(gpus=[alone]), SimpleNamespace(gpus=[])]
    with pytest.raises(RuntimeError, match=r"wait for each other: \[0\]"):
        drive([program((alone,)), program(())], Devices(processes))
