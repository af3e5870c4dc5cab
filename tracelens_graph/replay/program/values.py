"""Arguments of operations, made of the JSON of a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from operator import attrgetter
from typing import Any

import torch

# What stands below goes into programs.

DEVICE = "cpu"
LARGEST = 1 << 62
RULES: dict[str, Callable[..., Any]] = {}
STORAGES: dict[tuple[Any, ...], Any] = {}


def rule(fill: Callable[..., None]) -> Callable[..., None]:
    """Let tensors be filled by this function, under its name."""
    RULES[fill.__name__] = fill
    return fill


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


@rule
def normal(flat: torch.Tensor) -> None:
    """Normally distributed numbers."""
    if flat.dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128):
        flat.normal_()
    else:
        flat.copy_(torch.randn(flat.shape, device=flat.device))


def tensor(
    shape: Sequence[int],
    dtype: str,
    strides: Sequence[int] | None = None,
    fill: Sequence[Any] = ("normal", {}),
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
    made = torch.empty(0, dtype=getattr(torch, dtype), device="cpu" if on_cpu and DEVICE != "meta" else DEVICE)
    is_shared = storage is not None
    memory = made.untyped_storage()
    memory = STORAGES.setdefault((storage, on_cpu), memory) if is_shared else memory
    elements = max(offset + span, min(reach, LARGEST))
    memory.resize_(max(memory.nbytes(), elements * made.element_size()))
    flat = made.new_empty(0).set_(memory, 0, [elements], [1])
    RULES[fill[0]](flat[offset:] if is_shared else flat, **fill[1])
    made.set_(memory, offset, shape, strides)
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


@rule
def zeros(flat: torch.Tensor) -> None:
    """Nothing but zero."""
    flat.zero_()


@rule
def constant(flat: torch.Tensor, value: float) -> None:
    """One number everywhere."""
    flat.copy_(torch.full(flat.shape, value, device=flat.device))


@rule
def integers(flat: torch.Tensor, high: int, low: int = 0) -> None:
    """Whole numbers from low on and below high."""
    high = max(min(high, LARGEST), low + 1)
    flat.copy_(torch.randint(low, high, flat.shape, device=flat.device))


@rule
def uniform(flat: torch.Tensor, low: float = 0.0, high: float = 1.0) -> None:
    """Numbers between two, all equally likely."""
    flat.copy_(torch.rand(flat.shape, device=flat.device) * (high - low) + low)


@rule
def mask(flat: torch.Tensor, share: float = 0.5) -> None:
    """True in so many places, by chance."""
    flat.copy_(torch.rand(flat.shape, device=flat.device) < share)


@rule
def first(flat: torch.Tensor, count: int) -> None:
    """True at the first so many places."""
    flat.copy_(torch.arange(flat.numel(), device=flat.device) < min(count, LARGEST))


@rule
def raw(flat: torch.Tensor) -> None:
    """Any bytes, for types that hold several numbers in one."""
    flat.view(torch.uint8).random_(0, 256)


@rule
def rising(flat: torch.Tensor, high: float, row: int = 0) -> None:
    """From 0 to high in even steps, anew in each row: what is cumulated of lengths that are alike."""
    count = min(row, LARGEST) if row else flat.numel()
    place = torch.arange(flat.numel(), device=flat.device) % max(count, 1)
    whole = not flat.is_floating_point()
    steps = min(high, LARGEST) * place
    flat.copy_(steps // max(count - 1, 1) if whole else steps / max(count - 1, 1))


@rule
def starts(flat: torch.Tensor, high: int, skip: int = 0) -> None:
    """Where as many pieces of nearly one length begin below high; with one skipped, where they end."""
    place = torch.arange(flat.numel(), device=flat.device) + skip
    flat.copy_(min(high, LARGEST) * place // max(flat.numel(), 1))


@rule
def parts(flat: torch.Tensor, total: int) -> None:
    """Whole numbers that differ by 1 at most, the larger ones first, and have a sum."""
    count, total = max(flat.numel(), 1), min(total, LARGEST)
    flat.copy_(total // count + (torch.arange(flat.numel(), device=flat.device) < total % count))


@rule
def falling(flat: torch.Tensor, total: int, most: int) -> None:
    """Whole numbers that fall from the most to 1, and have a sum."""
    left = (
        min(total, LARGEST) - flat.numel() - (min(most, LARGEST) - 1) * torch.arange(flat.numel(), device=flat.device)
    )
    flat.copy_(left.clamp(0, max(min(most, LARGEST) - 1, 0)) + 1)


@rule
def counted(flat: torch.Tensor, row: int, start: int = 0) -> None:
    """Numbers from start on in steps of 1, anew in each row: a permutation, or pivots that swap nothing."""
    flat.copy_(torch.arange(flat.numel(), device=flat.device) % max(min(row, LARGEST), 1) + start)


@rule
def matrices(flat: torch.Tensor, size: int, definite: bool = False) -> None:
    """Square matrices that can be inverted; positive definite ones at request."""
    size = max(min(size, LARGEST), 1)
    many = torch.randn(flat.numel() // size**2, size, size, device=flat.device) / size
    many = (many @ many.mT if definite else many) + torch.eye(size, device=flat.device)
    flat[many.numel() :] = 0
    flat[: many.numel()].copy_(many.flatten())


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
    values = torch.empty([entries, *shape[len(sizes) :]], dtype=getattr(torch, dtype), device=device)
    normal(values)
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
    values = torch.empty([*batch, rows * each, *blocks], dtype=getattr(torch, dtype), device=device)
    normal(values)
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
