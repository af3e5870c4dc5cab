"""Values of a trace as Python source. Nothing else turns a trace's text or numbers into code.

A trace is untrusted: what is written here is a constant, a display of constants, a minus before a number, or a call of
`float` or `complex` with constants, whatever the value holds; and it is ASCII.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

_WIDTH = 100
"""Characters of a display that stays on one line."""
_INDENT = "    "
_NOT_IN_NAMES = re.compile(r"[^0-9A-Za-z]+")


def literal(value: Any, indent: str = "") -> str:
    """A value as Python source that evaluates to it.

    The type is told exactly, not by inheritance, so that no class of a caller's can bring its own words along.

    Args:
        value: None, a bool, an int, a float, a complex number, a string, or a list, tuple or dictionary of such.
            Tuples are written as lists, which is what torch's operators take.
        indent: what the lines after the first begin with, where there are several.

    Raises:
        TypeError: the value is none of these.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return display("[", [literal(one, indent + _INDENT) for one in value], "]", indent)
    if kind is dict:
        return display("{", [f"{literal(k)}: {literal(v, indent + _INDENT)}" for k, v in value.items()], "}", indent)
    return _scalar(value)


def display(opening: str, entries: list[str], closing: str, indent: str = "") -> str:
    """Entries between brackets: on one line if they fit, else one a line."""
    line = opening + ", ".join(entries) + closing
    if len(indent) + len(line) <= _WIDTH and "\n" not in line:
        return line
    inner = indent + _INDENT
    if all(len(entry) <= 16 for entry in entries):  # numbers and short names: as many a line as fit
        return opening + "\n" + "".join(f"{inner}{row}\n" for row in _rows(entries, inner)) + indent + closing
    return opening + "\n" + "".join(f"{inner}{entry},\n" for entry in entries) + indent + closing


def identifier(text: str) -> str:
    """A name for a function or file made of any text: ASCII letters, digits and single underscores; never a keyword.

    `aten::mm` becomes `aten_mm`. Different texts can have one name.
    """
    name = _NOT_IN_NAMES.sub("_", text).strip("_")[:60]
    if not name or name[0].isdigit():
        name = f"op_{name}".rstrip("_")
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


def _scalar(value: Any) -> str:
    kind = type(value)
    if value is None or kind is bool or kind is int:
        return repr(value)
    if kind is float:
        return repr(value) if math.isfinite(value) else f"float('{value}')"
    if kind is complex:
        return f"complex({_scalar(value.real)}, {_scalar(value.imag)})"
    if kind is str:
        return _string(value)
    raise TypeError(f"no literal for a value of type {kind.__name__}")


def _string(text: str) -> str:
    """In double quotes, as the formatter would write it."""
    body = ascii(text)
    if body[0] == '"' or '"' in body:
        return body
    return f'"{body[1:-1]}"' if "\\'" not in body else body


def _rows(entries: list[str], indent: str) -> Iterator[str]:
    row = ""
    for entry in entries:
        if row and len(indent) + len(row) + len(entry) + 2 > _WIDTH:
            yield row
            row = ""
        row += (" " if row else "") + entry + ","
    if row:
        yield row


def mapping(entries: Mapping[str, str], indent: str = "") -> str:
    """A dictionary whose values are source already."""
    return display("{", [f"{literal(name)}: {source}" for name, source in entries.items()], "}", indent)
