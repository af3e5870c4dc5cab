"""Formulas of products and of attention, called with sizes, without a trace.

Arguments and their order are TraceLens's; the numbers are those of `tracelens_graph.perf`, which has the formulas of
all families (`tracelens-graph model` asks them by name).
"""

# ruff: noqa: N803 (the names of arguments that users know)

from __future__ import annotations

from typing import Any

from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.families.attention import attention
from tracelens_graph.perf.families.gemm import gemm

__all__ = ["GEMM", "SDPA"]

_TWO_BYTES = "bf16"
"""The type that elements are counted with: its bytes are twice the elements, whatever tensor they are in."""


class GEMM:
    """A product of an (M, K) by a (K, N) matrix."""

    @staticmethod
    def flops_func(M: int, N: int, K: int, bias: bool) -> int:
        """Operations; a multiply-add counts as two, adding the bias as M N."""
        return gemm(int(M), int(N), int(K), bias=bool(bias)).flops

    @staticmethod
    def bytes_func(
        M: int,
        N: int,
        K: int,
        bias: bool,
        bpe_mat1: int | None,
        bpe_mat2: int | None,
        bpe_bias: int | None,
        bpe_output: int | None,
    ) -> int | None:
        """Bytes: both operands and the bias read once, the result written once. None if a size of elements is None.

        Args:
            bias: whether N numbers are added to each row.
            bpe_mat1, bpe_mat2, bpe_bias, bpe_output: bytes per element.
        """
        if bpe_mat1 is None or bpe_mat2 is None or bpe_bias is None or bpe_output is None:
            return None
        m, n, k = int(M), int(N), int(K)
        return m * k * bpe_mat1 + k * n * bpe_mat2 + m * n * bpe_output + (n * bpe_bias if bias else 0)


class SDPA:
    """Scaled dot-product attention of B sequences: N_Q queries of H_Q heads, N_KV keys and values of H_KV heads.

    The first seven arguments of all functions are sizes: B, N_Q, H_Q, N_KV, H_KV, width of a query and key, width of a
    value. `causal` masks keys behind the query; on a square it is taken as half of the pairs.
    """

    @staticmethod
    def flops_func(B: int, N_Q: int, H_Q: int, N_KV: int, H_KV: int, d_h_qk: int, d_h_v: int, causal: bool) -> int:
        """Operations of the two products."""
        return _cost(B, N_Q, H_Q, N_KV, H_KV, d_h_qk, d_h_v, causal).flops

    @staticmethod
    def bytes_func(
        B: int,
        N_Q: int,
        H_Q: int,
        N_KV: int,
        H_KV: int,
        d_h_qk: int,
        d_h_v: int,
        causal: bool,
        bytes_per_element: int | None,
    ) -> int | None:
        """Bytes of queries, keys, values and the result, each once. None if the size of elements is None."""
        return _bytes(_cost(B, N_Q, H_Q, N_KV, H_KV, d_h_qk, d_h_v, causal), bytes_per_element)

    @staticmethod
    def flops_bwd_func(
        B: int, N_Q: int, H_Q: int, N_KV: int, H_KV: int, d_h_qk: int, d_h_v: int, causal: bool, flash_impl: bool
    ) -> int:
        """Operations of the backward pass.

        Args:
            B, N_Q, H_Q, N_KV, H_KV, d_h_qk, d_h_v, causal: as in the class.
            flash_impl: whether the scores are computed anew, as fused implementations do.
        """
        sizes = B, N_Q, H_Q, N_KV, H_KV, d_h_qk
        scores = 0 if flash_impl else _cost(*sizes, 0, causal).flops
        return _cost(*sizes, d_h_v, causal, backward=True).flops - scores

    @staticmethod
    def bytes_bwd_func(
        B: int,
        N_Q: int,
        H_Q: int,
        N_KV: int,
        H_KV: int,
        d_h_qk: int,
        d_h_v: int,
        causal: bool,
        bytes_per_element: int | None,
    ) -> int | None:
        """Bytes of the backward pass: all tensors and their gradients, each once."""
        return _bytes(_cost(B, N_Q, H_Q, N_KV, H_KV, d_h_qk, d_h_v, causal, backward=True), bytes_per_element)


def _cost(*sizes_and_mask: Any, backward: bool = False) -> Cost:
    batch, n_q, heads_q, n_kv, heads_kv, dim_qk, dim_v = map(int, sizes_and_mask[:7])
    return attention(
        batch,
        n_q,
        n_kv,
        heads_q,
        dim_qk,
        heads_kv=heads_kv,
        dim_v=dim_v,
        causal=bool(sizes_and_mask[7]),
        dtype=_TWO_BYTES,
        backward=backward,
    )


def _bytes(cost: Cost, per_element: int | None) -> int | None:
    return None if per_element is None or cost.bytes is None else cost.bytes // 2 * per_element
