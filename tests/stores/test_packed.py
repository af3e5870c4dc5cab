"""Numbers of a saved graph that stand for nothing are damage."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pytest
from handmade import span
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.errors import TraceError
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import NoDetails
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import STORED
from tracelens_graph.stores.graph_file import read_graph, write_without_events
from tracelens_graph.stores.packed import PackedDetails

ROWS = 7


def saved(columns: dict[str, Sequence[int]]) -> bytes:
    """The file of a graph of seven ops, with some columns as given."""
    core = load_core({"traceEvents": [span("cpu_op", "op", 10 * i, 5) for i in range(ROWS)]})
    dtypes = {prop.name: prop.dtype for prop in STORED}
    core.columns = Columns(dict(core.columns) | {k: np.array(v, dtypes[k]) for k, v in columns.items()})
    file = io.BytesIO()
    write_without_events(core, file, np.zeros((len(core.details.first), 3), np.int64))
    return file.getvalue()


def opened(data: bytes) -> Core:
    return read_graph(data, lambda *_: NoDetails())


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("parent", [-1, 1, -1, -1, -1, -1, -1]),  # its own caller
        ("parent", [-2, -1, -1, -1, -1, -1, -1]),
        ("last", [0, 0, 2, 3, 4, 5, 6]),  # ends before it begins
        ("last", [0, 1, 2, 3, 4, 5, 7]),
        ("depth", [0, 0, 0, 0, 0, 0, -1]),
        ("name", [0, 0, 0, 0, 0, 0, 99]),
    ],
)
def test_numbers_that_stand_for_nothing_are_damage(name: str, values: list[int]) -> None:
    core = opened(saved({name: values}))
    for _ in range(2):  # and it is not forgotten
        with pytest.raises(TraceError, match=rf"damaged \(columns\.{name}\)"):
            core.columns._arrays[name]


@given(uids=st.lists(st.integers(-2, 12) | st.integers(0, 2**62), min_size=ROWS, max_size=ROWS))
def test_uids_are_different_and_not_negative(uids: list[int]) -> None:
    core = opened(saved({"uid": uids}))
    if len(set(uids)) == ROWS and min(uids) >= 0:
        assert core.columns.uid.tolist() == uids
    else:
        with pytest.raises(TraceError, match=r"damaged \(columns\.uid\)"):
            len(core.columns.uid)


def test_blocks_are_asked_for_by_number() -> None:
    """What is read from a database comes as a list of blocks."""
    import zlib

    blocks = [zlib.compress(b'[{"args":{"a":1}},null]'), zlib.compress(b"[null]")]
    details = PackedDetails(np.array([0, 2]), np.array([2, 1]), blocks, "id", "a trace")
    assert details.events(range(3)) == {0: {"args": {"a": 1}}}
    assert details.identity() == "id"
