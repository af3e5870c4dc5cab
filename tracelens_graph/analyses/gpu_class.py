"""What GPU events do: compute, communicate or copy, told by kind and, for kernels, by name."""

from __future__ import annotations

import re

import numpy as np

from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind

COMPUTATION, COMMUNICATION, MEMCPY = 0, 1, 2
CLASS_NAMES = ("computation", "communication", "memcpy")

COMMUNICATION_NAME = re.compile(r"nccl|rccl|cross_device_reduce", re.IGNORECASE)
"""Kernels and fills of communication libraries."""

COPY_KERNEL_NAME = re.compile(r"MEMORY_COPY_\w*TO|__amd_rocclr_copyBuffer|\bcopyBuffer(Aligned|Rect)?\b")
"""Kernels that are copies in disguise (ROCm copies by kernel where no copy engine serves)."""


def gpu_classes(core: Core, rows: np.ndarray) -> np.ndarray:
    """COMPUTATION, COMMUNICATION or MEMCPY for each GPU row; a fill is computation."""
    names = core.names
    communicates = np.fromiter((bool(COMMUNICATION_NAME.search(n)) for n in names), bool, len(names))
    copies = np.fromiter((bool(COPY_KERNEL_NAME.search(n)) for n in names), bool, len(names))
    kind, name = core.columns.kind[rows], core.columns.name[rows]
    found = np.full(len(rows), COMPUTATION, np.int8)
    if len(rows):
        found[communicates[name]] = COMMUNICATION
        found[(kind == Kind.Memcpy) | ((kind == Kind.Kernel) & copies[name])] = MEMCPY
    return found
