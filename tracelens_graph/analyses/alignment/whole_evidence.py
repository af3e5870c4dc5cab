"""What the places of a comparison show together: a common factor, devices, communication beside them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.alignment.align import Alignment
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.evidence import Evidence, times
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.shared.common_factor import CLOCK, agreed_factor
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, COMPUTATION, gpu_classes
from tracelens_graph.graph.intervals import length_before, merge

CONTENDED = 0.2
"""Part of the time by which the overlap with communication must have grown."""
_PART_ELSEWHERE = 0.5
"""Part of a change that, seen where nothing else changed, needs no communication to explain it."""


class Whole:
    """What all places of a comparison show together.

    Args:
        is_part: whether its sides are parts of one program, such as two layers: then no clock explains what differs.
    """

    def __init__(self, difference: Diff, is_part: bool = False) -> None:
        self._diff, self._is_part = difference, is_part
        self._evidence = [Evidence(difference, place) for place in difference.places]
        self._of = dict(zip(map(id, difference.places), self._evidence, strict=True))
        devices = [_devices(side) for side in difference.alignment.sides]
        self.is_other_device = all(devices) and devices[0] != devices[1]

    def evidence(self, place: Place) -> Evidence:
        """What the traces show about a place."""
        return self._of.get(id(place)) or Evidence(self._diff, place)

    @cached_property
    def factor(self) -> float | None:
        """The factor by which all kernels take longer or less; None where they do not agree on one."""
        alike = (evidence.place for evidence in self._evidence if not evidence.arguments)
        return common_factor(self._diff.alignment, alike)

    @property
    def clock(self) -> float | None:
        """The same where the device may be why."""
        return None if self._is_part or self.is_other_device else self.factor

    @property
    def of_all(self) -> str | None:
        """Why all kernels take longer or less, in words; None where they do not by one factor."""
        if self.factor is None:
            return None
        text = f"all kernels {times(self.factor)}"
        if self._is_part:
            return f"{text}; the traces do not show why"
        return f"{text}, on another device" if self.is_other_device else f"{text}: {CLOCK}"

    def overlap(self, side: int, place: Place) -> float:
        """Part of the time of a place's GPU events in which communication runs beside them."""
        forest = self._diff.alignment.sides[side]
        core, c = forest.window.core, forest.window.core.columns
        merged = self._communication[side]
        if not len(merged[0]):
            return 0.0
        rows = forest.events_of_all(place.leaves(side))
        rows = rows[gpu_classes(core, rows) != COMMUNICATION]
        total = int(c.dur_ns[rows].sum())
        if not total:
            return 0.0
        beside = length_before(merged, c.end_ns[rows]) - length_before(merged, c.start_ns[rows])
        return float(beside.sum() / total)

    def is_so_elsewhere(self, place: Place) -> bool:
        """Whether its kernels changed alike at places where as much communication runs beside them as before."""
        first, second = place.kernels
        change = sum(
            first[name][1] * (self._elsewhere[name][1] / self._elsewhere[name][0] - 1)
            for name in first.keys() & second.keys() & self._elsewhere.keys()
        )
        return change * place.change_ns >= _PART_ELSEWHERE * place.change_ns**2

    @cached_property
    def _elsewhere(self) -> dict[str, tuple[int, int]]:
        """Of kernels how long they take on both sides, where the communication beside them is as before."""
        found: dict[str, tuple[int, int]] = {}
        for place in self._diff.places:
            first, second = place.kernels
            if abs(self.overlap(1, place) - self.overlap(0, place)) >= CONTENDED / 2:
                continue
            for name in first.keys() & second.keys():
                (number, before), (same, after) = first[name], second[name]
                if number == same and before:
                    had = found.get(name, (0, 0))
                    found[name] = had[0] + before, had[1] + after
        return found

    @cached_property
    def _communication(self) -> list[tuple[np.ndarray, np.ndarray]]:
        found = []
        for forest in self._diff.alignment.sides:
            core, rows = forest.window.core, forest.window.gpu_rows
            rows = rows[gpu_classes(core, rows) == COMMUNICATION]
            found.append(merge(core.columns.start_ns[rows], core.columns.end_ns[rows]))
        return found


def _devices(side: Forest) -> set[str]:
    """Names of the devices that the trace describes."""
    listed = side.window.core.info.metadata.get("deviceProperties")
    described = listed if isinstance(listed, list) else []
    return {str(device.get("name")) for device in described if isinstance(device, dict)}


_COMPARABLE = 0.5
"""Share of the time of all computation that must be comparable."""


def common_factor(alignment: Alignment, places: Iterable[Place]) -> float | None:
    """The factor by which all kernels take longer or less on the second side; None where they do not agree on one.

    Args:
        places: those whose arguments are the same: only their kernels can be compared.
    """
    a, b = alignment.sides
    leaves = np.array([leaf for place in places for leaf in place.leaves(0)], np.int64)
    leaves = leaves[(alignment.leaves[0][leaves] >= 0) & _computes(a)[leaves] & (a.ns[leaves] > 0)]
    partners = alignment.leaves[0][leaves]
    number = np.diff(a.first_event)[leaves] == np.diff(b.first_event)[partners]
    same = number & (a.kernel[leaves] == b.kernel[partners]) & (b.ns[partners] > 0)
    leaves, partners = leaves[same], partners[same]
    ns = a.ns[leaves]
    if not len(ns) or ns.sum() < _COMPARABLE * a.ns[_computes(a)].sum():
        return None
    return agreed_factor(b.ns[partners] / ns, ns, a.kernel[leaves])


def _computes(side: Forest) -> np.ndarray:
    """Per leaf whether its first event computes: neither communication nor a copy."""
    return gpu_classes(side.window.core, side.events[side.first_event[:-1]]) == COMPUTATION
