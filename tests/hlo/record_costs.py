"""Compile functions with JAX on the CPU, and keep their programs with what XLA says that they cost.

pip install jax
python tests/hlo/record_costs.py

`costs.zip` holds those that the rules were made on, or looked at with; `unseen.zip` those that came later; `calls.zip`
those that call libraries. Names of these after the program record them alone.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from unseen_functions import UNSEEN

F32 = jnp.float32
_NAMES = {"flops": "flops", "transcendentals": "transcendentals", "bytes accessed": "bytes"}


def S(*sizes: int, t: Any = F32) -> jax.ShapeDtypeStruct:  # noqa: N802
    return jax.ShapeDtypeStruct(sizes, t)


FUNCTIONS: dict[str, Any] = {
    "add": (lambda x, y: x + y, S(64, 64), S(64, 64)),
    "dot": (lambda x, y: x @ y, S(64, 128), S(128, 32)),
    "dotb": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), S(4, 64, 128), S(4, 128, 32)),
    "softmax": (lambda x: jax.nn.softmax(x), S(32, 100)),
    "gelu": (lambda x: jax.nn.gelu(x), S(32, 100)),
    "ln": (lambda x: (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5), S(32, 100)),
    "conv": (lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"), S(2, 3, 16, 16), S(8, 3, 3, 3)),
    "convs": (lambda x, k: lax.conv_general_dilated(x, k, (2, 2), "VALID"), S(2, 3, 17, 17), S(8, 3, 3, 3)),
    "convd": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), [(1, 1), (1, 1)], lhs_dilation=(2, 2)),
        S(2, 3, 8, 8),
        S(8, 3, 3, 3),
    ),
    "convr": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), [(2, 2), (2, 2)], rhs_dilation=(2, 2)),
        S(2, 3, 16, 16),
        S(8, 3, 3, 3),
    ),
    "convg": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME", feature_group_count=3),
        S(2, 3, 16, 16),
        S(6, 1, 3, 3),
    ),
    "conv1": (
        lambda x, k: lax.conv_general_dilated(x, k, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")),
        S(2, 50, 4),
        S(5, 4, 8),
    ),
    "conv3": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 2, 2), [(1, 1)] * 3),
        S(1, 4, 8, 10, 12),
        S(8, 4, 1, 2, 2),
    ),
    "convgrad": (
        jax.grad(lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME").sum(), argnums=(0, 1)),
        S(2, 3, 16, 16),
        S(8, 3, 3, 3),
    ),
    "sum": (lambda x: x.sum(), S(64, 64)),
    "sum0": (lambda x: x.sum(0), S(64, 64)),
    "max": (lambda x: x.max(1), S(64, 64)),
    "argmax": (lambda x: x.argmax(1), S(64, 64)),
    "cumsum": (lambda x: jnp.cumsum(x, 1), S(64, 64)),
    "sort": (
        lambda x: jnp.sort(x),
        S(
            1000,
        ),
    ),
    "take": (lambda x, i: x[i], S(1000, 64), S(7, t=jnp.int32)),
    "takef": (lambda x, i: x[i] * 2, S(1000, 64), S(7, t=jnp.int32)),
    "scatter": (lambda x, i, u: x.at[i].add(u), S(1000, 64), S(7, t=jnp.int32), S(7, 64)),
    "dus": (lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)), S(1000, 64), S(3, 64), S(t=jnp.int32)),
    "ds": (lambda x, i: lax.dynamic_slice(x, (i, 0), (5, 64)), S(1000, 64), S(t=jnp.int32)),
    "slice": (lambda x: x[10:20] + 1, S(1000, 64)),
    "concat": (lambda x, y: jnp.concatenate([x, y]), S(10, 64), S(20, 64)),
    "transpose": (lambda x: x.T + 0.0, S(100, 64)),
    "cast": (lambda x: x.astype(jnp.bfloat16), S(100, 64)),
    "where": (lambda x, y: jnp.where(x > 0, x, y), S(100, 64), S(100, 64)),
    "exp": (lambda x: jnp.exp(x) + jnp.sin(x) * jnp.tanh(x), S(100, 64)),
    "pow": (lambda x: x**2.5, S(100, 64)),
    "scan": (lambda x, w: lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=5)[0], S(8, 16), S(16, 16)),
    "while": (lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x)), S(8, 16)),
    "cond": (lambda p, x: lax.cond(p, lambda x: x @ x, lambda x: x + 1, x), S(t=jnp.bool_), S(16, 16)),
    "mlp": (lambda x, a, b: jax.nn.relu(x @ a) @ b, S(32, 64), S(64, 128), S(128, 64)),
    "mlpgrad": (
        jax.grad(lambda x, a, b: (jax.nn.relu(x @ a) @ b).sum(), argnums=(1, 2)),
        S(32, 64),
        S(64, 128),
        S(128, 64),
    ),
    "xent": (
        lambda x, y: -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean(),
        S(32, 100),
        S(32, t=jnp.int32),
    ),
    "rms": (lambda x, g: x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g, S(32, 100), S(100)),
    "maxpool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        S(2, 16, 16, 3),
    ),
    "avgpool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9, S(2, 16, 16, 3)),
    "pad": (lambda x: jnp.pad(x, 1), S(32, 32)),
    "iota": (lambda x: x + jnp.arange(100.0), S(32, 100)),
    "bcast": (
        lambda x: jnp.broadcast_to(x, (50, 100)) * 2,
        S(
            100,
        ),
    ),
    "adam": (
        lambda p, m, v, g: (
            p - 0.1 * (0.9 * m + 0.1 * g) / (jnp.sqrt(0.99 * v + 0.01 * g * g) + 1e-8),
            0.9 * m + 0.1 * g,
            0.99 * v + 0.01 * g * g,
        ),
        S(100, 64),
        S(100, 64),
        S(100, 64),
        S(100, 64),
    ),
    "var": (lambda x: x.var(), S(64, 64)),
    "norm": (lambda x: jnp.linalg.norm(x), S(64, 64)),
    "outer": (
        lambda x, y: jnp.outer(x, y),
        S(
            64,
        ),
        S(
            32,
        ),
    ),
    "matvec": (
        lambda x, y: x @ y,
        S(64, 64),
        S(
            64,
        ),
    ),
    "int": (lambda x, y: (x * y) % 7, S(64, 64, t=jnp.int32), S(64, 64, t=jnp.int32)),
    "bits": (lambda x: (x << 3) ^ (x >> 2), S(64, 64, t=jnp.uint32)),
    "erf": (lambda x: jax.scipy.special.erf(x), S(64, 64)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, 1), S(64, 64)),
    "rng": (lambda k: jax.random.normal(jax.random.wrap_key_data(k), (64, 64)), S(2, t=jnp.uint32)),
    "attn": (
        lambda q, k, v: jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k) / 8) @ v,
        S(2, 4, 16, 8),
        S(2, 4, 16, 8),
        S(2, 4, 16, 8),
    ),
    "emb": (lambda t, i: t[i].sum(1), S(500, 32), S(4, 10, t=jnp.int32)),
    "onehot": (lambda i: jax.nn.one_hot(i, 50), S(32, t=jnp.int32)),
    "rev": (lambda x: x[::-1] * 2, S(32, 100)),
    "clip": (lambda x: jnp.clip(x, 0, 1), S(32, 100)),
    "cplx": (lambda x: jnp.abs(x + 1j * x), S(32, 100)),
}


CALLS: dict[str, Any] = {
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T) + 1, S(8, 8)),
    "eigenvalues": (lambda x: jnp.linalg.eigvalsh(x), S(8, 8)),
    "qr": (lambda x: jnp.linalg.qr(x)[1], S(8, 8)),
    "solve": (lambda x, y: jnp.linalg.solve(x, y), S(8, 8), S(8)),
    "top_k": (lambda x: lax.top_k(jnp.exp(x), 3)[0], S(4, 64)),
}


def keep(functions: dict[str, Any], target: Path) -> None:
    costs = {}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (function, *arguments) in sorted(functions.items()):
            compiled = jax.jit(function).lower(*arguments).compile()
            told = compiled.cost_analysis()
            costs[name] = {ours: int(told.get(theirs, 0)) for theirs, ours in _NAMES.items()}
            (module,) = compiled.runtime_executable().hlo_modules()
            archive.writestr(
                zipfile.ZipInfo(f"{name}.hlo"), module.as_serialized_hlo_module_proto(), zipfile.ZIP_DEFLATED
            )
        archive.writestr(zipfile.ZipInfo("costs.json"), json.dumps(costs), zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    here = Path(__file__).parent
    kept = {"costs": FUNCTIONS, "unseen": UNSEEN, "calls": CALLS}
    for which in sys.argv[1:] or kept:
        keep(kept[which], here / f"{which}.zip")
