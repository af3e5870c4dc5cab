"""What a range of NVTX is, by its text.

`torch.autograd.profiler.emit_nvtx` writes ops as `aten::mm, seq = 12, op_id = 34, sizes = [[2, 3], [3, 4]]`; what is
not known is left out. Hooks for layers, such as vLLM's, write a module as `{'Module': 'model.layers.0', ...}`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec

NO_END = "range without an end"
"""Category of what marks a moment, and of ranges that were open when the recording ended: counted and left out."""

_OP = re.compile(
    r"(?P<name>.*?)(?:, seq = (?P<seq>\d+))?(?:, op_id = (?P<id>\d+))?(?:, sizes = (?P<sizes>\[.*?\]))?"
    r"(?:, input_op_ids = .*)?"
)
_PLAIN_OP = re.compile(r"[A-Za-z_]\w*::\w|\w+Backward\d*$|autograd::engine")
_MODULE = re.compile(r"\{'Module': '([^']*)'")


def range_event(text: Any) -> dict[str, Any] | None:
    """Category, name and arguments of a range; None of one without a text."""
    if not text or not isinstance(text, str):
        return None
    if module := _MODULE.match(text):
        return {"cat": "python_function", "name": f"nn.Module: {module[1]}", "args": {}}
    if text.startswith("nn.Module: "):
        return {"cat": "python_function", "name": text, "args": {}}
    found = _OP.fullmatch(text)
    if found is None or not (found["id"] or found["seq"] or _PLAIN_OP.match(text)):
        return {"cat": "user_annotation", "name": text, "args": {}}
    args: dict[str, Any] = {}
    if found["seq"]:
        args["Sequence number"] = int(found["seq"])
    if found["sizes"]:
        with suppress(msgspec.MsgspecError):
            args["Input Dims"] = msgspec.json.decode(found["sizes"])
    return {"cat": "cpu_op", "name": found["name"], "args": args}
