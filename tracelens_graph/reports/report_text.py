"""A report on the terminal: the verdict, then the tables that say most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from textwrap import wrap

from tracelens_graph.graph.core import Core
from tracelens_graph.reports.document import Facts, Finding
from tracelens_graph.reports.views import is_sheet, top, view
from tracelens_graph.table import Table
from tracelens_graph.text_table import bold
from tracelens_graph.texts import printable

_NEXT = "ask next: "
_TRY = "try: "
_WIDEST = 110
"""Lines of prose are not longer, however wide the terminal."""


def heading(about: Facts) -> str:
    """One line on what was loaded: file, rank, devices, window, GPU events."""
    parts = [Path(about.source).name]
    if about.rank is not None:
        parts.append(f"rank {about.rank}" + (f" of {about.world_size}" if about.world_size else ""))
    for device in dict.fromkeys(about.devices):
        count = about.devices.count(device)
        parts.append(device if count == 1 else f"{count} x {device}")
    parts.append(f"{about.gpu_events:,} GPU events")
    if about.window:
        parts.append(f"only {about.window}")
    return ", ".join(parts)


def verdict_lines(findings: Iterable[Finding], trace: str, width: int | None) -> Iterator[str]:
    """The findings as paragraphs with a bullet, each with the command that tells more below it.

    Args:
        findings: the verdict.
        trace: the trace as the user named it, put for TRACE in commands.
        width: characters of a line; None for no limit.
    """
    for finding in findings:
        text = printable(finding.text)
        yield from wrap(text, min(width or _WIDEST, _WIDEST), initial_indent="* ", subsequent_indent="  ")
        if finding.suggestions:
            suggestions = f"{_TRY}{'; '.join(finding.suggestions)}"
            yield from wrap(suggestions, min(width or _WIDEST, _WIDEST), initial_indent="  ", subsequent_indent="    ")
        if finding.ask_next:
            yield f"  {_NEXT}{printable(finding.ask_next.replace('TRACE', quote(trace)))}"


def report_text(
    core: Core,
    about: Facts,
    findings: Iterable[Finding],
    tables: Mapping[str, Table],
    trace: str,
    rows: int,
    width: int | None,
    color: bool,
) -> str:
    """The whole report as text.

    Args:
        core: the graph, for the places of instances.
        about: what the report is on.
        findings: the verdict.
        tables: name -> table, in the order in which they are shown; those without rows only say why.
        trace: the trace as the user named it.
        rows: rows per table; 0 for all.
        width: characters of a line; None for no limit.
        color: whether to use terminal escapes.
    """
    blocks = [bold(printable(heading(about)), color) + "\n"]
    blocks.append("\n".join(verdict_lines(findings, trace, width)) + "\n")
    silent, families = [], []
    for name, table in tables.items():
        if is_sheet(table):
            families.append(name)
        elif len(table):
            blocks.append(view(top(table, rows), core).text(width, color))
        else:
            silent += [f"{table.title}: {note}" for note in table.notes or ["nothing"]]
    if families:
        blocks.append(f"Cost and rates by family of operations: --table with one of {', '.join(families)}\n")
    if silent:
        blocks.append("\n".join(printable(line) for line in silent) + "\n")
    return "\n".join(blocks)
