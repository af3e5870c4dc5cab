"""Planned arguments of a call: plain data, from which a program or this process makes tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True)
class Fill:
    """What a tensor holds.

    Attributes:
        rule: name of a rule, which is a function of `replay.program.values`: `normal`, `integers` ...
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
    def builder(self) -> str:
        """Name of the function of `replay.program.values` that makes it."""
        if self.layout == "sparse_coo":
            return "sparse_coo"
        if self.layout.startswith("sparse_"):
            return "sparse_csr"
        if self.dtype.startswith(("qint", "quint")):
            return "quantized"
        return "tensor" if self.storage is None else "shared"

    @property
    def told(self) -> dict[str, Any]:
        """What that function is told, by parameter, but for what it takes anyway."""
        found: dict[str, Any] = {"shape": self.shape, "dtype": self.dtype}
        if self.builder in ("tensor", "shared"):
            found |= {"strides": self.strides} if self.strides is not None else {}
            found |= {"fill": self.fill.rule} if self.fill.rule != "normal" else {}
            found |= {name: getattr(self, name) for name in ("offset", "reach") if getattr(self, name)}
            found |= {"storage": self.storage} if self.storage is not None else {}
            found |= self.fill.options
        elif self.builder != "quantized":
            found |= {"layout": self.layout} if self.builder == "sparse_csr" else {}
            found |= self.fill.options
        if self.builder in ("tensor", "shared"):
            found |= {name: True for name in ("grad", "conj") if getattr(self, name)}
        return found | ({"on_cpu": True} if self.on_cpu and self.builder in ("tensor", "shared", "quantized") else {})


@dataclass(frozen=True)
class Named:
    """A value that torch has by name: `Named("dtype", "float32")`, `Named("memory_format", "channels_last")`.

    Attributes:
        kind: what it is.
        name: its name in torch; of a device `device` for that of the program or `cpu`; of a generator empty.
    """

    kind: Literal["dtype", "layout", "memory_format", "device", "generator"]
    name: str = ""


Value: TypeAlias = "bool | int | float | complex | str | TensorValue | Named | tuple[Value, ...] | None"
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
    if isinstance(value, TensorValue):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from tensors(one)
