"""A graph in one file of its own, which opens by being mapped into memory.

Columns stand in the file as they do in memory, so opening costs the same for any number of events; what a
question does not touch is never read. The original events are in it too, compressed, so that `node.args` works
after the trace is gone.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import chain
from typing import Any, BinaryIO

import numpy as np

from tracelens_graph._version import __version__
from tracelens_graph.errors import NotATraceError, TraceError
from tracelens_graph.files import replacing
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core, TraceInfo
from tracelens_graph.graph.details import Details
from tracelens_graph.loaders.sources import Source, open_source
from tracelens_graph.schema import STORED
from tracelens_graph.stores.packed import DeferredDict, DeferredList, PackedDetails
from tracelens_graph.stores.sections import Sections, SectionWriter


def write_graph(core: Core, path: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> None:
    """Save a graph to one file; until it is whole, whatever stood there stays.

    Args:
        core: the graph.
        path: the file, by custom `*.tlg`.
        progress: called with blocks of events written and blocks in all.

    Raises:
        OutputError: it cannot be written.
        ChangedTraceError: the trace changed since it was loaded, so its events cannot be taken along.
    """
    with replacing(path) as file:
        writer = _begun(core, file)
        writer.blobs("events", _packed(core.details, progress))
        _finish(writer, core, core.trace_id)


def write_without_events(core: Core, file: BinaryIO, places: np.ndarray) -> None:
    """Write a graph whose original events stay in the trace's file, where `places` says."""
    writer = _begun(core, file)
    writer.array("events.places", places)
    _finish(writer, core, None)


def _begun(core: Core, file: BinaryIO) -> SectionWriter:
    """A file of sections with all of the graph but the original events."""
    writer = SectionWriter(file)
    for name, column in core.columns:
        writer.column(f"columns.{name}", column)
    writer.array("depends_on", core.depends_on)
    writer.strings("names", core.names)
    writer.strings("argsets", list(chain.from_iterable(core.argsets)))
    writer.json("autograd_flows", list(core.autograd_flows))
    writer.json("collectives", list(core.collective_args.items()))
    writer.array("events.first", core.details.first)
    writer.array("events.count", core.details.count)
    return writer


def _finish(writer: SectionWriter, core: Core, trace_id: str | None) -> None:
    there = {name for name, _ in core.columns}
    lacking = [prop.name for prop in STORED if prop.name not in there]
    facts = {"tool": __version__, "trace": trace_id, "info": asdict(core.info), "threads": core.threads}
    writer.finish({**facts, **({"lacking": lacking} if lacking else {})})


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
) -> Core:
    """The graph of a file that `write_graph` wrote.

    Args:
        source: a `Source`, or whatever `loaders.sources.open_source` takes.
        events_at: gives the original events where they stayed in the trace's file; called with the uid of the first
            event, the number of events and the place of each block.

    Raises:
        NotATraceError: it is no saved graph.
        TraceError: it is cut short, damaged or of another version; the message says which.
    """
    source = open_source(source)
    if source.packing != "graph":
        raise NotATraceError(f"{source.name}: is no saved graph")
    sections = Sections(_buffer(source), source.name)
    try:
        return _core(sections, source.name, events_at)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise sections.damaged("content") from None


def _buffer(source: Source) -> bytes | mmap.mmap:
    with source.open() as stream:
        if source.in_memory:
            return stream.read()
        try:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise TraceError(f"{source.name}: cannot be mapped into memory: {error}") from None


def _core(sections: Sections, name: str, events_at: Callable[..., Details] | None) -> Core:
    facts = sections.facts
    first, count = sections.array("events.first"), sections.array("events.count")
    details: Details
    if facts["trace"] is not None:
        details = PackedDetails(
            first=first,
            count=count,
            blocks=sections.array("events"),
            ends=sections.array("events.ends"),
            trace_id=facts["trace"],
            name=name,
        )
    elif events_at is not None:
        details = events_at(first, count, sections.array("events.places"))
    else:
        raise TraceError(f"{name}: is a cached graph without its events; name the trace, with --cache")
    texts = sections.strings("argsets")
    return Core(
        columns=_columns(sections),
        names=sections.strings("names"),
        threads=[(pid, tid) for pid, tid in facts["threads"]],
        argsets=list(zip(*(texts[part::4] for part in range(4)), strict=True)),
        autograd_flows=DeferredList(lambda: [tuple(flow) for flow in sections.json("autograd_flows")]),
        depends_on=sections.array("depends_on"),
        collectives=DeferredDict(lambda: dict(sections.json("collectives"))),
        info=TraceInfo(**facts["info"]),
        details=details,
    )


def _columns(sections: Sections) -> Columns:
    stored = [prop for prop in STORED if prop.name not in sections.facts.get("lacking", ())]
    columns: dict[str, Any] = {prop.name: sections.array(f"columns.{prop.name}") for prop in stored}
    size = (len(columns["uid"]),)
    for prop in stored:
        column = columns[prop.name]
        if column.shape != size or not np.can_cast(column.dtype, prop.dtype):
            raise sections.damaged(prop.name)
    return Columns(columns)
