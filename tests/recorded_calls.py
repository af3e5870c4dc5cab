"""Calls by hand, as the profiler records them."""

from __future__ import annotations

from math import prod
from typing import Any

from tracelens_graph.replay.calls import Call, Surroundings
from tracelens_graph.replay.replay_plan import Recorded


def tensor(*shape: int, dtype: str = "float", strides: tuple[int, ...] | None = None) -> tuple[Any, str, Any, str]:
    """A tensor: dims, type, strides, value."""
    dense = tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
    return shape, dtype, dense if strides is None else strides, ""


def scalar(text: str) -> tuple[Any, str, Any, str]:
    return (), "Scalar", (), text


def listed(text: str) -> tuple[Any, str, Any, str]:
    return (), "ScalarList", (), text


def tensors(*shapes: tuple[int, ...]) -> tuple[Any, str, Any, str]:
    return shapes, "TensorList", tuple(tensor(*one)[2] for one in shapes), ""


NOTHING: tuple[Any, str, Any, str] = ((), "", (), "")


class Around(Surroundings):
    """Names below a call."""

    def __init__(self, children: tuple[str, ...] = (), kernels: tuple[str, ...] = (), near: str = "") -> None:
        self.children, self.kernels, self._near = children, kernels, near

    def dtype_near(self, shape: tuple[int, ...]) -> str:
        return self._near


def call(op: str, *arguments: tuple[Any, str, Any, str], around: Surroundings | None = None, **more: Any) -> Call:
    dims, types, strides, values = zip(*arguments, strict=True) if arguments else ((), (), (), ())
    return Call(f"aten::{op}", Recorded(dims, types, strides, values), around=around or Surroundings(), **more)
