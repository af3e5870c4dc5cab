"""What the columns of several tables have in common."""

from __future__ import annotations

from tracelens_graph.tables.column import Column, Role

SHARE = {
    "Percentage (%)": Column.share("share of the sum over all rows of the table", "% of GPU time", "percent"),
    "Cumulative Percentage (%)": Column("share of this row and those above it", "%", heading="sum of these %"),
}

PARENT_MODULE = Column(
    "innermost nn.Module around the op, without the number of the instance", role=Role.key, heading="module"
)
IS_RECOMPUTE = Column(
    "whether the calls belong to recomputation of activations", role=Role.key, heading="recompute", cells="flag"
)
CALL_STACK_FIRST = Column.text("names of the modules around the first call, the outermost first", "modules")

GPU_EVENTS = Column.count("number of GPU events")
GPU_TIME = Column.total("sum of the durations of the GPU events", "us")
MEAN_TIME = Column("mean of the durations of the GPU events", "us", Role.mean)
PERCENT = Column.share("share of the GPU time, the sum of the durations of all GPU events")

GPU_SUM = Column.total("sum of their durations", "us")
GPU_BUSY = Column("length of the union of these GPU events", "us")
