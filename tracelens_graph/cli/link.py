"""`tracelens-graph link`: ops of an execution trace, their kernels in the profiler's trace, and the way back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from tracelens_graph.cli import gate
from tracelens_graph.cli.options import FailIf, TableName, Top, argument, check_name, option, refuse
from tracelens_graph.cli.outputs import Forms, Outputs, Writes, streamed
from tracelens_graph.cli.shown import TABLE, Shown, book, of_table, print_lines, print_table, screen
from tracelens_graph.cli.traces import load, say, warn_of_unread_tensors

if TYPE_CHECKING:
    from tracelens_graph.linkage.validation import Validation
    from tracelens_graph.tables.table import Table

TABLES = ("link_counts", "link_ways", "link_ops")
_KINDS = 3
"""How many kinds of ops are shown without being asked for, one op of each."""
_ROWS_FOR_PEOPLE = 10
_WITH_OPS = {"", "json", "md"}
"""Formats that show single ops; empty for the screen."""


def link(
    trace: Annotated[str, argument(metavar="KINETO", help="The profiler's trace of the same run.")],
    *,
    et: Annotated[str, option("--et", metavar="ET", help="Execution trace of the run.")],
    op: Annotated[
        list[str] | None,
        option(
            metavar="ID|NAME",
            help="Show everything about this op: the id of its node, or a name for its most expensive op; may be given "
            "again. Default: the most expensive op of each of the most expensive kinds.",
        ),
    ] = None,
    table: TableName = None,
    top: Top = None,
    outputs: Annotated[Outputs, Writes("json", "md", "csv", "xlsx", "chakra", folder=True)],
    fail_if: FailIf = None,
) -> None:
    """Follow ops of an execution trace to their kernels in the profiler's trace, and back.

    It shows how the traces join, what single ops were given, called and launched, and for all ops whether their GPU
    work leads back to them, and if not, why. chakra is both traces as one, in the JSON form of chakra_trace_link.

    Example: tracelens-graph link trace.json.gz --et execution-trace.json

    Example: tracelens-graph link trace.json.gz --et execution-trace.json --op aten::mm -o mm.md

    Example: tracelens-graph link trace.json.gz --et execution-trace.json --fail-if 'round_trip_percent < 100'

    Example: tracelens-graph link trace.json.gz --et execution-trace.json -f chakra -o linked.json
    """
    conditions = gate.parse(fail_if or [], of=gate.figures_of_link())
    if table is not None:
        check_name("--table", table, TABLES)
        outputs.check(TABLE, "a table", has_folder=False)
    shows_ops = table is None and (outputs.to_screen or not _WITH_OPS.isdisjoint(outputs.formats))
    refuse((op and not shows_ops, "--op goes with the screen, json and md"))
    linked = _Linked(_joined(et, trace), op or [], top)
    if shows_ops:
        warn_of_unread_tensors(linked.validation.core)
    if table is not None:
        print_table(linked.shown(table), outputs)
    else:
        if outputs.to_screen:
            print_lines(linked.screen())
        outputs.write(linked, FORMS, lambda: linked.tables)
    gate.judge(conditions, linked.tables.__getitem__)


def _joined(et: str, trace: str) -> Validation:
    from tracelens_graph.execution.link import link_of
    from tracelens_graph.linkage.validation import Validation

    core = load(trace, et=et)
    link = link_of(core)
    assert link is not None
    return Validation(core, link)


@dataclass(frozen=True)
class _Linked:
    """A linked pair of traces, and what is asked of it."""

    validation: Validation
    ops: Sequence[str]
    top: int | None

    @cached_property
    def tables(self) -> Mapping[str, Table]:
        """All tables by name."""
        return self.validation.tables()

    @cached_property
    def reports(self) -> list[dict[str, Any]]:
        """All that is known of the ops that are asked for, else of some of the most expensive ones."""
        from tracelens_graph.linkage.validation import chosen_ops, op_report, top_ops

        v = self.validation
        chosen = chosen_ops(v, self.ops) if self.ops else top_ops(v, _KINDS)
        return [op_report(v, node, why) for node, why in chosen.items()]

    def shown(self, table: str) -> Shown:
        """A table as it is shown."""
        return Shown(self.tables[table], self.top, _ROWS_FOR_PEOPLE)

    def screen(self) -> Any:
        """The answer in lines."""
        from tracelens_graph.reports.link_text import screen as lines

        v, rows = self.validation, {} if self.top is None else {"rows": self.top}
        width, color = screen()
        return lines(v.core, v.link, self.tables, self.reports, width, color, **rows)

    def json(self) -> str:
        """The answer for programs."""
        from tracelens_graph.reports.link_text import link_json

        return link_json(self.validation.core, self.validation.link, self.tables, self.reports)

    def markdown(self) -> str:
        """The answer as a page."""
        from tracelens_graph.reports.link_text import link_markdown

        v, rows = self.validation, {} if self.top is None else {"rows": self.top}
        return link_markdown(v.core, v.link, self.tables, self.reports, **rows)

    def write_chakra(self, file: BinaryIO) -> str:
        """Write both traces as one."""
        from tracelens_graph.linkage.chakra import write_chakra

        if left_out := write_chakra(self.validation.core, self.validation.link, file):
            say([f"note: GPU events that lead to no op and are left out: {left_out:,}"])
        return ""


FORMS: Forms = {
    "json": _Linked.json,
    "md": _Linked.markdown,
    "csv": of_table("csv", lambda linked: linked.shown("link_ops")),
    "xlsx": book(lambda linked: linked.tables),
    "chakra": streamed(_Linked.write_chakra),
}
