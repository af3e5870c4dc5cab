"""Lines of a verdict with texts of their own, for tests of what is made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Line:
    topic: str
    text: str
    evidence: dict[str, Any] = field(default_factory=dict)
    ask_next: str = ""
    severity: str = "fact"
    advice: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
