"""One trace read elsewhere, in another process or by a worker of a Dask cluster, and how its graph comes back.

From a process it comes as a file of a temporary folder that only its owner may enter; workers of a cluster, which may
have other disks, send the bytes of that file. Or what the graph leaves comes in its place.
"""

from __future__ import annotations

import os
import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, Protocol

from tracelens_graph.errors import LinkError, OutputError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.loaders.sources import Source
from tracelens_graph.loading.captures import with_captures
from tracelens_graph.loading.identified import identified
from tracelens_graph.loading.one import link_damage, linked
from tracelens_graph.loading.profile import load_profile
from tracelens_graph.output.files import replacing, temporary_folder
from tracelens_graph.utils.processes import map_in_processes


class Leaves(Protocol):
    """What is made of each graph where it is read; can be sent to a process."""

    def __call__(self, core: Graph, /) -> Any:
        """What a graph leaves; None for nothing."""

    def shared(self, left: Any) -> Any:
        """The same, with what other graphs left, too, held once."""


@dataclass(frozen=True)
class Order:
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
class Done:
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
    linked: Linked | None
    notes: tuple[str, ...]
    left: Any = None
    info: TraceInfo | None = None


class Linked(NamedTuple):
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


class Loaded(NamedTuple):
    """A graph, what became of its execution trace, and notes on its captures."""

    core: Graph
    linked: Linked | None
    notes: tuple[str, ...]


def loaded(
    order: Order,
    progress: Callable[[int, int], None] | None = None,
    processes: int = 0,
    one_of_several: bool = False,
) -> Loaded | TraceError:
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
    return Loaded(core, found, tuple(notes))


def _with_link(core: Graph, et: str) -> tuple[Graph, Linked]:
    try:
        core = linked(core, et)
    except (LinkError, TraceError) as error:
        return core, Linked(error=str(error))
    from tracelens_graph.execution.link import link_of

    link = link_of(core)
    assert link is not None
    return core, Linked(link.equal_names_percent, link.method, damage=link_damage(core))


def in_processes(orders: Sequence[Order], processes: int | None) -> Iterator[tuple[str, Done | TraceError]]:
    """File and graph, or why there is none, from processes of this machine."""
    files = [order.file for order in orders]
    return zip(files, map_in_processes(_to_file, orders, processes, lambda order: order.file), strict=True)


def on_workers(function: Callable[[Any], Any], items: Mapping[str, Any], scheduler: str) -> Iterator[tuple[str, Any]]:
    """File and what a function makes of it, or why it does not, from workers of a Dask cluster."""
    from tracelens_graph.loading.cluster import map_on_workers

    return map_on_workers(function, items, scheduler)


def abroad(order: Order) -> Order:
    """An order for another machine."""
    return replace(
        order,
        file=os.path.abspath(order.file),
        et=order.et and os.path.abspath(order.et),
        capture=tuple(map(os.path.abspath, order.capture)),
        identify=os.path.abspath(order.identify) if isinstance(order.identify, str) else order.identify,
    )


def keep(order: Order, core: Core, make: Callable[[Core], Any]) -> Any:
    """What a function makes of a graph, kept for further questions beside the set's other temporary files."""
    made = make(core)
    with suppress(OutputError), replacing(_place_of(order, make), private=True) as file:
        file.write(zlib.compress(pickle.dumps(made), 1))  # another machine does not see the folder
    return made


def kept(order: Order, make: Callable[[Core], Any]) -> Any:
    """What a function made of a graph, as it was kept.

    Raises:
        OSError: it was not kept, or on another machine.
    """
    return pickle.loads(zlib.decompress(_place_of(order, make).read_bytes()))


def _place_of(order: Order, make: Callable[[Core], Any]) -> Path:
    return order.target.with_suffix(f".{make.__name__}")


def _to_file(order: Order) -> Done | TraceError:
    """Write the graph of a file to another one; why there is none, if there is none."""
    from tracelens_graph.loaders.kineto.details import FileDetails
    from tracelens_graph.stores.graph_file import write_graph, write_without_events

    read = loaded(order, processes=1)
    if isinstance(read, TraceError):
        return read
    core = read.core
    left = None if order.leaves is None else order.leaves(core)
    if left is not None and order.keeps is not None:
        keep(order, core, order.keeps)
    info = None if left is None else core.info
    source = Source(order.file, path=Path(order.file).absolute())
    if left is not None and not order.writes:
        return Done(None, source, *read[1:], left, info)
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
    return Done(order.target, source, *read[1:], left, info)


def to_bytes(order: Order) -> Done | TraceError:
    """As `_to_file`, with the bytes of the file that would be written."""
    with temporary_folder() as folder:
        target = Path(folder, "graph.tlg")
        done = _to_file(replace(order, target=target))
        return replace(done, written=target.read_bytes()) if isinstance(done, Done) and done.info is None else done


def fetched(done: Done, order: Order, into_memory: bool) -> Graph:
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
