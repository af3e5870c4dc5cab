"""GPU time as merged stacks: by module, op, line of Python, or kernel; and host time.

Every GPU event is in exactly one frame of each, so the frames add up to the GPU time to the nanosecond. What no launch
leads to has a frame of its own. Of host time every call counts with what is its own, and with the part of that during
which the GPU was idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.places.attribution import NO_MODULE, OPTIMIZER, charged, of_optimizer
from tracelens_graph.analyses.places.host_times import calls_among, idle_clock, thread_name
from tracelens_graph.analyses.places.modules import PlaceTree, place_tree
from tracelens_graph.analyses.places.python_lines import NO_LINE
from tracelens_graph.analyses.shared.gpu_work import gpu_categories
from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.iterations import Iterations, is_of_server, iterations_of
from tracelens_graph.graph.traversals import climb, subtree_sums
from tracelens_graph.graph.user_code import Code, codes_of, regions_of, shown_frames, user_lines
from tracelens_graph.graph.window import Window, class_of
from tracelens_graph.reports.html.names import Names, category_class, clean
from tracelens_graph.reports.html.shell import Packed
from tracelens_graph.reports.html.timeline import depth_among
from tracelens_graph.schema import HOST_KINDS, Kind
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

MOST_FRAMES = 60_000
"""Frames of a picture; the time of those with less goes to what they are in."""
MOST_STEPS = 100
NO_OP = "(no op)"
OTHERS = "(others)"
"""A frame for those outermost ones that are left out."""

VIEWS = {
    "modules": "module, op, kernel",
    "ops": "op, kernel",
    "python": "line of Python, op, kernel",
    "kernels": "category, kernel, op",
}
"""View of GPU time -> what its frames are, from the outside inwards."""
HOST = "host_time"
"""The view of host time."""
ALL_VIEWS = {**VIEWS, HOST: "host time: line of Python, module, op, call"}
MEASURES = {HOST: "host time"}
"""Views of another time than GPU time, and which."""


class Frames:
    """Frames that grow level by level: a frame is numbered after the one that it is in."""

    def __init__(self) -> None:
        none = np.zeros(0, np.int64)
        self._levels = [(none, none)]
        self._count = 0

    def below(self, at: Codes, *names: Codes) -> Codes:
        """For each frame `at`, -1 for none, the one of a name in it, and so on; the frame itself where a name is -1."""
        found = at.astype(np.int64)
        for name in names:
            if not (new := name >= 0).any():
                continue
            number = int(name.max()) + 1
            # Shifted by one: -1, for no frame around, needs a key, too.
            keys, inverse = distinct((found[new] + 1) * number + name[new])
            found[new] = self._count + inverse
            self._levels.append((keys // number - 1, keys % number))
            self._count += len(keys)
        return found

    def all(self) -> tuple[Codes, Codes]:
        """Of each frame the one that it is in, -1 for the outermost, and the number of its name."""
        parents, names = zip(*self._levels, strict=True)
        return np.concatenate(parents), np.concatenate(names)


def stack_columns(view: str, stacks: Mapping[str, Codes]) -> dict[str, Packed]:
    """The columns of a view of a page: of frames and of parts of their time, by their names; `parent` counts from 1."""
    grows = ("parent", "first", "frame", "place", "uid")
    return {f"{view}.{name}": Packed(values + int(name == "parent"), name in grows) for name, values in stacks.items()}


def summed_parts(part: Codes, number: int, ns: Ns, uid: Rows) -> dict[str, Ns]:
    """Of each part of the time, which GPU events belong to: `ns` and `count` of these, `uid` of the longest of them."""
    longest = np.lexsort((-uid, ns))
    uids = np.zeros(number, np.int64)
    uids[part[longest]] = uid[longest]  # of several the last, which is the longest, stays
    return {"ns": sum_by_group(part, ns, number), "count": np.bincount(part, minlength=number), "uid": uids}


@dataclass(frozen=True)
class Stacks:
    """Merged stacks.

    Attributes:
        parent, name: of each frame the one that it is in, -1 for none, and the number of its name.
        first: where its first GPU event begins, ns.
        frame, step, ns, count, uid: parts of the time: whose own it is, in which step (0 for none), how much, of how
            many GPU events or calls; the uid is that of the longest.
        idle: of host time, during how much of each part the GPU was idle; empty else.
        left_out: number of frames with less time, whose own is that of the frames they are in, or of `OTHERS`.
    """

    parent: Codes
    name: Codes
    first: Ns
    frame: Codes
    step: Codes
    ns: Ns
    count: Codes
    uid: Rows
    idle: Ns
    left_out: int = 0

    def columns(self, view: str) -> dict[str, Packed]:
        """The columns of a page."""
        return stack_columns(view, {name: value for name, value in vars(self).items() if name != "left_out"})


def steps(w: Window) -> tuple[list[str], Codes]:
    """Names of the steps, and for each row of the graph one more than the position of its step, 0 for none.

    Of a server without other steps they are its iterations, or its phases where there are too many of these.
    """
    core, c = w.core, w.core.columns
    of = core.step if not len(w.gpu_rows) else core.step.copy()
    of[w.gpu_rows] = core.gpu_step[w.gpu_rows]
    events = w.gpu_rows if len(w.gpu_rows) else w.rows_of_kind(*HOST_KINDS)
    rows = np.unique(of[events][of[events] >= 0])
    if not len(rows) and is_of_server(core):
        return _iterations(core, events)
    if len(rows) > MOST_STEPS:
        return [], np.zeros(len(of), np.int64)
    rows = rows[np.argsort(c.start_ns[rows], kind="stable")]
    place = np.zeros(len(c) + 1, np.int64)
    place[rows] = np.arange(1, len(rows) + 1)
    return [clean(core.names[code], 60) for code in c.name[rows].tolist()], place[of]


def _iterations(core: Core, events: Rows) -> tuple[list[str], Codes]:
    found = iterations_of(core)
    numbers = np.unique(found.of[events][found.of[events] >= 0])
    if len(numbers) < 2:
        return [], np.zeros(len(found.of), np.int64)
    place = np.zeros(len(found) + 1, np.int64)
    if len(numbers) <= MOST_STEPS:
        place[numbers] = np.arange(1, len(numbers) + 1)
        return [iteration_name(found, number) for number in numbers.tolist()], place[found.of]
    phases, at = np.unique(found.phases[numbers], return_inverse=True)
    place[numbers] = at + 1
    return [f"all {phase} iterations" for phase in phases.tolist()], place[found.of]


def iteration_name(found: Iterations, number: int) -> str:
    """What people read of an iteration: `17: decode, 12 requests`."""
    batch = found.batches[number]
    return f"{number}: {batch.phase}" + (f", {batch.size:,} requests" if batch.size else "")


def views_of(w: Window) -> list[str]:
    """The views that a window has something for: of GPU time where there are GPU events, of host time with calls."""
    return [*(VIEWS if len(w.gpu_rows) else ()), *([HOST] if len(w.rows_of_kind(*HOST_KINDS)) else ())]


def stacks(w: Window, names: Names, views: Iterable[str] | None = None, most: int = MOST_FRAMES) -> dict[str, Stacks]:
    """The stacks of views.

    Args:
        views: some of `ALL_VIEWS`; None for `views_of` the window.
        most: frames of each, those with most time.
    """
    gpu, step = w.gpu_rows, steps(w)[1]
    kernel, op = names.of_rows(gpu), _ops(w, names)
    found = {}
    for view in views_of(w) if views is None else views:
        frames = Frames()
        if view == HOST:
            rows, at, *times = _host(w, frames, names)
        else:
            rows, at, times = gpu, _GROWN[view](w, frames, names, op, kernel), [w.core.columns.dur_ns[gpu]]
        found[view] = _summed(w, frames, rows, at, times, step[rows], most, names)
    return found


def _host(w: Window, frames: Frames, names: Names) -> tuple[Rows, Codes, Ns, *tuple[Ns, ...]]:
    """Calls of the host, the frame of each, its own time, and for how long of that the GPU was idle.

    Callers from outside of the window are frames without time of their own.
    """
    core, c = w.core, w.core.columns
    calls = calls_among(core, is_kind(c.kind, (Kind.Module, Kind.Op, Kind.RuntimeCall)) | shown_frames(w))
    inside = w.holds(calls.rows)
    running = np.concatenate(([0], np.cumsum(inside)))
    leads = running[calls.last.astype(np.int64) + 1] > running[:-1]
    node = np.full(len(calls.rows) + 1, -1, np.int64)
    name = names.of_rows(calls.rows)
    is_module = np.flatnonzero(c.kind[calls.rows] == Kind.Module)
    codes, code = distinct(c.name[calls.rows[is_module]])  # layers that are alike are one frame
    name[is_module] = names.add_each((clean(class_of(core.names[one])), "module") for one in codes.tolist())[code]
    if len(threads := np.unique(c.thread[calls.rows[inside]])) > 1:
        outermost = np.full(len(core.threads), -1, np.int64)
        outermost[threads] = frames.below(
            np.full(len(threads), -1), names.add_each((thread_name(core, one), "none") for one in threads.tolist())
        )
        node[:-1] = outermost[c.thread[calls.rows]]
    drawn = np.flatnonzero(leads)
    by_depth = drawn[np.argsort(calls.depth[drawn], kind="stable")]
    edges = np.flatnonzero(np.diff(calls.depth[by_depth], prepend=-1, append=-1)).tolist()
    for low, high in pairwise(edges):
        at = by_depth[low:high]
        node[at] = frames.below(node[calls.parent[at]] if low else node[at], name[at])
    clock = idle_clock(w)
    idle = [] if clock is None else [calls.own(clock)[inside]]
    return calls.rows[inside], node[:-1][inside], calls.own()[inside], *idle


def _ops(w: Window, names: Names) -> Codes:
    """For each GPU event the number of the name of the op that it is charged to, or of what stands for none."""
    c, gpu = w.core.columns, w.gpu_rows
    owner = c.owner[gpu]
    found = np.where(c.parent[gpu] >= 0, names.add(NO_OP, "none"), names.add(NO_LAUNCH, "none"))
    found[owner >= 0] = names.of_rows(owner[owner >= 0])
    return found


def _by_kernel(w: Window, frames: Frames, names: Names, op: Codes, kernel: Codes) -> Codes:
    c, gpu = w.core.columns, w.gpu_rows
    kinds, (labels, code) = c.kind[gpu], gpu_categories(w)
    category = names.add_each([(clean(one), category_class(one)) for one in labels])[code[gpu]]
    category[kinds == Kind.Memcpy] = names.add("Copies", "copy")
    category[kinds == Kind.Memset] = names.add("Fills", "copy")
    return frames.below(np.full(len(gpu), -1), category, kernel, op)


def _by_op(w: Window, frames: Frames, names: Names, op: Codes, kernel: Codes) -> Codes:
    c = w.core.columns
    kept = c.kind == Kind.Op
    at = _along(w, frames, names, kept, climb(c.parent, c.parent[w.gpu_rows], kept))
    return frames.below(at, np.where(at < 0, op, -1), kernel)


def _by_line(w: Window, frames: Frames, names: Names, op: Codes, kernel: Codes) -> Codes:
    c, gpu = w.core.columns, w.gpu_rows
    kept = shown_frames(w)
    nearest = climb(c.parent, c.parent[gpu], kept)
    at = _along(w, frames, names, kept, np.where(nearest >= 0, nearest, user_lines(w, gpu)))
    lost = np.where(c.parent[gpu] >= 0, names.add(NO_LINE, "none"), names.add(NO_LAUNCH, "none"))
    return frames.below(at, np.where(at < 0, lost, -1), np.where(c.parent[gpu] >= 0, op, -1), kernel)


def _by_module(w: Window, frames: Frames, names: Names, op: Codes, kernel: Codes) -> Codes:
    core, c, gpu = w.core, w.core.columns, w.gpu_rows
    tree = place_tree(w)
    call, is_backward = charged(core, tree.frames, gpu)
    linked = c.parent[gpu] >= 0
    none = np.where(linked, names.add(NO_MODULE, "none"), names.add(NO_LAUNCH, "none"))
    none = np.where(linked & of_optimizer(core, gpu), names.add(OPTIMIZER, "optimizer"), none)
    passes = np.where(is_backward, names.add("backward", "backward"), names.add("forward", "forward"))
    at = frames.below(np.full(len(gpu), -1), np.where(call >= 0, passes, none))
    inside = np.flatnonzero(call >= 0)
    if len(inside):
        label = names.add_each((clean(name), "module") for name in tree.name)
        of_pass, place = is_backward[inside].astype(np.int64), tree.place[call[inside]]
        outermost = np.full(2, -1, np.int64)
        outermost[of_pass] = at[inside]
        at[inside] = _of_places(frames, tree, label, of_pass, place, outermost)[of_pass, place]
    return frames.below(at, np.where(linked, op, -1), kernel)


def _of_places(frames: Frames, tree: PlaceTree, label: Codes, of_pass: Codes, place: Codes, outermost: Codes) -> Codes:
    """The frame of each place of the tree of modules in either pass, -1 where nothing is in it.

    Args:
        frames: to which they are added, level by level.
        tree: places are numbered by depth.
        label: number of the name of each place.
        of_pass, place: of GPU events, 0 for forward, 1 for backward.
        outermost: the frames of the two passes.
    """
    has = np.zeros((2, len(tree.above)), bool)
    has[of_pass, place] = True
    edges = np.flatnonzero(np.diff(tree.depth, prepend=-1, append=-1)).tolist()
    levels = list(pairwise(edges))
    # From the deepest level up, so that each is complete before it is passed on; nothing is above the outermost.
    for low, high in levels[:0:-1]:
        which, of = np.nonzero(has[:, low:high])
        has[which, tree.above[of + low]] = True
    found = np.full((2, len(tree.above) + 1), -1, np.int64)
    found[:, -1] = outermost  # of what has no place above
    for low, high in levels:
        which, of = np.nonzero(has[:, low:high])
        of += low
        found[which, of] = frames.below(found[which, tree.above[of]], label[of])
    return found


def _along(w: Window, frames: Frames, names: Names, kept: Mask, place: Rows) -> Codes:
    """For each GPU event the frame of the kept call that it comes from, -1 for none.

    Args:
        frames: to which the calls are added, merged by name.
        names: names of rows.
        kept: for each row of the graph whether it is a frame.
        place: of each GPU event the row of that call, -1 for none.
    """
    c = w.core.columns
    is_place = np.zeros(len(c), np.int64)
    is_place[place[place >= 0]] = 1
    kept = kept & (subtree_sums(c, is_place) > 0)
    rows = np.flatnonzero(kept)
    depth = depth_among(c, rows)
    above = climb(c.parent, c.parent[rows], kept)
    node = np.full(len(c) + 1, -1, np.int64)
    name = names.of_rows(rows)
    if len(compiled := np.flatnonzero(codes_of(w.core)[rows] == Code.compiled)) and not w.all_frames:
        name[compiled] = names.add_each((clean(one), "python") for one in regions_of(w.core, rows[compiled]))
    by_depth = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[by_depth], np.arange(int(depth.max(initial=-1)) + 2))
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        level = by_depth[low:high]
        node[rows[level]] = frames.below(node[above[level]], name[level])
    return node[place]


_GROWN = {"modules": _by_module, "ops": _by_op, "python": _by_line, "kernels": _by_kernel}


def _summed(
    w: Window, frames: Frames, rows: Rows, at: Codes, times: Sequence[Ns], step: Codes, most: int, names: Names
) -> Stacks:
    """Stacks of events whose frames, times and steps are known."""
    c, (ns, *idle) = w.core.columns, times
    parent, name = frames.all()
    left_out = max(len(parent) - most, 0)
    if left_out:
        parent, name, at = _fewer(parent, name, at, ns, most, names.add(OTHERS, "none"))
    earliest = np.full(len(parent), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(earliest, at, c.start_ns[rows])
    first = earliest.tolist()
    for frame, above in _inner_first(parent):
        if first[frame] < first[above]:
            first[above] = first[frame]
    all_steps = int(step.max(initial=0)) + 1
    keys, part = distinct(at * all_steps + step)
    sums = summed_parts(part, len(keys), ns, c.uid[rows])
    of_idle = sum_by_group(part, idle[0], len(keys)) if idle else ns[:0]
    first_ns = np.array(first, np.int64)
    return Stacks(parent, name, first_ns, keys // all_steps, keys % all_steps, **sums, idle=of_idle, left_out=left_out)


def _inner_first(parent: Codes) -> Iterator[tuple[int, int]]:
    """Frames that are in another, each before the one that it is in; and that one."""
    above = parent.tolist()
    return ((frame, above[frame]) for frame in range(len(above) - 1, -1, -1) if above[frame] >= 0)


def _fewer(parent: Codes, name: Codes, at: Codes, dur: Ns, most: int, others: int) -> tuple[Codes, Codes, Codes]:
    """The frames with most time, and for each GPU event the nearest of them; one named `others` where there is none."""
    value = np.bincount(at, dur, minlength=len(parent)).astype(np.int64)
    for frame, above in _inner_first(parent):
        value[above] += value[frame]
    kept = np.zeros(len(parent), bool)
    # Of equals what is outside comes first, so that whatever is kept is in something that is kept.
    kept[np.lexsort((np.arange(len(parent)), -value))[:most]] = True
    number = np.append(np.cumsum(kept) - 1, most)
    nearest = [*range(len(parent)), len(parent)]  # the last one is that of the others
    for frame in np.flatnonzero(~kept).tolist():  # what it is in has a smaller number
        nearest[frame] = nearest[parent[frame]]
    around, called = parent[kept], name[kept]
    if not kept[parent < 0].all():
        around, called = np.append(around, -1), np.append(called, others)
    return np.where(around >= 0, number[around], -1), called, number[np.array(nearest)[at]]
