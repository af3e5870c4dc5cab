"""Plans: one call of a trace with arguments that can be made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracelens_graph.errors import CannotReplay
from tracelens_graph.replay.adjusting import (
    filled_sparse,
    modes,
    with_conjugates,
    with_dtypes,
    with_gradients,
    with_hosts,
    with_numbers,
    with_storages,
)
from tracelens_graph.replay.calls import LARGEST, Call, check_recorded, traced_call
from tracelens_graph.replay.choosing import choose
from tracelens_graph.replay.contents import Site, fill
from tracelens_graph.replay.reading import read
from tracelens_graph.replay.replay_plan import NORMAL, Argument, ReplayPlan, TensorValue, Value, tensors
from tracelens_graph.replay.schemas import REACHES_OUT, Schema, reaches_out

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.node import Node

_MOST_DIMENSIONS = 64
"""Dimensions of a tensor that PyTorch iterates over."""


def plan(node: Node) -> ReplayPlan:
    """The plan of one call.

    Args:
        node: an op of a trace.

    Raises:
        CannotReplay: the trace does not record enough of it; the message says what would help.
    """
    return plan_call(node.graph, node.row)


def plan_call(core: Core, row: int) -> ReplayPlan:
    """The plan of the call at a row.

    Raises:
        CannotReplay: as `plan`.
    """
    return plan_of(traced_call(core, row))


def plan_of(call: Call) -> ReplayPlan:
    """The plan of a call from these facts.

    Raises:
        CannotReplay: as `plan`.
    """
    check_recorded(call.recorded)
    schema = choose(call)
    if reaches_out(schema):
        raise CannotReplay(REACHES_OUT)
    arguments = with_hosts(call, with_dtypes(call, read(call, schema)))
    arguments = with_storages(call, with_numbers(call, schema, arguments))
    arguments = with_gradients(call, schema, _filled(call, schema, arguments))
    arguments = with_conjugates(call, schema, arguments)
    _check_arguments(call, schema, arguments)
    positional = [one for one, parameter in zip(arguments, schema.parameters, strict=True) if not parameter.is_keyword]
    return ReplayPlan(
        op=schema.op,
        overload=schema.overload,
        schema=schema.text,
        positional=tuple(positional),
        keyword=tuple(arguments[len(positional) :]),
        recorded=call.recorded,
        modes=modes(call),
    )


def _filled(call: Call, schema: Schema, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with what their tensors hold."""
    others: Mapping[str, Value] = {one.name: one.value for one in arguments}
    op = schema.op.partition("::")[2]
    op = op if op.endswith("__") else op.rstrip("_")

    def filling(name: str) -> Callable[[TensorValue, int], Value]:
        def filled(tensor: TensorValue, place: int) -> TensorValue:
            if tensor.layout != "strided":
                return filled_sparse(tensor, call)
            if not tensor.is_filled or tensor.fill.rule != NORMAL.rule:
                return tensor
            return replace(tensor, fill=fill(Site(op, name, place, tensor, others)))

        return filled

    return [one.changed(filling(one.name)) for one in arguments]


def _check_arguments(call: Call, schema: Schema, arguments: Sequence[Argument]) -> None:
    """Make sure that tensors that are needed are given, and that sizes and numbers are such as PyTorch takes.

    PyTorch's own code passes undefined tensors where a schema does not call them optional, as sequence lengths of
    attention, and Python's None becomes one. The first argument never is one, nor is a tensor that has sizes.

    Raises:
        CannotReplay: they are not.
    """
    for at, (parameter, argument) in enumerate(zip(schema.parameters, arguments, strict=True)):
        kind, dims = parameter.kind, call.recorded.dims
        is_needed = kind.base == "Tensor" and not kind.is_optional and (at == 0 or (at < len(dims) and dims[at]))
        if argument.value is None and is_needed:
            raise CannotReplay("a tensor that it needs is not recorded")
        if any(len(one.shape) > _MOST_DIMENSIONS or one.bytes > LARGEST for one in tensors(argument.value)):
            raise CannotReplay("its tensors are larger than any memory")
        if not _has_64_bits(argument.value):
            raise CannotReplay("a number has more than 64 bits")


def _has_64_bits(value: Value) -> bool:
    if isinstance(value, tuple):
        return all(map(_has_64_bits, value))
    return type(value) is not int or -(1 << 63) <= value < 1 << 64
