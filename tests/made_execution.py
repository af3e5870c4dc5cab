"""Small execution traces made by hand, in every schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

OLD, NEW, WITH_STRIDES = "1.0.1", "1.0.3-chakra.0.0.4", "1.1.1-chakra.0.0.4"
SCHEMAS = (OLD, "1.0.2-chakra.0.0.4", NEW, "1.1.0-chakra.0.0.4", WITH_STRIDES, "2.7.0-unheard.of")
PROCESS, THREAD = 1, 2

Told = tuple[Any, Any, str, Any]
"""Value, shape, type and strides of an argument."""


def tensor(number: int, shape: Sequence[int] = (2, 3), storage: int = 0, dtype: str = "float") -> Told:
    """A tensor as an argument."""
    elements = 1
    strides: list[int] = []
    for size in reversed(shape):
        strides.insert(0, elements)
        elements *= size
    return [number, storage or number + 1000, 0, elements, 4, "cuda:0"], list(shape), f"Tensor({dtype})", strides


@dataclass
class Op:
    """A node of a made execution trace."""

    id: Any
    name: str = "aten::add"
    parent: Any = THREAD
    inputs: Sequence[Told] = ()
    outputs: Sequence[Told] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


_NONE = {"rf_id": 0, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 1, "fw_tid": 0, "op_schema": ""}
_TYPES = {"seq_id": "int64", "op_schema": "string"}


def node(op: Op, schema: str = WITH_STRIDES) -> dict[str, Any]:
    """The JSON object of a node."""
    facts = {**_NONE, **op.facts}
    parts = {"values": 0, "shapes": 1, "types": 2, "strides": 3}
    sides = {
        name: {part: [one[at] for one in told] for part, at in parts.items()}
        for name, told in (("input", op.inputs), ("output", op.outputs))
    }
    if schema == OLD:
        flat = {
            f"{name}s" if part == "values" else f"{name}_{part}": values
            for name, side in sides.items()
            for part, values in side.items()
            if part != "strides"
        }
        return {"name": op.name, "id": op.id, "parent": op.parent, **facts, **flat}
    if schema < "1.1.1":
        sides = {name: {part: side[part] for part in parts if part != "strides"} for name, side in sides.items()}
    attributes = [{"name": key, "type": _TYPES.get(key, "uint64"), "value": value} for key, value in facts.items()]
    return {
        "id": op.id, "name": op.name, "ctrl_deps": op.parent, "inputs": sides["input"], "outputs": sides["output"],
        "attrs": attributes,
    }  # fmt: skip


def special(schema: str = WITH_STRIDES, thread: int = THREAD, tid: int = 1) -> dict[str, Any]:
    """The node of a thread."""
    name = "[pytorch|profiler|execution_trace|thread]"
    return node(Op(thread, name, PROCESS, facts={"scope": 7, "tid": tid}), schema)


def process(schema: str = WITH_STRIDES) -> dict[str, Any]:
    """The node of the process."""
    return node(
        Op(PROCESS, "[pytorch|profiler|execution_trace|process]", PROCESS, facts={"scope": 7, "tid": 0}), schema
    )


def made(nodes: Iterable[dict[str, Any]], schema: str = WITH_STRIDES) -> dict[str, Any]:
    """A whole execution trace."""
    return {
        "schema": schema, "pid": 77, "time": "2026-01-02 03:04:05", "start_ts": 5, "nodes": list(nodes),
        "finish_ts": 9,
    }  # fmt: skip


def trace(ops: Iterable[Op], schema: str = WITH_STRIDES) -> bytes:
    """The file of some ops, which are given in the order in which they are written."""
    nodes = [special(schema), *(node(op, schema) for op in ops), process(schema)]
    return msgspec.json.encode(made(nodes, schema))
