"""Kernels worth work: what a row says of calls that run different kernels."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import call, gpu, span

from tracelens_graph.analyses.opportunities.kernel_candidates import kernel_candidates
from tracelens_graph.loading.one import load_core

TO_DEVICE, ON_DEVICE = "Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)"


def candidate(*launched: list[tuple[str, float]], **arguments: Any) -> dict[str, Any]:
    """The only row of calls of `aten::copy_`, each with GPU events of some names and durations in us."""
    events, correlation = [], 0
    for at, works in enumerate(launched):
        begin = 1000.0 * at
        events.append(span("cpu_op", "aten::copy_", begin, 100, **arguments))
        for number, (name, dur) in enumerate(works):
            correlation += 1
            category = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
            events += [
                call(begin + 5 * number, correlation),
                gpu(begin + 200 + 100 * number, dur, correlation, name, category),
            ]
    (row,) = kernel_candidates(load_core(events), "h100-sxm").records()
    return row


def test_the_kernel_is_that_with_the_most_time_of_all_calls() -> None:
    row = candidate([("first", 9)], [("short", 2), ("long", 6)], [("long", 5), ("short", 1)], [("first", 1)])
    assert (row["kernel"], row["kernels"], row["calls"]) == ("long", 3, 4)
    assert row["time_ms"] == pytest.approx(0.024)


@pytest.mark.parametrize(
    ("names", "bound"),
    [
        ([TO_DEVICE, TO_DEVICE], "bound by the link"),
        ([TO_DEVICE, ON_DEVICE], "in part by the link"),
        ([ON_DEVICE, TO_DEVICE], "in part by the link"),
        ([ON_DEVICE, ON_DEVICE], "memory"),
    ],
)
def test_the_link_bounds_only_copies_between_host_and_device(names: list[str], bound: str) -> None:
    sizes = {"Input_Dims": [[1000, 1000], [1000, 1000], []], "Input_type": ["float", "float", "Scalar"]}
    row = candidate(*([(name, 90)] for name in names), **sizes)
    assert (row["bound"], row["kernels"]) == (bound, len(set(names)))
