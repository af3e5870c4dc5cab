"""Two traces side by side by structure: where their call trees part, and what each difference costs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.alignment.align import Alignment, align
from tracelens_graph.analyses.alignment.cause_words import called, elements
from tracelens_graph.analyses.alignment.divergence_points import Point
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.host_work import comparable
from tracelens_graph.analyses.alignment.matches import Matches, matches_of
from tracelens_graph.analyses.alignment.repetitions import REPETITION, one_repetition
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.places.attribution import charged, frames_above, module_calls
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.window import Window, narrow, step_number, whole_window, window_of
from tracelens_graph.schema import Kind

_IN_STEPS = 0.5
"""Share of a window's GPU time that must lie in its steps, so that one of them stands for it."""


def median_steps(a: Window, b: Window) -> tuple[Window, Window]:
    """Of each window the step of median GPU time; the windows as they are where one has no steps with its GPU work.

    Of two ranks of one job, numbered alike, it is the same step. Without launches most GPU work may lie in no step:
    then one step of it is not what another trace does in one. Of servers it is as many iterations of each, of one phase
    and of equal sizes; of a program that one repeats without steps one repetition. The titles of the windows show which
    these are, and of how many.
    """
    times = [steps_with_work(window) for window in (a, b)]
    has_steps = [*map(_are_of_most_work, (a, b), times)]
    if not all(has_steps):
        if is_of_server(a.core) and is_of_server(b.core):
            return _equal_iterations(a, b)
        steps = [
            (_median(window, time), len(time)) if has else None
            for window, time, has in zip((a, b), times, has_steps, strict=True)
        ]
        return one_repetition((a, b), steps)
    if _are_ranks_of_one_job(a.core, b.core) and (shared := times[0].keys() & times[1].keys()):
        number = _median_of({number: times[0][number] for number in shared})
        first, second = (narrow(window, step=number) for window in (a, b))
        return first, second
    first, second = (_median(window, time) for window, time in zip((a, b), times, strict=True))
    return first, second


def _are_ranks_of_one_job(a: Core, b: Core) -> bool:
    ranks = {(core.info.rank, core.info.world_size) for core in (a, b)}
    return len(ranks) == 2 and len({size for _, size in ranks}) == 1 and all(rank is not None for rank, _ in ranks)


def _equal_iterations(a: Window, b: Window) -> tuple[Window, Window]:
    """Iterations of two servers, of one phase and size."""
    from tracelens_graph.analyses.serving.compared import equal_iterations

    return equal_iterations(a, b)


def _are_of_most_work(w: Window, time_of: dict[int, int]) -> bool:
    return bool(time_of) and sum(time_of.values()) >= _IN_STEPS * int(w.core.columns.dur_ns[w.gpu_rows].sum())


def steps_with_work(w: Window) -> dict[int, int]:
    """GPU time of each step of a window that has any, in ns, in the order of the steps."""
    core, c = w.core, w.core.columns
    steps = w.rows_of_kind(Kind.Step)
    gpu = w.gpu_rows
    ns = np.zeros(len(c) + 1, np.int64)
    np.add.at(ns, core.gpu_step[gpu], c.dur_ns[gpu])
    time_of: dict[int, int] = {}
    for row in steps.tolist():
        number = step_number(core.names[c.name[row]])
        if number is not None and ns[row]:
            time_of[number] = time_of.get(number, 0) + int(ns[row])
    return time_of


def _median(w: Window, time_of: dict[int, int]) -> Window:
    step = narrow(w, step=_median_of(time_of))
    if len(time_of) == 1:
        return step
    return step.retitled(f"{step.title}, of median GPU time of {len(time_of):,} steps")


def _median_of(time_of: dict[int, int]) -> int:
    ordered = sorted(time_of, key=lambda number: (time_of[number], number))
    return ordered[(len(ordered) - 1) // 2]


def choice_note(*steps: Window) -> str:
    """Which steps `median_steps` chose, from windows that it gave, and how to choose others."""
    if any(REPETITION in step.title for step in steps):
        return "The program is repeated in one of the two, and one repetition compared: --from 0ms takes all."
    if steps[0].all_iterations is not None:
        chosen, others = "Steps of equal phase and size are", "--iteration N takes others, --phase P all of one phase"
    else:
        if all(len(steps_with_work(whole_window(one.core))) < 2 for one in steps):
            return "The step of each is compared: --from 0ms takes all that was recorded."
        chosen, others = "One step of each is", "--step N takes another"
    return f"{chosen} compared: {others}, --from 0ms all."


OUTSIDE_OF_OPS = "(outside of ops)"
_MODULE, AUTOGRAD = "nn.Module: ", "autograd::engine::evaluate_function: "
BUILT_IN = re.compile(r"<built-in (?:method|function) (\S+?)[ >]")
_NAMES = 3
"""Names of ops of one place that are listed."""
_LONGEST_PATH = 128
"""Modules around a leaf that are kept, the innermost: memory for all of them grows with the square of the depth."""


@dataclass(frozen=True)
class Place:
    """Points at the same place of the program, such as one op of all equal layers.

    Attributes:
        modules: the classes of the modules around all of it, the outermost first; of the side that knows more of them.
        is_backward: whether it is backward work of the innermost of these.
        names: what is called there, on both sides; ops, or short names of what was launched without one.
        points: the points.
        ns: sums of the durations of GPU events on both sides.
        kernels: on both sides the names of GPU events, with how many and how long.
        whole_modules: how many of each class, at least, one side has and the other has not; 0 where it is other work.
    """

    modules: tuple[str, ...]
    is_backward: bool
    names: tuple[str, str]
    points: Sequence[Point]
    ns: tuple[int, int]
    kernels: tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]
    whole_modules: int = 0

    @property
    def times(self) -> int:
        """How often the program comes there: neighbours that one side alone has are one point."""
        return self.whole_modules or len(self.points)

    @property
    def change_ns(self) -> int:
        """How much more time the second side takes."""
        return self.ns[1] - self.ns[0]

    @property
    def is_alike(self) -> bool:
        """Whether both sides run kernels of the same names, in the same calls, there."""
        return (
            not self.points[0].is_moved and self.names[0] == self.names[1] and {*self.kernels[0]} == {*self.kernels[1]}
        )

    def leaves(self, side: int) -> list[int]:
        """Leaves of all points on one side, point after point."""
        return [leaf for point in self.points for leaf in point.leaves[side]]

    def events(self, side: int) -> int:
        """Number of GPU events of one side."""
        return sum(count for count, _ in self.kernels[side].values())


def _rank(place: Place) -> tuple[object, ...]:
    """The largest change first, of equal ones what runs other work."""
    return -abs(place.change_ns), place.is_alike, -max(place.ns), place.modules, sorted(place.names)


class Diff:
    """Two windows, aligned.

    Attributes:
        a, b: the windows.
        names: what to call them.
    """

    def __init__(self, a: Window, b: Window, names: tuple[str, str] = ("A", "B")) -> None:
        self.a, self.b, self.names = a, b, names

    def called(self, names: tuple[str, str]) -> Diff:
        """The same under other names."""
        found = Diff(self.a, self.b, names)
        found.__dict__ |= {name: getattr(self, name) for name in ("alignment", "places", "matches")}
        return found

    @cached_property
    def alignment(self) -> Alignment:
        """Which GPU work of one is which of the other."""
        return align(self.a, self.b)

    @property
    def ns(self) -> tuple[int, int]:
        """Sums of the durations of all GPU events, of both."""
        first, second = (int(side.ns.sum()) for side in self.alignment.sides)
        return first, second

    @property
    def change_ns(self) -> int:
        """How much more GPU time the second side takes."""
        return self.ns[1] - self.ns[0]

    @cached_property
    def places(self) -> list[Place]:
        """Where they differ, the largest change first."""
        alignment = self.alignment
        contexts = [_Contexts(side) for side in alignment.sides]
        groups: dict[tuple[_Context, _Context, bool, bool], list[Point]] = {}
        for point in alignment.points:
            is_whole = not all(point.leaves) or point.is_moved or point.is_replaced
            kinds = (Kind.Module,) if point.is_replaced else (Kind.Module, Kind.Op) if is_whole else ()
            first, second = (contexts[k].of(point.container[k], point.leaves[k], kinds) for k in range(2))
            if point.is_moved:  # what moved with it goes without saying
                first, second = (replace(context, names=context.names[:1]) for context in (first, second))
            if (first.kernel or second.kernel) and (first.is_op or second.is_op):
                first, second = (replace(context, kernel="") for context in (first, second))
            groups.setdefault((first, second, point.is_moved, point.is_replaced), []).append(point)
        found = [self._place(points, (one, other), contexts) for (one, other, *_), points in groups.items()]
        return sorted(found, key=_rank)

    def _place(self, points: list[Point], where: tuple[_Context, _Context], contexts: list[_Contexts]) -> Place:
        one, other = where
        first, second = (
            kernels_of(side, [leaf for point in points for leaf in point.leaves[k]])
            for k, side in enumerate(self.alignment.sides)
        )
        ns = sum(point.ns[0] for point in points), sum(point.ns[1] for point in points)
        fuller = max(where, key=lambda context: (len(context.modules), context.modules))
        # A module is missing only where the other side has nothing in its place.
        only = 1 if not one.names else 0 if not other.names else None
        modules = contexts[only].modules(points, only) if only is not None and where[only].is_module else 0
        names = _listed(one.names), _listed(other.names)
        return Place(fuller.modules, fuller.is_backward, names, points, ns, (first, second), modules)

    @cached_property
    def matches(self) -> Matches:
        """Which rows of the two graphs belong together."""
        found = self.alignment
        return matches_of(found.sides, (found.nodes[0], found.node_kinds[0]), (found.leaves[0], found.leaf_kinds[0]))

    def match(self, node: Node) -> Node | None:
        """The node of the other side that a node of either belongs to, the first of several; None without one.

        Raises:
            AnalysisError: it is a node of neither graph.
        """
        windows = self.a, self.b
        sides = [side for side, window in enumerate(windows) if getattr(node, "graph", None) is window.core]
        if not sides:
            raise AnalysisError(f"{node!r} is a node of neither graph")
        for side in sides:
            if (row := self.matches.partner(side, node.row)) >= 0:
                return Node(windows[1 - side].core, row)
        return None


def diff(a: Core | Window, b: Core | Window, names: tuple[str, str] = ("A", "B")) -> Diff:
    """Compare two graphs, or windows of them, by structure.

    Args:
        a, b: what is compared.
        names: what to call them.

    Raises:
        AnalysisError: one of them holds neither GPU work nor ops.
    """
    first, second = comparable(window_of(a), window_of(b))
    return Diff(first, second, names)


@dataclass(frozen=True)
class _Context:
    """Where the leaves of one point stand in the program of one side.

    Attributes:
        modules: classes of the modules around all of them, the outermost first; only the innermost of very many.
        is_backward: whether they are backward work of the innermost of these.
        names: what is called there.
        is_module: whether these are modules.
        is_op: whether the first is an op.
        kernel: where it is no op, the first kernel: nothing else says what is called there.
        sizes: types and numbers of elements of the arguments of the first.
    """

    modules: tuple[str, ...] = ()
    is_backward: bool = False
    names: tuple[str, ...] = ()
    is_module: bool = False
    is_op: bool = False
    kernel: str = ""
    sizes: tuple[object, ...] = ()


class _Contexts:
    """Where the leaves of one side stand in the program."""

    def __init__(self, side: Forest) -> None:
        self._side = side
        core = side.window.core
        frames = module_calls(core)
        self._frames, self._above = frames, frames_above(core, frames)
        first = side.events[side.first_event[:-1]]
        self._module, self._backward = charged(core, frames, first)
        self._paths: dict[int, tuple[str, ...]] = {-1: ()}
        self._elements: dict[int, tuple[object, ...]] = {}
        self._names: dict[tuple[int, int], str] = {}
        # Most points hold one leaf: what their contexts differ in, as plain lists.
        c, row = core.columns, np.maximum(side.row, 0)
        known = side.row >= 0
        self._called = np.where(known, c.name[row].astype(np.int64) * len(Kind) + c.kind[row], -1).tolist()
        self._argset = np.where(known, c.argset[row], -1).tolist()
        name = c.name[first].astype(np.int64)
        if side.captured:
            name = np.where(np.isin(first, [*side.captured]), len(core.names) + first, name)
        self._event = np.where(side.is_op[side.leaf_parent], -1, name).tolist()
        self._leaf_parent, self._is_op = side.leaf_parent.tolist(), side.is_op.tolist()
        self._module_of, self._is_backward = self._module.tolist(), self._backward.tolist()
        self._single: dict[tuple[object, ...], _Context] = {}

    def of(self, container: int, leaves: list[int], whole: tuple[Kind, ...]) -> _Context:
        """Where some leaves of one point stand.

        Args:
            container: the node that is matched around them, -1 without one.
            leaves: ascending.
            whole: kinds of calls that may stand for all in them: where the other side has none, or has them elsewhere.
        """
        if not leaves:
            return _Context()
        if len(leaves) > 1 or whole:
            return self._of(container, leaves, whole)
        leaf = leaves[0]
        parent = self._leaf_parent[leaf]
        node = container if container >= 0 and self._is_op[container] else parent
        if self._called[node] < 0:
            return self._of(container, leaves, whole)
        event = self._event[leaf] if node == parent and not self._is_op[node] else -1
        path = self._path(self._module_of[leaf])
        key = (self._called[node], self._argset[parent], path, self._is_backward[leaf], event)
        if key not in self._single:
            self._single[key] = self._of(container, leaves, whole)
        return self._single[key]

    def _of(self, container: int, leaves: list[int], whole: tuple[Kind, ...]) -> _Context:
        side = self._side
        if container >= 0 and side.is_op[container]:
            nodes = [container]
        elif whole:
            nodes = highest(side, leaves, whole)
        else:
            nodes = side.leaf_parent[leaves].tolist()
        names = tuple(dict.fromkeys(map(self._name, nodes)))
        kinds = set(map(self._kind, nodes))
        is_module = kinds == {Kind.Module}
        is_backward = bool(self._backward[leaves[0]])
        paths = {self._path(module) for module in set(self._module[leaves].tolist())}
        if is_backward and len(paths) > 1:
            paths.discard(())  # gradients are summed up outside of all modules
        modules = _common_start(paths)
        own = names[0].removeprefix(_MODULE)
        if is_module and len(names) == 1 and own in modules:
            modules = modules[: len(modules) - 1 - modules[::-1].index(own)]
        kernel = ""
        if len(nodes) == 1 and (kinds <= {Kind.PythonFunction, Kind.RuntimeCall} or names == (OUTSIDE_OF_OPS,)):
            kernel = called(side.event_name(int(side.events[side.first_event[leaves[0]]])))
        is_op = self._kind(nodes[0]) is Kind.Op
        return _Context(modules, is_backward, names, is_module, is_op, kernel, self.sizes(leaves[0]))

    def modules(self, points: Iterable[Point], k: int) -> int:
        """How many modules of each class, at least, hold the leaves that points have on this side, the k-th."""
        nodes = (node for point in points for node in highest(self._side, point.leaves[k]))
        return min(Counter(map(self._name, nodes)).values())

    def _kind(self, node: int) -> Kind | None:
        row = int(self._side.row[node])
        return Kind(int(self._side.window.core.columns.kind[row])) if row >= 0 else None

    def _name(self, node: int) -> str:
        core, row = self._side.window.core, int(self._side.row[node])
        if row < 0:
            return NO_LAUNCH if node in self._side.lone_roots else OUTSIDE_OF_OPS
        code, kind = int(core.columns.name[row]), int(core.columns.kind[row])
        if (code, kind) not in self._names:
            name = normal_name(Kind(kind), core.names[code])
            built_in = BUILT_IN.match(name)
            self._names[code, kind] = built_in[1] if built_in else name.removeprefix(AUTOGRAD)
        return self._names[code, kind]

    def sizes(self, leaf: int) -> tuple[object, ...]:
        """Types and numbers of elements of the arguments of the op that launched a leaf."""
        core, row = self._side.window.core, int(self._side.row[self._side.leaf_parent[leaf]])
        code = int(core.columns.argset[row]) if row >= 0 else -1
        if code < 0:
            return ()
        if code not in self._elements:
            self._elements[code] = (core.argsets[code][1], elements(core.argsets[code][0]))
        return self._elements[code]

    def _path(self, frame: int) -> tuple[str, ...]:
        way = []
        while frame not in self._paths:
            way.append(frame)
            frame = int(self._above[frame])
        path = self._paths[frame]
        core = self._side.window.core
        for one in reversed(way):
            name = core.names[core.columns.name[self._frames[one]]]
            path = (*path[1 - _LONGEST_PATH :], normal_name(Kind.Module, name).removeprefix(_MODULE))
            self._paths[one] = path
        return path


def highest(side: Forest, leaves: list[int], kinds: tuple[Kind, ...] = (Kind.Module, Kind.Op)) -> list[int]:
    """The highest modules and ops that hold nothing but some of the leaves, or what stands right above them, those
    with the most time first."""
    row, kind = side.row, side.window.core.columns.kind
    run = np.cumsum(np.diff(leaves, prepend=leaves[0]) > 1)
    ends = np.array(leaves)[np.searchsorted(run, run, "right") - 1] + 1
    found: dict[int, int] = {}
    done = -1
    for leaf, end in zip(leaves, ends.tolist(), strict=True):
        if leaf < done:
            continue
        node = best = int(side.leaf_parent[leaf])
        done = leaf + 1
        while row[node] >= 0 and side.low[node] >= leaf and side.high[node] <= end:
            if kind[row[node]] in kinds:
                best, done = node, int(side.high[node])
            node = int(side.parent[node])
        found[best] = found.get(best, 0) - int(side.ns_before[done] - side.ns_before[leaf])
    return sorted(found, key=found.__getitem__)


def _common_start(paths: set[tuple[str, ...]]) -> tuple[str, ...]:
    if len(paths) == 1:
        return next(iter(paths))
    first, last = min(paths), max(paths)
    same = next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)
    return first[: min(len(first), len(last)) if same is None else same]


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def kernels_of(side: Forest, leaves: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Names of the GPU events of some leaves, those with the most time first, with how many and how long."""
    core, c = side.window.core, side.window.core.columns
    rows = side.events_of_all(leaves)
    found: Counter[str] = Counter()
    ns: Counter[str] = Counter()
    if side.captured:
        found.update(side.captured[row] for row in rows.tolist() if row in side.captured)
        ns.update(dict.fromkeys(found, 0))
        rows = rows[~np.isin(rows, [*side.captured])]
    codes, code, counts = np.unique(c.name[rows], return_inverse=True, return_counts=True)
    sums = sum_by_group(code, c.dur_ns[rows], len(codes))
    for name, count, total in zip(codes.tolist(), counts.tolist(), sums.tolist(), strict=True):
        found[core.names[name]] += count
        ns[core.names[name]] += total
    return {name: (found[name], ns[name]) for name in sorted(found, key=lambda name: (-ns[name], name))}
