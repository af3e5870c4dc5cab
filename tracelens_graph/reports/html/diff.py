"""The page of a comparison: what changed, where and why, as the screen of `diff` says it, and both call trees as one.

Figures are those of the tables of the comparison. In the flame graph calls are merged by name, each frame with its time
on both sides. Every GPU event of either side is in exactly one frame and at one place, so frames and places add up to
the GPU times of both sides to the nanosecond.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.merged import MergedNodes
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.alignment.reasons import Reason
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.diff_text import changed_places, headline, phase_texts, side_lines
from tracelens_graph.reports.diff_tree import point_lines
from tracelens_graph.reports.document import facts
from tracelens_graph.reports.html.names import LONGEST_LINE, Texts, clean, table_objects, texts_of
from tracelens_graph.reports.html.overview import chosen, in_window, parts, recorded
from tracelens_graph.reports.html.shell import Code, page
from tracelens_graph.reports.html.stacks import Frames, stack_columns, summed_parts
from tracelens_graph.schema import FIRST_MADE_UID
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import list_text
from tracelens_graph.utils.arrays import Codes, Ns, Rows
from tracelens_graph.utils.texts import shorten

CODE = Code("page-diff.js", ("diff.css",))

MOST_PLACES = 200
"""Places that are drawn, those with most of the change; all are in the table."""
_MOST_KERNELS = 20
"""Names of GPU events of one side of a place."""
_WIDTH = 110
"""Characters of a line that draws a place."""
_LONGEST_LABEL = 120
_TOP = "(below no call of both)"

Commands = Callable[[int], Iterable[tuple[str, str]]]
"""For the number of a place what to do next: what it is for, and the command."""


def diff_page(
    difference: Diff, tables: Mapping[str, Table], notes: Sequence[str], commands: Commands = lambda number: ()
) -> str:
    """A comparison as a page."""
    (stacks, names), texts = diff_stacks(difference), Texts()
    first, second = difference.names
    title = clean(f"GPU work: {second} against {first}")
    head = {"overview": _overview(difference, tables, notes), "title": title}
    rows = tables["diff_places"].records()[:MOST_PLACES]
    body = {
        "places": [
            _place(difference, place, row, commands, names) for place, row in zip(difference.places, rows, strict=False)
        ],
        "tables": table_objects(tables, texts),
        "texts": texts.listed,
        **texts_of(names.texts, names.shorts),
    }
    return page(title, head, body, stack_columns("diff", stacks), CODE)


def _overview(difference: Diff, tables: Mapping[str, Table], notes: Sequence[str]) -> dict[str, Any]:
    changed = changed_places(tables["diff_places"])
    windows = difference.a, difference.b
    steps = phase_texts(tables["diff_phases"]) if "diff_phases" in tables else []
    return {
        "headline": clean(headline(tables["diff_totals"], changed), LONGEST_LINE),
        "notes": [clean(line, LONGEST_LINE) for line in (*steps, *notes)],
        "sides": [
            {"letter": letter, "name": clean(name), "text": clean(line, LONGEST_LINE), "parts": parts(window)}
            for letter, name, line, window in zip("AB", difference.names, side_lines(difference), windows, strict=True)
        ],
        "totals": [
            {key: row[key] for key in ("meaning", "a_ms", "b_ms", "change_ms", "change_percent")}
            for row in tables["diff_totals"].records()
            if row["a_ms"] or row["b_ms"]
        ],
        "reasons": _reasons(changed),
        "idle": [
            {key: row[key] for key in ("part", "cause", "a_ms", "b_ms", "change_ms")}
            | {"why": clean(str(row["why"]), LONGEST_LINE)}
            for row in tables["diff_times"].records()
            if row["cause"]
        ],
        "facts": _facts(*windows),
    }  # fmt: skip


def _reasons(changed: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The reasons of places that differ, the one behind most of what became faster or slower first."""
    found: dict[str, dict[str, Any]] = {}
    for row in changed:
        one = found.setdefault(row["reason"], {
            "reason": row["reason"].replace("_", " "), "meaning": _meaning(row), "places": 0,
            "a_ms": 0.0, "b_ms": 0.0, "slower_ms": 0.0, "faster_ms": 0.0, "first": int(row["place"]),
        })  # fmt: skip
        one["places"] += 1
        one["a_ms"] += row["a_ms"]
        one["b_ms"] += row["b_ms"]
        one["slower_ms" if row["change_ms"] > 0 else "faster_ms"] += abs(row["change_ms"])
    return sorted(found.values(), key=lambda one: -(one["slower_ms"] + one["faster_ms"]))


def _meaning(row: Mapping[str, Any]) -> str:
    """What the reason of a place means; names of columns stand in backticks there."""
    return Reason[row["reason"]].meaning.replace("`", "")


def _facts(a: Window, b: Window) -> list[list[str | None]]:
    """What was recorded of both sides: label, and the value on each side; None where a side has none."""
    sides: list[dict[str, str]] = []
    for window in (a, b):
        about: dict[str, str] = {}
        whole = recorded(facts(window.core), inventory(window.core))
        part = ((f"{label} compared", value) for label, value in in_window(window))
        for label, value in (*whole, *part, *chosen(facts(window))):
            about[label] = f"{about[label]}, {value}" if label in about else value
        sides.append(about)
    labels = dict.fromkeys(label for about in sides for label in about)
    return [[clean(label), *(clean(about[label]) if label in about else None for about in sides)] for label in labels]


def _place(difference: Diff, place: Place, row: Mapping[str, Any], commands: Commands, names: Called) -> dict[str, Any]:
    """One place with all that is known of it."""
    return {
        "place": int(row["place"]),
        "op": clean(str(row["op"])),
        "module": clean(str(row["module"] or ""), LONGEST_LINE),
        "reason": row["reason"].replace("_", " "),
        "meaning": _meaning(row),
        "why": clean(str(row["why"]), LONGEST_LINE),
        "times": int(row["times"]),
        "ns": list(place.ns),
        "sides": [_side(place, row, k, names) for k in range(2)],
        "drawn": [clean(line) for line in point_lines(difference, place, _WIDTH)],
        "commands": [[clean(label), clean(command, LONGEST_LINE)] for label, command in commands(int(row["place"]))],
    }


def _side(place: Place, row: Mapping[str, Any], k: int, names: Called) -> dict[str, Any]:
    """What one side does at a place: what launched its longest event, and all its kernels."""
    letter, kernels = "ab"[k], place.kernels[k]
    line, shapes, types, uid = (row[f"{field}_{letter}"] for field in ("line", "shapes", "types", "uid"))
    return {
        "line": clean(str(line)) if line else None,
        "shapes": None if shapes is None else clean(_arguments(shapes)),
        "types": None if types is None else clean(_arguments(types)),
        "uid": uid,
        "kernels": [[names.kernel(name), count, ns] for name, (count, ns) in list(kernels.items())[:_MOST_KERNELS]],
        "more": max(len(kernels) - _MOST_KERNELS, 0),
    }


def _arguments(text: str) -> str:
    """Shapes or types, JSON as the graph has them, in few characters."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return list_text(value) if isinstance(value, list) else text


# ---- both call trees as one ------------------------------------------------------------------------------------------


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
        GPU events (`count`); the longest one has the `uid`. And the names.
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
    below = tree.children()
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
    uid = c.uid[side.events].astype(np.int64)
    # What stands for the host's own time is no event of the file, and nothing finds it by its number.
    return node[leaf], _kernels(side, names), place[leaf], ns, np.where(uid < FIRST_MADE_UID, uid, -1)


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
