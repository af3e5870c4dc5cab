"""The times of a comparison on the terminal: totals, work that runs beside other work, and idle time by cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.noise import Proof
from tracelens_graph.analyses.alignment.spread import STEP
from tracelens_graph.analyses.alignment.times import AROUND, overlaps
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import cut_end, first_lines, printable, width_of, wrapped

INDENT = "  "
_PARTS = (STEP, "total_time", "computation_time", "exposed_comm_time", "exposed_memcpy_time", "idle_time")
_LABEL = 30
_AROUND_MEANING = "before the first and after the last GPU event of the step, not counted above"
_LEAST_OF_TIME = 0.001
"""Share of the longest time below which a part of it is not listed."""
_OVERLAP = "overlap with other work"
_LEAST_OF_STEP = 0.03
"""Share of a step by which it must have changed beyond its GPU work to be listed beside that."""
_CAUSES = 3
_LEAST_OF_IDLE = 0.05
"""Causes of idle time on the screen, and what share of all changes of times each has at least."""
_BETWEEN_CLAUSES = re.compile("(?<=[,;] )")
"""Behind commas, which names of several levels have as well, and semicolons."""
NEARLY_NOTHING = 0.0005
"""Time in ms that shows as nothing: no change is a share of it, ..."""
_MOST_PERCENT = 1000
"""... and none beyond this says more than the two times."""
_LARGEST_OF_IDLE = 0.2
"""Part of that least change from which on the largest cause is shown."""


def total_lines(difference: Diff, totals: Table, width: int) -> Iterator[str]:
    """The totals that matter; below those that changed with it, how much work runs beside other work."""
    by_name = {row["time"]: row for row in totals.records()}
    step = by_name[STEP]
    # A step says more than its GPU work only where it changed by more than that.
    is_more = abs(step["change_ms"]) > abs(by_name["total_time"]["change_ms"]) + _LEAST_OF_STEP * step["a_ms"]
    rows = [by_name[name] for name in _PARTS if name != STEP or is_more]
    beside = {one.total: one for one in overlaps(difference)}
    least = _LEAST_OF_TIME * max((max(row["a_ms"], row["b_ms"]) for row in rows), default=0)
    for row in rows:
        if max(row["a_ms"], row["b_ms"]) > least:
            line = figures(INDENT + row["meaning"], row, width)
            noise = "  noise" if row["proof"] == Proof.noise and row["change_ms"] else ""
            yield line + noise * (width_of(line + noise) <= width)
        if (overlap := beside.get(row["time"])) is not None:
            a, b = (ns / 1e6 for ns in overlap.ns)
            yield figures(2 * INDENT + _OVERLAP, {"a_ms": a, "b_ms": b, "change_ms": b - a}, width)
            yield from (3 * INDENT + line for line in wrapped(overlap.why, max(width - 3 * len(INDENT), 24)))


def pooled_lines(difference: Diff, width: int) -> Iterator[str]:
    """What times of several devices are; nothing of one."""
    a, b = (len(np.unique(w.core.columns.device[w.gpu_rows])) for w in (difference.a, difference.b))
    if max(a, b) < 2:
        return
    gpus = f"{a:,} GPUs" if a == b else f"{a:,} -> {b:,} GPUs"
    text = f"of {gpus}, added up: each is judged by its own work"
    yield from (INDENT + line for line in wrapped(text, max(width - len(INDENT), 24)))


def cause_lines(times: Table, largest: float, width: int, most: int) -> Iterator[str]:
    """Below idle time its causes; then what lies around the GPU work, which is not part of the times.

    Args:
        times: the parts of the time.
        largest: the largest change of a place: a cause with more of a change is explained.
        most: lines of an explanation, 0 for none.
    """
    rows = [row for row in times.records() if row["cause"]]
    least = _LEAST_OF_IDLE * sum(abs(row["change_ms"]) for row in times.records())
    around = [row for row in rows if row["part"] == AROUND]
    yield from _causes([row for row in rows if row["part"] != AROUND], least, largest, width, most)
    whole = {field: sum(row[field] for row in around) for field in ("a_ms", "b_ms", "change_ms")}
    if max((abs(row["change_ms"]) for row in around), default=0.0) <= least:
        return
    yield figures(f"{INDENT}{AROUND} the GPU work", whole, width)
    yield from (2 * INDENT + line for line in wrapped(_AROUND_MEANING, max(width - 2 * len(INDENT), 24)))
    yield from _causes(around, least, largest, width, most)


def _causes(
    rows: Sequence[Mapping[str, Any]], least: float, largest: float, width: int, most: int
) -> Iterator[str]:  # fmt: skip
    """The causes that changed most, and in one line what the others add up to."""
    rows = sorted(rows, key=lambda row: -abs(row["change_ms"]))
    shown = [row for row in rows if abs(row["change_ms"]) > least][:_CAUSES]
    if rows and not shown and abs(rows[0]["change_ms"]) > max(_LARGEST_OF_IDLE * least, NEARLY_NOTHING):
        shown = rows[:1]
    others = rows[len(shown) :]
    if not shown:
        return
    if len(others) == 1:
        shown, others = rows, []
    for row in shown:
        yield figures(2 * INDENT + row["cause"].replace("_", " "), row, width)
        if (
            most
            and abs(row["change_ms"]) > largest
            and (row["part"] == AROUND or row["cause"] != Cause.unknown_not_recorded.name)
        ):
            room = max(width - 3 * len(INDENT), 24)
            yield from (3 * INDENT + line for line in _first_clauses(printable(str(row["why"])), room, most))
    if others:
        rest = {field: sum(row[field] for row in others) for field in ("a_ms", "b_ms", "change_ms")}
        yield figures(f"{2 * INDENT}{len(others)} more causes", rest, width)


def _first_clauses(text: str, width: int, most: int) -> list[str]:
    """As many clauses of an explanation as have room; of a single one what has."""
    clauses = _BETWEEN_CLAUSES.split(text)
    for number in range(len(clauses), 1, -1):
        lines = [*wrapped(text[: sum(map(len, clauses[:number]))].rstrip(",; "), width)]
        if len(lines) <= most:
            return lines
    return first_lines(text, width, most)


def figures(label: str, row: Mapping[str, Any], width: int) -> str:
    """A line with a time on both sides, its change and, where there is room, that in percent."""
    figures = f"{row['a_ms']:>10,.3f} -> {row['b_ms']:>10,.3f} ms {row['change_ms']:>+11,.3f}"
    percent = percent_of(row)
    share = f" {percent:>+8,.1f} %" if percent is not None else ""
    room = width - len(figures) - len(share)
    if room < _LABEL:
        share, room = "", width - len(figures)
    return f"{cut_end(label, min(room, _LABEL)):<{_LABEL if room >= _LABEL else max(room, 0)}}{figures}{share}"


def percent_of(row: Mapping[str, Any]) -> float | None:
    """The change in percent, of more than nearly nothing."""
    percent: float | None = row.get("change_percent")
    is_share = percent is not None and row["a_ms"] >= NEARLY_NOTHING and abs(percent) < _MOST_PERCENT
    return percent if is_share else None
