"""Both call trees of a comparison as one flame graph: merged by name, each frame with its time on both sides.

Every GPU event of either side is in exactly one frame and at one place, so frames and places add up to the GPU times
of both sides to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.merged import MergedNodes
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.reports.html.stacks import Frames, summed_parts
from tracelens_graph.tables.names import short_name
from tracelens_graph.utils.arrays import Codes, Ns, Rows
from tracelens_graph.utils.texts import shorten

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
        text = " -> ".join(dict.fromkeys(filter(None, names)))
        return self._number(names, text, text)

    def kernel(self, name: str) -> int:
        """The number of a GPU event's name."""
        return self._number((name,), name, short_name(name))

    def _number(self, key: tuple[str, ...], text: str, short: str) -> int:
        if key not in self._known:
            self._known[key] = len(self.texts)
            self.texts.append(text)
            self.shorts.append(shorten(short, _LONGEST_LABEL))
        return self._known[key]


def diff_stacks(difference: Diff) -> tuple[dict[str, Codes], Called]:
    """The flame graph of a comparison: calls of the merged tree, and GPU events below them.

    Returns:
        `parent` and `name` of frames, and where each `first` stands in the order of the calls; parts of the time:
        whose own it is (`frame`), on which `side`, at which `place` of the comparison, how much (`ns`), of how many
        GPU events (`count`), the longest of which has the `uid`. And the names.
    """
    tree, frames, names = MergedNodes(difference.alignment), Frames(), Called()
    frame_of, order = _call_frames(tree, frames, names)
    sides = [_events(k, difference, tree, names) for k in range(2)]
    node, kernel, place, ns, uid = (np.concatenate(both) for both in zip(*sides, strict=True))
    side = np.repeat([0, 1], [len(one[0]) for one in sides])
    frame = frames.below(frame_of[node], kernel)
    parent, name = frames.all()
    places = len(difference.places)
    keys, part = distinct((frame * 2 + side) * places + place)
    found = {"parent": parent, "name": name, "first": _first(parent, frame_of, order),
             "frame": keys // places // 2, "side": keys // places % 2, "place": keys % places}  # fmt: skip
    return {**found, **summed_parts(part, len(keys), ns, uid)}, names


def _call_frames(tree: MergedNodes, frames: Frames, names: Called) -> tuple[Codes, Codes]:
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


def _events(k: int, difference: Diff, tree: MergedNodes, names: Called) -> tuple[Codes, Codes, Codes, Ns, Rows]:
    """Of each GPU event of a side the node right above it, name, place, duration and uid."""
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
    return node[leaf], _kernels(side, names), place[leaf], ns, c.uid[side.events].astype(np.int64)


def _kernels(side: Forest, names: Called) -> Codes:
    """For each GPU event of a side the number of its name."""
    c, core = side.window.core.columns, side.window.core
    codes, code = distinct(c.name[side.events])
    found = np.array([names.kernel(core.names[one]) for one in codes.tolist()], np.int64)[code]
    for row, name in side.captured.items():
        found[side.events == row] = names.kernel(name)
    return found


def _first(parent: Codes, frame_of: Codes, order: Codes) -> Codes:
    """For each frame where its first call stands; kernels stand where the call above them does."""
    first = np.full(len(parent), np.iinfo(np.int64).max, np.int64)
    known = frame_of >= 0
    np.minimum.at(first, frame_of[known], order[known])
    unset = np.flatnonzero(first == np.iinfo(np.int64).max)
    first[unset] = first[parent[unset]]
    return first
