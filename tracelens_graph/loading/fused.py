"""A file into which the traces of several ranks were fused, as TraceLens's TraceFuse does: its ranks as files again.

TraceFuse notes the rank in the arguments of every event. It moves processes, ids of arrows and ids of launches of
rank n by n times a power of ten that is larger than all of them, so that they stay apart.
"""

from __future__ import annotations

import atexit
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tracelens_graph.errors import MissingExtraError, TraceError
from tracelens_graph.frameworks import NSYS, ROCPROF
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.loaders.kineto.chunks import Walker
from tracelens_graph.loaders.parts import PARTS, is_part
from tracelens_graph.loaders.sources import Source, is_stream, open_source
from tracelens_graph.output.files import temporary_folder
from tracelens_graph.utils.texts import stem

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

_LOOKED_AT = 16
"""Events at the beginning of a file that all have to name a rank."""

_LINKS = ("correlation", "External id")
_BETWEEN = re.compile(r"[\s,]*+")
Event = dict[str, Any]

_WHOLE: dict[str, tuple[str, int]] = {}
"""File of one rank -> the file into which it was fused, and the rank."""


def with_ranks_apart(files: Iterable[str], tell: Callable[[str], None] | None = None) -> list[str]:
    """The files, each that holds fused ranks replaced by one per rank, which vanish with this process.

    Args:
        files: paths.
        tell: called with a line on what was repaired in a fused file, and on what was lost of it.
    """
    apart: list[str] = []
    for file in files:
        parts = _parts(file, os.stat(file).st_mtime_ns) if is_fused(file) else _Parts([file])
        apart += parts.files
        if tell is not None and parts.note:
            tell(parts.note)
    return apart


def whole_of(file: str) -> tuple[str, int] | None:
    """The file from which this process took that of one rank, and the rank; None for any other file."""
    return _WHOLE.get(file)


def is_fused(file: str) -> bool:
    """Whether every event at the beginning of a trace in JSON names the rank that it is of."""
    if is_stream(file) or not os.path.isfile(file) or is_part(file):
        return False
    try:
        return _beginning(open_source(file)) is not None
    except (TraceError, MissingExtraError):
        return False


def is_one_recording(file: str) -> bool:
    """Whether the ranks in a file are processes that another profiler recorded together, and so one graph, too."""
    return (beside := _beginning(open_source(file))) is not None and _is_recording(beside)


def _is_recording(beside: Mapping[str, Any]) -> bool:
    return beside.get("profiler") in (NSYS.profiler, ROCPROF.profiler)


def check_one_rank(source: Source) -> None:
    """Raise TraceError for a trace into which several ranks were fused.

    Read as one, events of one rank would be launched, and their gaps be filled, by those of another one. A recording of
    another profiler holds processes with numbers of their own, and is one graph.
    """
    if source.packing == "sqlite" or is_part(source.name):
        return
    if (beside := _beginning(source)) is None or _is_recording(beside):
        return
    if len(ranks := _read(source)[0]) > 1:
        raise TraceError(
            f"{source.name}: the traces of {len(ranks):,} ranks ({', '.join(map(str, list(ranks)[:_LOOKED_AT]))}) are "
            "fused in it, and one trace is wanted; give the trace of one rank, or the path of this file to report, "
            "ranks or load_set(), which take it apart"
        )


def _beginning(source: Source) -> dict[str, Any] | None:
    """The keys before the events of a trace where every event at its beginning names the rank that it is of."""
    if source.packing in ("pickle", "graph"):
        return None
    try:
        with source.open() as stream:
            walker = Walker(stream, source.name)
            walker.read_head()
            head = walker.following().decode("utf-8", "replace")
    except TraceError:
        return None
    ranks = [_rank(event) for event in _first_events(head)]
    return walker.head if len(ranks) > 1 and None not in ranks else None


def _first_events(text: str) -> Iterator[Event]:
    """The first events with a duration, as far as the text goes."""
    decoder, found, at = json.JSONDecoder(), 0, 0
    while found < _LOOKED_AT:
        between = _BETWEEN.match(text, at)
        try:
            event, at = decoder.raw_decode(text, between.end() if between else at)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict) and event.get("ph") == "X":
            found += 1
            yield event


def _rank(event: Event) -> int | None:
    args = event.get("args")
    rank = args.get("rank") if isinstance(args, dict) else None
    if isinstance(rank, str) and rank.isdecimal() and len(rank) < 10:
        return int(rank)
    return rank if type(rank) is int and rank >= 0 else None


class _Events:
    """The events of a trace as they stand in it, repaired as those of other traces."""

    def __init__(self) -> None:
        self.forget()

    def chunk(self, text: memoryview, offset: int) -> None:
        self.events += [event for event in msgspec.json.decode(text) if isinstance(event, dict)]

    def broken(self, text: bytes, offset: int, last: bool) -> bytes | None:
        from tracelens_graph.loaders.kineto.repair import repair_events

        repaired = repair_events(text, last=last)
        self.events += map(msgspec.json.decode, repaired.events)
        self.repairs.update(repaired.counts)
        self.lost_events += repaired.lost_events
        self.lost_bytes += repaired.lost_bytes
        return repaired.tail

    def forget(self) -> None:
        self.events: list[Event] = []
        self.repairs: Counter[str] = Counter()
        self.lost_events = self.lost_bytes = 0


class _Parts(NamedTuple):
    """The files of the ranks of a fused one, and what was repaired in it and lost of it.

    The folder is kept here: processes that are forked forget what this one does at its end, and a folder that nobody
    knows is deleted.
    """

    files: list[str]
    note: str = ""
    folder: TemporaryDirectory[str] | None = None


@cache
def _parts(file: str, _: int) -> _Parts:
    """Files of the ranks of a fused one, or the file itself where it holds one only, or cannot be read."""
    folder: TemporaryDirectory[str] = temporary_folder(before=PARTS)
    try:
        parts, damage = _written(open_source(file), Path(folder.name))
    except TraceError:
        parts, damage = {}, ""
    if len(parts) < 2:
        folder.cleanup()
        return _Parts([file])
    atexit.register(folder.cleanup)
    for rank, part in parts.items():
        _WHOLE[str(part)] = file, rank
    return _Parts([str(part) for part in parts.values()], f"{file}: {damage}" if damage else "", folder)


def _written(source: Source, folder: Path) -> tuple[dict[int, Path], str]:
    """A file in a folder for each rank in one, and what was repaired in that and lost of it.

    Raises:
        TraceError: it cannot be read.
    """
    if source.packing == "sqlite" and source.path is not None:
        from tracelens_graph.loaders.reports import links_to_ranks

        links, homeless = links_to_ranks(source.path, source.name, folder)
        if links:
            return links, _without_rank(homeless)
    by_rank, beside, damage = _read(source)
    parts = {rank: folder / f"{stem(Path(source.name).name)}-rank{rank}.json" for rank in by_rank if len(by_rank) > 1}
    of_job = beside.get("distributedInfo")
    if _is_recording(beside):  # of one machine, with one clock
        beside.setdefault("host_name", source.name)
    for rank, part in parts.items():
        info = {**(of_job if isinstance(of_job, dict) else {}), "rank": rank}
        alone = {**beside, "distributedInfo": info, "traceEvents": by_rank[rank]}
        part.write_bytes(msgspec.json.encode(alone))
    return parts, damage


def _read(source: Source) -> tuple[dict[int, list[Event]], dict[str, Any], str]:
    """The events of each rank in a file, the keys beside them, and what was repaired and lost.

    Raises:
        TraceError: it cannot be read.
    """
    found = _Events()
    with source.open() as stream:
        walker = Walker(stream, source.name)
        walker.read_head()
        walker.walk(found)
    by_rank, homeless = _by_rank(found.events)
    info = TraceInfo(
        repairs={**(found.repairs + Counter(walker.faults)), **dict.fromkeys(sorted(source.faults), 1)},
        lost_events=found.lost_events, lost_bytes=found.lost_bytes, cut_short=source.cut_short,
        events=len(found.events) + found.lost_events,
    )  # fmt: skip
    beside = {key: value for key, value in {**walker.head, **walker.tail}.items() if value is not None}
    return by_rank, beside, "; ".join(filter(None, (info.damage, _without_rank(homeless))))


def _without_rank(homeless: int) -> str:
    return f"left out, as they name no rank: {homeless:,} events with a duration" if homeless else ""


def _by_rank(events: list[Event]) -> tuple[dict[int, list[Event]], int]:
    """The events of each rank, with processes and ids as that rank recorded them, and how many have no rank.

    An event that names no rank belongs to the rank of its process. Where several ranks have a process of one number,
    facts about it count for each.
    """
    ranks_of: dict[Any, set[int]] = {}
    for event in events:
        if (rank := _rank(event)) is not None:
            ranks_of.setdefault(_process(event), set()).add(rank)
    by_rank: dict[int, list[Event]] = {rank: [] for rank in sorted(set().union(*ranks_of.values()))}
    homeless = 0
    for event in events:
        rank = _rank(event)
        ranks = ranks_of.get(_process(event), ()) if rank is None else (rank,)
        if len(ranks) == 1 or event.get("ph") == "M":
            for one in ranks:
                by_rank[one].append(dict(event) if len(ranks) > 1 else event)
        elif event.get("ph") == "X":  # what marks a moment is of no rank
            homeless += 1
    for holds, key in ((_itself, "pid"), (_itself, "id"), *((_arguments, one) for one in _LINKS)):
        _move_back([(rank, holds(event), key) for rank, some in by_rank.items() for event in some])
    return by_rank, homeless


def _process(event: Event) -> Any:
    """The process of an event; whatever stands there that is no number and no name as text."""
    process = event.get("pid")
    return process if isinstance(process, int | str) else repr(process)


def _itself(event: Event) -> Event:
    return event


def _arguments(event: Event) -> Event:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _move_back(places: list[tuple[int, Event, str]]) -> None:
    """Take from numbers what was added for their rank, if that is clear."""
    moved = [(rank, held, key) for rank, held, key in places if type(held.get(key)) is int and rank]
    least = min((held[key] // rank for rank, held, key in moved), default=0)
    # -1 is no process and no id, and is moved like the others.
    for unit in (10 ** len(str(least)), 10 ** (len(str(least)) - 1)):
        if least > 1 and all(-1 <= held[key] - rank * unit < unit for rank, held, key in moved):
            for rank, held, key in moved:
                held[key] -= rank * unit
            return
