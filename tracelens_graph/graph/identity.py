"""The id of a trace: a hash of its bytes, the same wherever and however often it is loaded.

It hashes the hashes of 1 MiB blocks, so that blocks can be hashed side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from hashlib import blake2b
from io import BufferedReader
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.graph.columns import Columns
from tracelens_graph.schema import STORED

if TYPE_CHECKING:
    from tracelens_graph.graph.programs import CompiledPrograms

_BLOCK = 1 << 20
_DIGEST_BYTES = 16


def stream_id(stream: Any) -> str:
    """The id of a trace whose decompressed bytes the stream gives: 32 hexadecimal digits."""
    # A raw stream may give less than was asked for; the id must not depend on how its bytes arrive.
    with BufferedReader(stream, _BLOCK) as reader:
        return _hash_of_hashes(iter(lambda: reader.read(_BLOCK), b""))


def content_id(columns: Columns, tables: list[Any], programs: CompiledPrograms | None) -> str:
    """The id of a graph that comes from no file: of its columns, of the tables they point into, and of its programs."""
    return _hash_of_hashes(_content(columns, tables, programs))


def _content(columns: Columns, tables: list[Any], programs: CompiledPrograms | None) -> Iterator[Any]:
    for prop in STORED:  # in the declared types: columns may be held in narrower ones
        yield getattr(columns, prop.name).astype(prop.dtype).tobytes()
    yield json.dumps(tables).encode()
    if programs is not None:
        yield json.dumps([asdict(one) for one in programs.listed]).encode()
        yield programs.code.astype(np.int32).tobytes()
        if programs.sources:
            yield json.dumps(programs.sources).encode()
            yield programs.source_place.tobytes()


def _hash_of_hashes(blocks: Iterable[Any]) -> str:
    whole = blake2b(digest_size=_DIGEST_BYTES)
    for block in blocks:
        whole.update(blake2b(block, digest_size=_DIGEST_BYTES).digest())
    return whole.hexdigest()
