"""Events of tools that are not known, such as VizTracer, read as functions of the host where that is asked for."""

from __future__ import annotations

import re
from typing import Any

FUNCTION = "python_function"
"""Category of a function in traces of PyTorch."""

_AT_LINE = re.compile(r"(?P<function>.+) \((?P<file>.+):(?P<line>\d+)\)")
"""How VizTracer names a function: `load (/home/me/train.py:12)`."""


def as_function(event: dict[str, Any]) -> dict[str, Any]:
    """The event as PyTorch's profiler would write it, with the line that its name holds, if it does.

    >>> as_function({"ph": "X", "cat": "fee", "name": "load (/home/me/train.py:12)"})["name"]
    '/home/me/train.py(12): load'
    """
    name = event.get("name", "")
    found = _AT_LINE.fullmatch(name) if isinstance(name, str) else None
    named = {"name": f"{found['file']}({found['line']}): {found['function']}"} if found else {}
    return event | named | {"cat": FUNCTION}
