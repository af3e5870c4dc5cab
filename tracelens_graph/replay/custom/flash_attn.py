"""flash-attn: schemas of `flash_attn_interface.py`, as `torch.library.custom_op` infers them."""

from __future__ import annotations

from functools import partial

from tracelens_graph.replay.custom.entry import Shipped

_entry = partial(Shipped, imports=("flash_attn.flash_attn_interface",))
_RESULT = "-> (Tensor, Tensor, Tensor, Tensor)"

ENTRIES = (
    _entry(
        "flash_attn::_flash_attn_forward(Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, "
        "bool causal, SymInt window_size_left, SymInt window_size_right, float softcap, Tensor? alibi_slopes, "
        f"bool return_softmax) {_RESULT}",
        reference="flash_attention",
    ),
    _entry(
        "flash_attn::_flash_attn_varlen_forward(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, "
        "Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, float dropout_p, float softmax_scale, "
        "bool causal, SymInt window_size_left=-1, SymInt window_size_right=-1, float softcap=0., "
        "Tensor? alibi_slopes=None, bool return_softmax=False, Tensor? block_table=None, Tensor? leftpad_k=None, "
        f"Tensor? seqused_k=None, bool zero_tensors=False) {_RESULT}",
        fills={
            "cu_seqlens_q": {"fill": "rising", "high": "q.0"}, "cu_seqlens_k": {"fill": "rising", "high": "k.0"},
        },
        reference="flash_attention_packed",
        assumes={"cu_seqlens_q": "lengths of sequences are not recorded; all are alike"},
    ),
)  # fmt: skip
