"""What people are shown of what can be replayed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tracelens_graph.reports.views import told
from tracelens_graph.short_names import short_name
from tracelens_graph.table import Table
from tracelens_graph.texts import printable, wrapped

_WIDEST = 110
_MOST_REASONS = 3
_ASSUMED = re.compile(r"(?:^|; )(\w+): ", re.ASCII)
"""Names of arguments in what is said of those that are assumed."""
_SMALL = 0.05
"""Percent below which a share is not worth a word."""


def shown(table: Table) -> Table:
    """A table of what can be replayed as people see it: short names of kernels, whether there is a plan and why not."""
    columns = {**table.columns, "plan": [_in_short(row) for row in table.records()]}
    if "kernel" in columns:
        columns["kernel"] = [short_name(name) for name in table["kernel"]]
    return told(replace(table, columns=columns))


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
    yield "Left:"
    for (why, remedy), percent in greatest[:_MOST_REASONS]:
        if percent >= _SMALL:
            helps = f"; what helps: {remedy}" if remedy else ""
            yield from wrapped(printable(f"  {percent:5.1f} %  {why}{helps}"), narrow, " " * 11)
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
    for (said, why), names in reasons.items():
        yield from wrapped(printable(f"{said}: {', '.join(dict.fromkeys(names))}: {why}"), min(width, _WIDEST), "  ")
