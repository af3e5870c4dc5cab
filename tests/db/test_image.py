"""What is pushed, without a server: declared properties of the declared types, sound texts, every end of an edge."""

from __future__ import annotations

import json
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from handmade import NAMES, hostile_trace, small_trace
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces
from neo4j_server import rows
from profiles import examples

from tracelens_graph.db.database import image
from tracelens_graph.db.image import Image, Options, Placement, ranges_by_size
from tracelens_graph.db.statements import write_edges, write_nodes
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.schema.database import (
    CONTEXT_PROPERTIES,
    EDGE_PROPERTIES,
    EVENT,
    EVENT_PROPERTIES,
    INDEXES,
    KEYS,
    KNOWLEDGE,
    event_labels,
)
from tracelens_graph.schema.stored import Stored
from tracelens_graph.simulate import simulate

TYPES = {"int": int, "float": float, "str": str, "bool": bool, "strs": list}


def image_of(core: Core, **options: Any) -> Image:
    return image(core, Placement("run", "name", {"a": "b"}), Options(**options))


def texts(value: Any) -> list[str]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def assert_sound(found: Image) -> None:
    assert_declared([found.properties], (*CONTEXT_PROPERTIES["Trace"], Stored("label_a", "str", "")))
    keys: dict[str, set[Any]] = {"Trace": {found.properties["id"]}}
    for nodes in found.nodes:
        label = nodes.labels[0]
        declared = EVENT_PROPERTIES if label == EVENT else (*CONTEXT_PROPERTIES[label], Stored("key", "str", ""))
        assert len(set(nodes.properties)) == len(nodes.properties)
        of_nodes = rows(nodes)
        assert_declared(of_nodes, declared)
        for node, size in zip(of_nodes, nodes.sizes.tolist(), strict=True):
            assert isinstance(node["name"], str)
            assert size >= sum(len(value) for value in node.values() if isinstance(value, str))
        if label == EVENT:
            assert nodes.labels[: len(event_labels(Kind[nodes.labels[1]]))] == event_labels(Kind[nodes.labels[1]])
        here = [node[KEYS[label].name] for node in of_nodes]
        assert all(len(key) <= 500 for key in here if isinstance(key, str))
        assert not keys.setdefault(label, set()) & set(here)
        keys[label] |= set(here)
        assert len(set(here)) == len(here)
    seen: set[tuple[Any, ...]] = set()
    for edges in found.edges:
        for source, target, *values in edges.rows(0, len(edges)):
            names = [prop.name for prop in edges.properties]
            assert edges.properties == EDGE_PROPERTIES.get(edges.type, ())
            assert_declared([dict(zip(names, values, strict=True))], edges.properties)
            assert source in keys[edges.source]
            assert target in keys[edges.target]
            edge = edges.type, edges.source, source, edges.target, target
            assert edge not in seen
            seen.add(edge)
    assert len(seen) == found.properties["edges"]
    entered = {(label, key) for _, _, _, label, key in seen}
    for label in KNOWLEDGE:
        if label not in keys:
            continue
        assert {(label, key) for key in keys[label]} <= entered  # else the next drop of another trace would take it
    assert found.properties["nodes"] == len(keys.get(EVENT, ()))


def assert_declared(found: list[dict[str, Any]], declared: tuple[Stored, ...]) -> None:
    types = {prop.name: prop.type for prop in declared}
    for name, value in chain.from_iterable(one.items() for one in found):
        if value is None:
            continue
        wanted = TYPES[types[name]]
        assert type(value) is wanted, (name, value)
        if wanted is int:
            assert -(2**63) <= value < 2**63
        for text in texts(value):
            text.encode()


@examples(60)
@given(traces())
def test_any_trace(trace: dict[str, Any]) -> None:
    assert_sound(image_of(load_core(trace), with_args=True))


def test_hostile_names_and_numbers() -> None:
    core = load_core(hostile_trace())
    found = image_of(core, with_args=True)
    assert_sound(found)
    there = {row["name"] for nodes in found.nodes if nodes.labels[0] == EVENT for row in rows(nodes)}
    assert {name.replace("\ud800", "\ufffd") for name in NAMES} <= there
    assert found.properties["rank"] is None


def test_nothing_of_a_trace_is_in_a_statement() -> None:
    plain, hostile = (image_of(load_core(trace)) for trace in (json.dumps(small_trace()).encode(), hostile_trace()))
    for found in (plain, hostile):
        statements = [*map(write_nodes, found.nodes), *map(write_edges, found.edges)]
        assert all(set(text) <= set(map(chr, range(32, 127))) and len(text) < 2000 for text in statements)
        assert not any("DETACH" in text or "Admin" in text for text in statements)


def test_no_index_holds_a_name() -> None:
    indexed = {*chain.from_iterable(properties for _, properties in INDEXES)}
    assert indexed <= {"trace", "run", "pre", "phase", "short_name", "number"}  # a phase is one of few words
    assert {key.name for key in KEYS.values()} == {"uid", "key", "id", "name", "place", "run", "number"}
    assert [label for label, key in KEYS.items() if key.name == "name"] == ["Run"]  # the user's own, and not longer


@pytest.fixture(scope="module")
def simulated() -> Core:
    return load_core(simulate(1, 2, 2, seed=5).ranks[0].trace)


def test_knowledge_comes_first(simulated: Core) -> None:
    labels = [nodes.labels[0] for nodes in image_of(simulated).nodes]
    knows = [label in KNOWLEDGE for label in labels]
    assert knows == sorted(knows, reverse=True)
    assert labels.index(EVENT) == len(labels) - labels.count(EVENT)


def test_lean_images_say_what_they_lack(simulated: Core) -> None:
    whole = image_of(simulated)
    lean = image_of(simulated, kinds=("Op", "Kernel", "Memcpy", "Memset"), min_gpu_time_ns=5000)
    assert_sound(lean)
    assert lean.properties["lean"] is True
    assert whole.properties["lean"] is None
    assert lean.properties["nodes"] + lean.left_out_nodes == whole.properties["nodes"]
    assert lean.properties["edges"] + lean.left_out_edges == whole.properties["edges"]
    assert sum(map(len, lean.nodes)) + lean.left_out_nodes < sum(map(len, whole.nodes))  # nor knowledge of them
    kinds = {nodes.labels[1] for nodes in lean.nodes if nodes.labels[0] == EVENT}
    assert kinds == {"Op", "Kernel", "Memcpy", "Memset"}
    ops = [row for nodes in lean.nodes if nodes.labels[1:2] == ("Op",) for row in rows(nodes)]
    assert min(op["gpu_sum_ns"] for op in ops) >= 5000


def test_calls_of_a_lean_image_lead_to_the_nearest_caller(simulated: Core) -> None:
    lean = image_of(simulated, kinds=("Module", "Op"))
    calls = next(edges for edges in lean.edges if edges.type == "CALLS").rows(0, 10**9)
    for source, target in calls[:: max(1, len(calls) // 50)]:
        above = simulated.node(target).parent
        while above is not None and above.kind.name not in ("Module", "Op"):
            above = above.parent
        assert above is not None
        assert above.uid == source
    kept = set(chain.from_iterable(calls))
    roots = {source for source, _ in calls} - {target for _, target in calls}
    assert len(calls) == len(kept) - len(roots)


def test_options_come_back_from_text() -> None:
    options = Options(("Op", "Kernel"), 5000, with_args=True)
    assert Options.of(options.text) == options
    assert options.words == "Op, Kernel; calls of 5 us GPU time or more; all arguments"
    assert Options().words == "all events"


def ranges(first: int, sizes: list[int], most: int) -> list[tuple[int, int]]:
    return list(ranges_by_size(first, np.array(sizes, np.int64), most))


@given(st.integers(0, 1000), st.lists(st.integers(0, 30), min_size=1), st.integers(1, 40))
def test_every_row_is_in_one_range_and_no_range_could_be_longer(first: int, sizes: list[int], most: int) -> None:
    found = ranges(first, sizes, most)
    assert [row for low, high in found for row in range(low, high)] == list(range(first, first + len(sizes)))
    sums = [sum(sizes[low - first : high - first]) for low, high in found]
    assert all(total <= most or high - low == 1 for total, (low, high) in zip(sums, found, strict=True))
    heads = [sizes[low - first] for low, _ in found]
    assert all(total + head > most for total, (_, head) in zip(sums, pairwise(heads), strict=False))
