"""One place of a comparison as two branches below the call that both sides share: - lines of A, + lines of B."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tracelens_graph.analyses.alignment.cause_words import details_of_alike
from tracelens_graph.analyses.alignment.difference import Diff, Place
from tracelens_graph.analyses.alignment.divergence_points import Point
from tracelens_graph.analyses.alignment.tables import lines_of_python
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.reports.tree_text import fitted_line
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.names import short_name
from tracelens_graph.utils.texts import cut_end, printable

_MOST = 24
"""Lines of a side."""
_TIME = 11
_SIGNS = "-+"
_FIELDS = ("Input Dims", "Input type")


def drawn_point(place: Place) -> Point:
    """The point that is drawn of a place: the one with the most GPU time."""
    return max(place.points, key=lambda one: sum(one.ns))


def drawn_rows(difference: Diff, place: Place) -> tuple[int, int]:
    """The row by which each side of the drawing is named, -1 where a side has no GPU work there.

    That is the op that both sides call, else the op, or the call, that launched the longest GPU event that is drawn.
    """
    point = drawn_point(place)
    rows = [_shared_op(difference, point, k) for k in range(2)]
    first, second = (
        -1 if not point.leaves[k] else rows[k] if min(rows) >= 0 else _launcher(difference, point, k) for k in range(2)
    )
    return first, second


def _shared_op(difference: Diff, point: Point, k: int) -> int:
    container, forest = point.container[k], difference.alignment.sides[k]
    return int(forest.row[container]) if container >= 0 and forest.is_op[container] else -1


def _launcher(difference: Diff, point: Point, k: int) -> int:
    """The innermost op or module that is drawn above the longest event that is, else its launch, or the event."""
    c = difference.alignment.sides[k].window.core.columns
    drawn = dict(_branch(difference, point, k)[:_MOST])
    events = [row for row in _events(difference, point, k) if row in drawn]
    if not events:  # deeper than what is drawn
        return next(reversed(drawn))
    event = row = launch = max(events, key=lambda one: int(c.dur_ns[one]))
    while row in drawn or (row >= 0 and c.kind[row] == Kind.PythonFunction):
        if row in drawn and c.kind[row] in (Kind.Op, Kind.Module):
            return row
        launch = row if row in drawn and launch == event else launch
        row = int(c.parent[row])
    return launch


def point_lines(difference: Diff, place: Place, width: int) -> Iterator[str]:
    """Lines that draw the point of a place with the most GPU time.

    Args:
        difference: the comparison.
        place: the place.
        width: characters of a line.
    """
    point = drawn_point(place)
    named = drawn_rows(difference, place)
    if (times := len(place.points)) > 1:
        figures = f"{point.ns[0] / 1e6:,.3f} -> {point.ns[1] / 1e6:,.3f} ms"
        yield f"One of {times:,}, that with the most GPU time: {figures}"
    containers = [_row(difference, point, k) for k in range(2)]
    cores = [side.window.core for side in difference.alignment.sides]
    yield from (fitted_line(line, width) for line in _shared(cores, containers))
    names = [
        [forest.event_name(row) for row in _events(difference, point, k)]
        for k, forest in enumerate(difference.alignment.sides)
    ]
    apart: tuple[dict[str, str], dict[str, str]] = {}, details_of_alike(names[0], names[1], _shown)
    for k, core in enumerate(cores):
        branch = _branch(difference, point, k)
        for row, above in branch[:_MOST]:
            time, text = _line(core, row, row == named[k], apart[k])
            yield f"{_SIGNS[k]} {time:>{_TIME}}  {fitted_line('  ' * above + text, width - _TIME - 4)}"
        if len(branch) > _MOST:
            yield f"{_SIGNS[k]} {'':>{_TIME}}  {len(branch) - _MOST:,} more lines"


def _row(difference: Diff, point: Point, k: int) -> int:
    container = point.container[k]
    return int(difference.alignment.sides[k].row[container]) if container >= 0 else -1


def _shared(cores: list[Core], rows: list[int]) -> Iterator[str]:
    """The call around both branches: its name, where it stands in Python, its uids, and its arguments."""
    if min(rows) < 0:
        yield "Below no call that both sides make"
        return
    names = [printable(core.names[core.columns.name[row]]) for core, row in zip(cores, rows, strict=True)]
    uids = " and ".join(f"{int(core.columns.uid[row])}" for core, row in zip(cores, rows, strict=True))
    called = names[0] if names[0] == names[1] else " and ".join(names)
    yield f"{called} (uid {uids})"
    lines = [lines_of_python(core, np.array([row]))[0] for core, row in zip(cores, rows, strict=True)]
    told = {"line": [printable(line) if line else "" for line in lines]}
    for field in _FIELDS:
        both = (Node(core, row).shapes.get(field, "") for core, row in zip(cores, rows, strict=True))
        told[field] = [printable(str(one)) for one in both]
    for what, (first, second) in told.items():
        if first == second:
            if first:
                yield f"    {what}: {first}"
        else:
            yield from (f"{sign}   {what}: {text}" for sign, text in zip(_SIGNS, (first, second), strict=True) if text)


def _events(difference: Diff, point: Point, k: int) -> list[int]:
    """Rows of the GPU events of one side, or of launches that were recorded into a graph."""
    forest = difference.alignment.sides[k]
    return [row for leaf in point.leaves[k] for row in forest.events_of(leaf).tolist()]


def _branch(difference: Diff, point: Point, k: int) -> list[tuple[int, int]]:
    """Rows of what is drawn of one side, each with how far it is indented; frames of Python are passed over."""
    c, container = difference.alignment.sides[k].window.core.columns, _row(difference, point, k)
    rows: set[int] = set()
    for row in _events(difference, point, k):
        while row >= 0 and row != container and row not in rows:
            rows.add(row)
            row = int(c.parent[row])
    depth: dict[int, int] = {}
    drawn = []
    for row in sorted(rows):
        above = depth.get(int(c.parent[row]), 0)
        is_frame = c.kind[row] == Kind.PythonFunction
        depth[row] = above if is_frame else above + 1
        if not is_frame:
            drawn.append((row, above))
    return drawn


def _line(core: Core, row: int, is_named: bool, apart: Mapping[str, str]) -> tuple[str, str]:
    """The time of a GPU event, and the name of it or of a call, with its uid if the side is named by it."""
    c = core.columns
    name = core.names[c.name[row]]
    uid = f" (uid {int(c.uid[row])})" if is_named else ""
    if Kind(int(c.kind[row])) not in GPU_KINDS:
        return "", f"{printable(name)}{uid}"
    differs = f", {printable(apart[name])}" if name in apart else ""
    return f"{int(c.dur_ns[row]) / 1e6:,.3f} ms", f"{_shown(name)}{differs}{uid}"


def _shown(kernel: str) -> str:
    return cut_end(printable(short_name(kernel)), 90)
