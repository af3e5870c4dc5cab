"""`tracelens-graph report --layout tracelens`: what goes with it, and the sheets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracelens_graph.utils.suggest import hint

if TYPE_CHECKING:
    from tracelens_graph.analyses.report.report_tables import ReportOptions
    from tracelens_graph.graph.window import Window
    from tracelens_graph.tables.table import Table

_OF_EVERY_PROFILE = ("linked_only", "models", "histogram_bins", "arch", "extension")
"""Options that say nothing of which sheets there are, or are not asked for by name."""


def check_layout(*, no_models: bool, everything: bool, json: Path | None, markdown: Path | None) -> None:
    """Refuse what TraceLens's report has not.

    Raises:
        typer.BadParameter: it is asked for.
    """
    asked = {"--json": json is not None, "--markdown": markdown is not None, "--all": everything}
    if given := [option for option, is_given in asked.items() if is_given]:
        raise typer.BadParameter(f"--layout tracelens goes with --csv, --xlsx and --table, not with {given[0]}")
    if no_models:
        raise typer.BadParameter(
            "--layout tracelens: its report has sheets of performance models; leave out --no-models"
        )


def sheets_asked(
    w: Window, options: ReportOptions, names: Sequence[str], tell: Callable[[Iterable[str]], None]
) -> dict[str, Table]:
    """TraceLens's sheets of a trace, or some of them.

    Args:
        w: the trace, or a window of it.
        options: what the user asks for beside TraceLens's default.
        names: of sheets; empty for all.
        tell: called with options that the report of JAX does not know.

    Raises:
        AnalysisError: there is no such sheet.
    """
    from tracelens_graph.compat.sheets import Asked, sheets
    from tracelens_graph.errors import AnalysisError

    if w.framework.compiles_programs and (unknown := _beyond_default(options)):
        tell([f"TraceLens's report of JAX has no option like {', '.join(unknown)}: left out"])
    asked = Asked(
        replace(options, linked_only=True, overlap=False, call_stack=False),
        call_stack=options.call_stack,
        overlap=options.overlap,
        kernels=True,
        short=options.short_kernels_us is not None,
    )
    found = sheets(w, asked)
    for name in names:
        if name not in found:
            raise AnalysisError(f"TraceLens's report of this trace has no sheet {name!r}; {hint(name, found)}")
    return {name: found[name] for name in names} if names else found


def _beyond_default(options: ReportOptions) -> list[str]:
    """Options that were given, as they are spelled."""
    given = [f.name for f in fields(options) if getattr(options, f.name) != f.default]
    return [f"--{name.removesuffix('_us').replace('_', '-')}" for name in given if name not in _OF_EVERY_PROFILE]


def write_sheets(sheets: Mapping[str, Table], folder: Path) -> int:
    """Write a file per sheet, cells spelled as Python does; how many there are."""
    from tracelens_graph.compat.cells import in_python
    from tracelens_graph.reports.csv import write_folder

    return len(write_folder({name: in_python(table) for name, table in sheets.items()}, folder))
