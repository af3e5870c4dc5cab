"""From the JSON of an execution trace to its columns.

The schemas differ in where facts stand, so keys decide, not the version text: up to 1.0.1 they are keys of a node, and
arguments are flat lists; later most are `attrs`, a list of name, type and value, and arguments stand in objects.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw, Struct, UnsetType

from tracelens_graph.errors import NotATraceError
from tracelens_graph.graph.execution_trace import Arguments, ExecutionTrace, ExecutionTraceInfo
from tracelens_graph.loaders.sources import Source

_SPECIAL = "[pytorch|profiler|execution_"
"""How names of nodes begin that stand for the process or a thread."""


class _Attribute(Struct):
    name: str
    value: Any = None


class _Side(Struct):
    values: Raw = Raw()
    shapes: Raw = Raw()
    types: Raw = Raw()
    strides: Raw = Raw()


class _Node(Struct):
    id: int
    name: str = ""
    parent: int | UnsetType = UNSET
    ctrl_deps: int | UnsetType = UNSET
    inputs: Raw = Raw()
    outputs: Raw = Raw()
    input_shapes: Raw = Raw()
    input_types: Raw = Raw()
    input_strides: Raw = Raw()
    output_shapes: Raw = Raw()
    output_types: Raw = Raw()
    output_strides: Raw = Raw()
    rf_id: int = 0
    fw_parent: int = 0
    seq_id: int = -1
    scope: int = 0
    tid: int = 0
    fw_tid: int = 0
    op_schema: str = ""
    attrs: list[_Attribute] = []


class _File(Struct):
    nodes: list[_Node]
    schema: str = ""
    pid: int | None = None
    time: str = ""
    start_ts: int | None = None
    finish_ts: int | None = None


_FILE = msgspec.json.Decoder(_File)
_SIDE = msgspec.json.Decoder(_Side)
_COLUMNS = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid")
_EMPTY = ("", 0, None)


def load_execution_trace(source: Source) -> ExecutionTrace:
    """The execution trace in a file.

    Raises:
        NotATraceError: it is something else; the message says what.
        TraceError: it cannot be read.
    """
    with source.open() as stream:
        text = stream.read()
    try:
        file = _FILE.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotATraceError(f"{source.name}: is no execution trace: {error}") from None
    return _columns(file, source.name)


def _columns(file: _File, name: str) -> ExecutionTrace:
    nodes = file.nodes
    ids = np.array([node.id for node in nodes], np.int64)
    order = np.argsort(ids, kind="stable")
    facts: dict[str, list[Any]] = {key: [] for key in (*_COLUMNS, "op_schema")}
    more: dict[int, dict[str, Any]] = {}
    for row, at in enumerate(order.tolist()):
        node = nodes[at]
        said = {one.name: one.value for one in node.attrs}
        for key, values in facts.items():
            values.append(said.pop(key, None) if key in said else getattr(node, key))
        if said := {key: value for key, value in said.items() if value not in _EMPTY}:
            more[row] = said
    ids = ids[order]
    name_codes: dict[str, int] = {}
    schema_codes: dict[str, int] = {"": 0}
    names = [name_codes.setdefault(nodes[at].name, len(name_codes)) for at in order.tolist()]
    schemas = [schema_codes.setdefault(one, len(schema_codes)) for one in facts["op_schema"]]
    special = np.array([text.startswith(_SPECIAL) for text in name_codes], bool)
    parents = [node.parent if node.ctrl_deps is UNSET else node.ctrl_deps for node in nodes]
    parent = _rows_of(ids, np.array([-1 if one is UNSET else one for one in parents], np.int64)[order])
    parent[parent >= np.arange(len(ids))] = -1
    return ExecutionTrace(
        info=ExecutionTraceInfo(
            source=name, schema=file.schema, pid=file.pid, time=file.time, start_ms=file.start_ts,
            finish_ms=file.finish_ts, entries=len(nodes),
        ),
        names=list(name_codes),
        schemas=list(schema_codes),
        id=ids,
        name=np.array(names, np.int32),
        schema=np.array(schemas, np.int32),
        parent=parent,
        rf_id=np.array(facts["rf_id"], np.int64),
        sequence=np.array(facts["seq_id"], np.int64),
        scope=np.array(facts["scope"], np.int64),
        tid=np.array(facts["tid"], np.int64),
        forward_tid=np.array(facts["fw_tid"], np.int64),
        forward_parent=_rows_of(ids, np.array(facts["fw_parent"], np.int64)),
        place=order,
        is_op=~special[names] if names else np.zeros(0, bool),
        inputs=[_side(nodes[at], "input") for at in order.tolist()],
        outputs=[_side(nodes[at], "output") for at in order.tolist()],
        more=more,
    )  # fmt: skip


def _rows_of(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Rows of ids; -1 for those that there are not."""
    if not len(ids):
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[at] == wanted, at, -1)


def _side(node: _Node, side: str) -> Arguments:
    whole = getattr(node, f"{side}s")
    if bytes(memoryview(whole)[:1]) == b"{":
        found = _SIDE.decode(whole)
        return Arguments(bytes(found.values), bytes(found.shapes), bytes(found.types), bytes(found.strides))
    parts = (getattr(node, f"{side}_{part}") for part in ("shapes", "types", "strides"))
    return Arguments(bytes(whole), *map(bytes, parts))
