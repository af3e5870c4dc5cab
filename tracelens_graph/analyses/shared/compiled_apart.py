"""Profiles of JAX that ran other compiled programs: names of their instructions say nothing of one another.

XLA numbers the instructions of each program by itself, so `cublas-gemm.8` of two programs is one only by chance.
"""

from __future__ import annotations

from collections.abc import Iterable

from tracelens_graph.graph.core import Core

NOTE = "different compiled programs: instructions go by their names without numbers"


def are_compiled_apart(cores: Iterable[Core]) -> bool:
    """Whether all graphs are of JAX, and not all of them ran the same programs."""
    found = set()
    for core in cores:
        if core.programs is None:
            return False
        found.add(frozenset(one.fingerprint for one in core.programs.listed))
    return len(found) > 1
