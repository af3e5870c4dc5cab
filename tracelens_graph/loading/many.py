"""Loading several traces at once, in as many processes as there are cores, or on the workers of a Dask cluster.

Up to a stated size graphs are held in memory; those beyond it stay mapped from files, which vanish with the set.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from tracelens_graph.errors import AnalysisError, NotATraceError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.deferred import Deferred
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.loaders.sources import is_stream
from tracelens_graph.loading.again import Again
from tracelens_graph.loading.elsewhere import (
    Done,
    Leaves,
    Linked,
    Loaded,
    Order,
    abroad,
    fetched,
    in_processes,
    loaded,
    on_workers,
    to_bytes,
)
from tracelens_graph.loading.files import left_out_note
from tracelens_graph.loading.pairing import execution_traces_alone, paired
from tracelens_graph.output.files import temporary_folder
from tracelens_graph.schema import STORED
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import distinct_names

MEMORY_BYTES = 4 * 2**30
"""Size of the graphs of a set that are held in memory; the others are mapped from files."""


SPILLED_BYTES = 4 * 2**30
"""Files of so much together are written as graphs on the way, so that reading them again takes little time."""

_MOST_UNPACKED = 8
"""A graph takes up to so many times the size of its file, which may be packed."""


def load_core_set(
    files: Sequence[str],
    *,
    run: str = "",
    processes: int | None = None,
    scheduler: str | None = None,
    memory_bytes: int = MEMORY_BYTES,
    columns: Iterable[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    capture: Sequence[str] = (),
    identify: bool | str = False,
    leaves: Leaves | None = None,
    keeps: Callable[[Core], Any] | None = None,
) -> TraceSet:
    """The traces of some files as a set, in their order.

    What is no profiler trace is left out (`TraceSet.notes` say so), and so is what cannot be read (`TraceSet.broken`).
    Traces are linked with the execution traces among the files (`TraceSet.linked`).

    Args:
        files: paths of traces and saved graphs, and of execution traces of the same ranks; - for standard input.
        run: name of the run that they are of.
        processes: how many load at a time; by default one per core.
        scheduler: address of a Dask scheduler whose workers load, such as `tcp://node1:8786`. They have to see the
            files under the same paths.
        memory_bytes: graphs up to this size together are held in memory, the others mapped from temporary files.
        columns: load lean graphs with these columns only; see `Graph.lean`. None for all.
        progress: called with bytes of files done and bytes in all.
        capture: folders or traces of captures, with which each trace is joined.
        identify: infer what replayed kernels are that no capture describes; a path: as in this other trace.
        leaves: what is made of each graph where it is read. Members then are `Deferred`: graphs are read again by
            whoever needs one. Graphs that leave nothing (None), saved ones and pipes are held, as without it.
        keeps: what questions to the set will ask `Reader.once` for: made of each graph where it is read.

    Raises:
        TraceError: none of the files is a trace that can be read.
        AnalysisError: there is no such column, or another argument makes no sense.
        ClusterError, MissingExtraError: as `cluster.map_on_workers`.
    """
    _check_arguments(processes, scheduler, memory_bytes)
    lean = _lean_columns(columns)
    if lacking := execution_traces_alone(files):
        raise TraceError(lacking)
    pairs = paired(files)
    files = pairs.traces
    alone = len(files) == 1 and scheduler is None
    sizes = {file: os.path.getsize(file) if os.path.isfile(file) else 0 for file in files}
    graphs: dict[str, Graph | Deferred] = {}
    again = Again(processes, scheduler)
    errors: dict[str, TraceError] = {}
    links: dict[str, Linked] = {}
    remarks: dict[str, None] = {}
    lists: dict[str, list[Any]] = {}
    done = held = 0
    folder = temporary_folder()
    try:
        in_all = sum(sizes.values())
        is_spilled = in_all <= min(SPILLED_BYTES, shutil.disk_usage(folder.name).free / _MOST_UNPACKED)
        orders = {
            file: Order(
                file,
                Path(folder.name, f"{place}.tlg"),
                lean,
                pairs.of_trace.get(file),
                tuple(capture),
                identify,
                leaves,
                leaves is None or (scheduler is None and is_spilled),
                keeps,
            )
            for place, file in enumerate(files)
        }
        here = [file for file in files if alone or file.endswith(".tlg") or is_stream(file)]
        elsewhere = [order for file, order in orders.items() if file not in here]
        outcomes: Iterable[tuple[str, Loaded | Done | TraceError]] = chain(
            ((file, loaded(orders[file], progress if alone else None, one_of_several=len(files) > 1)) for file in here),
            on_workers(to_bytes, {one.file: abroad(one) for one in elsewhere}, scheduler)
            if scheduler
            else in_processes(elsewhere, processes),
        )
        for file, outcome in outcomes:
            done += sizes[file]
            if progress and not alone:
                progress(done, in_all)
            if isinstance(outcome, TraceError):
                errors[file] = outcome
                continue
            remarks.update(dict.fromkeys(outcome.notes))
            if outcome.linked is not None:
                links[file] = outcome.linked
            if isinstance(outcome, Done) and outcome.info is not None and leaves is not None:
                again.done[file] = replace(outcome, left=None, info=None), orders[file]
                info, left = _brief(outcome.info, lists), leaves.shared(outcome.left)
                graphs[file] = Deferred(info, left, partial(again.graph, file), file, again.answers)
                continue
            if isinstance(outcome, Done):
                core = fetched(outcome, orders[file], into_memory=held < memory_bytes)
            else:
                core = outcome.core
            core.info.metadata = {name: _shared(value, lists) for name, value in core.info.metadata.items()}
            graphs[file] = core
            held += core.columns.nbytes
        if not graphs:
            raise _nothing_read(files, errors)
    except BaseException:
        folder.cleanup()
        if os.path.exists(folder.name):  # there may be no descriptor left for that
            atexit.register(shutil.rmtree, folder.name, ignore_errors=True)
        raise
    names = dict(zip(files, distinct_names(files), strict=True))
    members = (TraceMember(graphs[file], names[file], run) for file in files if file in graphs)
    failed = [(file, errors[file]) for file in files if file in errors]
    no_traces = [file for file, error in failed if isinstance(error, NotATraceError)]
    broken = [str(error) for _, error in failed if not isinstance(error, NotATraceError)]
    refused = [f"{one.error}; loaded without" for one in links.values() if one.error]
    damaged = [one.damage for one in links.values() if one.damage]
    notes = [*left_out_note(no_traces), *pairs.notes, *refused, *damaged, *remarks]
    traces = TraceSet(members, notes, broken, _linked_note([one for one in links.values() if not one.error]))
    traces.no_traces = tuple(no_traces)
    weakref.finalize(traces, folder.cleanup)
    return traces


def _brief(info: TraceInfo, known: dict[str, list[Any]]) -> TraceInfo:
    """Facts about a trace, without what grows with its threads and process groups."""
    metadata = {name: _shared(value, known) for name, value in info.metadata.items()}
    if isinstance(job := metadata.get("distributedInfo"), dict):
        metadata["distributedInfo"] = {name: value for name, value in job.items() if name != "pg_config"}
    return replace(info, metadata=metadata, processes=[], threads=[])


def _shared(value: Any, known: dict[str, list[Any]]) -> Any:
    """A value of metadata in which lists that another rank has, too, are the same object.

    Each rank of a job names all ranks of its process groups, so without that, memory grows with the square of their
    number.
    """
    if isinstance(value, dict):
        return {name: _shared(one, known) for name, one in value.items()}
    return known.setdefault(json.dumps(value), value) if isinstance(value, list) else value


def _linked_note(links: Sequence[Linked]) -> str:
    """One line on traces that were linked with their execution traces."""
    if not links:
        return ""
    what = (
        "1 trace with its execution trace" if len(links) == 1 else f"{len(links):,} traces with their execution traces"
    )
    low, high = (f"{found(one.percent for one in links):.1f}" for found in (min, max))
    share = low if low == high else f"{low} to {high}"
    return f"linked {what}: {share} % of the names are equal ({'; '.join(sorted({one.method for one in links}))})"


def _check_arguments(processes: Any, scheduler: Any, memory_bytes: Any) -> None:
    if scheduler is not None and (not isinstance(scheduler, str) or not scheduler):
        raise AnalysisError(f"scheduler={scheduler!r:.60}: the address of a Dask scheduler is wanted, or None")
    if scheduler is not None and processes is not None:
        raise AnalysisError("processes= is for loading on this machine, scheduler= for loading on others: give one")
    if processes is not None and (type(processes) is not int or processes < 1):
        raise AnalysisError(f"processes={processes!r}: expected a whole number of at least 1, or None")
    if type(memory_bytes) not in (int, float) or not memory_bytes >= 0:
        raise AnalysisError(f"memory_bytes={memory_bytes!r}: expected a number of bytes of at least 0")


def _lean_columns(columns: Iterable[str] | None) -> tuple[str, ...] | None:
    """The columns that lean graphs keep; None for whole graphs."""
    if columns is None:
        return None
    lean = (columns,) if isinstance(columns, str) else tuple(columns)
    known = {prop.name for prop in STORED}
    for name in lean:
        if name not in known:
            raise AnalysisError(f"columns: a graph has no column {name!r}; {hint(str(name), known)}")
    return lean


def _nothing_read(files: Sequence[str], errors: Mapping[str, TraceError]) -> TraceError:
    broken = [errors[file] for file in files if not isinstance(errors[file], NotATraceError)]
    if len(files) == 1:
        return errors[files[0]]
    why = f"; {broken[0]}" if broken else ""
    return TraceError(f"none of the {len(files):,} files is a trace that can be read{why}")
