"""Which families of kernels the computation of a window is made of, and what to try with single operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.finding import ADVICE, Finding, percent
from tracelens_graph.analyses.idle.host_states import copies_to_device
from tracelens_graph.analyses.kernels.shares import GRAPH_LAUNCH_CALLS
from tracelens_graph.analyses.ops.launchers import launchers
from tracelens_graph.analyses.performance.judged_ops import device_of, roofed_by
from tracelens_graph.analyses.performance.roofline_summary import Part
from tracelens_graph.analyses.shared.gpu_work import (
    COMMUNICATION,
    COMPUTATION,
    MEMCPY,
    fitting_names,
    gpu_categories,
    gpu_classes,
)
from tracelens_graph.analyses.shared.grouping import group_by, text_codes
from tracelens_graph.analyses.shared.unnamed_communication import may_communicate
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.traversals import climb, launches_of
from tracelens_graph.graph.user_code import Code, codes_of
from tracelens_graph.graph.window import Window, whole_window, window_of
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.names import short_name
from tracelens_graph.utils.arrays import Mask, Rows

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

MATRIX: Mapping[str, str] = {
    "GEMM": "compute.gemm",
    "MoE": "compute.gemm",
    "Convolution": "compute.conv",
    "Flash Attention Forward": "compute.attention",
    "Flash Attention Backward": "compute.attention",
}
"""Categories of kernels that compute more than they move -> their kind of run. The others move data, as a rule."""

MEMORY = "memory.elementwise_norm"
_FUSED = re.compile(r"\btriton_\w{0,20}fused_")
"""Names of kernels that torch.compile wrote for several operations."""
ALL_OF_IT = ("mixture", "gpu_bound")
"""Kinds of run that are all computation, of whatever family."""
LABELS: Mapping[str, str] = {
    "compute.gemm": "matrix products",
    "compute.conv": "convolutions",
    "compute.attention": "attention",
    MEMORY: "memory-bound kernels",
    "gpu_bound": "kernels of unknown families",
}


def is_fused(kernel: str) -> bool:
    """Whether a compiler made a kernel of several operations, by its name."""
    return _FUSED.search(kernel) is not None


class Roof(NamedTuple):
    """What kernels reach of their roof, percent, and what they take above it, ns, of the time with a known roof."""

    percent: float
    above_ns: int
    known_ns: int


@dataclass(frozen=True)
class Families:
    """GPU time by family of kernels.

    Attributes:
        gpu_ns: sum of the durations of all GPU events of the window.
        times: kind of run -> sum of durations of its kernels, the greatest first.
        categories: category of kernels -> sum of durations, the greatest first.
        rows: kind of run -> rows of its GPU events.
        graph_ns: sum of durations of what graph launches replay and no capture explains.
        replayed_ns: the same of all that they replay.
        fused_ns: sum of durations of kernels that a compiler made of several operations.
    """

    gpu_ns: int
    times: Mapping[str, int]
    categories: Mapping[str, int]
    rows: Mapping[str, np.ndarray]
    graph_ns: int
    replayed_ns: int
    fused_ns: int = 0

    @property
    def is_compiled(self) -> bool:
        """Whether a compiler has fused what can be: most memory-bound kernels are its own."""
        memory = self.times.get(MEMORY, 0)
        return 0 < memory <= 2 * self.fused_ns

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
        kinds = self.times if kind in ALL_OF_IT else [one for one in self.times if _is_of(one, kind)]
        return percent(sum(self.times[one] for one in kinds), self.gpu_ns)

    def memory_bound_percent(self, w: Window, arch: Architecture | None) -> float:
        """Share of the time of the families that the kind of run names in calls that memory bounds by their sizes."""
        device, _ = device_of(w, arch)
        if device is None or not self.kind.startswith("compute."):
            return 0.0
        rows = np.concatenate([rows for one, rows in self.rows.items() if _is_of(one, self.kind)])
        found, took = roofed_by(w, device), w.core.columns.dur_ns
        memory = found.gpu[found.part == Part.memory_bound]
        return percent(int(took[rows[np.isin(rows, memory)]].sum()), int(took[rows].sum()))

    def roof(self, w: Window, arch: Architecture | None, kind: str) -> Roof | None:
        """What a family's kernels reach of their roof.

        None where the device is not known, or the roof of half of their time. Above 100, where most of their time is
        shorter than it can be; else no kernel counts as faster than its roof.
        """
        device, _ = device_of(w, arch)
        rows = self.rows.get(kind, w.gpu_rows[:0])
        if device is None or not len(rows):
            return None
        found, took = roofed_by(w, device), w.core.columns.dur_ns[rows]
        at_roof = found.at_roof[np.searchsorted(found.gpu, rows)]
        known = ~np.isnan(at_roof)
        time, beyond = int(took[known].sum()), int(took[at_roof > took].sum())
        least = float((at_roof if 2 * beyond > time else np.minimum(at_roof, took))[known].sum())
        return (
            Roof(percent(least, time), max(round(time - least), 0), time) if 2 * time >= int(took.sum()) > 0 else None
        )

    def modelled_percent(self, w: Window, device: Architecture) -> float:
        """Share of the time of products, convolutions and attention that has a roof; 0 without any."""
        rows = [rows for kind, rows in self.rows.items() if kind.startswith("compute.")]
        every = np.sort(np.concatenate([w.gpu_rows[:0], *rows]))
        found, took = roofed_by(w, device), w.core.columns.dur_ns[every]
        known = ~np.isnan(found.at_roof[np.searchsorted(found.gpu, every)])
        return percent(int(took[known].sum()), int(took.sum()))

    @property
    def leading_share(self) -> float:
        """Part of the computation, 0 to 1, that the kind of run names; all of it where it names no single family."""
        if self.graph_percent >= limits.GRAPH_PERCENT or self.kind in ALL_OF_IT:
            return 1.0
        return sum(ns for one, ns in self.times.items() if _is_of(one, self.kind)) / sum(self.times.values())

    @property
    def graph_percent(self) -> float:
        """Share in GPU time of what graph launches replay and no capture explains."""
        return percent(self.graph_ns, self.gpu_ns)

    @property
    def replayed_percent(self) -> float:
        """Share in GPU time of all that graph launches replay."""
        return percent(self.replayed_ns, self.gpu_ns)


def _is_of(family: str, kind: str) -> bool:
    return family == kind or (kind == "compute.matrix" and family.startswith("compute."))


def far_below_roof(roof: Roof | None) -> bool:
    """Whether kernels are far below their roof; not where that is not known."""
    return roof is not None and roof.percent < limits.FAR_BELOW_ROOF_PERCENT


def families_of(w: Window) -> Families:
    """The families of a window; computed once."""
    return w.once(_families)


def _families(w: Window) -> Families:
    core, c = w.core, w.core.columns
    every = w.gpu_rows
    rows = every[gpu_classes(core, every) == COMPUTATION]
    labels, category_of = gpu_categories(w)
    group, first = group_by(category_of[rows], c.name[rows])
    names = [core.names[code] for code in c.name[rows[first]].tolist()]
    category = [labels[code] for code in category_of[rows[first]].tolist()]
    unknown = extension_of(w).all_kernel_rules.other
    kind = [_kind_of_run(name, one, unknown) for name, one in zip(names, category, strict=True)]
    ns = sum_by_group(group, c.dur_ns[rows], len(first))
    of_row = np.array(kind, object)[group] if len(group) else np.zeros(0, object)
    times = _added(kind, ns)
    return Families(
        int(c.dur_ns[every].sum()),
        times,
        _added(category, ns),
        {one: rows[of_row == one] for one in times},
        *_graph_ns(w),
        int(ns[[is_fused(name) for name in names]].sum()),
    )


def _kind_of_run(kernel: str, category: str, unknown: str) -> str:
    """The kind of run that a kernel makes: of experts the products, while routing, sorting and sums move data."""
    if category == "MoE":
        from tracelens_graph.analyses.identification.families import Family, family_of

        return MATRIX[category] if family_of(kernel) in (Family.experts, Family.product) else MEMORY
    return MATRIX.get(category, "gpu_bound" if category == unknown else MEMORY)


def _added(keys: list[str], ns: np.ndarray) -> dict[str, int]:
    """Key -> sum, the greatest first; without those of no time."""
    sums: dict[str, int] = {}
    for key, time in zip(keys, ns.tolist(), strict=True):
        sums[key] = sums.get(key, 0) + time
    return dict(sorted(((key, time) for key, time in sums.items() if time), key=lambda one: -one[1]))


@dataclass(frozen=True)
class UnknownFamily:
    """Kernels of one short name that no category knows, and that may be communication.

    Attributes:
        rows: their rows.
        ns: sum of their durations.
    """

    rows: Rows
    ns: int


def unknown_families(w: Window) -> list[UnknownFamily]:
    """Those that take `UNKNOWN_FAMILY_PERCENT` of the GPU time or more, the most expensive first."""
    core, c, families = w.core, w.core.columns, families_of(w)
    rows = families.rows.get("gpu_bound", w.gpu_rows[:0])
    codes, code = distinct(c.name[rows])
    family = text_codes([short_name(core.names[one]) for one in codes.tolist()])[code]
    count = int(family.max(initial=-1)) + 1
    ns = sum_by_group(family, c.dur_ns[rows], count)
    large = np.flatnonzero(100 * ns > limits.UNKNOWN_FAMILY_PERCENT * families.gpu_ns)
    of_large = [rows[family == one] for one in large.tolist()]  # ten at most, for they add up to all
    maybe = may_communicate(
        core, np.concatenate([rows[:0], *of_large]), np.repeat(np.arange(len(large)), [*map(len, of_large)]), len(large)
    )
    found = [UnknownFamily(of_large[i], int(ns[large[i]])) for i in np.flatnonzero(maybe).tolist()]
    return sorted(found, key=lambda one: -one.ns)


def _graph_ns(w: Window) -> tuple[int, int]:
    """Sums of the durations of what stands right below graph launches, and of all that they replay."""
    core, c, rows = w.core, w.core.columns, w.gpu_rows
    replays = fitting_names(core, lambda name: name.startswith(GRAPH_LAUNCH_CALLS))
    alone, every = (
        int(c.dur_ns[rows[(call >= 0) & replays[c.name[call]]]].sum())
        for call in (c.parent[rows], launches_of(c, rows))
    )
    return alone, every


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
    g: Core | Window,
    findings: Sequence[Finding],
    names: Iterable[str],
    linked_only: bool = False,
    arch: Architecture | None = None,
) -> list[str]:
    """For each of some operations what to try, in words; empty where the verdict leaves nothing to try with it.

    An operation is what most of its GPU time is: communication, copies, or a family of kernels. It gets what the
    finding about that suggests. Families of kernels get what the verdict leaves out, too, where the GPU computes
    for at least `TUNING_PERCENT` of the time and the headline does not blame something else.

    Args:
        names: names of operations, as in `ops_summary`.
        linked_only: as there.
        arch: the device; None for the one that the trace describes.
    """
    w = window_of(g)
    found = launchers(w, linked_only)
    core, c = found.core, found.core.columns
    of_op = c.name[found.rows[found.of]]
    is_op = c.kind[found.rows[found.of]] == Kind.Op
    kinds, kind = _kinds(w, found.gpu)
    advice_of = {topic: one.advice for one in findings for topic in _topics(one) if one.advice}
    advised = []
    for name in names:
        own = np.flatnonzero(of_op == core.names.index(name)) if name in core.names else np.empty(0, np.int64)
        spent = np.bincount(kind[own], weights=c.dur_ns[found.gpu[own]], minlength=len(kinds))
        most = kinds[int(spent.argmax())] if spent.any() else ""
        advice = advice_of.get(most, ())
        is_slow = most != "compute.gemm" or far_below_roof(families_of(w).roof(w, arch, most))
        if not advice and most in _TUNING and is_op[own].all() and _is_worth_tuning(findings) and is_slow:
            row = int(found.rows[found.of[own[c.dur_ns[found.gpu[own]].argmax()]]])
            advice = fitting(w, (_TUNING[most],), int(c.uid[row]))
        advised.append(ADVICE[advice[0]] if advice else "")
    return advised


_COMPILED: Mapping[str, tuple[str, ...]] = {"fusion": (), "python_tuning": ("graph_breaks",)}
"""What to try -> what instead, where a compiler has fused the kernels already."""

_OF_SERVERS: Mapping[str, str] = {"attention_kernels": "engine_attention"}
"""What to try -> what instead, where an engine calls the kernels."""


_TRAINS = re.compile(r"Optimizer\.|autograd::engine|aten::_(?:foreach|fused_(?:adam|sgd))|\w+Backward\d*$")
"""Names in a trace with a backward pass or an optimizer."""


_REGION = re.compile(r"Torch-Compiled Region|## Call CompiledFxGraph|CompiledFunction")
"""How names of ops and annotations begin that PyTorch puts around what torch.compile made."""


def in_compiled(core: Core, rows: Rows) -> Mask:
    """Whether the nearest frame or region around each row, itself included, is of what a compiler made."""
    compiled, stop = whole_window(core).once(_compiled)
    around = climb(core.columns.parent, rows, stop)
    return (around >= 0) & compiled[around]


def _compiled(w: Window) -> tuple[Mask, Mask]:
    """For each row whether a compiler made it, and whether it is such or a frame of a program."""
    core, c, codes = w.core, w.core.columns, codes_of(w.core)
    compiled = fitting_names(core, _REGION.match)[c.name] & ~is_kind(c.kind, GPU_KINDS) | (codes == Code.compiled)
    return compiled, compiled | (codes >= Code.library)


def fitting(w: Window, advice: Iterable[str], uid: int = -1) -> tuple[str, ...]:
    """What to try in the words of the window's framework, without what was done already.

    Args:
        advice: names of ADVICE.
        uid: the node that they are for; -1 for the whole window.
    """
    given, own = tuple(advice), {**(_OF_SERVERS if is_of_server(w.core) else {}), **w.framework.advice}
    if given and (families_of(w).is_compiled or (uid >= 0 and in_compiled(w.core, np.array([w.core.row(uid)]))[0])):
        given = tuple(name for one in given for name in _COMPILED.get(one, (one,)))
    found = tuple(own.get(name, name) for name in given)
    if "fewer_launches" in found and not any(map(_TRAINS.match, w.core.names)):
        return tuple("larger_batch" if name == "fewer_launches" else name for name in found)
    return found


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
