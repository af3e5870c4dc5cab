"""Sparse tensors, of which a trace has sizes and dtype alone."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tracelens_graph.replay.arguments import Fill, TensorValue
from tracelens_graph.replay.call import Call

_SHARE = 10
"""One in so many places has an entry."""
_MERGES = "aten::_coalesce"
"""Merges entries at one place; it is called for tensors alone of which that is not known to be done."""


def filled_sparse(tensor: TensorValue, call: Call) -> TensorValue:
    """A sparse tensor with its entries: as many as it was made with, if the trace shows that, else a guess.

    Args:
        tensor: the tensor.
        call: the call that takes it.
    """
    shape = tensor.shape
    options: dict[str, int] = {"entries": max(prod(shape) // _SHARE, min(prod(shape), 1))}
    if tensor.layout == "sparse_coo":
        if made := call.around.sparse_made(shape):
            sparse, options["entries"] = made
            if sparse < len(shape):
                options["dense"] = len(shape) - sparse
        if _MERGES in (call.op, *call.around.children):
            options["coalesced"] = False
            options["entries"] = max(options["entries"], min(prod(shape), 2))
    return replace(tensor, fill=Fill("normal", options))
