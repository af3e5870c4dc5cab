"""Rounded means in lists of kernels: those of the exact sums."""

from __future__ import annotations

import pytest
from call_trees import FORWARD, launch, load, op

from tracelens_graph.analyses.ops.kernel_details import details_of_groups, truncated
from tracelens_graph.analyses.ops.launchers import launchers
from tracelens_graph.analyses.shared.grouping import group_by


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
