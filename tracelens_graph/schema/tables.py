"""Tables and their columns: names, definitions, units. Reports, DataFrames and the reference pages read them here.

Where a table is known from TraceLens it has the same names and columns. "Busy" is the length of a union of
intervals, so work that overlaps counts once; everything else called time is a sum or a statistic of durations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tracelens_graph.table import Column

About = Mapping[str, Column]

_WORDS = {
    "sum": "sum",
    "mean": "mean",
    "median": "median",
    "std": "standard deviation (one degree of freedom less; none for a single value)",
    "min": "smallest",
    "max": "greatest",
    "count": "number",
}


def statistics(name: str, of: str, unit: str, which: Iterable[str]) -> dict[str, Column]:
    """Columns `name.format(which)` for some statistics of one quantity."""
    return {name.format(w): Column(f"{_WORDS[w]} of {of}", "" if w == "count" else unit) for w in which}


SHARE = {
    "Percentage (%)": Column("share of the sum over all rows of the table", "%"),
    "Cumulative Percentage (%)": Column("share of this row and those above it", "%"),
}

GPU_TIMELINE: About = {
    "type": Column("what the time was spent on"),
    "time ms": Column("length of the union of the intervals concerned", "ms"),
    "percent": Column("share of total_time", "%"),
    "is_recompute": Column("whether the block covers recomputation of activations"),
}

TABLES: Mapping[str, About] = {
    "gpu_timeline": GPU_TIMELINE,
}
"""Name of a table -> its columns. A table may lack those that were not asked for."""
