"""Columns come back as they were."""

from __future__ import annotations

import zlib
from base64 import b64decode

import numpy as np
import pytest
from html_pages import unpacked
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.reports.html.planes import Packed, packed

NUMBERS = st.lists(st.integers(0, 2**62))
SIGNED = st.lists(st.integers(-(2**61), 2**61))


@given(NUMBERS, SIGNED)
def test_round_trip(plain: list[int], growing: list[int]) -> None:
    described, text = packed(
        {"plain": Packed(np.array(plain, np.int64)), "growing": Packed(np.array(growing, np.int64), True)}
    )
    found = unpacked(described, zlib.decompress(b64decode(text)))
    assert found["plain"].tolist() == plain
    assert found["growing"].tolist() == growing


@pytest.mark.parametrize(("greatest", "planes"), [(0, 0), (1, 1), (255, 1), (256, 2), (2**24, 4), (2**53, 7)])
def test_no_more_planes_than_are_needed(greatest: int, planes: int) -> None:
    described, _ = packed({"x": Packed(np.array([0, greatest]))})
    assert described == [{"name": "x", "n": 2, "planes": planes, "delta": False}]


def test_lowest_bytes_come_first() -> None:
    _, text = packed({"x": Packed(np.array([0x0102, 0x0304])), "y": Packed(np.array([5]))})
    assert zlib.decompress(b64decode(text)) == bytes([2, 4, 1, 3, 5])
