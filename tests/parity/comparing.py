"""Hold a table of ours against the same table of TraceLens, cell by cell.

Counts, keys and text have to be equal. Times may differ by what TraceLens loses by adding up absolute timestamps
in float64: 0.001 us per interval, hence n times that in a sum over n intervals. Rows may stand in another order only
where what they are sorted by differs by less than that.
"""

from __future__ import annotations

import ast
import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, UNLINKED
from tracelens_graph.perf.registry import sheets
from tracelens_graph.tables.table import Table

Row = Mapping[str, Any]

PER_INTERVAL_US = 0.001
EXACT = 1e-6
"""For durations as the trace has them, and sums of those: no timestamps are involved, only float64 itself."""

CUMULATIVE = "Cumulative Percentage (%)"
ROW, ORDER = "(row)", "(order)"
"""Names for what is no cell: that a row is in both tables, and that the rows are in one order."""

_ARGUMENTS = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
SHEETS = sheets()
DETAILS = ("kernel_details_summary", "kernel_details__summarize_kernel_stats")


@dataclass(frozen=True)
class Layout:
    """How rows of a table are told apart, and the column that they are sorted by, the greatest first."""

    keys: tuple[str, ...]
    by: str = ""


LAYOUTS = {
    "gpu_timeline": Layout(("type", "is_recompute", "gpu_pid")),
    "ops_summary_by_category": Layout(("op category", "parent_module", "is_recompute"), "total_direct_kernel_time_ms"),
    "ops_summary": Layout(("name", "parent_module", "is_recompute"), "total_direct_kernel_time_sum"),
    "ops_unique_args": Layout(
        (
            *("name", "op category", "parent_module", "num_kernels", "process_name", "process_label", "thread_name"),
            *(*_ARGUMENTS, "is_recompute"),
        ),
        "total_direct_kernel_time_sum",
    ),
    "kernel_summary": Layout(
        ("Parent op category", "Parent cpu_op", "Kernel name", "Kernel stream"), "Kernel duration (µs)_sum"
    ),
    "short_kernel_histogram": Layout(("bin_start",)),
    "short_kernels_summary": Layout(
        ("Parent cpu_op", "Input dims", "Input strides", "Concrete Inputs", "Kernel name"),
        "Short Kernel duration (µs) sum",
    ),
    **dict.fromkeys(
        ("coll_analysis", "nccl_summary_long"),
        Layout(
            (
                *("rank", "Process Group Name", "Process Group Ranks", "Collective name", "Group size", "dtype"),
                *("In msg nelems", "Out msg nelems", "In split size", "Out split size", "stream"),
            ),
            "dur_sum",
        ),
    ),
    "nccl_summary_implicit_sync": Layout(("Collective name", "dtype", "In msg nelems")),
    "nccl_summary_all2allv": Layout(("Process Group Name", "dtype")),
    "nccl_all2allv_heatmap": Layout(("src_rank", "dst_rank")),
    "nccl_long": Layout(("collective_id", "rank")),
    "nccl_implicit_sync": Layout(("collective_id",)),
    "nccl_all2allv": Layout(("collective_id",)),
    "straggler_summary": Layout(("rank",)),
    "unified_perf_summary": Layout(
        ("name", "op category", "process_name", "process_label", "thread_name", *_ARGUMENTS, "is_recompute"),
        "Kernel Time (µs)_sum",
    ),
    "diff_stats": Layout(("name", "cpu_op_uid", "source", "lowest_common_ancestor_id")),
    # Of JAX profiles, where a kernel is its own launcher.
    "gpu_events_averages": Layout(("type",)),
    **dict.fromkeys(("kernel_launchers", "df_xla_perf"), Layout(("UID",))),
    **dict.fromkeys(("kernel_launchers_summary", "xla_summary"), Layout(("name",), "total_direct_kernel_time_sum")),
    "kernel_launchers_summary_by_category": Layout(("op category",), "total_direct_kernel_time_ms"),
    "kernel_launchers_unique_args": Layout(
        ("name", "op category", "Input Dims", "Input type"), "total_direct_kernel_time_sum"
    ),
    "op_conv": Layout(("name",), "Kernel Time (µs)_sum"),
    # Rows differ in the sizes (`param: ...`) that a model reads from the arguments; where it reads others than
    # TraceLens, the arguments still say which rows belong together.
    **dict.fromkeys(
        SHEETS,
        Layout(
            ("name", *(f"{column}_first" for column in _ARGUMENTS), "num_kernels", "is_recompute"),
            "Kernel Time (µs)_sum",
        ),
    ),
}
"""Table -> how it is compared."""

Tolerance = Callable[[str, Row], float]
"""By how much a number in a column of a row may differ; the row is TraceLens's."""


@dataclass(frozen=True)
class Difference:
    """A cell that differs.

    Attributes:
        column: name of the column, or `ROW` or `ORDER`.
        pair: position in `Comparison.pairs`; -1 for `ORDER`.
        said: what differs, for people.
    """

    column: str
    pair: int
    said: str


@dataclass
class Comparison:
    """The result for one table.

    Attributes:
        table: name of the table.
        columns: columns that TraceLens's table has.
        pairs: its row and ours with the same key; either is empty where the other side has none.
        differences: the cells that differ.
    """

    table: str
    columns: Sequence[str]
    pairs: list[tuple[Row, Row]] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def cells(self) -> int:
        """Cells of TraceLens's table."""
        return len(self.columns) * sum(1 for theirs, _ in self.pairs if theirs)


# --- reading -----------------------------------------------------------------------------------------------------


def read_reference(path: Path) -> list[dict[str, str]]:
    """Rows of a table that TraceLens wrote, as text."""
    csv.field_size_limit(10**9)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def parsed(text: str) -> Any:
    """A list cell in Python's spelling: literals, `nan`, and numbers as numpy prints them, `np.float64(1.5)`.

    Raises:
        ValueError: it is something else.
    """
    return _value(ast.parse(text.strip(), mode="eval").body)


def _value(node: ast.expr | None) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.Name(id="nan"):
            return math.nan
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np")), args=[argument], keywords=[]):
            return _value(argument)
    raise ValueError(f"no plain value: {ast.dump(node)[:80] if node else node}")


def understood(text: str, like: Any) -> Any:
    """TraceLens's cell as a value of the kind that ours is."""
    if text in ("", "None"):  # Versions of TraceLens differ in which they write for a size that is not known.
        return None
    if isinstance(like, bool):
        return {"True": True, "False": False}.get(text, text)
    if isinstance(like, list | tuple | dict):
        return parsed(text)
    if isinstance(like, int | float):
        try:
            return float(text)
        except ValueError:
            return text
    return text


# --- comparing ---------------------------------------------------------------------------------------------------


def equal(ours: Any, theirs: Any, tolerance: float = 0.0) -> bool:
    """Whether two values are equal; numbers within the tolerance, lists and dictionaries element by element."""
    if _absent(ours) or _absent(theirs):
        return _absent(ours) and _absent(theirs)
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return math.isclose(ours, theirs, rel_tol=1e-12, abs_tol=tolerance)
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(equal(a, b, tolerance) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(equal(ours[key], theirs[key], tolerance) for key in ours)
    return bool(ours == theirs)


def _absent(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def compare(name: str, reference: Sequence[Mapping[str, str]], table: Table, tolerance: Tolerance) -> Comparison:
    """Match the rows of both tables by their keys and compare all cells that TraceLens's has.

    Args:
        name: the table.
        reference: TraceLens's rows.
        table: ours; columns that TraceLens has not are not looked at.
        tolerance: by how much numbers may differ.
    """
    layout = LAYOUTS[name]
    columns = list(reference[0]) if reference else list(table.columns)
    keys = [key for key in layout.keys if key in columns]
    found = Comparison(name, columns)
    records = table.records()
    like = {key: next((r[key] for r in records if r.get(key) is not None), None) for key in keys}
    waiting: dict[str, list[int]] = {}
    for place, record in enumerate(records):
        waiting.setdefault(_key([record.get(key) for key in keys]), []).append(place)
    matched = []
    for position, theirs in enumerate(reference):
        places = waiting.get(_key([understood(theirs[key], like.get(key)) for key in keys]))
        if not places:
            found.pairs.append((theirs, {}))
            found.differences.append(Difference(ROW, len(found.pairs) - 1, "we have no such row"))
            continue
        ours = records[places[0]]
        if len(records) == len(reference) and CUMULATIVE in ours:
            # Rows that may change places have equal shares, but not equal sums of the shares above them.
            ours = {**ours, CUMULATIVE: records[position][CUMULATIVE]}
        found.pairs.append((theirs, ours))
        found.differences += _compared(columns, len(found.pairs) - 1, theirs, ours, tolerance)
        matched.append((places.pop(0), theirs))
    for place in sorted(place for left in waiting.values() for place in left):
        found.pairs.append(({}, records[place]))
        found.differences.append(Difference(ROW, len(found.pairs) - 1, "TraceLens has no such row"))
    if not _in_order(layout.by, matched, tolerance):
        found.differences.append(Difference(ORDER, -1, "rows stand in another order"))
    return found


def _compared(
    columns: Sequence[str], pair: int, theirs: Mapping[str, str], ours: Row, tolerance: Tolerance
) -> Iterator[Difference]:
    read: Row = {column: understood(theirs[column], ours[column]) for column in columns if column in ours}
    ours, read = _same_order_of_ties(ours), _same_order_of_ties(read)
    for column in columns:
        if column not in ours:
            yield Difference(column, pair, "we have no such column")
        elif not equal(ours[column], read[column], tolerance(column, theirs)):
            yield Difference(column, pair, f"{theirs[column][:200]!r}, ours {str(ours[column])[:200]!r}")


def _same_order_of_ties(row: Row) -> Row:
    """The row with kernels that took equally long in a fixed order, if they are sorted by time as they should be."""
    listed = next((column for column in DETAILS if row.get(column)), "")
    kernels = row.get(listed) or []
    time = [kernel["total_duration_us"] for kernel in kernels]
    if any(a > b + EXACT for a, b in pairwise(time)):
        return row
    values = ("median_duration_us", "min_duration_us", "max_duration_us")
    order = sorted(
        range(len(kernels)),
        key=lambda i: (round(time[i], 6), kernels[i]["name"], *(round(kernels[i][value], 6) for value in values)),
    )
    lists = (listed, "trunc_kernel_details")
    return {
        **row,
        **{column: [row[column][i] for i in order] for column in lists if len(row.get(column) or ()) == len(order)},
    }


def _key(values: Sequence[Any]) -> str:
    """A text that is equal for equal keys. Rows of GPU events without a launch have no op, in whatever words."""
    return repr([_plain(None if value in (NO_LAUNCH, UNLINKED) else value) for value in values])


def _plain(value: Any) -> Any:
    if _absent(value):
        return None
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return round(float(value), 9) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _in_order(by: str, matched: Sequence[tuple[int, Mapping[str, str]]], tolerance: Tolerance) -> bool:
    """Whether our order is right by TraceLens's numbers: places of our rows, and its rows in its order."""
    ordered = sorted(matched, key=lambda pair: pair[0])
    if not by:
        return ordered == list(matched)
    least = math.inf
    for _, row in ordered:
        value, slack = float(row[by]), tolerance(by, row)
        if value - slack > least + slack:
            return False
        least = min(least, value)
    return True
