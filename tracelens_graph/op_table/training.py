"""Losses, look-ups, steps of optimizers."""

from __future__ import annotations

from functools import partial

from tracelens_graph.op_table.entry import Rows, model, ops

_optimizer = partial(ops, sheet="Optimizer_fwd")


def _foreach(names: str) -> list[str]:
    return [f"aten::_foreach_{name}" for name in names.split()]


OPS: Rows = [
    # --- Losses --------------------------------------------------------------------------------------------------
    *ops(
        "CrossEntropyFunction", category="CrossEntropy_fwd", model=model("training.cross_entropy", tensors=(0, 1)),
        sheet="CrossEntropy_fwd", in_tracelens=True,
    ),
    *ops("CrossEntropyFunctionBackward", category="CrossEntropy_bwd"),
    *ops(
        "aten::nll_loss_forward", "aten::nll_loss2d_forward",
        model=model("training.loss_call", reduction=3, likelihood=True), sheet="CrossEntropy_fwd",
    ),
    *ops(
        "aten::nll_loss_backward", "aten::nll_loss2d_backward",
        model=model("training.likelihood_backward", tensors=(0, 1, 2)), sheet="CrossEntropy_bwd",
    ),
    *ops(
        "aten::mse_loss", "aten::smooth_l1_loss", "aten::huber_loss", model=model("training.loss_call", reduction=2),
        sheet="Loss_fwd",
    ),
    *ops(
        "aten::mse_loss_backward", "aten::smooth_l1_loss_backward", "aten::huber_loss_backward",
        model=model("training.difference_backward", tensors=(0, 1, 2)), sheet="Loss_bwd",
    ),
    # --- Look-ups ------------------------------------------------------------------------------------------------
    # `aten::embedding` calls `aten::index_select`, which does its work.
    *ops("aten::embedding", model=model("training.rows_call", indices=1), sheet="Embedding_fwd"),
    *ops("aten::index_select", model=model("training.rows_call", indices=2, dim=1), sheet="Embedding_fwd"),
    *ops("aten::gather", model=model("training.elements_by_index", tensors=(0, 2)), sheet="Embedding_fwd"),
    *ops("aten::scatter_add_", model=model("training.scattered_add", tensors=(0, 2)), sheet="Embedding_bwd"),
    *ops("aten::embedding_dense_backward", model=model("training.rows_put_back_call"), sheet="Embedding_bwd"),
    # --- Optimizers ----------------------------------------------------------------------------------------------
    *_optimizer("aten::_fused_adam_", model=model("training.fused_adam_call")),
    *_optimizer("aten::_fused_adamw_", model=model("training.fused_adam_call", decoupled=True)),
    *_optimizer("aten::_fused_sgd_", model=model("training.fused_sgd_call")),
    *_optimizer(
        *_foreach("abs clamp_max_ clamp_min_ div div_ exp maximum maximum_ minimum minimum_ mul mul_ neg neg_"),
        *_foreach("pow pow_ reciprocal_ sqrt sqrt_"), model=model("training.for_each_call", flops=1),
    ),
    # Two FLOPs, because the factor `alpha` is always applied.
    *_optimizer(*_foreach("add add_ sub sub_"), model=model("training.for_each_call", flops=2)),
    *_optimizer(
        *_foreach("addcdiv addcdiv_ addcmul addcmul_ lerp lerp_"), model=model("training.for_each_call", flops=3)
    ),
    *_optimizer(*_foreach("norm"), model=model("training.for_each_call", flops=2, writes=False)),
    *_optimizer(*_foreach("copy_ zero_"), model=model("training.for_each_call", flops=0, reads=False)),
]  # fmt: skip
