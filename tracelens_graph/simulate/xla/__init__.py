"""Simulated profiles of JAX whose truth is known.

`simulate` runs the compiled training step of a small transformer on imagined GPUs, and gives the profile that
`jax.profiler` would have written (`*.xplane.pb`) and the truth about it. The same arguments give the same bytes.

    from tracelens_graph.simulate.xla import simulate, write
    run = simulate(devices=2, command_buffers="instructions")
    write(run, "folder")
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelens_graph.simulate.xla.profile import profile
from tracelens_graph.simulate.xla.program import CommandBuffers, Options
from tracelens_graph.simulate.xla.run import Runner, truth_of
from tracelens_graph.simulate.xla.training import Training

__all__ = ["CommandBuffers", "Options", "Run", "simulate", "write"]


@dataclass(frozen=True, slots=True)
class Run:
    """A simulated run of one process: its profile, and the truth about it."""

    options: Options
    profile: bytes
    truth: dict[str, Any]


def simulate(devices: int = 1, steps: int = 2, layers: int = 2, seed: int = 0, **settings: Any) -> Run:
    """Simulate a process that trains on some devices.

    `settings` are the other fields of `Options` (command_buffers, python_stacks, batch, …). Raises ValueError for a
    value that makes no sense, TypeError for an unknown setting.
    """
    options = Options(devices=devices, steps=steps, layers=layers, seed=seed, **settings)
    program = Training(options).build()
    run = Runner(options, program)
    run.run()
    content = profile(options, program, run)
    return Run(options, content, truth_of(options, program, run))


def write(run: Run, folder: str | os.PathLike[str]) -> Path:
    """Write the profile as `jax.profiler` does, `plugins/profile/TIME/host.xplane.pb`, and `truth.json`.

    Gives the path of the profile. Makes the folder; OSError if it cannot be written.
    """
    inner = Path(folder) / "plugins/profile/2025_07_01_23_00_36"
    inner.mkdir(parents=True, exist_ok=True)
    (Path(folder) / "truth.json").write_text(json.dumps(run.truth, indent=1))
    file = inner / "host.xplane.pb"
    file.write_bytes(run.profile)
    return file
