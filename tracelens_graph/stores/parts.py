"""Parts of a graph that not every graph has, as sections of its saved file: programs, collectives, an execution trace.

* All collectives of a group name its members, and a group has up to a hundred thousand of them. So lists and long texts
  stand once (`values`), and an event (`events`) holds its uid, its arguments in their order, null for each of these,
  and its place in `values`.
* An execution trace stands there in columns. Texts of arguments that occur more than once are written once; they are
  sliced from the file when someone looks at them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from sys import intern
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.execution.link import Link
from tracelens_graph.execution.sides import Arguments, Sides
from tracelens_graph.execution.trace import ExecutionTrace, ExecutionTraceInfo
from tracelens_graph.graph.programs import CompiledProgram, CompiledPrograms, code_type, source_type
from tracelens_graph.schema import Kind
from tracelens_graph.stores.sections import Sections, SectionWriter
from tracelens_graph.utils.arrays import Codes

_MOST = 2**63
"""The first number that does not fit into columns."""


def write_programs(writer: SectionWriter, programs: CompiledPrograms) -> None:
    """Write programs, which program each op belongs to, and the line of source that it comes from."""
    writer.json("programs", [asdict(one) for one in programs.listed])
    writer.array("programs.code", programs.code)
    writer.strings("programs.sources", programs.sources)
    writer.array("programs.source", (programs.source_place + 1).astype(source_type(len(programs.sources))))


def read_programs(sections: Sections, kind: Codes) -> CompiledPrograms:
    """The compiled programs in a saved graph.

    Raises:
        TraceError: they are damaged.
    """
    listed = tuple(sections.json("programs", list[CompiledProgram]))
    numbers = (
        value
        for one in listed
        for value in (
            one.instructions, one.replicas, one.partitions, *one.numbers, one.xla_flops, one.xla_transcendentals,
            one.xla_bytes,
        )
    )  # fmt: skip
    if not all(value is None or -_MOST <= value < _MOST for value in numbers):
        raise sections.damaged("programs")
    code = sections.array("programs.code")
    ops = np.count_nonzero(kind == Kind.Op)
    if code.shape != (ops,) or code.dtype != code_type(len(listed)):
        raise sections.damaged("programs.code")
    if ops and not 0 <= code.min() <= code.max() <= 2 * len(listed) + 1:
        raise sections.damaged("programs.code")
    sources, source = tuple(sections.strings("programs.sources")), sections.array("programs.source")
    if source.shape != (ops,) or source.dtype != source_type(len(sources)):
        raise sections.damaged("programs.source")
    if ops and not 0 <= source.min() <= source.max() <= len(sources):
        raise sections.damaged("programs.source")
    return CompiledPrograms(listed, code, sources, source)


_SECTION = "collectives"
_LONG = 32
"""Characters from which a text stands once."""

_TOO_LARGE = 2**63
"""The first whole number that does not fit into columns."""


class _Stored(msgspec.Struct):
    values: list[Any]
    events: list[tuple[int, dict[str, Any], dict[str, int]]]


def write_collectives(writer: SectionWriter, arguments: Mapping[int, Mapping[str, Any]]) -> None:
    """Write what collectives were called with, by the uid of their event."""
    values: list[Any] = []
    by_text: dict[str, int] = {}
    by_id: dict[int, int] = {}

    def place(value: Any) -> int:
        if id(value) not in by_id:  # most are one object, and the text of a list takes time
            at = by_text.setdefault(json.dumps(value), len(values))
            if at == len(values):
                values.append(value)
            by_id[id(value)] = at
        return by_id[id(value)]

    events = []
    for uid, args in arguments.items():
        placed = {key: place(value) for key, value in args.items() if _stands_once(value)}
        events.append((uid, {**args, **dict.fromkeys(placed)}, placed))
    writer.json(_SECTION, {"values": values, "events": events})


def read_collectives(sections: Sections) -> dict[int, dict[str, Any]]:
    """What `write_collectives` wrote; equal values are one object.

    Raises:
        TraceError: the section is damaged.
    """
    stored = sections.json(_SECTION, _Stored)
    if not all(
        0 <= uid < _TOO_LARGE and all(0 <= at < len(stored.values) for at in placed.values())
        for uid, _, placed in stored.events
    ):
        raise sections.damaged(_SECTION)
    # All collectives of a group say the same of it, on all ranks.
    values = [_shared(value) for value in stored.values]
    return {
        uid: {key: _shared(value) for key, value in args.items()} | {key: values[at] for key, at in placed.items()}
        for uid, args, placed in stored.events
    }


def _stands_once(value: Any) -> bool:
    """Whether a value may be long: a list of one group is, where that has many members."""
    return isinstance(value, list | tuple) or (isinstance(value, str) and len(value) >= _LONG)


def _shared(value: Any) -> Any:
    return intern(value) if isinstance(value, str) else value


_NUMBERS = {
    "id": "<i8", "name": "<i4", "schema": "<i4", "parent": "<i8", "rf_id": "<i8", "sequence": "<i8", "scope": "<i8",
    "tid": "<i8", "forward_tid": "<i8", "forward_parent": "<i8", "place": "<i8", "is_op": "|u1",
}  # fmt: skip
"""Columns of an execution trace, and their types in the file."""
_SIDES = ("inputs", "outputs")


@dataclass
class _Facts:
    """What is no column."""

    method: str
    equal_names_percent: float
    unjoined: dict[str, int]
    info: ExecutionTraceInfo
    is_same_process: bool | None = None
    more: list[tuple[int, dict[str, Any]]] = field(default_factory=list)


def write_link(writer: SectionWriter, link: Link) -> None:
    """Write a link and its execution trace."""
    execution = link.execution
    writer.array("link.node_of_row", link.node_of_row.astype("<i8"))
    for name, dtype in _NUMBERS.items():
        writer.array(f"link.{name}", getattr(execution, name).astype(dtype))
    writer.strings("link.names", execution.names)
    writer.strings("link.schemas", execution.schemas)
    for side in _SIDES:
        _write_side(writer, f"link.{side}", getattr(execution, side))
    facts = _Facts(
        link.method, link.equal_names_percent, dict(link.unjoined), execution.info, link.is_same_process,
        list(execution.more.items()),
    )  # fmt: skip
    writer.json("link.facts", asdict(facts))


def _write_side(writer: SectionWriter, name: str, sides: Sides) -> None:
    values, *parts = Arguments._fields
    _write_texts(writer, f"{name}.{values}", map(sides.values, range(len(sides))), np.arange(len(sides)))
    for place, part in enumerate(parts):
        _write_texts(writer, f"{name}.{part}", (form[place] for form in sides.forms), sides.form)


def _write_texts(writer: SectionWriter, name: str, texts: Iterable[bytes], of_node: np.ndarray) -> None:
    """Write texts, and for each node the number of its text: `of_node` says which of those given it is."""
    codes: dict[bytes, int] = {}
    code = np.fromiter((codes.setdefault(text, len(codes)) for text in texts), np.int32)
    writer.array(name, code[of_node])
    writer.array(f"{name}.text", np.frombuffer(b"".join(codes), np.uint8))
    writer.array(f"{name}.ends", np.cumsum(np.fromiter(map(len, codes), np.int64, len(codes))))


def read_link(sections: Sections, rows: int) -> Link:
    """The link in a saved graph.

    Raises:
        TraceError: the saved graph is damaged.
    """
    columns = {name: sections.array(f"link.{name}") for name in _NUMBERS}
    names, schemas = sections.strings("link.names"), sections.strings("link.schemas")
    n = len(columns["id"])
    within = {"name": (0, len(names)), "schema": (0, len(schemas)), "parent": (-1, n), "forward_parent": (-1, n)}
    for name, column in columns.items():
        low, high = within.get(name, (None, None))
        is_within = low is None or not n or (column.min() >= low and column.max() < high)
        if column.shape != (n,) or column.dtype != _NUMBERS[name] or not is_within:
            raise sections.damaged(f"link.{name}")
    if (np.diff(columns["id"]) < 0).any() or (columns["parent"] >= np.arange(n)).any():
        raise sections.damaged("link.parent")
    node_of_row = sections.array("link.node_of_row")
    joined = np.flatnonzero(node_of_row >= 0) if node_of_row.shape == (rows,) else None
    if joined is None or (node_of_row < -1).any() or (node_of_row >= n).any():
        raise sections.damaged("link.node_of_row")
    row_of_node = np.full(n, -1, np.int64)
    row_of_node[node_of_row[joined]] = joined
    facts = sections.json("link.facts", _Facts)
    numbers: dict[str, Any] = {**columns, "is_op": columns["is_op"].astype(bool)}
    execution = ExecutionTrace(
        info=facts.info,
        names=names,
        schemas=schemas,
        inputs=_read_side(sections, "inputs", n),
        outputs=_read_side(sections, "outputs", n),
        more=dict(facts.more),
        **numbers,
    )
    return Link(
        execution, node_of_row, row_of_node, facts.method, facts.equal_names_percent, facts.unjoined,
        facts.is_same_process,
    )  # fmt: skip


def _read_side(sections: Sections, side: str, size: int) -> Sides:
    values, *parts = Arguments._fields
    code, text, bounds = _read_texts(sections, f"link.{side}.{values}", size)
    read = [_read_texts(sections, f"link.{side}.{part}", size) for part in parts]
    combined = np.zeros(size, np.int64)
    for codes, _, ends in read:  # few differ, so that numbers stay small
        _, combined = np.unique(combined * len(ends) + codes, return_inverse=True)
    _, first, form = np.unique(combined, return_index=True, return_inverse=True)
    shapes, types, strides = (
        [part[ends[at] : ends[at + 1]].tobytes() for at in codes[first].tolist()] for codes, part, ends in read
    )
    forms = list(zip(shapes, types, strides, strict=True))
    return Sides(forms, form.reshape(-1).astype(np.int32), text, bounds[code], bounds[code + 1])


def _read_texts(sections: Sections, name: str, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The number of each node's text, all texts, and where each begins and the last one ends."""
    code, text, ends = (sections.array(one) for one in (name, f"{name}.text", f"{name}.ends"))
    fits = ends.ndim == 1 and (np.diff(ends, prepend=0) >= 0).all() and (ends[-1] if len(ends) else 0) == len(text)
    if not fits or code.shape != (size,) or (size and not 0 <= code.min() <= code.max() < len(ends)):
        raise sections.damaged(name)
    bounds = np.concatenate(([0], ends))
    sections.check_json(f"{name}.text", (text[begin:end].tobytes() for begin, end in pairwise(bounds.tolist())))
    return code, text, bounds
