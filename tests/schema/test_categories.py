"""Directions of copies: by name, alike in memory and in the database."""

from __future__ import annotations

import pytest

from tracelens_graph.cypher import library
from tracelens_graph.schema.categories import DIRECTIONS, copy_direction, over_the_link


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "HtoD"),
        ("CopyHostToDevice", "HtoD"),
        ("MemcpyH2D", "HtoD"),
        ("MemcpyD2H", "DtoH"),
        ("MemcpyD2D", "DtoD"),
        ("MemcpyP2P", "PtoP"),
        ("MemcpyOther", "unknown"),
        ("gemm_D2D_kernel", "unknown"),
    ],
)
def test_the_direction_of_a_copy(name: str, direction: str) -> None:
    assert copy_direction(name) == direction
    assert over_the_link([name]) == (direction in ("HtoD", "DtoH"))


def test_the_query_knows_the_same_names() -> None:
    text = " ".join(library()["copies"].text.split())
    for way, words in DIRECTIONS:
        asked = " OR ".join(f"name CONTAINS '{word}'" for word in words)
        assert f"WHEN {asked} THEN '{way}'" in text
