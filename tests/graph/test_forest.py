"""The call forest equals a plain stack, on every real trace and on generated events."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import host_parents, launches

from corpus import kineto_traces, loaded, parametrize, parametrize_all
from tracelens_graph.graph import forest
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.kineto.loader import load_kineto
from tracelens_graph.loaders.sources import open_source
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Flag, Kind

CATEGORIES = ("python_function", "cpu_op", "cuda_runtime")


def read(path: Path) -> list[dict[str, Any]]:
    # Floats as text: some traces have times that no float can carry to the nanosecond.
    parsed = json.loads(gzip.decompress(path.read_bytes()), parse_float=str)
    return parsed["traceEvents"] if isinstance(parsed, dict) else parsed


def our_parents(core: Core) -> dict[int, int | None]:
    c = core.columns
    host = np.flatnonzero(c.kind <= Kind.RuntimeCall)
    return {int(c.uid[row]): int(c.uid[c.parent[row]]) if c.parent[row] >= 0 else None for row in host.tolist()}


def check_structure(core: Core) -> None:
    """What holds for every graph whatsoever."""
    c = core.columns
    rows = np.arange(len(c))
    child = np.flatnonzero(c.parent >= 0)
    parent = c.parent[child]
    assert (parent < child).all()
    assert (child <= c.last[parent]).all()
    assert (c.depth[child] == c.depth[parent] + 1).all()
    assert (c.depth[c.parent < 0] == 0).all()
    assert (c.last >= rows).all()
    assert (c.last[child] <= c.last[parent]).all()
    size = np.ones(len(c), np.int64)
    for row in child[::-1].tolist():
        size[c.parent[row]] += size[row]
    assert (c.last - rows + 1 == size).all()
    host = child[c.kind[child] <= Kind.RuntimeCall]
    while len(host):
        above = c.parent[host]
        ends_before = c.end_ns[above] < c.start_ns[host]
        assert not ends_before.any()
        climbing = c.parent[above] >= 0
        # Compare each event with all its ancestors: lift the ancestor, keep the event's start.
        host = above[climbing]


@parametrize_all("path", kineto_traces())
def test_real_forests_and_links_equal_the_plain_rules(path: Path) -> None:
    events = read(path)
    core = load_kineto(open_source(path))  # without the ops that are made for parts of fused work
    check_structure(loaded(path))
    assert our_parents(core) == host_parents(events)
    c = core.columns
    gpu = core.gpu_rows
    ours = {int(c.uid[row]): int(c.uid[c.parent[row]]) for row in gpu.tolist() if c.parent[row] >= 0}
    by_flow = {int(c.uid[row]) for row in gpu.tolist() if c.flags[row] & Flag.linked_by_flow}
    plain = launches(events)
    assert {uid: call for uid, call in ours.items() if uid not in by_flow} == plain


@parametrize("path", kineto_traces())
def test_no_ancestor_of_a_real_event_ends_before_it_begins(path: Path) -> None:
    core = loaded(path)
    c = core.columns
    host = np.flatnonzero(c.kind <= Kind.RuntimeCall)
    above = c.parent[host]
    while (above >= 0).any():
        keep = above >= 0
        host, above = host[keep], above[keep]
        assert (c.end_ns[above] >= c.start_ns[host]).all()
        above = c.parent[above]


@parametrize("path", kineto_traces())
def test_every_real_gpu_event_is_charged_once_or_counted(path: Path) -> None:
    core = loaded(path)
    c, gpu = core.columns, core.gpu_rows
    launched = c.parent[gpu] >= 0
    assert (c.kind[c.parent[gpu[launched]]] == Kind.RuntimeCall).all()
    charged = c.owner[gpu] >= 0
    assert (c.kind[c.owner[gpu[charged]]] == Kind.Op).all()
    assert not (charged & ~launched).any()
    roots = np.flatnonzero(c.parent < 0)
    assert int(core.gpu_sum_ns[roots].sum()) == int(c.dur_ns[gpu].sum())
    not_gpu = np.setdiff1d(np.arange(len(c)), gpu)
    assert (c.owner[not_gpu] < 0).all()


@st.composite
def host_events(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(0, 25))
    limit = draw(st.sampled_from([6, 30, 1000]))
    return [
        {
            "ph": "X",
            "cat": draw(st.sampled_from(CATEGORIES)),
            "name": f"e{uid}",
            "pid": draw(st.integers(0, 1)),
            "tid": draw(st.sampled_from([1, 2, "worker"])),
            "ts": draw(st.integers(0, limit)) / 1000,
            "dur": draw(st.integers(0, limit)) / 1000,
            "args": {},
        }
        for uid in range(count)
    ]


@given(host_events())
def test_generated_forests_equal_the_plain_rules(events: list[dict[str, Any]]) -> None:
    core = load_core({"traceEvents": events})
    check_structure(core)
    assert our_parents(core) == host_parents(events)


@given(host_events(), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 1)), max_size=20))
def test_generated_gpu_events_stay_inside_the_subtree_of_their_launch(
    events: list[dict[str, Any]], kernels: list[tuple[int, int, int]]
) -> None:
    calls = [event for event in events if event["cat"] == "cuda_runtime"]
    for number, event in enumerate(calls):
        event["args"] = {"correlation": number + 1}
    for start, correlation, stream in kernels:
        events.append(
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": stream, "ts": start, "dur": 1,
             "args": {"correlation": correlation, "device": 0, "stream": stream}}
        )  # fmt: skip
    core = load_core(events)
    check_structure(core)
    c, gpu = core.columns, core.gpu_rows
    assert len(gpu) == len(kernels)
    for row in gpu.tolist():
        linked = 1 <= c.correlation[row] <= len(calls)
        assert (c.parent[row] >= 0) == linked
        if linked:
            assert c.correlation[c.parent[row]] == c.correlation[row]
    order = [(int(c.start_ns[r]), int(c.stream[r]), int(c.uid[r])) for r in gpu.tolist()]
    for call in np.unique(c.parent[gpu[c.parent[gpu] >= 0]]).tolist():
        mine = [order[i] for i, row in enumerate(gpu.tolist()) if c.parent[row] == call]
        assert mine == sorted(mine)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.integers(0, 12), st.integers(0, 2)), max_size=40),
    st.data(),
)
def test_a_large_forest_is_made_group_by_group(events: list[tuple[int, int, int, int]], data: st.DataObject) -> None:
    columns = [np.array(column, np.int64) for column in zip(*events, strict=True)] or [np.zeros(0, np.int64)] * 4
    rows = np.array(data.draw(st.permutations(range(len(events)))), np.int64)[: len(events) // 2 + 1]
    whole = forest.build_forest(*(column[rows] for column in columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forest, "_LARGE", 0)
        apart = forest.build_forest(*columns, rows)
    for name in ("order", "parent", "last", "depth", "outlives"):
        assert getattr(apart, name).tolist() == getattr(whole, name).tolist()
