"""What the file of an execution trace looks like, and what the first pass takes out of its JSON.

Schemas differ in where facts stand, so keys decide, not the version text. Up to 1.0.1 facts are keys of a node, and
arguments are flat lists; later facts are `attrs`, a list of name, type and value, and arguments stand in objects. An
attribute is known by its name while it is parsed, so that no dictionary is made of a node.
"""

from __future__ import annotations

import re
from functools import cache, reduce
from operator import or_
from typing import Any

import msgspec
from msgspec import Raw, Struct

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


FACTS = {"rf_id": 0, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 0, "fw_tid": 0}
"""Numbers known of a node -> what stands for none."""

SCHEMA = "op_schema"

FURTHER = (
    "kernel_backend", "kernel_file", "tensor_range", "collective_name", "dtype", "in_msg_nelems", "out_msg_nelems",
    "in_split_size", "out_split_size", "global_rank_start", "global_rank_stride", "pg_name", "pg_desc", "pg_size",
)  # fmt: skip
"""Further attributes that PyTorch writes."""


class Side(Struct, gc=False, frozen=True):
    """Arguments on one side of a node, from schema 1.0.2 on."""

    values: Raw = Raw()
    shapes: Raw = Raw()
    types: Raw = Raw()
    strides: Raw = Raw()


_NO_SIDE = Side()


class OldNode(Struct, gc=False, kw_only=True):
    """A node up to schema 1.0.1."""

    id: int
    name: str = ""
    parent: int
    rf_id: int = 0
    fw_parent: int = 0
    seq_id: int = -1
    scope: int = 0
    tid: int = 0
    fw_tid: int = 0
    op_schema: str = ""
    inputs: Raw = Raw()
    input_shapes: Raw = Raw()
    input_types: Raw = Raw()
    input_strides: Raw = Raw()
    outputs: Raw = Raw()
    output_shapes: Raw = Raw()
    output_types: Raw = Raw()
    output_strides: Raw = Raw()


class Attribute(Struct, gc=False, tag_field="name"):
    """An attribute of a node; each name has a class of its own."""


@cache
def attribute_classes(names: frozenset[str]) -> dict[type, str]:
    """Class of an attribute -> its name, for those that are known and some further ones."""
    attributes_known: list[tuple[str, Any]] = [*((name, int) for name in FACTS), (SCHEMA, str)]
    attributes_known += [(name, Any) for name in sorted({*FURTHER, *names} - {name for name, _ in attributes_known})]
    return {
        msgspec.defstruct(f"attribute_{place}", [("value", kind, FACTS.get(name, ""))], bases=(Attribute,), tag=name,
                          gc=False): name
        for place, (name, kind) in enumerate(attributes_known)
    }  # fmt: skip


class Decoders:
    """Decoders of lists of nodes.

    Attributes:
        attributes: class of an attribute -> its name.
        old: of nodes up to schema 1.0.1.
        new: of nodes since.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self.attributes = attribute_classes(names)
        union: Any = reduce(or_, self.attributes)
        new_node = msgspec.defstruct(
            "NewNode",
            [("id", int), ("name", str, ""), ("ctrl_deps", int), ("inputs", Side, _NO_SIDE),
             ("outputs", Side, _NO_SIDE), ("attrs", list[union])],
            gc=False, kw_only=True,
        )  # fmt: skip
        self.old = msgspec.json.Decoder(list[OldNode])
        self.new: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[new_node])  # type: ignore[valid-type]


@cache
def decoders(names: frozenset[str]) -> Decoders:
    """The decoders that know some further attributes."""
    return Decoders(names)
