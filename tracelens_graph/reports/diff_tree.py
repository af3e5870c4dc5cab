"""Two call trees as one on the terminal: both times beside each call, kernels of one side with - or +."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tracelens_graph.analyses.alignment.cause_words import details_of_alike
from tracelens_graph.analyses.alignment.merged import Branch
from tracelens_graph.tables.names import fitted, short_name
from tracelens_graph.tables.terminal import bold
from tracelens_graph.utils.texts import printable, width_of, wrapped

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
        branches: its top.
        width: characters of a line.
        color: whether to use terminal escapes.
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
    """What is said of calls each of which makes nothing but the next one."""
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
