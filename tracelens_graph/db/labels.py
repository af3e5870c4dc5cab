"""Labels of traces: `key=value` as users write them, and typed properties of Trace nodes, `label_key`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tracelens_graph.errors import DatabaseError
from tracelens_graph.schema.database import LABEL
from tracelens_graph.schema.stored import Stored, Type

Label = str | int | float | bool

_KEY = re.compile(r"[\w.-]+")
_MOST = 2**63
"""Whole numbers of a database are below it."""


def labels_of(given: Iterable[str] | Mapping[str, Label]) -> dict[str, Label]:
    """Labels by key, in the order of keys.

    Args:
        given: values by key; or texts `key=value`. What is written as a number or true or false is one; a value in
            double quotes is text.

    Raises:
        DatabaseError: a text has not this form, a key no name of a property, or a key is given twice.
    """
    found: dict[str, Label] = {}
    pairs = given.items() if isinstance(given, Mapping) else map(_parsed, given)
    for key, value in pairs:
        if not _KEY.fullmatch(key):
            raise DatabaseError(f"label {key}: a key consists of letters, digits, _, - and .")
        if not isinstance(value, Label) or (isinstance(value, int) and abs(value) >= _MOST):
            raise DatabaseError(f"label {key}={value!r:.60}: a text, a number or a truth value is wanted")
        if key in found:
            raise DatabaseError(f"label {key} is given twice")
        found[key] = value
    return dict(sorted(found.items()))


def _parsed(text: str) -> tuple[str, Label]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise DatabaseError(f"label {text}: it has the form KEY=VALUE")
    return key, _value(value)


def _value(text: str) -> Label:
    """A number only where it would be written in the same way, so that 007 and 3.10 stay what they are."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, str):
        return value
    is_one = math.isfinite(value) if isinstance(value, float) else isinstance(value, int) and abs(value) < _MOST
    return value if is_one and json.dumps(value) == text else text


def _text(value: Label) -> str:
    if isinstance(value, str):
        return value if isinstance(_value(value), str) and not value.startswith('"') else json.dumps(value)
    return json.dumps(value)


def texts_of(trace: Mapping[str, Any]) -> tuple[str, ...]:
    """The labels among the properties of a Trace node as `key=value`; also of one that an older version pushed."""
    own = {name.removeprefix(LABEL): value for name, value in trace.items() if name.startswith(LABEL)}
    return (*trace.get("labels", ()), *(f"{key}={_text(value)}" for key, value in sorted(own.items())))


def stored(trace: Mapping[str, Any]) -> tuple[Stored, ...]:
    """How the labels among the properties of a Trace node are described."""
    types: dict[type, Type] = {str: "str", int: "int", float: "float", bool: "bool"}
    return tuple(Stored(name, types[type(value)], "") for name, value in trace.items() if name.startswith(LABEL))
