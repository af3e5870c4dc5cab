"""The factor by which all equal kernels take longer or less, if they agree on one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tracelens_graph.analyses.alignment.align import Alignment
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.shared.common_factor import agreed_factor
from tracelens_graph.analyses.shared.gpu_work import COMPUTATION, gpu_classes

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
