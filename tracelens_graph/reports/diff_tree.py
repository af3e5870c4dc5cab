"""Two call trees as one on the terminal: both times beside each call, kernels of one side with - or +."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracelens_graph.analyses.alignment.merged import Branch
from tracelens_graph.reports.tree_text import fitted_line
from tracelens_graph.short_names import short_name
from tracelens_graph.text_table import bold
from tracelens_graph.texts import printable

_Drawn = tuple[str, str, Branch | list[Branch]]
"""Branches before a line, branches before the lines below it, and what it is: one branch, or some in one line."""

_FIGURE = 10
_SIGNS = ("- ", "+ ", "  ")
_CALLS = " > "
_LONGEST_CHAIN = 50
"""Characters of the names of a chain of calls before its middle is left out."""


def tree_lines(branches: Sequence[Branch], width: int, color: bool = False, min_percent: float = 1) -> Iterator[str]:
    """Lines that draw a merged tree.

    Args:
        branches: its top.
        width: characters of a line.
        color: whether to use terminal escapes.
        min_percent: what has less than this share of all that became faster or slower, and of the time, is folded
            into one line; 0 draws everything.
    """
    changed = sum(one.changed for one in branches)
    time = sum(sum(one.ns) for one in branches)
    least = changed * min_percent / 100, time * min_percent / 100
    yield bold("".join(f"{head:>{_FIGURE}}" for head in ("A ms", "B ms", "change")), color)
    stack = _below("", branches, least)
    while stack:
        lead, prefix, one = stack.pop()
        if isinstance(one, list):
            ns = sum(part.ns[0] for part in one), sum(part.ns[1] for part in one)
            yield _line(ns, f"{lead}{len(one):,} more", width)
            continue
        chain = [one]
        while _only_calls_one(one):
            chain.append(one := one.below[0])
        yield _line(one.ns, lead + _label(chain), width)
        if (one.changed or one.differs) and (one.changed >= least[0] or min_percent == 0):
            below = _below(prefix, one.below, least)
            yield from _kernel_lines(one, prefix + ("│ " if below else "  "), width)
            stack += below


def _below(prefix: str, branches: Sequence[Branch], least: tuple[float, float]) -> list[_Drawn]:
    """What is drawn below a branch, the last first: branches before them, branches below them, what it is."""
    small = [one for one in branches if _is_small(one, least)]
    shown: list[Branch | list[Branch]] = [one for one in branches if not _is_small(one, least)]
    if len(small) == 1:
        shown = list(branches)
    elif small:
        shown.append(small)
    last = len(shown) - 1
    return [
        (prefix + ("└── " if at == last else "├── "), prefix + ("    " if at == last else "│   "), one)
        for at, one in reversed(list(enumerate(shown)))
    ]


def _is_small(one: Branch, least: tuple[float, float]) -> bool:
    return one.changed < least[0] and sum(one.ns) < least[1]


def _only_calls_one(one: Branch) -> bool:
    """Whether a branch does nothing but one call, on the same sides."""
    return (
        len(one.below) == 1 and one.below[0].times == 1 and not any(one.kernels) and _side(one.below[0]) == _side(one)
    )


def _label(chain: Sequence[Branch]) -> str:
    """What is said of calls each of which makes nothing but the next one."""
    first, last = chain[0], chain[-1]
    names = [printable(one.name) for one in chain]
    joined = _CALLS.join(names)
    if len(joined) > _LONGEST_CHAIN and len(names) > 2:
        joined = _CALLS.join((names[0], "...", names[-1]))
    times = f"{first.times:,} x " if first.times > 1 else ""
    same = ", the same" if not last.changed and not first.differs else ""
    return f"{_side(first)}{times}{joined}{same}"


def _side(one: Branch) -> str:
    return next((sign for sign, name in zip(_SIGNS, reversed(one.names), strict=False) if not name), "")


def _kernel_lines(one: Branch, prefix: str, width: int) -> Iterator[str]:
    first, second = one.kernels
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
        yield _line(ns, f"{prefix}{sign}{times}{printable(short_name(name))}", width)


def _line(ns: Sequence[int | None], text: str, width: int) -> str:
    first, second = ns
    change = second - first if first is not None and second is not None else None
    figures = [
        *("" if one is None else f"{one / 1e6:,.3f}" for one in (first, second)),
        "" if change is None else f"{change / 1e6:+,.3f}",
    ]
    head = "".join(f"{one:>{_FIGURE}}" for one in figures) + "  "
    return head + fitted_line(text, width - len(head))
