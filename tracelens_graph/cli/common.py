"""What commands share: loading a trace, and writing a table in the format asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from tracelens_graph.cli.options import Format
from tracelens_graph.cli.outputs import say_written
from tracelens_graph.cli.traces import check_pipes, say_copies, warn

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.graph import Graph
    from tracelens_graph.tables.table import Table

ASCII_BRANCHES = str.maketrans("└├│─", "`||-")
"""For terminals that have no lines to draw with."""


_TAKE_SEVERAL = (
    "several are for report, ranks, compare, ask, db push, db export, cut --collective and export --perfetto"
)


def load(
    trace: str,
    cache: bool = False,
    processes: int | None = None,
    wants_gpu: bool = False,
    needs_times: bool = True,
    et: str | None = None,
) -> Graph:
    """The graph of the trace that a command was given, with progress on a terminal.

    Args:
        trace: what the user named.
        cache: keep the graph in the user's cache, or take it from there.
        processes: how many to load with; None for as many as are of use.
        wants_gpu: the command has nothing to say of a trace without GPU work.
        needs_times: it has nothing to say of an execution trace alone, either.
        et: the execution trace of the same run, to be linked with.

    Raises:
        NotATraceError: it is something else.
        NoTimesError: it is an execution trace, and times are needed.
        TraceError: it cannot be read, or is cut short so that nothing is left that the command could tell of.
        LinkError: the execution trace is of another program or rank.
        typer.BadParameter: no file is named, or an execution trace in the place of the trace.
    """
    if et is not None:
        et = _one_file(et, "an execution trace", "--et: ")
        check_pipes([trace, et])
    if trace == "-" and sys.stdin.isatty():
        raise typer.BadParameter("standard input is a terminal: name a file, or pipe a trace in")
    trace = _one_file(trace)
    from tracelens_graph.loading.one import load_core
    from tracelens_graph.reports.progress import progress_on_terminal
    from tracelens_graph.utils.texts import printable, shorten

    def loaded() -> Graph:
        with progress_on_terminal(f"reading {shorten(printable(Path(trace).name), 40)}") as progress:
            return load_core(trace, progress=progress, processes=processes)

    if cache:
        from tracelens_graph.stores.cache import cached_core

        core = cached_core(trace, loaded, lambda line: warn([line]))
    else:
        core = loaded()
    if et is not None and not core.framework.has_times:
        raise typer.BadParameter(_no_profile(core.info.source, et))
    if needs_times:
        core.info.check_times()
    if core.info.ends_early and core.framework.has_times and wants_gpu and not len(core.gpu_rows):
        from tracelens_graph.errors import TraceError

        raise TraceError(f"{core.info.source}: no GPU event could be read: {core.info.damage}; copy or record it again")
    if core.info.damage:
        warn([f"{core.info.source}: {core.info.damage}"])
    from tracelens_graph.loading.one import link_damage, linked

    if et is not None:
        core = linked(core, et)  # behind the cache, which keeps graphs as their traces have them
    if core.framework.has_times and (damage := link_damage(core)):
        warn([damage])
    return core


def warn_of_unread_tensors(core: Core) -> None:
    """Say how many tensors of the execution trace cannot be read, where a command tells of tensors."""
    from tracelens_graph.loading.one import unread_tensors

    warn(filter(None, [unread_tensors(core)]))


def _no_profile(source: str, et: str) -> str:
    """Why a trace is not linked with what `--et` names: it is an execution trace itself."""
    from tracelens_graph.loading.pairing import is_execution_trace_file

    hint = "name the profiler's trace of its run" if is_execution_trace_file(et) else "are the two swapped?"
    return f"{source}: is a PyTorch execution trace, in the place of the profiler's trace that --et goes with; {hint}"


def _one_file(named: str, what: str = "a trace", option: str = "") -> str:
    """The file that a path, or a pattern that only one fits, stands for.

    Args:
        named: what the user named.
        what: what the file should be.
        option: what stands before messages.

    Raises:
        typer.BadParameter: it is empty, a folder, or fits several files.
    """
    if not named:
        raise typer.BadParameter(f"{option}the name is empty; name {what}")
    path = Path(named)
    if named == "-" or path.is_file() or not (path.is_dir() or has_magic(named)):
        return named
    advice = f"this command takes one trace; {_TAKE_SEVERAL}" if not option else f"one file is wanted: name {what}"
    if path.is_dir():
        if not option and len(profiles := _profiles_in(path)) == 1:
            say_copies(profiles)
            return profiles[0]
        raise typer.BadParameter(f"{option}{named}: is a folder, and {advice}")
    from glob import glob

    files = glob(named, recursive=True)
    if len(files) < 2:
        return files[0] if files else named
    raise typer.BadParameter(f"{option}{named}: {len(files):,} files fit, and {advice}")


def _profiles_in(folder: Path) -> list[str]:
    """Profiles of JAX in a folder; none in one that cannot be read."""
    from tracelens_graph.loaders.xplane.files import profiles_in

    try:
        return profiles_in(folder)
    except OSError:
        return []


def write_table(table: Table, form: Format, hints: Iterable[str] = ()) -> None:
    """Write a table to standard output; for people also hints below it, which are never broken."""
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    sys.stdout.write(formatted(table, form, terminal_width(sys.stdout), wants_color(sys.stdout), hints))


def write_with_way_out(table: Table) -> None:
    """Print a table that people are shown; where columns do not fit, say where they are."""
    from tracelens_graph.reports.terminal import terminal_width, wants_color

    text = table.text(terminal_width(sys.stdout), wants_color(sys.stdout), "a wider terminal or -f csv shows them")
    sys.stdout.write(text)


def write_tables(tables: Mapping[str, Table], folder: Path) -> None:
    """Write each table to a CSV file in a folder, and say so."""
    from tracelens_graph.reports.csv import write_folder

    write_folder(tables, folder)
    say_written(f"wrote {len(tables)} {'table' if len(tables) == 1 else 'tables'} to {folder}", folder)


def print_wrapped(text: str) -> None:
    """Print a paragraph for people, wrapped to the terminal."""
    from tracelens_graph.reports.terminal import terminal_width
    from tracelens_graph.utils.texts import printable, wrapped

    for line in wrapped(printable(text), terminal_width(sys.stdout), "  "):
        print(line)


def formatted(table: Table, form: Format, width: int, color: bool, hints: Iterable[str] = ()) -> str:
    """A table in the format asked for; width, color and hints are for people."""
    if form is Format.csv:
        from io import StringIO

        from tracelens_graph.reports.csv import write_csv

        text = StringIO(newline="")
        write_csv(table, text)
        return text.getvalue()
    if form is Format.json:
        from tracelens_graph.reports.json import table_json

        return table_json(table)
    if form is Format.md:
        from tracelens_graph.reports.markdown import table_markdown

        return table_markdown(table)

    return table.text(width, color) + "".join(f"{hint}\n" for hint in hints)


def has_branches(encoding: str) -> bool:
    """Whether an encoding has the lines that trees are drawn with."""
    try:
        "└├│─".encode(encoding)
    except UnicodeEncodeError:
        return False
    return True
