"""Attention that a library computes: its sizes, from what configures the call, and its operations.

XLA's own analysis counts nothing of custom calls. TransformerEngine's are configured in MLIR, those of cuDNN in JSON:
dimension numbers of the products, the shape of the scores, and the mask (`cudnn_fmha_backend_config`, as
`jax.nn.dot_product_attention` writes it).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from tracelens_graph.hlo.program import Instruction, Program

_NUMBER = re.compile(r"\b(\w+) = (-?\d{1,18}) : i64")
_CAUSAL = (2, 3, 5)
"""Masks of TransformerEngine that leave out half of the products: causal, with padding, from the bottom right."""

_LARGEST = 1 << 40
"""No size is as large; what a damaged file holds may be."""


class Attention(NamedTuple):
    """The sizes of fused attention.

    Attributes:
        batch: sequences, as many as there is room for.
        n_q, heads_q: queries of a sequence, and their heads.
        n_kv, heads_kv: keys and values of a sequence, and their heads.
        d_qk, d_v: elements of a key and of a value of one head.
        causal: whether the mask leaves out half of the products.
    """

    batch: int
    n_q: int
    heads_q: int
    n_kv: int
    heads_kv: int
    d_qk: int
    d_v: int
    causal: bool

    @property
    def flops(self) -> int:
        """Operations of the forward pass; a multiply-add counts as two."""
        found = 2 * self.batch * self.heads_q * self.n_q * self.n_kv * (self.d_qk + self.d_v)
        return found // 2 if self.causal else found


TARGETS = re.compile(r"^(?:te_fused_attn_(?:forward|backward)|__cudnn\$fmha)")
"""Targets of custom calls of attention whose configuration is known."""

_TE_SIZES = (
    "input_batch", "q_max_seqlen", "attn_heads", "kv_max_seqlen", "num_gqa_groups", "qk_head_dim", "v_head_dim",
)  # fmt: skip
"""What TransformerEngine calls the sizes of attention, in the order of `Attention`."""


def attention_of(program: Program, one: Instruction) -> Attention | None:
    """The attention that a call of TransformerEngine or cuDNN computes, packed or not; None for anything else."""
    if not TARGETS.match(one.target):
        return None
    found = _of_cudnn(program, one) if one.target.startswith("__cudnn") else _of_transformer_engine(one)
    return found if found is not None and 0 < min(found[:-1]) <= max(found[:-1]) < _LARGEST else None


def attention_flops(program: Program, one: Instruction) -> int:
    """Operations of such a call; 0 where its sizes are not known."""
    found = attention_of(program, one)
    if found is None:
        return 0
    # Backward: the scores once more, then dV, dP, dQ and dK: five products where forward has two.
    return found.flops * 5 // 2 if _is_backward(one) else found.flops


def _is_backward(one: Instruction) -> bool:
    return "backward" in one.target.lower()


def _of_transformer_engine(one: Instruction) -> Attention | None:
    config = {name: int(value) for name, value in _NUMBER.findall(one.backend_config)}
    config.setdefault("num_gqa_groups", config.get("attn_heads", 0))
    if not all(name in config for name in _TE_SIZES):
        return None
    batch, n_q, heads_q, n_kv, heads_kv, d_qk, d_v = (config[name] for name in _TE_SIZES)
    return Attention(batch, n_q, heads_q, n_kv, heads_kv, d_qk, d_v, config.get("mask_type") in _CAUSAL)


# --- cuDNN ---------------------------------------------------------------------------------------------------------

_FORWARD = (("bmm1", "lhs"), ("bmm1", "rhs"), ("bmm2", "rhs"))
_BACKWARD = (("bmm1_grad_gemm1", "rhs"), ("bmm1_grad_gemm2", "rhs"), ("bmm2_grad_gemm2", "rhs"))
"""Products, and their sides, that queries, keys and values are in: the first three operands of a call."""


def _of_cudnn(program: Program, one: Instruction) -> Attention | None:
    """The attention of a call of cuDNN; None where its configuration does not say, or a window leaves out products."""
    try:
        config = json.loads(one.backend_config)
        config = config.get("cudnn_fmha_backend_config", config)
        operands = [operand.shape.dims for operand in program.operands(one)[:3]]
        sides = _BACKWARD if _is_backward(one) else _FORWARD
        q, k, v = (_axes(config, *side, dims) for side, dims in zip(sides, operands, strict=True))
        scores = tuple(map(int, (config.get("intermediate_tensor_shape") or {}).get("dimensions") or ()))
        causal = config.get("is_causal_mask") is True or str(config.get("mask_type", "")).endswith("CAUSAL")
        window = int(config.get("sliding_window_length") or 0)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    if _is_backward(one):  # there, other dimensions are summed over
        (*heads, n_q, d_qk), (*of_k, n_kv, _), (*_, d_v, _) = q, k, v
    else:
        (*heads, d_qk, n_q), (*of_k, _, n_kv), (*_, _, d_v) = q, k, v
    batch, heads_q = heads
    if len(scores) == 4:  # keys in pages have no sequences of their own
        batch, heads_q, n_q, n_kv = scores
    return None if 0 < window < n_kv else Attention(batch, n_q, heads_q, n_kv, of_k[1], d_qk, d_v, causal)


def _axes(config: Mapping[str, Any], product: str, side: str, dims: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Sizes of an operand of a product: batch, heads, what is summed over, and what is left.

    Raises:
        ValueError, KeyError, IndexError, TypeError: it has no such dimensions.
    """
    numbers = config[f"{product}_dot_dimension_numbers"]
    (summed,) = map(int, numbers[f"{side}_contracting_dimensions"])
    batch, heads = map(int, numbers[f"{side}_batch_dimensions"])
    (left,) = {0, 1, 2, 3} - {summed, batch, heads}
    if len(dims) != 4:
        raise ValueError("four dimensions are wanted")
    return dims[batch], dims[heads], dims[summed], dims[left]
