"""Planned arguments of a call: plain data, from which a program or this process makes tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

RULES: Mapping[str, frozenset[str]] = {
    rule: frozenset(options.split())
    for rule, options in {
        "normal": "", "zeros": "", "raw": "", "constant": "value", "integers": "high low", "uniform": "low high",
        "mask": "share", "first": "count", "rising": "high row", "starts": "high skip", "parts": "total",
        "falling": "total most", "counted": "row start", "matrices": "size definite",
    }.items()
}  # fmt: skip
"""Rules that fill tensors, which are functions of `replay.program.values`, and the options of each."""


@dataclass(frozen=True)
class Fill:
    """What a tensor holds.

    Attributes:
        rule: name of a rule: `normal`, `integers` ...
        options: what the rule is told besides, by parameter: `{"high": 32000}`.
    """

    rule: str = "normal"
    options: Mapping[str, int | float | bool | tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class TensorValue:
    """A tensor to make.

    Attributes:
        shape: sizes.
        dtype: type of its elements, as torch names it: `bfloat16`, `int64`.
        strides: in elements; None where they were not recorded: contiguous.
        fill: what it holds.
        layout: `strided`, `sparse_coo`, `sparse_csr` ...
        storage: number of its storage within a program; tensors with one number share memory. None: one of its own.
        offset: elements before its first one in its storage.
        on_cpu: whether it stays on the host whatever device the program runs on.
        reach: elements that its storage has at least, where others reach beyond this tensor.
        grad: whether autograd follows it.
        conj: whether it is a view that stands for the conjugates of what is stored.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None
    fill: Fill = Fill()
    layout: str = "strided"
    storage: int | None = None
    offset: int = 0
    on_cpu: bool = False
    reach: int = 0
    grad: bool = False
    conj: bool = False

    @property
    def options(self) -> frozenset[str]:
        """What its contents can be told besides their rule."""
        if self.layout != "strided":
            return frozenset({"entries", "dense", "coalesced"} if self.layout == "sparse_coo" else {"entries"})
        return RULES[self.fill.rule] if self.is_filled else frozenset()

    @property
    def is_filled(self) -> bool:
        """Whether a rule fills it, as all but sparse and quantized ones."""
        return self.layout == "strided" and not self.dtype.startswith(("qint", "quint"))


@dataclass(frozen=True)
class Named:
    """A value that torch has by name: `Named("dtype", "float32")`, `Named("memory_format", "channels_last")`.

    Attributes:
        kind: what it is.
        name: its name in torch; of a device `device` for that of the program or `cpu`; of a generator empty.
    """

    kind: Literal["dtype", "layout", "memory_format", "device", "generator"]
    name: str = ""


@dataclass(frozen=True)
class Use:
    """A tensor of a sequence of calls, where it is an argument.

    Attributes:
        number: its number in the sequence.
        tensor: what it is; how it is made if no call has made it.
        of: number of the result that it is a view of; None for what is none.
    """

    number: int
    tensor: TensorValue
    of: int | None = None


Value: TypeAlias = "bool | int | float | complex | str | TensorValue | Named | Use | tuple[Value, ...] | None"
"""What an argument can be; lists are tuples here."""


@dataclass(frozen=True)
class Argument:
    """One argument of a planned call.

    Attributes:
        name: its name in the schema.
        type: its type as the schema writes it: `Tensor`, `SymInt[2]`, `ScalarType?`.
        value: what is passed.
        assumed: why this value, where the trace does not tell it; empty where it does.
    """

    name: str
    type: str
    value: Value
    assumed: str = ""


def mapped(value: Value, change: Callable[[TensorValue, int], Value], place: int = 0) -> Value:
    """A value with each tensor in it changed.

    Args:
        value: the value.
        change: what becomes of a tensor at a place of its list; 0 for no list.
        place: that of the value.
    """
    if isinstance(value, TensorValue):
        return change(value, place)
    if isinstance(value, tuple):
        return tuple(mapped(one, change, at) for at, one in enumerate(value))
    return value


def tensors(value: Value) -> Iterator[TensorValue]:
    """All tensors in a value."""
    if isinstance(value, TensorValue | Use):
        yield value.tensor if isinstance(value, Use) else value
    elif isinstance(value, tuple):
        for one in value:
            yield from tensors(one)


def uses(values: Iterable[Value]) -> Iterator[Use]:
    """All tensors that have numbers, in order."""
    for value in values:
        if isinstance(value, Use):
            yield value
        elif isinstance(value, tuple):
            yield from uses(value)
