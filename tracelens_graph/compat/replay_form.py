"""TraceLens's form of an operation to replay, written and read.

It is an object of `op_name`, `replay_ir` with `list_pos_args` and `list_kwargs`, and mostly `count`; an argument is an
object of `arg_name`, `arg_type` and `value`. A tensor's value is an object of `shape`, `dtype` (as the profiler writes
it), `strides` and `init` (`normal`, `zeros` or null). Value rules, storages and devices have no place in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from tracelens_graph.perf.scalar_types import DTYPES, FLOATING, LAYOUTS, MEMORY_FORMATS, profiler_type
from tracelens_graph.replay.replay_plan import Argument, Named, TensorValue, Value
from tracelens_graph.replay.calls import Call
from tracelens_graph.replay.program_text import dense_strides
from tracelens_graph.replay.plan_json import NotAPlanError, plan_from_json
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.replay_plan import CannotReplay, Recorded, ReplayPlan
from tracelens_graph.replay.calls import decoded

_NUMBERED = {"dtype": DTYPES, "layout": LAYOUTS, "memory_format": MEMORY_FORMATS}
"""Kinds of values that are numbers in this form, and their names by number."""


class _Argument(msgspec.Struct):
    arg_name: str
    arg_type: str
    value: Any = None


class _Arguments(msgspec.Struct):
    list_pos_args: list[_Argument] = []
    list_kwargs: list[_Argument] = []


class _Operation(msgspec.Struct):
    op_name: str
    replay_ir: _Arguments
    count: int = 1


def tracelens_form(plan: ReplayPlan) -> dict[str, Any]:
    """A plan in TraceLens's form, without `count`."""
    return {
        "op_name": plan.op,
        "replay_ir": {
            "list_pos_args": [_argument(one) for one in plan.positional],
            "list_kwargs": [_argument(one) for one in plan.keyword],
        },
    }


def plan_from_tracelens(entry: Any) -> ReplayPlan:
    """The plan of an operation in TraceLens's form: it is planned anew as a call that was recorded so.

    Raises:
        NotAPlanError: it is not in that form, or PyTorch has no such operation; the message names the place.
    """
    try:
        form = msgspec.convert(entry, _Operation)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise NotAPlanError(f"{where.strip('.`') or 'operation'}: {what[:1].lower()}{what[1:]}") from None
    arguments = [*form.replay_ir.list_pos_args, *form.replay_ir.list_kwargs]
    columns = list(zip(*map(_recorded, arguments), strict=True)) or [()] * 4
    try:
        plan = plan_of(Call(form.op_name, decoded(*map(json.dumps, columns))))
    except CannotReplay as error:
        raise NotAPlanError(f"{form.op_name}: {error}") from None
    if [one.name for one in plan.arguments] != [one.arg_name for one in arguments]:
        raise NotAPlanError(f"{form.op_name}: takes {', '.join(one.name for one in plan.arguments)}")
    return replace(plan, traced=replace(plan.traced, calls=form.count))


def plans_of(entries: Any) -> list[ReplayPlan]:
    """The plans of a list of operations: of those in it that have a `plan` of ours, this.

    Raises:
        NotAPlanError: it is none; the message names the entry.
    """
    if not isinstance(entries, list):
        raise NotAPlanError("the list of operations is no list")
    found = []
    for at, entry in enumerate(entries):
        try:
            is_ours = isinstance(entry, Mapping) and "plan" in entry
            found.append(plan_from_json(entry["plan"]) if is_ours else plan_from_tracelens(entry))
        except NotAPlanError as error:
            raise NotAPlanError(f"operation {at + 1}: {error}") from None
    return found


def recorded_of_event(args: Mapping[str, Any]) -> Recorded:
    """Arguments of an event as a trace file has them, by the keys `Input Dims`, `Input type` and so on."""
    keys = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
    return decoded(*(json.dumps(args.get(key) or []) for key in keys))


def _argument(one: Argument) -> dict[str, Any]:
    return {"arg_name": one.name, "arg_type": one.type, "value": _value(one.value)}


def _value(value: Value) -> Any:
    if isinstance(value, tuple):
        return [_value(one) for one in value]
    if isinstance(value, TensorValue):
        return {
            "shape": list(value.shape),
            "dtype": profiler_type(value.dtype),
            "strides": list(dense_strides(value.shape) if value.strides is None else value.strides),
            "init": "normal" if value.dtype in FLOATING else "zeros",
        }
    if isinstance(value, Named):
        if value.kind in _NUMBERED:
            names = _NUMBERED[value.kind]
            return names.index(value.name) if value.name in names else None
        return "cpu" if value.name == "cpu" else None
    return str(value) if isinstance(value, complex) else value


def _recorded(one: _Argument) -> tuple[Any, str, Any, str]:
    """Sizes, type, strides and text of an argument as the profiler would write them."""
    value = one.value
    if isinstance(value, dict) and "shape" in value:
        return _whole(value["shape"]), str(value.get("dtype", "")), _whole(value.get("strides") or []), ""
    if isinstance(value, list) and one.arg_type.startswith("Tensor"):
        every = [_recorded(_Argument("", "Tensor", each)) for each in value]
        return [each[0] for each in every], "TensorList", [each[2] for each in every], ""
    if isinstance(value, list):
        return [], "ScalarList", [], f"[{', '.join(map(_text, value))}]"
    if isinstance(value, bool | int | float):
        # TraceLens reads whole numbers of type Scalar as floats, which operations on integers refuse.
        is_whole = isinstance(value, float) and value.is_integer() and one.arg_type.startswith("Scalar")
        return [], "Scalar", [], _text(int(value) if is_whole else value)
    return [], "", [], ""


def _whole(sizes: Any) -> list[int]:
    if isinstance(sizes, list) and all(type(one) is int for one in sizes):
        return sizes
    raise NotAPlanError("sizes of a tensor are no list of whole numbers")


def _text(value: object) -> str:
    return repr(value)
