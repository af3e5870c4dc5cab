"""The link of a graph with an execution trace, as sections of its saved file.

The execution trace stands there in columns, too. Texts of arguments that occur more than once are written once; they
are sliced from the file when someone looks at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, overload

import numpy as np

from tracelens_graph.graph.execution.trace import Arguments, ExecutionTrace, ExecutionTraceInfo
from tracelens_graph.graph.joining.link import Link
from tracelens_graph.stores.sections import Sections, SectionWriter

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
        arguments = list(getattr(execution, side))
        for place, part in enumerate(Arguments._fields):
            _write_texts(writer, f"link.{side}.{part}", (bytes(one[place]) for one in arguments))
    facts = _Facts(
        link.method, link.equal_names_percent, dict(link.unjoined), execution.info, link.is_same_process,
        list(execution.more.items()),
    )  # fmt: skip
    writer.json("link.facts", asdict(facts))


def _write_texts(writer: SectionWriter, name: str, texts: Iterable[bytes]) -> None:
    codes: dict[bytes, int] = {}
    code = np.fromiter((codes.setdefault(text, len(codes)) for text in texts), np.int32)
    writer.array(name, code)
    writer.array(f"{name}.text", np.frombuffer(b"".join(codes), np.uint8))
    writer.array(f"{name}.ends", np.cumsum(np.fromiter(map(len, codes), np.int64, len(codes))))


def read_link(sections: Sections, rows: int) -> Link:
    """The link in a saved graph.

    Args:
        sections: the file.
        rows: rows of the graph.

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


class _Texts:
    """Texts by the place of their node."""

    def __init__(self, code: np.ndarray, text: np.ndarray, ends: np.ndarray) -> None:
        self._code, self._text = code, text
        self._bounds = np.concatenate(([0], ends))

    def __getitem__(self, at: int) -> bytes:
        code = self._code[at]
        return self._text[self._bounds[code] : self._bounds[code + 1]].tobytes()


class _SavedArguments(Sequence[Arguments]):
    """The arguments on one side of all nodes."""

    def __init__(self, parts: list[_Texts], size: int) -> None:
        self._parts, self._size = parts, size

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, at: int) -> Arguments: ...
    @overload
    def __getitem__(self, at: slice) -> list[Arguments]: ...
    def __getitem__(self, at: int | slice) -> Arguments | list[Arguments]:
        if isinstance(at, slice):
            return [self[place] for place in range(self._size)[at]]
        place = range(self._size)[at]
        return Arguments(*(part[place] for part in self._parts))


def _read_side(sections: Sections, side: str, size: int) -> _SavedArguments:
    parts = []
    for part in Arguments._fields:
        name = f"link.{side}.{part}"
        code, text, ends = (sections.array(one) for one in (name, f"{name}.text", f"{name}.ends"))
        fits = ends.ndim == 1 and (np.diff(ends, prepend=0) >= 0).all() and (ends[-1] if len(ends) else 0) == len(text)
        if not fits or code.shape != (size,) or (size and not 0 <= code.min() <= code.max() < len(ends)):
            raise sections.damaged(name)
        parts.append(_Texts(code, text, ends))
    return _SavedArguments(parts, size)
