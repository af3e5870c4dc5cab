"""Plans: one call of a trace with arguments that can be made again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tracelens_graph.perf.scalar_types import item_size
from tracelens_graph.replay.allowed import REACHES_OUT, reaches_out
from tracelens_graph.replay.arguments import Argument, TensorValue, Value, mapped, tensors
from tracelens_graph.replay.call import Call
from tracelens_graph.replay.conjugates import with_conjugates
from tracelens_graph.replay.contents import Site
from tracelens_graph.replay.feasible import check_arguments, check_recorded
from tracelens_graph.replay.fills import fill
from tracelens_graph.replay.gradients import with_gradients
from tracelens_graph.replay.host_numbers import as_numbers
from tracelens_graph.replay.hosts import with_hosts
from tracelens_graph.replay.list_dtypes import with_dtypes
from tracelens_graph.replay.modes import modes
from tracelens_graph.replay.reading import read
from tracelens_graph.replay.replay_plan import CannotReplay, ReplayPlan
from tracelens_graph.replay.resolve import choose
from tracelens_graph.replay.schemas import Schema
from tracelens_graph.replay.sparse import filled_sparse
from tracelens_graph.replay.views import with_reach

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.graph.node import Node

_ALIGNED = 512
"""Bytes to which allocators align storages: offsets are kept within."""


def plan(node: Node) -> ReplayPlan:
    """The plan of one call.

    Args:
        node: an op of a trace.

    Raises:
        CannotReplay: the trace does not tell enough of it; the message says what would help.
    """
    return plan_call(node.graph, node.row)


def plan_call(core: Core, row: int) -> ReplayPlan:
    """The plan of the call at a row.

    Raises:
        CannotReplay: as `plan`.
    """
    from tracelens_graph.replay.traced_call import traced_call

    return plan_of(traced_call(core, row))


def plan_of(call: Call) -> ReplayPlan:
    """The plan of a call of which this is known.

    Raises:
        CannotReplay: as `plan`.
    """
    check_recorded(call.recorded)
    schema = choose(call)
    if reaches_out(schema):
        raise CannotReplay(REACHES_OUT)
    arguments = as_numbers(call, schema, with_hosts(call, with_dtypes(call, read(call, schema))))
    arguments = _filled(call, schema, with_reach(call, _placed(arguments)))
    arguments = with_conjugates(call, schema, with_gradients(call, schema, arguments))
    check_arguments(schema, arguments, call.recorded)
    keyword = {one.name for one in schema.parameters if one.is_keyword}
    return ReplayPlan(
        op=schema.op,
        overload=schema.overload,
        schema=schema.text,
        positional=tuple(one for one in arguments if one.name not in keyword),
        keyword=tuple(one for one in arguments if one.name in keyword),
        recorded=call.recorded,
        modes=modes(call),
    )


def _filled(call: Call, schema: Schema, arguments: list[Argument]) -> list[Argument]:
    """The arguments with what their tensors hold."""
    others: Mapping[str, Value] = {one.name: one.value for one in arguments}
    op = schema.op.partition("::")[2]
    op = op if op.endswith("__") else op.rstrip("_")

    def change(name: str) -> Callable[[TensorValue, int], Value]:
        def filled(tensor: TensorValue, place: int) -> TensorValue:
            if tensor.layout != "strided":
                return filled_sparse(tensor, call)
            if tensor.fill.rule != "normal" or not tensor.is_filled:
                return tensor
            return replace(tensor, fill=fill(Site(op, name, place, tensor, others, schema.overload)))

        return filled

    return [
        replace(one, value=mapped(one.value, change(one.name))) if any(tensors(one.value)) else one for one in arguments
    ]


def _placed(arguments: list[Argument]) -> list[Argument]:
    """The arguments with storages numbered from 0, those that no two share left out, and offsets of this call alone."""
    every = [one for argument in arguments for one in tensors(argument.value) if one.storage is not None]
    if not every:
        return arguments
    uses: dict[int, list[TensorValue]] = {}
    for tensor in every:
        if 0 in tensor.shape:
            continue  # it has no memory, and all of these have one number for it
        uses.setdefault(tensor.storage or 0, []).append(tensor)
    shared = {storage: at for at, storage in enumerate(s for s, users in uses.items() if len(users) > 1)}

    def change(tensor: TensorValue, place: int) -> TensorValue:
        if tensor.storage is None or 0 in tensor.shape:
            return replace(tensor, storage=None, offset=0) if tensor.storage is not None else tensor
        users = uses[tensor.storage]
        size = item_size(tensor.dtype)
        first = min(one.offset * item_size(one.dtype) for one in users) // _ALIGNED * _ALIGNED
        return replace(tensor, storage=shared.get(tensor.storage), offset=tensor.offset - first // size)

    return [replace(one, value=mapped(one.value, change)) for one in arguments]
