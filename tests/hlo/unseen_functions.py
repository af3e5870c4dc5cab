"""Functions on which no rule of `graph.hlo.work` was made: compiled after the rules stood, and compared once."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def S(*sizes: int, t: Any = jnp.float32) -> jax.ShapeDtypeStruct:  # noqa: N802
    return jax.ShapeDtypeStruct(sizes, t)


def lstm_cell(x: jax.Array, h: jax.Array, c: jax.Array, w: jax.Array, u: jax.Array) -> tuple[jax.Array, jax.Array]:
    i, f, g, o = jnp.split(x @ w + h @ u, 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def rotary(x: jax.Array) -> jax.Array:
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[-2])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1)


def experts(x: jax.Array, gate: jax.Array, up: jax.Array) -> jax.Array:
    weight = jax.nn.softmax(x @ gate)
    return jnp.einsum("te,td,edf->tf", weight, x, up)


def causal(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    score = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.125
    mask = jnp.tril(jnp.ones(score.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, score, -1e9)), v)


def huber(x: jax.Array, y: jax.Array) -> jax.Array:
    d = jnp.abs(x - y)
    return jnp.where(d < 1, 0.5 * d * d, d - 0.5).mean()


def power_iteration(a: jax.Array, x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 7, lambda _, v: (a @ v) / jnp.linalg.norm(a @ v), x)


def focal(x: jax.Array, y: jax.Array) -> jax.Array:
    p = jax.nn.sigmoid(x)
    return -(y * (1 - p) ** 2 * jnp.log(p + 1e-6)).sum()


CONV = ("NHWC", "HWIO", "NHWC")
UNSEEN: dict[str, Any] = {
    "lstm": (lstm_cell, S(8, 32), S(8, 16), S(8, 16), S(32, 64), S(16, 64)),
    "rotary": (rotary, S(2, 4, 24, 16)),
    "experts": (experts, S(20, 16), S(16, 4), S(4, 16, 8)),
    "causal": (causal, *[S(2, 12, 3, 8)] * 3),
    "causal_gradient": (jax.grad(lambda *a: causal(*a).sum(), argnums=(0, 1, 2)), *[S(2, 12, 3, 8)] * 3),
    "huber": (huber, S(40, 11), S(40, 11)),
    "huber_gradient": (jax.grad(huber), S(40, 11), S(40, 11)),
    "power_iteration": (power_iteration, S(24, 24), S(24)),
    "focal": (jax.value_and_grad(focal), S(50, 7), S(50, 7)),
    "conv_nhwc": (
        lambda x, k: lax.conv_general_dilated(x, k, (2, 1), "SAME", dimension_numbers=CONV), S(2, 13, 9, 5),
        S(3, 2, 5, 7),
    ),
    "conv_transposed": (
        lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=CONV), S(1, 6, 7, 4), S(3, 3, 4, 5)
    ),
    "conv_depthwise_gradient": (
        jax.grad(lambda x, k: lax.conv_general_dilated(
            x, k, (1, 1), "VALID", dimension_numbers=CONV, feature_group_count=6).sum(), argnums=1),
        S(2, 9, 9, 6), S(3, 3, 1, 6),
    ),
    "batch_norm": (lambda x, g: (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-5) * g, S(4, 6, 6, 8), S(8)),
    "layer_norm_gradient": (
        jax.grad(lambda x: ((x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)).sum() ** 2),
        S(14, 48),
    ),
    "mish": (lambda x: x * jnp.tanh(jax.nn.softplus(x)), S(33, 17)),
    "swiglu": (lambda x, a, b, c: (jax.nn.silu(x @ a) * (x @ b)) @ c, S(12, 16), S(16, 40), S(16, 40), S(40, 16)),
    "bf16_dot": (
        lambda x, y: lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32),
        S(16, 32, t=jnp.bfloat16), S(32, 8, t=jnp.bfloat16),
    ),
    "int8_dot": (
        lambda x, y: lax.dot_general(x, y, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32),
        S(16, 32, t=jnp.int8), S(8, 32, t=jnp.int8),
    ),
    "tensordot": (lambda x, y: jnp.tensordot(x, y, ((1, 2), (0, 1))), S(5, 6, 7), S(6, 7, 8)),
    "product": (lambda x: x.prod(0), S(30, 21)),
    "any": (lambda x: (x > 0.5).any(1), S(30, 21)),
    "argmin": (lambda x: x.argmin(0), S(30, 21)),
    "cumprod": (lambda x: jnp.cumprod(x, 0), S(32, 9)),
    "quantile": (lambda x: jnp.sort(x, -1)[:, 10], S(16, 32)),
    "segments": (lambda x, i: jax.ops.segment_sum(x, i, 10), S(64, 8), S(64, t=jnp.int32)),
    "histogram": (lambda i: jnp.zeros(20, jnp.int32).at[i].add(1), S(100, t=jnp.int32)),
    "roll": (lambda x: jnp.roll(x, 3, 0) - x, S(40, 10)),
    "complex_product": (lambda x, y: x * y + jnp.conj(x), S(16, 16, t=jnp.complex64), S(16, 16, t=jnp.complex64)),
    "uniform": (
        lambda k: jax.random.uniform(jax.random.wrap_key_data(k), (100, 3)), S(2, t=jnp.uint32),
    ),
    "lamb": (
        lambda p, g, m: p - 0.01 * jnp.linalg.norm(p) / jnp.linalg.norm(m * 0.9 + g) * (m * 0.9 + g), *[S(60, 9)] * 3
    ),
    "interpolate": (lambda x: jax.image.resize(x, (16, 16, 3), "linear"), S(8, 8, 3)),
    "logaddexp": (lambda x, y: jnp.logaddexp(x, y) + jnp.expm1(x) * jnp.log1p(y * y), S(31, 13), S(31, 13)),
}  # fmt: skip
