"""What GPU events do: compute, communicate or copy, told by kind and, for kernels, by name."""

from __future__ import annotations

import re

import numpy as np

from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.collective_kinds import communication
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind

COMPUTATION, COMMUNICATION, MEMCPY = 0, 1, 2
CLASS_NAMES = ("computation", "communication", "memcpy")

COPY_KERNEL_NAME = re.compile(r"MEMORY_COPY_\w*TO|__amd_rocclr_copyBuffer|\bcopyBuffer(Aligned|Rect)?\b")
"""Kernels that are copies in disguise (ROCm copies by kernel where no copy engine serves)."""


def communicates(name: str) -> bool:
    """Whether time in a kernel or fill of this name counts as communication.

    Kernels that TraceLens counts as computation do so here: of a model's own all-reduces only `cross_device_reduce`
    is communication to it. `core.collectives` has nodes for all.
    """
    found = communication(name)
    return found is not None and found.in_timeline


def gpu_classes(core: Core, rows: np.ndarray) -> np.ndarray:
    """COMPUTATION, COMMUNICATION or MEMCPY for each GPU row; a fill is computation."""
    kind, (codes, name) = core.columns.kind[rows], distinct(core.columns.name[rows])
    names = [core.names[code] for code in codes.tolist()]
    is_communication = np.array([communicates(one) for one in names], bool)
    copies = np.array([COPY_KERNEL_NAME.search(one) is not None for one in names], bool)
    found = np.full(len(rows), COMPUTATION, np.int8)
    found[is_communication[name]] = COMMUNICATION
    found[(kind == Kind.Memcpy) | ((kind == Kind.Kernel) & copies[name])] = MEMCPY
    return found
