"""Predictions of the times of calls by something other than the roofline, such as a simulator of the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracelens_graph.perf.cost import Cost

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture


@dataclass(frozen=True)
class Work:
    """What a call has to do, as a performance model sees it.

    Attributes:
        op: name of the op, as the row says.
        cost: operations, bytes, precision, and in `params` the sizes that they follow from.
        backward: whether it is a backward pass, costed by what is known of the forward op.
    """

    op: str
    cost: Cost
    backward: bool = False


@dataclass(frozen=True)
class TimeModel:
    """A prediction of the time that work takes on a device.

    Attributes:
        label: how the columns are called: `<label> Time (µs)` and `Pct <label>`.
        time_us: the time in us; None, or CannotModel raised, where the model does not apply. The device is None if
            none was named.
    """

    label: str
    time_us: Callable[[Work, Architecture | None], float | None]
