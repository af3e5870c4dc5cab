"""Several traces on the command line: files, folders of them, and patterns."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tracelens_graph.graph.trace_set import TraceSet


def traces_named(arguments: Sequence[str]) -> list[str]:
    """The files that a user named, each once, in the order named; those of a folder or pattern by name.

    Raises:
        typer.BadParameter: a folder holds none, or a pattern fits none.
    """
    from tracelens_graph.errors import NotATraceError
    from tracelens_graph.set_loading import trace_files

    try:
        return trace_files(arguments, tell=lambda line: say([line]))
    except NotATraceError as error:
        raise typer.BadParameter(str(error)) from None


def load_set(files: Sequence[str], run: str = "", columns: Iterable[str] | None = None) -> TraceSet:
    """The traces of some files, with progress on a terminal; what is to be said of them goes to standard error."""
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.set_loading import load_core_set

    with progress_on_terminal(f"reading {len(files):,} traces") as progress:
        traces = load_core_set(files, run=run, columns=columns, progress=progress)
    say(traces.notes)
    warn([*traces.broken, *(f"{one.name}: {one.core.info.damage}" for one in traces if one.core.info.damage)])
    return traces


def warn(lines: Iterable[str]) -> None:
    """Lines on standard error, as warnings."""
    say(f"warning: {line}" for line in lines)


def say(lines: Iterable[str]) -> None:
    """Lines on standard error."""
    from tracelens_graph.texts import printable

    for line in lines:
        print(printable(line), file=sys.stderr)
