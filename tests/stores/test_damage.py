"""A saved graph that is not as it was written is noticed, in one clear line."""

from __future__ import annotations

import random
import struct
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from graph_damage import HEADER, index_of, span_of, with_index
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.stores.graph_file import write_graph
from tracelens_graph.stores.sections import VERSION

pytestmark = pytest.mark.proof

EVENTS = [
    {"ph": "X", "cat": "cpu_op", "name": f"op {i % 9}", "pid": 1, "tid": 1, "ts": i, "dur": 1,
     "args": {"External id": i, "Input Dims": [[i % 5]]}}
    for i in range(200)
]  # fmt: skip
COLLECTIVE = {"ph": "X", "cat": "cpu_op", "name": "c", "pid": 1, "tid": 2, "ts": 0, "args": {"Collective name": "x"}}
ARROW = {"ph": "s", "cat": "fwdbwd", "name": "a", "id": 1, "pid": 1, "tid": 1, "ts": 3}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("damage") / "whole.tlg"
    write_graph(load_core({"traceEvents": [*EVENTS, COLLECTIVE, ARROW]}), file)
    return file


@pytest.fixture
def data(whole: Path) -> bytes:
    return whole.read_bytes()


def read_all(data: bytes) -> Core:
    """The graph, with all that is read on request."""
    core = load_core(data)
    core.read_all()
    core.details.events(range(core.info.events))
    return core


def test_the_header_is_what_these_tests_take_it_for(data: bytes) -> None:
    _, index = index_of(data)
    assert index["facts"]["info"]["events"] == len(EVENTS) + 2
    assert read_all(with_index(data, index)).equals(read_all(data))


@given(share=st.floats(0, 1, exclude_max=True))
def test_cut_short(whole: Path, share: float) -> None:
    data = whole.read_bytes()
    left = data[: int(share * len(data))]
    with pytest.raises(
        TraceError, match=r"cut short|beginning of a saved graph|not a trace|no profiler trace|begins"
    ) as e:
        load_core(left)
    assert "\n" not in str(e.value)


def test_any_flipped_bit_of_header_and_index_is_noticed(data: bytes) -> None:
    offset, _ = index_of(data)
    places = [*range(HEADER.size + 4), *random.Random(1).sample(range(offset, len(data)), 300)]
    for place in places:
        for bit in range(8):
            broken = bytearray(data)
            broken[place] ^= 1 << bit
            with pytest.raises(TraceError):
                load_core(bytes(broken))


def test_any_flipped_byte_of_any_section_is_noticed(data: bytes) -> None:
    _, index = index_of(data)
    for name in index["sections"]:
        begin, end = span_of(index, name)
        for place in random.Random(name).sample(range(begin, end), min(end - begin, 40)):
            broken = bytearray(data)
            broken[place] ^= 0xFF
            with pytest.raises(TraceError, match="is damaged"):
                read_all(bytes(broken))


@given(change=st.binary(min_size=1, max_size=8), share=st.floats(0, 1, exclude_max=True))
def test_bytes_written_anywhere_are_noticed_or_harmless(whole: Path, change: bytes, share: float) -> None:
    data = whole.read_bytes()
    place = int(share * (len(data) - len(change)))
    broken = data[:place] + change + data[place + len(change) :]
    try:
        core = read_all(broken)
    except TraceError:
        return
    assert core.equals(read_all(data))


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (VERSION + 1, "a newer tracelens_graph .* update tracelens_graph$"),
        (0, "an older tracelens_graph .* load the trace and save it again$"),
    ],
)
def test_another_version_says_what_to_do(data: bytes, version: int, words: str, tmp_path: Path) -> None:
    magic, _, *rest = HEADER.unpack_from(data)
    header = HEADER.pack(magic, version, *rest)
    file = tmp_path / "other.tlg"
    file.write_bytes(header + struct.pack("<I", zlib.crc32(header)) + data[HEADER.size + 4 :])
    with pytest.raises(TraceError, match=f"^{file}: was saved by {words}"):
        load_core(file)


def test_an_index_that_does_not_fit_is_damage(data: bytes) -> None:
    _, index = index_of(data)
    sections = index["sections"]
    offset, dtype, shape, checksum = sections["columns.uid"]
    wrong: list[Any] = [
        [len(data), dtype, shape, checksum],
        [-64, dtype, shape, checksum],
        [offset, dtype, [2**62], checksum],
        [offset, dtype, [-1], checksum],
        [offset, "O", shape, checksum],
        [offset, "<f8", shape, checksum],
        [offset, "nonsense", shape, checksum],
        [offset, dtype, [shape[0] - 1], checksum],
        [offset, dtype, [], checksum],
        [offset, dtype],
        None,
    ]
    for entry in wrong:
        with pytest.raises(TraceError, match="is damaged"):
            load_core(with_index(data, {**index, "sections": {**sections, "columns.uid": entry}}))
    for name in sections:
        without = {key: value for key, value in sections.items() if key != name}
        with pytest.raises(TraceError, match="is damaged"):
            read_all(with_index(data, {**index, "sections": without}))
    for facts in ({}, {**index["facts"], "info": {"unheard": 1}}, {**index["facts"], "threads": 5}):
        with pytest.raises(TraceError, match="is damaged"):
            load_core(with_index(data, {**index, "facts": facts}))
    for other in ({}, [], {"facts": 1, "sections": 1}):
        with pytest.raises(TraceError, match="is damaged"):
            load_core(with_index(data, other))  # type: ignore[arg-type]


def test_the_file_has_no_holes_that_nothing_checks(data: bytes) -> None:
    """Between sections there is only padding."""
    offset, index = index_of(data)
    spans = [span_of(index, name) for name in index["sections"]]
    for (_, end), (begin, _) in pairwise(sorted([*spans, (offset, len(data))])):
        assert begin % 64 == 0
        assert 0 <= begin - end < 64
