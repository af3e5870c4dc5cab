"""What the file of an execution trace looks like: where its nodes are, and how one begins."""

from __future__ import annotations

import re

from tracelens_graph.loaders.kineto.chunks import Layout

NODE_KEYS = frozenset((
    "id", "name", "ctrl_deps", "parent", "inputs", "outputs", "attrs", "rf_id", "fw_parent", "seq_id", "scope", "tid",
    "fw_tid", "op_schema", "input_shapes", "input_types", "input_strides", "output_shapes", "output_types",
    "output_strides",
))  # fmt: skip
"""Keys of a node, in all schemas."""

# Attributes have a name, too, and behind it a type; their lists stand inside of nodes.
_KEYS = "|".join(sorted(NODE_KEYS - {"name"}))
_FIRST = (
    rf'\{{\s*+"(?:(?:{_KEYS})"\s*+:|name"\s*+:\s*+"[^"\\]*+(?>(?:\\.[^"\\]*+){{0,64}})"\s*+,\s*+"(?:{_KEYS})"\s*+:)'
)

_NODE = re.compile(rf"\s*+{_FIRST}".encode(), re.DOTALL)
NODE_BEGIN = re.compile(rf"(?:\A|\}})[\s,]*+(?P<node>{_FIRST})".encode(), re.DOTALL)


def begins_node(text: bytes) -> bool:
    """Whether a text begins as a node does that has an id."""
    return bool(_NODE.match(text)) and b'"id"' in text


def _found(head: bytes, whole: bool) -> str | None:
    if b'"traceEvents"' in head:
        return "is a profiler's trace, not an execution trace: are the two swapped?"
    return "is an execution trace without a list `nodes`" if whole else None


NODES = Layout(
    "nodes",
    re.compile(rf"\}}\s*,\s*{_FIRST}".encode(), re.DOTALL),
    frozenset(("schema", "pid", "time", "start_ts", "finish_ts")),
    _found,
)
