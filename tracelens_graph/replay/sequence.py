"""All operations below a module, annotation, step or op as one program, in their order, with shared tensors.

The outermost operations that can be planned are taken. Where one cannot, those that it calls are, if they do all of its
GPU work; else it is left out, with its share of time. What the host does between operations is not replayed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_field
from typing import Any, ClassVar

import numpy as np
from msgspec.structs import replace

from tracelens_graph.errors import AnalysisError
from tracelens_graph.execution.link import link_of
from tracelens_graph.extensions.extension import Replayer
from tracelens_graph.graph import membership
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.replay.contents import Site, fill
from tracelens_graph.replay.custom.lookup import replayers_of
from tracelens_graph.replay.planned import planned, traced_at
from tracelens_graph.replay.program_text import (
    HasProgram,
    LeftOut,
    ProgramKind,
    ascii_text,
    entry,
    identifier,
    left_out,
    written_by,
)
from tracelens_graph.replay.replay_plan import Fill, ReplayPlan, Use, Value
from tracelens_graph.replay.shared_tensors import LinkedCall, Sharing, link
from tracelens_graph.schema import HOST_KINDS, Kind
from tracelens_graph.utils.arrays import Mask, Ns, Rows
from tracelens_graph.utils.suggest import did_you_mean
from tracelens_graph.utils.texts import cut_end

_SPANS = (Kind.Annotation, Kind.Step)
_MODULE = "nn.Module: "
_CAST = "aten::to"
_NO_OP = "work under no op"


@dataclass(frozen=True)
class SequencePlan(HasProgram):
    """Operations of a part of a trace.

    Attributes:
        title: name of the node that they are below.
        uid: the node.
        others: nodes of the same name that were not taken.
        steps: the operations with their tensors linked, in order of their begin.
        left_out: what is not replayed, by share.
        written: numbers of given tensors that an operation changes.
        linked: how many of the operations are in the execution trace, which shows what tensors they share; None
            without one.
        is_gpu: whether times are those of GPU work; else they are durations on the host.
    """

    kind: ClassVar[ProgramKind] = "sequence"

    title: str
    uid: int
    others: int
    steps: tuple[LinkedCall, ...]
    left_out: tuple[LeftOut, ...]
    written: tuple[int, ...]
    linked: int | None
    is_gpu: bool

    @property
    def plans(self) -> tuple[ReplayPlan, ...]:
        """Plans of the operations, in order."""
        return tuple(step.plan for step in self.steps)

    @property
    def passed_on(self) -> int:
        """Number of results that are arguments of later operations."""
        return sum(len(step.makes) for step in self.steps)

    @property
    def given(self) -> int:
        """Number of tensors that no operation of the sequence makes."""
        made = {one[0] for step in self.steps for one in step.makes}
        return len({use.number for step in self.steps for use in step.uses if use.of is None} - made)

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the trace does not show of given arguments, each once: results that are passed on are as they come."""
        made = {one[0] for step in self.steps for one in step.makes}
        return tuple(
            dict.fromkeys(
                f"{step.plan.op} {one.name}: {one.assumed}"
                for step in self.steps
                for one in step.plan.arguments
                if one.assumed and not _is_passed_on(one.value, made)
            )
        )

    @property
    def sources(self) -> tuple[str, ...]:
        """Files beside its program that the sources of its Triton kernels are to be put into."""
        return tuple(dict.fromkeys(plan.launch.source for plan in self.plans if plan.launch))

    @property
    def imports(self) -> tuple[str, ...]:
        """Modules that register custom operations of the sequence."""
        return tuple(dict.fromkeys(module for plan in self.plans for module in plan.imports))

    @property
    def sharing(self) -> str:
        """Which tensors are shared, in words."""
        if self.linked is None:
            return "no execution trace was given: each operation has arguments of its own"
        if not self.linked:
            return "none of them is in the execution trace: each operation has arguments of its own"
        some = f"; {_are(self.linked, 'operation')} in the execution trace" if self.linked < len(self.steps) else ""
        return f"{_are(self.passed_on, 'result')} passed on, {_are(self.given, 'tensor')} given{some}"

    @property
    def traced_us(self) -> float:
        """Sum of the times of the operations, in us."""
        return sum(plan.traced.kernel_us if self.is_gpu else plan.traced.host_us for plan in self.plans)

    @property
    def note(self) -> str:
        """Which of several nodes of the name was taken; empty where there was one."""
        most = "the most GPU time" if self.is_gpu else "the longest time"
        return f"of {self.others + 1:,} called {self.title}, uid {self.uid} with {most}" if self.others else ""

    @property
    def file_name(self) -> str:
        """Name of its program's file."""
        return f"{identifier(self.title)}.py"

    def json(self) -> dict[str, Any]:
        """What its program runs, one operation after another."""
        return {
            "title": self.title,
            "traced": "GPU time of these operations" if self.is_gpu else "time of these operations on the host",
            "is_gpu": self.is_gpu,
            "sharing": self.sharing,
            "written": self.written,
            "left_out": [one.line for one in self.left_out],
            "assumed": self.assumed,
            "steps": [{"makes": step.makes, "frees": step.frees, "plan": step.plan.json()} for step in self.steps],
        }

    @property
    def about(self) -> str:
        """The heading of its program."""
        count = len(self.steps)
        lines = [f"{count:,} operation{'s' * (count != 1)} below {ascii_text(self.title)}, called again in order.", ""]
        unit = "GPU time" if self.is_gpu else "time on the host"
        for label, texts in {
            "traced": [f"{self.traced_us:,.1f} us of {unit}"], "tensors": [self.sharing],
            "left out": [one.line for one in self.left_out], "assumed": self.assumed,
            "sources": [f"of Triton kernels, beside this file: {', '.join(self.sources)}"] if self.sources else [],
        }.items():  # fmt: skip
            lines += [line for text in texts for line in entry(label, text)]
        return "\n".join([*lines, "", written_by((*self.imports, *self.sources))]) + "\n"


def _are(count: int, what: str) -> str:
    return f"{count:,} {what} is" if count == 1 else f"{count:,} {what}s are"


def _is_passed_on(value: Value, made: Collection[int]) -> bool:
    """Whether an argument is a result of an earlier operation, or a list of such."""
    if isinstance(value, tuple):
        return bool(value) and all(_is_passed_on(one, made) for one in value)
    return isinstance(value, Use) and (value.number in made or value.of is not None)


def sequence(graph: Core | Window, under: int | str) -> SequencePlan:
    """The operations below a node, as one program can run them.

    Args:
        graph: the graph, or a window of it with an extension, whose replayers are asked for custom operations. Linked
            with an execution trace, tensors are shared as they were.
        under: uid or name of the node, see `places.place`.

    Raises:
        AnalysisError: there is no such node, or nothing below it can be replayed.
        NodeNotFoundError: no node has the uid.
    """
    w = window_of(graph)
    core = w.core
    where = place(core, under)
    found = _Found(core, where, replayers_of(w))
    for row in found.candidates():
        found.look_at(row)
    order = sorted(range(len(found.rows)), key=lambda at: (int(core.columns.start_ns[found.rows[at]]), at))
    rows, plans = [found.rows[at] for at in order], [found.plans[at] for at in order]
    lost = found.left_out(rows)
    if not rows:
        why = f": {lost[0].what}: {lost[0].reason}" if lost else ", as there are no operations"
        raise AnalysisError(f"nothing below {cut_end(where.name, 100)} can be replayed{cut_end(why, 200)}")
    sharing = _sensible(link(core, rows, plans))
    return SequencePlan(
        title=where.name,
        uid=int(core.columns.uid[where.row]),
        others=where.others,
        steps=sharing.calls,
        left_out=lost,
        written=sharing.written,
        linked=None if (known := link_of(core)) is None else int((known.node_of_row[rows] >= 0).sum()),
        is_gpu=found.is_gpu,
    )


class _Found:
    """Operations below a node: those that are replayed, and those that are not."""

    def __init__(self, core: Core, where: Place, replayers: Mapping[str, Replayer]) -> None:
        self._core, self._where, self._replayers = core, where, replayers
        c = core.columns
        gpu = core.gpu_rows[where.holds[core.gpu_rows]]
        self._gpu = gpu
        self.is_gpu = bool(len(gpu))
        # Shifted by one, so that what no op owns falls into entry 0, which is cut off.
        self._owned = np.bincount(c.owner[gpu] + 1, weights=c.dur_ns[gpu], minlength=len(c) + 1)[1:]
        self._no_op = gpu[c.owner[gpu] < 0]
        self.rows: list[int] = []
        self.plans: list[ReplayPlan] = []
        self._skipped: dict[tuple[str, str, str], list[float]] = {}
        self._until = -1

    def candidates(self) -> list[int]:
        """Rows of the operations, callers before what they call."""
        c = self._core.columns
        rows: list[int] = np.flatnonzero(self._where.holds & (c.kind == Kind.Op)).tolist()
        return rows

    def ns(self, row: int) -> float:
        """Time of an operation: of its GPU work, in a trace without any on the host."""
        return float(self._core.gpu_sum_ns[row] if self.is_gpu else self._core.columns.dur_ns[row])

    def look_at(self, row: int) -> None:
        """Take an operation, or note why it is not; what is below one that was taken is passed over."""
        if row <= self._until:
            return
        core, c = self._core, self._core.columns
        last = int(c.last[row])
        if self._only_casts(row):
            return
        made = planned(core, row, self._replayers)
        if isinstance(made.plan, ReplayPlan):
            self._until = last
            self.rows.append(row)
            self.plans.append(made.plan.with_traced(traced_at(core, row), made.plan.work))
            return
        below = bool((c.kind[row + 1 : last + 1] == Kind.Op).any())
        if below and not self._owned[row]:
            return  # all that it does, others below it do
        name = core.names[c.name[row]]
        if below and "::" not in name:
            time = float(self._owned[row])  # a range or a function of autograd, around operations
        else:
            time, self._until = self.ns(row), last
        if time and (below or self.is_gpu or "::" in name):  # a function of autograd by itself does nothing
            self._skipped.setdefault((name, made.reason, made.remedy), []).append(time)

    def _only_casts(self, row: int) -> bool:
        """Whether an operation casts its arguments and then calls itself: that is what autocast does."""
        c = self._core.columns
        below = np.arange(row + 1, int(c.last[row]) + 1)
        below = below[(c.kind[below] == Kind.Op) & (c.parent[below] == row)]
        names = [self._core.names[code] for code in c.name[below].tolist()]
        own = self._core.names[c.name[row]]
        return own in names and own != _CAST and set(names) <= {own, _CAST}

    def left_out(self, rows: Sequence[int]) -> tuple[LeftOut, ...]:
        """What is not replayed, by share of the time of all."""
        if len(self._no_op):
            times = self._core.columns.dur_ns[self._no_op].astype(float).tolist()
            self._skipped[_NO_OP, "its launch is in no operation", "record CPU activities, too"] = times
        return left_out(self._skipped, sum(map(self.ns, rows)) + sum(map(sum, self._skipped.values())))


def _sensible(sharing: Sharing) -> Sharing:
    """The calls with given tensors that hold what any operation needs that gets their values.

    Tokens that are copied to the device and then are indices of an embedding must be in its bounds from the start.
    """
    needed: dict[int, Fill] = {}
    for call in sharing.calls:
        for use in call.uses:
            group, own = sharing.same_values[use.number], use.tensor.fill
            if own != fill(Site("", "", 0, use.tensor, {})) and _is_stricter(own, needed.get(group)):
                needed[group] = own
    if not needed:
        return sharing

    def filled(value: Value) -> Value:
        if isinstance(value, Use):
            wanted = needed.get(sharing.same_values[value.number])
            return replace(value, tensor=replace(value.tensor, fill=wanted)) if wanted else value
        return tuple(map(filled, value)) if isinstance(value, tuple) else value

    return with_field(sharing, calls=tuple(call.changed(filled) for call in sharing.calls))


def _is_stricter(one: Fill, other: Fill | None) -> bool:
    """Whether the first of two fills is to be taken; of two ranges of indices, the one with the lower end."""
    if other is None:
        return True
    ends = [of.options.get("high") for of in (one, other)]
    if one.rule == other.rule and all(type(end) is int for end in ends):
        return ends[0] < ends[1]  # type: ignore[operator]
    return False


# --- parts of a trace ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Place:
    """A part of a trace.

    Attributes:
        row: row of the node that it is below.
        name: its name.
        holds: for each row of the graph whether it is in the part.
        others: nodes of the same name that were not taken.
    """

    row: int
    name: str
    holds: Mask
    others: int = 0


def place(core: Core, under: int | str) -> Place:
    """The part of a trace below a node.

    An annotation holds what starts in it on its own thread, a step what starts in it on any thread of its process.

    Args:
        core: the graph.
        under: uid of a node, or a name; `nn.Module: ` may be left out. Of several nodes of a name the one with the
            most GPU time is taken, in a trace without GPU work the longest one.

    Raises:
        AnalysisError: no node has the name, or the node is none that holds others.
        NodeNotFoundError: no node has the uid.
    """
    c = core.columns
    if isinstance(under, int):
        row = core.row(under)
        if not is_kind(c.kind[row : row + 1], (*HOST_KINDS, *_SPANS))[0]:
            raise AnalysisError(f"uid {under} is a {Kind(int(c.kind[row])).name}, which nothing is below")
        return Place(row, core.names[c.name[row]], _below(core, row))
    fits = np.fromiter((name in (under, _MODULE + under) for name in core.names), bool, len(core.names))
    can_hold = is_kind(c.kind, (*HOST_KINDS, *_SPANS))
    rows = np.flatnonzero(fits[c.name] & can_hold) if len(c) else np.zeros(0, np.int64)
    if not len(rows):
        known = {core.names[code].removeprefix(_MODULE) for code in np.unique(c.name[can_hold]).tolist()}
        meant = did_you_mean(under, sorted(known))
        raise AnalysisError(
            f"the trace has no module, function, op, annotation or step {under!r}" + (meant and f"; {meant}")
        )
    time = gpu_ns(core, rows) if len(core.gpu_rows) else c.dur_ns[rows]
    row = int(rows[np.argmax(time)])
    return Place(row, core.names[c.name[row]], _below(core, row), len(rows) - 1)


def gpu_ns(core: Core, rows: Rows) -> Ns:
    """Sum of the durations of the GPU events below each of some nodes, in ns."""
    c = core.columns
    found = core.gpu_sum_ns[rows].copy()
    spans = np.flatnonzero(is_kind(c.kind[rows], _SPANS))
    if not len(spans):
        return found
    gpu = core.gpu_rows[c.parent[core.gpu_rows] >= 0]
    launch = c.parent[gpu]
    for thread in np.unique(c.thread[rows[spans]]).tolist():
        here = gpu[c.thread[launch] == thread]
        start = c.start_ns[c.parent[here]]
        order = np.argsort(start, kind="stable")
        # An annotation holds what starts in it on its thread, so its launches follow one another by start.
        total = np.concatenate(([0], np.cumsum(c.dur_ns[here][order])))
        asked = spans[c.thread[rows[spans]] == thread]
        low, high = (np.searchsorted(start[order], at[rows[asked]]) for at in (c.start_ns, c.end_ns))
        found[asked] = total[high] - total[low]
    if (c.kind[rows[spans]] == Kind.Step).any():
        # A step holds the work of all threads, so the sums over its own one are too small.
        by_step = np.bincount(core.step[gpu] + 1, weights=c.dur_ns[gpu], minlength=len(c) + 1)
        steps = rows[spans][c.kind[rows[spans]] == Kind.Step]
        found[np.isin(rows, steps)] = by_step[steps + 1]
    return found


def _below(core: Core, row: int) -> Mask:
    c = core.columns
    if c.kind[row] == Kind.Step:
        return np.asarray(core.step == row)
    if c.kind[row] == Kind.Annotation:
        return membership.inside(c, np.array([row]), c.thread.astype(np.int64))
    holds = np.zeros(len(c), bool)
    holds[row : int(c.last[row]) + 1] = True
    return holds
