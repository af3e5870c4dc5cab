"""Collectives that ran on the host: spans of gloo and MPI, in hand-made traces and in recordings of real jobs."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from call_trees import FORWARD, annotation, launch, load, op
from handmade import span
from hypothesis import given
from hypothesis import strategies as st

from corpus import CHECKOUT, loaded
from tracelens_graph.analyses.ranks.sizes import Messages
from tracelens_graph.graph.collectives import Collective
from tracelens_graph.graph.context import build_context
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)
RANKS = (2, 4)
LATE_NS = 20_000_000
"""How long the last rank of a recorded job sleeps in every step."""

A_STEP = {
    "allreduce": 5, "all_gather": 1, "broadcast": 2, "reduce": 1, "all_to_allv": 2, "barrier": 1,
}  # fmt: skip
"""Collectives of a step beside one transfer; a reduce-scatter is an all-reduce to gloo."""


def gloo(name: str = "gloo:all_reduce", at: float = 10, dur: float = 5, tid: int = 7, **args: Any) -> dict[str, Any]:
    return span("user_annotation", name, at, dur, tid=tid, **args)


def trace(*events: dict[str, Any], rank: int = 1, groups: list[Any] | None = None) -> Core:
    info = {"backend": "gloo", "rank": rank, "world_size": 4, "pg_config": groups or []}
    return load_core({"traceEvents": list(events), "distributedInfo": info})


def group(name: str, *ranks: int) -> dict[str, Any]:
    return {"pg_name": name, "pg_desc": f"group {name}", "backend_config": "cpu:gloo", "ranks": list(ranks)}


def one_of(core: Core) -> Collective:
    [node] = core.collectives.nodes
    return node


def test_a_span_is_a_collective() -> None:
    core = trace(gloo(**{"Input Dims": [[4, 8]], "Input type": ["float"]}), groups=[group("0", 0, 1, 2, 3)])
    node = one_of(core)
    assert (node.kind, node.dtype, node.in_elements, node.in_bytes, node.out_bytes) == (
        "allreduce",
        "float",
        32,
        128,
        128,
    )
    assert (node.group, node.group_description, node.ranks, node.group_size) == ("0", "group 0", (0, 1, 2, 3), 4)
    assert (node.rank, node.sequence, node.index, node.on_host) == (1, None, 0, True)
    assert node.end_ns - node.start_ns == 5000
    assert core.columns.kind[list(node.rows)].tolist() == [Kind.Annotation]
    assert core.collectives.of_row == {node.rows[0]: 0}
    assert len(core.collectives.unassigned) == 0


@pytest.mark.parametrize(
    ("groups", "name", "ranks"),
    [
        ([group("0", 0, 1), group("1", 2, 3)], "0", (0, 1)),  # this rank is in one of them only
        ([group("0", 0, 1), group("1", 0, 1, 2) | {"backend_config": "cuda:nccl"}], "0", (0, 1)),
        ([group("0", 0, 1), group("1", 0, 1)], None, (0, 1)),
        ([group("0", 0, 1, 2, 3), group("1", 0, 1)], None, None),
        ([group("0", 2, 3)], None, None),
        ([], None, None),
        (["odd", {"pg_name": "0"}, {"ranks": "[0, 1"}, {"ranks": 5}], None, None),
    ],
)
def test_a_group_is_known_where_there_is_one_possibility(groups: Any, name: Any, ranks: Any) -> None:
    node = one_of(trace(gloo(), groups=groups))
    assert (node.group, node.ranks, node.group_size) == (name, ranks, ranks and len(ranks))


def test_threads_tell_groups_where_all_of_them_are_seen() -> None:
    groups = [group("0", 0, 1, 2, 3), group("5", 0, 1)]
    threads = [40, 12, 11, 41, 12]
    spans = [gloo(at=10 * place, tid=tid) for place, tid in enumerate(threads)]
    transfer = gloo("gloo:send", at=90, tid=1)
    nodes = trace(*spans, transfer, groups=groups).collectives.nodes
    assert [node.group for node in nodes] == ["5", "0", "0", "5", "0", None]
    assert [node.group_size for node in nodes] == [2, 4, 4, 2, 4, None]
    assert [node.index for node in nodes] == [0, 0, 1, 1, 2, 0]
    for fewer in (spans[1:3], [*spans, gloo(at=70, tid=50)], [*spans[:3], gloo(at=30, tid="x")]):
        assert {node.group for node in trace(*fewer, groups=groups).collectives.nodes} == {None}
    every = [*groups, group("6", 2, 3)]  # this rank is not in it
    assert [node.group for node in trace(*spans, groups=every).collectives.nodes] == ["5", "0", "0", "5", "0"]


def test_keys_of_ranks_meet_only_where_the_ranks_of_the_group_are_known() -> None:
    sure, unsure = [group("0", 0, 1)], [group("0", 0, 1), group("1", 0, 1, 2)]
    first, second = (one_of(trace(gloo(), rank=rank, groups=sure)) for rank in (0, 1))
    assert first.key == second.key
    first, second = (one_of(trace(gloo(), rank=rank, groups=unsure)) for rank in (0, 1))
    assert first.key != second.key
    assert first.group_key == second.group_key


@pytest.mark.parametrize(
    ("name", "kind", "out"),
    [
        ("gloo:all_reduce", "allreduce", 6), ("gloo:broadcast", "broadcast", 6), ("gloo:all_gather", "all_gather", 12),
        ("gloo:all_to_all", "all_to_allv", None), ("gloo:reduce", "reduce", None), ("gloo:gather", "gather", None),
        ("gloo:scatter", "scatter", None), ("gloo:send", "send", None),
        ("gloo:recv", "recv", None), ("mpi:all_reduce", "allreduce", 6), ("gloo:dance", "unknown", None),
    ],
)  # fmt: skip
def test_kinds(name: str, kind: str, out: int | None) -> None:
    node = one_of(trace(gloo(name, **{"Input Dims": [[6]]}), groups=[group("0", 0, 1)]))
    assert (node.kind, node.in_elements, node.out_elements) == (kind, 6, out)


def test_a_transfer_has_this_rank_at_one_end() -> None:
    sent, received = (one_of(trace(gloo(f"gloo:{name}"))) for name in ("send", "recv"))
    assert (sent.source_rank, sent.target_rank) == (1, None)
    assert (received.source_rank, received.target_rank) == (None, 1)


@pytest.mark.parametrize(
    ("dims", "elements"),
    [
        ([[]], 1), ([[2, 3]], 6), ([[2], [3, 4]], 14), ([[[2], [3]]], 5), ([[[2], [3]], [4]], 9), ([[0]], 0),
        ([[[]]], 1), ([], None), (None, None), ("[2]", None), ([2], None), ([["2"]], None), ([[-2]], None),
        ([[[[2]]]], None), ([[[2], 3]], None), ([[2], None], None), ([[10**30]], None),
        ([[2**40, 2**40]], None), ([[True]], None),
    ],
)  # fmt: skip
def test_elements(dims: Any, elements: int | None) -> None:
    assert one_of(trace(gloo(**{"Input Dims": dims}))).in_elements == elements


@given(JSON_VALUES, JSON_VALUES)
def test_whatever_a_span_says_is_read(dims: Any, types: Any) -> None:
    node = one_of(trace(gloo(**{"Input Dims": dims, "Input type": types})))
    assert node.in_elements is None or node.in_elements >= 0
    assert node.dtype is None or isinstance(node.dtype, str)


def test_other_annotations_are_none_and_kernels_stay_what_they_were() -> None:
    kernel = launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)")
    calls = [op("c10d::allreduce_", kernel), annotation("nccl:all_reduce"), annotation("my gloo:all_reduce")]
    before = load({FORWARD: calls}).collectives.nodes
    assert [(node.uids, node.on_host) for node in before] == [((kernel.kernel_uid,), False)]
    core = load({FORWARD: [*calls, annotation("gloo:all_reduce")]})
    after = core.collectives.nodes
    assert [node.on_host for node in after] == [False, True]
    assert after[0] == before[0]


def test_the_span_is_a_member_of_its_collective() -> None:
    core = trace(gloo(), groups=[group("0", 0, 1)])
    rows, numbers = build_context(core).from_events["MEMBER_OF"]
    assert core.columns.kind[rows].tolist() == [Kind.Annotation]
    assert list(build_context(core).nodes)[numbers[0]] == one_of(core).key


# -- real jobs


@cache
def job(ranks: int) -> list[Core]:
    return [loaded(CHECKOUT / f"examples/traces/gloo-{ranks}-ranks/rank{rank}.json.gz") for rank in range(ranks)]


def _is_of_pair(node: Collective) -> bool:
    return node.in_elements in (1700, 1701, 1800, 1801)


def times(ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of all collectives, one row per rank, on the clock that the ranks of a host share."""
    cores = job(ranks)
    return tuple(
        np.array([[getattr(one, end) + core.info.start_epoch_ns for one in core.collectives.nodes] for core in cores])
        for end in ("start_ns", "end_ns")
    )  # type: ignore[return-value]


@pytest.mark.parametrize("ranks", RANKS)
def test_every_collective_of_a_real_job_is_there(ranks: int) -> None:
    for rank, core in enumerate(job(ranks)):
        assert core.info.rank == rank
        nodes = core.collectives.nodes
        transfer = "recv" if rank % 2 else "send"
        assert Counter(node.kind for node in nodes) == {kind: 3 * n for kind, n in {**A_STEP, transfer: 1}.items()}
        assert all(node.on_host and node.rank == rank for node in nodes)
        assert {node.dtype for node in nodes if node.kind != "barrier"} == {"float"}
        of_world = [node for node in nodes if node.kind not in ("send", "recv") and not _is_of_pair(node)]
        assert {(node.group, node.ranks) for node in of_world} == {("0", tuple(range(ranks)))}
        first = rank // 2 * 2
        name = str(1 + rank // 2)
        assert {(one.group, one.ranks) for one in nodes if _is_of_pair(one)} == {(name, (first, first + 1))}
        assert not len(core.gpu_rows)


@pytest.mark.parametrize("ranks", RANKS)
def test_real_times_are_those_of_the_spans(ranks: int) -> None:
    path = CHECKOUT / f"examples/traces/gloo-{ranks}-ranks/rank0.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    spans = {uid: one["dur"] for uid, one in enumerate(events) if one.get("name", "").startswith("gloo:")}
    nodes = job(ranks)[0].collectives.nodes
    assert {node.uids[0]: node.end_ns - node.start_ns for node in nodes} == {
        uid: pytest.approx(dur * 1e3, abs=1) for uid, dur in spans.items()
    }


@pytest.mark.parametrize("ranks", RANKS)
def test_the_rank_made_late_comes_last_and_all_others_wait(ranks: int) -> None:
    start, end = times(ranks)
    first = [place for place, node in enumerate(job(ranks)[0].collectives.nodes) if node.in_elements == 1]
    assert len(first) == 3
    for place in first:
        wait = start[:, place].max() - start[:, place]
        assert wait.argmin() == ranks - 1
        assert 0.7 * LATE_NS < wait.max() < 2 * LATE_NS
        assert (end[:, place] - start[:, place]).argmin() == ranks - 1
        assert (end[:, place] > start[:, place].max()).all()


@pytest.mark.parametrize("ranks", RANKS)
def test_no_rank_leaves_a_real_barrier_before_all_have_come(ranks: int) -> None:
    start, end = times(ranks)
    for place, node in enumerate(job(ranks)[0].collectives.nodes):
        if node.kind in ("allreduce", "all_gather", "barrier") and not _is_of_pair(node):
            assert end[:, place].min() > start[:, place].max()


def test_sizes_of_a_real_job() -> None:
    nodes = job(2)[0].collectives.nodes[:13]
    found = Messages.of(nodes)
    expected = [1, 65536, 256, 2000, 2200, 1200, 1300, 2800, 310, 1600, 1700, 1800, np.nan]
    np.testing.assert_array_equal(found.size, np.array(expected) * 4)
    np.testing.assert_array_equal(found.factor, [1, 1, 1, 0.5, 1, 1, 1, 0.5, 0.5, 1, 1, 1, np.nan])


def test_an_old_recording(corpus: Any) -> None:
    nodes = loaded(corpus / "hta/cpu-only/rank-34.json.gz").collectives.nodes
    assert [(node.kind, node.in_bytes, node.group_size) for node in nodes] == [
        ("allreduce", 1_285_084, 300), ("allreduce", 8_329_644, 300),
    ] * 5  # fmt: skip
    assert nodes[0].end_ns - nodes[0].start_ns == pytest.approx(173_209_713, abs=1)
