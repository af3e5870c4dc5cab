"""Reading what is told of an instruction among the arguments of an op (`graph.hlo.attributes`).

Every report asks this, also of traces without instructions; so nothing else of programs is imported here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

PREFIX = "hlo::"
"""How names of instructions in the table of ops begin."""


def told_in(concrete: str) -> list[str]:
    """The attributes in the values of an argument set; empty for one of no instruction."""
    if f'"{PREFIX}' not in concrete:
        return []
    try:
        values = json.loads(concrete)
    except (ValueError, RecursionError):
        return []
    if not isinstance(values, list):
        return []
    texts = [value for value in values if isinstance(value, str) and value]
    return texts if texts and texts[0].startswith(PREFIX) else []


def table_names(argsets: Sequence[Sequence[str]]) -> dict[int, str]:
    """Of argument sets of instructions, by position: the name by which the table of ops knows the instruction."""
    return {code: told[0] for code, argset in enumerate(argsets) if (told := told_in(argset[3]))}
