"""Record a small transformer in JAX on the CPU: named scopes, gradients, rematerialisation, steps.

    pip install jax
    python examples/record_jax.py FOLDER

`traces/tiny-transformer-jax-cpu.xplane.pb.gz` beside this script was made by it.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax

WIDTH, TOKENS, BATCH, LAYERS = 64, 32, 4, 2

Weights = dict[str, jax.Array]


def attention(w: Weights, x: jax.Array) -> jax.Array:
    with jax.named_scope("attention"):
        q, k, v = x @ w["q"], x @ w["k"], x @ w["v"]
        return (jax.nn.softmax(q @ k.swapaxes(-1, -2) / WIDTH**0.5) @ v) @ w["o"]


def mlp(w: Weights, x: jax.Array) -> jax.Array:
    with jax.named_scope("mlp"):
        return jax.nn.gelu(x @ w["up"]) @ w["down"]


def block(w: Weights, x: jax.Array) -> jax.Array:
    x = x + attention(w, x)
    return x + mlp(w, x)


def loss(layers: list[Weights], x: jax.Array) -> jax.Array:
    for number, w in enumerate(layers):
        with jax.named_scope(f"layer_{number}"):
            x = jax.checkpoint(block)(w, x)
    return (x**2).mean()


@jax.jit
def train(layers: list[Weights], x: jax.Array) -> tuple[jax.Array, list[Weights]]:
    value, gradients = jax.value_and_grad(loss)(layers, x)
    return value, jax.tree.map(lambda p, g: p - 0.01 * g, layers, gradients)


def without_hosts(profile: bytes) -> bytes:
    """A profile without the names of the machines, which stand in field 4 at its end."""
    at = 0
    while at < len(profile) and profile[at] == 0x0A:
        size = shift = 0
        while True:
            at += 1
            size |= (profile[at] & 127) << shift
            shift += 7
            if profile[at] < 128:
                break
        at += 1 + size
    return profile[:at]


def main(folder: Path) -> None:
    sizes = dict.fromkeys("qkvo", (WIDTH, WIDTH)) | {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    keys = iter(jax.random.split(jax.random.key(0), LAYERS * len(sizes) + 1))
    layers = [{name: jax.random.normal(next(keys), size) * 0.05 for name, size in sizes.items()} for _ in range(LAYERS)]
    x = jax.random.normal(next(keys), (BATCH, TOKENS, WIDTH))
    jax.block_until_ready(train(layers, x))
    options: Any = jax.profiler.ProfileOptions()
    with tempfile.TemporaryDirectory() as scratch:
        with jax.profiler.trace(scratch, profiler_options=options):
            for step in range(3):
                with jax.profiler.StepTraceAnnotation("train", step_num=step):
                    with jax.profiler.TraceAnnotation("dispatch"):
                        value, layers = train(layers, x)
                    value.block_until_ready()
        (file,) = Path(scratch).rglob("*.xplane.pb")
        content = without_hosts(file.read_bytes())
    target = folder / "tiny-transformer-jax-cpu.xplane.pb.gz"
    target.write_bytes(gzip.compress(content, 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
