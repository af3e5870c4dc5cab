"""Loading several traces at once, in as many processes as there are cores.

Graphs come back from the processes as files of a temporary folder that only its owner may enter. Up to a stated size
they are read into memory; those beyond it stay mapped from their files, which vanish with the set.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from glob import glob, has_magic
from itertools import chain
from pathlib import Path

from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.files import distinct_names
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.loading import load_core
from tracelens_graph.processes import map_in_processes

SUFFIXES = (".json", ".json.gz", ".json.zst", ".zip", ".tlg")
"""What the files of a folder that may be traces end with."""

MEMORY_BYTES = 4 * 2**30
"""Size of the graphs of a set that are held in memory; the others are mapped from files."""

_NAMED = 5
"""How many files a note names."""


def trace_files(named: Iterable[str]) -> list[str]:
    """The files that folders, patterns and paths stand for, each once; those of a folder or pattern by name.

    Raises:
        NotATraceError: a folder holds no file that may be a trace, or a pattern fits none.
    """
    files: dict[str, None] = {}
    for one in named:
        if Path(one).is_dir():
            inside = sorted(str(path) for path in Path(one).iterdir() if path.name.endswith(SUFFIXES))
            if not inside:
                raise NotATraceError(f"{one}: no file in it ends with {', '.join(SUFFIXES)}")
        elif has_magic(one) and not Path(one).exists():
            inside = sorted(glob(one, recursive=True))
            if not inside:
                raise NotATraceError(f"no file fits {one}")
        else:
            inside = [one]
        files |= dict.fromkeys(inside)
    return list(files)


def left_out_note(files: Sequence[str]) -> list[str]:
    """One line on files that are no profiler traces; none without any."""
    if not files:
        return []
    names = [Path(file).name for file in files]
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
    what = "1 file that is no trace" if len(names) == 1 else f"{len(names):,} files that are no traces"
    return [f"left out {what}: {shown}"]


@dataclass(frozen=True)
class _Order:
    """What a process is to do: load a file, keep some columns, and write the graph where it is told."""

    file: str
    target: Path
    columns: tuple[str, ...] | None


def load_core_set(
    files: Sequence[str],
    *,
    run: str = "",
    processes: int | None = None,
    memory_bytes: int = MEMORY_BYTES,
    columns: Iterable[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TraceSet:
    """The traces of some files as a set, in their order.

    What is no profiler trace is left out (`TraceSet.notes` say so), and so is what cannot be read (`TraceSet.broken`).

    Args:
        files: paths of traces and saved graphs, or - for standard input.
        run: name of the run that they are of.
        processes: how many load at a time; by default one per core.
        memory_bytes: graphs up to this size together are held in memory, the others mapped from temporary files.
        columns: what the graphs are needed for reads these columns only; see `Core.lean`. None for all.
        progress: called with bytes of files done and bytes in all.

    Raises:
        TraceError: none of the files is a trace that can be read.
    """
    lean = None if columns is None else tuple(columns)
    here = [file for file in files if len(files) == 1 or file == "-" or file.endswith(".tlg")]
    folder = Path(tempfile.mkdtemp(prefix="tracelens_graph-"))  # for the owner alone
    orders = [_Order(file, folder / f"{place}.tlg", lean) for place, file in enumerate(files) if file not in here]
    sizes = {file: Path(file).stat().st_size if Path(file).is_file() else 0 for file in files}
    graphs: dict[str, Core] = {}
    no_traces: dict[str, TraceError] = {}
    broken: list[TraceError] = []
    done = held = 0
    try:
        outcomes = chain(
            ((file, _loaded(file, lean, progress if len(files) == 1 else None)) for file in here),
            zip((order.file for order in orders), map_in_processes(_to_file, orders, processes), strict=True),
        )
        for file, outcome in outcomes:
            done += sizes[file]
            if progress and len(files) > 1:
                progress(done, sum(sizes.values()))
            if isinstance(outcome, NotATraceError):
                no_traces[file] = outcome
            elif isinstance(outcome, TraceError):
                broken.append(outcome)
            else:
                graphs[file] = outcome if isinstance(outcome, Core) else _fetched(file, outcome, held < memory_bytes)
                held += graphs[file].columns.nbytes
        if not graphs:
            raise _nothing_read(files, no_traces, broken)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    names = dict(zip(files, distinct_names(files), strict=True))
    members = (TraceMember(graphs[file], names[file], run) for file in files if file in graphs)
    traces = TraceSet(members, left_out_note(list(no_traces)), map(str, broken))
    weakref.finalize(traces, shutil.rmtree, folder, ignore_errors=True)
    return traces


def _nothing_read(
    files: Sequence[str], no_traces: Mapping[str, TraceError], broken: Sequence[TraceError]
) -> TraceError:
    if len(files) == 1:
        return next(iter([*broken, *no_traces.values()]))
    why = f"; {broken[0]}" if broken else ""
    return TraceError(f"none of the {len(files):,} files is a trace that can be read{why}")


def _loaded(
    file: str, lean: tuple[str, ...] | None, progress: Callable[[int, int], None] | None = None, processes: int = 0
) -> Core | TraceError:
    """The graph of a file, or why there is none."""
    try:
        core = load_core(file, progress=progress, processes=processes or None)
    except TraceError as error:
        return error
    return core if lean is None else core.lean(lean)


def _to_file(order: _Order) -> Path | TraceError:
    """The file that a process wrote a graph to, or why it did not."""
    from tracelens_graph.files import replacing
    from tracelens_graph.stores.graph_file import write_graph, write_without_events

    core = _loaded(order.file, order.columns, processes=1)
    if isinstance(core, TraceError):
        return core
    places = core.details.places()
    if places is None:
        write_graph(core, order.target)
    else:
        with replacing(order.target, private=True) as file:
            write_without_events(core, file, places)
    return order.target


def _fetched(file: str, written: Path, into_memory: bool) -> Core:
    """The graph that a process wrote; its original events are read from the trace itself."""
    from tracelens_graph.loaders.kineto.details import FileDetails
    from tracelens_graph.loaders.sources import Source
    from tracelens_graph.stores.graph_file import read_graph

    source = Source(file, path=Path(file).absolute())
    core = read_graph(written.read_bytes() if into_memory else written, partial(FileDetails.at, source))
    core.info.source = source.name
    if into_memory:
        written.unlink()
    return core
