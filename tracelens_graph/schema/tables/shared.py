"""What the columns of several tables have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tracelens_graph.tables.column import Cells, Column, Compared, Role

_STATISTICS: Mapping[str, tuple[str, Role]] = {
    "sum": ("sum", Role.sum),
    "mean": ("mean", Role.mean),
    "median": ("median", Role.spread),
    "std": ("standard deviation (one degree of freedom less; none for a single value)", Role.spread),
    "min": ("smallest", Role.min),
    "max": ("greatest", Role.max),
    "count": ("number", Role.count),
}

FIVE = ("mean", "median", "std", "min", "max")


def statistics(name: str, of: str, unit: str, which: Iterable[str]) -> dict[str, Column]:
    """Columns `name.format(which)` for some statistics of one quantity."""
    return {
        name.format(w): Column(f"{_STATISTICS[w][0]} of {of}", "" if w == "count" else unit, _STATISTICS[w][1])
        for w in which
    }


def shown(columns: Mapping[str, Column], **headings: str) -> dict[str, Column]:
    """The columns, some of them with a heading for people; names are given with `_` for all that is no letter or digit.

    `shown(statistics("dur_{}", ...), dur_sum="sum us")`.
    """
    plain = {"".join(c if c.isalnum() and c.isascii() else "_" for c in name): name for name in columns}
    told = {plain[name]: heading for name, heading in headings.items()}
    return {name: replace(one, heading=told[name]) if name in told else one for name, one in columns.items()}


def key(definition: str, heading: str | None = None, cells: Cells | None = None) -> Column:
    """A column that tells rows apart."""
    return Column(definition, role=Role.key, heading=heading, cells=cells)


def text(definition: str, heading: str | None = None, compared: Compared = "") -> Column:
    """A column of names."""
    return Column(definition, role=Role.text, heading=heading, compared=compared)


def count(definition: str, heading: str | None = None, figure: str = "") -> Column:
    """A column that counts."""
    return Column(definition, role=Role.count, heading=heading, figure=figure)


def total(definition: str, unit: str, heading: str | None = None, compared: Compared = "", figure: str = "") -> Column:
    """A column of a quantity that adds up."""
    return Column(definition, unit, Role.sum, heading, compared, figure)


def share(definition: str, heading: str | None = None, figure: str = "") -> Column:
    """A column of percentages of one whole."""
    return Column(definition, "%", Role.share, heading, figure=figure)


def moment(definition: str, unit: str) -> Column:
    """A column of moments, counted from the zero of Perfetto UI; see `TraceInfo.lead_ns`."""
    return Column(definition, unit, Role.time)


def uid(definition: str) -> Column:
    """A column of nodes."""
    return Column(definition, role=Role.uid)


def instance(definition: str) -> Column:
    """A column of nodes that stand for their rows."""
    return Column(definition, role=Role.instance)


def listed(definition: str, heading: str | None = None) -> Column:
    """A column of lists."""
    return Column(definition, heading=heading, cells="list")


SHARE = {
    "Percentage (%)": share("share of the sum over all rows of the table", "% of GPU time", "percent"),
    "Cumulative Percentage (%)": Column("share of this row and those above it", "%", heading="sum of these %"),
}

PARENT_MODULE = Column(
    "innermost nn.Module around the op, without the number of the instance", role=Role.key, heading="module"
)
IS_RECOMPUTE = Column(
    "whether the calls belong to recomputation of activations", role=Role.key, heading="recompute", cells="flag"
)
CALL_STACK_FIRST = text("names of the modules around the first call, the outermost first", "modules")

GPU_EVENTS = count("number of GPU events")
GPU_TIME = total("sum of the durations of the GPU events", "us")
MEAN_TIME = Column("mean of the durations of the GPU events", "us", Role.mean)
PERCENT = share("share of the GPU time, the sum of the durations of all GPU events")

GPU_SUM = total("sum of their durations", "us")
GPU_BUSY = Column("length of the union of these GPU events", "us")
