"""A property of nodes or edges in a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Type = Literal["int", "float", "str", "bool", "strs"]
"""Type of a property; `strs` is a list of texts."""


@dataclass(frozen=True)
class Stored:
    """A property of nodes or edges in the database."""

    name: str
    type: Type
    meaning: str
    unit: str = ""
