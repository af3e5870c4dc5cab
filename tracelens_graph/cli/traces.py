"""Several traces on the command line: files, folders of them, and patterns."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from glob import has_magic
from pathlib import Path
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
    from tracelens_graph.loading.many import trace_files

    try:
        files = trace_files(arguments, tell=lambda line: say([line]))
    except NotATraceError as error:
        raise typer.BadParameter(str(error)) from None
    if any(map(os.path.isdir, arguments)):
        say_copies(files)
    return files


def say_copies(files: Sequence[str]) -> None:
    """Say of profiles of JAX that were found in a folder which copies beside them are left out."""
    from tracelens_graph.loaders.xplane.files import viewer_copies

    if copies := viewer_copies(files):
        more = f" and {len(copies) - 1:,} more" if len(copies) > 1 else ""
        say([f"left out {copies[0]}{more}: JAX's copy for a viewer; the .xplane.pb holds all that was recorded"])


def files_named(arguments: Sequence[str]) -> list[str]:
    """The files that a user named, in the order named and as often; those of a folder or pattern by name.

    Raises:
        typer.BadParameter: a folder holds none, or a pattern fits none.
    """
    files: list[str] = []
    for one in arguments:
        several = os.path.isdir(one) or (has_magic(one) and not os.path.exists(one))
        files += traces_named([one]) if several else [one]
    return files


def check_pipes(files: Sequence[str]) -> None:
    """Refuse a pipe that is named twice: it gives its trace once, and the second reading would wait forever.

    Raises:
        typer.BadParameter: it is.
    """
    for file in dict.fromkeys(files):
        if files.count(file) > 1 and (file == "-" or Path(file).is_fifo()):
            raise typer.BadParameter(f"{'standard input' if file == '-' else file}: a pipe gives one trace, once")


def names_of(runs: Sequence[str], names: str | None = None) -> list[str]:
    """What to call runs.

    Args:
        runs: files or folders.
        names: what the user calls them, with commas between; None to go by files.

    Raises:
        typer.BadParameter: they are not as many names as runs, or two are one.
    """
    return _given_names(names, len(runs)) if names is not None else _names_by_files(runs)


def _given_names(names: str, runs: int) -> list[str]:
    tags = [name.strip() for name in names.split(",")]
    if len(tags) != runs:
        raise typer.BadParameter(f"--names: {len(tags)} names for {runs} runs")
    if len(set(tags)) < runs or not all(tags):
        raise typer.BadParameter("--names: every run needs a name of its own")
    return tags


def _names_by_files(runs: Sequence[str]) -> list[str]:
    """What tells the runs apart: their files, the folders of files that are all called alike, else their place.

    Of folders of JAX those that were given to it, if these tell the runs apart.
    """
    from tracelens_graph.utils.texts import distinct_names

    tags = distinct_names(runs)
    if len(set(tags)) < len(tags):
        return [f"{tag}#{place}" for place, tag in enumerate(tags, 1)]
    folders = [tag.rpartition("/")[0] for tag in tags]
    alike = len({tag.rpartition("/")[2] for tag in tags}) == 1
    if not alike or not all(folders):
        return tags
    shorter = [_RUN_OF_JAX.sub("", folder) for folder in folders]
    return shorter if len(set(shorter)) == len(runs) and all(shorter) else folders


_RUN_OF_JAX = re.compile(r"/plugins/profile/[^/]+$")
"""What JAX puts below the folder that it is told to write to."""


def load_set(
    files: Sequence[str], run: str = "", columns: Iterable[str] | None = None, scheduler: str | None = None
) -> TraceSet:
    """The traces of some files, with progress on a terminal; what is to be said of them goes to standard error."""
    from tracelens_graph.loading.many import load_core_set
    from tracelens_graph.reports.progress import progress_on_terminal

    with progress_on_terminal(f"reading {len(files):,} traces") as progress:
        traces = load_core_set(files, run=run, columns=columns, scheduler=scheduler, progress=progress)
    say([*([traces.linked] if traces.linked else []), *traces.notes])
    warn([*traces.broken, *(f"{one.name}: {one.core.info.damage}" for one in traces if one.core.info.damage)])
    return traces


def ranks_in(traces: TraceSet) -> TraceSet:
    """The ranks of a job: its traces, or the devices in profiles of JAX; what is to be said of these goes along."""
    from tracelens_graph.analyses.ops.programs import recorded_executions

    divided = traces.by_device()
    if divided is not traces:
        hosts = "1 profile" if len(traces) == 1 else f"{len(traces):,} profiles"
        known = sum(len(one.core.info.metadata.get("deviceProperties") or ()) for one in traces)
        devices = f"{len(divided):,} devices" + (f" with GPU events, of {known:,}," if known > len(divided) else "")
        lost = [f"{one.name}: {told}" for one in traces if (told := recorded_executions(one.window).told)]
        say([f"ranks: the {devices} in {hosts} of JAX", *divided.notes[len(traces.notes) :], *lost])
    return divided


def warn(lines: Iterable[str]) -> None:
    """Lines on standard error, as warnings."""
    say(f"warning: {line}" for line in lines)


def say(lines: Iterable[str]) -> None:
    """Lines on standard error."""
    from tracelens_graph.utils.texts import printable

    for line in lines:
        print(printable(line), file=sys.stderr)
