"""Helpers by TraceLens's names. `batched_replay.py` does without them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def summarize_tensor(tensor: Any) -> str:
    """Sizes, type, device and strides of a tensor in words."""
    return f"{tensor.dtype}{list(tensor.shape)} on {tensor.device}, strides {list(tensor.stride())}"


def benchmark_func(func: Callable[[], Any], device: str, warmup: int = 50, avg_steps: int = 100) -> float:
    """Mean microseconds of a call, of many that run one behind the other without waiting for the device."""
    import torch

    for _ in range(warmup):
        func()
    wait = getattr(torch, device.partition(":")[0]).synchronize
    wait()
    begin = time.perf_counter_ns()
    for _ in range(avg_steps):
        func()
    wait()
    return (time.perf_counter_ns() - begin) / avg_steps / 1000
