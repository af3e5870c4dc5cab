"""What `tracelens-graph replay` does without a trace: it verifies programs, and compares their results."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracelens_graph.cli.common import write_table, write_with_way_out
from tracelens_graph.cli.options import Format, extension_of
from tracelens_graph.errors import AnalysisError

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

_AS_TRACED = ("equal", "equal but assumed", "equal arguments", "not filled", "needs ranks", "not run")
"""Outcomes that are no fault of a program."""
_COMPARED = ("equal", "equal but assumed", "equal arguments")
"""Of these, those of programs that ran."""
_HEAD = 1 << 20
"""Bytes of a file in which a trace shows as one."""


def verify_folder(folders: Sequence[str], python: str | None, extensions: Sequence[str], form: Format) -> None:
    """Run the programs of a folder, and print how each compares with the trace.

    Programs may call, besides those of PyTorch, operations of the extensions' replayers, and import their modules.

    Raises:
        typer.BadParameter: not one folder is named, or an extension is none.
        typer.Exit: with code 1 if one failed or is not as in the trace.
        AnalysisError: none was run.
    """
    if len(folders) != 1:
        raise typer.BadParameter(f"--verify takes one folder, not {len(folders)}")
    from tracelens_graph.cli.replay_screens import print_failures
    from tracelens_graph.replay.verify.verify import verify
    from tracelens_graph.reports.progress import progress_on_terminal

    extension = extension_of(list(extensions))
    replayers = list(extension.replayers.values()) if extension else []
    with progress_on_terminal("running programs") as progress:
        table = verify(folders[0], python=python, replayers=replayers, progress=progress)
    _print(table, form)
    if form in (Format.table, Format.md):
        print_failures(table)
    if not set(table["outcome"]) <= set(_AS_TRACED):
        raise typer.Exit(1)
    if not set(table["outcome"]) & set(_COMPARED):
        raise AnalysisError("nothing was verified: none of these programs runs by itself")


def compare_results(files: Sequence[str], form: Format) -> None:
    """Print the results that programs wrote on two machines side by side.

    Raises:
        typer.BadParameter: more than two files are named, or one is a trace.
        AnalysisError: they have nothing in common.
    """
    if len(files) != 2:
        raise typer.BadParameter(f"one trace, or two files of results, are wanted, not {len(files)}")
    from tracelens_graph.errors import ResultsError
    from tracelens_graph.replay.results import compared_results

    try:
        table = compared_results(*files)
    except ResultsError:
        if not any(map(_is_trace, files)):
            raise
        raise typer.BadParameter(
            "two files of results are compared here, and these are traces; "
            f"they are compared by: {shlex.join(['tracelens-graph', 'compare', *files])}"
            if all(map(_is_trace, files))
            else f"{next(filter(_is_trace, files))}: is a trace; replay takes one trace, or two files of results"
        ) from None
    _print(table, form)
    if not table["op"]:
        raise AnalysisError("nothing was compared: no operation ran with the same arguments in both")


def check_is_no_folder(trace: str) -> None:
    """Refuse a folder of programs, or one file of results, where a trace is wanted.

    Raises:
        typer.BadParameter: it is one.
    """
    from tracelens_graph.replay.folder import INDEX

    if (Path(trace) / INDEX).is_file():
        verifying = shlex.join(["tracelens-graph", "replay", "--verify", trace])
        raise typer.BadParameter(f"{trace}: is a folder of programs; they are verified by: {verifying}")
    if Path(trace).suffix == ".json" and Path(trace).is_file() and not _is_trace(trace) and _is_results(trace):
        raise typer.BadParameter(f"{trace}: holds results of programs; name two such files to compare them")


def _is_results(file: str) -> bool:
    from tracelens_graph.errors import ResultsError
    from tracelens_graph.replay.results import read_results

    try:
        return bool(read_results(file))
    except ResultsError:
        return False


def _is_trace(file: str) -> bool:
    """Whether a file begins as a trace does, or a saved graph."""
    from tracelens_graph.errors import TraceLensGraphError
    from tracelens_graph.loaders.sources import open_source

    try:
        source = open_source(file)
        if source.packing != "plain":
            return True
        with source.open() as opened:
            return b'"traceEvents"' in opened.read(_HEAD)
    except (OSError, TraceLensGraphError):
        return False


def _print(table: Table, form: Format) -> None:
    from tracelens_graph.reports.views import told

    if form is Format.table:
        write_with_way_out(told(table))
    else:
        write_table(told(table) if form is Format.md else table, form)
