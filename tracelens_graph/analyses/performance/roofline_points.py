"""What a roofline shows: roofs of a device, and a point for each operation by its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tracelens_graph.analyses.performance.reached import positive, reached
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.tables.table import Table

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
        """The roofline of `unified_perf_summary`, made for the device.

        Args:
            ops: the table.
            arch: the device.
            most: points.
        """
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
        name=str(row["name"]),
        category=str(row["op category"]),
        shapes=" ".join(str(dims) for dims in row["Input Dims"] or () if dims),
        types=", ".join(filter(None, (*dict.fromkeys(types), row["Compute Spec"]))),
        x=row["FLOPS/Byte"],
        y=rates.tflops_s or 0.0,
        us=row["Kernel Time (µs)_sum"],
        percent=row["Percentage (%)"],
        calls=row["operation_count"],
        uid=row["ex_UID"],
        roof=rates.percent_of_roof,
        bound=str(row["Roofline Bound"] or "").removesuffix("_BOUND").lower(),
        won_us=rates.won_us,
    )
