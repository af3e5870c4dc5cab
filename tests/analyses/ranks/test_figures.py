"""Figures of collectives: latency, bandwidth, sizes."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_jobs import collective, job, rank

from corpus import CORPUS, needs_corpus
from tracelens_graph import collectives
from tracelens_graph.analyses.ranks import COLUMNS
from tracelens_graph.analyses.ranks.collective_tables import collectives_table
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.held import Entry
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.link_delays import LinkDelays
from tracelens_graph.analyses.ranks.links import Links
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.rank_collectives import GpuTime, RankCollectives, Step
from tracelens_graph.analyses.ranks.rank_tables import balance_table
from tracelens_graph.analyses.ranks.sizes import (
    RULES,
    Messages,
    bus_factors,
    gb_per_s,
    message_bytes,
    rule_of,
)
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.collective_kinds import KIND_NAMES, UNKNOWN
from tracelens_graph.graph.collectives import Collective, element_bytes
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

US = 1_000
H100 = ({"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132},)


def intervals(*pairs: tuple[int, int]) -> Any:
    start, end = np.array(pairs, np.int64).reshape(-1, 2).T
    return start, end


def two_ranks(**more: Any) -> list[Any]:
    """An all-reduce of 4 MiB: rank 1 comes 30 us late, both leave at 130 us; rank 0 computes for 20 us meanwhile."""
    part = collective(1, elements=1 << 20, group_size=2, ranks=(0, 1))
    times = ((0, 130 * US), (30 * US, 130 * US))
    busy = ((-50 * US, 130 * US), (-50 * US, 130 * US))
    computing = ((-50 * US, 20 * US), (-50 * US, 10 * US))
    return [
        rank(
            place, [(part, *times[place])], devices=2, world_size=2, step_of=(0,),
            steps=(Step(7, -50 * US, 130 * US),), properties=H100 * 2,
            gpu=GpuTime(intervals(busy[place]), intervals(computing[place])), **more,
        )
        for place in range(2)
    ]  # fmt: skip


def test_an_all_reduce_by_hand() -> None:
    (row,) = collectives_table(Figures(MatchedCollectives(two_ranks()))).records()
    assert (row["kind"], row["sequence"], row["step"], row["ranks"], row["group_size"]) == ("allreduce", 1, 7, 2, 2)
    assert (row["start_skew_us"], row["wait_us"], row["latency_us"]) == (30.0, 30.0, 100.0)
    assert (row["shortest_us"], row["end_skew_us"], row["last_rank"], row["last_trace"]) == (100.0, 0.0, 1, "rank1")
    assert row["message_bytes"] == 4 << 20
    assert row["algbw_gb_s"] == pytest.approx((4 << 20) / 100e-6 / 1e9)
    assert row["busbw_gb_s"] == pytest.approx(row["algbw_gb_s"] * 2 * 1 / 2)
    assert (row["peak_gb_s"], row["hosts"]) == (450.0, 1)
    assert row["percent_of_peak"] == pytest.approx(100 * row["busbw_gb_s"] / 450)
    assert (row["overlapped_us"], row["exposed_us"]) == (20.0, 110.0 + 100.0)


def test_ranks_by_hand() -> None:
    figures = Figures(MatchedCollectives(two_ranks()))
    first, second = balance_table(figures, LinkDelays(Links(figures))).records()
    assert (first["wait_ms"], first["transfer_ms"], first["end_skew_ms"]) == (0.03, 0.1, 0.0)
    assert (first["exposed_ms"], first["exposed_wait_ms"], first["times_last"]) == (0.11, 0.01, 0)
    assert (second["wait_ms"], second["times_last"], second["held_up_ms"], second["percent_last"]) == (
        0,
        1,
        0.03,
        100.0,
    )
    assert (first["span_ms"], first["computing_ms"], second["computing_ms"]) == (0.18, 0.07, 0.06)


def test_times_of_a_step_by_hand() -> None:
    made = Job(two_ranks())
    rows = {row["time"]: row for row in made.table("rank_times").records()}
    assert {name: round(row["mean_ms"] * 1e3, 6) for name, row in rows.items()} == {
        "step": 180.0, "computing": 65.0, "communication": 115.0, "exposed": 105.0, "waiting": 15.0,
        "exposed_waiting": 5.0, "copying": 10.0, "idle": 0.0,
    }  # fmt: skip
    assert sum(rows[name]["percent"] for name in ("computing", "exposed", "copying", "idle")) == pytest.approx(100)
    assert rows["waiting"]["percent"] == pytest.approx(100 * 15 / 180)
    assert (rows["waiting"]["most_trace"], rows["waiting"]["least_trace"]) == ("rank0", "rank1")
    steps = made.table("rank_steps").records()
    assert [(row["step"], row["wait_ms"], row["times_last"], row["held_up_ms"]) for row in steps] == [
        (7, 0.03, 0, 0.0),
        (7, 0.0, 1, 0.03),
    ]


def test_parts_of_a_step_are_the_whole_step() -> None:
    first, second = two_ranks()
    gpu = GpuTime(intervals((-50 * US, 2 * US), (30 * US, 130 * US)), intervals((-50 * US, -10 * US)))
    rows = {row["time"]: row for row in Job([first, replace(second, gpu=gpu)]).table("rank_times").records()}
    assert {name: round(rows[name]["mean_ms"] * 1e3, 6) for name in ("computing", "exposed", "copying", "idle")} == {
        "computing": 55.0, "exposed": 105.0, "copying": 6.0, "idle": 14.0,
    }  # fmt: skip
    assert rows["idle"]["most_trace"] == "rank1"


def test_between_hosts_no_peak_is_known() -> None:
    apart = [replace(one, host=host) for one, host in zip(two_ranks(), "ab", strict=True)]
    (row,) = collectives_table(Figures(MatchedCollectives(apart))).records()
    assert (row["hosts"], row["peak_gb_s"], row["percent_of_peak"]) == (2, None, None)


def test_an_all_gather_counts_what_comes_out() -> None:
    part = collective(1, "_allgather_base", 1000, out_elements=4000, dtype="c10::Float8_e4m3fn", group_size=4)
    (row,) = collectives_table(
        Figures(MatchedCollectives([rank(place, [(part, 0, 4000)]) for place in range(4)]))
    ).records()
    assert (row["message_bytes"], row["algbw_gb_s"], row["busbw_gb_s"]) == (4000, 1.0, 0.75)


@given(st.integers(0, 10**6), st.integers(0, 5_000))
def test_sums_agree_between_tables(seed: int, noise: int) -> None:
    made = Job(job(seed, 4, 12, end_noise_ns=noise).ranks)
    of_collectives, of_ranks = made.table("rank_collectives"), made.table("rank_balance")
    kinds = made.table("collective_kinds")
    assert sum(of_collectives["wait_us"]) == pytest.approx(1e3 * sum(of_ranks["wait_ms"]))
    assert sum(kinds["wait_ms"]) == pytest.approx(sum(of_ranks["wait_ms"]))
    assert sum(kinds["count"]) == len(of_collectives)
    exposed = 1e3 * sum(of_ranks["wait_ms"]) + 1e3 * sum(of_ranks["transfer_ms"]) + 1e3 * sum(of_ranks["end_skew_ms"])
    assert sum(of_collectives["exposed_us"]) == pytest.approx(exposed)  # nothing computes
    assert sum(of_ranks["times_last"]) <= len(of_collectives)


def test_what_was_not_matched_is_listed_with_its_reason() -> None:
    both, alone = collective(1), collective(2, "broadcast", group_description="mesh_dp")
    ranks = [rank(0, [(both, 0, 90), (alone, 200, 290)]), rank(1, [(both, 10, 90)])]
    (row,) = Job(ranks).table("unmatched_collectives").records()
    assert (row["trace"], row["kind"], row["group"], row["sequence"]) == ("rank0", "broadcast", "mesh_dp", 2)
    assert (row["start_us"], row["duration_us"], row["reason"]) == (0.2, 0.09, "no other rank has it")


def test_the_bubble_of_a_pipeline_stage_by_hand() -> None:
    def part(kind: str, start: int, end: int) -> Entry:
        return collective(1, kind, ranks=(0, 1), source_rank=0, target_rank=1), start, end

    def stage(number: int, held: Entry, computing: tuple[int, int]) -> RankCollectives:
        gpu = GpuTime(intervals(computing, held[1:]), intervals(computing))
        return rank(number, [held], devices=2, steps=(Step(1, 0, 1_000),), step_of=(0,), gpu=gpu)

    first = stage(0, part("send", 500, 600), (100, 500))
    second = stage(1, part("recv", 300, 600), (100, 300))
    table = Job([first, second]).table("rank_balance")
    # The second waits from 300 to 500; both do nothing before 100 and after 600.
    assert list(table["bubble_ms"]) == [500e-6, 700e-6]
    assert list(Job(two_ranks()).table("rank_balance")["bubble_ms"]) == [None, None]


def test_the_load_of_experts_is_as_it_was_simulated() -> None:
    run = simulate(ranks=4, steps=1, layers=1, seed=3, expert_parallel=4)
    ranks = TraceSet.of({f"rank{one.rank}": load_core(one.trace) for one in run.ranks})
    got = dict.fromkeys(range(4), 0)
    for one in run.ranks[0].truth["collectives"]:
        if one["kind"] == "all_to_allv":
            for number, elements in zip(one["ranks"], one["elements_out"], strict=True):
                got[number] += elements * (element_bytes(one["dtype"]) or 0)
    table = Job(ranks).table("rank_balance")
    assert dict(zip(table["rank"], table["exchanged_bytes"], strict=True)) == got
    assert len({*got.values()}) == 4


def test_simulated_ranks_are_as_they_were_simulated() -> None:
    run = simulate(ranks=4, steps=2, layers=1, seed=3, dataloader_us=12_000.0, dataloader_rank=2)
    ranks = TraceSet.of({f"rank{one.rank}": load_core(one.trace) for one in run.ranks})
    rows = {row["sequence"]: row for row in collectives(ranks).records()}
    truth = {one["seq"]: one for one in run.ranks[0].truth["collectives"]}
    assert set(rows) == set(truth)
    for number, one in truth.items():
        row = rows[number]
        assert (row["kind"], row["last_rank"], row["ranks"]) == (one["kind"], one["last_rank"], 4)
        assert round(row["start_skew_us"] * 1e3) == one["skew_ns"]
        assert round(row["latency_us"] * 1e3) == one["transfer_ns"]
        assert round(row["wait_us"] * 1e3) == sum(max(one["start_ns"]) - start for start in one["start_ns"])
    balance = {row["rank"]: row for row in Job(ranks).table("rank_balance").records()}
    assert balance[2]["held_up_ms"] > 20 > 1 > max(balance[rank]["held_up_ms"] for rank in (0, 1, 3))
    with pytest.raises(AnalysisError, match="top=-1"):
        collectives(ranks, top=-1)
    assert set(collectives(ranks, kind="_allgather_base")["kind"]) == {"_allgather_base"}


@needs_corpus
def test_eight_real_ranks() -> None:
    assert CORPUS
    files = [str(CORPUS / "dlrm-8-ranks" / "kineto" / f"rank{n}.json.gz") for n in range(8)]
    lean, whole = load_core_set(files, columns=COLUMNS), load_core_set(files)
    for name in Job(whole).names:
        assert Job(lean).table(name).records() == Job(whole).table(name).records()
    rows = Job(lean).table("rank_collectives").records()
    assert [row["ranks"] for row in rows] == [8] * 8
    assert sorted(row["end_skew_us"] for row in rows) == [1, 2, 2, 2, 3, 5, 5, 7]
    assert max(row["start_skew_us"] for row in rows) == 7624
    balance = Job(lean).table("rank_balance")
    assert dict(zip(balance["rank"], balance["times_last"], strict=True)) == {
        0: 0, 1: 0, 2: 0, 3: 0, 4: 1, 5: 2, 6: 0, 7: 5,
    }  # fmt: skip


MIB = 2**20


def sized(kind: str, elements: tuple[int | None, int | None], size: int | None = 8, **more: Any) -> Collective:
    plain: dict[str, Any] = {
        "key": "coll:0:-:1", "group": "0", "group_description": None, "ranks": None, "group_size": size, "kind": kind,
        "sequence": 1, "index": 0, "dtype": "Float", "in_elements": elements[0], "out_elements": elements[1],
        "in_split": None, "out_split": None, "source_rank": None, "target_rank": None, "rank": 0, "rows": (0,),
        "uids": (0,), "start_ns": 0, "end_ns": 1000,
    }  # fmt: skip
    return Collective(**plain | more)


@pytest.mark.parametrize(
    ("kind", "into", "out", "message", "algorithm", "bus"),
    [
        # 8 ranks, 100 us. 64 MiB: 67,108,864 B / 100,000 ns = 671.08864 GB/s.
        ("allreduce", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864 * 2 * 7 / 8),
        ("allreduce_coalesced", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 1174.40512),
        ("_allgather_base", 8 * MIB, 64 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("allgather_into_tensor_coalesced", 8 * MIB, 64 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("_reduce_scatter_base", 64 * MIB, 8 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("reduce_scatter_tensor_coalesced", 64 * MIB, 8 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("all_to_all", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("all_to_allv", 16 * MIB, 64 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("gather", 8 * MIB, 64 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("scatter", 64 * MIB, 8 * MIB, 64 * MIB, 671.08864, 587.20256),
        ("broadcast", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("_broadcast_oop", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("reduce", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("send", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("recv", nan, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("recvAnySource", nan, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        ("send_recv", 64 * MIB, 64 * MIB, 64 * MIB, 671.08864, 671.08864),
        # What is not known stays so: the other side of a reduce-scatter is another size.
        ("_reduce_scatter_base", nan, 8 * MIB, nan, nan, nan),
        ("_allgather_base", 8 * MIB, nan, nan, nan, nan),
        ("barrier", 4, 4, nan, nan, nan),
        (UNKNOWN, 4, 4, nan, nan, nan),
    ],
)
def test_by_hand(kind: str, into: float, out: float, message: float, algorithm: float, bus: float) -> None:
    ns = np.array([100_000])
    size = message_bytes([kind], np.array([into]), np.array([out]))
    found = size, gb_per_s(size, ns), gb_per_s(size, ns) * bus_factors([kind], np.array([8]))
    assert [one[0] for one in found] == pytest.approx([message, algorithm, bus], nan_ok=True)


def test_of_collectives_as_recorded() -> None:
    nodes = [
        sized("allreduce", (250_000, 250_000), 4),  # 1 MB of floats
        sized("_allgather_base", (500, 1000), 2, dtype="BFloat16"),
        sized("_allgather_base", (512, 4096), 8, dtype="Float8_e4m3fn"),
        sized("allreduce", (512, 512), 2, dtype="Float4_e2m1fn_x2"),
        sized("allreduce", (512, 512), None, ranks=(3, 5)),
        sized("allreduce", (512, 512), None),
        sized("allreduce", (512, 512), 2, dtype="Quaternion"),
        sized("allreduce", (None, None), 2),
        sized("allreduce", (512, 512), 1),
    ]
    found = Messages.of(nodes)
    np.testing.assert_array_equal(found.size, [1e6, 2000, 4096, 512, 2048, 2048, nan, nan, 2048])
    np.testing.assert_allclose(found.factor, [1.5, 0.5, 7 / 8, 1, 1, nan, 1, 1, 0])
    # 1 MB in 10 us are 100 GB/s.
    ns = np.full(len(nodes), 10_000)
    assert found.algorithm_bandwidth(ns)[0] == 100
    assert found.bus_bandwidth(ns)[0] == 150
    assert np.isnan(found.algorithm_bandwidth(np.zeros(len(nodes)))).all()


def test_every_kind_has_a_rule_but_the_barrier() -> None:
    kinds = set(KIND_NAMES.values())
    assert kinds - RULES.keys() == {"barrier"}
    assert kinds >= RULES.keys()
    assert {kind for kind in kinds if rule_of(kind) is RULES.get(kind)} == kinds
