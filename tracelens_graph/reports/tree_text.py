"""Call trees as lines of text: downwards from nodes or from all roots, and upwards from one node.

    └── Category: cpu_op, Name: aten::layer_norm
        └── Category: cpu_op, Name: aten::native_layer_norm
            ├── Category: cuda_runtime, Name: hipLaunchKernel
            │   └── Category: kernel, Name: ...

Where a node stands (`subtree`, `forest`) and what its line says (`Labels`) are apart, so that lines that nobody
prints cost next to nothing. Everything is iterative: a tree may be ten thousand calls deep.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.schema import FOREST_KINDS, GPU_KINDS, Kind
from tracelens_graph.texts import cut_middle, printable, shorten, width_of

NAME_WIDTH = 64
"""Characters of a name that are shown."""

SHORT = {
    Kind.Module: "python",
    Kind.PythonFunction: "python",
    Kind.Op: "cpu",
    Kind.RuntimeCall: "runtime",
    Kind.Kernel: "kernel",
    Kind.Memcpy: "memcpy",
    Kind.Memset: "memset",
    Kind.Annotation: "annotation",
    Kind.Step: "step",
    Kind.DeviceAnnotation: "device annotation",
    Kind.SyncEvent: "sync",
    Kind.Overhead: "overhead",
    Kind.MemoryEvent: "memory",
}
"""Kind -> the word in brackets before a name."""

HEADING = -1
"""Stands for a row where a line is a heading and no node."""

Place = tuple[int, str]
"""A row and the branches drawn before its label; or HEADING and its text."""

_BATCH = 512
_BRANCHES = "│├└─ "
_TEXT = 40
"""Columns that the text behind deep branches keeps."""


@dataclass(frozen=True)
class Choice:
    """Which nodes of a tree are drawn.

    A node that is not among `only` hands its children on to the nearest node above that is drawn.

    Attributes:
        only: per row of the graph whether it may be drawn; None for all.
        gpu_only: only nodes with GPU work in their subtree, and the work itself.
        depth: levels below the top ones; None for all.
    """

    only: np.ndarray | None = None
    gpu_only: bool = False
    depth: int | None = None

    def mask(self, core: Core, low: int, high: int) -> np.ndarray:
        """For the rows low..high-1 whether they are drawn."""
        c, gpu = core.columns, core.gpu_rows
        drawn = np.ones(high - low, bool) if self.only is None else self.only[low:high].copy()
        if self.gpu_only:
            rows = np.arange(low, high)
            drawn &= np.searchsorted(gpu, c.last[low:high], "right") > np.searchsorted(gpu, rows)
        return drawn


def subtree(core: Core, row: int, choice: Choice) -> Iterator[Place]:
    """A node, whatever its kind, and what is below it."""
    high = int(core.columns.last[row]) + 1
    drawn = choice.mask(core, row, high)
    drawn[0] = True
    return _places(core, row, high, drawn, choice.depth)


def forest(core: Core, choice: Choice) -> Iterator[Place]:
    """All of the call forest, thread by thread under headings, then GPU events without a launch."""
    c = core.columns
    roots = np.flatnonzero((c.parent < 0) & is_kind(c.kind, FOREST_KINDS))
    names = {(str(pid), str(tid)): name for pid, tid, name in core.info.threads}
    group = np.where(is_kind(c.kind[roots], GPU_KINDS), HEADING, c.thread[roots])
    edges = np.flatnonzero(np.append(True, group[1:] != group[:-1])) if len(roots) else roots
    for begin, end in zip(edges.tolist(), [*edges[1:].tolist(), len(roots)], strict=False):
        low, high = int(roots[begin]), int(c.last[roots[end - 1]]) + 1
        drawn = choice.mask(core, low, high)
        if not drawn.any():
            continue
        if group[begin] == HEADING:
            yield HEADING, "GPU events without a launch in the trace"
        else:
            pid, tid = core.threads[int(c.thread[low])]
            yield HEADING, printable(f"Process {pid}, {names.get((str(pid), str(tid))) or f'thread {tid}'}")
        yield from _places(core, low, high, drawn, choice.depth)


def ladder(core: Core, row: int, choice: Choice) -> Iterator[Place]:
    """A node and the callers above it that are drawn, the nearest first: `Node:`, `1-up:`, `2-up:`."""
    step = 0
    while row >= 0:
        if step == 0 or choice.mask(core, row, row + 1)[0]:
            if choice.depth is not None and step > choice.depth:
                return
            yield row, f"{step}-up:" if step else "Node:"
            step += 1
        row = int(core.columns.parent[row])


def _places(core: Core, low: int, high: int, drawn: np.ndarray, depth: int | None) -> Iterator[Place]:
    """Branches of the drawn rows among low..high-1, which are whole subtrees."""
    last = core.columns.last
    shown = np.flatnonzero(drawn) + low
    parent = core.columns.parent[shown].astype(np.int64)
    while True:
        climbing = np.flatnonzero(parent >= low)
        climbing = climbing[~drawn[parent[climbing] - low]]
        if not len(climbing):
            break
        parent[climbing] = core.columns.parent[parent[climbing]]
    slot = np.where(parent >= low, parent - low + 1, 0)
    youngest = np.zeros(high - low + 1, np.int64)
    youngest[slot] = shown  # ascending, so the last of several stays
    is_last = (youngest[slot] == shown).tolist()
    rows, ends = shown.tolist(), last[shown].tolist()
    above: list[tuple[int, str]] = []
    i = 0
    while i < len(rows):
        while above and above[-1][0] < rows[i]:
            above.pop()
        prefix = above[-1][1] if above else ""
        yield rows[i], prefix + ("└── " if is_last[i] else "├── ")
        if depth is None or len(above) < depth:
            above.append((ends[i], prefix + ("    " if is_last[i] else "│   ")))
            i += 1
        else:
            i = bisect_right(rows, ends[i])


@dataclass(frozen=True)
class Labels:
    """What the line of a node says.

    Attributes:
        category: row -> the word for what it is; with `short` in brackets before the name.
        short: `(cpu) aten::add` rather than `Category: cpu_op, Name: aten::add`.
        uid: whether the uid is shown.
        gpu_time: whether sum and busy time of the GPU events in the subtree are shown.
        duration: whether GPU events show their duration.
        fields: arguments of ops to show below them: "Input Dims", "Input type", "Input Strides", "Concrete Inputs".
    """

    category: Callable[[int], str]
    short: bool = False
    uid: bool = False
    gpu_time: bool = False
    duration: bool = False
    fields: Sequence[str] = ()

    def of(self, core: Core, rows: Sequence[int]) -> list[str]:
        """Labels of rows, on one line each."""
        found = []
        for row, extra in zip(rows, self.extras(core, rows), strict=True):
            name, category = name_of(core, row), printable(self.category(row))
            uid = f"UID: {core.columns.uid[row]}, " if self.uid else ""
            label = f"{uid}({category}) {name}" if self.short else f"{uid}Category: {category}, Name: {name}"
            found.append(label + extra)
        return found

    def extras(self, core: Core, rows: Sequence[int]) -> list[str]:
        """What follows the names: duration and GPU time, if asked for."""
        asked, c = np.asarray(rows, np.int64), core.columns
        found = [""] * len(rows)
        if self.duration:
            on_gpu = is_kind(c.kind[asked], GPU_KINDS).tolist()
            for i, dur in enumerate(c.dur_ns[asked].tolist()):
                found[i] += f", Duration: {dur / 1000}" if on_gpu[i] else ""
        if self.gpu_time:
            pairs = zip(core.gpu_sum_ns[asked].tolist(), core.gpu_busy_ns(asked).tolist(), strict=True)
            for i, (total, busy) in enumerate(pairs):
                found[i] += f", GPU time: {total / 1000:.3f} us, busy: {busy / 1000:.3f} us" if total else ""
        return found

    def details(self, core: Core, row: int) -> Iterator[str]:
        """The arguments of an op that are asked for, one line each."""
        if self.fields and core.columns.argset[row] >= 0:
            shapes = Node(core, row).shapes
            for field in self.fields:
                if field in shapes:
                    yield printable(f"{field}: {shapes[field]}")


def name_of(core: Core, row: int) -> str:
    """Name of a node, cut and safe to print."""
    return shorten(printable(core.names[core.columns.name[row]]), NAME_WIDTH)


def short_category(core: Core) -> Callable[[int], str]:
    """Row -> `python`, `cpu`, `runtime`, `kernel` and the like."""
    return lambda row: SHORT[Kind(int(core.columns.kind[row]))]


def lines(core: Core, places: Iterable[Place], labels: Labels) -> Iterator[str]:
    """One line per place."""
    places = iter(places)
    while batch := list(islice(places, _BATCH)):
        texts = iter(labels.of(core, [row for row, _ in batch if row != HEADING]))
        for row, branches in batch:
            if row == HEADING:
                yield branches
                continue
            yield branches + next(texts)
            below = branches[:-4] + ("    " if branches.endswith("└── ") else "│   ")
            yield from (f"{below}|   {detail}" for detail in labels.details(core, row))


def fitted_line(line: str, width: int) -> str:
    """A line of a tree that fits into some columns: deep branches lose their beginning, names their middle."""
    if width_of(line) <= width:
        return line
    text = line.lstrip(_BRANCHES)
    branches = line[: len(line) - len(text)]
    if len(branches) > (room := max(width - _TEXT, 8)):
        branches = "..." + branches[3 - room :]
    return branches + cut_middle(text, width - len(branches))


def ladder_lines(core: Core, places: Iterable[Place], labels: Labels) -> Iterator[str]:
    """Lines of a way up: `Node:` and the like, then category and name, indented below it unless short."""
    for row, step in places:
        if labels.short:
            yield f"{step} {labels.of(core, [row])[0]}"
            continue
        yield step
        if labels.uid:
            yield f"  UID: {core.columns.uid[row]}"
        yield f"  cat: {printable(labels.category(row))}"
        yield f"  name: {name_of(core, row)}"
        if extra := labels.extras(core, [row])[0]:
            yield f"  {extra.removeprefix(', ')}"
        yield from (f"    {detail}" for detail in labels.details(core, row))
