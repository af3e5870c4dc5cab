"""The report on an execution trace alone: what was called, and that nothing in it has a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tracelens_graph.analyses.structure.calls import calls_by_arguments, calls_by_category, calls_by_op
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.views import top, view
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import bold
from tracelens_graph.utils.texts import counted, printable, wrapped

CALL_TABLES: Mapping[str, Callable[[Core | Window], Table]] = {
    "calls_by_category": calls_by_category,
    "calls_by_op": calls_by_op,
    "calls_by_arguments": calls_by_arguments,
}
"""Name of a table of the report on an execution trace alone -> what makes it."""

TOLD = (
    "An execution trace has no times and no kernels. It says which ops ran on which thread, in which order and inside "
    "which other ops, with which tensors, sizes and schemas."
)
_WIDEST = 110


def calls_screen(w: Window, tables: Sequence[Table], rows: int, width: int, color: bool) -> str:
    """The report on an execution trace alone."""
    info = w.core.info
    parts = [f"{Path(info.source).name}: execution trace", f"{len(w.rows_of_kind(Kind.Op)):,} calls of ops"]
    parts.append(counted(len(w.core.threads), "thread"))
    if w.title:
        parts.append(f"only {w.title}")
    title = "".join(f"{bold(line, color)}\n" for line in wrapped(printable(", ".join(parts)), width, "  "))
    about = "".join(f"{line}\n" for line in wrapped(TOLD, min(width, _WIDEST)))
    link = f"times and kernels: {printable(info.link_command)}\n"
    shown = (view(top(table, rows), w.core).text(width, color) for table in tables if len(table))
    return "\n".join((title, about + link, *shown))
