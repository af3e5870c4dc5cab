"""Simulated collectives: by hand, their kinds, what traces say of them, who takes part, how their times add up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from simulate.jobs import LOOP, SMALL, check_causes, check_collectives, collectives, members, of, rows

import tracelens_graph
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import Run, simulate
from tracelens_graph.simulate.events import Collective, GpuEvent, Member
from tracelens_graph.simulate.job import Devices, drive
from tracelens_graph.simulate.options import BUFFER_BYTES, CALLED_ALONE, KINDS, awaited_ranks
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


def test_ops_say_what_their_kernels_do(run: Run) -> None:
    for rank in run.ranks:
        kernels = [e for e in of(rank.trace, "kernel").values() if "Collective name" in e["args"]]
        ops = {
            e["args"]["External id"]: e["args"]
            for e in of(rank.trace, "cpu_op").values()
            if e["name"] == "record_param_comms"
        }
        assert len(kernels) == len(ops)
        for kernel in kernels:
            op = ops[kernel["args"]["External id"]]
            shared = op.keys() & kernel["args"].keys()
            assert {name: op[name] for name in shared} == {name: kernel["args"][name] for name in shared}
            assert {"Collective name", "Process Group Ranks", "Seq", "Comms Id", "dtype"} <= shared
            ranks = json.loads(op["Process Group Ranks"])
            assert ranks[0] == op["Global rank start"]
            assert ranks == list(range(ranks[0], ranks[-1] + 1, op["Global rank stride"]))


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


def test_traces_load_without_a_word(run: Run, recwarn: pytest.WarningsRecorder) -> None:
    for rank in run.ranks:
        g = tracelens_graph.load(rank.trace)
        assert not g.info.repairs
        assert not g.info.odd_job
    assert not recwarn.list


def test_every_kind_is_called() -> None:
    run = simulate(**JOBS["every kind"])
    each = 2 * 2  # steps and sizes
    found = Counter(one["kind"] for one in collectives(run))
    assert found == {name: each for name in CALLED_ALONE if name not in ("send", "allreduce", "barrier")} | {
        "send_recv": 4 * each,  # a ring of four
        "allreduce": each + 2 * 2,  # and one per layer
        "barrier": each,
    }
    names = {e["args"]["Collective name"] for e in of(run.ranks[0].trace, "kernel").values() if "Seq" in e["args"]}
    assert names == set(KINDS)


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


def test_the_source_does_not_wait_for_others() -> None:
    # the last stage is done with its backward pass long before the first
    run = simulate(**SMALL | {"layers": 2, "batch": 4, "steps": 1}, ranks=2, pipeline_parallel=2)
    (one,) = (one for one in collectives(run) if one["kind"] == "broadcast")
    assert (one["source"], one["last_rank"]) == (1, 0)
    assert one["end_ns"][1] < one["start_ns"][0]
    assert one["wait_ns"] == [0, 0]


def test_tokens_that_leave_arrive() -> None:
    run = simulate(**SMALL, ranks=4, expert_parallel=4, expert_skew=1.0)
    received: Counter[int] = Counter()
    exchanges = [one for one in collectives(run) if one["kind"] == "all_to_allv"]
    assert len(exchanges) == 2 * 4  # forward and backward, there and back
    for number, one in enumerate(exchanges):
        sent, got = one["split_in"], one["split_out"]
        assert [list(column) for column in zip(*sent, strict=True)] == got
        assert [sum(row) * 128 for row in sent] == one["elements_in"]
        assert [sum(row) * 128 for row in got] == one["elements_out"]
        assert {sum(row) for row in (sent if number % 2 == 0 else got)} == {2 * 64}
        received.update({rank: sum(row) for rank, row in enumerate(got) if number % 4 == 0})
    assert max(received.values()) > 1.2 * min(received.values())
    even = simulate(**SMALL, ranks=4, expert_parallel=4, expert_skew=0.0)
    assert {tuple(row) for one in collectives(even) if one["kind"] == "all_to_allv" for row in one["split_in"]} == {
        (32,) * 4
    }


def test_stages_pass_each_micro_batch_on_and_back() -> None:
    run = simulate(**SMALL | {"layers": 3, "batch": 4, "steps": 1}, ranks=3, pipeline_parallel=3, micro_batches=2)
    passed = Counter((one["source"], one["target"]) for one in collectives(run) if one["kind"] == "send_recv")
    assert passed == {(0, 1): 2, (1, 2): 2, (2, 1): 2, (1, 0): 2}
    (told,) = (one for one in collectives(run) if one["kind"] == "broadcast")
    assert (told["source"], told["group_ranks"]) == (2, [0, 1, 2])
    forward = [one for one in collectives(run) if (one["source"], one["target"]) == (0, 1)]
    back = [one for one in collectives(run) if (one["source"], one["target"]) == (1, 0)]
    assert max(max(one["end_ns"]) for one in forward) < min(max(one["end_ns"]) for one in back)
    assert {one["elements_in"][0] for one in forward + back} == {2 * 64 * 128}
    # the first stage has nothing to do until gradients are back
    assert run.ranks[0].truth["timeline"]["exposed_comm"] > run.ranks[2].truth["timeline"]["exposed_comm"] > 0


def test_layers_are_reduced_over_tensor_parallel_ranks() -> None:
    run = simulate(**SMALL, ranks=4, tensor_parallel=2)
    found = Counter((one["description"], tuple(one["group_ranks"])) for one in collectives(run))
    # attention and perceptron, forward and backward, in one layer and two steps
    assert found["mesh_tp", (0, 1)] == found["mesh_tp", (2, 3)] == 2 * 2 * 2
    assert found["mesh_dp", (0, 2)] == found["mesh_dp", (1, 3)] == 2 * 3
    assert found["default_pg", (0, 1, 2, 3)] == 2


@pytest.mark.parametrize("repeated", [False, True])
def test_group_names(repeated: bool) -> None:
    run = simulate(**SMALL, ranks=8, tensor_parallel=2, pipeline_parallel=1, repeat_group_names=repeated)
    groups = run.ranks[0].truth["groups"]
    assert len(groups) == 1 + 4 + 2
    names = Counter(one["name"] for one in groups)
    assert sorted(names.values()) == ([1, 2, 4] if repeated else [1] * 7)


def test_long_groups_are_cut_as_pytorch_does() -> None:
    run = simulate(**LOOP | {"layers": 1, "steps": 1}, ranks=33)
    (one, *_) = collectives(run)
    args = run.ranks[0].trace["traceEvents"][one["kernels"][0]]["args"]
    assert args["Process Group Ranks"] == f"[{', '.join(map(str, range(30)))}, ...]"
    assert run.ranks[0].trace["distributedInfo"]["pg_config"][0]["ranks"] == one["group_ranks"] == list(range(33))


def test_the_host_waits_for_a_barrier() -> None:
    run = simulate(**SMALL, ranks=3, host_barrier=True, late_rank=2, late_us=4000.0)
    barriers = [one for one in collectives(run) if one["kind"] == "barrier"]
    assert [one["step"] for one in barriers] == [3, 4]
    for rank in run.ranks:
        waits = {(row["last"], row["kind"]) for row in rows(rank.truth["host_waits"])}
        assert {(one["kernels"][rank.rank], "Stream Sync") for one in barriers} <= waits


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


def test_all_but_the_target_of_a_reduce_leave_at_once() -> None:
    works = [work(900), work(100), work(0)]
    together("reduce", works, root=1)
    assert times([[gpu] for gpu in works]) == [[(900, 930)], [(100, 930)], [(0, 30)]]


def test_a_stream_behind_a_collective_goes_on_when_it_ends() -> None:
    works = [work(0), work(400)]
    together("_allgather_base", works, noise=(0, 0))
    after = work(0, 5)
    assert times([[works[0], after], [works[1]]])[0] == [(0, 430), (440, 445)]


@pytest.mark.parametrize(
    ("kind", "rank", "size", "awaited"),
    [
        ("send", 0, BUFFER_BYTES, (0,)),
        ("send", 0, BUFFER_BYTES + 1, None),
        ("recv", 1, 1, None),
    ],
)
def test_small_messages_leave_before_their_receiver_comes(
    kind: str, rank: int, size: int, awaited: tuple[int, ...] | None
) -> None:
    assert awaited_ranks(KINDS[kind], rank, (0, 1), None, (), size) == awaited


def test_ranks_that_exchange_nothing_do_not_wait_for_each_other() -> None:
    assert awaited_ranks(KINDS["all_to_allv"], 2, (0, 1, 2), None, (0, 5, 0), 1) == (1, 2)


def test_ranks_that_wait_for_each_other_for_ever_are_named() -> None:
    alone = work(0)
    together("allreduce", [alone, work(0)])

    def program(works: tuple[GpuEvent, ...]) -> Iterator[tuple[GpuEvent, ...]]:
        yield works

    processes: Any = [SimpleNamespace(gpus=[alone]), SimpleNamespace(gpus=[])]
    with pytest.raises(RuntimeError, match=r"wait for each other: \[0\]"):
        drive([program((alone,)), program(())], Devices(processes))
