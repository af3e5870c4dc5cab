"""One place of a comparison as two branches below the call that both sides share: - lines of A, + lines of B."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tracelens_graph.analyses.alignment.difference import Diff, Place
from tracelens_graph.analyses.alignment.points import Point
from tracelens_graph.analyses.alignment.tables import lines_of_python
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.reports.kernel_pairs import told_apart
from tracelens_graph.reports.tree_text import fitted_line
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.short_names import short_name
from tracelens_graph.texts import cut_end, printable

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

    That is the op that both sides call, else the topmost call of the branch with the longest GPU event.
    """
    point = drawn_point(place)
    rows = [_shared_op(difference, point, k) for k in range(2)]
    first, second = (
        -1 if not point.leaves[k] else rows[k] if min(rows) >= 0 else _top(difference, point, k) for k in range(2)
    )
    return first, second


def _shared_op(difference: Diff, point: Point, k: int) -> int:
    container, forest = point.container[k], difference.alignment.sides[k]
    return int(forest.row[container]) if container >= 0 and forest.is_op[container] else -1


def _top(difference: Diff, point: Point, k: int) -> int:
    """The topmost call that is drawn above the longest GPU event of a side, or the event itself."""
    forest, container = difference.alignment.sides[k], _row(difference, point, k)
    c = forest.window.core.columns
    row = top = int(forest.events_of(max(point.leaves[k], key=lambda leaf: int(forest.ns[leaf])))[0])
    while row >= 0 and row != container:
        if c.kind[row] != Kind.PythonFunction:
            top = row
        row = int(c.parent[row])
    return top


def point_lines(difference: Diff, place: Place, width: int) -> Iterator[str]:
    """Lines that draw the point of a place with the most GPU time.

    Args:
        difference: the comparison.
        place: the place.
        width: characters of a line.
    """
    point = drawn_point(place)
    tops = drawn_rows(difference, place)
    if (times := len(place.points)) > 1:
        figures = f"{point.ns[0] / 1e6:,.3f} -> {point.ns[1] / 1e6:,.3f} ms"
        yield f"One of {times:,}, that with the most GPU time: {figures}"
    containers = [_row(difference, point, k) for k in range(2)]
    cores = [side.window.core for side in difference.alignment.sides]
    yield from (fitted_line(line, width) for line in _shared(cores, containers))
    first, second = _kernels(difference, point)
    apart = told_apart(first, second, _shown)
    for k in range(2):
        lines = list(_side(difference, point, k, containers[k], tops[k], apart if k else {}))
        for time, text in lines[:_MOST]:
            yield f"{_SIGNS[k]} {time:>{_TIME}}  {fitted_line(text, width - _TIME - 4)}"
        if len(lines) > _MOST:
            yield f"{_SIGNS[k]} {'':>{_TIME}}  {len(lines) - _MOST:,} more lines"


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


def _kernels(difference: Diff, point: Point) -> list[list[str]]:
    """Names of the GPU events of both sides, in their order."""
    return [
        [forest.event_name(row) for leaf in point.leaves[k] for row in forest.events_of(leaf).tolist()]
        for k, forest in enumerate(difference.alignment.sides)
    ]


def _shown(kernel: str) -> str:
    return cut_end(printable(short_name(kernel)), 90)


def _side(
    difference: Diff, point: Point, k: int, container: int, named: int, apart: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Lines of one side: the time of a GPU event, and the name of a call or an event, indented; one with its uid."""
    forest = difference.alignment.sides[k]
    core = forest.window.core
    events = [row for leaf in point.leaves[k] for row in forest.events_of(leaf).tolist()]
    c = core.columns
    rows: set[int] = set()
    for row in events:
        while row >= 0 and row != container and row not in rows:
            rows.add(row)
            row = int(c.parent[row])
    depth: dict[int, int] = {}
    for row in sorted(rows):
        kind = Kind(int(c.kind[row]))
        above = depth.get(int(c.parent[row]), 0)
        if kind is Kind.PythonFunction:
            depth[row] = above
            continue
        depth[row] = above + 1
        name = core.names[c.name[row]]
        is_gpu = kind in GPU_KINDS
        time = f"{int(c.dur_ns[row]) / 1e6:,.3f} ms" if is_gpu else ""
        told = _shown(name) if is_gpu else printable(name)
        if is_gpu and name in apart:
            told = f"{told}, {printable(apart[name])}"
        uid = f" (uid {int(c.uid[row])})" if row == named else ""
        yield time, f"{'  ' * above}{told}{uid}"
