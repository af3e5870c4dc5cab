"""Commands that show tables of one trace: `modules`, `tensor`, `info`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    ExecutionTraceFile,
    Extensions,
    LinkedOnly,
    TableName,
    Trace,
    argument,
    check_name,
    option,
)
from tracelens_graph.cli.outputs import Forms, Outputs, Writes
from tracelens_graph.cli.shown import TABLE, Shown, book, print_lines, print_table, print_wrapped, put, screen
from tracelens_graph.cli.traces import extension_of, load, warn_of_unread_tensors
from tracelens_graph.cli.windows import Window

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

_LONGEST = 300
"""Columns of a fact; names in a file can be of any length."""

OneTable = Annotated[Outputs, Writes(*TABLE)]
"""The outputs of a command that shows one table."""


class By(StrEnum):
    """What one line stands for."""

    instance = "instance"
    class_ = "class"


class Sort(StrEnum):
    """Order of modules that stand beside each other."""

    model = "model"
    time = "time"


def modules(
    trace: Trace,
    *,
    by: Annotated[
        By, typer.Option(help="Every instance, or instances of one class at one place together.")
    ] = By.instance,
    depth: Annotated[int | None, option(min=0, metavar="N", help="Levels of modules.")] = None,
    sort: Annotated[Sort, typer.Option(help="Order of first calls, or the longest first.")] = Sort.model,
    linked_only: LinkedOnly = False,
    min_percent: Annotated[
        float, option(metavar="P", min=0, max=100, help="Merge modules with less than P % of all GPU time.")
    ] = 0,
    extension: Extensions = None,
    outputs: Annotated[Outputs, Writes(*TABLE, screen="text")],
    window: Window,
) -> None:
    """Draw the tree of nn.Modules (JAX: named scopes) with the GPU time of each, and of work outside of them.

    A module's time is exactly the sum of the modules in it and "Non-nn.Module GPU Ops". Backward work is charged to the
    module of its forward op. The trace needs Python stacks (with_stack=True); in JAX, named scopes are modules.

    Example: tracelens-graph modules trace.json.gz --by class --depth 3 --sort time
    """
    added = extension_of(extension)
    core = load(trace, wants_gpu=True)
    from tracelens_graph.analyses.places import modules as analysis

    table = analysis.modules(window.of(core, added), by.value, depth, sort.value, linked_only, min_percent)
    if outputs.to_screen:
        from tracelens_graph.reports.module_text import module_text

        print_lines(module_text(table, *screen(), core.framework))
    shown = Shown(table, hints=Call(trace, window, extension or []).to_open)
    outputs.write(shown, TABLE)


def tensor(
    trace: Trace,
    id: Annotated[
        str,
        argument(
            metavar="ID",
            help="Tensor or storage of the execution trace: 123, t123 or s124; t123#2: the second one with this id.",
        ),
    ],
    *,
    et: ExecutionTraceFile = None,
    outputs: OneTable,
) -> None:
    """Show the life of a tensor or storage: who made, viewed, read and wrote it, with kernels and times.

    Ids of tensors are reused when memory is free; if several tensors had this id, they are listed. TRACE may be an
    execution trace itself; then there are no times.

    Example: tracelens-graph tensor trace.json.gz --et execution-trace.json.gz t123
    """
    core = load(trace, needs_times=False, et=et)
    warn_of_unread_tensors(core)
    from tracelens_graph.analyses.tensors.life import describe_thing, find_things, tensor_life, versions

    things = find_things(core, id)
    if len(things) == 1 and outputs.to_screen:
        print_wrapped(*describe_thing(core, things[0]))
        print()
    print_table(Shown(tensor_life(core, things[0]) if len(things) == 1 else versions(core, things)), outputs)


def info(
    trace: Trace, *, table: TableName = None, outputs: Annotated[Outputs, Writes("json", "md", "xlsx", "table", "csv")]
) -> None:
    """Show what a trace holds, what is odd about it, and what was not recorded.

    Run this command first: it says which questions the trace can answer, and which recording option would answer more.

    Example: tracelens-graph info trace.json.gz

    Example: tracelens-graph info trace.json.gz --table recording -f csv
    """
    outputs.check(_INVENTORY if table is None else TABLE, "all of it (--table NAME chooses a table)")
    core = load(trace, needs_times=False)
    from tracelens_graph.analyses.report.inventory import inventory

    tables = inventory(core)
    if table is not None:
        check_name("--table", table, tables)
        print_table(Shown(tables[table]), outputs)
        return
    if outputs.to_screen:
        for block in _blocks(tables, *screen()):
            put(block)
    outputs.write(tables, _INVENTORY)


def _inventory_json(tables: Mapping[str, Table]) -> str:
    from tracelens_graph.reports.document import document, table_object

    objects = {name: table_object(table)["rows"] for name, table in tables.items()}
    objects["trace"] = {row["what"]: row["value"] for row in objects["trace"]}
    return document(objects)


def _inventory_markdown(tables: Mapping[str, Table]) -> str:
    from tracelens_graph.reports.markdown import table_markdown

    return "\n".join(map(table_markdown, tables.values()))


_INVENTORY: Forms = {
    "table": lambda tables: "".join(_blocks(tables, screen().width, False)),
    "json": _inventory_json,
    "md": _inventory_markdown,
    "xlsx": book(lambda tables: tables),
}


def _blocks(tables: Mapping[str, Table], width: int, color: bool) -> Iterator[str]:
    """The inventory for people; tables that have nothing to say stay out."""
    from tracelens_graph.tables.terminal import bold
    from tracelens_graph.utils.texts import cut_middle, printable, wrapped

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
