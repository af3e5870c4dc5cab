"""Interval arithmetic equals counting the covered instants one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.graph import intervals

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.integers(0, 3)), max_size=20)


def arrays(spans: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(spans, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 0] + table[:, 1], table[:, 2]


def covered(spans: list[tuple[int, int, int]]) -> set[int]:
    return {instant for start, dur, _ in spans for instant in range(start, start + dur)}


@given(SPANS)
def test_union_covers_each_instant_once(spans: list[tuple[int, int, int]]) -> None:
    start, end, _ = arrays(spans)
    begins, ends = intervals.merge(start, end)
    assert intervals.union_length(start, end) == len(covered(spans))
    assert (ends > begins).all()
    assert (begins[1:] > ends[:-1]).all()


@given(SPANS, st.lists(st.integers(-3, 60)))
def test_what_lies_before_an_instant(spans: list[tuple[int, int, int]], at: list[int]) -> None:
    start, end, _ = arrays(spans)
    found = intervals.length_before(intervals.merge(start, end), np.array(at, np.int64))
    assert found.tolist() == [sum(instant < one for instant in covered(spans)) for one in at]


@given(SPANS)
def test_gaps_and_union_make_up_the_whole(spans: list[tuple[int, int, int]]) -> None:
    start, end, _ = arrays(spans)
    merged = intervals.merge(start, end)
    whole = merged[1][-1] - merged[0][0] if len(merged[0]) else 0
    assert intervals.length(merged) + intervals.length(intervals.gaps(merged)) == whole


@given(SPANS, st.sampled_from([0, 2**55]))
def test_unions_by_group_equal_the_unions_of_the_groups(spans: list[tuple[int, int, int]], far: int) -> None:
    start, end, group = arrays(spans)
    start, end = start + far * (group == 2), end + far * (group == 2)
    expected = [len(covered([span for span in spans if span[2] == number])) for number in range(4)]
    assert intervals.union_length_by_group(group, start, end, 4).tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-100, 100)), max_size=30))
def test_sums_by_group(pairs: list[tuple[int, int]]) -> None:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    expected = [sum(value for group, value in pairs if group == number) for number in range(6)]
    assert intervals.sum_by_group(table[:, 0], table[:, 1], 6).tolist() == expected
