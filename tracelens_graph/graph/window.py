"""A window: the part of a trace that a question is asked of. Every analysis takes a graph or a window of it.

A window is a set of nodes. It holds an event or does not; it never cuts one. So windows that partition the nodes
(steps, neighbouring time ranges, devices) partition every count and every sum.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tracelens_graph.errors import AnalysisError
from tracelens_graph.frameworks import Framework
from tracelens_graph.graph import membership, traversals
from tracelens_graph.graph.arrays import fitting, is_kind, positions_by
from tracelens_graph.graph.batches import PHASES
from tracelens_graph.graph.core import Core, Memo
from tracelens_graph.graph.iterations import iterations_of
from tracelens_graph.schema import GPU_KINDS, HOST_KINDS, Kind
from tracelens_graph.utils.arrays import Codes, Mask, Rows
from tracelens_graph.utils.suggest import did_you_mean, there_are

_STEP_DIGITS = 18
_MOST_LISTED = 8
"""Annotations that are listed where none has the name that was asked for; names of engines' steps are long."""

Threads = Literal["own", "all"]


@dataclass(eq=False, repr=False)
class Window(Memo):
    """A part of a graph: a set of its nodes.

    What several tables of a window share is kept by `window.once(function, *key)`; what depends on the graph and the
    extension alone, by `window.whole.once`.

    Attributes:
        core: the graph.
        title: what was asked for, for the titles of tables; empty for the whole trace.
        extension: what a user adds to the rules of analyses, None for nothing. The graph knows nothing of it;
            `tracelens_graph.extensions.extension.extension_of(window)` gives it its type.
        all_frames: whether lines of Python, flame graphs and ways up show the frames of frameworks, too.
        around: what it was chosen from, if it is only what some calls or annotations launch: it owns no step, no span.
        all_iterations: the same part with all iterations of a server, if it is some of them; None if it was not chosen
            by iterations. An iteration lasts until the next one begins, also if that is not in the window.
    """

    core: Core
    _mask: Mask | None = None
    title: str = ""
    extension: Hashable | None = None
    all_frames: bool = False
    around: Window | None = None
    all_iterations: Window | None = None

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def framework(self) -> Framework:
        """The framework that the trace comes from."""
        return self.core.framework

    @property
    def is_whole(self) -> bool:
        """Whether the window holds the whole trace."""
        return self._mask is None

    @property
    def whole(self) -> Window:
        """The window that holds the whole trace, under the same extension."""
        everything = whole_window(self.core)
        if self.all_frames:
            everything = everything.once(Window.with_all_frames)
        return everything if self.extension is None else everything.once(Window.extended, self.extension)

    @cached_property
    def gpu_rows(self) -> Rows:
        """Rows of GPU events, ascending."""
        return self._inside(self.core.gpu_rows)

    @cached_property
    def linked_gpu_rows(self) -> Rows:
        """Rows of GPU events whose launch is in the trace, ascending."""
        return self.gpu_rows[self.core.columns.parent[self.gpu_rows] >= 0]

    def span_ns(self, linked_only: bool = False) -> int:
        """From the first start to the last end of the GPU events, ns; 0 without any.

        Args:
            linked_only: of those whose launch is in the trace.
        """
        c, rows = self.core.columns, self.linked_gpu_rows if linked_only else self.gpu_rows
        return int(c.end_ns[rows].max() - c.start_ns[rows].min()) if len(rows) else 0

    def rows_of_kind(self, *kinds: Kind) -> Rows:
        """Rows of nodes of these kinds, ascending."""
        return self._inside(traversals.rows_of_kind(self.core.columns, kinds))

    def holds(self, rows: Rows) -> Mask:
        """Whether each row is in the window."""
        return np.ones(len(rows), bool) if self._mask is None else self._mask[rows]

    def narrowed(self, mask: Mask, title: str, around: Window | None = None) -> Window:
        """The nodes of this window that a mask over all rows keeps."""
        both = mask if self._mask is None else self._mask & mask
        both_titles = "; ".join(filter(None, (self.title, title)))
        whole = self.all_iterations and self.all_iterations.narrowed(mask, title)
        return replace(self, _mask=both, title=both_titles, around=around or self.around, all_iterations=whole)

    def of_iterations(self, mask: Mask, title: str) -> Window:
        """The nodes of some iterations of a server: those of this window that a mask over all rows keeps."""
        return replace(self.narrowed(mask, title), all_iterations=self.all_iterations or self)

    def retitled(self, title: str) -> Window:
        """The same nodes under another title."""
        return replace(self, title=title)

    def extended(self, extension: Hashable) -> Window:
        """The same nodes for analyses that go by an extension."""
        return replace(self, extension=extension)

    def with_all_frames(self) -> Window:
        """The same nodes for screens that show the frames of frameworks, too."""
        return replace(self, all_frames=True)

    def moved_to(self, core: Core) -> Window:
        """The same rows of another graph, such as a copy with other names."""
        around, every = (one and one.moved_to(core) for one in (self.around, self.all_iterations))
        return replace(self, core=core, around=around, all_iterations=every)

    def titled(self, text: str) -> str:
        """A table's title, with what the table was restricted to, and what in it is inferred or not sure."""
        info = self.core.info
        beside = "; ".join(filter(None, (self.title, info.inferred, info.unsure_shapes)))
        return f"{text} ({beside})" if beside else text

    def _inside(self, rows: Rows) -> np.ndarray:
        return rows if self._mask is None else rows[self._mask[rows]]

    def __repr__(self) -> str:
        return f"<Window {self.title or 'everything'}: {len(self.gpu_rows):,} GPU events of {self.core.info.source!r}>"


def whole_window(core: Core) -> Window:
    """The window that holds a whole trace, the same one whenever it is asked for."""
    return core.once(Window)


def window_of(graph: Core | Window, *, needs_times: bool = True) -> Window:
    """The window to analyse: a graph stands for everything in it.

    Args:
        graph: a graph, or a window of one.
        needs_times: whether the question is about time or GPU work, about which an execution trace alone says nothing.

    Raises:
        AnalysisError: the graph has no times, and the question needs them.
    """
    w = graph if isinstance(graph, Window) else whole_window(graph)
    if needs_times:
        w.core.info.check_times()
    return w


def narrow(
    window: Window,
    *,
    step: int | Iterable[int] | None = None,
    iteration: int | Iterable[int] | None = None,
    phase: str | None = None,
    steady: bool = False,
    annotation: str | re.Pattern[str] | None = None,
    threads: Threads = "own",
    after_ns: int | None = None,
    before_ns: int | None = None,
    under: int | str | re.Pattern[str] | None = None,
    device: int | Sequence[int] | None = None,
    stream: int | Sequence[int] | None = None,
) -> Window:
    """The part of a window that meets all conditions; see `Core.window`.

    Raises:
        AnalysisError: nothing in the trace has the step, iteration, annotation, node, device or stream asked for, or
            it has no times.
    """
    if step is not None:
        window = _in_steps(window, [step] if isinstance(step, int) else list(step))
    if iteration is not None or phase is not None or steady:
        window = _in_iterations(window, [iteration] if isinstance(iteration, int) else iteration, phase, steady)
    if annotation is not None:
        window = _in_annotations(window, annotation, threads)
    if after_ns is not None or before_ns is not None:
        window.core.info.check_times()
        window = _in_time(window, after_ns, before_ns)
    if under is not None:
        window = _under(window, under)
    if device is not None:
        window = _on(window, "device", [device] if isinstance(device, int) else list(device))
    if stream is not None:
        window = _on(window, "stream", [stream] if isinstance(stream, int) else list(stream))
    return window


_LANES = ("device", "external_id", "stream")

_READ: Mapping[str, tuple[str, ...]] = {
    "step": ("thread", *_LANES),  # events without a launch find their step by their stream
    "iteration": ("thread", *_LANES),
    "phase": ("thread", *_LANES),
    "steady": ("thread", *_LANES),
    "annotation": ("thread", *_LANES),
    "device": ("device",),
    "stream": ("stream",),
    "under": ("thread",),
}
"""Condition of a window -> the columns that it reads, beside those that every graph has."""


def columns_read(conditions: Mapping[str, Any]) -> frozenset[str]:
    """The columns of `schema.STORED` that a window with these conditions reads; see `Graph.lean`.

    Args:
        conditions: arguments of `Core.window`; those that are None, or False, count as not given.
    """
    asked = (name for name, value in conditions.items() if value is not None and value is not False)
    return frozenset(column for name in asked for column in _READ.get(name, ()))


def gpu_steps(core: Core, rows: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """Of the steps that launched some GPU events the number, the row of the mark, and positions of the events."""
    for mark, of in positions_by(core.gpu_step[rows]):
        number = step_number(core.names[core.columns.name[mark]]) if mark >= 0 else None
        if number is not None:
            yield number, mark, of


def step_number(name: str) -> int | None:
    """The number in `ProfilerStep#n`; None for one that no 64 bits hold."""
    number = name.rpartition("#")[2]
    return int(number) if number.isdecimal() and len(number) <= _STEP_DIGITS else None


def _in_steps(window: Window, wanted: list[int]) -> Window:
    core = window.core
    steps = traversals.rows_of_kind(core.columns, (Kind.Step,))
    numbers = [step_number(core.names[code]) for code in core.columns.name[steps].tolist()]
    if missing := sorted(set(wanted) - set(numbers)):
        there = ", ".join(map(str, spans(sorted({n for n in numbers if n is not None})))) or "none"
        raise AnalysisError(f"the trace has no step {_listed(missing)}; steps in it: {there}")
    inside = steps[[number in wanted for number in numbers]]
    keep = np.isin(core.step, inside)
    keep[inside] = True
    label = ", ".join(spans(sorted(set(wanted))))
    return window.narrowed(keep, f"step {label}" if len(set(wanted)) == 1 else f"steps {label}")


def _in_iterations(window: Window, wanted: Iterable[int] | None, phase: str | None, steady: bool) -> Window:
    core, found = window.core, iterations_of(window.core)
    if not len(found):
        has_steps = len(traversals.rows_of_kind(core.columns, (Kind.Step,)))
        instead = "; its steps are ProfilerSteps (--step)" if has_steps else ": no annotation of an engine, no repeats"
        raise AnalysisError(f"the trace has no iterations{instead}")
    chosen, labels = np.ones(len(found), bool), []
    if wanted is not None:
        numbers = sorted(set(wanted))
        if missing := [number for number in numbers if not 0 <= number < len(found)]:
            raise AnalysisError(f"the trace has no iteration {_listed(missing)}; it has 0-{len(found) - 1:,}")
        chosen &= np.isin(np.arange(len(found)), numbers)
        labels.append(f"iteration{'s' * (len(numbers) > 1)} {', '.join(spans(numbers))}")
    if phase is not None:
        if phase not in PHASES:
            raise AnalysisError(f"there is no phase {phase!r}; {did_you_mean(phase, PHASES) or ', '.join(PHASES)}")
        chosen &= found.phases == phase
        labels.append(f"{phase} iterations")
    if steady:
        first, behind = found.steady
        chosen[:first] = chosen[behind:] = False
        labels.append(f"steady state, iterations {first}-{behind - 1}")
    label = ", ".join(labels)
    if not chosen.any():
        phases, counts = np.unique(found.phases, return_counts=True)
        there = ", ".join(f"{count:,} {name}" for name, count in zip(phases, counts, strict=True))
        raise AnalysisError(f"the trace has no {label}; its iterations are {there}")
    return window.of_iterations((found.of >= 0) & chosen[found.of], label)


def _in_annotations(window: Window, wanted: str | re.Pattern[str], threads: Threads) -> Window:
    core, c = window.core, window.core.columns
    every = traversals.rows_of_kind(c, (Kind.Annotation, Kind.Step))
    ranges = _called_so(core, every, wanted)
    label = _label(wanted)
    if not len(ranges):
        there = sorted({core.names[code] for code in np.unique(c.name[every])})
        meant = did_you_mean(label, there) or there_are(there, _MOST_LISTED)
        raise AnalysisError(f"the trace has no annotation {label!r}; {meant}")
    if threads == "own":
        group: Codes = c.thread
    elif threads == "all":
        group = membership.process_of_thread(core.threads)[c.thread]
    else:
        raise AnalysisError(f'threads is "own" or "all", not {threads!r}')
    keep = membership.inside(c, ranges, group)
    around = None if (c.kind[ranges] == Kind.Step).all() else window.around or window
    return window.narrowed(keep, f"annotation {label}" + (", all threads" if threads == "all" else ""), around)


def _in_time(window: Window, after_ns: int | None, before_ns: int | None) -> Window:
    start = window.core.columns.start_ns
    keep = np.ones(len(start), bool)
    if after_ns is not None:
        keep &= start >= after_ns
    if before_ns is not None:
        keep &= start < before_ns
    shown_ms = window.core.info.shown_ms
    low, high = (None if ns is None else f"{shown_ms(ns):,.3f} ms" for ns in (after_ns, before_ns))
    label = f"from {low} to {high}" if low and high else f"from {low}" if low else f"up to {high}"
    return window.narrowed(keep, label)


def _called_so(core: Core, rows: Rows, wanted: str | re.Pattern[str], *spellings: str) -> Rows:
    """Those of some rows whose names are the one that is wanted, in one of its spellings, or fit a pattern."""
    fits = (wanted, *spellings).__contains__ if isinstance(wanted, str) else wanted.search
    return rows[fitting(core.names, core.columns.name[rows], fits)]


def _label(wanted: str | re.Pattern[str]) -> str:
    return wanted if isinstance(wanted, str) else f"/{wanted.pattern}/"


def _under(window: Window, under: int | str | re.Pattern[str]) -> Window:
    core, c = window.core, window.core.columns
    if isinstance(under, int):
        rows = np.array([core.row(under)])
        label = f"under {core.names[c.name[rows[0]]]}, uid {under}"
    else:
        rows = _called(core, under)
        label = f"under {_label(under)}"
    change = np.zeros(len(c) + 1, np.int64)
    np.add.at(change, rows, 1)
    np.add.at(change, c.last[rows].astype(np.int64) + 1, -1)
    keep = np.cumsum(change)[:-1] > 0
    instants = traversals.rows_of_kind(c, (Kind.MemoryEvent,))
    if len(instants):  # they stand beside the call forest, but belong to the call that they happen in
        call = membership.calls_at(c, instants)
        keep[instants] = (call >= 0) & keep[call]
    return window.narrowed(keep, label, around=window.around or window)


def _called(core: Core, under: str | re.Pattern[str]) -> Rows:
    """Rows of the calls of a name or a pattern; modules go by instance, class or path, as tables show them.

    Raises:
        AnalysisError: there are none.
    """
    c = core.columns
    on_host = np.flatnonzero(is_kind(c.kind, HOST_KINDS))
    rows = _called_so(core, on_host, under, f"{_MODULE}{under}")
    if not len(rows) and isinstance(under, str):
        rows = _modules_of(core, under)
    if len(rows):
        return rows
    text = f"the trace has no module, function, op or runtime call {_label(under)!r}"
    if isinstance(under, re.Pattern):
        raise AnalysisError(text)
    there = [core.names[code] for code in np.unique(c.name[on_host]).tolist()]
    modules = [name.removeprefix(_MODULE) for name in there if name.startswith(_MODULE)]
    known = {**dict.fromkeys(map(class_of, modules)), **dict.fromkeys(modules), **dict.fromkeys(there)}
    meant = did_you_mean(under, known, aliases={name.rpartition("::")[2]: name for name in there if "::" in name})
    raise AnalysisError(f"{text}; {meant or '/.../ is an expression; ask modules lists modules, ask op_times ops'}")


_MODULE = "nn.Module: "


def class_of(module: str) -> str:
    """The name of a module without the number of the instance."""
    return module.rpartition("_")[0] if module.rpartition("_")[2].isdecimal() else module


def _modules_of(core: Core, under: str) -> Rows:
    """Rows of modules of a class, or of a path of instances or classes, the outermost first: `Encoder/Layer_0`."""
    *outer, last = under.split("/")
    rows = traversals.rows_of_kind(core.columns, (Kind.Module,))

    def fit(rows: Rows, part: str) -> Mask:
        spelled = (part, f"{_MODULE}{part}")
        codes = core.columns.name[rows]
        return fitting(core.names, codes, lambda name: name in spelled or class_of(name) in spelled)

    rows = rows[fit(rows, last)]
    above = rows
    for part in reversed(outer):
        above = traversals.climb(core.columns.parent, core.columns.parent[above], core.columns.kind == Kind.Module)
        keep = (above >= 0) & fit(above, part)
        rows, above = rows[keep], above[keep]
    return rows


def _on(window: Window, what: Literal["device", "stream"], wanted: list[int]) -> Window:
    """GPU events on a device or stream, and the calls that lead to them; of a device also changes of its memory."""
    c = window.core.columns
    column = c.device if what == "device" else c.stream
    is_gpu = is_kind(c.kind, GPU_KINDS)
    there = np.unique(column[is_gpu]).tolist()
    if missing := sorted(set(wanted) - set(there)):
        known = f"is only {what} {there[0]}" if len(there) == 1 else f"are {what}s {_listed(there)}"
        instead = f"there {known}" if there else "there are no GPU events"
        raise AnalysisError(f"no GPU event is on {what} {_listed(missing)}; {instead}")
    on = is_gpu & np.isin(column, wanted)
    keep = on | (~is_gpu & (traversals.subtree_sums(c, on) > 0))
    if what == "device":
        keep |= (c.kind == Kind.MemoryEvent) & np.isin(column, wanted)
    return window.narrowed(keep, f"{what} {_listed(wanted)}")


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def spans(numbers: Sequence[int]) -> list[str]:
    """Ascending numbers as `2-5`, `7`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [str(low) if low == high else f"{low}-{high}" for low, high in found]
