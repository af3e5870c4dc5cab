"""GPU time of the tree of nn.Modules: forward, backward, and what lies in no module, the optimizer among it.

A module call is a frame `nn.Module: Linear_3` of the Python stack. Calls of one name under the same modules above
make one place of the tree, whichever step or thread they are of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.ops.passes import passes_by_name
from tracelens_graph.analyses.places.attribution import OPTIMIZER, charged, frames_above, module_calls, of_optimizer
from tracelens_graph.analyses.timeline.timeline import unlinked_notes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.frameworks import PYTORCH
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.user_code import is_python
from tracelens_graph.graph.window import Window, class_of, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

MODULE_TREE = TableSchema(
    "module_tree",
    "GPU time of every nn.Module or named scope, forward and backward, in the order of the module tree.",
    {
        "path": Column.key("names of the modules from the top, joined by /; only its end where it is very long"),
        "depth": Column("levels below the line for all GPU events"),
        "module": Column.text("instance or class of the module; a line without uid is none"),
        "class": Column.text("the name without the number of the instance"),
        "instances": Column("instances called in the window, at this place of the tree"),
        "calls": Column.count("calls of these in the window, recomputation included"),
        "forward_us": Column(
            "GPU time launched by the module, modules inside included; all that is not backward", "us"
        ),
        "backward_us": Column(
            "GPU time of the backward ops of forward ops in the module, modules inside included", "us"
        ),
        "optimizer_us": Column("GPU time launched by `Optimizer.step` outside of modules", "us"),
        "total_us": Column("forward, backward and optimizer", "us"),
        "percent": Column("share of the sum over all GPU events", "%"),
        "uid": Column.uid("the first call"),
    },
    ordered=True,
)

MODULES = TableSchema(
    "modules",
    "GPU time of every nn.Module or named scope by its place in the module tree.",
    {
        "module_path": MODULE_TREE["path"],
        "depth": Column("1 for modules in no other", drop_priority=2),
        "module": Column.text(
            "name of the module; a line without uid is none", drop_priority=4
        ),  # the path ends with it
        "class": replace(MODULE_TREE["class"], drop_priority=4),
        "calls": Column.count("calls, recomputation included"),
        "forward_us": MODULE_TREE["forward_us"],
        "backward_us": MODULE_TREE["backward_us"],
        "optimizer_us": MODULE_TREE["optimizer_us"],
        "total_us": replace(MODULE_TREE["total_us"], compared="main", drop_priority=0),
        "own_us": Column.total(
            "the part of it that is in no module inside; adds up over all rows", "us", compared="diff"
        ),
        "percent": Column("total_us as share of the sum over all GPU events", "%", drop_priority=0),
        "uid": Column.uid("the first call", drop_priority=1),
    },
)


By = Literal["instance", "class"]
Sort = Literal["model", "time"]

WHOLE = "(all GPU events)"
PASSES = ("forward", "backward", "optimizer")
"""What GPU time is separated by, in columns of this order."""

_LONGEST_PATH = 4096
"""Characters of a path; without a limit deep trees of long names would take memory beyond all measure."""


def modules(
    g: Core | Window,
    by: By = "instance",
    depth: int | None = None,
    sort: Sort = "model",
    linked_only: bool = False,
    min_percent: float = 0.0,
) -> Table:
    """GPU time of every nn.Module in the module tree, in the order in which the tree is drawn.

    Times are sums of the durations of GPU events, each event in exactly one place. A module's time is that of the
    modules in it plus `Non-nn.Module GPU Ops`, and the first line, the sum over all GPU events, is that of the
    lines below it, exactly (in ns). What belongs to which module, `analyses.places.attribution` says; `attribution` by
    module goes by the same rule. In no module are the optimizer, which has a line of its own, losses, and accumulation
    of the gradients of parameters.

    Args:
        g: the graph, or a window of it. GPU events and counts are those of the window, the tree is that of the
            trace, so the times of windows that partition the trace add up place by place.
        by: "instance", or "class" to merge what has the same class at the same place (`Linear_3` is a `Linear`).
        depth: levels of modules to list; deeper ones are part of the lines above them.
        sort: "model" for the order of first calls, "time" for the longest first; modules beside each other.
        linked_only: leave out GPU events whose launch is not in the trace.
        min_percent: modules with less than this share of all GPU time are merged into one line per place.

    Returns:
        Columns as in `MODULE_TREE`; no rows without GPU events.

    Raises:
        AnalysisError: `by` or `sort` is none of the above.
    """
    if by not in ("instance", "class") or sort not in ("model", "time"):
        raise AnalysisError(f'by is "instance" or "class", sort is "model" or "time"; not {by!r}, {sort!r}')
    w = window_of(g)
    rows = w.linked_gpu_rows if linked_only else w.gpu_rows
    tree = place_tree(w, by)
    times = _times(w.core, tree, rows)
    lines = list(_lines(tree, times, sort, depth, min_percent)) if len(rows) else []
    found = {name: [line[i] for line in lines] for i, name in enumerate(_Line._fields)}
    passes = {name: np.array(found[name], np.int64) for name in PASSES}
    total = sum(passes.values(), np.zeros(len(lines), np.int64))
    columns: dict[str, np.ndarray | list[Any]] = {
        "path": found["path"],
        "depth": np.array(found["depth"], np.int64),
        "module": found["module"],
        "class": [line.module if line.uid is None else class_of(line.module) for line in lines],
        "instances": np.array(found["instances"], np.int64),
        "calls": np.array(found["calls"], np.int64),
        **{f"{name}_us": time / 1000 for name, time in passes.items()},
        "total_us": total / 1000,
        "percent": 100 * total / max(int(total.max(initial=0)), 1),
        "uid": found["uid"],
    }
    what = f"{w.framework.module} {by}" if w.framework.modules == "modules" else w.framework.module
    title = f"GPU time by {what}" + (", GPU events with a launch in the trace" if linked_only else "")
    notes = [*unlinked_notes(w, linked_only), *_unknown_notes(w.core, rows)]
    notes += _notes(w.core, tree, times, depth, len(rows))
    if w.framework.no_backward and not len(tree.frames):
        notes += passes_by_name(w.core, rows)
    return MODULE_TREE.table(columns, w.titled(title), notes)


def module_times(g: Core | Window) -> Table:
    """GPU time of every nn.Module, one row per module in the order of the module tree, with its own part of it.

    Rows are those of `modules` without the lines that only explain others: a module's own time stands in `own_us`, and
    adds up over all rows.
    """
    w = window_of(g)
    tree = modules(w)
    shown = tree.take(np.array([at for at, (depth, uid) in enumerate(zip(tree["depth"], tree["uid"], strict=True))
                                if depth == 1 or (depth and uid is not None)], np.int64))  # fmt: skip
    own = np.rint(np.asarray(shown["total_us"]) * 1000)
    last_at: dict[int, int] = {}
    for at, depth in enumerate(shown["depth"]):
        if depth > 1 and (above := last_at.get(depth - 1)) is not None:
            own[above] -= round(shown["total_us"][at] * 1000)
        last_at[depth] = at
    columns = {"module_path": shown["path"], **shown.columns, "own_us": own / 1000}
    title = w.titled(f"GPU time by {w.framework.module}")
    return MODULES.table({name: columns[name] for name in MODULES}, title)


@dataclass(frozen=True)
class PlaceTree:
    """Module calls and the places they have in the module tree; a place is numbered after those above it.

    Attributes:
        frames: rows of module calls, ascending.
        place: place of each call.
        above: place above each place, -1 at the top.
        depth: of each place, 1 at the top.
        name: of each place.
        first: row of the first call of each place.
        start: start of that call, ns.
        uid: uid of the first call of those in the window, if there are any.
        instances, calls: in the window.
        outside: what the work of no module in a module is called.
    """

    frames: np.ndarray
    place: np.ndarray
    above: np.ndarray
    depth: np.ndarray
    name: list[str]
    first: np.ndarray
    start: np.ndarray
    uid: np.ndarray
    instances: np.ndarray
    calls: np.ndarray
    outside: str = PYTORCH.outside_modules


@dataclass(frozen=True)
class _Times:
    """GPU time in ns by pass: of each place, then of what is in no module, of optimizers, of what has no launch.

    Attributes:
        own: time outside of the modules inside.
        total: time.
        own_events, events: numbers of GPU events in these.
    """

    own: np.ndarray
    total: np.ndarray
    own_events: np.ndarray
    events: np.ndarray


class _Line(NamedTuple):
    depth: int
    path: str
    module: str
    instances: int
    calls: int
    forward: int
    backward: int
    optimizer: int
    uid: int | None

    @property
    def total(self) -> int:
        return self.forward + self.backward + self.optimizer


def place_tree(w: Window, by: By = "instance") -> PlaceTree:
    """The tree of modules of a trace, with what the window holds of it."""
    core, c = w.core, w.core.columns
    frames = module_calls(core)
    codes, code = np.unique(c.name[frames], return_inverse=True)
    known: dict[str, int] = {}
    plain = (core.names[name].removeprefix("nn.Module: ") for name in codes.tolist())
    label = np.array([known.setdefault(class_of(n) if by == "class" else n, len(known)) for n in plain], np.int64)[code]
    place, above, depth, place_label = _places(frames_above(core, frames), label)
    held = w.holds(frames)
    order = np.lexsort((frames, c.start_ns[frames]))
    first = frames[order[np.unique(place[order], return_index=True)[1]]]
    # Calls in the window come to stand first; as the sort is stable, both parts stay by start.
    order = order[np.argsort(~held[order], kind="stable")]
    shown = frames[order[np.unique(place[order], return_index=True)[1]]]
    instances = np.unique(place[held] * len(codes) + code[held]) // max(len(codes), 1)
    names = list(known)
    return PlaceTree(
        frames, place, above, depth, [names[i] for i in place_label.tolist()], first, c.start_ns[first], c.uid[shown],
        np.bincount(instances, minlength=len(above)), np.bincount(place[held], minlength=len(above)),
        core.framework.outside_modules,
    )  # fmt: skip


def _places(above: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Merge calls of equal labels under the same place, level by level from the top.

    Returns:
        The place of each call; of each place the one above, the depth and the label.
    """
    level = (above >= 0).astype(np.int64)
    jump = above.copy()
    # Every jump leads twice as far as in the round before, so that deep trees take few rounds.
    while len(climbing := np.flatnonzero(jump >= 0)):
        level[climbing] += level[jump[climbing]]
        jump[climbing] = jump[jump[climbing]]
    order = np.argsort(level, kind="stable")
    labels = int(label.max(initial=0)) + 1
    place = np.full(len(above), -1, np.int64)
    found: list[np.ndarray] = [np.zeros(0, np.int64)]
    count = 0
    edges = np.flatnonzero(np.diff(level[order])) + 1
    for calls in np.split(order, edges):
        over = np.where(above[calls] >= 0, place[above[calls]], -1)
        keys, back = np.unique((over + 1) * labels + label[calls], return_inverse=True)
        place[calls] = count + back
        count += len(keys)
        found.append(keys)
    depth = np.repeat(np.arange(len(found)), [len(keys) for keys in found])
    keys = np.concatenate(found)
    return place, keys // labels - 1, depth, keys % labels


def _times(core: Core, tree: PlaceTree, rows: np.ndarray) -> _Times:
    places = len(tree.above)
    frame, backward = charged(core, tree.frames, rows)
    linked = core.columns.parent[rows] >= 0
    optimizer = (frame < 0) & linked & of_optimizer(core, rows)
    slot = places + np.where(optimizer, 1, np.where(linked, 0, 2))
    slot[frame >= 0] = tree.place[frame[frame >= 0]]
    which = np.where(optimizer, PASSES.index("optimizer"), backward)
    kinds, slots = len(PASSES), places + 3
    own = sum_by_group(kinds * slot + which, core.columns.dur_ns[rows], kinds * slots).reshape(-1, kinds)
    own_events = np.bincount(slot, minlength=slots)
    total, events = own.copy(), own_events.copy()
    for level in range(int(tree.depth.max(initial=0)), 1, -1):
        low, high = np.searchsorted(tree.depth, (level, level + 1))
        np.add.at(total, tree.above[low:high], total[low:high])
        np.add.at(events, tree.above[low:high], events[low:high])
    return _Times(own, total, own_events, events)


def _lines(tree: PlaceTree, times: _Times, sort: Sort, depth: int | None, min_percent: float) -> Iterator[_Line]:
    """The tree in pre-order, under a line for the whole."""
    outside, optimizer, no_launch = range(len(tree.above), len(tree.above) + 3)
    whole, total = times.own.sum(axis=0), times.total.sum(axis=1)
    limit = min_percent * int(whole.sum()) / 100
    shown = np.flatnonzero(times.events[:outside] > 0)
    by_time = -total[shown] if sort == "time" else np.zeros(len(shown))
    inside: dict[int, list[int]] = defaultdict(list)
    small: dict[int, list[int]] = defaultdict(list)
    above = np.where(tree.above >= 0, tree.above, outside)
    for place in shown[np.lexsort((tree.first[shown], tree.start[shown], by_time))].tolist():
        (inside if total[place] >= limit else small)[int(above[place])].append(place)

    def line(level: int, path: str, name: str, sums: np.ndarray, counted: list[int], uid: int | None = None) -> _Line:
        instances, calls = int(tree.instances[counted].sum()), int(tree.calls[counted].sum())
        forward, backward, optimizer = sums.tolist()
        return _Line(level, path, name, instances, calls, forward, backward, optimizer, uid)

    def others(place: int, level: int, path: str) -> Iterator[_Line]:
        if rest := small[place]:
            name = f"({len(rest):,} below {min_percent:g} %)"
            yield line(level, path_of(path, name), name, times.total[rest].sum(axis=0), rest)
        if times.own_events[place] and (place == outside or inside[place] or rest):
            yield line(level, path_of(path, tree.outside), tree.outside, times.own[place], [])

    yield line(0, "", WHOLE, whole, [])
    if depth == 0:
        return
    waiting = [(iter(inside[outside]), outside, "")]
    while waiting:
        siblings, parent, path = waiting[-1]
        level = len(waiting)
        place = next(siblings, None)
        if place is None:
            waiting.pop()
            yield from others(parent, level, path)
            continue
        here = path_of(path, tree.name[place])
        yield line(level, here, tree.name[place], times.total[place], [place], int(tree.uid[place]))
        if depth is None or level < depth:
            waiting.append((iter(inside[place]), place, here))
    for slot, name in ((optimizer, OPTIMIZER), (no_launch, NO_LAUNCH)):
        if times.own_events[slot]:
            yield line(1, name, name, times.own[slot], [])


def path_of(above: str, name: str) -> str:
    """The path of a place below another one; only its end where it is very long."""
    path = f"{above}/{name}" if above else name
    return path if len(path) <= _LONGEST_PATH else "..." + path[-_LONGEST_PATH:]


def paths_of(tree: PlaceTree) -> list[str]:
    """The path of each place."""
    paths: list[str] = []
    for name, above in zip(tree.name, tree.above.tolist(), strict=True):
        paths.append(path_of(paths[above] if above >= 0 else "", name))
    return paths


def _unknown_notes(core: Core, rows: np.ndarray) -> list[str]:
    """What of a profile of JAX stands as forward work because nothing shows whose it is."""
    c = core.columns
    unknown = rows[(c.kind[rows] == Kind.Kernel) & (c.owner[rows] < 0) & (c.parent[rows] >= 0)]
    ms = int(c.dur_ns[unknown].sum()) / 1e6
    if not core.framework.compiles_programs or not len(unknown):
        return []
    text = "as in command buffers that name no instructions, are of no known pass: they count as forward"
    return [f"{ms:,.3f} ms of kernels, {text}"]


def _notes(core: Core, tree: PlaceTree, times: _Times, depth: int | None, events: int) -> Iterator[str]:
    """What the table leaves out."""
    what = core.framework.modules
    if events and not len(tree.frames):
        has_stacks = is_python(core) and not core.framework.compiles_programs
        instead = "the trace has Python stacks, but no nn.Module frames: `ask python_lines` shows the time by line"
        yield instead if has_stacks else core.framework.no_modules
    busy = times.events[: len(tree.above)] > 0
    if idle := int((~busy & (tree.calls > 0)).sum()):
        yield f"{idle:,} {what} without GPU work are left out"
    if deeper := 0 if depth is None else int((busy & (tree.depth > depth)).sum()):
        yield f"{deeper:,} {what} deeper than {depth} are part of the lines above them"
