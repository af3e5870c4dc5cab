"""The program of a trace's collectives: what it is told of each, and what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from handmade import span
from rank_traces import collective, kernel
from replay_plans import plan_in

from corpus import CHECKOUT, needs_corpus
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.collectives import RUN_AGAIN, CollectiveCall, _to_record, collective_plan, what_helps

GLOO = CHECKOUT / "examples/traces/gloo-4-ranks/rank1.json.gz"


def rank(*events: dict[str, Any], world_size: int | None = 4) -> Core:
    """The trace of rank 0."""
    told = {} if world_size is None else {"distributedInfo": {"rank": 0, "world_size": world_size}}
    return load_core({"baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": list(events), **told})


def only(*events: dict[str, Any]) -> CollectiveCall:
    [call] = collective_plan(rank(*events)).calls
    return call


def test_equal_collectives_are_one_entry_and_the_dearest_comes_first() -> None:
    events = [collective(0, 10, elements=8), collective(100, 30, elements=8), collective(200, 50, elements=64)]
    first, second = collective_plan(rank(*events)).calls
    assert (first.into, first.calls, first.traced_us, first.uid) == (64, 1, 50, 2)
    assert (second.into, second.calls, second.traced_us, second.total_us, second.uid) == (8, 2, 20, 40, 1)


@pytest.mark.parametrize(
    ("kind", "into", "out", "call", "found"),
    [
        ("allreduce", 8, 8, "all_reduce", (8, 8)),
        ("_allgather_base", 8, 16, "all_gather_into_tensor", (8, 16)),
        ("all_gather", 8, 16, "all_gather", (8, 16)),
        ("_reduce_scatter_base", 16, 8, "reduce_scatter_tensor", (16, 8)),
        ("reduce_scatter", 16, 8, "reduce_scatter", (16, 8)),
        ("gather", 8, 0, "gather", (8, 16)),
        ("scatter", 0, 8, "scatter", (16, 8)),
        ("broadcast", 8, 8, "broadcast", (8, 8)),
        ("reduce", 8, 8, "reduce", (8, 8)),
        ("all_to_all", 16, 16, "all_to_all_single", (16, 16)),
    ],
)
def test_kinds_are_calls_with_what_a_rank_puts_in_and_gets_out(
    kind: str, into: int, out: int, call: str, found: tuple[int, int]
) -> None:
    made = only(collective(0, 10, kind, elements=into, out=out, dtype="BFloat16"))
    assert (made.call, made.dtype, (made.into, made.out), made.ranks) == (call, "bfloat16", found, (0, 1))


def test_an_uneven_exchange_counts_elements() -> None:
    event = collective(0, 10, "all_to_allv", elements=12, out=20)
    event["args"] |= {"In split size": "[1, 3]", "Out split size": "[1, 4]"}
    made = only(event)
    assert (made.in_split, made.out_split) == ((3, 9), (3, 12))
    assert made.assumed == ("what other ranks exchange follows from what this one sends and gets",)
    even = only(collective(0, 10, "all_to_allv", elements=12, out=12))
    assert (even.in_split, even.assumed) == ((), ("all ranks get as much",))


def test_a_transfer_needs_both_ends() -> None:
    event = collective(0, 10, "send", elements=8)
    [lost] = collective_plan(rank(event, collective(100, 30))).left_out
    assert (lost.what, lost.reason, lost.percent) == ("send", "its other end is not recorded", 25)
    event["args"] |= {"Src Rank": 0, "Dst Rank": 3}
    made = only(event)
    assert (made.call, made.source, made.target, made.ranks) == ("transfer", 0, 3, (0, 1, 2, 3))


def test_coalesced_forms_have_the_sizes_that_the_op_above_tells() -> None:
    def plan(dims: Any) -> CollectiveCall:
        told = {"Input_Dims": dims, "Input_type": ["TensorList", "TensorList"], "Input_Strides": [[], []],
                "Concrete_Inputs": ["", ""]}  # fmt: skip
        event = collective(30, 10, "allgather_into_tensor_coalesced", elements=10, out=20)
        event["args"]["correlation"] = 5
        above = [
            span("cpu_op", "c10d::allgather_into_tensor_coalesced_", 0, 20, **told),
            span("cpu_op", "record_param_comms", 2, 10),
            span("cuda_runtime", "cudaLaunchKernelExC", 4, 2, correlation=5),
        ]
        return only(*above, event)

    made = plan([[[12], [4, 2]], [[6], [4]]])
    assert (made.call, made.parts) == ("all_gather_into_tensor_coalesced", (12, 8))
    made = plan([[], []])
    assert (made.call, made.parts) == ("all_gather_into_tensor", ())
    assert made.assumed == ("one tensor in place of several",)


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (kernel(0, 10, "ncclDevKernel_AllReduce_Sum", correlation=5), "its group is not recorded"),
        (collective(0, 10, dtype="Unheard"), "its sizes are not recorded"),
        (collective(0, 10, elements=-8), "its sizes are negative"),
        (collective(0, 10, ranks=()), "its group is not recorded"),
    ],
)
def test_what_is_not_recorded_is_left_out(event: dict[str, Any], reason: str) -> None:
    launch = span("cuda_runtime", "cudaLaunchKernel", 0, 1, correlation=5)
    [lost] = collective_plan(rank(event, launch, collective(100, 30, "broadcast", group="1"))).left_out
    assert lost.reason == reason
    assert lost.remedy
    assert f"25.0 %: 1 x allreduce: {reason}; " in lost.line
    with pytest.raises(AnalysisError, match=f"none of the 1 collectives can be replayed: allreduce: {reason}; "):
        collective_plan(rank(event, launch))
    assert what_helps(rank(event, launch)) == lost.remedy
    assert what_helps(rank(event, launch, collective(100, 30, "broadcast", group="1"))) == RUN_AGAIN


@needs_corpus
def test_collectives_of_one_group_have_it_wherever_one_of_them_tells(corpus: Path) -> None:
    """In an execution trace of an old version, equal addresses are one group; the splits of one tell its size."""
    job = corpus / "dlrm-8-ranks"
    core = load_core(str(job / "kineto/rank0.json.gz"), et=str(job / "execution-trace/rank0.json.gz"))
    plan = collective_plan(core)
    assert plan.left_out == ()
    assert {(call.kind, call.ranks) for call in plan.calls} == {
        (kind, tuple(range(8))) for kind in ("all_to_allv", "all_to_all", "allreduce")
    }
    assert plan.assumed[0] == "the ranks of the group are the first ones of the job"


@needs_corpus
def test_what_was_given_is_not_asked_for(corpus: Path) -> None:
    job = corpus / "dlrm-8-ranks"
    trace, recorded = str(job / "kineto/rank0.json.gz"), str(job / "execution-trace/rank0.json.gz")
    assert "--et" in _to_record(load_core(trace))
    assert "--et" not in _to_record(load_core(trace, et=recorded))


def test_the_program_is_checked_and_told_only_what_differs_from_its_defaults() -> None:
    source = collective_plan(rank(collective(0, 12.5, elements=2**20))).script()
    assert plan_in(source, "collectives")["collectives"] == [
        {
            "kind": "allreduce", "call": "all_reduce", "dtype": "float32", "in": 2**20, "out": 2**20, "ranks": [0, 1],
            "message": "larger", "factor": 2.0, "all_ranks": True, "calls": 1, "traced_us": 12.5,
        }
    ]  # fmt: skip
    assert "torchrun --nproc-per-node 4 THIS_FILE" in source
    assert max(map(len, source.splitlines())) <= 120


def test_collectives_of_gloo() -> None:
    plan = collective_plan(load_core(str(GLOO)))
    assert (plan.rank, plan.world_size, len(plan.calls)) == (1, 4, 13)
    by_kind = {one.kind: one for one in plan.calls}
    assert by_kind.keys() >= {"allreduce", "broadcast", "reduce", "all_gather", "barrier"}
    assert plan.left_out == ()
    # What its calls say: rank 0 sends 1,600 numbers to rank 1, and rank r sends r + 1 rows of 155 to everybody.
    assert (by_kind["recv"].source, by_kind["recv"].target) == (0, 1)
    uneven = by_kind["all_to_allv"]
    assert (uneven.in_split, uneven.out_split, uneven.out) == ((310,) * 4, (155, 310, 465, 620), 1550)
    assert (by_kind["all_to_all"].into, by_kind["all_to_all"].assumed) == (5600, ())


def in_a_group(*events: dict[str, Any]) -> Core:
    """The trace of rank 0 of a job with one group of four."""
    group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo", "pg_size": 4, "ranks": [0, 1, 2, 3]}
    told = {"rank": 0, "world_size": 4, "pg_config": [group]}
    return load_core({"traceEvents": list(events), "distributedInfo": told})


def c10d(name: str, ts: float, dims: Any, *values: str) -> dict[str, Any]:
    types = ["TensorList", *["Scalar" if one else "" for one in values]]
    return span("cpu_op", name, ts, 2, Input_Dims=[dims, *[[]] * len(values)], Input_type=types,
                Concrete_Inputs=["", *values])  # fmt: skip


def test_roots_are_those_of_the_calls() -> None:
    def of_gloo(ts: float) -> dict[str, Any]:
        return span("user_annotation", "gloo:broadcast", ts, 5, tid=7, Input_Dims=[[64]], Input_type=["float"])

    calls = [c10d("c10d::broadcast_", at, [[64]], "", root, "0") for at, root in ((0, "2"), (10, "3"))]
    plan = collective_plan(in_a_group(*calls, of_gloo(100), of_gloo(200)))
    assert [(one.root, one.calls, one.assumed) for one in plan.calls] == [(2, 1, ()), (3, 1, ())]
    # Without one of the calls nothing tells which span is the other's.
    [unsure] = collective_plan(in_a_group(*calls[:1], of_gloo(100), of_gloo(200))).calls
    assert (unsure.root, unsure.assumed) == (0, ("the first rank of the group is the root",))
    [odd] = collective_plan(in_a_group(c10d("c10d::broadcast_", 0, [[64]], "", "9", "0"), of_gloo(100))).calls
    assert (odd.root, len(odd.assumed)) == (0, 1)
    launch = span("cuda_runtime", "launch", 5, 1, correlation=1)
    on_gpu = c10d("c10d::broadcast_", 0, [[64]], "", "1", "0") | {"dur": 50}
    kernel_of_it = collective(60, 10, "broadcast", elements=64)
    kernel_of_it["args"] |= {"correlation": 1}
    [above] = collective_plan(rank(on_gpu, launch, kernel_of_it)).calls
    assert above.root == 1
    plan_in(plan.script(), "collectives")
