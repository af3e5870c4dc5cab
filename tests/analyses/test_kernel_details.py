"""Kernels of the calls of a group, and which others run beside them."""

from __future__ import annotations

import numpy as np
import pytest
from call_trees import FORWARD, launch, load, op
from handmade import span
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.analyses.ops.kernel_details import SHORTEST_NS, details_of_groups, overlap, truncated
from tracelens_graph.analyses.ops.launchers import launchers
from tracelens_graph.analyses.ops.ops import ops_unique_args
from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core


@pytest.mark.parametrize(
    ("total_us", "calls", "mean_us"),
    [(1890.9, 12, 157.58), (16.46, 4, 4.12), (2.325, 1, 2.32), (2.335, 1, 2.34), (1.0, 3, 0.33), (2.0, 3, 0.67)],
)
def test_half_a_hundredth_goes_to_the_even_one(total_us: float, calls: int, mean_us: float) -> None:
    rest = round(1000 * total_us) - 7 * (calls - 1)
    durations = [0.007] * (calls - 1) + [rest / 1000]
    trace = [op("aten::mm", launch()) for _ in durations]
    core = load({FORWARD: trace})
    c = core.columns
    dur = c.dur_ns.copy()
    dur[core.gpu_rows] = [round(1000 * one) for one in durations]
    object.__setattr__(c, "dur_ns", dur)
    found = launchers(core.everything)
    group, first = group_by(c.name[found.rows])
    ((details,), notes) = details_of_groups(found, group, first)
    assert (details[0]["count"], notes) == (calls, [])
    assert truncated(details)[0]["mean_duration_us"] == mean_us


def trace(kernels: list[tuple[int, int, int, int]]) -> Core:
    """An op per number; kernels as (op, start, duration, stream), all launched before any of them runs."""
    events = []
    for number in sorted({caller for caller, *_ in kernels}):
        events.append(span("cpu_op", f"op{number}", 100 * number, 90))
    for i, (caller, start, dur, stream) in enumerate(kernels):
        events.append(span("cuda_runtime", "cudaLaunchKernel", 100 * caller + 1 + i, 0.5, correlation=i + 1))
        events.append(
            span("kernel", f"k{caller}", 10_000 + start, dur, 0, stream, device=0, stream=stream, correlation=i + 1)
        )
    return load_core(events)


def test_known_answer() -> None:
    core = trace([(0, 0, 10, 1), (1, 5, 10, 2), (1, 30, 10, 1), (0, 9.5, 1, 2)])  # type: ignore[list-item]
    rows = {row["name"]: row for row in ops_unique_args(core, overlapping=True).records()}
    assert rows["op0"]["overlapping_kernel_names"] == ["k1"]
    assert rows["op0"]["overlap_pct_mean"] == pytest.approx(0.48)  # 5 of 10.5 us
    (beside,) = rows["op1"]["overlapping_kernels_details_summary"]
    assert (beside["name"], beside["stream"], beside["count"], beside["total_duration_us"]) == ("k0", 1, 1, 10)
    assert "overlap_pct_mean" not in ops_unique_args(core).columns


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 20), st.integers(1, 3)), max_size=12))
def test_pairs_are_those_found_one_by_one(kernels: list[tuple[int, int, int, int]]) -> None:
    found = launchers(trace(kernels).everything)
    c = found.core.columns
    expected = set()
    covered: dict[int, set[int]] = {i: set() for i in range(len(found))}
    for a, of_a in zip(found.gpu.tolist(), found.of.tolist(), strict=True):
        for b, of_b in zip(found.gpu.tolist(), found.of.tolist(), strict=True):
            low, high = max(c.start_ns[a], c.start_ns[b]), min(c.end_ns[a], c.end_ns[b])
            if of_a != of_b and c.stream[a] != c.stream[b] and high - low >= SHORTEST_NS:
                expected.add((of_a, b))
                covered[of_a] |= set(range(int(low) // 1000, int(high) // 1000))
    beside = overlap(found)
    assert {tuple(pair) for pair in beside.beside.tolist()} == expected
    for number in range(len(found)):
        busy = found.direct_ns[number]
        assert beside.share[number] == pytest.approx(1000 * len(covered[number]) / busy if busy else 0)
    assert np.all(beside.share <= 1)
