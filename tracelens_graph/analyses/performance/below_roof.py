"""Operations far below the roof: where most could be won."""

from __future__ import annotations

from tracelens_graph.analyses.ops.ops import ARGUMENTS
from tracelens_graph.analyses.performance.reached import reached
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

BELOW_ROOF = TableSchema(
    "below_roof",
    "Which operations are far below the roof: those first where most could be won.",
    {
        "op": Column.key("op that the work is given to", "op"),
        "input_dims": ARGUMENTS["Input Dims"],
        "input_types": ARGUMENTS["Input type"],
        "bound": Column.text("what bounds it at the roof: compute or memory", "bound"),
        "calls": Column.count("calls with these arguments", "calls"),
        "time_ms": Column.total("sum of the durations of their GPU work", "ms", "time ms", compared="main"),
        "percent_of_roof": Column("time at the roof as share of the time", "%", heading="% of roof"),
        "could_be_won_ms": Column.total(
            "the time less that at the roof, which is that of the first call for all", "ms", "could be won ms"
        ),
        "uid": Column.instance("uid of the first call"),
    },
    counts="call",
)


def below_roof(ops: Table) -> Table:
    """Operations by the time that they take beyond that at the roof, the most first.

    Args:
        ops: `unified_perf_summary`, made for a device.

    Returns:
        One row per row of `ops` that has a roof and takes longer. The time at the roof is that of its first call, for
        all its calls: rows of `ops` hold calls with equal arguments.
    """
    found = [(it, row) for row in ops.records() if (it := reached(row)).won_us]
    found.sort(key=lambda pair: -(pair[0].won_us or 0))
    rows = [row for _, row in found]
    columns = {
        "op": [str(row["name"]) for row in rows],
        "input_dims": [row["Input Dims"] for row in rows],
        "input_types": [row["Input type"] for row in rows],
        "bound": [str(row["Roofline Bound"] or "").removesuffix("_BOUND").lower() for row in rows],
        "calls": [row["operation_count"] for row in rows],
        "time_ms": [row["Kernel Time (µs)_sum"] / 1e3 for row in rows],
        "percent_of_roof": [it.percent_of_roof for it, _ in found],
        "could_be_won_ms": [(it.won_us or 0) / 1e3 for it, _ in found],
        "uid": [row["ex_UID"] for row in rows],
    }
    return BELOW_ROOF.table(columns, "Operations below the roof, by what could be won")
