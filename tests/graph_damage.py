"""Damage done to saved graphs at places drawn at random.

It is done to their bytes, or to their contents, and then all checksums are right.
"""

from __future__ import annotations

import json
import math
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tracelens_graph.schema import STORED
from tracelens_graph.stores.sections import VERSION

HEADER = struct.Struct("<8sIIQQQ")
_START = HEADER.size + 4
_SIZES = {"|u1": 1, "<i4": 4, "<i8": 8}

Index = dict[str, Any]


def index_of(data: bytes) -> tuple[int, Index]:
    """Where the index of a saved graph stands, and what it says."""
    offset, length = HEADER.unpack_from(data)[4:]
    return offset, json.loads(data[offset : offset + length])


def with_index(data: bytes, index: Any) -> bytes:
    """The file with another index, all checksums right: what only a program at fault would write."""
    offset, _ = index_of(data)
    text = json.dumps(index).encode()
    header = HEADER.pack(data[:8], VERSION, zlib.crc32(text), offset + len(text), offset, len(text))
    return header + struct.pack("<I", zlib.crc32(header)) + data[_START:offset] + text


def span_of(index: Index, name: str) -> tuple[int, int]:
    """Where a section begins and ends."""
    offset, dtype, shape, _ = index["sections"][name]
    return offset, offset + _SIZES[dtype] * math.prod(shape)


def contents(data: bytes, name: str) -> np.ndarray:
    """A section, to be changed."""
    _, index = index_of(data)
    begin, end = span_of(index, name)
    _, dtype, shape, _ = index["sections"][name]
    return np.frombuffer(data[begin:end], dtype).reshape(shape).copy()


def with_contents(data: bytes, name: str, array: np.ndarray) -> bytes:
    """The file with other contents of a section, of any length, and the checksums that fit them."""
    offset, index = index_of(data)
    body, shape = array.tobytes(), list(array.shape)
    dtype = array.dtype.str
    seed = zlib.crc32(f"{name} {dtype} {tuple(shape)}".encode())
    index["sections"][name] = (offset, dtype, shape, zlib.crc32(body, seed))
    body += bytes(-len(body) % 64)
    text = json.dumps(index).encode()
    at = offset + len(body)
    header = HEADER.pack(data[:8], VERSION, zlib.crc32(text), at + len(text), at, len(text))
    return header + struct.pack("<I", zlib.crc32(header)) + data[_START:offset] + body + text


def flipped_bit(data: bytes, rng: random.Random) -> bytes:
    """One bit of a section, each section as likely as any other."""
    _, index = index_of(data)
    spans = [span_of(index, name) for name in index["sections"]]
    begin, end = rng.choice([span for span in spans if span[0] < span[1]])
    place = rng.randrange(begin, end)
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def overwritten(data: bytes, rng: random.Random) -> bytes:
    """A few bytes anywhere."""
    place = rng.randrange(len(data))
    return (data[:place] + rng.randbytes(rng.randint(1, 9)) + data[place + 9 :])[: len(data)]


def zeroed(data: bytes, rng: random.Random) -> bytes:
    """A stretch that a disk lost."""
    size = rng.choice((64, 512, 4096))
    place = rng.randrange(len(data)) // 64 * 64
    return data[:place] + bytes(len(data[place : place + size])) + data[place + size :]


def truncated(data: bytes, rng: random.Random) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data))]


def appended(data: bytes, rng: random.Random) -> bytes:
    """Something stands behind the end."""
    return data + rng.choice((b"\0", rng.randbytes(64), data[-64:], data))


def inserted(data: bytes, rng: random.Random) -> bytes:
    """Something stands in the middle; the length is the same."""
    place = rng.randrange(len(data))
    return (data[:place] + rng.randbytes(rng.choice((1, 8, 64))) + data[place:])[: len(data)]


def swapped_sections(data: bytes, rng: random.Random) -> bytes:
    """Bytes of two sections of one size have changed places."""
    _, index = index_of(data)
    by_size: dict[int, list[tuple[int, int]]] = {}
    for name in index["sections"]:
        begin, end = span_of(index, name)
        by_size.setdefault(end - begin, []).append((begin, end))
    first, second = sorted(rng.sample(rng.choice([spans for size, spans in by_size.items() if size and spans[1:]]), 2))
    return (
        data[: first[0]] + data[slice(*second)] + data[first[1] : second[0]] + data[slice(*first)] + data[second[1] :]
    )


def swapped_entries(data: bytes, rng: random.Random) -> bytes:
    """Two entries of the index have changed places."""
    _, index = index_of(data)
    one, other = rng.sample(sorted(index["sections"]), 2)
    sections = index["sections"]
    sections[one], sections[other] = sections[other], sections[one]
    return with_index(data, index)


def wrong_entry(data: bytes, rng: random.Random) -> bytes:
    """An entry of the index says something else, or is gone."""
    _, index = index_of(data)
    name = rng.choice(sorted(index["sections"]))
    entry = index["sections"][name]
    part = rng.randrange(5)
    if part == 4:
        del index["sections"][name]
    else:
        odd = (-1, 0, 64, 2**62, 2**70, 1.5, "x", None, [], [-1], [2**40], [0, 2**60], ["x"], "<i8", "<f8", "|O", True)
        entry[part] = rng.choice([one for one in odd if one != entry[part]])
    return with_index(data, index)


def wrong_facts(data: bytes, rng: random.Random) -> bytes:
    """A fact has another type, or is gone."""
    _, index = index_of(data)
    places = [(index["facts"], key) for key in index["facts"] if key != "tool"]
    places += [(index["facts"]["info"], key) for key in index["facts"]["info"]]
    places += [(index["facts"]["threads"], rng.randrange(len(index["facts"]["threads"])))]
    holder, key = rng.choice(places)
    odd: list[Any] = [7.5, {}, {"a": {}}, [[1]], [[[1], 2]], True]
    if key == "metadata":  # any object may be that
        odd = [one for one in odd if not isinstance(one, dict)]
    holder[key] = rng.choice([one for one in odd if one != holder[key]])
    return with_index(data, index)


def _column(data: bytes, rng: random.Random, names: tuple[str, ...]) -> tuple[str, np.ndarray]:
    name = f"columns.{rng.choice(names)}"
    return name, contents(data, name)


def out_of_range(data: bytes, rng: random.Random) -> bytes:
    """A row, a code or a number of ancestors that does not exist."""
    bounded = (*(prop.name for prop in STORED if prop.code_of), "parent", "last", "owner", "depth", "flags")
    name, column = _column(data, rng, bounded)
    wrong = (64, 200, 255) if column.dtype.itemsize == 1 else (-2, -(2**31), 2**31 - 1, 10**6)
    column[rng.randrange(len(column))] = rng.choice(wrong)
    return with_contents(data, name, column)


def wrong_length(data: bytes, rng: random.Random) -> bytes:
    """A column that is longer or shorter than the others, or of another type or shape."""
    name, column = _column(data, rng, tuple(prop.name for prop in STORED))
    other = rng.choice((column[:-1], np.append(column, column[:1]), column[:0], column.reshape(1, -1)))
    return with_contents(data, name, other)


def doubled_uid(data: bytes, rng: random.Random) -> bytes:
    """Two nodes with one identity, or one with none."""
    column = contents(data, "columns.uid")
    one, other = rng.sample(range(len(column)), 2)
    column[one] = rng.choice((column[other], -1))
    return with_contents(data, "columns.uid", column)


def wrong_lengths(data: bytes, rng: random.Random) -> bytes:
    """Lengths of strings that do not add up, or ends of blocks that do not ascend."""
    name = rng.choice(
        ("names.lengths", "argsets.lengths", "events.ends", "events.first", "events.count", "events.sums")
    )
    lengths = contents(data, name)
    at = rng.randrange(len(lengths))
    lengths[at] += rng.choice((-(2**62), -lengths[at] - 1, 1, -1, 2**62))
    return with_contents(data, name, lengths)


def wrong_json(data: bytes, rng: random.Random) -> bytes:
    """Lists beside the columns that are not of their form."""
    name = rng.choice(("autograd_flows", "collectives"))
    bad = (
        b"", b"{}", b"[1]", b"[[1]]", b"[" * 9000, b"\xff", b'[["s",1,9999,5]]', b'[["s",1,0,1e400]]',
        b'{"values":[],"events":[[-1,{},{}]]}', b'{"values":[1],"events":[[1,{},{"a":1}]]}',
        b'{"values":[1],"events":[[1,{},{"a":-1}]]}',
    )  # fmt: skip
    return with_contents(data, name, np.frombuffer(rng.choice(bad), np.uint8))


def wrong_text(data: bytes, rng: random.Random) -> bytes:
    """Text that is none."""
    name = rng.choice(("names", "argsets"))
    text = contents(data, name)
    text[rng.randrange(len(text))] = 0xFF
    return with_contents(data, name, text)


def wrong_cells(data: bytes, rng: random.Random) -> bytes:
    """JSON of arguments that is broken."""
    cells = contents(data, "argsets")
    brackets = np.flatnonzero(np.isin(cells, np.frombuffer(b'[]"', np.uint8)))
    cells[rng.choice(brackets.tolist())] = rng.choice(b"{}\\ x")
    return with_contents(data, "argsets", cells)


def wrong_pairs(data: bytes, rng: random.Random) -> bytes:
    """Dependencies of rows that are none."""
    bad = rng.choice(([[0, 10**6]], [[-1, 0]], [[0]], [0, 1], [[0, 1, 2]]))
    return with_contents(data, "depends_on", np.array(bad, np.int64))


def wrong_block(data: bytes, rng: random.Random) -> bytes:
    """A block of events that is no list of as many events as it should be."""
    no_text = b'["\xff"' + b",1" * (int(contents(data, "events.count")[0]) - 1) + b"]"
    text = rng.choice((b"[]", b"[1", b"{}", b"", b"[" * 9000, no_text))
    packed = zlib.compress(text) if rng.random() < 0.8 else text
    data = with_contents(data, "events.sums", np.array([zlib.crc32(packed, 0)], np.int64))
    data = with_contents(data, "events.ends", np.array([len(packed)], np.int64))
    data = with_contents(data, "events", np.frombuffer(packed, np.uint8))
    _, index = index_of(data)
    _, dtype, shape, _ = index["sections"]["events"]
    index["sections"]["events"][3] = zlib.crc32(f"events {dtype} {tuple(shape)}".encode())
    return with_index(data, index)


BYTES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flipped_bit, overwritten, zeroed, truncated, appended, inserted, swapped_sections,
)  # fmt: skip
"""What happens to files."""

CONTENTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    swapped_entries, wrong_entry, wrong_facts, out_of_range, wrong_length, doubled_uid, wrong_lengths,
    wrong_json, wrong_text, wrong_cells, wrong_pairs, wrong_block,
)  # fmt: skip
"""What only a program at fault would write: every checksum is right."""
