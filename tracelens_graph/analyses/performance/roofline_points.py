"""What calls reach under the roofs of a device: rates of a row, points of a roofline, operations far below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tracelens_graph.analyses.ops.ops import ARGUMENTS
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table


class Reached(NamedTuple):
    """Rates of a row; None where its work, its time or its roof is not known.

    Attributes:
        tflops_s: operations, in 10^12 per second.
        tb_s: bytes, in 10^12 per second.
        percent_of_roof: time at the roof, summed over calls, as share of the time.
        won_us: the time less that at the roof, not below 0.
    """

    tflops_s: float | None
    tb_s: float | None
    percent_of_roof: float | None
    won_us: float | None


def reached(row: Mapping[str, Any]) -> Reached:
    """The rates of a record of `unified_perf_summary`.

    Its calls have equal arguments, but attention of a server works on other lengths in each step: the time at the roof
    is each call's own, and the work of the first call counts as many times as the calls take its time at the roof.
    """
    time_us, calls = row["Kernel Time (µs)_sum"], row["operation_count"]
    seconds = time_us / 1e6
    flops, moved, roof_us = (
        positive(row.get(name)) for name in ("GFLOPS", "Data Moved (MB)", "Roofline Time (µs)_first")
    )
    if not seconds > 0:
        return Reached(None, None, None, None)
    mean_us = positive(row.get("Roofline Time (µs)_mean")) or roof_us
    times = calls * mean_us / roof_us if roof_us and mean_us else calls
    return Reached(
        flops and flops * times / 1e3 / seconds,
        moved and moved * times * 2**20 / 1e12 / seconds,
        roof_us and 100 * roof_us * times / time_us,
        None if roof_us is None else max(time_us - times * roof_us, 0.0),
    )


def positive(value: float | None) -> float | None:
    """A number above 0, or None for anything else."""
    return value if value is not None and math.isfinite(value) and value > 0 else None


MOST_POINTS = 2000
"""Operations that are drawn, those with most time."""


@dataclass(frozen=True)
class Roof:
    """The rate of some precisions.

    Attributes:
        label: the precisions, separated by commas.
        tflops: their rate, TFLOP/s.
        ridge: FLOPs per byte from which on computing bounds.
    """

    label: str
    tflops: float
    ridge: float


@dataclass(frozen=True)
class Point:
    """An operation with its arguments; rates are those of all its calls together.

    Attributes:
        name: of the operation.
        category: of its kernels.
        shapes: of its inputs, `[8, 16] [32, 16]`.
        types: of its inputs, and the unit and precision that compute.
        x: FLOPs per byte.
        y: TFLOP/s.
        us: time of its kernels.
        percent: of the GPU time.
        calls: how often it is called.
        uid: of its first call.
        roof: percent of the roof that it reaches; None without a roof.
        bound: "compute" or "memory"; empty without a roof.
        won_us: time beyond that at the roof; None without a roof.
    """

    name: str
    category: str
    shapes: str
    types: str
    x: float
    y: float
    us: float
    percent: float
    calls: int
    uid: int
    roof: float | None
    bound: str
    won_us: float | None


@dataclass(frozen=True)
class RooflinePoints:
    """A roofline.

    Attributes:
        device: its name.
        bandwidth: of its memory, GB/s; None where not known.
        roofs: those of the precisions that occur, the greatest rate first.
        points: operations, those with most time first.
        more: how many further operations could be drawn.
        unplaced: how many operations with a model compute nothing, or have no known bytes or time.
    """

    device: str
    bandwidth: float | None
    roofs: list[Roof]
    points: list[Point]
    more: int
    unplaced: int

    @classmethod
    def of(cls, ops: Table, arch: Architecture, most: int = MOST_POINTS) -> RooflinePoints:
        """The roofline of `unified_perf_summary`, made for the device."""
        modelled = [row for row in ops.records() if row["has_perf_model"]]
        drawn = [row for row in modelled if positive(row["FLOPS/Byte"]) and reached(row).tflops_s]
        roofs = _roofs({row["Compute Spec"] for row in drawn if row["Compute Spec"]}, arch)
        points = [_point(row) for row in drawn[:most]]
        bandwidth = arch.value("memory_bandwidth_gbps")
        return cls(arch.name, bandwidth, roofs, points, len(drawn) - len(points), len(modelled) - len(drawn))

    @property
    def notes(self) -> list[str]:
        """What is not drawn."""
        return [
            *(["no operation with a model computes anything"] if not self.points else []),
            *([f"{self.more:,} more operations are not drawn"] if self.more else []),
            *(
                [f"{self.unplaced:,} operations with a model compute nothing, or their bytes or time are not known"]
                if self.unplaced
                else []
            ),
        ]


def _roofs(specs: Iterable[str], arch: Architecture) -> list[Roof]:
    """Precisions with the same rate share a roof."""
    bandwidth = arch.value("memory_bandwidth_gbps")
    by_rate: dict[float, list[str]] = {}
    for spec in sorted(specs):
        rate = arch.rate(spec)
        if rate and bandwidth:
            by_rate.setdefault(rate.tflops, []).append(spec)
    ordered = sorted(by_rate.items(), reverse=True)
    return [Roof(", ".join(names), rate, rate * 1e3 / bandwidth) for rate, names in ordered if bandwidth]


def _point(row: Mapping[str, Any]) -> Point:
    rates = reached(row)
    types = (str(name).removeprefix("c10::") for name in row["Input type"] or () if name and name != "Scalar")
    return Point(
        name=str(row["name"]), category=str(row["op category"]),
        shapes=" ".join(str(dims) for dims in row["Input Dims"] or () if dims),
        types=", ".join(filter(None, (*dict.fromkeys(types), row["Compute Spec"]))), x=row["FLOPS/Byte"],
        y=rates.tflops_s or 0.0, us=row["Kernel Time (µs)_sum"], percent=row["Percentage (%)"],
        calls=row["operation_count"], uid=row["ex_UID"], roof=rates.percent_of_roof, bound=_bound(row),
        won_us=rates.won_us,
    )  # fmt: skip


def _bound(row: Mapping[str, Any]) -> str:
    return str(row["Roofline Bound"] or "").removesuffix("_BOUND").lower()


BELOW_ROOF = TableSchema(
    "below_roof",
    "Which operations are far below the roof, sorted by the time that could be won.",
    {
        "op": Column.key("op that the work is given to", "op"),
        "input_dims": ARGUMENTS["Input Dims"],
        "input_types": ARGUMENTS["Input type"],
        "bound": Column.text("what bounds it at the roof: compute or memory", "bound"),
        "calls": Column.count("calls with these arguments", "calls"),
        "time_ms": Column.total("sum of the durations of their GPU work", "ms", "time ms", compared="main"),
        "percent_of_roof": Column("time at the roof, each call's own, as share of the time", "%", heading="% of roof"),
        "mean_percent_of_roof": Column(
            "mean over calls of the time at the roof as share of the call's: short calls count as much as long ones",
            "%",
            heading="mean %",
            drop_priority=0,
        ),
        "flops_per_byte": Column("operations per byte moved", "FLOP/B", heading="FLOP/B", drop_priority=2),
        "could_be_won_ms": Column.total("the time less the time at the roof, call by call", "ms", "could be won ms"),
        "uid": Column.instance("uid of the first call"),
    },
    counts="call",
)


def below_roof(ops: Table) -> Table:
    """Operations by the time that they take beyond that at the roof, the most first.

    Args:
        ops: `unified_perf_summary`, made for a device.

    Returns:
        One row per row of `ops` that has a roof and takes longer.
    """
    found = [(it, row) for row in ops.records() if (it := reached(row)).won_us]
    found.sort(key=lambda pair: -(pair[0].won_us or 0))
    rows = [row for _, row in found]
    columns = {
        "op": [str(row["name"]) for row in rows], "input_dims": [row["Input Dims"] for row in rows],
        "input_types": [row["Input type"] for row in rows], "bound": [_bound(row) for row in rows],
        "calls": [row["operation_count"] for row in rows],
        "time_ms": [row["Kernel Time (µs)_sum"] / 1e3 for row in rows],
        "percent_of_roof": [it.percent_of_roof for it, _ in found],
        "mean_percent_of_roof": [row["Pct Roofline_mean"] for row in rows],
        "flops_per_byte": [row["FLOPS/Byte"] for row in rows],
        "could_be_won_ms": [(it.won_us or 0) / 1e3 for it, _ in found], "uid": [row["ex_UID"] for row in rows],
    }  # fmt: skip
    return BELOW_ROOF.table(columns, "Operations below the roof, by what could be won")
