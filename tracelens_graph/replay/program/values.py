"""Arguments of operations, made of literals: what a program calls to build tensors.

Programs are assembled from the functions here, so each needs torch and others of this folder, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

DEVICE = "cpu"
LARGEST = 1 << 62
RULES: dict[str, Callable[..., None]] = {}


def rule(fill: Callable[..., None]) -> Callable[..., None]:
    """Let tensors be filled by this function, under its name."""
    RULES[fill.__name__] = fill
    return fill


def build_on(device: str, largest: int = LARGEST) -> None:
    """Make tensors on this device, with no size above the largest."""
    global DEVICE, LARGEST
    DEVICE, LARGEST = device, largest
    torch.manual_seed(0)


@rule
def normal(flat: torch.Tensor) -> None:
    """Normally distributed numbers."""
    if flat.is_floating_point() and flat.element_size() > 1:
        flat.normal_()
    else:
        flat.copy_(torch.randn(flat.shape, device=flat.device))


def tensor(
    shape: Sequence[int],
    dtype: str,
    strides: Sequence[int] | None = None,
    fill: str = "normal",
    offset: int = 0,
    on_cpu: bool = False,
    **options: Any,
) -> torch.Tensor:
    """A tensor over a storage that a rule filled."""
    if strides is None or any(size > LARGEST for size in shape):
        order = sorted(range(len(shape)), key=lambda at: strides[at] if strides else -at)
        shape, strides, step = [min(size, LARGEST) for size in shape], [0] * len(shape), 1
        for at in order:
            strides[at], step = step, step * max(shape[at], 1)
    span = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) if 0 not in shape else 0
    flat = torch.empty(offset + span, dtype=getattr(torch, dtype), device="cpu" if on_cpu else DEVICE)
    RULES[fill](flat, **options)
    return flat.new_empty(0).set_(flat.untyped_storage(), offset, tuple(shape), tuple(strides))


def dtype(name: str) -> torch.dtype:
    """A type of elements."""
    return getattr(torch, name)
