"""TraceLens's tables of the collectives of all ranks. 1 MB is 2^20 bytes in them, and 1 GB 1,024 of these.

Columns `rank_i_...` are there once for each rank, with its number in place of `i`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tracelens_graph.analyses.timeline.collectives import COLL_ANALYSIS
from tracelens_graph.tables.column import About, Column, Role, shown, statistics
from tracelens_graph.tables.schema import TableSchema

STATISTICS = ("mean", "median", "std", "min", "max", "sum")
"""Statistics that summaries can have."""

_SHARED: About = {
    name: replace(COLL_ANALYSIS[name], role=role)
    for name, role in (
        ("Process Group Name", Role.key),
        ("Process Group Ranks", Role.value),
        ("Collective name", Role.key),
        ("Group size", Role.value),
        ("dtype", Role.key),
    )
}

_ID = Column.key("process group and number of the collective in it, equal on all ranks; absent where no group is known")

_NODE_ID = Column("node that the rank runs on, counted from 0; absent where it is not known")

_NODE_SPAN = Column.text("whether the ranks of the process group are on one node: intra_node, inter_node or unknown")

_STREAM = Column("stream on the device", heading="stream")

_SIZES: About = {
    "In msg nelems": Column("elements this rank puts in"),
    "In msg size (MB)": Column("elements put in times their size", "MB"),
    "Out msg nelems": Column("elements this rank gets out"),
    "Out msg size (MB)": Column("elements got out times their size", "MB"),
    "In split size": Column("rows to each rank of the group, of an uneven all-to-all", cells="list"),
    "Out split size": Column("rows from each rank of the group, of an uneven all-to-all", cells="list"),
}

OF_RANK = (
    "In msg nelems", "Out msg nelems", "In msg size (MB)", "Out msg size (MB)", "In split size", "Out split size",
)  # fmt: skip
"""Sizes of each rank in `nccl_all2allv`, in TraceLens's order."""

_TS = Column.moment("start of the kernel, as the file of the first rank counts time", "us")

_SKEW_START = Column("latest start less earliest start", "us", heading="start skew us")

_SKEW_END = Column("latest end less earliest end", "us", heading="end skew us")

NCCL_LONG = TableSchema(
    "nccl_long",
    "TraceLens: each kernel of a collective.",
    {
        "collective_id": _ID,
        "index_in_group": Column("its number in the process group, from 0 on"),
        "rank": Column.key("rank in the job", "rank", "number"),
        **_SHARED,
        **_SIZES,
        "stream": _STREAM,
        "ts": _TS,
        "dur": Column("duration of the kernel, waiting for other ranks included", "us", heading="dur us"),
        "node_id": _NODE_ID,
        "node_span": _NODE_SPAN,
    },
    ordered=True,
)

NCCL_IMPLICIT_SYNC = TableSchema(
    "nccl_implicit_sync",
    "TraceLens: each collective with an implicit barrier, who waited and how fast it was.",
    {
        "collective_id": _ID,
        **_SHARED,
        **{name: _SIZES[name] for name in OF_RANK[:4]},
        "Full msg size (MB)": Column("size of the whole message: got out of an all-gather, else put in", "MB"),
        "comm_latency": Column(
            "smallest duration over the ranks: that of the last to come, who waits for nobody",
            "us",
            heading="latency us",
        ),
        "skew in start time": _SKEW_START,
        "earliest arrival rank": Column("rank that started first; of several the lowest"),
        "avg_wait_time": Column("mean over the ranks of the time from their start to the latest start", "us"),
        "skew in end time": _SKEW_END,
        "algo bw (GB/s)": Column("full size by latency, in units of 2^30 bytes", "GiB/s", heading="algo GiB/s"),
        "bus bw (GB/s)": Column(
            "that times 2(n-1)/n for an all-reduce of n ranks, (n-1)/n for the others", "GiB/s", heading="bus GiB/s"
        ),
        "rank_i_ts": _TS,
        "rank_i_dur": Column("duration of the kernel of the rank", "us"),
        "rank_i_wait_time": Column("time from the start of the rank to the latest start", "us"),
        "node_span": _NODE_SPAN,
    },
    ordered=True,
)

_IMPLICIT_SYNC_FIGURES = {
    "comm_latency": ("the latencies", "us"),
    "skew in start time": ("the skews in start", "us"),
    "skew in end time": ("the skews in end", "us"),
    "algo bw (GB/s)": ("the algorithm bandwidths, in units of 2^30 bytes", "GiB/s"),
    "bus bw (GB/s)": ("the bus bandwidths, in units of 2^30 bytes", "GiB/s"),
}

_ALL2ALLV_FIGURES = {
    "total data communicated (MB)": ("the data that all ranks put in", "MB"),
    "wall_time (us)": ("the times from the first start to the last end", "us"),
    "throughput (GB/s)": ("the throughputs, in units of 2^30 bytes", "GiB/s"),
    "size_imbalance": ("the imbalances of sizes", ""),
    "max_rank_dur (us)": ("the greatest durations", "us"),
    "skew in start time": ("the skews in start", "us"),
    "skew in end time": ("the skews in end", "us"),
}


def _summaries(figures: Iterable[tuple[str, tuple[str, str]]]) -> dict[str, Column]:
    return {
        name: column
        for figure, (of, unit) in figures
        for name, column in statistics(figure + "_{}", of, unit, STATISTICS).items()
    }


NCCL_SUMMARY_IMPLICIT_SYNC = TableSchema(
    "nccl_summary_implicit_sync",
    "TraceLens: collectives with an implicit barrier by kind, type and size.",
    {
        "Collective name": Column.key("operation", "collective"),
        "dtype": Column.key("type of the elements", "type"),
        "In msg nelems": Column.key("elements a rank puts in", cells="number"),
        "Process Group Name": Column.text("process group of the first of them; others may be among them", "group"),
        "Group size": Column("number of ranks in that group", heading="ranks"),
        "Full msg size (MB)": Column("size of the whole message of the first of them", "MB", heading="MB"),
        **shown(
            _summaries(_IMPLICIT_SYNC_FIGURES.items()),
            comm_latency_mean="mean latency us",
            skew_in_start_time_mean="mean start skew us",
            bus_bw__GB_s__mean="mean bus GiB/s",
        ),
        "count": Column.count("collectives", "count"),
        "Total comm latency (ms)": Column.total("sum of the latencies", "ms", "total latency ms", compared="main"),
    },
    counts="collective",
)

NCCL_SUMMARY_LONG = TableSchema(
    "nccl_summary_long",
    "TraceLens: kernels by rank and arguments.",
    {
        "rank": Column.key("rank in the job", "rank", "number"),
        **{name: column for name, column in COLL_ANALYSIS.items() if name != "rank"},
        "node_id": _NODE_ID,
        "node_span": _NODE_SPAN,
    },
    counts="kernel",
)

NCCL_ALL2ALLV = TableSchema(
    "nccl_all2allv",
    "TraceLens: each uneven all-to-all.",
    {
        "collective_id": _ID,
        **_SHARED,
        "stream": Column("stream on the device of the lowest rank", heading="stream"),
        "total data communicated (MB)": Column("sum over the ranks of what they put in", "MB", heading="MB"),
        "total nelems communicated": Column("the same in elements"),
        "wall_time (us)": Column("latest end less earliest start", "us", heading="wall us"),
        "max_rank_dur (us)": Column("greatest duration over the ranks", "us"),
        "min_rank_dur (us)": Column("smallest duration over the ranks", "us"),
        "avg_rank_dur (us)": Column("mean duration over the ranks", "us"),
        "throughput (GB/s)": Column("total data by wall time, in units of 2^30 bytes", "GiB/s", heading="GiB/s"),
        "max_rank_throughput (GB/s)": Column(
            "greatest over the ranks of what one puts in by its duration, in units of 2^30 bytes", "GiB/s"
        ),
        "min_rank_throughput (GB/s)": Column("the smallest of these", "GiB/s"),
        "size_imbalance": Column("most that a rank puts in, by the mean over the ranks", heading="imbalance"),
        "skew in start time": _SKEW_START,
        "skew in end time": _SKEW_END,
        "rank_i_ts": _TS,
        "rank_i_dur": Column("duration of the kernel of the rank", "us"),
        **{f"rank_i_{name}": _SIZES[name] for name in OF_RANK},
        "rank_i_skew in start time": Column("start of the rank less earliest start", "us"),
        "rank_i_skew in end time": Column("latest end less end of the rank", "us"),
        "node_span": _NODE_SPAN,
    },
    ordered=True,
)

NCCL_SUMMARY_ALL2ALLV = TableSchema(
    "nccl_summary_all2allv",
    "TraceLens: uneven all-to-alls by process group and type.",
    {
        "Process Group Name": Column.key("name of the process group", "group"),
        "dtype": Column.key("type of the elements", "type"),
        **shown(
            {
                **_summaries(list(_ALL2ALLV_FIGURES.items())[:2]),
                "Total wall_time (us)": Column.total("sum of the times from first start to last end", "us"),
                **_summaries(list(_ALL2ALLV_FIGURES.items())[2:]),
            },
            total_data_communicated__MB__mean="mean MB",
            wall_time__us__mean="mean wall us",
            throughput__GB_s__mean="mean GiB/s",
            size_imbalance_max="worst imbalance",
        ),
        "count": Column.count("collectives", "count"),
        "Process Group Ranks": Column("ranks in the process group of the first of them", cells="list"),
        "Collective name": Column.text("operation", "collective"),
        "Group size": Column("number of ranks in that process group", heading="ranks"),
        "Total wall_time (ms)": Column.total(
            "sum of the times from first start to last end", "ms", "total ms", compared="main"
        ),
        "node_span": _NODE_SPAN,
    },
    counts="collective",
)

NCCL_ALL2ALLV_HEATMAP = TableSchema(
    "nccl_all2allv_heatmap",
    "TraceLens: what each rank sends to each other one in uneven all-to-alls.",
    {
        "src_rank": Column.key("rank in the job that sends", "from rank", "number"),
        "dst_rank": Column.key("rank in the job that receives", "to rank", "number"),
        "total_sent_MB": Column.total("sum of what it sends there", "MB", "MB", compared="main"),
        "avg_sent_MB": Column("mean of what it sends there", "MB", Role.mean, heading="mean MB"),
        "count": Column.count("collectives", "count"),
    },
    counts="collective",
)

STRAGGLER_SUMMARY = TableSchema(
    "straggler_summary",
    "TraceLens: which ranks the others wait for, the worst first.",
    {
        "rank": Column.key("rank in the job", "rank", "number"),
        "total_wait_time_us": Column.total(
            "sum of its waits for the last to come; a rank that comes late has the least", "us", "wait us"
        ),
        "mean_wait_time_us": Column("mean of these", "us", heading="mean wait us"),
        "times_arrived_last": Column.count("collectives that it came to last; of several the lowest rank", "last"),
        "times_arrived_first": Column("collectives that it came to first; of several the lowest rank", heading="first"),
        "pct_arrived_last": Column("share of its collectives that it came to last", "%", heading="last %"),
        "num_collectives": Column("collectives with an implicit barrier that it took part in", heading="of"),
        "total_nccl_dur_us": Column(
            "sum of the durations of all its collective kernels, of those without a barrier, too",
            "us",
            heading="kernels us",
        ),
        "node_id": _NODE_ID,
    },
    counts="collective",
)
