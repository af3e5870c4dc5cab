"""What a model says of one call of an operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tracelens_graph.errors import CannotModel as CannotModel

Unit = Literal["matrix", "vector"]


@dataclass(frozen=True)
class Cost:
    """The operations and bytes of one call.

    Attributes:
        flops: floating-point operations; a multiply-add counts as two.
        bytes: least traffic to and from memory, each tensor once, no cache; None where a size is not known.
        unit: which units of the device compute it: matrix (tensor cores, MFMA) or vector.
        precision: in which precision (`bf16`, `fp32`, ...); "" if no peak rate is known for the type.
        params: the sizes that it follows from, by the names that users of TraceLens know.
        flops_range, bytes_range: least and greatest value where the arguments leave it open (routing of experts).
        link_bytes: bytes that cross the link between host and device; None for work on the device.
        sheet: table by family that shows the call, where its arguments ask for another than the op's own; else "".
    """

    flops: int
    bytes: int | None
    unit: Unit
    precision: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    flops_range: tuple[int, int] | None = None
    bytes_range: tuple[int, int] | None = None
    link_bytes: int | None = None
    sheet: str = ""

    @property
    def compute_spec(self) -> str:
        """`matrix_bf16` and the like, as peak rates are named; "" if the precision is not known."""
        return f"{self.unit}_{self.precision}" if self.precision else ""

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte; None if one of them is not known."""
        return self.flops / self.bytes if self.bytes else None
