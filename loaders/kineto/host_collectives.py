"""Collectives that ran on the host, with gloo or MPI: what the spans of these backends say of them.

PyTorch records no process group with them, only what they were called with. The thread tells the group where several
are possible (`graph.collectives`).
"""

from __future__ import annotations

from math import prod
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from tracelens_graph.graph.collective_kinds import HOST_BACKENDS, kind_of
from tracelens_graph.loaders.kineto.records import CollectiveArgs


class _Args(Struct, gc=False, rename={"dims": "Input Dims", "types": "Input type"}):
    dims: Any = None
    types: Any = None


class _Span(Struct, gc=False):
    tid: int | str | None = None
    args: _Args = field(default_factory=_Args)


_BEGINNINGS = tuple(f"{backend}:" for backend in HOST_BACKENDS)
_SPAN = msgspec.json.Decoder(_Span)


def is_host_collective(name: str) -> bool:
    """Whether an annotation is the span in which a backend ran a collective on the host."""
    return name.startswith(_BEGINNINGS)


def arguments(name: str, event: Raw) -> dict[str, Any]:
    """Arguments of a collective on the host: kind, type and number of elements, and the thread that ran it.

    Args:
        name: name of its span, such as `gloo:all_reduce`.
        event: the span as the file has it.
    """
    found = CollectiveArgs(kind=kind_of(name.partition(":")[2]))
    if found.kind == "all_to_all":
        found.kind = "all_to_allv"  # Both are called so here, and their split sizes are not recorded.
    try:
        span = _SPAN.decode(event)
    except (msgspec.MsgspecError, RecursionError):
        return msgspec.structs.asdict(found)
    args = span.args
    if found.kind == "barrier":
        found.in_elements = 0
    if isinstance(args.dims, list) and args.dims:
        counts = [_elements(dims) for dims in args.dims]
        known = [count for count in counts if count is not None]
        if len(known) == len(counts) and sum(known) < 2**63:
            found.in_elements = sum(known)
    if isinstance(args.types, list) and args.types and isinstance(args.types[0], str):
        found.dtype = args.types[0]
    return {**msgspec.structs.asdict(found), "thread": span.tid}


def _elements(dims: Any) -> int | None:
    """Number of elements of a tensor, or of a list of tensors; None where it is not clear."""
    if not isinstance(dims, list):
        return None
    if all(isinstance(one, list) for one in dims) and dims:
        parts = [_elements_of_one(one) for one in dims]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None
    return _elements_of_one(dims)


def _elements_of_one(dims: list[Any]) -> int | None:
    is_shape = all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in dims)
    return prod(dims) if is_shape else None
