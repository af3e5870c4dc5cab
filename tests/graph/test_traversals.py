"""Ways through deep graphs, against plain loops, and how many steps they take."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from growth import calls, elements, metered
from hypothesis import given
from hypothesis import strategies as st
from shapes import trace

from tracelens_graph.graph import traversals
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.flows import link_by_id
from tracelens_graph.graph.intervals import union_length, union_length_by_range
from tracelens_graph.graph.traversals import climb, first_ending_after, least_above
from tracelens_graph.loading.one import load_core


@pytest.fixture(params=[0, 3, 64])
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traversals, "_STEPS", request.param)


def chain(parent: list[int], row: int) -> list[int]:
    found = []
    while row >= 0:
        found.append(row)
        row = parent[row]
    return found


@pytest.mark.usefixtures("steps")
@pytest.mark.parametrize("seed", range(20))
def test_what_is_above(seed: int) -> None:
    random = np.random.default_rng(seed)
    parent = np.array([random.integers(max(row - 3, -1), row) for row in range(60)])
    stop, values, rows = random.random(60) < 0.05, random.integers(0, 100, 60), np.arange(-1, 60)
    above = [chain(parent.tolist(), row) for row in rows.tolist()]
    assert climb(parent, rows, stop).tolist() == [next((r for r in way if stop[r]), -1) for way in above]
    assert least_above(parent, rows[1:], values).tolist() == [values[way].min() for way in above[1:]]
    at = random.integers(0, 110, 61)
    expected = [next((r for r in way if values[r] > t), -1) for way, t in zip(above, at, strict=True)]
    assert first_ending_after(values, parent, rows, at).tolist() == expected


def test_climbing_takes_few_steps_however_deep() -> None:
    parent = np.arange(-1, 50_000 - 1)
    rows, stop, at = np.arange(50_000), np.arange(50_000) == 0, np.full(50_000, 9)
    end = np.where(stop, 10, 5)
    ways: list[Callable[[], np.ndarray]] = [
        lambda: climb(parent, rows, stop), lambda: first_ending_after(end, parent, rows, at),
        lambda: least_above(parent, rows, end),
    ]  # fmt: skip
    for way in ways:
        assert calls(way) < 2000


RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), min_size=1, max_size=40)


@given(RANGES, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=10))
def test_unions_of_ranges(intervals: list[tuple[int, int]], ranges: list[tuple[int, int]]) -> None:
    start = np.array([begin for begin, _ in intervals])
    end = start + np.array([length for _, length in intervals])
    low = np.array([min(pair) for pair in ranges], np.int64).clip(0, len(start))
    high = np.array([max(pair) for pair in ranges], np.int64).clip(0, len(start))
    expected = [union_length(start[a:b], end[a:b]) for a, b in zip(low, high, strict=True)]
    assert union_length_by_range(start, end, low, high).tolist() == expected


def test_busy_times_below_deep_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    core = load_core(trace("nested_concurrent", 150))
    rows = np.arange(len(core.columns))
    plainly = core.gpu_busy_ns(rows)
    monkeypatch.setattr(traversals, "_EXPANDED", 0)
    assert core.gpu_busy_ns(rows).tolist() == plainly.tolist()


def test_launches_of_one_id_are_found_together() -> None:
    def link(n: int) -> Callable[[], object]:
        same, at = np.full(n, 5), np.arange(n)
        assert link_by_id(same, at, same, at).tolist() == at.tolist()
        return lambda: link_by_id(same, at, same, at)

    assert calls(link(2000)) < 1.2 * calls(link(100))


@pytest.mark.parametrize("shape", ["threads", "processes", "device_annotations"])
def test_steps_and_annotations_do_not_cost_a_pass_per_thread(shape: str) -> None:
    def both(core: Core) -> object:
        return core.step, core.annotation

    few, many = (metered(load_core(trace(shape, n))) for n in (100, 400))
    assert elements(lambda: both(many)) < 5 * elements(lambda: both(few)) + 10_000
