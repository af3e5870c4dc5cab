"""Call trees as lines of text: downwards from nodes or from all roots, and upwards from one node.

    └── Category: cpu_op, Name: aten::layer_norm
        └── Category: cpu_op, Name: aten::native_layer_norm
            ├── Category: cuda_runtime, Name: hipLaunchKernel
            │   └── Category: kernel, Name: ...

Where a node stands (`subtree`, `forest`) and what its line says (`Labels`) are apart, so that lines that nobody
prints cost next to nothing. Nothing recurses, and no line is deeper than DEEPEST levels: a line of a tree is as long as
it is deep, so that a trace of a hundred thousand nested calls would be drawn in gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.analyses.diagnosis.finding import shown_ms
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.traversals import climb
from tracelens_graph.graph.user_code import shown_name
from tracelens_graph.schema import FOREST_KINDS, GPU_KINDS, HOST_KINDS, Flag, Kind
from tracelens_graph.schema.categories import CATEGORY_OF_KIND
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.names import fitted
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows
from tracelens_graph.utils.texts import counted, cut_middle, printable, shorten, width_of

NAME_WIDTH = 64
"""Characters of a name that are shown."""

HEADING = -1
"""Stands for a row where a line is a heading and no node."""

Place = tuple[int, str]
"""A row and the branches drawn before its label; or HEADING and its text."""

DEEPEST = 200
"""Levels that are drawn below the top of a tree, and callers above a node; a line says how many more there are."""

_HOST_TIMES = ("host ms", "self ms", "GPU idle ms")
_BATCH = 512
_BRANCHES = "│├└─ "
_TEXT = 40
"""Columns that the text behind deep branches keeps."""
_TIMES = 24
"""Columns that times behind a name take at most."""
_MORE = "... "
"""Beginning of a line that says how much is not drawn, and where to go on: such text is kept whole if it fits."""


@dataclass(frozen=True)
class Choice:
    """Which nodes of a tree are drawn.

    A node that is not among `only` hands its children on to the nearest node above that is drawn.

    Attributes:
        only: per row of the graph whether it may be drawn; None for all.
        gpu_only: only nodes with GPU work in their subtree, and the work itself.
        depth: levels below the top ones; None for all.
        measure: a quantity per row of the graph, by which nodes beside each other are sorted, the greatest first; None
            for the order of time.
        least: what nodes have of it at least; the others count as more below the node above them.
        folds_chains: whether a node stands for the callers above it that did next to nothing else: less than `least`.
    """

    only: np.ndarray | None = None
    gpu_only: bool = False
    depth: int | None = None
    measure: Ns | None = None
    least: float = 0
    folds_chains: bool = False

    def mask(self, core: Core) -> np.ndarray:
        """For each row of the graph whether it is drawn."""
        drawn = self.wanted(core)
        if self.measure is None:
            return drawn
        kept = drawn & (self.measure >= self.least)
        return kept & ~self._passed_through(core, drawn, kept) if self.folds_chains else kept

    def _passed_through(self, core: Core, wanted: Mask, kept: Mask) -> Mask:
        """Nodes whose one child that is kept has nearly all of what they have."""
        assert self.measure is not None
        found, rows = np.zeros(len(kept), bool), np.flatnonzero(kept)
        above = climb(core.columns.parent, core.columns.parent[rows], wanted)
        rows, above = rows[above >= 0], above[above >= 0]
        children = np.bincount(above, minlength=len(kept))
        rows, above = rows[children[above] == 1], above[children[above] == 1]
        found[above] = self.measure[above] - self.measure[rows] < self.least
        return found

    def more_below(self, core: Core, drawn: Mask) -> dict[int, tuple[int, int]]:
        """Row, or -1 - thread -> number of calls right below that have too little to be drawn, and what they have."""
        if self.measure is None or not self.least:
            return {}
        c, wanted = core.columns, self.wanted(core) & is_kind(core.columns.kind, FOREST_KINDS)
        rows = np.flatnonzero(wanted & (self.measure < self.least) & (self.measure > 0))
        nearest = climb(c.parent, c.parent[rows], wanted)
        rows = rows[(nearest < 0) | (self.measure[nearest] >= self.least)]
        above = climb(c.parent, c.parent[rows], drawn)
        places, at = np.unique(np.where(above >= 0, above, -1 - c.thread[rows].astype(np.int64)), return_inverse=True)
        sums = sum_by_group(at, self.measure[rows], len(places))
        return dict(zip(places.tolist(), zip(np.bincount(at).tolist(), sums.tolist(), strict=True), strict=True))

    def wanted(self, core: Core) -> Mask:
        """For each row whether it may be drawn, whatever the measure says."""
        c, gpu = core.columns, core.gpu_rows
        drawn = np.ones(len(c), bool) if self.only is None else self.only.copy()
        if self.gpu_only:
            drawn &= np.searchsorted(gpu, c.last, "right") > np.searchsorted(gpu, np.arange(len(c)))
        return drawn

    @property
    def levels(self) -> int:
        """Levels below the top ones, or callers above a node, that are drawn at most."""
        return DEEPEST if self.depth is None else min(self.depth, DEEPEST)

    @property
    def folds(self) -> bool:
        """Whether a line mentions what is deeper: not where it was asked to be left out."""
        return self.depth is None or self.depth > DEEPEST


class Places(Iterable[Place], Sized):
    """What stands in a drawing, line by line.

    How many there are is known before the first is made.
    """

    def __init__(self, count: int, places: Iterator[Place]) -> None:
        self._count, self._places = count, places

    def __iter__(self) -> Iterator[Place]:
        return self._places

    def __len__(self) -> int:
        return self._count


def drawn_nodes(core: Core, rows: Sequence[int]) -> Table:
    """The nodes of a drawing as a table, in its order; times are those of Perfetto UI."""
    c, at = core.columns, np.array(rows, np.int64)
    columns: dict[str, np.ndarray | list[str]] = {
        "depth": c.depth[at],
        "kind": [Kind(kind).name for kind in c.kind[at].tolist()],
        "name": [core.names[name] for name in c.name[at].tolist()],
        "start_ms": (c.start_ns[at] + core.info.lead_ns) / 1e6,
        "dur_us": c.dur_ns[at] / 1e3,
        "gpu_sum_us": core.gpu_sum_ns[at] / 1e3,
        "uid": c.uid[at],
    }
    about = {
        "depth": Column("callers above it in the trace"),
        "kind": Column("kind of node"),
        "name": Column("its name"),
        "start_ms": Column("when it begins", "ms", Role.time),
        "dur_us": Column("its duration", "us"),
        "gpu_sum_us": Column("sum of the durations of the GPU events in its subtree", "us"),
        "uid": Column("its position in the file", role=Role.uid),
    }
    return Table("tree", columns, about, "Call tree")


def subtree(core: Core, row: int, choice: Choice) -> Places:
    """A node, whatever its kind, and what is below it."""
    return subtrees(core, [row], choice)


def subtrees(core: Core, tops: Sequence[int], choice: Choice) -> Places:
    """Nodes, whatever their kind, and what is below them; none of them lies below another."""
    c, rows = core.columns, np.array(tops, np.int64)
    change = np.zeros(len(c) + 1, np.int64)
    change[rows] += 1
    change[c.last[rows].astype(np.int64) + 1] -= 1
    drawn = choice.mask(core) & (np.cumsum(change[:-1]) > 0)
    drawn[rows] = True
    return _drawing(core, drawn, choice, rows, np.arange(len(rows)), None)


def forest(core: Core, choice: Choice) -> Places:
    """All of the call forest, thread by thread under headings, then GPU events without a launch."""
    c = core.columns
    drawn = choice.mask(core) & is_kind(c.kind, FOREST_KINDS)
    roots = np.flatnonzero((c.parent < 0) & is_kind(c.kind, FOREST_KINDS))
    group = np.where(is_kind(c.kind[roots], GPU_KINDS), HEADING, c.thread[roots])
    names = {(str(pid), str(tid)): name for pid, tid, name in core.info.threads}

    def heading(thread: int) -> str:
        if thread == HEADING:
            return "GPU events without a launch in the trace"
        pid, tid = core.threads[thread]
        return printable(f"Process {pid}, {names.get((str(pid), str(tid))) or f'thread {tid}'}")

    return _drawing(core, drawn, choice, roots, group, heading)


def ladders(core: Core, rows: Sequence[int], choice: Choice, onward: tuple[Rows, Rows] | None = None) -> Places:
    """Nodes, each with the callers above it that are drawn, the nearest first: `Node:`, `1-up:`, `2-up:`.

    Args:
        choice: which callers are drawn.
        onward: for each node a caller, -1 for none, from which the way goes on with another node: that node and those
            above it are drawn in place of what is above the caller. See `user_code.onward`.
    """
    c, drawn, asked = core.columns, choice.mask(core), np.array(rows, np.int64)
    above = climb(c.parent, c.parent, drawn)
    shown = np.flatnonzero(drawn)
    ends = np.sort(c.last[shown])
    turn, target = onward or (np.full(len(asked), -1, np.int64), asked)

    def callers(of: Rows) -> np.ndarray:
        # Of the drawn nodes before a row, those that have not ended before it are above it.
        return np.searchsorted(shown, of) - np.searchsorted(ends, of)

    number = callers(asked) + np.where(turn >= 0, 1 + callers(target) - callers(np.maximum(turn, 0)), 0)
    hidden = np.maximum(number - choice.levels, 0) * choice.folds

    def places() -> Iterator[Place]:
        each = zip(asked.tolist(), turn.tolist(), target.tolist(), hidden.tolist(), strict=True)
        for row, last, other, more in each:
            word = ""
            for step in range(choice.levels + 1):
                yield row, f"{step}-up{word}:" if step else "Node:"
                further = int(above[row])
                word = ""
                if further < last:
                    further, last = other, -1
                    word = ", its forward op" if c.kind[other] == Kind.Op else ", during"
                if further < 0:
                    break
                row = further
            else:
                if more:
                    yield HEADING, f"{_MORE}{counted(more, 'more node')} above (go on up from uid {c.uid[row]})"

    return Places(int((np.minimum(number, choice.levels) + 1 + (hidden > 0)).sum()), places())


def ladder(core: Core, row: int, choice: Choice) -> Places:
    """A node and the callers above it that are drawn; see `ladders`."""
    return ladders(core, [row], choice)


def _drawing(
    core: Core,
    drawn: np.ndarray,
    choice: Choice,
    tops: np.ndarray,
    group: np.ndarray,
    heading: Callable[[int], str] | None,
) -> Places:
    """The drawn nodes with their branches.

    Args:
        drawn: for each row whether it is drawn.
        choice: how deep.
        tops: rows, ascending; all that is drawn is one of them, or below one.
        group: a number for each of them; branches join those of one group that follow each other.
        heading: number of a group -> the line above it; None without such lines.
    """
    c = core.columns
    shown = np.flatnonzero(drawn)
    ends = c.last[shown].astype(np.int64)
    level = np.arange(len(shown)) - np.searchsorted(np.sort(ends), shown)
    hidden = np.where(level == choice.levels, np.searchsorted(shown, ends, "right") - np.arange(len(shown)) - 1, 0)
    hidden = hidden * choice.folds
    parent = climb(c.parent, c.parent[shown], drawn)
    kept = level <= choice.levels
    shown, level, hidden, parent = shown[kept], level[kept], hidden[kept], parent[kept]
    # The last child of each node, and the last top of each stretch of one group, have no branch below them.
    stretch = np.cumsum(np.append(0, group[1:] != group[:-1])) if len(group) else group
    of = stretch[np.searchsorted(tops, shown, "right") - 1] if len(tops) else shown
    # Tops have no parent: those of one stretch share a slot behind all rows, as siblings do.
    slot = np.where(parent >= 0, parent, len(c) + of)
    if choice.measure is not None:
        order = _by_measure(np.searchsorted(shown, parent), parent < 0, slot, level, choice.measure[shown])
        shown, level, hidden, of, slot, parent = (one[order] for one in (shown, level, hidden, of, slot, parent))
    youngest = np.zeros(len(c) + len(tops), np.int64)
    youngest[slot] = shown  # in order, so the last of several stays
    is_last = youngest[slot] == shown
    begins = np.append(True, of[1:] != of[:-1])[: len(of)] if heading else np.zeros(len(of), bool)
    more = choice.more_below(core, drawn)
    # Below a node without a child that is drawn, its total says as much.
    ending_at = more.keys() & {*parent[level > 0].tolist()}
    if heading:
        ending_at |= more.keys() & {-1 - thread for thread in c.thread[shown[begins]].tolist()}
    with_more = np.array([*ending_at], np.int64)
    is_last &= ~np.isin(np.where(level > 0, parent, -1 - c.thread[shown].astype(np.int64)), with_more)

    def places() -> Iterator[Place]:
        prefix = [""] * (choice.levels + 2)
        open_ends: list[tuple[int, int]] = []  # level of a line with what is not drawn, and its place in `more`

        def closed(down_to: int) -> Iterator[Place]:
            while open_ends and open_ends[-1][0] >= down_to:
                at, place = open_ends.pop()
                number, ns = more[place]
                yield HEADING, f"{prefix[at]}└── {_MORE}{number:,} more, {shown_ms(ns)}"

        for i, row in enumerate(shown.tolist()):
            at, ending = int(level[i]), bool(is_last[i])
            yield from closed(0 if begins[i] else at + 1)
            if heading and begins[i]:
                yield HEADING, heading(int(group[np.searchsorted(tops, row, "right") - 1]))
                open_ends += [(0, place)] if (place := -1 - int(c.thread[row])) in ending_at else []
            yield row, prefix[at] + ("└── " if ending else "├── ")
            prefix[at + 1] = prefix[at] + ("    " if ending else "│   ")
            open_ends += [(at + 1, row)] if row in ending_at else []
            if hidden[i]:
                below = counted(int(hidden[i]), "more node")
                yield HEADING, f"{prefix[at + 1]}└── {_MORE}{below} below (go on from uid {c.uid[row]})"
        yield from closed(0)

    lines = len(shown) + int(np.count_nonzero(begins)) + int(np.count_nonzero(hidden)) + len(ending_at)
    return Places(lines, places())


def _by_measure(above: Rows, is_top: Mask, slot: Rows, level: Codes, measure: Ns) -> Rows:
    """Positions of nodes in pre-order in another pre-order, in which those beside each other are sorted by a measure.

    Args:
        above: position of the parent of each node; not looked at for tops.
        is_top: whether it is a top.
        slot: equal for nodes beside each other.
        level: number of nodes above it.
        measure: the greatest comes first.
    """
    count = len(slot)
    size = np.ones(count, np.int64)
    for one in range(int(level.max(initial=0)), 0, -1):
        np.add.at(size, above[at := np.flatnonzero(level == one)], size[at])
    order = np.lexsort((np.arange(count), -measure, slot))
    before = np.cumsum(size[order]) - size[order]
    first = np.searchsorted(slot[order], slot[order])
    place = np.empty(count, np.int64)
    place[order] = before - before[first]
    # Tops of one slot stand together, and slots of tops follow each other.
    slots, begin = np.unique(slot[is_top], return_index=True)
    place[is_top] += np.flatnonzero(is_top)[begin][np.searchsorted(slots, slot[is_top])]
    for one in range(1, int(level.max(initial=0)) + 1):
        at = np.flatnonzero(level == one)
        place[at] += place[above[at]] + 1
    found = np.empty(count, np.int64)
    found[place] = np.arange(count)
    return found


@dataclass(frozen=True)
class Labels:
    """What the line of a node says.

    Attributes:
        category: row -> the word for what it is; with `short` in brackets before the name.
        short: `(cpu) aten::add` rather than `Category: cpu_op, Name: aten::add`.
        uid: whether the uid is shown.
        gpu_time: whether sum and busy time of the GPU events in the subtree are shown.
        host_time: `times_of_calls`, to show host time; None to show none.
        duration: whether GPU events show their duration.
        fields: arguments of ops to show below them: "Input Dims", "Input type", "Input Strides", "Concrete Inputs".
        width: columns of a line with all that is known of a node: name, how long it took, GPU time, shapes and types;
            0 for lines without.
    """

    category: Callable[[int], str]
    short: bool = False
    uid: bool = False
    gpu_time: bool = False
    host_time: Sequence[Ns] | None = None
    duration: bool = False
    fields: Sequence[str] = ()
    width: int = 0

    def of(self, core: Core, rows: Sequence[int]) -> list[str]:
        """Labels of rows, on one line each."""
        found = []
        for row, extra in zip(rows, self.extras(core, rows), strict=True):
            name, category = name_of(core, row), printable(self.category(row))
            if self.width:
                # Times stay on the line of the name; shapes may go on below it.
                taken = width_of(category) + min(width_of(extra), _TIMES)
                name = fitted(printable(shown_name(core, row)), max(self.width - taken - 12, _TEXT))
            uid = f"UID: {core.columns.uid[row]}, " if self.uid else ""
            label = f"{uid}({category}) {name}" if self.short else f"{uid}Category: {category}, Name: {name}"
            found.append(label + extra)
        return found

    def extras(self, core: Core, rows: Sequence[int]) -> list[str]:
        """What follows the names: tensors where they are known, duration and GPU time if asked for."""
        asked, c = np.asarray(rows, np.int64), core.columns
        found = [""] * len(rows)
        if core.link is not None:
            found = [f" {text}" if (text := core.link.arguments(core, row)) else "" for row in asked.tolist()]
        if self.width:
            found = [f"{text}{_facts(core, row)}" for text, row in zip(found, asked.tolist(), strict=True)]
        if self.duration:
            on_gpu = is_kind(c.kind[asked], GPU_KINDS).tolist()
            for i, dur in enumerate(c.dur_ns[asked].tolist()):
                found[i] += f", Duration: {dur / 1000}" if on_gpu[i] else ""
        if self.gpu_time:
            pairs = zip(core.gpu_sum_ns[asked].tolist(), core.gpu_busy_ns(asked).tolist(), strict=True)
            for i, (total, busy) in enumerate(pairs):
                found[i] += f", GPU time: {total / 1000:.3f} us, busy: {busy / 1000:.3f} us" if total else ""
        if self.host_time is not None:
            is_host = is_kind(c.kind[asked], HOST_KINDS).tolist()
            for i, times in enumerate(zip(*(ns[asked].tolist() for ns in self.host_time), strict=True)):
                shown = (f"{what} {ns / 1e6:.3f}" for what, ns in zip(_HOST_TIMES, times, strict=False))
                found[i] += f", {', '.join(shown)}" if is_host[i] else ""
        return found

    def details(self, core: Core, row: int) -> Iterator[str]:
        """The arguments of an op that are asked for, one line each."""
        if self.fields and core.columns.argset[row] >= 0:
            shapes = Node(core, row).shapes
            for field in self.fields:
                if field in shapes:
                    yield printable(f"{field}: {shapes[field]}")


def _facts(core: Core, row: int) -> str:
    """How long a node took, how much GPU time is below it, and of an op shapes and types."""
    c = core.columns
    found = []
    if core.framework.calls_take_time:
        found = ["captured" if c.flags[row] & Flag.captured else shown_ms(int(c.dur_ns[row]))]
    if c.kind[row] not in GPU_KINDS and (time := int(core.gpu_sum_ns[row])):
        found.append(f"GPU {shown_ms(time)}")
    if (code := int(c.argset[row])) >= 0 and core.argsets[code][0]:
        shapes = Node(core, row).shapes
        types = [str(one) for one in shapes.get("Input type", ()) if isinstance(one, str) and one]
        found.append(" ".join((str(shapes["Input Dims"]), *dict.fromkeys(types))))
    return "".join(f", {printable(one)}" for one in found)


def name_of(core: Core, row: int) -> str:
    """Name of a node, cut and safe to print."""
    return shorten(printable(core.names[core.columns.name[row]]), NAME_WIDTH)


def short_category(core: Core) -> Callable[[int], str]:
    """Row -> `python`, `cpu`, `runtime`, `kernel` and the like."""
    short = core.framework.short_kinds
    return lambda row: short[Kind(int(core.columns.kind[row]))]


def lines(core: Core, places: Iterable[Place], labels: Labels) -> Iterator[str]:
    """One line per place."""
    for row, branches, text in _labelled(core, places, labels.of):
        if row == HEADING:
            yield branches
            continue
        yield branches + text
        below = branches[:-4] + ("    " if branches.endswith("└── ") else "│   ")
        yield from (f"{below}|   {detail}" for detail in labels.details(core, row))


def timed_lines(core: Core, places: Iterable[Place], labels: Labels, times: Sequence[Ns], width: int) -> Iterator[str]:
    """Lines of a tree with host times in columns left of it, as wide as a screen.

    Args:
        places: of the tree.
        labels: what stands behind the branches, if they are not short: then names do.
        times: `times_of_calls`.
    """
    heads = [*_HOST_TIMES[: len(times)], *["uid"] * labels.uid]
    whole = [f"{ns.max(initial=0) / 1e6:,.3f}" for ns in times] + [f"{core.columns.uid.max(initial=0)}"] * labels.uid
    widths = [max(len(head), len(text)) for head, text in zip(heads, whole, strict=True)]

    def cells(texts: Iterable[str]) -> str:
        return "".join(f"{text:>{of}}  " for text, of in zip(texts, widths, strict=True))

    yield cells(heads).rstrip()
    room = width - len(cells(heads))
    for row, branches, text in _labelled(core, places, labels.of):
        tree = branches.lstrip(_BRANCHES)
        drawn = branches[: len(branches) - len(tree)]
        # Two columns for a level: names need the others.
        line = "".join(f"{drawn[at]}{'─' if drawn[at] in '├└' else ' '}" for at in range(0, len(drawn), 4)) + tree
        if row == HEADING:
            yield cells([""] * len(heads)) + fitted_line(line, room)
            continue
        if labels.short:
            text = fitted(printable(shown_name(core, row)), max(room - width_of(line), _TEXT // 2))
        uid = [f"{core.columns.uid[row]}"] * labels.uid
        yield cells([*(f"{ns[row] / 1e6:,.3f}" for ns in times), *uid]) + fitted_line(line + text, room, _TEXT // 2)


def _labelled(
    core: Core, places: Iterable[Place], texts_of: Callable[[Core, Sequence[int]], list[str]]
) -> Iterator[tuple[int, str, str]]:
    """Places with the texts of their rows, which are made for many at a time.

    Batches grow: GPU time costs about as much for one node as for all, and whoever wants ten lines waits for few.
    """
    places, size = iter(places), _BATCH
    while batch := list(islice(places, size)):
        texts = iter(texts_of(core, [row for row, _ in batch if row != HEADING]))
        for row, branches in batch:
            yield row, branches, "" if row == HEADING else next(texts)
        size *= 2


def fitted_line(line: str, width: int, least: int = _TEXT) -> str:
    """A line of a tree that fits into some columns: deep branches lose their beginning, names their middle."""
    if width_of(line) <= width:
        return line
    text = line.lstrip(_BRANCHES)
    branches = line[: len(line) - len(text)]
    kept = max(least, width_of(text)) if text.startswith(_MORE) else least
    if len(branches) > (room := max(width - kept, 8)):
        branches = "..." + branches[3 - room :]
    return branches + cut_middle(text, width - len(branches))


def ladder_lines(core: Core, places: Iterable[Place], labels: Labels) -> Iterator[str]:
    """Lines of a way up: `Node:` and the like, then category and name, indented below it unless short."""
    for row, step, text in _labelled(core, places, labels.of if labels.short else labels.extras):
        if row == HEADING or not labels.short:
            yield step
        if row == HEADING:
            continue
        if labels.short:
            yield f"{step} {text}"
            continue
        if labels.uid:
            yield f"  UID: {core.columns.uid[row]}"
        yield f"  cat: {printable(labels.category(row))}"
        yield f"  name: {name_of(core, row)}"
        if text:
            yield f"  {text.removeprefix(', ')}"
        yield from (f"    {detail}" for detail in labels.details(core, row))


# --- labels as in the file ------------------------------------------------------------------------------------------


class Head(msgspec.Struct, frozen=True):
    """Category and phase of an event, as its file gives them."""

    cat: str | None = None
    ph: str | None = None


_HEADS = msgspec.json.Decoder(list[Head | None])


def heads(core: Core) -> dict[int, Head]:
    """uid -> category and phase of every event of the file; events that cannot be read are left out.

    Raises:
        ChangedTraceError: the file is no longer the one that was loaded.
    """
    details, found = core.details, {}
    same: dict[Head, Head] = {}
    blocks = range(len(details.first))
    for first, text in zip(details.first.tolist(), details.texts(blocks), strict=True):
        for uid, head in enumerate(_decode(text), first):
            if head is not None:
                # Few pairs of category and phase make up all events; equal ones are one object.
                found[uid] = same.setdefault(head, head)
    return found


def categories(core: Core) -> list[str]:
    """For every row the category of its event in the file, else the one that PyTorch writes for its kind."""
    known = heads(core)
    standard = [CATEGORY_OF_KIND[Kind(kind)] for kind in core.columns.kind.tolist()]
    return [
        head.cat if (head := known.get(uid)) and head.cat else stand_in
        for uid, stand_in in zip(core.columns.uid.tolist(), standard, strict=True)
    ]


def _decode(text: bytes) -> list[Head | None]:
    try:
        return _HEADS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return [_head(event) for event in msgspec.json.decode(text, type=list[msgspec.Raw])]


def _head(raw: Any) -> Head | None:
    try:
        event = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(event, dict):
        return None
    cat, ph = event.get("cat"), event.get("ph")
    return Head(cat if isinstance(cat, str) else None, ph if isinstance(ph, str) else None)
