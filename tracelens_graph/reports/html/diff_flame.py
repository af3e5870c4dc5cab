"""Both call trees of a comparison as one flame graph: merged by name, each frame with its time on both sides.

Every GPU event of either side is in exactly one frame and at one place, so frames and places add up to the GPU times
of both sides to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.merged import MergedNodes
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.reports.html.names import clean
from tracelens_graph.reports.html.shell import Packed
from tracelens_graph.reports.html.stacks import Frames
from tracelens_graph.tables.names import short_name

_LONGEST_LABEL = 120
_TOP = "(below no call of both)"


class Called:
    """Names of frames, each once: of calls, which may be called otherwise on the other side, and of GPU events.

    Attributes:
        texts: the names.
        shorts: the same, short enough for labels.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.shorts: list[str] = []
        self._known: dict[tuple[str, ...], int] = {}

    def call(self, names: tuple[str, str]) -> int:
        """The number of a call; one side's name is empty where it is not called there."""
        if names not in self._known:
            text = " -> ".join(dict.fromkeys(filter(None, names)))
            self._append(names, text, text)
        return self._known[names]

    def kernel(self, name: str) -> int:
        """The number of a GPU event's name."""
        if (name,) not in self._known:
            self._append((name,), name, short_name(name))
        return self._known[name,]

    def _append(self, key: tuple[str, ...], text: str, short: str) -> None:
        self._known[key] = len(self.texts)
        self.texts.append(clean(text))
        self.shorts.append(clean(short, _LONGEST_LABEL))


@dataclass(frozen=True)
class DiffStacks:
    """Merged stacks of two sides.

    Attributes:
        parent, name: of each frame the one that it is in, -1 for none, and the number of its name.
        first: of each frame where it stands in the order of the calls.
        frame, side, place: parts of the time: whose own it is, on which side, and at which place of the comparison.
        ns, count, uid: how much it is, of how many GPU events, the longest of which has the uid.
        names: the names.
    """

    parent: np.ndarray
    name: np.ndarray
    first: np.ndarray
    frame: np.ndarray
    side: np.ndarray
    place: np.ndarray
    ns: np.ndarray
    count: np.ndarray
    uid: np.ndarray
    names: Called

    def columns(self) -> dict[str, Packed]:
        """The columns of a page."""
        return {
            "diff.parent": Packed(self.parent + 1, True),
            "diff.name": Packed(self.name),
            "diff.first": Packed(self.first, True),
            "diff.frame": Packed(self.frame, True),
            "diff.side": Packed(self.side),
            "diff.place": Packed(self.place, True),
            "diff.ns": Packed(self.ns),
            "diff.count": Packed(self.count),
            "diff.uid": Packed(self.uid, True),
        }


def diff_stacks(difference: Diff) -> DiffStacks:
    """The flame graph of a comparison: calls of the merged tree, and GPU events below them."""
    tree, frames, names = MergedNodes(difference.alignment), Frames(), Called()
    frame_of, order = _call_frames(tree, frames, names)
    sides = [_Events.of(k, difference, tree, names) for k in range(2)]
    node, kernel, place, ns, uid = (np.concatenate([getattr(one, field) for one in sides])
                                    for field in ("node", "kernel", "place", "ns", "uid"))  # fmt: skip
    side = np.repeat([0, 1], [len(one.node) for one in sides])
    frame = frames.below(frame_of[node], kernel)
    parent, name = frames.all()
    first = _first(parent, frame_of, order)
    places = len(difference.places)
    keys, part = distinct((frame * 2 + side) * places + place)
    longest = np.lexsort((-uid, ns))
    uids = np.zeros(len(keys), np.int64)
    uids[part[longest]] = uid[longest]  # of several the last, which is the longest, stays
    return DiffStacks(
        parent, name, first, keys // places // 2, keys // places % 2, keys % places, sum_by_group(part, ns, len(keys)),
        np.bincount(part, minlength=len(keys)), uids, names,
    )  # fmt: skip


def _call_frames(tree: MergedNodes, frames: Frames, names: Called) -> tuple[np.ndarray, np.ndarray]:
    """For each node of a merged tree, the top being the first, its frame and its place in the order of the calls."""
    below = [[node for _, node in sorted(children)] for children in tree.below]
    number = np.array([-1, *(names.call(tree.called(node)) for node in range(1, len(below)))], np.int64)
    frame, order = np.full(len(below), -1, np.int64), np.zeros(len(below), np.int64)
    if any(tree.own[0]):
        # What stands below no call has a frame of its own, so that nothing stands beside the calls unnamed.
        frame[0] = frames.below(np.array([-1]), np.array([names.call((_TOP, _TOP))]))[0]
    for place, node in enumerate(_outer_first(below)):
        order[node] = place
    level, above = np.array(below[0], np.int64), np.full(len(below[0]), -1, np.int64)
    while len(level):
        frame[level] = frames.below(above, number[level])
        deeper = [(child, node) for node in level.tolist() for child in below[node]]
        level, above = (np.array(one, np.int64) for one in zip(*deeper, strict=True)) if deeper else (level[:0],) * 2
        above = frame[above]
    return frame, order


def _outer_first(below: list[list[int]]) -> Iterator[int]:
    """All nodes, each before those below it, in their order."""
    stack = [0]
    while stack:
        node = stack.pop()
        yield node
        stack += reversed(below[node])


@dataclass(frozen=True)
class _Events:
    """The GPU events of one side: of each the node right above it, name, place, duration and uid."""

    node: np.ndarray
    kernel: np.ndarray
    place: np.ndarray
    ns: np.ndarray
    uid: np.ndarray

    @classmethod
    def of(cls, k: int, difference: Diff, tree: MergedNodes, names: Called) -> _Events:
        """The events of a side."""
        side = difference.alignment.sides[k]
        node, place = np.zeros(side.leaves, np.int64), np.zeros(side.leaves, np.int64)
        for number, own in enumerate(tree.own):
            node[own[k]] = number
        for number, one in enumerate(difference.places):
            for point in one.points:
                place[point.leaves[k]] = number
        c = side.window.core.columns
        leaf = np.repeat(np.arange(side.leaves), np.diff(side.first_event))
        ns = np.where(np.isin(side.events, [*side.captured]), 0, c.dur_ns[side.events]).astype(np.int64)
        return cls(node[leaf], _kernels(side, names), place[leaf], ns, c.uid[side.events].astype(np.int64))


def _kernels(side: Forest, names: Called) -> np.ndarray:
    """For each GPU event of a side the number of its name."""
    c, core = side.window.core.columns, side.window.core
    codes, code = distinct(c.name[side.events])
    found = np.array([names.kernel(core.names[one]) for one in codes.tolist()], np.int64)[code]
    for row, name in side.captured.items():
        found[side.events == row] = names.kernel(name)
    return found


def _first(parent: np.ndarray, frame_of: np.ndarray, order: np.ndarray) -> np.ndarray:
    """For each frame where its first call stands; kernels stand where the call above them does."""
    first = np.full(len(parent), np.iinfo(np.int64).max, np.int64)
    known = frame_of >= 0
    np.minimum.at(first, frame_of[known], order[known])
    unset = np.flatnonzero(first == np.iinfo(np.int64).max)
    first[unset] = first[parent[unset]]
    return first
