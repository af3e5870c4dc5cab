"""Two traces side by side by structure: where their call trees part, and what each difference costs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from tracelens_graph.analyses.alignment.backward import with_forward_matches
from tracelens_graph.analyses.alignment.containers import Containers
from tracelens_graph.analyses.alignment.forest import Forest, Vocabulary, forest
from tracelens_graph.analyses.alignment.leaves import Matching
from tracelens_graph.analyses.alignment.points import Point, points_of
from tracelens_graph.analyses.places.charging import charged, frames_above, module_calls
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind

NO_LAUNCH = "(no launch in trace)"


@dataclass(frozen=True)
class Alignment:
    """Two forests, which of their leaves and nodes belong together, and the points in which they part.

    Attributes:
        sides: the forests.
        leaves: for each leaf of either side its partner on the other, -1 without one.
        nodes: the same for nodes.
        points: where they part; every leaf of either side lies in one.
    """

    sides: tuple[Forest, Forest]
    leaves: tuple[np.ndarray, np.ndarray]
    nodes: tuple[np.ndarray, np.ndarray]
    points: list[Point]

    def mirrored(self) -> Alignment:
        """The same with the sides exchanged."""
        return Alignment(
            self.sides[::-1], self.leaves[::-1], self.nodes[::-1], [point.mirrored() for point in self.points]
        )


def align(a: Window, b: Window) -> Alignment:
    """Align two windows. Exchanging them mirrors the result: inside, their order follows from what is in them."""
    names, arguments = Vocabulary(), Vocabulary()
    first, second = forest(a, names, arguments), forest(b, names, arguments)
    is_swapped = _content(second) < _content(first)
    if is_swapped:
        names, arguments = Vocabulary(), Vocabulary()
        first, second = forest(b, names, arguments), forest(a, names, arguments)
    matching = Matching(first, second)
    containers = Containers(matching)
    if (again := with_forward_matches(first, second, containers, names)) is not None:
        matching = Matching(*again)
        containers = Containers(matching)
    found = Alignment(
        (matching.a, matching.b), (matching.of_a, matching.of_b), (containers.of_a, containers.of_b),
        points_of(matching, containers),
    )  # fmt: skip
    return found.mirrored() if is_swapped else found


def _content(side: Forest) -> tuple[int, int, bytes]:
    return side.leaves, int(side.ns.sum()), side.ns.tobytes()


@dataclass(frozen=True)
class Place:
    """Points at the same place of the program, such as one op of all equal layers.

    Attributes:
        modules: the classes of the modules around it, the outermost first.
        is_backward: whether it is backward work of the innermost of these.
        names: what is called there, on both sides; ops, or short names of what was launched without one.
        points: the points.
        ns: sums of the durations of GPU events on both sides.
        kernels: on both sides the names of GPU events, with how many and how long.
    """

    modules: tuple[str, ...]
    is_backward: bool
    names: tuple[str, str]
    points: Sequence[Point]
    ns: tuple[int, int]
    kernels: tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]

    @property
    def change_ns(self) -> int:
        """How much more time the second side takes."""
        return self.ns[1] - self.ns[0]


class Diff:
    """Two windows, aligned.

    Attributes:
        a, b: the windows.
        names: what to call them.
    """

    def __init__(self, a: Window, b: Window, names: tuple[str, str] = ("A", "B")) -> None:
        self.a, self.b, self.names = a, b, names

    @cached_property
    def alignment(self) -> Alignment:
        """Which GPU work of one is which of the other."""
        return align(self.a, self.b)

    @property
    def ns(self) -> tuple[int, int]:
        """Sums of the durations of all GPU events, of both."""
        first, second = (int(side.ns.sum()) for side in self.alignment.sides)
        return first, second

    @cached_property
    def places(self) -> list[Place]:
        """Where they differ, the largest change first."""
        contexts = tuple(_Contexts(side) for side in self.alignment.sides)
        groups: dict[object, list[Point]] = {}
        about: dict[object, tuple[tuple[str, ...], bool, tuple[str, str]]] = {}
        for point in self.alignment.points:
            side = 0 if point.leaves[0] else 1
            leaf = point.leaves[side][0]
            modules, is_backward = contexts[side].modules(leaf)
            first, second = (contexts[k].names(point.container[k], point.leaves[k]) for k in range(2))
            names = first, second
            key = (modules, is_backward, names, contexts[side].sizes(leaf))
            groups.setdefault(key, []).append(point)
            about[key] = (modules, is_backward, names)
        found = [self._place(points, *about[key]) for key, points in groups.items()]
        return sorted(found, key=lambda place: (-abs(place.change_ns), -max(place.ns), place.modules, place.names))

    def _place(self, points: list[Point], modules: tuple[str, ...], is_backward: bool, names: tuple[str, str]) -> Place:
        first, second = (
            kernels_of(side, [leaf for point in points for leaf in point.leaves[k]])
            for k, side in enumerate(self.alignment.sides)
        )
        ns = sum(point.ns[0] for point in points), sum(point.ns[1] for point in points)
        return Place(modules, is_backward, names, points, ns, (first, second))

    def match(self, node: Node) -> Node | None:
        """The node of the other side that a node of either belongs to; None without one.

        Raises:
            AnalysisError: it is a node of neither graph.
        """
        for k, window in enumerate((self.a, self.b)):
            if node.graph is window.core:
                row = self._partner(k, node.row)
                return None if row < 0 else (self.b, self.a)[k].core.nodes_at([row])[0]
        raise AnalysisError(f"{node!r} is a node of neither graph")

    def _partner(self, k: int, row: int) -> int:
        mine, other = self.alignment.sides[k], self.alignment.sides[1 - k]
        at = np.flatnonzero(mine.row == row)
        if len(at):
            partner = int(self.alignment.nodes[k][at[0]])
            return int(other.row[partner]) if partner >= 0 else -1
        event = np.flatnonzero(mine.events == row)
        if not len(event):
            return -1
        leaf = int(np.searchsorted(mine.first_event, event[0], "right")) - 1
        partner = int(self.alignment.leaves[k][leaf])
        if partner < 0:
            return -1
        place, events = int(event[0] - mine.first_event[leaf]), other.events_of(partner)
        same = len(events) == len(mine.events_of(leaf))
        return int(events[place]) if same else -1


def diff(a: Core | Window, b: Core | Window, names: tuple[str, str] = ("A", "B")) -> Diff:
    """Compare two graphs, or windows of them, by structure.

    Args:
        a, b: what is compared.
        names: what to call them.

    Raises:
        AnalysisError: one of them holds no GPU work.
    """
    windows = window_of(a), window_of(b)
    for window in windows:
        if not len(window.gpu_rows):
            raise AnalysisError(f"{window.core.info.source}: holds no GPU events to compare")
    return Diff(*windows, names)


def elements(dims: str) -> tuple[int, ...]:
    """Numbers of elements of tensors, whose sizes stand as JSON in `Input Dims`; -1 for what is no tensor.

    >>> elements("[[2,3],[],[[4],[5,6]]]")
    (6, -1, 34)
    """
    try:
        found = json.loads(dims) if dims else []
    except (ValueError, RecursionError):
        return ()
    return tuple(_elements(one) for one in found) if isinstance(found, list) else ()


def _elements(sizes: object) -> int:
    if not isinstance(sizes, list) or not sizes:
        return -1
    if all(isinstance(size, int) for size in sizes):
        return prod(sizes)
    return sum(max(_elements(one), 0) for one in sizes)


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

    def modules(self, leaf: int) -> tuple[tuple[str, ...], bool]:
        """Classes of the modules around a leaf, the outermost first, and whether it is their backward work."""
        return self._path(int(self._module[leaf])), bool(self._backward[leaf])

    def names(self, container: int, leaves: Iterable[int]) -> str:
        """What is called there: the op around it, else the ops in it."""
        core = self._side.window.core
        nodes = [int(self._side.leaf_parent[leaf]) for leaf in leaves]
        if nodes and container >= 0 and self._side.is_op[container]:
            nodes = [container]
        found: dict[str, None] = {}
        for node in nodes:
            row = int(self._side.row[node])
            if row < 0:
                found[NO_LAUNCH if node in self._side.lone_roots else ""] = None
            else:
                kind = Kind(int(core.columns.kind[row]))
                found[normal_name(kind, core.names[core.columns.name[row]])] = None
        return ", ".join(found)

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
            path = (*path, normal_name(Kind.Module, name).removeprefix("nn.Module: "))
            self._paths[one] = path
        return path


def kernels_of(side: Forest, leaves: Iterable[int]) -> dict[str, tuple[int, int]]:
    """Names of the GPU events of some leaves, those with the most time first, with how many and how long."""
    core, c = side.window.core, side.window.core.columns
    count: Counter[str] = Counter()
    ns: Counter[str] = Counter()
    for leaf in leaves:
        for row in side.events_of(leaf).tolist():
            name = core.names[c.name[row]]
            count[name] += 1
            ns[name] += int(c.dur_ns[row])
    return {name: (count[name], ns[name]) for name in sorted(count, key=lambda name: (-ns[name], name))}
