"""What to simulate: every setting, and the planted problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Recompute = Literal["none", "non_reentrant", "reentrant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of one simulated job. Times end in `_us` (microseconds), sizes in `_mb` (megabytes)."""

    ranks: int = 1
    steps: int = 3
    layers: int = 2
    seed: int = 0

    batch: int = 8
    tokens: int = 512
    width: int = 1024
    heads: int = 16
    vocabulary: int = 16384

    recompute: Recompute = "none"
    """Activation checkpointing of every layer, in either of PyTorch's two ways."""
    python_stacks: bool = True
    """Write python_function events; without them no module is known."""
    shapes: bool = True
    """Write Input Dims, Input type, Input Strides and Concrete Inputs."""
    memory: bool = True
    """Write [memory] instants."""
    cuda_sync: bool = False
    """Write cuda_sync events."""
    unlaunched: int = 0
    """GPU events whose launch lies before the recording, per rank."""
    clock_offset_us: float = 0.0
    """Rank r's clock is r times this ahead."""

    dataloader_us: float = 60.0
    """How long each step waits for its batch."""
    dataloader_rank: int | None = None
    """Only this rank waits `dataloader_us`; the others wait 60."""
    copy_mb: float = 0.0
    """Extra data copied from host to device in each step."""
    pageable: bool = False
    """Copy from pageable memory: the call waits for the copy."""
    sync_every_step: bool = False
    """Read the loss after the forward pass and wait for the device after the backward pass."""
    read_loss: bool = False
    """Read the loss at the end of each step, as most training loops do: the host is never more than a step ahead."""
    tiny_kernels: int = 0
    """One-element kernels launched one by one in each step."""
    python_overhead_us: float = 0.0
    """Python time spent in each module call before its first operator."""
    bus_gb_per_s: float = 180.0
    """Bandwidth of the all-reduce, in 10^9 bytes per second."""

    def __post_init__(self) -> None:
        for name in ("ranks", "steps", "layers", "batch", "tokens", "width", "heads", "vocabulary"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.recompute not in ("none", "non_reentrant", "reentrant"):
            raise ValueError(f"recompute is none, non_reentrant or reentrant, not {self.recompute!r}")
        if self.bus_gb_per_s <= 0:
            raise ValueError("bus_gb_per_s must be positive")


PROBLEMS: Mapping[str, Mapping[str, Any]] = {
    "data_loader": {"dataloader_us": 12_000.0},
    "host_to_device_copy": {"copy_mb": 256.0, "pageable": True},
    "synchronization": {"sync_every_step": True, "batch": 2},
    "tiny_launches": {"tiny_kernels": 1000, "batch": 2},
    "python_bound": {"python_overhead_us": 900.0},
    "exposed_communication": {"ranks": 2, "bus_gb_per_s": 8.0},
    "late_rank": {"ranks": 2, "dataloader_us": 12_000.0, "dataloader_rank": 1},
}
"""Planted problems by name: the settings that make each what bounds the run."""
