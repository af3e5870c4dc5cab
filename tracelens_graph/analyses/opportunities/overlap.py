"""Collectives that hold up work which does not need their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.opportunities.launched import Does, Launched, launched, module_classes, placed
from tracelens_graph.analyses.opportunities.opportunity import Opportunity
from tracelens_graph.analyses.opportunities.traffic import traffic_of
from tracelens_graph.analyses.performance.unified import arguments_of
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes, modules_of
from tracelens_graph.analyses.timeline.collectives import communication_kernels
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.intervals import Intervals, length, merge, overlapping
from tracelens_graph.graph.window import Window
from tracelens_graph.utils.arrays import Rows

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

_REACH = 64
"""Ops behind a collective among which the one that reads its result is looked for."""
_PARTS = 64
"""Parts of a result that are read one by one, at most."""
_FEWEST_ELEMENTS = 1024
"""A smaller result has a size that others have by chance."""


@dataclass
class _Found:
    """Collectives of one kind in one class of modules, added up."""

    row: int
    calls: int = 0
    ns: int = 0
    won_ns: int = 0
    independent: int = 0
    reader: str = ""


def overlappable(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
    """Collectives behind which work waited that does not read their results, by class of module and kind.

    The op that reads the result is the first one behind the collective that reads as many elements as it gives. Work
    between the two that was launched before the collective was over was held up by it. All of it has to have recorded
    sizes, and the reader has to be found: else there is no finding. What could be hidden is the exposed time of the
    collective, or that work, whichever is less.
    """
    core, c = w.core, w.core.columns
    least = limits.MUCH_PERCENT / 100 * int(c.dur_ns[w.gpu_rows].sum())
    found: dict[tuple[str, str], _Found] = {}
    kernels, source = communication_kernels(w)
    kernels, source = kernels[source >= 0], source[source >= 0]
    classes = module_classes(core, modules_of(core, kernels)[0])
    held = _HeldUp(launched(w), w)
    for kernel, at, module in zip(kernels.tolist(), c.uid[source].tolist(), classes, strict=True):
        given = core.collective_args[at]
        elements, kind = given.get("out_elements"), str(given.get("kind") or "")
        if not isinstance(elements, int) or elements < _FEWEST_ELEMENTS:
            continue
        independent, reader = held.by(kernel, elements)
        won = min(held.exposed(kernel), independent)
        if won > 0:
            one = found.setdefault((module, kind), _Found(kernel))
            one.calls += 1
            one.ns += int(c.dur_ns[kernel])
            one.won_ns += won
            one.independent += independent
            one.reader = reader
    for (module, kind), one in found.items():
        if one.won_ns >= least:
            yield _opportunity(w, module, kind, one)


def _opportunity(w: Window, module: str, kind: str, one: _Found) -> Opportunity:
    c = w.core.columns
    what = (
        f"{placed(module)}work of {one.independent / 1e6:,.3g} ms waits for {one.calls:,} {kind}, though {one.reader}"
        " behind it is the first to read what it gives"
    )
    return Opportunity(
        "overlappable-collective", what, one.ns, one.won_ns,
        "what reads as many elements as the collective gives is the first to need it, and both can run at once",
        ("async_collective",), int(c.uid[one.row]), f"{module}:{kind}" if module else kind, one.calls, module,
        {"kind": kind, "independent_ms": one.independent / 1e6},
    )  # fmt: skip


class _HeldUp:
    """Work that collectives of a window hold up."""

    def __init__(self, work: Launched, w: Window) -> None:
        c = work.core.columns
        self._work, self._c, self._end = work, c, c.end_ns
        self._places: dict[int, Rows] = {}
        self._busy: dict[int, Intervals] = {}
        computes = w.gpu_rows[gpu_classes(work.core, w.gpu_rows) != COMMUNICATION]
        own = np.flatnonzero(gpu_classes(work.core, work.kernel) != COMMUNICATION)
        for device, positions in positions_by(c.device[computes]):
            rows = computes[positions]
            self._busy[device] = merge(c.start_ns[rows], self._end[rows])
        for device, positions in positions_by(c.device[work.kernel[own]]):
            here = own[positions]
            # The stream with the most time is the one that computes.
            _, stream = np.unique(work.stream[here], return_inverse=True)
            self._places[device] = here[stream == int(np.bincount(stream, work.ns[here]).argmax())]
        self._starts = {device: c.start_ns[work.kernel[here]] for device, here in self._places.items()}

    def exposed(self, kernel: int) -> int:
        """Time of a collective with nothing beside it on its device."""
        c = self._c
        start, end = int(c.start_ns[kernel]), int(self._end[kernel])
        begins, ends = overlapping(self._busy[int(c.device[kernel])], start, end)
        return end - start - length((np.maximum(begins, start), np.minimum(ends, end)))

    def by(self, kernel: int, elements: int) -> tuple[int, str]:
        """Time of the work behind a collective that waited for it and does not read its result, and the op that does.

        Nothing, where the op that reads it is not found, or an op before it may.
        """
        c, work = self._c, self._work
        device, end = int(c.device[kernel]), int(self._end[kernel])
        if device not in self._places:
            return 0, ""
        begin = int(np.searchsorted(self._starts[device], end))
        ns = 0
        for place in self._places[device][begin : begin + _REACH].tolist():
            row = int(work.row[place])
            launch = int(c.parent[work.kernel[place]])
            if row < 0 or launch < 0 or _reads_lists(work, row):
                break
            read = traffic_of(work, place)
            if any(one.elements == elements for one in read.reads):
                return ns, work.name(place).removeprefix("aten::")
            if any(_may_be_part(one.elements, elements) for one in read.reads):
                break
            if not read.reads and work.does[place] != Does.FILL:
                break
            ns += int(work.ns[place]) if c.start_ns[launch] < end else 0
        return 0, ""


def _may_be_part(elements: int, whole: int) -> bool:
    """Whether a tensor may be one of a few equal parts of a result."""
    return whole % max(elements, 1) == 0 and elements * _PARTS >= whole


def _reads_lists(work: Launched, row: int) -> bool:
    """Whether an op reads lists of tensors, which may hold anything."""
    dims = arguments_of(work.core, row).parts[0]
    return any(isinstance(one, list) and any(isinstance(size, list) for size in one) for one in dims)
