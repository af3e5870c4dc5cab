"""JSON texts of arguments: what they hold, where each may be damaged and some are large."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw

_PIECE = 1 << 19
"""Bytes of a list that are decoded at a time."""
_LIST_BEGIN = re.compile(rb"\s*+\[")
_BETWEEN_LISTS = re.compile(rb"\]\s*+,\s*+\[")
_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_LIST: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[Any])


def decoded(texts: Sequence[bytes | memoryview | Raw], decoder: msgspec.json.Decoder[list[Any]] = _LIST) -> list[Any]:
    """What JSON texts hold; None for a text that is not JSON, or nothing that the decoder takes.

    Args:
        texts: the texts.
        decoder: of a list of such values.
    """
    try:
        found = decoder.decode(b"[%b]" % b",".join(texts))
    except _FAULTS:
        found = []
    if len(found) == len(texts):
        return found
    return [None] if len(texts) == 1 else [decoded([text], decoder)[0] for text in texts]


def elements(text: bytes) -> Iterator[Any]:
    """The elements of a JSON list; nothing for anything else. A long list of lists is decoded in pieces."""
    opening = _LIST_BEGIN.match(text)
    begin = opening.end() if opening else 0
    while begin:
        cut = _BETWEEN_LISTS.search(text, begin + _PIECE)
        piece = decoded([b"[%b]" % text[begin : cut.start() + 1]])[0] if cut else None
        if cut is None or piece is None:  # the last piece, or the cut was inside of an element
            yield from json_list(b"[" + text[begin:])
            return
        yield from piece
        begin = cut.end() - 1


def json_list(text: bytes) -> list[Any]:
    """A list from its text; empty for anything else."""
    try:
        found = msgspec.json.decode(text) if text else []
    except _FAULTS:
        return []
    return found if isinstance(found, list) else []


def raw_list(text: bytes | memoryview) -> list[Raw]:
    """The texts of the elements of a list; empty for anything else."""
    try:
        return msgspec.json.decode(text, type=list[Raw]) if text else []
    except _FAULTS:
        return []
