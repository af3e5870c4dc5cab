"""A graph in one file of its own, which opens by being mapped into memory.

Columns stand in the file as they do in memory, so opening costs the same for any number of events; what a
question does not touch is never read. The original events are in it too, compressed, so that `node.args` works
after the trace is gone. Only its owner may read the file: a trace may hold secrets.

Whatever is read is verified first, by a checksum and by what must hold of every graph. So a saved graph gives the
answers of the graph that was saved, or none.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from typing import Any, BinaryIO, TypedDict

import msgspec
import numpy as np

from tracelens_graph._version import __version__
from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.execution.link import link_of
from tracelens_graph.graph.columns import ALWAYS, Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import Details
from tracelens_graph.graph.flows import Flow
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.loaders.sources import Source, open_source
from tracelens_graph.output.files import replacing
from tracelens_graph.schema import STORED
from tracelens_graph.stores.packed import CheckedColumns, DeferredDict, DeferredList, PackedDetails
from tracelens_graph.stores.parts import (
    read_collectives,
    read_link,
    read_programs,
    write_collectives,
    write_link,
    write_programs,
)
from tracelens_graph.stores.sections import Sections, SectionWriter
from tracelens_graph.utils.arrays import Rows

MAPPED_FROM = 8 * 2**20
"""Bytes of a file beyond which it is mapped. Smaller ones are read: that takes a few ms, and whatever is written over
them later does no harm. A mapped file that becomes shorter ends the process."""

_TOO_LARGE = 2**63
"""The first whole number that does not fit into columns."""


def write_graph(core: Core, path: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> None:
    """Save a graph to one file, for its owner alone; until it is whole, whatever stood there stays.

    Like the trace, the file may hold what not everybody should see. So it gets mode 0600, also where a file that others
    could read stood before; whoever wants to share it gives them access to it.

    Args:
        progress: called with blocks of events written and blocks in all.

    Raises:
        OutputError: it cannot be written.
        ChangedTraceError: the trace changed since it was loaded, so its events cannot be taken along.
    """
    with replacing(path, mode=0o600) as file:
        writer = _begun(core, file)
        writer.blobs("events", _packed(core.details, progress))
        _finish(writer, core, core.trace_id)


def write_without_events(core: Core, file: BinaryIO, places: Rows) -> None:
    """Write a graph whose original events stay in the trace's file, where `places` says."""
    writer = _begun(core, file)
    writer.array("events.places", places)
    _finish(writer, core, None)


def _begun(core: Core, file: BinaryIO) -> SectionWriter:
    """A file of sections with all of the graph but the original events."""
    writer = SectionWriter(file)
    for name, column in core.columns:
        writer.array(f"columns.{name}", column)
    writer.array("depends_on", core.depends_on)
    writer.strings("names", core.names)
    writer.strings("argsets", list(chain.from_iterable(core.argsets)))
    writer.strings("instructions", core.instructions)
    writer.json("autograd_flows", list(core.autograd_flows))
    write_collectives(writer, core.collective_args)
    writer.array("events.first", core.details.first)
    writer.array("events.count", core.details.count)
    link = link_of(core)
    if link is not None:
        write_link(writer, link)
    if core.programs is not None:
        write_programs(writer, core.programs)
    return writer


def _finish(writer: SectionWriter, core: Core, trace_id: str | None) -> None:
    there = core.columns.names
    lacking = [prop.name for prop in STORED if prop.name not in there]
    facts = {"tool": __version__, "trace": trace_id, "info": asdict(core.info), "threads": core.threads}
    programs = {} if core.programs is None else {"programs": True}
    writer.finish({**facts, **programs, "lacking": lacking, "linked": core.link is not None})


def _packed(details: Details, progress: Callable[[int, int], None] | None) -> Iterator[bytes]:
    from isal import isal_zlib

    blocks = len(details.first)
    for done, text in enumerate(details.texts(range(blocks)), 1):
        yield isal_zlib.compress(text, 1)
        if progress:
            progress(done, blocks)


def read_graph(
    source: Source | str | os.PathLike[str] | bytes,
    events_at: Callable[[np.ndarray, np.ndarray, np.ndarray], Details] | None = None,
    *,
    verified: bool = False,
) -> Graph:
    """The graph of a file that `write_graph` wrote.

    Args:
        source: a `Source`, or whatever `loaders.sources.open_source` takes.
        events_at: gives the original events where they stayed in the trace's file; called with the uid of the first
            event, the number of events and the place of each block.
        verified: whether all of it is to be compared with its checksums now, and not when it is read.

    Raises:
        NotATraceError: it is no saved graph.
        TraceError: it is cut short, damaged or of another version; the message says which.
    """
    source = open_source(source)
    if source.packing != "graph":
        raise NotATraceError(f"{source.name}: is no saved graph")
    sections = Sections(_buffer(source), source.name)
    if verified:
        sections.verify()
    return _core(sections, source.name, events_at)


def _buffer(source: Source) -> bytes | mmap.mmap:
    with source.open() as stream:
        if source.in_memory or source.stored_size <= MAPPED_FROM:
            return stream.read()
        try:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise TraceError(f"{source.name}: cannot be mapped into memory: {error}") from None


class _Device(TypedDict, total=False):
    id: int | str | bool


class _Metadata(TypedDict, total=False):
    deviceProperties: list[_Device]
    distributedInfo: dict[str, Any]
    generator: str


@dataclass
class _Info(TraceInfo):
    """What `TraceInfo` says of types, and what loaders promise besides."""

    metadata: _Metadata = field(default_factory=_Metadata)  # type: ignore[assignment]
    processes: list[tuple[Any, Any, Any]] = field(default_factory=list)  # type: ignore[assignment]
    threads: list[tuple[Any, Any, Any]] = field(default_factory=list)  # type: ignore[assignment]


_ThreadPart = int | float | str | bool


@dataclass(frozen=True)
class _Facts:
    """What the index of a graph's file holds beside its sections."""

    trace: str | None
    info: dict[str, Any]
    threads: list[tuple[_ThreadPart, _ThreadPart]]
    lacking: list[str]
    linked: bool = False
    programs: bool = False


def _core(sections: Sections, name: str, events_at: Callable[..., Details] | None) -> Graph:
    facts, info = _facts(sections)
    names, texts = sections.strings("names"), sections.json_strings("argsets")
    if len(texts) % 4:
        raise sections.damaged("argsets")
    instructions = sections.json_strings("instructions")
    if instructions and len(instructions) != len(texts) // 4:
        raise sections.damaged("instructions")
    threads = len(facts.threads)  # what is deferred must not keep the facts
    tables = {"names": len(names), "threads": threads, "argsets": len(texts) // 4}
    there = [prop.name for prop in STORED if prop.name not in facts.lacking]
    columns = CheckedColumns(sections, there, tables)
    depends_on = sections.array("depends_on")
    if depends_on.shape[1:] != (2,) or ((depends_on < 0) | (depends_on >= columns.rows)).any():
        raise sections.damaged("depends_on")
    return Graph(
        columns=Columns(columns),
        names=names,
        threads=facts.threads,
        argsets=list(zip(*(texts[part::4] for part in range(4)), strict=True)),
        autograd_flows=DeferredList(lambda: _flows(sections, threads)),
        depends_on=depends_on,
        collective_args=DeferredDict(lambda: read_collectives(sections)),
        info=TraceInfo(**{**facts.info, "replays": info.replays}),
        details=_details(sections, facts.trace, name, events_at),
        link=read_link(sections, columns.rows) if facts.linked else None,
        programs=read_programs(sections, columns["kind"]) if facts.programs else None,
        instructions=instructions,
    )


def _facts(sections: Sections) -> tuple[_Facts, _Info]:
    try:
        facts = msgspec.convert(sections.take_facts(), _Facts)
        info = msgspec.convert(facts.info, _Info)
    except msgspec.ValidationError:
        raise sections.damaged("facts") from None
    numbers = [value for value in vars(info).values() if isinstance(value, int)]
    known = facts.info.keys() <= {one.name for one in fields(TraceInfo)} and info.events >= 0
    if not known or ALWAYS.intersection(facts.lacking) or not all(-_TOO_LARGE <= n < _TOO_LARGE for n in numbers):
        raise sections.damaged("facts")
    return facts, info


def _details(sections: Sections, trace_id: str | None, name: str, events_at: Callable[..., Details] | None) -> Details:
    first, count = sections.array("events.first"), sections.array("events.count")
    if trace_id is None and events_at is None:
        raise TraceError(f"{name}: is a cached graph without its events; name the trace, with --cache")
    if first.ndim != 1 or first.shape != count.shape or not _in_order(first, count):
        raise sections.damaged("events.first")
    if trace_id is not None:
        blocks = sections.blobs("events")
        if len(blocks.ends) != len(first):
            raise sections.damaged("events.ends")
        return PackedDetails(first, count, blocks, trace_id, name)
    places = sections.array("events.places")
    if places.shape != (len(first), 3) or not _in_order(places[:, 0], places[:, 1]):
        raise sections.damaged("events.places")
    assert events_at is not None
    return events_at(first, count, places)


def _in_order(begin: np.ndarray, size: np.ndarray) -> bool:
    """Whether stretches follow one another, with gaps or without."""
    within = not len(begin) or (min(begin.min(), size.min()) >= 0 and max(begin.max(), size.max()) < _TOO_LARGE // 2)
    return bool(within) and bool((begin[1:] >= (begin + size)[:-1]).all())


def _flows(sections: Sections, threads: int) -> list[Flow]:
    flows = sections.json("autograd_flows", list[Flow])
    # An arrow that leads nowhere is said to be of thread 0, also where there are no threads.
    if not all(0 <= thread < max(threads, 1) and -_TOO_LARGE <= time < _TOO_LARGE for _, _, thread, time in flows):
        raise sections.damaged("autograd_flows")
    return flows
