"""How the recorded arguments of two calls differ, in words. They stand as JSON."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest
from math import prod

from tracelens_graph.perf.arguments import recorded_list

_NOTHING: tuple[object, ...] = ([], "", None, "Scalar", "None")
"""What is recorded where an argument has no size or type, or was not recorded."""
_MOST_ELEMENTS = 2**62
"""Elements beyond which more are not counted: no tensor has so many, and a file may say anything."""


def other_sizes(first: str, second: str) -> str:
    """How the sizes of the argument whose number of elements changed by the greatest factor differ, the first of
    several, and how many other arguments differ; empty where none does."""
    pairs = _differing(first, second, _size)
    if not pairs:
        return ""
    number = len(pairs) - 1
    more = f", {number} more {'argument differs' if number == 1 else 'arguments differ'}" if number else ""
    return _changed("sizes", max(pairs, key=lambda pair: _factor(*pair)), _size) + more


def other_strides(first: str, second: str) -> str:
    """How the strides of the first argument that differs do; empty where none does."""
    return next((_changed("strides", pair, _size) for pair in _differing(first, second, _size)), "")


def other_types(first: str, second: str) -> str:
    """The same of types."""
    return next((_changed("types", pair, _type) for pair in _differing(first, second, _type)), "")


def _differing(first: str, second: str, in_words: Callable[[object], str]) -> list[tuple[object, object]]:
    """What is recorded of the arguments that differ, of both calls."""
    if first == second:
        return []
    return [
        (one, other)
        for one, other in zip_longest(recorded_list(first), recorded_list(second))
        if one not in _NOTHING and other not in _NOTHING and in_words(one) != in_words(other)
    ]


def _changed(what: str, pair: tuple[object, object], in_words: Callable[[object], str]) -> str:
    return f"other {what}: {in_words(pair[0])} became {in_words(pair[1])}"


def _factor(one: object, other: object) -> float:
    """By what factor the number of elements changed, at least 1; nothing counts as one element."""
    few, many = sorted(max(_elements(sizes), 1) for sizes in (one, other))
    return many / few


def elements(dims: str) -> tuple[int, ...]:
    """Numbers of elements of tensors, whose sizes stand as JSON in `Input Dims`; -1 for what is not a tensor.

    >>> elements("[[2,3],[],[[4],[5,6]]]")
    (6, -1, 34)
    """
    return tuple(map(_elements, recorded_list(dims)))


def _elements(sizes: object) -> int:
    """Elements of a tensor, or of all tensors of a list; -1 for what is neither."""
    if not isinstance(sizes, list) or not sizes:
        return -1
    total, left = 0, [sizes]
    while left:
        one = left.pop()
        if not all(isinstance(size, int) for size in one):
            left += [inner for inner in one if isinstance(inner, list)]
        elif one:
            total += prod(min(size, _MOST_ELEMENTS) for size in one)
    return min(total, _MOST_ELEMENTS)


def _size(sizes: object) -> str:
    """`[8,16]` as 8x16; of a list of tensors their number and that of their elements."""
    if not isinstance(sizes, list):
        return str(sizes)
    if all(isinstance(size, int) for size in sizes):
        return "x".join(map(str, sizes))
    return f"{len(sizes):,} tensor{'s' if len(sizes) != 1 else ''} of {max(_elements(sizes), 0):,}"


def _type(name: object) -> str:
    """A type without its namespace; the types of a list, each once."""
    found: dict[str, None] = {}
    left = [name]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += reversed(one)
        else:
            found[str(one).removeprefix("c10::")] = None
    return " and ".join(found)
