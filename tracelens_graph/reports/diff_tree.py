"""Two call trees as one on the terminal: both times beside each call, kernels of one side with - or +.

Of one place both branches are drawn below the call that both sides share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.cause_words import details_of_alike
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.divergence_points import Point
from tracelens_graph.analyses.alignment.merged import Branch
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.alignment.tables import lines_of_python
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.reports.tree_text import fitted_line
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.names import fitted, short_name
from tracelens_graph.tables.terminal import bold
from tracelens_graph.utils.texts import cut_end, printable, width_of, wrapped

_FIGURE = 10
_BETWEEN = "  "
_SIGNS = ("- ", "+ ", "  ")
_CALLS = " > "
_LONGEST_CHAIN = 50
"""Characters of the names of a chain of calls before its middle is left out."""
_BRANCHES = (
    {"├": "├── ", "└": "└── ", "│": "│   ", " ": "    "},
    {"├": "├ ", "└": "└ ", "│": "│ ", " ": "  "},
    {"├": "├", "└": "└", "│": "│", " ": " "},
)
"""How wide a level of a tree is drawn: as wide as all of its lines leave room for names."""
_TEXT = 28
"""Columns that a line keeps behind the branches."""


class _Drawn(NamedTuple):
    """What stands in a tree.

    Attributes:
        lead: branches before its line, a character for each level.
        prefix: branches before the lines below it.
        what: one branch, or some in one line.
    """

    lead: str
    prefix: str
    what: Branch | list[Branch]


class _Line(NamedTuple):
    """A line of a tree.

    Attributes:
        ns: times of both sides; None where a side has none.
        lead: branches before it, a character for each level.
        start: what stands before the name, and is kept.
        name: what is shortened where there is no room.
        detail: what stands behind the name, or below it where there is no room.
    """

    ns: Sequence[int | None]
    lead: str
    start: str
    name: str
    detail: str = ""


def tree_lines(branches: Sequence[Branch], width: int, color: bool = False, min_percent: float = 1) -> Iterator[str]:
    """Lines that draw a merged tree.

    Args:
        min_percent: what has less than this share of all that became faster or slower, and of the time, is folded
            into one line; 0 draws everything.
    """
    yield bold("".join(f"{head:>{_FIGURE}}" for head in ("A ms", "B ms", "change")), color)
    lines = list(_lines(branches, min_percent, width))
    room = width - 3 * _FIGURE - len(_BETWEEN) - _TEXT
    deepest = max((len(line.lead) for line in lines), default=0)
    wide = next((one for one in _BRANCHES if deepest * len(one[" "]) <= room), _BRANCHES[-1])
    # Deeper than there are columns: all lines lose the same outer levels.
    outer = max(deepest - max(room, 1), 0) if wide is _BRANCHES[-1] else 0
    for line in lines:
        yield from _drawn(line, "".join(wide[one] for one in line.lead[outer:]), width)


def _lines(branches: Sequence[Branch], min_percent: float, width: int) -> Iterator[_Line]:
    changed = sum(one.changed for one in branches)
    time = sum(sum(one.ns) for one in branches)
    least = changed * min_percent / 100, time * min_percent / 100
    stack = _below("", branches, least)
    while stack:
        lead, prefix, one = stack.pop()
        if isinstance(one, list):
            ns = sum(part.ns[0] for part in one), sum(part.ns[1] for part in one)
            yield _Line(ns, lead, "", f"{len(one):,} more")
            continue
        chain = [one]
        while _only_calls_one(one):
            chain.append(one := one.below[0])
        yield _call_line(chain, lead)
        if (one.changed or one.differs) and (one.changed >= least[0] or min_percent == 0):
            below = _below(prefix, one.below, least)
            yield from _kernel_lines(one, prefix, "│ " if below else "  ", width)
            stack += below


def _below(prefix: str, branches: Sequence[Branch], least: tuple[float, float]) -> list[_Drawn]:
    """What is drawn below a branch, the last first."""
    small = [one for one in branches if _is_small(one, least)]
    shown: list[Branch | list[Branch]] = [one for one in branches if not _is_small(one, least)]
    if len(small) == 1:
        shown = list(branches)
    elif small:
        shown.append(small)
    last = len(shown) - 1
    return [
        _Drawn(prefix + "├└"[at == last], prefix + "│ "[at == last], one)
        for at, one in reversed(list(enumerate(shown)))
    ]


def _is_small(one: Branch, least: tuple[float, float]) -> bool:
    return one.changed < least[0] and sum(one.ns) < least[1]


def _only_calls_one(one: Branch) -> bool:
    """Whether a branch does nothing but one call, on the same sides."""
    return (
        len(one.below) == 1 and one.below[0].times == 1 and not any(one.kernels) and _side(one.below[0]) == _side(one)
    )


def _call_line(chain: Sequence[Branch], lead: str) -> _Line:
    """A line on calls where each makes nothing but the next one."""
    first, last = chain[0], chain[-1]
    names = [printable(one.name) for one in chain]
    joined = _CALLS.join(names)
    if len(joined) > _LONGEST_CHAIN and len(names) > 2:
        joined = _CALLS.join((names[0], "...", names[-1]))
    times = f"{first.times:,} x " if first.times > 1 else ""
    same = ", the same" if not last.changed and not first.differs else ""
    return _Line(last.ns, lead, f"{_side(first)}{times}", joined + same)


def _side(one: Branch) -> str:
    return next((sign for sign, name in zip(_SIGNS, reversed(one.names), strict=False) if not name), "")


def _kernel_lines(one: Branch, lead: str, indent: str, width: int) -> Iterator[_Line]:
    """The kernels of a branch; those of the second side that look like one of the first say what they differ in."""
    first, second = one.kernels
    least = max(width - 3 * _FIGURE - len(_BETWEEN) - len(indent) - len(lead) * len(_BRANCHES[0][" "]), _TEXT)
    apart = details_of_alike(first, second, lambda name: fitted(printable(short_name(name)), least))
    for name in dict.fromkeys([*first, *second]):
        both = [kernels.get(name) for kernels in (first, second)]
        counts = [0 if found is None else found[0] for found in both]
        sign = _SIGNS[0 if both[1] is None else 1 if both[0] is None else 2]
        if sign == _SIGNS[2]:
            times = f"{counts[0]:,} x " if counts[0] == counts[1] else f"{counts[0]:,} -> {counts[1]:,} x "
        else:
            times = f"{sum(counts):,} x "
        times = "" if times == "1 x " else times
        ns = [None if found is None else found[1] for found in both]
        detail = f", {printable(apart[name])}" if name in apart else ""
        yield _Line(ns, lead, f"{indent}{sign}{times}", printable(short_name(name)), detail)


def _drawn(line: _Line, branches: str, width: int) -> Iterator[str]:
    first, second = line.ns
    change = second - first if first is not None and second is not None else None
    figures = [
        *("" if one is None else f"{one / 1e6:,.3f}" for one in (first, second)),
        "" if change is None else f"{change / 1e6:+,.3f}",
    ]
    figure = "".join(f"{one:>{_FIGURE}}" for one in figures) + _BETWEEN
    head = figure + branches + line.start
    room = max(width - width_of(head), 0)
    if width_of(line.name + line.detail) <= room:
        yield head + line.name + line.detail
        return
    yield head + fitted(line.name, room)
    if not line.detail:
        return
    # Behind the same branches, below the name.
    below = " " * len(figure) + branches + line.start[:1] + " " * (len(line.start) - 1)
    yield from (below + part for part in wrapped(line.detail.removeprefix(", "), max(width - width_of(below), 8)))


# --- one place ------------------------------------------------------------------------------------------------------


_MOST = 24
"""Lines of a side."""
_TIME = 11
_SIDES = "-+"
_FIELDS = ("Input Dims", "Input type")


def drawn_point(place: Place) -> Point:
    """The point that is drawn of a place: the one with the most GPU time, both sides together."""
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
    """Lines that draw the point of a place with the most GPU time."""
    point = drawn_point(place)
    named = drawn_rows(difference, place)
    if (times := len(place.points)) > 1:
        figures = f"{point.ns[0] / 1e6:,.3f} -> {point.ns[1] / 1e6:,.3f} ms"
        groups = "" if times == place.times else " groups"
        yield f"One of {times:,}{groups}, that with the most GPU time: {figures}"
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
            yield f"{_SIDES[k]} {time:>{_TIME}}  {fitted_line('  ' * above + text, width - _TIME - 4)}"
        if len(branch) > _MOST:
            yield f"{_SIDES[k]} {'':>{_TIME}}  {len(branch) - _MOST:,} more lines"


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
    fields = {"line": [printable(line) if line else "" for line in lines]}
    for field in _FIELDS:
        both = (Node(core, row).shapes.get(field, "") for core, row in zip(cores, rows, strict=True))
        fields[field] = [printable(str(one)) for one in both]
    for what, (first, second) in fields.items():
        if first == second:
            if first:
                yield f"    {what}: {first}"
        else:
            yield from (f"{sign}   {what}: {text}" for sign, text in zip(_SIDES, (first, second), strict=True) if text)


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
