"""Kernels of command buffers (CUDA graphs): one launch runs the kernels of many instructions.

Where kernels name their own instructions, the launch's time is divided among these, in the order in which they began on
the device. Each part is an instance of its instruction with a call that launches its kernels, so that these stand in
the call tree, and in scopes, as if they had been launched one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.loaders.xplane.collect import Events
from tracelens_graph.utils.arrays import Codes, Ns, Rows

NODE = "node of a graph"
"""Name of the calls that stand for parts of a graph's launch."""

Made = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Start, duration, thread, number of the program, and code of the instruction's name, of what no event stands for."""


@dataclass(frozen=True)
class Nodes:
    """Parts of launches.

    Attributes:
        start_ns, dur_ns, thread: of each.
        program, hlo: number of the program, and the code of the instruction's name.
        correlation: a correlation id that no event has.
        kernels: positions of the events that the parts launched.
        of_kernels: correlation id of the part that launched each.
    """

    start_ns: Ns
    dur_ns: Ns
    thread: Codes
    program: Codes
    hlo: Codes
    correlation: np.ndarray
    kernels: Rows
    of_kernels: np.ndarray

    @property
    def instances(self) -> Made:
        """The instances of instructions."""
        return self.start_ns, self.dur_ns, self.thread, self.program, self.hlo

    @property
    def calls(self) -> Made:
        """The calls that launch their kernels, which are no instances."""
        none = np.full(len(self.hlo), -1, np.int64)
        return self.start_ns, self.dur_ns, self.thread, none, none


_NOTHING = np.zeros(0, np.int64)
NO_NODES = Nodes(*[_NOTHING] * 8)


def nodes(events: Events, free: int, kernels: Rows, launch: Rows, program: Codes, hlo: Codes) -> Nodes:
    """Divide the launches of kernels that name other instructions than their launch does.

    Args:
        events: the events.
        free: a correlation id above all others.
        kernels: positions of GPU events that name an instruction and have a launch.
        launch: position of the launch of each.
        program, hlo: of every event what instruction it is about.
    """
    other = (hlo[kernels] != hlo[launch]) | (program[kernels] != program[launch])
    kernels, launch = kernels[other], launch[other]
    if not len(kernels) or free + len(kernels) >= 2**63:
        return NO_NODES
    order = np.lexsort((events.start_ns[kernels], hlo[kernels], program[kernels], launch))
    kernels, launch = kernels[order], launch[order]
    new = np.ones(len(kernels), bool)
    new[1:] = False
    for key in (launch, program[kernels], hlo[kernels]):
        new[1:] |= key[1:] != key[:-1]
    part = np.cumsum(new) - 1
    head, call = kernels[new], launch[new]
    # Parts of one launch follow one another as their first kernels do.
    place = np.lexsort((events.start_ns[head], call))
    rank = np.empty(len(place), np.int64)
    rank[place] = np.arange(len(place))
    part, head, call = rank[part], head[place], call[place]
    first = np.flatnonzero(np.append(True, call[1:] != call[:-1]))
    count = np.diff(np.append(first, len(call)))
    number, of = np.arange(len(call)) - np.repeat(first, count), np.repeat(count, count)
    duration = events.dur_ns[call]
    fits = duration >= of  # each part needs a nanosecond
    begin, end = duration * number // of, duration * (number + 1) // of
    ids = free + np.arange(len(call))
    kernels, part = kernels[fits[part]], part[fits[part]]
    return Nodes(
        (events.start_ns[call] + begin)[fits], (end - begin)[fits], events.thread[call][fits].astype(np.int64),
        program[head][fits], hlo[head][fits].astype(np.int64), ids[fits], kernels, ids[part],
    )  # fmt: skip
