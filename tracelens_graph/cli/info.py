"""`tracelens-graph info`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.common import load
from tracelens_graph.cli.options import CacheOption, Trace

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

_LONGEST = 300
"""Columns of a fact; names in a file can be of any length, and the JSON output has them whole."""


class InfoFormat(StrEnum):
    """How the inventory is written."""

    text = "text"
    json = "json"


def info(
    trace: Trace,
    format: Annotated[InfoFormat, typer.Option("--format", "-f", help="text for people, json for programs.")] = (
        InfoFormat.text
    ),
    cache: CacheOption = False,
) -> None:
    """Show what a trace holds, what is odd about it, and what was not recorded.

    The first command to run on a trace: it says which questions the trace can answer, and which recording option
    would answer more.

    Example: tracelens-graph info trace.json.gz
    """
    core = load(trace, cache, needs_times=False)
    from tracelens_graph.analyses.report.inventory import inventory

    tables = inventory(core)
    if format is InfoFormat.json:
        from tracelens_graph.reports.json import table_object

        objects = {name: table_object(table)["rows"] for name, table in tables.items()}
        objects["trace"] = {row["what"]: row["value"] for row in objects["trace"]}
        sys.stdout.write(json.dumps(objects, indent=2) + "\n")
        return
    for block in _blocks(tables):
        sys.stdout.write(block)


def _blocks(tables: Mapping[str, Table]) -> Iterator[str]:
    """The inventory for people; tables that have nothing to say stay out."""
    from tracelens_graph.reports.terminal import terminal_width, wants_color
    from tracelens_graph.tables.terminal import bold
    from tracelens_graph.utils.texts import cut_middle, printable, wrapped

    width, color = terminal_width(sys.stdout), wants_color(sys.stdout)
    facts = {row["what"]: row for row in tables["trace"].records()}

    def paragraph(text: str, indent: str = "") -> str:
        return "".join(f"{line}\n" for line in wrapped(printable(text), width, indent))

    yield from (bold(line, color) + "\n" for line in wrapped(printable(str(facts.pop("source")["value"])), width))
    known = {what: row for what, row in facts.items() if row["value"] is not None}
    widest = max(map(len, known))
    for what, row in known.items():
        value = row["value"]
        text = f"{value:,.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
        text = cut_middle(text, _LONGEST)
        yield paragraph(f"  {what:{widest}}  {text} {row['unit']}".rstrip(), " " * (widest + 4))
    for name in ("software", "devices", "nodes", "left_out", "programs", "launches", "faults"):
        if name in tables and len(tables[name]) and (name != "launches" or any(tables[name]["gpu_events"])):
            yield "\n" + tables[name].text(width, color)
    lacking = [row for row in tables["recording"].records() if row["missing"]]
    for title, recorded in (("Not recorded", False), ("Not in what is left of the file", None)):
        rows = [row for row in lacking if row["recorded"] is recorded]
        if rows:
            yield "\n" + bold(title, color) + "\n"
        for row in rows:
            amount = f" ({row['missing']})" if row["missing"] != "none" else ""
            how = f". Record with: {row['how']}" if recorded is False else ""
            yield paragraph(f"  {row['what']}{amount}: {row['poorer']}{how}", "    ")
