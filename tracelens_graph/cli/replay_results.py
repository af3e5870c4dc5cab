"""What `tracelens-graph replay` does without a trace: it verifies programs, and compares their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from tracelens_graph.cli.common import write_table
from tracelens_graph.cli.options import Format, extension_of

if TYPE_CHECKING:
    from tracelens_graph.table import Table

_AS_TRACED = ("equal", "equal but assumed", "equal arguments", "not filled", "needs ranks", "not run")
"""Outcomes that are no fault of a program."""


def verify_folder(folders: Sequence[str], python: str | None, extensions: Sequence[str], form: Format) -> None:
    """Run the programs of a folder, and print how each compares with the trace.

    Programs may call, besides those of PyTorch, operations of the extensions' replayers, and import their modules.

    Raises:
        typer.BadParameter: not one folder is named, or an extension is none.
        typer.Exit: with code 1 if one failed or is not as in the trace.
    """
    if len(folders) != 1:
        raise typer.BadParameter(f"--verify takes one folder, not {len(folders)}")
    from tracelens_graph.replay.verify.verify import verify
    from tracelens_graph.reports.progress import progress_on_terminal

    extension = extension_of(list(extensions))
    replayers = list(extension.replayers.values()) if extension else []
    with progress_on_terminal("running programs") as progress:
        table = verify(folders[0], python=python, replayers=replayers, progress=progress)
    _print(table, form)
    if not set(table["outcome"]) <= set(_AS_TRACED):
        raise typer.Exit(1)


def compare_results(files: Sequence[str], form: Format) -> None:
    """Print the results that programs wrote on two machines side by side.

    Raises:
        typer.BadParameter: more than two files are named.
    """
    if len(files) != 2:
        raise typer.BadParameter(f"one trace, or two files of results, are wanted, not {len(files)}")
    from tracelens_graph.replay.results import compared_results

    _print(compared_results(*files), form)


def _print(table: Table, form: Format) -> None:
    from tracelens_graph.reports.views import told

    write_table(told(table) if form in (Format.table, Format.md) else table, form)
