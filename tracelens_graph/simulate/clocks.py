"""The clock of a rank: how far it is ahead of the true one, and how much faster it goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracelens_graph.simulate.groups import Place
from tracelens_graph.simulate.options import Options

START_NS = 1_428_625_700_000_000
"""When the recording starts, after the base time of the trace."""


@dataclass(frozen=True)
class Clock:
    """`offset_ns` ahead at `START_NS`, and `drift_ppm` nanoseconds more with each true millisecond after."""

    offset_ns: int
    drift_ppm: float

    def recorded(self, time: int) -> int:
        """What the clock shows at a true time; both in nanoseconds after the base."""
        drifted = round((time - START_NS) * self.drift_ppm / 1e6) if self.drift_ppm else 0
        return time + self.offset_ns + drifted


def clock_of(options: Options, place: Place) -> Clock:
    """The clock of a rank, or of its host where hosts are told."""
    number = place.rank if place.node is None else place.node
    return Clock(round(1000 * _value(options.clock_offset_us, number)), float(_value(options.clock_drift_ppm, number)))


def _value(setting: Any, clock: int) -> float:
    return setting[clock] if isinstance(setting, tuple) else clock * setting
