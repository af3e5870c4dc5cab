"""What the calls of a row of `unified_perf_summary` reach together: their work over the sum of their times.

Rows of that table hold means over calls. Beside the sums of a row a mean over its calls would say another thing: calls
that are fast, and take little of the time, count in it as much as those that take most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple


class Reached(NamedTuple):
    """Rates of a row; None where its work, its time or its roof is not known.

    Attributes:
        tflops_s: operations, in 10^12 per second.
        tb_s: bytes, in 10^12 per second.
        percent_of_roof: time at the roof as share of the time.
        won_us: the time less that at the roof, which is that of the first call for all; not below 0.
    """

    tflops_s: float | None
    tb_s: float | None
    percent_of_roof: float | None
    won_us: float | None


def reached(row: Mapping[str, Any]) -> Reached:
    """The rates of a record of `unified_perf_summary`. Its calls have equal arguments, and so equal work."""
    time_us, calls = row["Kernel Time (µs)_sum"], row["operation_count"]
    seconds = time_us / 1e6
    flops, moved, roof_us = (
        positive(row.get(name)) for name in ("GFLOPS", "Data Moved (MB)", "Roofline Time (µs)_first")
    )
    if not seconds > 0:
        return Reached(None, None, None, None)
    return Reached(
        flops and flops * calls / 1e3 / seconds,
        moved and moved * calls * 2**20 / 1e12 / seconds,
        roof_us and 100 * roof_us * calls / time_us,
        None if roof_us is None else max(time_us - calls * roof_us, 0.0),
    )


def positive(value: float | None) -> float | None:
    """A number above 0, or None for anything else."""
    return value if value is not None and math.isfinite(value) and value > 0 else None
