"""Settings of a simulated profile of JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

CommandBuffers = Literal["none", "instructions", "launch", "unnamed", "whole"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of one profile. Raises ValueError for a value that makes no sense."""

    devices: int = 1
    steps: int = 2
    layers: int = 2
    seed: int = 0

    batch: int = 8
    tokens: int = 512
    width: int = 1024
    heads: int = 16
    vocabulary: int = 16384

    command_buffers: CommandBuffers = "none"
    """Whether passes of layers run as command buffers (CUDA graphs), and what the kernels of these name: their own
    instructions, what the launch names, or nothing; or whether one event stands for all of them."""
    python_stacks: bool = True
    """Write frames of Python."""

    def __post_init__(self) -> None:
        for name in ("devices", "steps", "layers", "batch", "tokens", "width", "heads", "vocabulary"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.command_buffers not in get_args(CommandBuffers):
            known = get_args(CommandBuffers)
            raise ValueError(f"command_buffers is {', '.join(known[:-1])} or {known[-1]}, not {self.command_buffers!r}")
