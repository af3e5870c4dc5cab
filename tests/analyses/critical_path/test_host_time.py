"""In which call most of a span was spent, against looking at every moment."""

from __future__ import annotations

from collections import Counter

import numpy as np
from handmade import span
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.analyses.critical_path.path_nodes import longest_calls
from tracelens_graph.loading.one import load_core

calls = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30)), min_size=1, max_size=12)


@given(calls, st.lists(st.integers(0, 90), min_size=2, max_size=8, unique=True))
def test_any_nested_calls(given_calls: list[tuple[int, int]], cuts: list[int]) -> None:
    core = load_core({"traceEvents": [span("cpu_op", f"op{n}", start, length)
                                      for n, (start, length) in enumerate(given_calls)]})  # fmt: skip
    c = core.columns
    base = min(start for start, _ in given_calls)
    bounds = 1000 * (np.array(sorted(cuts)) - base)
    start, end = bounds[:-1], bounds[1:]
    found = longest_calls(core, np.zeros(len(start), np.int64), start, end)
    # Within an event that outlives its caller, who is the innermost is a matter of cutting; none of these here.
    if c.flags.any():
        return
    for low, high, row in zip(start.tolist(), end.tolist(), found.tolist(), strict=True):
        spent: Counter[int] = Counter()
        for moment in range(low, high, 1000):
            open_calls = np.flatnonzero((c.start_ns <= moment) & (moment < c.end_ns))
            if len(open_calls):
                spent[int(open_calls.max())] += 1  # rows are in the order of nesting
        assert spent[row] == max(spent.values()) if spent else row == -1


def test_threads_are_told_apart() -> None:
    core = load_core({"traceEvents": [span("cpu_op", "one", 0, 10), span("cpu_op", "other", 0, 10, tid=200)]})
    threads = core.columns.thread
    found = longest_calls(core, threads, np.zeros(2, np.int64), np.full(2, 5_000))
    assert found.tolist() == [0, 1]
