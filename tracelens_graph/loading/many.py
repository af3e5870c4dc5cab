"""Loading several traces at once, in as many processes as there are cores, or on the workers of a Dask cluster.

Graphs come back from the processes as files of a temporary folder that only its owner may enter. Up to a stated size
they are read into memory; those beyond it stay mapped from their files, which vanish with the set. Workers of a
cluster, which may have other disks, send the bytes of these files.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import shutil
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, Protocol

from tracelens_graph.errors import AnalysisError, LinkError, NotATraceError, OutputError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.graph.trace_set import Deferred, Question, Reader, TraceMember, TraceSet
from tracelens_graph.loaders.sources import Source, is_stream
from tracelens_graph.loading.captures import with_captures
from tracelens_graph.loading.files import left_out_note
from tracelens_graph.loading.identified import identified
from tracelens_graph.loading.one import link_damage, linked
from tracelens_graph.loading.pairing import execution_traces_alone, paired
from tracelens_graph.loading.profile import load_profile
from tracelens_graph.output.files import replacing, temporary_folder
from tracelens_graph.schema import STORED
from tracelens_graph.utils.processes import map_in_processes
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import distinct_names

MEMORY_BYTES = 4 * 2**30
"""Size of the graphs of a set that are held in memory; the others are mapped from files."""


AGAIN_BYTES = 64 * 2**20
"""Size of graphs that were read again and are kept, in case they are asked for once more."""

_LEAST_BYTES = 2**20
"""What a graph takes beside its columns."""

SPILLED_BYTES = 4 * 2**30
"""Files of so much together are written as graphs on the way, so that reading them again takes no time."""


class Leaves(Protocol):
    """What is made of each graph where it is read; can be sent to a process."""

    def __call__(self, core: Graph, /) -> Any:
        """What a graph leaves; None for nothing."""

    def shared(self, left: Any) -> Any:
        """The same, with what other graphs left, too, held once."""


@dataclass(frozen=True)
class _Order:
    """A file to load, its execution trace and captures, the columns to keep, and the file that its graph goes to.

    Where there is something that graphs leave (`leaves`), that comes back in the place of the graph, which is written
    only if `writes` says so. What `keeps` makes of the graph is kept for questions that are asked later.
    """

    file: str
    target: Path
    columns: tuple[str, ...] | None
    et: str | None = None
    capture: tuple[str, ...] = ()
    identify: bool | str = False
    leaves: Leaves | None = None
    writes: bool = True
    keeps: Callable[[Core], Any] | None = None


@dataclass(frozen=True)
class _Done:
    """A graph that was loaded elsewhere.

    Attributes:
        written: the file that it was written to, or the bytes of that file; None for neither.
        source: the trace, as it was when it was loaded.
        linked: what became of its execution trace.
        notes: on its captures.
        left: what the graph left; None where the graph itself comes back.
        info: facts about the trace, where it does not.
    """

    written: Path | bytes | None
    source: Source
    linked: _Linked | None
    notes: tuple[str, ...]
    left: Any = None
    info: TraceInfo | None = None


class _Linked(NamedTuple):
    """What became of the execution trace of a trace.

    Attributes:
        percent: share of equal names.
        method: how the two were joined.
        error: why they were not linked; empty if they were.
        damage: what is broken in the execution trace; empty for nothing.
    """

    percent: float = 0.0
    method: str = ""
    error: str = ""
    damage: str = ""


class _Loaded(NamedTuple):
    """A graph, what became of its execution trace, and notes on its captures."""

    core: Graph
    linked: _Linked | None
    notes: tuple[str, ...]


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
    again = _Again(processes, scheduler)
    errors: dict[str, TraceError] = {}
    links: dict[str, _Linked] = {}
    remarks: dict[str, None] = {}
    lists: dict[str, list[Any]] = {}
    done = held = 0
    folder = temporary_folder()
    try:
        orders = {
            file: _Order(
                file,
                Path(folder.name, f"{place}.tlg"),
                lean,
                pairs.of_trace.get(file),
                tuple(capture),
                identify,
                leaves,
                leaves is None or (scheduler is None and sum(sizes.values()) <= SPILLED_BYTES),
                keeps,
            )
            for place, file in enumerate(files)
        }
        here = [file for file in files if alone or file.endswith(".tlg") or is_stream(file)]
        elsewhere = [order for file, order in orders.items() if file not in here]
        outcomes: Iterable[tuple[str, _Loaded | _Done | TraceError]] = chain(
            (
                (file, _loaded(orders[file], progress if alone else None, one_of_several=len(files) > 1))
                for file in here
            ),
            _on_workers(_to_bytes, {one.file: _abroad(one) for one in elsewhere}, scheduler)
            if scheduler
            else _in_processes(elsewhere, processes),
        )
        for file, outcome in outcomes:
            done += sizes[file]
            if progress and not alone:
                progress(done, sum(sizes.values()))
            if isinstance(outcome, TraceError):
                errors[file] = outcome
                continue
            remarks.update(dict.fromkeys(outcome.notes))
            if outcome.linked is not None:
                links[file] = outcome.linked
            if isinstance(outcome, _Done) and outcome.info is not None and leaves is not None:
                again.done[file] = outcome, orders[file]
                info, left = _brief(outcome.info, lists), leaves.shared(outcome.left)
                graphs[file] = Deferred(info, left, partial(again.graph, file), file, again.answers)
                continue
            if isinstance(outcome, _Done):
                core = _fetched(outcome, orders[file], into_memory=held < memory_bytes)
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


class _Again:
    """Graphs that are read again when they are asked for; the last ones are kept.

    Attributes:
        done: what became of each file when it was read first.
    """

    def __init__(self, processes: int | None, scheduler: str | None) -> None:
        self._processes, self._scheduler = processes, scheduler
        self.done: dict[str, tuple[_Done, _Order]] = {}
        self._kept: dict[str, tuple[Graph, int]] = {}
        self._bytes = 0

    def answers(self, question: Question, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """File and answer of some graphs, each where it is read; what was written on the way is read here.

        Raises:
            TraceError: one of them cannot be read any more.
        """
        asked = {file: _Asked(self.done[file][1], question, one) for file, one in given.items()}
        away = {file: one for file, one in asked.items() if self.done[file][0].written is None}
        for file, one in asked.items():
            if file not in away:
                yield file, question(_KeptReader(one.order, partial(self.graph, file)), one.given)
        if self._scheduler is not None:
            abroad = {file: replace(one, order=_abroad(one.order)) for file, one in away.items()}
            found = _on_workers(_answer, abroad, self._scheduler)
        else:
            answers = map_in_processes(_answer, list(away.values()), self._processes, lambda one: one.order.file)
            found = zip(away, answers, strict=True)
        for file, answer in found:
            if isinstance(answer, TraceError):
                raise answer
            yield file, answer

    def graph(self, file: str) -> Graph:
        """The graph of a file.

        Raises:
            TraceError: it cannot be read any more.
        """
        done, order = self.done[file]
        if order.file in self._kept:
            core, size = self._kept.pop(order.file)
        else:
            loaded = _loaded(order) if done.written is None else _fetched(done, order, into_memory=False)
            if isinstance(loaded, TraceError):
                raise loaded
            core = loaded if isinstance(loaded, Graph) else loaded.core
            size = core.columns.nbytes + _LEAST_BYTES
            self._bytes += size
        self._kept[order.file] = core, size  # behind all others
        while len(self._kept) > 1 and self._bytes > AGAIN_BYTES:
            self._bytes -= self._kept.pop(next(iter(self._kept)))[1]
        return core


def _shared(value: Any, known: dict[str, list[Any]]) -> Any:
    """A value of metadata in which lists that another rank has, too, are the same object.

    Each rank of a job names all ranks of its process groups, so without that, memory grows with the square of their
    number.
    """
    if isinstance(value, dict):
        return {name: _shared(one, known) for name, one in value.items()}
    return known.setdefault(json.dumps(value), value) if isinstance(value, list) else value


def _linked_note(links: Sequence[_Linked]) -> str:
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
        raise AnalysisError(f"processes={processes!r}: a whole number from 1 on is wanted, or None")
    if type(memory_bytes) not in (int, float) or not memory_bytes >= 0:
        raise AnalysisError(f"memory_bytes={memory_bytes!r}: a number of bytes from 0 on is wanted")


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


def _loaded(
    order: _Order,
    progress: Callable[[int, int], None] | None = None,
    processes: int = 0,
    one_of_several: bool = False,
) -> _Loaded | TraceError:
    """The graph of a file, or why there is none."""
    found = None
    notes: list[str] = []
    try:
        core = load_profile(order.file, progress=progress, processes=processes or None)
        if order.capture:
            core = with_captures(core, order.capture, notes.append)
        if order.identify:
            core = identified(core, order.identify, notes.append)
        if order.et is not None:
            core, found = _with_link(core, order.et)
        if order.columns is not None:
            core = changed(core.lean(order.columns), link=None)  # arguments from there are in the columns
        if one_of_several:  # damage of a saved graph has to show now, so that the set goes on without it
            core.read_all()
    except TraceError as error:
        return error
    return _Loaded(core, found, tuple(notes))


def _with_link(core: Graph, et: str) -> tuple[Graph, _Linked]:
    try:
        core = linked(core, et)
    except (LinkError, TraceError) as error:
        return core, _Linked(error=str(error))
    from tracelens_graph.execution.link import link_of

    link = link_of(core)
    assert link is not None
    return core, _Linked(link.equal_names_percent, link.method, damage=link_damage(core))


def _in_processes(orders: Sequence[_Order], processes: int | None) -> Iterator[tuple[str, _Done | TraceError]]:
    """File and graph, or why there is none, from processes of this machine."""
    files = [order.file for order in orders]
    return zip(files, map_in_processes(_to_file, orders, processes, lambda order: order.file), strict=True)


def _on_workers(function: Callable[[Any], Any], items: Mapping[str, Any], scheduler: str) -> Iterator[tuple[str, Any]]:
    """File and what a function makes of it, or why it does not, from workers of a Dask cluster."""
    from tracelens_graph.loading.cluster import map_on_workers

    return map_on_workers(function, items, scheduler)


def _abroad(order: _Order) -> _Order:
    """An order for another machine."""
    return replace(
        order,
        file=os.path.abspath(order.file),
        et=order.et and os.path.abspath(order.et),
        capture=tuple(map(os.path.abspath, order.capture)),
        identify=os.path.abspath(order.identify) if isinstance(order.identify, str) else order.identify,
    )


@dataclass(frozen=True)
class _Asked:
    """A file, and what its graph is asked."""

    order: _Order
    question: Question
    given: Any


def _answer(asked: _Asked) -> Any:
    """What a graph answers, or why it cannot be read."""
    try:
        return asked.question(_KeptReader(asked.order, partial(_read, asked.order)), asked.given)
    except TraceError as error:
        return error


def _read(order: _Order) -> Graph:
    loaded = _loaded(order, processes=1)
    if isinstance(loaded, TraceError):
        raise loaded
    return loaded.core


class _KeptReader(Reader):
    """A graph whose kept parts lie beside the set's other temporary files.

    On a machine that does not see these, they are made of the graph again.
    """

    def __init__(self, order: _Order, read: Callable[[], Core]) -> None:
        super().__init__(read)
        self._order = order

    def once(self, make: Callable[[Core], Any]) -> Any:
        """What a function makes of the graph, read back where it was kept."""
        file = self._order.target.with_suffix(f".{make.__name__}")
        try:
            return pickle.loads(zlib.decompress(file.read_bytes()))
        except OSError:
            return _keep(self._order, self.core, make)


def _keep(order: _Order, core: Core, make: Callable[[Core], Any]) -> Any:
    made = make(core)
    target = order.target.with_suffix(f".{make.__name__}")
    with suppress(OutputError), replacing(target, private=True) as file:
        file.write(zlib.compress(pickle.dumps(made), 1))  # another machine does not see the folder
    return made


def _to_file(order: _Order) -> _Done | TraceError:
    """Write the graph of a file to another one; why there is none, if there is none."""
    from tracelens_graph.loaders.kineto.details import FileDetails
    from tracelens_graph.stores.graph_file import write_graph, write_without_events

    loaded = _loaded(order, processes=1)
    if isinstance(loaded, TraceError):
        return loaded
    core = loaded.core
    left = None if order.leaves is None else order.leaves(core)
    if left is not None and order.keeps is not None:
        _keep(order, core, order.keeps)
    info = None if left is None else core.info
    source = Source(order.file, path=Path(order.file).absolute())
    if left is not None and not order.writes:
        return _Done(None, source, *loaded[1:], left, info)
    places = core.details.places()
    try:
        if places is None or not isinstance(core.details, FileDetails):
            write_graph(core, order.target)
        else:
            source = core.details.source
            with replacing(order.target, private=True) as file:
                write_without_events(core, file, places)
    except TraceError as error:  # a saved graph by another name, whose damage shows when it is read
        return error
    return _Done(order.target, source, *loaded[1:], left, info)


def _to_bytes(order: _Order) -> _Done | TraceError:
    """As `_to_file`, with the bytes of the file that would be written."""
    with temporary_folder() as folder:
        target = Path(folder, "graph.tlg")
        done = _to_file(replace(order, target=target))
        return replace(done, written=target.read_bytes()) if isinstance(done, _Done) and done.info is None else done


def _fetched(done: _Done, order: _Order, into_memory: bool) -> Graph:
    """A graph that was loaded elsewhere; its original events are read from the trace itself."""
    from tracelens_graph.loaders.kineto.details import FileDetails
    from tracelens_graph.stores.graph_file import read_graph

    source, written = done.source, done.written
    assert written is not None
    source.name = order.file
    if into_memory:
        content = written.read_bytes() if isinstance(written, Path) else written
        core = read_graph(content, partial(FileDetails.at, source))
        order.target.unlink(missing_ok=True)
    else:
        if isinstance(written, bytes):
            with replacing(order.target, private=True) as file:
                file.write(written)
        core = read_graph(order.target, partial(FileDetails.at, source))
    core.info.source = source.name
    core.names = list(map(intern, core.names))  # the ranks of a job have most of them in common
    return core
