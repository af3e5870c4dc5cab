"""Sparse tensors, of which a trace has sizes and dtype alone."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tracelens_graph.replay.arguments import Fill, TensorValue

_SHARE = 10
"""One in so many places has an entry."""


_WITH_DOUBLES = frozenset({"coalesce", "_coalesce"})
"""Ops that merge entries at one place, and want some."""


def filled_sparse(tensor: TensorValue, op: str) -> TensorValue:
    """A sparse tensor with a guess of its entries.

    Args:
        tensor: the tensor.
        op: name of the op that takes it, without namespace.
    """
    entries = max(prod(tensor.shape) // _SHARE, min(prod(tensor.shape), 1))
    options: dict[str, int] = {"entries": entries}
    if op in _WITH_DOUBLES and tensor.layout == "sparse_coo":
        options["coalesced"] = False
    return replace(tensor, fill=Fill("normal", options))
