"""What runs beside the kernels of an op: a known answer, and every pair looked at one by one."""

from __future__ import annotations

import numpy as np
import pytest
from handmade import span
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.analyses.ops.kernel_details import SHORTEST_NS, overlap
from tracelens_graph.analyses.ops.launchers import launchers
from tracelens_graph.analyses.ops.ops import ops_unique_args
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core


def trace(kernels: list[tuple[int, int, int, int]]) -> Core:
    """An op per number; kernels as (op, start, duration, stream), all launched before any of them runs."""
    events = []
    for number in sorted({op for op, *_ in kernels}):
        events.append(span("cpu_op", f"op{number}", 100 * number, 90))
    for i, (op, start, dur, stream) in enumerate(kernels):
        events.append(span("cuda_runtime", "cudaLaunchKernel", 100 * op + 1 + i, 0.5, correlation=i + 1))
        events.append(
            span("kernel", f"k{op}", 10_000 + start, dur, pid=0, tid=stream, device=0, stream=stream, correlation=i + 1)
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
