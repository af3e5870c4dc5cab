"""TraceLens's tables of all ranks: known answers, ranks that disagree or are missing, and what is matched better."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from io import StringIO
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from growth import assert_growth
from handmade import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from rank_traces import BASE_NS, collective, job, kernel

from tracelens_graph.compat.ranks.tables import COLUMNS, RankTables, tracelens_tables
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.registry import schema_of
from tracelens_graph.reports.csv import write_csv
from tracelens_graph.tables.table import Table


def only(table: Table, **where: Any) -> dict[str, Any]:
    """The one row with these cells."""
    (row,) = (row for row in table.records() if all(row[name] == cell for name, cell in where.items()))
    return row


def test_known_answer() -> None:
    """1 MiB between two ranks: rank 1 comes 30 us later, and 50 us after that both are done."""
    tables = tracelens_tables(job({0: [collective(100, 80)], 1: [collective(130, 50)]}))
    row = only(tables["nccl_implicit_sync"])
    assert row == {
        "collective_id": "0_0", "Process Group Name": "0", "Process Group Ranks": [0, 1],
        "Collective name": "allreduce", "Group size": 2, "dtype": "Float", "In msg nelems": 2**18,
        "Out msg nelems": 2**18, "In msg size (MB)": 1.0, "Out msg size (MB)": 1.0, "Full msg size (MB)": 1.0,
        "comm_latency": 50.0, "skew in start time": 30.0, "earliest arrival rank": 0, "avg_wait_time": 15.0,
        "skew in end time": 0.0, "algo bw (GB/s)": pytest.approx(1 / 1024 / 50e-6),
        "bus bw (GB/s)": pytest.approx(1 / 1024 / 50e-6), "rank_0_ts": 100.0, "rank_0_dur": 80.0, "rank_1_ts": 130.0,
        "rank_1_dur": 50.0, "rank_0_wait_time": 30.0, "rank_1_wait_time": 0.0, "node_span": "intra_node",
    }  # fmt: skip
    assert tables["straggler_summary"].records() == [
        {
            "rank": 1, "total_wait_time_us": 0.0, "mean_wait_time_us": 0.0, "times_arrived_last": 1,
            "times_arrived_first": 0, "pct_arrived_last": 100.0, "num_collectives": 1, "total_nccl_dur_us": 50.0,
            "node_id": 0,
        },
        {
            "rank": 0, "total_wait_time_us": 30.0, "mean_wait_time_us": 30.0, "times_arrived_last": 0,
            "times_arrived_first": 1, "pct_arrived_last": 0.0, "num_collectives": 1, "total_nccl_dur_us": 80.0,
            "node_id": 0,
        },
    ]  # fmt: skip
    summary = only(tables["nccl_summary_implicit_sync"])
    assert (summary["count"], summary["Total comm latency (ms)"], summary["comm_latency_median"]) == (1, 0.05, 50.0)
    assert list(tables) == [
        "nccl_summary_implicit_sync", "nccl_summary_long", "nccl_long", "nccl_implicit_sync", "straggler_summary",
    ]  # fmt: skip
    for name, table in tables.items():
        assert list(table.about) == list(table.columns)
        assert not table.notes
        assert next(iter(schema_of(name))) == next(iter(table.columns))


@pytest.mark.parametrize(
    ("kind", "elements", "out", "full", "factor"),
    [
        ("allreduce", 2**18, 2**18, 1.0, 2 * 3 / 4),
        ("allreduce_coalesced", 2**18, 2**18, 1.0, 2 * 3 / 4),
        ("_allgather_base", 2**18, 2**20, 4.0, 3 / 4),
        ("allgather_into_tensor_coalesced", 2**18, 2**20, 4.0, 3 / 4),
        ("_reduce_scatter_base", 2**20, 2**18, 4.0, 3 / 4),
        ("reduce_scatter", 2**20, 2**18, 4.0, 3 / 4),
        ("all_to_all", 2**20, 2**20, 4.0, 3 / 4),
    ],
)
def test_bandwidths(kind: str, elements: int, out: int, full: float, factor: float) -> None:
    events = {rank: [collective(rank, 1000 - rank, kind, range(4), elements=elements, out=out)] for rank in range(4)}
    row = only(tracelens_tables(job(events))["nccl_implicit_sync"])
    assert row["Full msg size (MB)"] == full
    assert row["algo bw (GB/s)"] == pytest.approx(full / 1024 / 997e-6)
    assert row["bus bw (GB/s)"] == pytest.approx(full / 1024 / 997e-6 * factor)


def test_types_that_tracelens_has_no_size_of() -> None:
    events = {rank: [collective(rank, 10, dtype="Float8_e4m3fn", elements=2**20)] for rank in (0, 1)}
    assert only(tracelens_tables(job(events))["nccl_implicit_sync"])["Full msg size (MB)"] == 1.0
    events = {rank: [collective(rank, 10, dtype="Quaternion")] for rank in (0, 1)}
    tables = tracelens_tables(job(events))
    assert math.isnan(only(tables["nccl_implicit_sync"])["bus bw (GB/s)"])
    assert not [name for name in tables["nccl_summary_implicit_sync"].columns if "bw" in name]
    assert list(tables["nccl_long"].notes) == ["no size is known for elements of type Quaternion"]


def test_summaries_fold_collectives() -> None:
    each = [(0, 10), (100, 20), (200, 60)]
    tables = tracelens_tables(
        job({rank: [collective(ts, dur) for ts, dur in each] for rank in (0, 1)}),
        statistics=("std", "min", "max"),
    )
    row = only(tables["nccl_summary_implicit_sync"])
    assert (row["count"], row["Total comm latency (ms)"]) == (3, 0.09)
    assert row["comm_latency_std"] == pytest.approx(np.std([10, 20, 60], ddof=1))
    assert (row["comm_latency_min"], row["comm_latency_max"]) == (10, 60)
    assert "comm_latency_mean" not in row
    long = tables["nccl_summary_long"].records()
    assert [(one["rank"], one["dur_sum"], one["operation_count"]) for one in long] == [(0, 90.0, 3), (1, 90.0, 3)]


# --- uneven all-to-alls ------------------------------------------------------------------------------------------


def test_uneven_all_to_all_of_a_group_within_the_job() -> None:
    """Ranks 2 and 5 of a job exchange rows of 8 floats: places in the group are ranks 2 and 5."""
    ranks = (2, 5)
    events = {
        2: [collective(100, 40, "all_to_allv", ranks, elements=8 * 40, split=[10, 30])],
        5: [collective(120, 50, "all_to_allv", ranks, elements=8 * 120, split=[120, 0])],
        0: [kernel(0, 1, "gemm")],
    }
    tables = tracelens_tables(job(events, world_size=8))
    row = only(tables["nccl_all2allv"])
    mib = 8 * 4 / 2**20
    assert row["total data communicated (MB)"] == pytest.approx(160 * mib)
    assert row["total nelems communicated"] == 8 * 160
    assert (row["wall_time (us)"], row["max_rank_dur (us)"], row["min_rank_dur (us)"]) == (70.0, 50.0, 40.0)
    assert row["avg_rank_dur (us)"] == 45.0
    assert row["throughput (GB/s)"] == pytest.approx(160 * mib / 1024 / 70e-6)
    assert row["max_rank_throughput (GB/s)"] == pytest.approx(120 * mib / 1024 / 50e-6)
    assert row["min_rank_throughput (GB/s)"] == pytest.approx(40 * mib / 1024 / 40e-6)
    assert row["size_imbalance"] == pytest.approx(1.5)
    assert (row["skew in start time"], row["skew in end time"]) == (20.0, 30.0)
    assert (row["rank_2_skew in start time"], row["rank_5_skew in start time"]) == (0.0, 20.0)
    assert (row["rank_2_skew in end time"], row["rank_5_skew in end time"]) == (30.0, 0.0)
    assert (row["rank_2_In split size"], row["rank_5_Out split size"]) == ([10, 30], [120, 0])
    assert "rank_0_ts" not in row
    summary = only(tables["nccl_summary_all2allv"])
    assert (summary["count"], summary["Total wall_time (us)"], summary["Total wall_time (ms)"]) == (1, 70.0, 0.07)
    assert [tuple(row) for row in tables["nccl_all2allv_heatmap"].rows()] == [
        (2, 2, pytest.approx(10 * mib), pytest.approx(10 * mib), 1),
        (2, 5, pytest.approx(30 * mib), pytest.approx(30 * mib), 1),
        (5, 2, pytest.approx(120 * mib), pytest.approx(120 * mib), 1),
        (5, 5, 0.0, 0.0, 1),
    ]


@pytest.mark.parametrize("listed", ["[0, 1, ..., 3]", None])
def test_ranks_that_kernels_do_not_list(listed: str | None) -> None:
    """Metadata lists those of the group of ranks 1 and 3; a group as large as the job has all of them."""

    def exchange(group: str, split: Sequence[int]) -> dict[str, Any]:
        event = collective(10, 5, "all_to_allv", split, group, elements=sum(split), split=split)
        event["args"]["Process Group Ranks"] = listed
        return event

    def sent(events: dict[str, Any], **more: Any) -> set[tuple[int, int]]:
        found = RankTables(job({1: [events]}, 4, **more)).table("nccl_all2allv_heatmap")
        return set(zip(found["src_rank"].tolist(), found["dst_rank"].tolist(), strict=True))

    groups = [{"pg_name": "experts", "ranks": [1, 3]}]
    told = {"rank": 1, "world_size": 4, "pg_config": groups}
    assert sent(exchange("experts", [5, 6]), distributedInfo=told) == {(1, 1), (1, 3)}
    assert sent(exchange("experts", [5, 6])) == set()
    assert sent(exchange("0", [1, 1, 1, 1])) == {(1, 0), (1, 1), (1, 2), (1, 3)}


def test_the_heat_map_adds_up_groups() -> None:
    def exchange(ts: float, group: str, ranks: Sequence[int], split: Sequence[int]) -> dict[str, Any]:
        return collective(ts, 9, "all_to_allv", ranks, group, elements=sum(split), split=split)

    events = {
        rank: [
            exchange(0, "a", (0, 1, 2), [1, 2, 3]),
            exchange(20, "b", (0, 1), [5, 7]),
            exchange(40, "b", (0, 1), [5, 7]),
        ]
        for rank in (0, 1)
    }
    events[2] = [exchange(0, "a", (0, 1, 2), [1, 2, 3])]
    table = tracelens_tables(job(events))["nccl_all2allv_heatmap"]
    found = {
        (row["src_rank"], row["dst_rank"]): (row["total_sent_MB"] * 2**18, row["count"]) for row in table.records()
    }
    assert found == {
        (0, 0): (11, 3), (0, 1): (16, 3), (0, 2): (3, 1),
        (1, 0): (11, 3), (1, 1): (16, 3), (1, 2): (3, 1),
        (2, 0): (1, 1), (2, 1): (2, 1), (2, 2): (3, 1),
    }  # fmt: skip


@pytest.mark.parametrize("split", [(), (1, 2, 3), (-1, 5)], ids=["none", "too many", "negative"])
def test_splits_that_tell_nothing_are_counted(split: tuple[int, ...]) -> None:
    events = {rank: [collective(rank, 10, "all_to_allv", elements=4, split=split)] for rank in (0, 1)}
    found = RankTables(job(events))
    assert len(found.table("nccl_all2allv")) == 1
    heatmap = found.table("nccl_all2allv_heatmap")
    assert len(heatmap) == 0
    assert list(heatmap.notes) == ["2 kernels do not say how much goes to which rank: left out"]


# --- matching ----------------------------------------------------------------------------------------------------


def test_members_that_disagree_are_an_error_or_a_note() -> None:
    ranks = job(
        {
            0: [collective(0, 10), collective(20, 10, elements=2**20), collective(40, 10)],
            1: [collective(0, 10), collective(20, 10), collective(40, 10, dtype="Half")],
        }
    )
    said = "collective 0_1: In msg nelems is 1048576 on rank 0 and 262144 on rank 1"
    with pytest.raises(AnalysisError) as error:
        tracelens_tables(ranks)
    assert str(error.value) == f"{said}; and 1 more"
    tables = tracelens_tables(ranks, strict=False)
    row = only(tables["nccl_implicit_sync"], collective_id="0_1")
    assert (row["In msg nelems"], row["Full msg size (MB)"]) == (2**20, 4.0)
    assert list(tables["nccl_implicit_sync"].notes) == [
        f"members disagree, and what the lowest rank says counts: {said} and 1 more"
    ]


def test_a_missing_rank() -> None:
    tables = tracelens_tables(job({rank: [collective(10 * rank, 10, ranks=range(4))] for rank in (0, 1, 3)}, 4))
    table = tables["nccl_implicit_sync"]
    row = only(table)
    assert (row["skew in start time"], row["rank_1_wait_time"], row["Group size"]) == (30.0, 20.0, 4)
    assert "rank_2_ts" not in row
    assert list(table.notes) == ["1 of 1 collectives lack ranks of their groups, which may be the last"]
    assert list(tables["straggler_summary"]["rank"]) == [3, 1, 0]


def test_who_is_alone_is_not_late() -> None:
    tables = tracelens_tables(job({0: [collective(0, 10), collective(50, 10)], 1: [collective(3, 7)]}))
    assert len(tables["nccl_implicit_sync"]) == 2
    rows = tables["straggler_summary"].records()
    assert [(row["rank"], row["times_arrived_last"], row["num_collectives"]) for row in rows] == [(1, 1, 1), (0, 0, 1)]
    assert "straggler_summary" not in tracelens_tables(job({0: [collective(0, 10)]}))


def test_one_name_for_a_group_per_node() -> None:
    """TraceLens takes collectives of two nodes for one, because their groups have one name."""
    events = {
        rank: [collective(100 * (rank // 2), 10 + rank, ranks=(rank // 2 * 2, rank // 2 * 2 + 1))] for rank in range(4)
    }
    table = tracelens_tables(job(events))["nccl_implicit_sync"]
    assert list(table["collective_id"]) == ["0_0", "0_0"]
    assert list(table["Process Group Ranks"]) == [[0, 1], [2, 3]]
    assert table["skew in start time"].tolist() == [0.0, 0.0]


def test_sequence_numbers_hold_where_a_kernel_is_missing() -> None:
    """By order alone, as TraceLens matches, rank 1 would be 1,000 us late from the second on."""
    numbers = range(10, 15)
    events = {
        rank: [collective(1000 * at + rank, 10, sequence=at) for at in numbers if (rank, at) != (1, 11)]
        for rank in (0, 1)
    }
    table = tracelens_tables(job(events))["nccl_implicit_sync"]
    assert list(table["collective_id"]) == [f"0_{number}" for number in range(5)]
    assert table["skew in start time"].tolist() == [1.0, 0.0, 1.0, 1.0, 1.0]
    by_order = {
        rank: [{**one, "args": {name: cell for name, cell in one["args"].items() if name != "Seq"}} for one in listed]
        for rank, listed in events.items()
    }
    table = tracelens_tables(job(by_order))["nccl_implicit_sync"]
    assert table["skew in start time"].tolist() == [1.0, 1001.0, 1001.0, 1001.0, 0.0]


def test_transfers_do_not_shift_collectives() -> None:
    """A rank in the middle of a pipeline has more of them than one at its end."""
    events = {
        0: [collective(0, 5, "send"), collective(50, 5)],
        1: [collective(0, 5, "recv"), collective(10, 5, "send"), collective(51, 4)],
    }
    tables = tracelens_tables(job(events))
    row = only(tables["nccl_implicit_sync"])
    assert (row["collective_id"], row["skew in start time"]) == ("0_0", 1.0)
    ids = [(row["rank"], row["collective_id"], row["Collective name"]) for row in tables["nccl_long"].records()]
    assert ids == [
        (0, "0_1", "send"), (0, "0_0", "allreduce"), (1, "0_1", "recv"), (1, "0_2", "send"), (1, "0_0", "allreduce"),
    ]  # fmt: skip


def test_no_metadata_and_one_stream() -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    events = {rank: [kernel(100 * at + rank, 20 - rank, name) for at in range(3)] for rank in (0, 1)}
    tables = tracelens_tables(job(events))
    table = tables["nccl_implicit_sync"]
    assert list(table["collective_id"]) == ["all_0", "all_1", "all_2"]
    assert table["comm_latency"].tolist() == [19.0] * 3
    assert table["skew in start time"].tolist() == [1.0] * 3
    assert set(table["Collective name"]) == {"allreduce"}
    assert np.isnan(table["bus bw (GB/s)"]).all()
    (row,) = tables["nccl_summary_implicit_sync"].records()
    assert (row["count"], row["In msg nelems"]) == (3, None)
    assert "bus bw (GB/s)_mean" not in row
    assert list(tables["nccl_long"].notes) == [
        "no kernel names its process group and each rank uses one stream: matched by their order there"
    ]


def test_kinds_that_names_do_not_tell_are_taken_for_barriers() -> None:
    events = {rank: [kernel(rank, 20 - rank)] for rank in (0, 1)}
    row = only(tracelens_tables(job(events))["nccl_implicit_sync"])
    assert (row["Collective name"], row["comm_latency"]) == (None, 19.0)


def test_clocks_that_count_from_other_moments() -> None:
    """Both start at one time, which one file counts from a second later than the other."""
    early = job({0: [collective(2_000_000, 10)]}, 2)[0]
    late = job({1: [collective(1_000_000, 10)]}, 2, baseTimeNanoseconds=BASE_NS + 1_000_000_000)[0]
    row = only(tracelens_tables(TraceSet([early, late]))["nccl_implicit_sync"])
    assert row["skew in start time"] == 0
    assert (row["rank_0_ts"], row["rank_1_ts"]) == (2_000_000.0, 2_000_000.0)


def test_times_since_1970_keep_their_digits() -> None:
    ts = 1_694_128_201_429_795
    assert tracelens_tables(job({0: [collective(ts, 10)]}, baseTimeNanoseconds=0))["nccl_long"]["ts"].tolist() == [
        float(ts)
    ]


# --- nodes -------------------------------------------------------------------------------------------------------


def spans(ranks: TraceSet, ranks_per_node: int | None = None) -> tuple[list[int | None], list[str]]:
    """Node of each rank, and the span of each group."""
    tables = tracelens_tables(ranks, ranks_per_node=ranks_per_node)
    nodes = {row["rank"]: row["node_id"] for row in tables["nccl_long"].records()}
    return list(nodes.values()), list(tables["nccl_implicit_sync"]["node_span"])


def of_groups(*groups: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """Events of all ranks of some groups, a collective of each."""
    everyone = sorted({rank for group in groups for rank in group})
    return {
        rank: [collective(10 * at, 5, ranks=group, group=str(at)) for at, group in enumerate(groups) if rank in group]
        for rank in everyone
    }


def test_nodes_by_devices() -> None:
    events = of_groups((0, 1, 2, 3), (0, 1), (2, 3))
    assert spans(job(events, devices=2)) == ([0, 0, 1, 1], ["inter_node", "intra_node", "intra_node"])
    assert spans(job(events, devices=4)) == ([0, 0, 0, 0], ["intra_node"] * 3)
    assert spans(job(events, devices=4), ranks_per_node=2) == ([0, 0, 1, 1], ["inter_node", "intra_node", "intra_node"])


def test_nodes_by_host() -> None:
    """Ranks that go round the hosts, which rank // 2 would put the other way."""
    hosts = {0: "a", 1: "b", 2: "a", 3: "b"}
    events = of_groups((0, 1, 2, 3), (0, 2), (1, 3))
    assert spans(job(events, hosts=hosts, devices=2)) == ([0, 1, 0, 1], ["inter_node", "intra_node", "intra_node"])


def test_nodes_by_the_host_that_files_name() -> None:
    events = of_groups((0, 1), (0, 2))
    ranks = TraceSet(job({rank: events[rank]}, 3, host_name=name)[0] for rank, name in enumerate("xyx"))
    assert spans(ranks) == ([0, 1, 0], ["inter_node", "intra_node"])


# --- odd sets ----------------------------------------------------------------------------------------------------


def test_ranks_are_sorted_and_unknown_ones_counted() -> None:
    events = {2: [collective(0, 1, ranks=(0, 2))], 0: [collective(0, 1, ranks=(0, 2))]}
    assert list(tracelens_tables(job(events, 3))["nccl_long"]["rank"]) == [0, 2]
    nobody = [TraceMember(load_core([collective(0, 1)]), name) for name in ("x", "y")]
    assert list(tracelens_tables(TraceSet(nobody))["nccl_long"]["rank"]) == [0, 1]


def test_a_doubled_rank_is_refused() -> None:
    (one,) = job({1: [collective(0, 1)]}, 2)
    with pytest.raises(AnalysisError, match="^rank 1 is there more than once: a, b$"):
        tracelens_tables(TraceSet([TraceMember(one.graph, "a"), TraceMember(one.graph, "b")]))


@pytest.mark.parametrize("ranks", [TraceSet([]), job({0: [kernel(0, 1, "gemm")]}), job({0: [], 1: []})])
def test_nothing_to_tell(ranks: TraceSet) -> None:
    tables = tracelens_tables(ranks)
    assert [len(table) for table in tables.values()] == [0] * 4
    assert list(tables["nccl_long"].notes) == ["no rank has kernels of collectives"]


def test_windows_count() -> None:
    ranks = job({rank: [collective(0, 10), collective(100, 10)] for rank in (0, 1)})
    table = tracelens_tables(ranks.narrowed(after_ns=50_000))["nccl_long"]
    assert len(table) == 2
    assert table["ts"].tolist() == [100.0, 100.0]


def test_lean_graphs_serve() -> None:
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    for events in (
        {0: [collective(0, 10)], 1: [collective(5, 5)]},
        {0: [kernel(0, 10, name)], 1: [kernel(5, 5, name)]},
    ):
        ranks = job(events)
        fewer = ranks.with_graphs(lambda core: core.lean(COLUMNS))
        found, whole = tracelens_tables(fewer), tracelens_tables(ranks)
        # As text, for what is not known is not equal to itself.
        assert {name: str(table.records()) for name, table in found.items()} == {
            name: str(table.records()) for name, table in whole.items()
        }


@pytest.mark.parametrize("of", ["collectives", "ranks", "groups"])
def test_cost_grows_with_the_number_of_kernels(of: str) -> None:
    def prepare(size: int) -> Callable[[], object]:
        ranks = size // 8 if of == "ranks" else 2
        kernels = 8 if of == "ranks" else size
        events = {
            rank: [
                collective(20 * at, 5, group=str(at) if of == "groups" else "0", ranks=range(2))
                for at in range(kernels)
            ]
            for rank in range(ranks)
        }
        traces = job(events)
        return lambda: tracelens_tables(traces)

    assert_growth(prepare, 64)


ODD = st.one_of(
    st.none(), st.integers(-2, 4), st.sampled_from([10**400, -(2**63), 2**53, 1.5, True, HOSTILE, "[0, 1", "[1e3]"]),
    st.lists(st.sampled_from([0, 1, -1, 7, 10**400]), max_size=3), st.sampled_from(["[0, 1]", "[3, 4]", "all_to_allv"]),
)  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from([*collective(0, 1)["args"], "Seq"]), ODD), min_size=1, max_size=4))
def test_arguments_that_cannot_be(said: list[dict[str, Any]]) -> None:
    """Whatever kernels say, all of them are listed, and files can be written."""
    gpu = ("stream", "device")
    events = {
        rank: [
            collective(20 * at + rank, 5, "all_to_allv" if at % 2 else "allreduce", split=[1, 2])
            for at in range(len(said))
        ]
        for rank in (0, 1)
    }
    for event, odd in zip(events[1], said, strict=True):
        event["args"] |= {name: cell for name, cell in odd.items() if name not in gpu}
    tables = tracelens_tables(job(events), strict=False)
    assert len(tables["nccl_long"]) == 2 * len(said)
    for table in tables.values():
        write_csv(table, StringIO())
        assert table.text(100)


# --- against a plain computation ---------------------------------------------------------------------------------

KERNELS = st.lists(
    st.tuples(st.sampled_from(["allreduce", "_allgather_base", "all_to_allv", "send", "broadcast"]),
              st.sampled_from(["a", "b"]), st.integers(0, 40), st.integers(0, 30)),
    max_size=8,
)  # fmt: skip


@given(st.dictionaries(st.integers(0, 3), KERNELS, min_size=1, max_size=4))
def test_tables_are_those_of_a_plain_computation(said: dict[int, list[tuple[str, str, int, int]]]) -> None:
    events = {
        rank: [
            collective(100 * at + late, dur, kind, range(4), group, split=[1, 1, 1, 1])
            for at, (kind, group, late, dur) in enumerate(listed)
        ]
        for rank, listed in said.items()
    }
    made = RankTables(job(events, 4), strict=False)
    each = [f"nccl_{name}" for name in ("long", "implicit_sync", "all2allv")]
    summaries = ["nccl_summary_long", "nccl_summary_implicit_sync", "nccl_all2allv_heatmap", "straggler_summary"]
    tables = {name: made.table(name) for name in (*each, *summaries)}
    expected: dict[tuple[str, int], dict[int, tuple[str, float, float]]] = {}
    for rank, listed in sorted(said.items()):
        seen: dict[str, int] = {}
        for at, (kind, group, late, dur) in enumerate(listed):
            if kind != "send":
                number = seen[group] = seen.get(group, -1) + 1
                expected.setdefault((group, number), {})[rank] = (kind, 100 * at + late, dur)
    barriers = {
        f"{group}_{number}": members
        for (group, number), members in expected.items()
        if members[min(members)][0] in ("allreduce", "_allgather_base")
    }
    assert list(tables["nccl_implicit_sync"]["collective_id"]) == list(barriers)
    waited, met = dict.fromkeys(said, 0.0), dict.fromkeys(said, 0)
    for row in tables["nccl_implicit_sync"].records():
        members = barriers[row["collective_id"]]
        latest = max(start for _, start, _ in members.values())
        for rank in said:
            if rank in members:
                _, start, dur = members[rank]
                assert row[f"rank_{rank}_wait_time"] == latest - start
                assert row[f"rank_{rank}_dur"] == dur
                waited[rank] += latest - start
                met[rank] += len(members) > 1
            else:
                assert math.isnan(row.get(f"rank_{rank}_ts", math.nan))
        assert row["comm_latency"] == min(dur for _, _, dur in members.values())
        assert row["avg_wait_time"] == pytest.approx(sum(latest - s for _, s, _ in members.values()) / len(members))
        ends = [start + dur for _, start, dur in members.values()]
        assert row["skew in end time"] == max(ends) - min(ends)
    stragglers = tables["straggler_summary"]
    assert {row["rank"]: row["total_wait_time_us"] for row in stragglers.records()} == {
        rank: waited[rank] for rank in said if met[rank]
    }
    assert {row["rank"]: row["num_collectives"] for row in stragglers.records()} == {
        rank: count for rank, count in met.items() if count
    }
    several = sum(len(members) > 1 for members in barriers.values())
    assert sum(stragglers["times_arrived_last"]) == sum(stragglers["times_arrived_first"]) == several
    assert tables["nccl_summary_implicit_sync"]["count"].sum() == len(barriers)
    assert (
        tables["nccl_summary_long"]["operation_count"].sum() == len(tables["nccl_long"]) == sum(map(len, said.values()))
    )
    for rank, rows in groupby(tables["nccl_long"].records(), key=lambda row: row["rank"]):
        assert len(list(rows)) == len(said[rank])
    sent = sum(row["total_sent_MB"] for row in tables["nccl_all2allv_heatmap"].records())
    assert sent == pytest.approx(sum(tables["nccl_all2allv"]["total data communicated (MB)"]))
