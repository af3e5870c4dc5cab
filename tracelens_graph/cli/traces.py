"""The traces of a command: files, folders of them and patterns, what they are called, and how they are loaded."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tracelens_graph.cli.options import ANYWHERE

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Extension
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.graph import Graph
    from tracelens_graph.graph.trace_set import TraceSet
    from tracelens_graph.loading.elsewhere import Leaves


def traces_named(arguments: Sequence[str]) -> list[str]:
    """The files that a user named, each once, in the order named; those of a folder or pattern by name.

    Raises:
        typer.BadParameter: a folder holds none, or a pattern fits none.
    """
    if len(arguments) == 1 and os.path.isfile(arguments[0]):
        from tracelens_graph.loading.fused import with_ranks_apart

        return with_ranks_apart(arguments, lambda line: warn([line]))
    from tracelens_graph.errors import NotATraceError
    from tracelens_graph.loading.files import trace_files

    try:
        files = trace_files(arguments, tell=lambda line: say([line]))
    except NotATraceError as error:
        raise typer.BadParameter(str(error)) from None
    if any(map(os.path.isdir, arguments)):
        say_copies(files)
    return files


def count_named(arguments: Sequence[str], files: Sequence[str]) -> str:
    """How many traces a user named; of ranks that are fused in one file, how to have one of them.

    Args:
        arguments: what the user named.
        files: the files that these are.
    """
    if len(arguments) != 1 or not os.path.isfile(arguments[0]):
        return str(len(files))
    file = arguments[0]
    return f"{len(files)} ranks, which are fused in {file}; save {file} --rank N -o rank.tlg makes a file of one"


def as_one(arguments: Sequence[str], files: list[str]) -> list[str]:
    """The files, or the one that a user named where its ranks are one graph, too: for what is asked of one trace.

    Args:
        arguments: what the user named.
        files: the files that these are.
    """
    if len(files) > 1 and len(arguments) == 1 and os.path.isfile(arguments[0]):
        from tracelens_graph.loading.fused import is_one_recording

        if is_one_recording(arguments[0]):
            return list(arguments)
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
    """What separates the runs: their files, the folders of files that are all called alike, else their place.

    Of folders of JAX those that were given to it, if these separate the runs.
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
"""What JAX puts below the folder that it is asked to write to."""


def load_set(
    files: Sequence[str],
    run: str = "",
    columns: Iterable[str] | None = None,
    scheduler: str | None = None,
    is_job: bool = True,
    leaves: Leaves | None = None,
    keeps: Callable[[Core], Any] | None = None,
) -> TraceSet:
    """The traces of some files, with progress on a terminal; notes on them go to standard error.

    Those on the ranks of a job only if they are to be one.
    """
    from tracelens_graph.loading.many import load_core_set

    if ANYWHERE.get().memory:
        raise typer.BadParameter(f"--memory goes with one trace, not with {len(files):,}")
    from tracelens_graph.tables.terminal import progress_on_terminal

    with progress_on_terminal(f"reading {len(files):,} traces") as progress:
        traces = load_core_set(
            files,
            run=run,
            columns=columns,
            scheduler=scheduler,
            progress=progress,
            capture=ANYWHERE.get().capture,
            identify=ANYWHERE.get().identify,
            leaves=leaves,
            keeps=keeps,
        )
    call_devices(one.info.accelerator for one in traces)
    notes = [note for note in traces.notes if is_job or note not in traces.rank_notes]
    say([*([traces.linked] if traces.linked else []), *notes])
    warn([*traces.broken, *(f"{one.name}: {one.info.damage}" for one in traces if one.info.damage)])
    return traces


def call_devices(accelerators: Iterable[str]) -> None:
    """Let what is shown from now on call the devices of traces what they are, which is empty for a GPU."""
    from tracelens_graph.utils.texts import DEVICE_WORD

    words = {one or "GPU" for one in accelerators}
    word = words.pop() if len(words) == 1 else "GPU"
    DEVICE_WORD.set("device" if "," in word else word)


def ranks_in(traces: TraceSet) -> TraceSet:
    """The ranks of a job: its traces, or the devices in profiles of JAX; notes on these goes along."""
    from tracelens_graph.analyses.ops.programs import recorded_executions

    traces = _with_work(traces)
    divided = traces.by_device()
    if divided is not traces:
        hosts = "1 profile" if len(traces) == 1 else f"{len(traces):,} profiles"
        known = sum(len(one.core.info.metadata.get("deviceProperties") or ()) for one in traces)
        devices = f"{len(divided):,} devices" + (f" with GPU events, of {known:,}," if known > len(divided) else "")
        lost = [f"{one.name}: {text}" for one in traces if (text := recorded_executions(one.window).text)]
        say([f"ranks: the {devices} in {hosts} of JAX", *divided.notes[len(traces.notes) :], *lost])
    return divided


def _with_work(traces: TraceSet) -> TraceSet:
    """The set without the traces that ended before the first GPU event and collective.

    Raises:
        TraceError: nothing is left.
    """
    from tracelens_graph.errors import TraceError
    from tracelens_graph.graph.collectives import collectives_of

    cut = {
        place: text
        for place, one in enumerate(traces)
        if (text := lost_gpu_work(one.core)) and not collectives_of(one.core).nodes
    }
    say(f"left out: {why}" for why in cut.values())
    if len(cut) == len(traces):
        raise TraceError("none of these files is a trace that can be read")
    return traces.without(cut) if cut else traces


def check_gpu_work(core: Core) -> None:
    """Refuse a trace whose GPU events are missing with its end.

    Raises:
        TraceError: it is one.
    """
    if text := lost_gpu_work(core):
        from tracelens_graph.errors import TraceError

        raise TraceError(text)


def lost_gpu_work(core: Core) -> str:
    """That a trace has no GPU event and its end, where these stand, is missing; empty where that is not so."""
    if not core.info.ends_early or not core.framework.has_times or len(core.gpu_rows):
        return ""
    return f"{core.info.source}: no GPU event could be read: {core.info.damage}; copy or record it again"


def warn(lines: Iterable[str]) -> None:
    """Lines on standard error, as warnings."""
    say(f"warning: {line}" for line in lines)


def say(lines: Iterable[str]) -> None:
    """Lines on standard error."""
    from tracelens_graph.utils.texts import in_device_words, printable

    for line in lines:
        print(in_device_words(printable(line)), file=sys.stderr)


# --- one trace -----------------------------------------------------------------------------------------------------

_TAKE_SEVERAL = "several are for report, ranks, diff, ask, db push, db export, cut --collective and export"


def load(
    trace: str,
    *,
    processes: int | None = None,
    wants_gpu: bool = False,
    needs_times: bool = True,
    et: str | None = None,
) -> Graph:
    """The graph of the trace that a command was given, with progress on a terminal.

    Args:
        trace: what the user named.
        processes: how many to load with; None for as many as are of use.
        wants_gpu: the command has nothing to say of a trace without GPU work.
        needs_times: it has nothing to say of an execution trace alone, either.
        et: the execution trace of the same run, to be linked with.

    Raises:
        NotATraceError: it is something else.
        NoTimesError: it is an execution trace, and times are needed.
        TraceError: it cannot be read, or is cut short so that nothing is left that the command could show.
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
    from tracelens_graph.tables.terminal import progress_on_terminal
    from tracelens_graph.utils.texts import printable, shorten

    def loaded() -> Graph:
        with progress_on_terminal(f"reading {shorten(printable(Path(trace).name), 40)}") as progress:
            return load_core(trace, progress=progress, processes=processes)

    if ANYWHERE.get().cache:
        from tracelens_graph.stores.cache import cached_core

        core = cached_core(trace, loaded, lambda line: warn([line]))
    else:
        core = loaded()
    call_devices([core.info.accelerator])
    if et is not None and not core.framework.has_times:
        raise typer.BadParameter(_no_profile(core.info.source, et))
    if needs_times:
        core.info.check_times()
    if wants_gpu:
        check_gpu_work(core)
    if core.info.damage:
        warn([f"{core.info.source}: {core.info.damage}"])
    from tracelens_graph.loading.one import link_damage, linked

    if snapshot := ANYWHERE.get().memory:
        from tracelens_graph.loading.memory import with_memory

        core = with_memory(core, snapshot, lambda line: warn([line]))
    if named := ANYWHERE.get().capture:
        from tracelens_graph.loading.captures import with_captures

        core = with_captures(core, named, lambda line: warn([line]))
    if how := ANYWHERE.get().identify:
        from tracelens_graph.loading.identified import identified

        core = identified(core, how, lambda line: warn([line]))
    if et is not None:
        core = linked(core, et)  # behind the cache, which keeps graphs as their traces have them
    if core.framework.has_times and (damage := link_damage(core)):
        warn([damage])
    return core


def warn_of_unread_tensors(core: Core) -> None:
    """Say how many tensors of the execution trace cannot be read, where a command shows tensors."""
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


def extension_of(sources: list[str] | None, warns: bool = True) -> Extension | None:
    """What the user's extensions add up to; None without any.

    Args:
        sources: what `--extension` was given.
        warns: warn of what is odd about them; not where every process of several loads them.
    """
    if not sources:
        return None
    from tracelens_graph.extensions.extension import combined
    from tracelens_graph.extensions.loading import load_extension

    extension = combined(map(load_extension, sources))
    if warns:
        warn(extension.notes)
    return extension
