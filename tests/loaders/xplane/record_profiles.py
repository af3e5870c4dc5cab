"""Record functions with JAX on the CPU, as on four devices, and keep their profiles and programs: `recorded.zip`.

    pip install jax
    python tests/loaders/xplane/record_profiles.py

Of each function there is its profile, of RUNS calls, and its program as JAX writes it (`Compiled.as_text()`).
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))
from record_jax import block, without_hosts

RUNS, LAYERS, WIDTH = 2, 3, 16


def stacked() -> tuple[Any, jax.Array]:
    sizes = dict.fromkeys("qkvo", (WIDTH, WIDTH)) | {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    keys = iter(jax.random.split(jax.random.key(0), len(sizes) + 1))
    layers = {name: jax.random.normal(next(keys), (LAYERS, *size)) * 0.05 for name, size in sizes.items()}
    return layers, jax.random.normal(next(keys), (2, 8, WIDTH))


def scanned() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A training step whose layers are a scan over stacked weights, each computed again for its gradient."""

    def loss(layers: Any, x: jax.Array) -> jax.Array:
        body = jax.checkpoint(lambda x, w: (block(w, x), None))
        with jax.named_scope("layers"):
            x, _ = lax.scan(body, x, layers)
        return (x**2).mean()

    def train(layers: Any, x: jax.Array) -> Any:
        value, gradients = jax.value_and_grad(loss)(layers, x)
        return value, jax.tree.map(lambda p, g: p - 0.01 * g, layers, gradients)

    return train, stacked()


def written_by_hand() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A kernel of Pallas, interpreted, between products."""

    def kernel(x: Any, y: Any, out: Any) -> None:
        out[...] = jnp.tanh(x[...] + y[...])

    def fused(x: jax.Array, y: jax.Array) -> jax.Array:
        with jax.named_scope("pallas"):
            added = pl.pallas_call(
                kernel, out_shape=jax.ShapeDtypeStruct((32, 16), jnp.float32), grid=(4,), interpret=True,
                in_specs=[pl.BlockSpec((8, 16), lambda i: (i, 0))] * 2,
                out_specs=pl.BlockSpec((8, 16), lambda i: (i, 0)),
            )(x, y)  # fmt: skip
        return added @ added.T

    x = jnp.ones((32, 16), jnp.float32)
    return fused, (x, x * 2)


def sharded() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Four devices that sum, gather, scatter and pass on."""
    mesh = Mesh(jax.devices(), ("d",))

    def work(x: jax.Array, w: jax.Array) -> jax.Array:
        with jax.named_scope("exchange"):
            y = lax.psum(x @ w, "d")
            whole = lax.all_gather(y, "d", tiled=True)
            part = lax.psum_scatter(jnp.sin(whole), "d", tiled=True)
            return lax.ppermute(part, "d", [(i, (i + 1) % 4) for i in range(4)])

    each = jax.shard_map(work, mesh=mesh, in_specs=(P("d"), P()), out_specs=P("d"), check_vma=False)
    x = jax.device_put(jnp.ones((16, 32), jnp.float32), NamedSharding(mesh, P("d")))
    return each, (x, jax.device_put(jnp.ones((32, 32), jnp.float32), NamedSharding(mesh, P())))


FUNCTIONS = {"scan": scanned, "pallas": written_by_hand, "shard_map": sharded}


def profile(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[bytes, str]:
    compiled = jax.jit(function).lower(*arguments).compile()
    jax.block_until_ready(compiled(*arguments))
    options: Any = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as scratch:
        with jax.profiler.trace(scratch, profiler_options=options):
            for step in range(RUNS):
                with jax.profiler.StepTraceAnnotation("train", step_num=step):
                    jax.block_until_ready(compiled(*arguments))
        (file,) = Path(scratch).rglob("*.xplane.pb")
        return without_hosts(file.read_bytes()), short(compiled.as_text())


def short(text: str) -> str:
    """A program without its tables of places, and what else is not compared."""
    lines = [line for line in text.splitlines() if re.match(r"ENTRY|\s*(?:ROOT )?%|}", line)]
    return re.sub(r", (?:metadata|backend_config|frontend_attributes|sharding)=\{.*", "", "\n".join(lines))


def main(target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, make in FUNCTIONS.items():
            content, text = profile(*make())
            archive.writestr(zipfile.ZipInfo(f"{name}.xplane.pb"), content, zipfile.ZIP_DEFLATED)
            archive.writestr(zipfile.ZipInfo(f"{name}.hlo.txt"), text, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo("versions.json"), json.dumps({"jax": jax.__version__}))


if __name__ == "__main__":
    main(Path(__file__).parent / "recorded.zip")
