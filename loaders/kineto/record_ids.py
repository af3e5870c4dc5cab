"""Ids of record functions, read from the events of a trace when it is linked with an execution trace."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec import Raw, Struct, field

from tracelens_graph.graph.core import Core


class _Arguments(Struct, gc=False, rename={"record": "Record function id"}):
    record: int = 0


class _Event(Struct, gc=False):
    args: _Arguments = field(default_factory=_Arguments)


_EVENTS = msgspec.json.Decoder(list[_Event])
_EVENT = msgspec.json.Decoder(_Event)
_RAW_LIST = msgspec.json.Decoder(list[Raw])
_MOST = 2**63


def record_ids(core: Core) -> np.ndarray:
    """Per row the `Record function id` of its event, 0 for none.

    Raises:
        ChangedTraceError: the file is no longer the one that was loaded.
    """
    details = core.details
    of_uid = np.zeros(max(core.info.events, int(core.columns.uid.max(initial=-1)) + 1), np.int64)
    for first, text in zip(details.first.tolist(), details.texts(range(len(details.first))), strict=True):
        found = np.fromiter(_of_block(text), np.int64)[: len(of_uid) - first]
        of_uid[first : first + len(found)] = found
    return of_uid[core.columns.uid]


def _of_block(text: bytes) -> Iterator[int]:
    try:
        events = _EVENTS.decode(text)
    except (msgspec.ValidationError, RecursionError):
        events = [_odd(raw) for raw in _RAW_LIST.decode(text)]
    return (event.args.record if 0 < event.args.record < _MOST else 0 for event in events)


def _odd(raw: Raw) -> _Event:
    """An event of a block in which something fits no record."""
    try:
        return _EVENT.decode(raw)
    except (msgspec.ValidationError, RecursionError):
        return _Event()
