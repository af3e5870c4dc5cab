"""Arguments of operations, made of the JSON of a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from typing import Any

import torch

# What stands below goes into programs.

DEVICE = "cpu"
LARGEST = 1 << 62
NORMAL: Sequence[Any] = ("normal", {})
STORAGES: dict[tuple[Any, ...], Any] = {}


def build_on(device: str, largest: int = LARGEST) -> None:
    """Make tensors on this device, with no size above the largest."""
    global DEVICE, LARGEST
    DEVICE, LARGEST = device, largest
    if ":" in device:
        getattr(torch, device.partition(":")[0]).set_device(device)
    STORAGES.clear()
    torch.manual_seed(0)


def entered(modes: Sequence[str]) -> ExitStack:
    """Modes that PyTorch is in until this is left: `no_grad`, `autocast bfloat16`, `cudnn.benchmark=True`."""
    stack, known = ExitStack(), {"no_grad": torch.no_grad, "below_autograd": torch._C._AutoDispatchBelowAutograd}
    for place, _, name in (mode.partition("=")[0].rpartition(".") for mode in modes if "=" in mode):
        owner = attrgetter(place)(torch.backends)
        stack.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, f"{place}.{name}=True" in modes)
    for name, *dtype in (mode.split() for mode in modes if "=" not in mode):
        of_dtype = [DEVICE.partition(":")[0], *(getattr(torch, one) for one in dtype)]
        stack.enter_context(torch.autocast(*of_dtype) if dtype else known[name]())
    return stack


FILLS: dict[str, Callable[..., torch.Tensor]] = {
    # Numbers by chance: normally distributed, whole, evenly distributed, true in a share of all places, any bytes.
    "normal": lambda shape, elements, dtype, device: torch.randn(shape, dtype=dtype, device=device),
    "integers": lambda shape, elements, dtype, device, high, low=0: torch.randint(
        low, max(high, low + 1), shape, dtype=dtype, device=device),
    "uniform": lambda shape, elements, dtype, device, low=0.0, high=1.0: torch.empty(
        shape, device=device).uniform_(low, high).to(dtype),
    "mask": lambda shape, elements, dtype, device, share=0.5: torch.rand(shape, device=device).lt(share),
    "raw": lambda shape, elements, dtype, device: torch.randint(
        256, (elements * dtype.itemsize,), dtype=torch.uint8, device=device).view(dtype).reshape(shape),
    # One number everywhere.
    "zeros": lambda shape, elements, dtype, device: torch.zeros(shape, dtype=dtype, device=device),
    "constant": lambda shape, elements, dtype, device, value: torch.full(shape, value, dtype=dtype, device=device),
    # True at the first places.
    "first": lambda shape, elements, dtype, device, count: (
        torch.arange(elements, device=device) < count).reshape(shape).to(dtype),
    # From 0 to high in even steps, anew in each row: what is cumulated of lengths that are alike.
    "rising": lambda shape, elements, dtype, device, high, row=0: (
        torch.arange(elements, device=device) % max(row or elements, 1) * high / max((row or elements) - 1, 1)
        if dtype.is_floating_point else
        torch.arange(elements, device=device) % max(row or elements, 1) * high // max((row or elements) - 1, 1)
        ).reshape(shape).to(dtype),
    # Where as many pieces of nearly one length begin below high; with one skipped, where they end.
    "starts": lambda shape, elements, dtype, device, high, skip=0: (
        (torch.arange(elements, device=device) + skip) * high // max(elements, 1)).reshape(shape).to(dtype),
    # Whole numbers that differ by 1 at most, the larger ones first, and have a sum.
    "parts": lambda shape, elements, dtype, device, total: (
        (torch.arange(elements, device=device) < total % max(elements, 1)) + total // max(elements, 1)
        ).reshape(shape).to(dtype),
    # Whole numbers that fall from the most to 1, and have a sum.
    "falling": lambda shape, elements, dtype, device, total, most: (
        (total - elements - (most - 1) * torch.arange(elements, device=device)).clamp(0, max(most - 1, 0)) + 1
        ).reshape(shape).to(dtype),
    # From start on in steps of 1, anew in each row: a permutation, or pivots that swap nothing.
    "counted": lambda shape, elements, dtype, device, row, start=0: (
        torch.arange(elements, device=device) % max(row, 1) + start).reshape(shape).to(dtype),
    # Square matrices whose diagonal outweighs all else: they have inverses, and their lower halves are definite.
    "matrices": lambda shape, elements, dtype, device, size: (
        torch.rand(shape, device=device) / size + torch.eye(size, device=device)).to(dtype),
}  # fmt: skip
"""What tensors of some elements hold, by rule. Short programs have these very words, with numbers in place of names:
as many `elements` as `shape` has; a `dtype` of None is torch's own."""
DRAWN = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
"""Dtypes that torch draws normally distributed numbers of; others are converted to."""


def filled(fill: Sequence[Any], dtype: torch.dtype, elements: int, device: str) -> torch.Tensor:
    """So many elements as a rule fills them, without dimensions."""
    rule, options = fill[0], {name: min(value, LARGEST) for name, value in fill[1].items()}
    size = options.get("size", 1)
    shape = [elements // size**2, size, size] if rule == "matrices" else [elements]
    is_drawn = rule != "integers" and (rule != "normal" or dtype in DRAWN)
    made = FILLS[rule](shape, elements, dtype if is_drawn else None, device, **options).to(dtype).flatten()
    return torch.cat([made, made.new_zeros(elements - made.numel())]) if made.numel() < elements else made


def tensor(
    shape: Sequence[int],
    dtype: str,
    strides: Sequence[int] | None = None,
    fill: Sequence[Any] = NORMAL,
    storage: int | None = None,
    offset: int = 0,
    on_cpu: bool = False,
    reach: int = 0,
    grad: bool = False,
    conj: bool = False,
) -> torch.Tensor:
    """A tensor that a rule filled, over a storage with at least as many elements as are to be reached.

    Others of that number are in one storage, too; it holds what the last of them needs.
    """
    shape, strides, span = extent(shape, strides)
    elements, of_dtype = max(offset + span, min(reach, LARGEST)), getattr(torch, dtype)
    place = "cpu" if on_cpu and DEVICE != "meta" else DEVICE
    is_shared = storage is not None
    held = filled(fill, of_dtype, elements - offset * is_shared, place)
    made, memory = held.new_empty(0), held.untyped_storage()
    if is_shared:
        memory = STORAGES.setdefault((storage, on_cpu), made.untyped_storage())
        memory.resize_(max(memory.nbytes(), elements * made.element_size()))
        made.set_(memory, offset, held.shape, (1,)).copy_(held)
    made = held.new_empty(0).set_(memory, offset, shape, strides)
    # A product needs a gradient and is no leaf, so that ops may write it.
    made = made.mul_(torch.ones((), dtype=made.dtype, device=made.device, requires_grad=True)) if grad else made
    made = made.conj() if conj else made
    # What is written alike twice is one tensor: some ops ask whether two arguments are.
    key = (storage, on_cpu, offset, *shape, *strides, dtype, grad, conj)
    return STORAGES.setdefault(key, made) if is_shared else made


def extent(shape: Sequence[int], strides: Sequence[int] | None) -> tuple[list[int], list[int], int]:
    """Sizes, strides in the same order of dimensions, and how many elements they span."""
    if strides is None or any(size > LARGEST for size in shape):
        order = sorted(range(len(shape)), key=lambda at: (strides[at] if strides else 0, -at))
        was, strides, step = strides, [0] * len(shape), 1
        for at in order:
            size = min(shape[at], LARGEST)
            if was is None or was[at]:
                strides[at], step = step, step * max(size, 1)
    shape = [min(size, LARGEST) for size in shape]
    span = 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    return shape, list(strides), span


def device(name: str) -> torch.device:
    """The program's device, or the host."""
    return torch.device(DEVICE if name == "device" else name)


def quantized(shape: Sequence[int], dtype: str, on_cpu: bool = False) -> torch.Tensor:
    """A tensor of numbers that stand for others by one scale."""
    shape = [min(size, LARGEST) for size in shape]
    if DEVICE == "meta":
        return torch.empty(shape, dtype=torch.int32 if dtype == "qint32" else torch.int8, device=DEVICE)
    values = torch.randn(shape, device="cpu" if on_cpu else DEVICE)
    return torch.quantize_per_tensor(values, 0.05, 0, getattr(torch, dtype))


def sparse_coo(shape: Sequence[int], dtype: str, entries: int, dense: int = 0, coalesced: bool = True) -> torch.Tensor:
    """A sparse tensor with so many entries, with the last so many dimensions dense."""
    shape = [min(size, LARGEST) for size in shape]
    sizes, device = shape[: len(shape) - dense], torch.device(DEVICE)
    cells = 1
    for size in sizes:
        cells *= size
    entries = min(entries, cells, LARGEST)
    at = torch.arange(entries, device=device) * max(cells // max(entries, 1), 1)
    indices = []
    for size in reversed(sizes):
        indices.append(at % max(size, 1))
        at = at // max(size, 1)
    each = math.prod(shape[len(sizes) :])
    values = filled(NORMAL, getattr(torch, dtype), entries * each, DEVICE).reshape([entries, *shape[len(sizes) :]])
    where = torch.stack(indices[::-1]) if indices else torch.empty([0, entries], dtype=torch.int64, device=device)
    return torch.sparse_coo_tensor(where, values, shape, is_coalesced=coalesced)


def sparse_csr(shape: Sequence[int], dtype: str, layout: str, entries: int) -> torch.Tensor:
    """A sparse tensor with compressed rows or columns, of blocks of one where the layout has blocks."""
    shape = [min(size, LARGEST) for size in shape]
    rows, columns = shape[-2:] if layout in ("sparse_csr", "sparse_bsr") else shape[:-3:-1]
    batch, device = shape[:-2], torch.device(DEVICE)
    each = min(entries // max(rows, 1), columns)
    begins = (torch.arange(rows + 1, device=device) * each).expand([*batch, rows + 1]).contiguous()
    places = (torch.arange(rows * each, device=device) % max(each, 1)).expand([*batch, rows * each]).contiguous()
    blocks = [1, 1] if layout in ("sparse_bsr", "sparse_bsc") else []
    values = filled(NORMAL, getattr(torch, dtype), math.prod(batch) * rows * each, DEVICE)
    values = values.reshape([*batch, rows * each, *blocks])
    return torch.sparse_compressed_tensor(begins, places, values, shape, layout=getattr(torch, layout))


def built_tensor(facts: dict[str, Any]) -> torch.Tensor:
    """A tensor from JSON."""
    form, shape, dtype = facts.get("layout", "strided"), facts["shape"], facts["dtype"]
    if form == "sparse_coo":
        return sparse_coo(shape, dtype, **facts["fill"][1])
    if form != "strided":
        return sparse_csr(shape, dtype, form, **facts["fill"][1])
    if dtype.startswith(("qint", "quint")):
        return quantized(shape, dtype, facts.get("on_cpu", False))
    return tensor(**facts)


BUILDERS: dict[str, Callable[[Any], Any]] = {
    "tensor": built_tensor,
    "float": float,
    "complex": lambda pair: complex(*map(built, pair)),
    "device": device,
    "generator": lambda _: torch.Generator(DEVICE).manual_seed(0),
    **dict.fromkeys(("dtype", "layout", "memory_format"), partial(getattr, torch)),
}


def built(value: Any) -> Any:
    """An argument from JSON."""
    if isinstance(value, list):
        return [built(one) for one in value]
    if isinstance(value, dict):
        return next(BUILDERS[kind](facts) for kind, facts in value.items())
    return value


def tensors(value: Any) -> list[torch.Tensor]:
    """All tensors in arguments."""
    if isinstance(value, (list, tuple)):
        return [found for one in value for found in tensors(one)]
    return [value] if isinstance(value, torch.Tensor) else []


def storages_of(value: torch.Tensor) -> list[torch.UntypedStorage]:
    """Where a tensor is stored; a sparse one in several places."""
    compressed = {torch.sparse_csr: "crow col", torch.sparse_bsr: "crow col", torch.sparse_csc: "ccol row",
                  torch.sparse_bsc: "ccol row"}  # fmt: skip
    if value.layout == torch.sparse_coo:
        return [value._indices().untyped_storage(), value._values().untyped_storage()]
    if value.layout in compressed:
        indices = [getattr(value, f"{name}_indices")() for name in compressed[value.layout].split()]
        return [one.untyped_storage() for one in (*indices, value.values())]
    return [value.untyped_storage()]
