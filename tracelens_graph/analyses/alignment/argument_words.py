"""How the recorded arguments of two calls of one op differ, in words. Sizes, types and strides stand as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import zip_longest
from math import prod

_NOTHING: tuple[object, ...] = ([], "", None, "Scalar", "None")
"""What is recorded where an argument has no size or type, or was not recorded."""


def other_sizes(first: str, second: str) -> str:
    """How the sizes of the first arguments that differ do; empty where none does."""
    return _other(first, second, _size, "sizes")


def other_strides(first: str, second: str) -> str:
    """The same of strides."""
    return _other(first, second, _size, "strides")


def other_types(first: str, second: str) -> str:
    """The same of types."""
    return _other(first, second, _type, "types")


def _other(first: str, second: str, said: Callable[[object], str], what: str) -> str:
    if first == second:
        return ""
    for one, other in zip_longest(_list(first), _list(second)):
        if one in _NOTHING or other in _NOTHING:
            continue
        if (before := said(one)) != (after := said(other)):
            return f"other {what}: {before} became {after}"
    return ""


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
    tensors = [one for one in sizes if isinstance(one, list) and all(isinstance(size, int) for size in one)]
    return f"{len(sizes):,} tensor{'s' if len(sizes) != 1 else ''} of {sum(map(prod, tensors)):,}"


def _type(name: object) -> str:
    if isinstance(name, list):
        return " and ".join(dict.fromkeys(map(_type, name)))
    return str(name).removeprefix("c10::")
