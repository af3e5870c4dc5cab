"""Which families of kernels the computation of a window is made of, told by all kernels' names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.finding import percent
from tracelens_graph.analyses.kernels.graph_launches import GRAPH_LAUNCH_CALLS
from tracelens_graph.analyses.shared.gpu_class import COMPUTATION, gpu_classes
from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind

MATRIX: Mapping[str, str] = {
    "GEMM": "compute.gemm",
    "MoE": "compute.gemm",
    "Convolution": "compute.conv",
    "Flash Attention Forward": "compute.attention",
    "Flash Attention Backward": "compute.attention",
}
"""Categories of kernels that compute more than they move -> their kind of run. The others move data, as a rule."""

MEMORY = "memory.elementwise_norm"
_CONVOLUTION_OP = re.compile(r"conv(?!ert)", re.IGNORECASE)
LABELS: Mapping[str, str] = {
    "compute.gemm": "matrix products",
    "compute.conv": "convolutions",
    "compute.attention": "attention",
    MEMORY: "memory-bound kernels",
    "gpu_bound": "kernels of unknown families",
}


@dataclass(frozen=True)
class Families:
    """GPU time by family of kernels.

    Attributes:
        gpu_ns: sum of the durations of all GPU events of the window.
        times: kind of run -> sum of durations of its kernels, the greatest first.
        categories: category of kernels -> sum of durations, the greatest first.
        rows: kind of run -> rows of its GPU events.
        graph_ns: sum of durations of what graph launches replay.
    """

    gpu_ns: int
    times: Mapping[str, int]
    categories: Mapping[str, int]
    rows: Mapping[str, np.ndarray]
    graph_ns: int

    @property
    def kind(self) -> str:
        """What kind of run the computation makes: one family, all of MATRIX, MEMORY, a mixture of both, or none."""
        matrix = {kind: ns for kind, ns in self.times.items() if kind.startswith("compute.")}
        compute, memory = sum(matrix.values()), self.times.get(MEMORY, 0)
        if self.times.get("gpu_bound", 0) > compute + memory or not self.times:
            return "gpu_bound"
        if compute >= limits.FAMILY_RATIO * memory:
            first, *others = matrix.values()
            return next(iter(matrix)) if first >= limits.FAMILY_RATIO * sum(others) else "compute.matrix"
        return MEMORY if memory >= limits.FAMILY_RATIO * compute else "mixture"

    def percent(self, kind: str) -> float:
        """Share of a kind of run in GPU time."""
        kinds = self.times if kind in ("mixture", "gpu_bound") else [one for one in self.times if _is_of(one, kind)]
        return percent(sum(self.times[one] for one in kinds), self.gpu_ns)

    @property
    def graph_percent(self) -> float:
        """Share of graph launches in GPU time."""
        return percent(self.graph_ns, self.gpu_ns)


def _is_of(family: str, kind: str) -> bool:
    return family == kind or (kind == "compute.matrix" and family.startswith("compute."))


def families_of(w: Window) -> Families:
    """The families of a window; computed once."""
    return w.once(_families)


def _families(w: Window) -> Families:
    core, c = w.core, w.core.columns
    every = w.gpu_rows
    rows = every[gpu_classes(core, every) == COMPUTATION]
    owner = c.owner[rows]
    group, first = group_by(c.name[rows], np.where(owner >= 0, c.name[owner], -1), c.kind[rows] == Kind.Kernel)
    rules = extension_of(w).all_kernel_rules
    names = [core.names[code] for code in c.name[rows[first]].tolist()]
    ops = [core.names[c.name[row]] if row >= 0 else "" for row in owner[first].tolist()]
    found = kernel_categories(zip(names, ops, strict=True), rules)
    is_kernel = (c.kind[rows[first]] == Kind.Kernel).tolist()
    category = [one if kernel else "Memory Ops" for one, kernel in zip(found, is_kernel, strict=True)]
    kind = [_kind(one, op, rules.other) for one, op in zip(category, ops, strict=True)]
    ns = sum_by_group(group, c.dur_ns[rows], len(first))
    of_row = np.array(kind, object)[group] if len(group) else np.zeros(0, object)
    times = _added(kind, ns)
    return Families(
        int(c.dur_ns[every].sum()),
        times,
        _added(category, ns),
        {one: rows[of_row == one] for one in times},
        _graph_ns(w),
    )


def _kind(category: str, op: str, unknown: str) -> str:
    """The kind of run that kernels of a category make; products that a convolution launches are its algorithm."""
    kind = MATRIX.get(category, "gpu_bound" if category == unknown else MEMORY)
    return "compute.conv" if kind == "compute.gemm" and _CONVOLUTION_OP.search(op) else kind


def _added(keys: list[str], ns: np.ndarray) -> dict[str, int]:
    """Key -> sum, the greatest first; without those of no time."""
    sums: dict[str, int] = {}
    for key, time in zip(keys, ns.tolist(), strict=True):
        sums[key] = sums.get(key, 0) + time
    return dict(sorted(((key, time) for key, time in sums.items() if time), key=lambda one: -one[1]))


def _graph_ns(w: Window) -> int:
    core, c, rows = w.core, w.core.columns, w.gpu_rows
    replays = np.array([name.startswith(GRAPH_LAUNCH_CALLS) for name in core.names] or [False])
    call = c.parent[rows]
    return int(c.dur_ns[rows[(call >= 0) & replays[c.name[call]]]].sum())
