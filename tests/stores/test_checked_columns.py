"""Columns that are no call forest are noticed, and only those."""

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


def forest(depth: Sequence[int]) -> tuple[list[int], list[int]]:
    """Caller and last descendant of each row, from depths in pre-order, by the plain definition."""
    parent, last = [], []
    for row, level in enumerate(depth):
        above = [other for other in range(row) if depth[other] == level - 1]
        parent.append(above[-1] if level else -1)
        after = [other for other in range(row + 1, ROWS) if depth[other] <= level]
        last.append(after[0] - 1 if after else ROWS - 1)
    return parent, last


@st.composite
def depths(draw: st.DrawFn) -> list[int]:
    found = [0]
    while len(found) < ROWS:
        found.append(draw(st.integers(0, found[-1] + 1)))
    return found


@given(depth=depths(), order=st.permutations(["parent", "last", "depth"]))
def test_every_forest_is_taken(depth: list[int], order: list[str]) -> None:
    parent, last = forest(depth)
    columns = opened(saved({"parent": parent, "last": last, "depth": depth})).columns
    assert [getattr(columns, name).tolist() for name in order] == [
        {"parent": parent, "last": last, "depth": depth}[name] for name in order
    ]


@given(
    depth=depths(),
    order=st.permutations(["parent", "last", "depth"]),
    name=st.sampled_from(["parent", "last", "depth"]),
    row=st.integers(0, ROWS - 1),
    value=st.integers(-3, ROWS + 2),
)
def test_any_other_caller_range_or_depth_is_noticed(
    depth: list[int], order: list[str], name: str, row: int, value: int
) -> None:
    parent, last = forest(depth)
    columns = {"parent": parent, "last": last, "depth": depth[:]}
    if columns[name][row] == value:
        return
    columns[name][row] = value
    core = opened(saved(columns))
    with pytest.raises(TraceError, match=r"damaged \(columns\.(parent|last|depth)"):
        _ = [getattr(core.columns, one) for one in order]
    for one in order:  # and is not forgotten
        with pytest.raises(TraceError, match="damaged"):
            core.columns._arrays[one]


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
