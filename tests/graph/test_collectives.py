"""Kernels and the collectives they carry out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from call_trees import FORWARD, Call, annotation, launch, load, op
from hypothesis import given
from made_traces import traces

from corpus import kineto_traces, loaded, parametrize
from tracelens_graph.graph.collectives import DTYPE_BYTES, Collective, collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import changed
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.simulate import simulate

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GENERIC = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)"
OLD = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"


def args(kind: str | None = "allreduce", **more: Any) -> dict[str, Any]:
    """Collective arguments as PyTorch writes them."""
    plain = {
        "Collective name": kind, "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2,
        "In msg nelems": 100, "Out msg nelems": 200, "dtype": "BFloat16", "In split size": "[]",
        "Out split size": "[]",
    }  # fmt: skip
    return {key: value for key, value in (plain | more).items() if value is not None}


def comms(*calls: Call, around: str = "", **recorded: Any) -> Call:
    """`record_param_comms`, inside of another op if `around` names one."""
    found = op("record_param_comms", *calls, **recorded)
    return op(around, found) if around else found


def nodes_of(*calls: Call) -> list[Collective]:
    return collectives_of(load({FORWARD: calls})).nodes


def test_one_rank_fills_its_part() -> None:
    call = launch(GENERIC, **args(Seq=7, **{"Process Group Description": "default_pg"}))
    core = load({FORWARD: [comms(call, **args(Rank=1))]})
    [node] = collectives_of(core).nodes
    assert (node.group, node.group_description, node.ranks, node.group_size) == ("0", "default_pg", (0, 1), 2)
    assert (node.kind, node.sequence, node.index, node.dtype) == ("allreduce", 7, 0, "BFloat16")
    assert (node.in_elements, node.out_elements, node.in_bytes, node.out_bytes) == (100, 200, 200, 400)
    assert (node.in_split, node.out_split) == ((), ())
    assert node.rank == 1
    assert node.uids == (call.kernel_uid,)
    assert node.rows == (core.row(call.kernel_uid),)
    assert node.end_ns - node.start_ns == 1000
    assert collectives_of(core).of_row == {node.rows[0]: 0}


def test_keys_are_equal_over_ranks_and_differ_over_groups() -> None:
    def key(**changed: Any) -> str:
        [node] = nodes_of(comms(launch(GENERIC, **args(**{"Seq": 3, **changed}))))
        return node.key

    assert key() == key(**{"Process Group Ranks": [0, 1], "Seq": "3", "In msg nelems": 5})
    changes: list[dict[str, Any]] = [
        {"Seq": 4}, {"Process Group Name": "1"}, {"Process Group Ranks": "[2, 3]"}, {"Process Group Ranks": None},
    ]  # fmt: skip
    assert len({key(), *(key(**change) for change in changes)}) == 5


def test_without_numbers_the_place_in_the_group_counts() -> None:
    other = {"Process Group Name": "tp"}
    nodes = nodes_of(
        comms(launch(GENERIC, **args())), comms(launch(GENERIC, **args(**other))), comms(launch(GENERIC, **args()))
    )
    assert [(node.group, node.index, node.key.rsplit(":")[-1]) for node in nodes] == [
        ("0", 0, "#0"), ("tp", 0, "#0"), ("0", 1, "#1"),
    ]  # fmt: skip
    assert nodes[0].group_key == nodes[2].group_key != nodes[1].group_key


def test_the_kernel_counts_more_than_its_op() -> None:
    mine = args(Seq=2, dtype="Float", **{"In msg nelems": 7, "Out msg nelems": None})
    [node] = nodes_of(comms(launch(GENERIC, **mine), **args()))
    assert (node.dtype, node.in_elements, node.out_elements) == ("Float", 7, 200)


def test_the_op_tells_where_the_kernel_does_not() -> None:
    [node] = nodes_of(comms(launch(GENERIC), **args("_allgather_base")))
    assert (node.kind, node.in_bytes) == ("_allgather_base", 200)


@pytest.mark.parametrize("numbers", [(5, 5), (None, None)])
def test_kernels_of_one_op_are_one_collective(numbers: tuple[int | None, ...]) -> None:
    calls = [launch(GENERIC, **args("allreduce_coalesced", Seq=number)) for number in numbers]
    [node] = nodes_of(comms(*calls))
    assert node.uids == tuple(call.kernel_uid for call in calls)
    assert node.end_ns - node.start_ns > 1000


def test_ops_of_one_number_are_one_collective() -> None:
    ops = [comms(launch(GENERIC, **args(Seq=number))) for number in (5, 5, 6)]
    assert [len(node.uids) for node in nodes_of(*ops)] == [2, 1]


@pytest.mark.parametrize("numbers", [(0, 0, 0), (-1, -1, -1), (1, 2, 1), (1, 1, 2, 2, 1)])
def test_numbers_that_repeat_prove_nothing(numbers: tuple[int, ...]) -> None:
    found = collectives_of(load({FORWARD: [comms(launch(GENERIC, **args(Seq=number))) for number in numbers]}))
    assert [(node.sequence, node.index) for node in found.nodes] == [(None, at) for at in range(len(numbers))]
    assert found.repeated == len(numbers)


def test_numbers_prove_nothing_where_other_work_is_launched_between() -> None:
    ops = [comms(launch(GENERIC, **args(Seq=0))) for _ in range(2)]
    found = collectives_of(load({FORWARD: [ops[0], op("aten::mm", launch("gemm")), ops[1]]}))
    assert [len(node.uids) for node in found.nodes] == [1, 1]


def test_numbers_of_another_group_may_be_equal() -> None:
    other = {"Process Group Name": "1", "Process Group Ranks": "[0, 2]"}
    groups = ({}, other)
    ops = [comms(launch(GENERIC, **args(Seq=number, **groups[at % 2]))) for number in (3, 4) for at in range(2)]
    found = collectives_of(load({FORWARD: ops}))
    assert ([node.sequence for node in found.nodes], found.repeated) == ([3, 3, 4, 4], 0)


def test_both_ends_of_a_transfer_have_one_key() -> None:
    # Each rank counts its own transfers: the numbers differ.
    sent = comms(launch(GENERIC, **args("send", Seq=9, Rank=0, **{"Dst Rank": 1})))
    received = comms(launch(GENERIC, **args("recv", Seq=4, Rank=1, **{"Src Rank": 0})))
    back = comms(launch(GENERIC, **args("send", Seq=10, Rank=1, **{"Dst Rank": 0})))
    [first], [second], [third] = (nodes_of(call) for call in (sent, received, back))
    assert (first.source_rank, first.target_rank) == (second.source_rank, second.target_rank) == (0, 1)
    assert first.key == second.key != third.key


def test_transfers_count_between_their_two_ranks() -> None:
    group = {"Process Group Ranks": "[0, 1, 2]"}
    to_first, to_second = (comms(launch(GENERIC, **args("send", Rank=0, **{"Dst Rank": to}, **group))) for to in (1, 2))
    received = comms(launch(GENERIC, **args("recv", Rank=2, **{"Src Rank": 0}, **group)))
    assert nodes_of(to_first, to_second)[1].key == nodes_of(received)[0].key


@pytest.mark.parametrize(
    ("kernel", "around", "note", "kind"),
    [
        (OLD, "c10d::alltoall_base_", "", "all_to_all"),
        (OLD, "c10d::allreduce_", "nccl:all_to_all", "allreduce"),
        (OLD, "", "nccl:_reduce_scatter_base", "_reduce_scatter_base"),
        (OLD, "", "", "unknown"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "", "", "send_recv"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "", "", "allreduce"),
        ("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*)", "c10d::wait", "", "all_gather"),
        (ALL_REDUCE, "", "", "allreduce"),
        ("ncclSymDevKernel_ReduceScatter_LD_Sum(ncclSymDevArgs)", "", "", "reduce_scatter"),
        ("void rcclFoo()", "_c10d_functional::all_gather_into_tensor", "", "_allgather_base"),
        (GENERIC, "", "", "unknown"),
    ],
)
def test_kinds_without_arguments(kernel: str, around: str, note: str, kind: str) -> None:
    call = launch(kernel)
    inner = annotation(note, call) if note else call
    [node] = nodes_of(comms(inner, around=around))
    assert node.kind == kind
    assert node.key == "coll:?:-:#0"
    assert (node.in_bytes, node.ranks, node.rank, node.in_split) == (None, None, None, None)


def test_which_kernels_take_part() -> None:
    named, odd, checked = launch(GENERIC), launch("flash_comm_kernel"), launch("check_for_nan")
    beside, compute = launch(ALL_REDUCE), launch("gemm")
    calls = [
        comms(named, checked),  # the check is no communication: a kernel named so is there
        comms(odd),
        op("c10d::allreduce_", beside),
        op("aten::mm", compute),
    ]
    core = load({FORWARD: calls})
    found = collectives_of(core)
    assert [node.uids for node in found.nodes] == [(call.kernel_uid,) for call in (named, odd, beside)]
    assert len(found.unassigned) == 0


def test_what_was_launched_before_the_recording_is_counted() -> None:
    lone = launch(GENERIC)
    told = launch(GENERIC, **args())
    parsed_core = load({FORWARD: [comms(lone), comms(told)]})
    assert len(collectives_of(parsed_core).nodes) == 2
    lone.kernel_args = {"correlation": 12345}
    told.kernel_args = args(correlation=12346)
    core = load({FORWARD: [comms(lone), comms(told)]})
    found = collectives_of(core)
    assert [node.uids for node in found.nodes] == [(told.kernel_uid,)]
    assert core.columns.uid[found.unassigned].tolist() == [lone.kernel_uid]


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("Float", 4), ("Half", 2), ("BFloat16", 2), ("c10::BFloat16", 2), ("Float8_e4m3fn", 1), ("Float8_e5m2", 1),
        ("Byte", 1), ("Long", 8), ("Bool", 1), ("Double", 8), ("torch.int32", 4), ("Quaternion", None),
    ],
)  # fmt: skip
def test_bytes_by_type(dtype: str, size: int | None) -> None:
    [node] = nodes_of(comms(launch(GENERIC, **args(dtype=dtype))))
    assert node.in_bytes == (None if size is None else 100 * size)
    assert all(name == name.lower() and count > 0 for name, count in DTYPE_BYTES.items())


@pytest.mark.parametrize(
    ("recorded", "read"),
    [("[3, 1]", (3, 1)), ([3, 1], (3, 1)), ("[3, 1, ...]", None), ("", None), (17, None), (["x"], None), ({}, None)],
)
def test_split_sizes(recorded: Any, read: tuple[int, ...] | None) -> None:
    [node] = nodes_of(comms(launch(GENERIC, **args("all_to_allv", **{"In split size": recorded}))))
    assert node.in_split == read


def test_ranks_in_short_are_looked_up() -> None:
    call = launch(GENERIC, **args(**{"Process Group Ranks": "[0, 1, ..., 127]"}))
    core = load({FORWARD: [comms(call)]})
    [before] = collectives_of(core).nodes
    core.info.metadata["distributedInfo"] = {"pg_config": [{"pg_name": "0", "ranks": list(range(128))}, "odd"]}
    [node] = collectives_of(changed(core)).nodes
    assert before.ranks is None
    assert node.ranks == tuple(range(128))
    assert node.key == before.key


@given(traces())
def test_every_kernel_with_arguments_is_in_one_node(parsed: dict[str, Any]) -> None:
    core = load_core(parsed)
    found = collectives_of(core)
    check_consistent(core)
    with_args = [row for row in core.rows_of(core.collective_args).tolist() if core.columns.kind[row] == Kind.Kernel]
    assert set(with_args) <= set(found.of_row)


def check_consistent(core: Core) -> None:
    found = collectives_of(core)
    assert found.of_row == {row: place for place, node in enumerate(found.nodes) for row in node.rows}
    assert sum(len(node.rows) for node in found.nodes) == len(found.of_row)
    assert len({node.key for node in found.nodes}) == len(found.nodes)
    starts = [node.start_ns for node in found.nodes]
    assert starts == sorted(starts)


def test_simulated_collectives_meet_over_ranks() -> None:
    simulated = simulate(ranks=3, steps=2, seed=4, unlaunched=3).ranks
    parts = [collectives_of(load_core(rank.trace)) for rank in simulated]
    known = simulated[0].truth["collectives"]
    merged: dict[str, list[Collective]] = {}
    for part in parts:
        for node in part.nodes:
            merged.setdefault(node.key, []).append(node)
    found = sorted(merged.values(), key=lambda nodes: nodes[0].sequence or 0)
    assert len(known) == len(found) > 4
    for truth, nodes in zip(sorted(known, key=lambda one: one["seq"]), found, strict=True):
        assert [node.rank for node in nodes] == truth["ranks"]
        assert [node.uids for node in nodes] == [(uid,) for uid in truth["kernels"]]
        for node in nodes:
            assert (node.group, node.sequence, node.kind) == (truth["group"], truth["seq"], truth["kind"])
            assert (node.dtype, node.in_bytes) == (truth["dtype"], truth["bytes"])


@parametrize("path", kineto_traces())
def test_real_collectives_are_consistent(path: Path) -> None:
    check_consistent(loaded(path))


def kinds(corpus: Path, name: str) -> Counter[tuple[str, str | None]]:
    return Counter((n.kind, n.dtype) for n in collectives_of(loaded(corpus / f"{name}.json.gz")).nodes)


def test_real_kinds(corpus: Path) -> None:
    assert kinds(corpus, "hta/resnet-ddp-nccl-args") == {
        ("allreduce", "Float"): 15, ("broadcast", "Float"): 3, ("broadcast", "Long"): 3,
    }  # fmt: skip
    # Of these the kernels are all called SendRecv, and the ops around them have no arguments.
    assert kinds(corpus, "hta/two-of-128-ranks/rank-0") == {
        ("all_to_all", None): 4, ("allreduce", None): 4, ("_allgather_base", None): 2,
    }  # fmt: skip
    assert kinds(corpus, "hta/nanosecond-resolution") == {}


def test_real_kernels_without_a_launch_are_counted(corpus: Path) -> None:
    found = collectives_of(load_core(corpus / "tracelens/mi300/resnet-ddp-checkpointing.json.gz"))
    assert (len(found.nodes), len(found.unassigned)) == (12, 5)
    assert {node.rank for node in found.nodes} == {0}
    assert found.nodes[0].in_bytes == 9600 * 2


def test_eight_real_ranks_meet(corpus: Path) -> None:
    merged: dict[str, list[Collective]] = {}
    for rank in range(8):
        core = loaded(corpus / f"dlrm-8-ranks/kineto/rank{rank}.json.gz")
        for node in collectives_of(core).nodes:
            merged.setdefault(node.key, []).append(node)
            assert node.rank == rank
    assert len(merged) == 8
    for nodes in merged.values():
        assert len(nodes) == 8
        assert len({node.kind for node in nodes}) == 1
    assert Counter(nodes[0].kind for nodes in merged.values()) == {"all_to_all": 5, "allreduce": 3}
