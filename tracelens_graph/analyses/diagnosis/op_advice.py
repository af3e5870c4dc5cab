"""What to try with single operations: what the verdict suggests for the kind of work that they launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.families import MEMORY, families_of
from tracelens_graph.analyses.diagnosis.finding import ADVICE, Finding
from tracelens_graph.analyses.idle.host_states import copies_to_device
from tracelens_graph.analyses.ops.launchers import launchers
from tracelens_graph.analyses.shared.gpu_class import COMMUNICATION, MEMCPY, gpu_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind

_COMMUNICATION, _UP, _OTHER_COPIES = "exposed_communication", "host_to_device_copy", "other_copies"

_TUNING: Mapping[str, str] = {
    MEMORY: "fusion",
    "compute.gemm": "gemm_tuning",
    "compute.conv": "kernel_tuning",
    "compute.attention": "kernel_tuning",
    "gpu_bound": "kernel_tuning",
}
"""Family of kernels -> what to try where the GPU's computation is what takes the time."""

_COMPUTES = ("compute.", "memory.", "gpu_bound", "mixture")
"""Beginnings of the kinds of run in which it may be worth tuning kernels."""


def op_advice(
    g: Core | Window, findings: Sequence[Finding], names: Iterable[str], linked_only: bool = False
) -> list[str]:
    """For each of some operations what to try, in words; empty where the verdict leaves nothing to try with it.

    An operation is what most of its GPU time is: communication, copies, or a family of kernels. It gets what the
    finding about that suggests. What the verdict has no room for is said of families of kernels, too, where the GPU
    computes for at least `TUNING_PERCENT` of the time and the headline does not blame something else.

    Args:
        g: the graph, or a window of it.
        findings: its verdict.
        names: names of operations, as in `ops_summary`.
        linked_only: as there.
    """
    w = window_of(g)
    found = launchers(w, linked_only)
    core, c = found.core, found.core.columns
    of_op = c.name[found.rows[found.of]]
    is_op = c.kind[found.rows[found.of]] == Kind.Op
    kinds, kind = _kinds(w, found.gpu)
    said = {topic: one.advice for one in findings for topic in _topics(one) if one.advice}
    advised = []
    for name in names:
        own = np.flatnonzero(of_op == core.names.index(name)) if name in core.names else np.empty(0, np.int64)
        spent = np.bincount(kind[own], weights=c.dur_ns[found.gpu[own]], minlength=len(kinds))
        most = kinds[int(spent.argmax())] if spent.any() else ""
        advice = said.get(most, ())
        if not advice and most in _TUNING and is_op[own].all() and _is_worth_tuning(findings):
            advice = (w.framework.advice.get(_TUNING[most], _TUNING[most]),)
        advised.append(ADVICE[advice[0]] if advice else "")
    return advised


def _topics(finding: Finding) -> tuple[str, ...]:
    """What of the GPU's work a finding is about."""
    if finding.topic == "kernels":
        return (str(finding.evidence["kind"]),)
    return (finding.topic,) if finding.topic in (_COMMUNICATION, _UP, _OTHER_COPIES) else ()


def _kinds(w: Window, gpu: np.ndarray) -> tuple[list[str], np.ndarray]:
    """What kinds of work there are, and for each GPU event the place of its kind."""
    families = families_of(w).rows
    kinds = [_COMMUNICATION, _UP, _OTHER_COPIES, *families, ""]
    kind = np.full(len(gpu), len(kinds) - 1)
    for place, rows in enumerate(families.values(), 3):
        kind[np.isin(gpu, rows)] = place
    what = gpu_classes(w.core, gpu)
    kind[what == COMMUNICATION] = 0
    copies = np.flatnonzero(what == MEMCPY)
    kind[copies] = np.where(copies_to_device(w.core, gpu[copies]), 1, 2)
    return kinds, kind


def _is_worth_tuning(findings: Sequence[Finding]) -> bool:
    evidence = findings[0].evidence if findings else {}
    share = float(evidence.get("computation_percent_of_span", 0))
    return str(evidence.get("kind", "")).startswith(_COMPUTES) and share >= limits.TUNING_PERCENT
