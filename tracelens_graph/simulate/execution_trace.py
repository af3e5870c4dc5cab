from __future__ import annotations
from typing import Any
from .host import Process


def execution_trace(process: Process) -> dict[str, Any]:
    return {}
