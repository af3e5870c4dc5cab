"""What people are shown of what can be replayed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tracelens_graph.reports.views import told
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import cut_end, printable, told_name, wrapped

_WIDEST = 110
_MOST_REASONS = 3
_MOST_FILES = 3
_MOST_LINES = 10
"""Reasons that are told, each on a line of its own."""
_MOST_NAMES = 12
_LONGEST = 300
"""Characters of a reason."""
_ASSUMED = re.compile(r"(?:^|; )(\w+): ", re.ASCII)
"""Names of arguments in what is said of those that are assumed."""
_BY_ROOF = ("could_be_won_us", "percent_of_roof")
"""Columns that are shown only where operations are ordered by the first."""
_LESS_BY_ROOF = ("calls", "percent")
"""Columns that make room for these."""
_SMALL = 0.05
"""Percent below which a share is not worth a word."""


def shown(table: Table) -> Table:
    """A table of what can be replayed as people see it: short names of kernels, whether there is a plan and why not."""
    columns = {**table.columns, "plan": [_in_short(row) for row in table.records()]}
    about = dict(table.about)
    if "kernel" in columns:
        columns["kernel"] = [short_name(name) for name in table["kernel"]]
    if not any(table["input_dims"] if "input_dims" in columns else [True]):
        del columns["input_dims"]
    if _BY_ROOF[0] in columns:
        if np.isnan(np.asarray(table[_BY_ROOF[0]], float)).all():
            columns = {name: cells for name, cells in columns.items() if name not in _BY_ROOF}
        else:
            about |= {name: replace(about[name], drop_priority=1) for name in _LESS_BY_ROOF}
    return told(replace(table, columns=columns, about=about))


def _in_short(row: dict[str, Any]) -> str:
    """Whether there is a plan; why not, unless the name says it, or the names of what is assumed."""
    if row["plan"] == "assumed" and row["why"]:
        return f"assumed: {', '.join(_ASSUMED.findall(row['why']))}"
    stands_for_itself = row["op"].startswith("(")
    return f"{row['plan']}: {row['why']}" if row["why"] and not stands_for_itself else row["plan"]


def coverage_lines(covered: Table, width: int) -> Iterator[str]:
    """How much of the GPU time can be replayed, and of the rest the greatest parts with what would help.

    Args:
        covered: the table `replay_coverage`.
        width: characters of a line.
    """
    rows = covered.records()
    if not rows:
        return
    share = {state: sum(row["percent"] for row in rows if row["plan"] == state) for state in ("yes", "assumed", "no")}
    text = f"Can be replayed: {share['yes'] + share['assumed']:.1f} % of the GPU time"
    if share["assumed"] >= _SMALL:
        text += f", {share['assumed']:.1f} % with arguments that are assumed"
    narrow = min(width, _WIDEST)
    yield from wrapped(f"{text}.", narrow, "  ")
    if share["no"] < _SMALL:
        return
    parts: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["plan"] == "no":
            key = (row["why"], row["remedy"])
            parts[key] = parts.get(key, 0.0) + row["percent"]
    greatest = sorted(parts.items(), key=lambda part: -part[1])
    yield "Not replayable:"
    for (why, remedy), percent in greatest[:_MOST_REASONS]:
        if percent >= _SMALL:
            helps = f"; what helps: {remedy}" if remedy else ""
            yield from wrapped(printable(f"  {percent:5.1f} %  {cut_end(why + helps, _LONGEST)}"), narrow, " " * 11)
    rest = sum(percent for _, percent in greatest[_MOST_REASONS:])
    if rest >= _SMALL:
        yield f"  {rest:5.1f} %  other reasons"


def left_out_lines(table: Table, width: int) -> Iterator[str]:
    """Which operations of the table `replay_signatures` have no program, or one that lacks something, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in table.records():
        if row["plan"] == "no":
            said = "to be filled in" if row["file"] else "left out"
            reasons.setdefault((said, row["why"]), []).append(row["op"])
    for (said, why), names in list(reasons.items())[:_MOST_LINES]:
        counts = Counter(names)
        told = ", ".join(
            f"{told_name(name)} ({count:,} argument sets)" if count > 1 else told_name(name)
            for name, count in counts.most_common(_MOST_NAMES)
        )
        told += f" and {len(counts) - _MOST_NAMES:,} more" if len(counts) > _MOST_NAMES else ""
        yield from wrapped(printable(f"{said}: {told}: {cut_end(why, _LONGEST)}"), min(width, _WIDEST), "  ")
    if len(reasons) > _MOST_LINES:
        yield f"left out: for {len(reasons) - _MOST_LINES:,} other reasons"


def verify_lines(table: Table, width: int) -> Iterator[str]:
    """Why programs failed, or are not as in the trace, each reason once with the first programs.

    Args:
        table: the table `replay_verify`.
        width: characters of a line.
    """
    reasons: dict[str, list[str]] = {}
    for row in table.records():
        if row["why"] and row["outcome"] != "no torch":  # which a note says
            reasons.setdefault(row["why"], []).append(row["file"])
    for why, files in reasons.items():
        more = f" and {len(files) - _MOST_FILES:,} more" if len(files) > _MOST_FILES else ""
        text = f"{', '.join(files[:_MOST_FILES])}{more}: {cut_end(why, _LONGEST)}"
        yield from wrapped(printable(text), min(width, _WIDEST), "  ")
