"""Convolutions and pooling."""

from __future__ import annotations

from functools import partial

from tracelens_graph.op_table.entry import Rows, model, ops

_forward = partial(ops, category="CONV_fwd", sheet="CONV_fwd", in_tracelens=True)
_backward = partial(ops, category="CONV_bwd", sheet="CONV_bwd", in_tracelens=True)

OPS: Rows = [
    *_forward(
        "aten::convolution",
        model=model("convolution.forward_call"),
        backward=model("convolution.backward_of_forward_call"),
    ),
    *_backward("aten::convolution_backward", model=model("convolution.backward_call")),
    # What `aten::convolution` calls; it has the cost.
    *ops("aten::miopen_convolution", "aten::cudnn_convolution", category="CONV_fwd"),
    # Apex.
    *_forward(
        "ConvBias_",
        "ConvBiasReLU_",
        model=model("convolution.apex_forward_call"),
        backward=model("convolution.apex_backward_of_forward_call"),
    ),
    *_backward("ConvBias_Backward", "ConvBiasReLU_Backward", model=model("convolution.apex_backward_call")),
    # Pooling.
    *ops(
        "aten::max_pool2d_with_indices",
        "aten::max_pool3d_with_indices",
        model=model("reduction.Pooling", dilation=4, ceil=5, indices=True),
        sheet="Pooling_fwd",
    ),
    *ops(
        "aten::avg_pool2d",
        "aten::avg_pool3d",
        model=model("reduction.Pooling", dilation=None, ceil=4, indices=False),
        sheet="Pooling_fwd",
    ),
    *ops(
        "aten::max_pool2d_with_indices_backward",
        "aten::max_pool3d_with_indices_backward",
        model=model("reduction.max_pool_backward", tensors=(0, 1, 7)),
        sheet="Pooling_bwd",
    ),
]
