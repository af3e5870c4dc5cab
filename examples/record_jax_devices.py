"""Record collectives of JAX between four devices, which are parts of one CPU: a mesh of two by two.

    pip install jax
    python examples/record_jax_devices.py FOLDER

`traces/four-devices-jax-cpu.xplane.pb.gz` beside this script was made by it.
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import gzip
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from record_jax import without_hosts

STEPS, BATCH, WIDTH, HIDDEN = 3, 16, 32, 64

mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
IN, OUT = (P("data", None), P(None, "model"), P("model", None)), (P("data", None), P())


@jax.jit
@partial(jax.shard_map, mesh=mesh, in_specs=IN, out_specs=OUT, check_vma=False)
def step(x: jax.Array, up: jax.Array, down: jax.Array) -> tuple[jax.Array, jax.Array]:
    with jax.named_scope("mlp"):
        y = jax.lax.psum(jax.nn.relu(x @ up) @ down, "model")
    with jax.named_scope("exchange"):
        whole = jax.lax.all_gather(y, "data", tiled=True)
        part = jax.lax.psum_scatter(whole, "model", tiled=True)
        moved = jax.lax.ppermute(part, "data", [(0, 1), (1, 0)])
        turned = jax.lax.all_to_all(moved, "model", 1, 0, tiled=True)
    return y, jax.lax.pmean(turned.sum(), ("data", "model"))


def main(folder: Path) -> None:
    arrays = (jnp.ones((BATCH, WIDTH)), jnp.ones((WIDTH, HIDDEN)), jnp.ones((HIDDEN, WIDTH)))
    given = [jax.device_put(one, NamedSharding(mesh, spec)) for one, spec in zip(arrays, IN, strict=True)]
    jax.block_until_ready(step(*given))
    options: Any = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as scratch:
        with jax.profiler.trace(scratch, profiler_options=options):
            for number in range(STEPS):
                with jax.profiler.StepTraceAnnotation("train", step_num=number):
                    jax.block_until_ready(step(*given))
        (file,) = Path(scratch).rglob("*.xplane.pb")
        content = without_hosts(file.read_bytes())
    target = folder / "four-devices-jax-cpu.xplane.pb.gz"
    target.write_bytes(gzip.compress(content, 9, mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
