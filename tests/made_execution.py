"""Execution traces written by hand: small ones in every schema, and nodes inside one another with tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import msgspec

from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
from tracelens_graph.loaders.sources import open_source
from tracelens_graph.loading.one import load_core

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


SIDE = ("values", "shapes", "types", "strides")


@dataclass
class T:
    """A tensor: ids of itself and of its storage, and its form."""

    id: int
    storage: int
    shape: tuple[int, ...] = (4,)
    dtype: str = "float"
    size: int = 4
    offset: int = 0
    device: str = "cpu"
    strides: tuple[int, ...] | None = None

    @property
    def written(self) -> tuple[Any, ...]:
        """Value, shape, type, strides."""
        strides = self.strides
        if strides is None:
            strides = tuple(prod(self.shape[i + 1 :]) for i in range(len(self.shape)))
        value = [self.id, self.storage, self.offset, prod(self.shape), self.size, self.device]
        return value, list(self.shape), f"Tensor({self.dtype})", list(strides)


@dataclass
class Node:
    """A node and those inside of it; ids follow from the order in which they begin."""

    name: str
    inputs: Any = ()
    outputs: Any = ()
    schema: str = ""
    inside: list[Node] = field(default_factory=list)
    tid: int = 1


def argument(value: Any) -> tuple[Any, ...]:
    """Value, shape, type, strides of anything."""
    if isinstance(value, T):
        return value.written
    if isinstance(value, list):
        parts = [argument(one) for one in value]
        inner = ",".join(part[2] for part in parts)
        return [part[0] for part in parts], [part[1] for part in parts], f"GenericList[{inner}]", [p[3] for p in parts]
    return value, [], "Int", []


def _side(values: Any) -> Any:
    if isinstance(values, dict):
        return values
    rows = [argument(value) for value in values]
    return {key: [row[i] for row in rows] for i, key in enumerate(SIDE)}


def execution_of(*nodes: Node) -> ExecutionTrace:
    """The execution trace of nodes one after another; the process is row 0."""
    return load_execution_trace(open_source(execution_json(*nodes)))


def execution_json(*nodes: Node) -> dict[str, Any]:
    """The same as parsed JSON. Ids count from 2 on in the order in which nodes begin, and are record functions."""
    written: list[dict[str, Any]] = []
    count = 1

    def write(node: Node, parent: int) -> None:
        nonlocal count
        count += 1
        number = count
        for one in node.inside:
            write(one, number)
        attrs = [
            {"name": "rf_id", "type": "uint64", "value": number},
            {"name": "tid", "type": "uint64", "value": node.tid},
            {"name": "op_schema", "type": "string", "value": node.schema},
        ]
        sides = {"inputs": _side(node.inputs), "outputs": _side(node.outputs)}
        written.append({"id": number, "name": node.name, "ctrl_deps": parent, **sides, "attrs": attrs})

    for node in nodes:
        write(node, 1)
    empty = {"inputs": _side(()), "outputs": _side(()), "attrs": []}
    process = {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, **empty}
    return {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [*written, process]}


def linked_core(*nodes: Node) -> Core:
    """The nodes as the profiler has them, without arguments, linked with their execution trace; uids count from 0."""
    events: list[dict[str, Any]] = []
    clock = 0

    def write(node: Node) -> None:
        nonlocal clock
        clock += 1
        args = {"Record function id": len(events) + 2}
        event = {"ph": "X", "cat": "cpu_op", "name": node.name, "pid": 1, "tid": node.tid, "ts": clock, "args": args}
        events.append(event)
        for one in node.inside:
            write(one)
        clock += 1
        event["dur"] = clock - event["ts"]

    for node in nodes:
        write(node)
    return load_core({"schemaVersion": 1, "traceEvents": events}, et=execution_json(*nodes))
