"""The work of `tracelens-graph link`: what it prints and writes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracelens_graph.cli import gate
from tracelens_graph.cli.common import (
    ASCII_BRANCHES,
    has_branches,
    load,
    warn_of_unread_tensors,
    write_table,
    write_tables,
)
from tracelens_graph.cli.options import Format
from tracelens_graph.cli.outputs import say_written
from tracelens_graph.cli.traces import say
from tracelens_graph.output.files import replacing

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.linkage.validation import Validation
    from tracelens_graph.tables.table import Table

TABLES = ("link_counts", "link_ways", "link_ops")
KINDS = 3
"""Kinds of ops of which one is told without being asked for."""
_ROWS_FOR_PEOPLE = 10


@dataclass(frozen=True)
class Shown:
    """What is shown of a linked pair."""

    table: str | None
    top: int | None
    format: Format
    csv: Path | None
    json: Path | None
    markdown: Path | None
    chakra: Path | None

    @property
    def prints_table(self) -> bool:
        """Whether a table is printed."""
        return self.table is not None or (self.format is not Format.table and not self.writes)

    @property
    def tells_ops(self) -> bool:
        """Whether single ops are told of."""
        return bool(self.json or self.markdown) or not (self.writes or self.prints_table)

    @property
    def writes(self) -> bool:
        """Whether files are written, and nothing is printed that was not asked for."""
        return bool(self.csv or self.json or self.markdown or self.chakra)


def answer(et: str, trace: str, ops: Sequence[str], shown: Shown, conditions: Sequence[gate.Condition]) -> None:
    """Join both traces, and print and write what is asked for; end with the exit code of failed conditions."""
    validation = _joined(et, trace)
    tables = validation.tables()
    if shown.prints_table:
        _print_table(tables[shown.table or "link_ops"], shown)
    if shown.csv:
        write_tables(tables, shown.csv)
    if shown.tells_ops:
        _tell(validation, tables, _reports(validation, ops), shown)
    if shown.chakra:
        _write_chakra(validation, shown.chakra)
    if conditions:
        gate.conclude(gate.remarks(conditions, tables), gate.check(conditions, tables))


def _joined(et: str, trace: str) -> Validation:
    from tracelens_graph.execution.link import link_of
    from tracelens_graph.linkage.validation import Validation

    core = load(trace, et=et)
    link = link_of(core)
    assert link is not None
    return Validation(core, link)


def _reports(validation: Validation, ops: Sequence[str]) -> list[dict[str, Any]]:
    from tracelens_graph.linkage.validation import chosen_ops, op_report, top_ops

    warn_of_unread_tensors(validation.core)
    chosen = chosen_ops(validation, ops) if ops else top_ops(validation, KINDS)
    return [op_report(validation, node, why) for node, why in chosen.items()]


def _print_table(table: Table, shown: Shown) -> None:
    from tracelens_graph.reports.views import top as first_rows

    rows = (_ROWS_FOR_PEOPLE if shown.format is Format.table else 0) if shown.top is None else shown.top
    write_table(first_rows(table, rows), shown.format)


def _tell(validation: Validation, tables: Mapping[str, Table], reports: Sequence[dict[str, Any]], shown: Shown) -> None:
    from tracelens_graph.reports.link_text import link_json, link_markdown

    core, link = validation.core, validation.link
    rows = {} if shown.top is None else {"rows": shown.top}
    if not (shown.writes or shown.prints_table):
        _print_screen(core, validation, tables, reports, rows)
    if shown.json:
        with replacing(shown.json) as file:
            file.write(link_json(core, link, tables, reports).encode())
        say_written(f"wrote {len(tables)} tables and {len(reports)} ops to {shown.json}", shown.json)
    if shown.markdown:
        with replacing(shown.markdown) as file:
            file.write(link_markdown(core, link, tables, reports, **rows).encode("utf-8", "backslashreplace"))
        say_written(f"wrote a page to {shown.markdown}", shown.markdown)


def _print_screen(
    core: Core, validation: Validation, tables: Mapping[str, Table], reports: Sequence[Any], rows: dict[str, int]
) -> None:
    from tracelens_graph.reports.link_text import screen
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    width, color = terminal_width(sys.stdout), wants_color(sys.stdout)
    in_ascii = not has_branches(sys.stdout.encoding)
    for line in screen(core, validation.link, tables, reports, width, color, **rows):
        print((line.translate(ASCII_BRANCHES) if in_ascii else line).rstrip())


def _write_chakra(validation: Validation, path: Path) -> None:
    from tracelens_graph.linkage.chakra import write_chakra

    with replacing(path) as file:
        left_out = write_chakra(validation.core, validation.link, file)
    if left_out:
        say([f"note: GPU events that lead to no op and are left out: {left_out:,}"])
    say_written(f"wrote both traces to {path}", path)
