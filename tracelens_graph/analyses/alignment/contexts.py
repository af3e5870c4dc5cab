"""Where GPU work stands in the program of one side of an alignment: its modules, and what is called there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.alignment.argument_words import elements
from tracelens_graph.analyses.alignment.cause_words import called
from tracelens_graph.analyses.alignment.divergence_points import Point
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.places.attribution import charged, frames_above, module_calls
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.schema import Kind

OUTSIDE_OF_OPS = "(outside of ops)"
MODULE, AUTOGRAD = "nn.Module: ", "autograd::engine::evaluate_function: "
BUILT_IN = re.compile(r"<built-in (?:method|function) (\S+?)[ >]")
_LONGEST_PATH = 128
"""Modules around a leaf that are kept, the innermost: memory for all of them grows with the square of the depth."""


@dataclass(frozen=True)
class Context:
    """Where the leaves of one point stand in the program of one side.

    Attributes:
        modules: classes of the modules around all of them, the outermost first; only the innermost of very many.
        is_backward: whether they are backward work of the innermost of these.
        names: what is called there.
        is_module: whether these are modules.
        is_op: whether the first is an op.
        kernel: where it is not an op, the first kernel: nothing else says what is called there.
        sizes: types and numbers of elements of the arguments of the first.
    """

    modules: tuple[str, ...] = ()
    is_backward: bool = False
    names: tuple[str, ...] = ()
    is_module: bool = False
    is_op: bool = False
    kernel: str = ""
    sizes: tuple[object, ...] = ()


class Contexts:
    """Where the leaves of one side stand in the program.

    Attributes:
        core: its graph.
        frames: rows of module calls.
        above: for each of these the position of the one around it, -1 for none.
        module: for each leaf the position of the module call that it is charged to, -1 for none.
    """

    def __init__(self, side: Forest) -> None:
        self._side, self.core = side, side.window.core
        core = self.core
        self.frames = module_calls(core)
        self.above = frames_above(core, self.frames)
        first = side.events[side.first_event[:-1]]
        self.module, self._backward = charged(core, self.frames, first)
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
        self._module_of, self._is_backward = self.module.tolist(), self._backward.tolist()
        self._single: dict[tuple[object, ...], Context] = {}

    def of(self, container: int, leaves: list[int], whole: tuple[Kind, ...]) -> Context:
        """Where some leaves of one point stand.

        Args:
            container: the node that is matched around them, -1 without one.
            leaves: ascending.
            whole: kinds of calls that may stand for all in them: where the other side has none, or has them elsewhere.
        """
        if not leaves:
            return Context()
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

    def _of(self, container: int, leaves: list[int], whole: tuple[Kind, ...]) -> Context:
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
        paths = {self._path(module) for module in set(self.module[leaves].tolist())}
        if is_backward and len(paths) > 1:
            paths.discard(())  # gradients are summed up outside of all modules
        modules = _common_start(paths)
        own = names[0].removeprefix(MODULE)
        if is_module and len(names) == 1 and own in modules:
            modules = modules[: len(modules) - 1 - modules[::-1].index(own)]
        kernel = ""
        if len(nodes) == 1 and (kinds <= {Kind.PythonFunction, Kind.RuntimeCall} or names == (OUTSIDE_OF_OPS,)):
            kernel = called(side.event_name(int(side.events[side.first_event[leaves[0]]])))
        is_op = self._kind(nodes[0]) is Kind.Op
        return Context(modules, is_backward, names, is_module, is_op, kernel, self.sizes(leaves[0]))

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
            frame = int(self.above[frame])
        path = self._paths[frame]
        core = self._side.window.core
        for one in reversed(way):
            name = core.names[core.columns.name[self.frames[one]]]
            path = (*path[1 - _LONGEST_PATH :], normal_name(Kind.Module, name).removeprefix(MODULE))
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
