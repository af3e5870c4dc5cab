"""What GPU events do: compute, communicate or copy, told by kind and, for kernels, by name."""

from __future__ import annotations

import re

import numpy as np

from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.collective_kinds import communication
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.schema import Kind

COMPUTATION, COMMUNICATION, MEMCPY = 0, 1, 2
CLASS_NAMES = ("computation", "communication", "memcpy")

COPY_KERNEL_NAME = re.compile(r"MEMORY_COPY_\w*TO|__amd_rocclr_copyBuffer|\bcopyBuffer(Aligned|Rect)?\b")
"""Kernels that are copies in disguise (ROCm copies by kernel where no copy engine serves)."""


def communicates(name: str) -> bool:
    """Whether time in a kernel or fill of this name counts as communication.

    Kernels that TraceLens counts as computation do so here: of a model's own all-reduces only `cross_device_reduce`
    is communication to it. `collectives_of(core)` has nodes for all.
    """
    found = communication(name)
    return found is not None and found.in_timeline


def gpu_classes(core: Core, rows: np.ndarray) -> np.ndarray:
    """COMPUTATION, COMMUNICATION or MEMCPY for each GPU row; a fill is computation."""
    kind, name = core.columns.kind[rows], core.columns.name[rows]
    tell = whole_window(core).once(_name_classes)
    codes = distinct(name)[0]
    for code in codes[tell[codes] == _NOT_ASKED].tolist():
        tell[code] = _name_class(core.names[code])
    told = tell[name]
    found = np.full(len(rows), COMPUTATION, np.int8)
    found[(told & _COMMUNICATES) > 0] = COMMUNICATION
    found[(kind == Kind.Memcpy) | ((kind == Kind.Kernel) & ((told & _COPIES) > 0))] = MEMCPY
    return found


_COMMUNICATES, _COPIES, _NOT_ASKED = 1, 2, 4


def _name_classes(w: Window) -> np.ndarray:
    """For each name of a graph what `gpu_classes` found out of it: many tables ask for the same names."""
    return np.full(len(w.core.names), _NOT_ASKED, np.int8)


def _name_class(name: str) -> int:
    return _COMMUNICATES * communicates(name) + _COPIES * (COPY_KERNEL_NAME.search(name) is not None)
