"""A file into which the traces of several ranks were fused, as TraceLens's TraceFuse does: its ranks as files again.

TraceFuse notes the rank in the arguments of every event. It moves processes, ids of arrows and ids of launches of
rank n by n times a power of ten that is larger than all of them, so that they stay apart.
"""

from __future__ import annotations

import atexit
import json
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from tracelens_graph.errors import TraceError
from tracelens_graph.loaders.sources import open_source
from tracelens_graph.output.files import temporary_folder

_HEAD = 1 << 18
"""Bytes of a file that show whether it is fused."""

_LOOKED_AT = 16
"""Events of these that all have to name a rank."""

_LINKS = ("correlation", "External id")
_OPENING = '"traceEvents"'

Event = dict[str, Any]


def with_ranks_apart(files: Iterable[str]) -> list[str]:
    """The files, each that holds fused ranks replaced by one per rank, which vanish with this process."""
    return [part for file in files for part in (_parts(file, os.stat(file).st_mtime_ns) if is_fused(file) else [file])]


def is_fused(file: str) -> bool:
    """Whether every event at the beginning of a trace in JSON names the rank that it is of."""
    if ".json" not in Path(file).name or not os.path.isfile(file):
        return False
    try:
        with open_source(file).open() as stream:
            head = stream.read(_HEAD)
    except TraceError:
        return False
    ranks = [_rank(event) for event in _first_events(bytes(head).decode("utf-8", "replace"))]
    return len(ranks) > 1 and None not in ranks


def _first_events(text: str) -> Iterator[Event]:
    """The first events with a duration, as far as the text goes."""
    if _OPENING not in text and not text.lstrip().startswith("["):
        return
    at = text.find("[", max(text.find(_OPENING), 0)) + 1
    decoder, found = json.JSONDecoder(), 0
    while found < _LOOKED_AT:
        at += len(text[at:]) - len(text[at:].lstrip(" \t\r\n,"))
        try:
            event, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict) and event.get("ph") == "X":
            found += 1
            yield event


def _rank(event: Event) -> int | None:
    args = event.get("args")
    rank = args.get("rank") if isinstance(args, dict) else None
    return rank if type(rank) is int and rank >= 0 else None


@cache
def _parts(file: str, _: int) -> list[str]:
    """Files of the ranks of a fused one, or the file itself where it holds one only, or cannot be taken apart."""
    try:
        with open_source(file).open() as stream:
            trace = msgspec.json.decode(stream.read())
    except (msgspec.MsgspecError, TraceError, RecursionError):
        return [file]
    beside = {key: value for key, value in trace.items() if key != "traceEvents"} if isinstance(trace, dict) else {}
    listed = trace.get("traceEvents") if isinstance(trace, dict) else trace
    by_rank = _by_rank([event for event in listed if isinstance(event, dict)] if isinstance(listed, list) else [])
    if len(by_rank) < 2:
        return [file]
    folder: TemporaryDirectory[str] = temporary_folder()
    atexit.register(folder.cleanup)
    stem = Path(file).name.partition(".json")[0]
    for rank, events in by_rank.items():
        alone = {**beside, "distributedInfo": {"rank": rank, "world_size": len(by_rank)}, "traceEvents": events}
        Path(folder.name, f"{stem}-rank{rank}.json").write_bytes(msgspec.json.encode(alone))
    return [str(Path(folder.name, f"{stem}-rank{rank}.json")) for rank in by_rank]


def _by_rank(events: list[Event]) -> dict[int, list[Event]]:
    """The events of each rank, with processes and ids as that rank recorded them."""
    rank_of = {event.get("pid"): rank for event in events if (rank := _rank(event)) is not None}
    by_rank: dict[int, list[Event]] = {rank: [] for rank in sorted(set(rank_of.values()))}
    for event in events:
        rank = _rank(event)
        rank = rank_of.get(event.get("pid")) if rank is None else rank
        if rank is not None:
            by_rank[rank].append(event)
    for holds, key in ((_itself, "pid"), (_itself, "id"), *((_arguments, one) for one in _LINKS)):
        _move_back([(rank, holds(event), key) for rank, some in by_rank.items() for event in some])
    return by_rank


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
