"""Sparse tensors, of which a trace has sizes and dtype alone."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tracelens_graph.replay.arguments import Fill, TensorValue

_SHARE = 10
"""One in so many places has an entry."""


def filled_sparse(tensor: TensorValue) -> TensorValue:
    """A sparse tensor with a guess of its entries."""
    entries = max(prod(tensor.shape) // _SHARE, min(prod(tensor.shape), 1))
    return replace(tensor, fill=Fill("normal", {"entries": entries}))
