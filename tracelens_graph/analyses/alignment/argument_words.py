"""How the recorded arguments of two calls of one op differ, in words. Sizes, types and strides stand as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import zip_longest
from math import prod

_NOTHING: tuple[object, ...] = ([], "", None, "Scalar", "None")
"""What is recorded where an argument has no size or type, or was not recorded."""


def other_sizes(first: str, second: str) -> str:
    """How the sizes of the argument whose number of elements changed by the greatest factor differ, and how many other
    arguments differ; empty where none does."""
    return _other(first, second, _size, "sizes", _factor)


def other_strides(first: str, second: str) -> str:
    """The same of the strides of the first argument in which they differ."""
    return _other(first, second, _size, "strides")


def other_types(first: str, second: str) -> str:
    """The same of types."""
    return _other(first, second, _type, "types")


def _same_weight(_: object, __: object) -> float:
    return 1.0


def _other(
    first: str,
    second: str,
    said: Callable[[object], str],
    what: str,
    weight: Callable[[object, object], float] = _same_weight,
) -> str:
    """The argument that differs with the most weight, the first of several, in words."""
    if first == second:
        return ""
    pairs = [
        (one, other)
        for one, other in zip_longest(_list(first), _list(second))
        if one not in _NOTHING and other not in _NOTHING and said(one) != said(other)
    ]
    if not pairs:
        return ""
    one, other = max(pairs, key=lambda pair: weight(*pair))
    number = len(pairs) - 1
    more = f", {number} more {'argument differs' if number == 1 else 'arguments differ'}" if number else ""
    return f"other {what}: {said(one)} became {said(other)}{more}"


def _factor(one: object, other: object) -> float:
    """By what factor the number of elements changed, at least 1; nothing counts as one element."""
    few, many = sorted(max(_elements(sizes), 1) for sizes in (one, other))
    return many / few


def _elements(sizes: object) -> int:
    """Elements of a tensor, or of all tensors of a list."""
    if not isinstance(sizes, list):
        return 0
    if all(isinstance(size, int) for size in sizes):
        return prod(sizes)
    return sum(map(_elements, sizes))


def _list(text: str) -> list[object]:
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _size(sizes: object) -> str:
    """`[8,16]` as 8x16; of a list of tensors their number and that of their elements."""
    if not isinstance(sizes, list):
        return str(sizes)
    if all(isinstance(size, int) for size in sizes):
        return "x".join(map(str, sizes))
    return f"{len(sizes):,} tensor{'s' if len(sizes) != 1 else ''} of {_elements(sizes):,}"


def _type(name: object) -> str:
    if isinstance(name, list):
        return " and ".join(dict.fromkeys(map(_type, name)))
    return str(name).removeprefix("c10::")
