"""Arguments of collectives in a saved graph: what many of them say alike stands in the file once.

All collectives of a group name its members, and a group has up to a hundred thousand of them. So values that are long
are listed once, and an event holds their numbers.

    values   long values, each once
    events   for each event: uid, arguments in their order, null for each long one, and its place in `values`
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from sys import intern
from typing import Any

import msgspec

from tracelens_graph.stores.sections import Sections, SectionWriter

_SECTION = "collectives"
_LONG = 32
"""Characters or elements from which a value stands once."""
_Listed = str | list | tuple

_TOO_LARGE = 2**63
"""The first whole number that columns have no room for."""


class _Stored(msgspec.Struct):
    values: list[Any]
    events: list[tuple[int, dict[str, Any], dict[str, int]]]


def write_collectives(writer: SectionWriter, arguments: Mapping[int, Mapping[str, Any]]) -> None:
    """Write what collectives were called with, by the uid of their event."""
    values: list[Any] = []
    by_text: dict[str, int] = {}
    by_id: dict[int, int] = {}

    def place(value: Any) -> int:
        if id(value) not in by_id:  # most are one object, and the text of a list takes time
            at = by_text.setdefault(json.dumps(value), len(values))
            if at == len(values):
                values.append(value)
            by_id[id(value)] = at
        return by_id[id(value)]

    events = []
    for uid, args in arguments.items():
        long = {key: place(value) for key, value in args.items() if isinstance(value, _Listed) and len(value) >= _LONG}
        events.append((uid, {**args, **dict.fromkeys(long)}, long))
    writer.json(_SECTION, {"values": values, "events": events})


def read_collectives(sections: Sections) -> dict[int, dict[str, Any]]:
    """What `write_collectives` wrote; equal values are one object.

    Raises:
        TraceError: the section is damaged.
    """
    stored = sections.json(_SECTION, _Stored)
    if not all(
        0 <= uid < _TOO_LARGE and all(0 <= at < len(stored.values) for at in long.values())
        for uid, _, long in stored.events
    ):
        raise sections.damaged(_SECTION)
    # All collectives of a group say the same of it, on all ranks.
    values = [_shared(value) for value in stored.values]
    return {
        uid: {key: _shared(value) for key, value in args.items()} | {key: values[at] for key, at in long.items()}
        for uid, args, long in stored.events
    }


def _shared(value: Any) -> Any:
    return intern(value) if isinstance(value, str) else value
