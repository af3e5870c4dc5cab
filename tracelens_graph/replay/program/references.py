"""Custom operations of serving libraries in plain torch: what they compute, by which their programs are checked.

A program gets the functions that it needs as text. Each computes in fp32 and rounds once, so that it is near the
operation, not equal to it to the bit.
"""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

# What stands below goes into programs.


def rms_norm(result: Tensor, input: Tensor, weight: Tensor, epsilon: float, is_gemma: Any = False) -> None:
    """Each row by its root mean square, times the weight; Gemma's weights are less by one."""
    rows = input.float()
    scaled = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + epsilon)
    result.copy_(scaled * (weight.float() + (is_gemma is True)))


def rms_norm_result(input: Tensor, weight: Tensor, epsilon: float, *_: Any) -> Tensor:
    """As `rms_norm`, into a new tensor."""
    result = torch.empty_like(input)
    rms_norm(result, input, weight, epsilon)
    return result


def fused_add_rms_norm(input: Tensor, residual: Tensor, weight: Tensor, epsilon: float, *_: Any) -> None:
    """The sum of both into the residual, and its norm into the input."""
    residual.add_(input)
    rms_norm(input, residual, weight, epsilon)


def add_rms_norm(
    out: Tensor, input: Tensor, before: Tensor, after: Tensor, weight: Tensor, epsilon: float, is_gemma: Any = False,
    *_: Any,
) -> None:  # fmt: skip
    """The sum of both into another residual, and its norm into the result."""
    after.copy_(input.float() + before)
    rms_norm(out, after, weight, epsilon, is_gemma)


def rotary_embedding(
    positions: Tensor, query: Tensor, key: Tensor | None, head_size: int, cos_sin_cache: Tensor, is_neox: bool
) -> None:
    """Turn pairs of each head in place: halves of it, or neighbours."""
    cos, sin = cos_sin_cache[positions.flatten()].float()[:, None].chunk(2, -1)
    for heads in (one.view(len(cos), -1, head_size) for one in (query, key) if one is not None):
        turned = heads[..., : 2 * cos.shape[-1]]
        x, y = turned.chunk(2, -1) if is_neox else (turned[..., ::2], turned[..., 1::2])
        new_x, new_y = x.float() * cos - y.float() * sin, y.float() * cos + x.float() * sin
        x.copy_(new_x), y.copy_(new_y)


def silu_and_mul(result: Tensor, input: Tensor, *_: Any) -> None:
    """The SiLU of the first half of each row times the second half."""
    gate, up = input.float().chunk(2, -1)
    result.copy_(torch.nn.functional.silu(gate) * up)


def gelu_and_mul(result: Tensor, input: Tensor, *_: Any) -> None:
    """The GELU of the first half of each row times the second half."""
    gate, up = input.float().chunk(2, -1)
    result.copy_(torch.nn.functional.gelu(gate) * up)


def gelu_tanh_and_mul(result: Tensor, input: Tensor, *_: Any) -> None:
    """The same by the approximation with tanh."""
    gate, up = input.float().chunk(2, -1)
    result.copy_(torch.nn.functional.gelu(gate, approximate="tanh") * up)


def quantised(result: Tensor, input: Tensor, scale: Tensor, *_: Any) -> None:
    """Values over a scale, cut to what the dtype holds."""
    most = torch.finfo(result.dtype).max
    result.copy_((input.float() / scale).clamp(-most, most))


def quantised_whole(result: Tensor, input: Tensor, scale: Tensor) -> None:
    """The same by the scale that makes the greatest value the greatest of the dtype."""
    scale.copy_(input.float().abs().max() / torch.finfo(result.dtype).max)
    quantised(result, input, scale)


def quantised_by_row(result: Tensor, input: Tensor, scale: Tensor, most: Tensor | None = None) -> None:
    """The same by a scale for each row."""
    greatest = input.float().abs().amax(-1, keepdim=True)
    greatest = greatest if most is None else greatest.minimum(most)
    scale.copy_((greatest / torch.finfo(result.dtype).max).view(scale.shape))
    quantised(result, input, scale.view(greatest.shape))


def scaled_mm(out: Tensor, a: Tensor, b: Tensor, a_scales: Tensor, b_scales: Tensor, bias: Tensor | None) -> None:
    """A product of scaled matrices; scales are of the whole, of rows of the first, of columns of the second."""
    product = (a.float() @ b.float()) * a_scales.view(-1, 1) * b_scales.view(1, -1)
    out.copy_(product if bias is None else product + bias)


def scaled_mm_result(
    a: Tensor, b: Tensor, a_scales: Tensor, b_scales: Tensor, dtype: torch.dtype, bias: Tensor | None
) -> Tensor:
    """As `scaled_mm`, into a new tensor."""
    out = torch.empty(a.shape[0], b.shape[1], dtype=dtype, device=a.device)
    scaled_mm(out, a, b, a_scales, b_scales, bias)
    return out


def store_in_blocks(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slots: Tensor, kind: str, *scales: Tensor
) -> None:
    """Keys and values of tokens into their slots of a cache of blocks; one of 8 bits is scaled."""
    block, place = slots // key_cache.shape[1], slots % key_cache.shape[1]
    for new, cache, scale in zip((key, value), (key_cache, value_cache), scales, strict=True):
        stored = (new.float() / scale).to(torch.float8_e4m3fn).view(torch.uint8) if kind != "auto" else new
        cache.index_put_((block, place), stored.to(cache.dtype))


def store_in_rows(
    k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, indices: Tensor, *_: Any, **more: Any
) -> None:
    """Keys and values of tokens into their rows of a cache."""
    k_cache[indices], v_cache[indices] = k, v


def topk_softmax(
    weights: Tensor, indices: Tensor, places: Tensor, gating: Tensor, renormalize: bool = False,
    bias: Tensor | None = None, *_: Any,
) -> None:  # fmt: skip
    """The greatest probabilities of each token, their experts, and where (token, choice) stands among all choices."""
    shares = gating.float().softmax(-1)
    chosen = (shares if bias is None else shares + bias).topk(weights.shape[-1]).indices
    found = shares.gather(-1, chosen)
    weights.copy_(found / found.sum(-1, keepdim=True) if renormalize else found)
    indices.copy_(chosen)
    count = torch.arange(places.numel(), device=places.device)
    places.copy_(count.view(places.shape[1], places.shape[0]).t())


def fused_moe(x: Tensor, w1: Tensor, w2: Tensor, weights: Tensor, chosen: Tensor, *_: Any) -> Tensor:
    """Each token through its experts, gate and up by SiLU, and the weighted sum of what comes out."""
    out = torch.zeros_like(x, dtype=torch.float32)
    for expert in chosen.unique().tolist():
        token, choice = (chosen == expert).nonzero(as_tuple=True)
        gate, up = (x[token].float() @ w1[expert].float().t()).chunk(2, -1)
        down = (torch.nn.functional.silu(gate) * up) @ w2[expert].float().t()
        out.index_add_(0, token, down * weights[token, choice, None].float())
    return out.to(x.dtype)


def moe_sum(input: Tensor, output: Tensor) -> None:
    """The sum over the experts of each token."""
    output.copy_(input.float().sum(1))


def attended(
    q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool, left: int, right: int
) -> tuple[Tensor, Tensor]:
    """Attention of one sequence, (tokens, heads, size), the last query at the last key; and its log of sums."""
    q, k, v = (one.float().transpose(0, 1) for one in (q, k, v))
    k, v = (one.repeat_interleave(len(q) // len(one), 0) for one in (k, v))
    scores = scale * q @ k.transpose(1, 2)
    gap = torch.arange(k.shape[1], device=k.device) - torch.arange(q.shape[1], device=q.device)[:, None]
    gap = gap - (k.shape[1] - q.shape[1])
    hidden = (gap > (0 if causal else right if right >= 0 else k.shape[1])) | (
        gap < -(left if left >= 0 else k.shape[1])
    )
    scores = scores.masked_fill(hidden, float("-inf"))
    return (scores.softmax(-1).nan_to_num() @ v).transpose(0, 1), scores.logsumexp(-1)


def flash_attention(
    q: Tensor, k: Tensor, v: Tensor, dropout: float, scale: float, causal: bool, left: int, right: int, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention of sequences of one length, (sequences, tokens, heads, size), without dropout."""
    made = [attended(*one, scale, causal, left, right) for one in zip(q, k, v, strict=True)]
    out, sums = (torch.stack(one) for one in zip(*made, strict=True))
    return out.to(q.dtype), sums, q.new_empty(0), torch.zeros(2, dtype=torch.int64, device=q.device)


def flash_attention_packed(
    q: Tensor, k: Tensor, v: Tensor, starts_q: Tensor, starts_k: Tensor, most_q: int, most_k: int, dropout: float,
    scale: float, causal: bool, left: int = -1, right: int = -1, *_: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Attention of sequences one behind another, without dropout."""
    bounds = [[slice(*one) for one in pairwise(of)] for of in (starts_q.tolist(), starts_k.tolist())]
    made = [attended(q[a], k[b], v[b], scale, causal, left, right) for a, b in zip(*bounds, strict=True)]
    out, sums = torch.cat([one for one, _ in made]), torch.cat([one for _, one in made], 1)
    return out.to(q.dtype), sums, q.new_empty(0), torch.zeros(2, dtype=torch.int64, device=q.device)


def paged_attention(
    out: Tensor, workspace: Tensor, query: Tensor, key_cache: Tensor, value_cache: Tensor, starts: Tensor,
    pages: Tensor, last_page_lens: Tensor, *_: Any,
) -> None:  # fmt: skip
    """Attention of one query per sequence with the pages of its keys and values."""
    for at, (begin, end) in enumerate(pairwise(starts.tolist())):
        tokens = (end - begin - 1) * key_cache.shape[1] + int(last_page_lens[at])
        k, v = (cache[pages[begin:end].long()].flatten(0, 1)[:tokens] for cache in (key_cache, value_cache))
        out[at] = attended(query[at : at + 1], k, v, query.shape[-1] ** -0.5, False, -1, -1)[0][0]


def aiter_paged_attention(
    out: Tensor, workspace: Tensor, query: Tensor, key_cache: Tensor, value_cache: Tensor, starts: Tensor,
    pages: Tensor, last_page_lens: Tensor, slopes: Tensor | None, k_scale: Tensor, v_scale: Tensor,
    out_scale: Tensor | None,
) -> None:  # fmt: skip
    """The function of aiter, with what the trace does not record as SGLang passes it."""
    aiter: Any = import_module("aiter")
    parts = workspace.numel() // (last_page_lens.numel() * query.shape[1] * (4 * query.shape[2] + 8))
    aiter.paged_attention_ragged(
        out, workspace, query, key_cache, value_cache, query.shape[2] ** -0.5, starts, pages, last_page_lens,
        key_cache.shape[1], parts, slopes, "auto", "NHD", 0.0, k_scale, v_scale, out_scale,
    )  # fmt: skip
