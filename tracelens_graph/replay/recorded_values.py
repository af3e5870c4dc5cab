"""Values of arguments from the texts that the profiler wrote: `-1`, `1.`, `[1, 2]`, `1.-2.5j`."""

from __future__ import annotations

import re

_INTEGER = re.compile(r"-?[0-9]{1,20}\Z")
_FLOAT = r"[-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|inf|nan)"
_IS_FLOAT = re.compile(f"{_FLOAT}\\Z")
_COMPLEX = re.compile(f"(?P<real>{_FLOAT})(?P<imaginary>[-+](?:{_FLOAT[5:]}))j\\Z")
_WORDS = {"True": True, "False": False}
_LONGEST = 400
"""Characters of one number that are looked at."""

Number = bool | int | float | complex


class NotAValueError(ValueError):
    """A text that stands for no number and no list of numbers."""


def number(text: str) -> Number:
    """A number or truth value.

    Raises:
        NotAValueError: it is none.
    """
    text = text.strip()
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _LONGEST:
        if _INTEGER.match(text):
            return int(text)
        if _IS_FLOAT.match(text):
            return float(text)
        if found := _COMPLEX.match(text):
            return complex(float(found["real"]), float(found["imaginary"]))
    raise NotAValueError(f"no number: {text[:40]!r}")


def numbers(text: str) -> tuple[Number, ...]:
    """A list of numbers.

    Raises:
        NotAValueError: it is none.
    """
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        raise NotAValueError(f"no list: {text[:40]!r}")
    inner = text[1:-1].strip()
    return tuple(number(part) for part in inner.split(",")) if inner else ()


def sizes(value: object) -> tuple[int, ...] | None:
    """A list of whole numbers that are not negative; None for anything else."""
    if isinstance(value, (list, tuple)) and all(type(one) is int and one >= 0 for one in value):
        return tuple(value)
    return None
