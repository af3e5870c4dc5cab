"""Reductions, scans, softmax, selections of the largest, pooling."""

from __future__ import annotations

from functools import partial
from typing import Any

from tracelens_graph.op_table.entry import Rows, model, ops


def _reduce(*names: str, reader: str = "reduction.Reduction", in_tracelens: bool = True, **parameters: Any) -> Rows:
    return ops(
        *names,
        category="reduce" if in_tracelens else None,
        model=model(reader, **parameters),
        sheet="Reduce_fwd",
        backward=model(reader, **parameters, backward=True),
        in_tracelens=in_tracelens,
    )


_more = partial(_reduce, in_tracelens=False)

OPS: Rows = [
    # `kind` is what TraceLens shows as reduce_type.
    *_reduce("aten::sum", kind="sum", dtype=3, widens=True),
    *_reduce("aten::mean", kind="mean", dtype=3),
    *_reduce("aten::max", kind="max", single=True, indices=True, pairs=True),
    *_reduce("aten::min", kind="min", single=True, indices=True, pairs=True),
    *_reduce("aten::amax", kind="max"),
    *_reduce("aten::amin", kind="min"),
    *_reduce("aten::norm", "aten::linalg_norm", kind="norm", dims=2),
    *_reduce("aten::std", "aten::var", "aten::logsumexp", kind="sum"),
    *_reduce("aten::cumsum", "aten::cumprod", reader="reduction.scan_call"),
    *_more("aten::argmax", kind="max", single=True, result="long"),
    *_more("aten::argmin", kind="min", single=True, result="long"),
    *_more("aten::all", kind="all", single=True, result="bool"),
    *_more("aten::any", kind="any", single=True, result="bool"),
    *_more("aten::prod", kind="prod", single=True, dtype=3, widens=True),
    *_more("aten::linalg_vector_norm", kind="norm", dims=2, dtype=4),
    *_more("aten::count_nonzero", kind="sum", single=True, result="long"),
    *ops("aten::topk", model=model("reduction.top_call"), sheet="Reduce_fwd"),
    *ops("aten::sort", model=model("reduction.sort_call"), sheet="Reduce_fwd"),
    *ops("aten::_softmax", "aten::_log_softmax", model=model("reduction.softmax_call"), sheet="Softmax_fwd"),
    *ops(
        "aten::_softmax_backward_data", "aten::_log_softmax_backward_data",
        model=model("reduction.softmax_backward_call"), sheet="Softmax_bwd",
    ),
    # --- Pooling ---------------------------------------------------------------------------------------------------
    *ops(
        "aten::max_pool2d_with_indices", "aten::max_pool3d_with_indices",
        model=model("reduction.pooling_call", dilation=4, ceil=5, indices=True), sheet="Pooling_fwd",
    ),
    *ops(
        "aten::avg_pool2d", "aten::avg_pool3d", sheet="Pooling_fwd",
        model=model("reduction.pooling_call", dilation=None, ceil=4, indices=False),
    ),
    *ops(
        "aten::max_pool2d_with_indices_backward", "aten::max_pool3d_with_indices_backward",
        model=model("reduction.max_pool_backward", tensors=(0, 1, 7)), sheet="Pooling_bwd",
    ),
]  # fmt: skip
