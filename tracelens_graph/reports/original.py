"""What the file says of its events in two words: category and phase, for all of them in one pass."""

from __future__ import annotations

from typing import Any

import msgspec

from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind
from tracelens_graph.schema.categories import CATEGORY_OF_KIND


class Head(msgspec.Struct, frozen=True):
    """Category and phase of an event, as its file gives them."""

    cat: str | None = None
    ph: str | None = None


_HEADS = msgspec.json.Decoder(list[Head | None])


def heads(core: Core) -> dict[int, Head]:
    """uid -> category and phase of every event of the file; events that cannot be read are left out.

    Raises:
        ChangedTraceError: the file is no longer the one that was loaded.
    """
    details, found = core.details, {}
    same: dict[Head, Head] = {}
    blocks = range(len(details.first))
    for first, text in zip(details.first.tolist(), details.texts(blocks), strict=True):
        for uid, head in enumerate(_decode(text), first):
            if head is not None:
                found[uid] = same.setdefault(head, head)
    return found


def categories(core: Core) -> list[str]:
    """For every row the category of its event in the file, else the one that PyTorch writes for its kind."""
    known = heads(core)
    standard = [CATEGORY_OF_KIND[Kind(kind)] for kind in core.columns.kind.tolist()]
    return [
        head.cat if (head := known.get(uid)) and head.cat else stand_in
        for uid, stand_in in zip(core.columns.uid.tolist(), standard, strict=True)
    ]


def _decode(text: bytes) -> list[Head | None]:
    try:
        return _HEADS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return [_head(event) for event in msgspec.json.decode(text, type=list[msgspec.Raw])]


def _head(raw: Any) -> Head | None:
    try:
        event = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(event, dict):
        return None
    cat, ph = event.get("cat"), event.get("ph")
    return Head(cat if isinstance(cat, str) else None, ph if isinstance(ph, str) else None)
