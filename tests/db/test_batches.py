"""Rows in transactions: every row once, few statements, and no node in two edges that are written side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from tracelens_graph.db import batches
from tracelens_graph.db.batches import BATCH, FEW, Batch, edge_stages, node_batches
from tracelens_graph.db.database import image
from tracelens_graph.db.image import Edges, Image, Nodes, Placement
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema.database import EVENT, EVENT_PROPERTIES
from tracelens_graph.schema.stored import Stored
from tracelens_graph.simulate import simulate

UID = EVENT_PROPERTIES[0]


def events(sizes: list[int], kind: str = "Op", first: int = 0) -> Nodes:
    return Nodes((EVENT, kind), (UID,), (np.arange(first, first + len(sizes)),), np.array(sizes, np.int64))


@pytest.fixture(scope="module")
def simulated() -> Image:
    core: Core = load_core(simulate(1, 3, 2, seed=5).ranks[0].trace)
    return image(core, Placement("run", "name"))


@pytest.mark.parametrize("length", [1, 999, 1001, 4999, 12_345])
def test_batches_hold_every_node_once(length: int) -> None:
    found = node_batches([events([0] * length)])
    assert [row[0] for batch in found for row in batch.rows()] == list(range(length))
    assert max(map(len, found)) <= BATCH
    assert (len(found) > 1) == (length > FEW)


def test_a_row_of_an_event_has_its_labels_and_all_properties() -> None:
    name = next(prop for prop in EVENT_PROPERTIES if prop.name == "name")
    nodes = Nodes((EVENT, "Kernel", "GpuEvent", "Hot"), (UID, name), ([7], ["gemm"]), np.array([4]))
    (batch,) = node_batches([nodes])
    (row,) = batch.rows()
    assert row[:2] == [7, ["Kernel", "GpuEvent", "Hot"]]
    rest = dict(zip((prop.name for prop in EVENT_PROPERTIES[1:]), row[2:], strict=True))
    assert {name: value for name, value in rest.items() if value is not None} == {"name": "gemm"}


def test_all_events_are_of_one_statement(simulated: Image) -> None:
    statements = Counter(batch.statement for batch in node_batches(simulated.nodes))
    assert len(statements) == 1 + len({nodes.labels[0] for nodes in simulated.nodes} - {EVENT})
    assert sum(map(len, node_batches(simulated.nodes))) == sum(map(len, simulated.nodes))


def ends(queue: Iterable[Batch]) -> set[tuple[Any, ...]]:
    """The nodes that batches of edges lock."""
    found = set()
    for batch in queue:
        group = batch.parts[0].group
        assert isinstance(group, Edges)
        for source, target, *_ in batch.rows():
            found |= {(group.source, group.scopes[0], source), (group.target, group.scopes[1], target)}
    return found


def edges_of(stages: Iterable[list[list[Batch]]]) -> Counter[tuple[Any, ...]]:
    rows = ((batch.statement, *row) for stage in stages for queue in stage for batch in queue for row in batch.rows())
    return Counter(rows)


def check(groups: list[Edges]) -> list[list[list[Batch]]]:
    stages = list(edge_stages(groups))
    for stage in stages:
        locked = [ends(queue) for queue in stage]
        assert sum(map(len, locked)) == len(set().union(*locked))
    assert len(edges_of(stages)) == sum(map(len, groups))
    assert set(edges_of(stages).values()) <= {1}
    return stages


@examples(40)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.booleans(), st.booleans())
def test_any_edges(seed: int, nodes: int, same: bool, by_source: bool) -> None:
    drawn = np.random.default_rng(seed)
    pairs = np.unique(drawn.integers(0, nodes, (200, 2)), axis=0)
    pairs = pairs[np.argsort(pairs[:, 0 if by_source else 1], kind="stable")]
    source, target = pairs.T
    of_op = Edges("ANY", EVENT, EVENT if same else "Thread", (source, target.tolist()), by_source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "FEW", 10)
        patch.setattr(batches, "BATCH", 7)
        check([of_op])


def test_edges_of_one_hub_are_written_alone() -> None:
    hub = Edges("ON_THREAD", EVENT, "Thread", (np.arange(3000), ["only"] * 3000))
    assert [len(stage) for stage in check([hub])][1:] == [1]


def test_matched_edges_are_written_side_by_side_without_rest() -> None:
    """Of two traces a uid may be the same and its event another."""
    pairs = Edges("MATCHES", EVENT, EVENT, (np.arange(3000), np.arange(3000)[::-1]), scopes=("a", "b"))
    assert [len(stage) for stage in check([pairs])][1:] == [2]


def test_edges_with_properties_keep_them() -> None:
    rows = np.arange(4000)
    group = Edges("SENDS", EVENT, EVENT, (rows, rows + 4000, (rows * 2).tolist()), False, (Stored("x", "int", ""),))
    assert all(row[3] == 2 * row[1] for row in edges_of(check([group])))
