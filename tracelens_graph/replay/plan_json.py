"""Plans as JSON and back. A file is untrusted: whatever is not a plan is refused in one line that says where.

Arguments are JSON's own values; what JSON lacks is an object with one key:

| object | what |
|---|---|
| `{"float": "inf"}` | a float that is not finite |
| `{"complex": [re, im]}` | a complex number |
| `{"tensor": {"shape": [8], "dtype": "int64"}}` | a tensor, by `TensorValue`'s names |
| `{"use": {"number": 3, "tensor": {...}, "of": 2}}` | a tensor of a sequence, a view of the result of another number |
| `{"dtype": "float32"}`, and so a layout, memory format, device or generator | what torch has by name |

Arguments that have the defaults of the schema are left out, and come back from it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_type_hints

import msgspec

from tracelens_graph.errors import NotAPlanError, TraceLensGraphError
from tracelens_graph.replay.replay_plan import (
    RULES,
    Argument,
    Count,
    Launch,
    Named,
    Plain,
    Recorded,
    ReplayPlan,
    TensorValue,
    Traced,
    Use,
    Value,
    Word,
    Work,
    default_of,
)
from tracelens_graph.replay.schemas import parse

KINDS: tuple[str, ...] = get_args(get_type_hints(Named)["kind"])
"""Kinds of values that torch has by name."""

_DEEPEST = 8
"""Lists in lists, in an argument."""
_Module = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z", max_length=200)]
_Mode = Literal[
    "no_grad", "below_autograd", "autocast bfloat16", "autocast float16", "cuda.matmul.allow_tf32=True",
    "cudnn.allow_tf32=False", "cudnn.benchmark=True", "cudnn.deterministic=True",
]  # fmt: skip


class _Use(Plain, frozen=True):
    number: Count
    tensor: Any
    of: Count | None = None


class _Plan(Plain, frozen=True):
    op: str
    schema: str
    positional: dict[Word, Any]
    overload: str = ""
    keyword: dict[Word, Any] = msgspec.field(default_factory=dict)
    assumed: dict[Word, str] = msgspec.field(default_factory=dict)
    recorded: Recorded = Recorded()
    traced: Traced = Traced()
    work: Work = Work()
    notes: tuple[str, ...] = ()
    imports: tuple[_Module, ...] = ()
    modes: tuple[_Mode, ...] = ()
    restored: tuple[Word, ...] = ()
    gradient: tuple[Any, ...] = ()
    launch: Launch | None = None


def plan_json(plan: ReplayPlan) -> dict[str, Any]:
    """A plan as JSON's values; what is at its default is left out."""
    positional, keyword = ({one.name: value_json(one.value) for one in way} for way in plan.given)
    form = _Plan(
        plan.op, plan.schema, positional, plan.overload, keyword,
        {one.name: one.assumed for one in plan.arguments if one.assumed},
        plan.recorded, plan.traced, plan.work, plan.notes, plan.imports, cast("tuple[_Mode, ...]", plan.modes),
        plan.restored, tuple(map(value_json, plan.gradient)), plan.launch,
    )  # fmt: skip
    return cast("dict[str, Any]", msgspec.to_builtins(form))


def plan_from_json(data: Any) -> ReplayPlan:
    """The plan that JSON's values describe.

    Raises:
        NotAPlanError: they describe none, or not a call of the schema in it.
    """
    form = _converted(data, _Plan, "")
    try:
        schema = parse(form.schema)
    except (TraceLensGraphError, ValueError, SyntaxError) as error:
        raise NotAPlanError(f"schema: {error}") from None
    if (schema.op, schema.overload) != (form.op, form.overload):
        raise NotAPlanError(f"schema: is of {schema.qualified}, not of {form.op!a} {form.overload!a}")
    takes = [one.name for one in schema.parameters if not one.is_keyword]
    if list(form.positional) != takes[: len(form.positional)]:
        raise NotAPlanError(f"positional: {schema.qualified} takes {', '.join(takes) or 'none'}")
    if unknown := form.keyword.keys() - schema.names[len(form.positional) :]:
        raise NotAPlanError(f"keyword: {schema.qualified} has no {min(unknown)}")
    given = {
        name: value_from_json(value, f"{way}.{name}")
        for way in ("positional", "keyword")
        for name, value in getattr(form, way).items()
    }
    arguments = [
        (one.is_keyword, Argument(one.name, one.declared, value, form.assumed.get(one.name, "")))
        for one in schema.parameters
        if one.name in given or one.default is not None
        for value in [given[one.name] if one.name in given else default_of(one)]
    ]
    recorded = msgspec.structs.replace(
        form.recorded,
        dims=_nested(form.recorded.dims, "recorded.dims"),
        strides=_nested(form.recorded.strides, "recorded.strides"),
    )
    return ReplayPlan(
        form.op, form.overload, form.schema,
        tuple(one for is_keyword, one in arguments if not is_keyword),
        tuple(one for is_keyword, one in arguments if is_keyword),
        recorded, form.traced, form.work, form.notes, form.imports, form.modes,
        tuple(_gradient(one, f"gradient[{at}]") for at, one in enumerate(form.gradient)),
        form.launch,
    )  # fmt: skip


def value_json(value: Value) -> Any:
    """An argument as JSON's values.

    Raises:
        TypeError: it is not an argument.
    """
    if isinstance(value, tuple):
        return [value_json(one) for one in value]
    if isinstance(value, TensorValue):
        return {"tensor": msgspec.to_builtins(value)}
    if isinstance(value, Use):
        return {"use": msgspec.to_builtins(_Use(value.number, value.tensor, value.of))}
    if isinstance(value, Named):
        return {value.kind: value.name}
    if type(value) is complex:
        return {"complex": [value_json(value.real), value_json(value.imag)]}
    if type(value) is float and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"no argument: {type(value).__name__}")


def value_from_json(data: Any, place: str, depth: int = 0) -> Value:
    """The argument that JSON's values describe.

    Args:
        data: the values.
        place: what errors call the place.
        depth: how many lists it is in.

    Raises:
        NotAPlanError: they describe none.
    """
    if data is None or type(data) in (bool, int, float, str):
        return cast("Value", data)
    if isinstance(data, list | tuple) and depth < _DEEPEST:
        return tuple(value_from_json(one, f"{place}[{at}]", depth + 1) for at, one in enumerate(data))
    if isinstance(data, Mapping) and len(data) == 1:
        ((kind, what),) = data.items()
        if kind == "tensor":
            return _tensor(what, f"{place}.tensor")
        if kind == "use":
            use = _converted(what, _Use, f"{place}.use")
            return Use(use.number, _tensor(use.tensor, f"{place}.use.tensor"), use.of)
        if kind in KINDS and isinstance(what, str) and re.fullmatch(r"\w*", what, re.ASCII):
            return Named(kind, what)
        if kind == "float" and what in ("inf", "-inf", "nan"):
            return float(what)
        if kind == "complex" and isinstance(what, list) and len(what) == 2:
            real, imaginary = (value_from_json(one, f"{place}.complex", _DEEPEST) for one in what)
            if isinstance(real, int | float) and isinstance(imaginary, int | float):
                return complex(real, imaginary)
    raise NotAPlanError(f"{place}: is no argument")


def _gradient(data: Any, place: str) -> TensorValue | None:
    value = value_from_json(data, place)
    if value is not None and not isinstance(value, TensorValue):
        raise NotAPlanError(f"{place}: is no tensor")
    return value


def _tensor(data: Any, place: str) -> TensorValue:
    value = _converted(data, TensorValue, place)
    if value.strides is not None and len(value.strides) != len(value.shape):
        raise NotAPlanError(f"{place}: has {len(value.shape)} sizes and {len(value.strides)} strides")
    if value.fill.rule not in RULES:
        raise NotAPlanError(f"{place}.fill: nothing fills by {value.fill.rule}")
    if unknown := value.fill.options.keys() - value.options:
        rule = value.fill.rule if value.is_filled else value.layout
        raise NotAPlanError(f"{place}.fill: {rule} takes no {min(unknown)}")
    return value


def _nested(data: Any, place: str, depth: int = 0) -> Any:
    if not isinstance(data, list | tuple):
        if type(data) is int or data is None or data == "":
            return data
        raise NotAPlanError(f"{place}: is neither a number nor a list")
    if depth > _DEEPEST:
        raise NotAPlanError(f"{place}: has too many lists in lists")
    return tuple(_nested(one, place, depth + 1) for one in data)


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def _converted(data: Any, form: type[_Struct], place: str) -> _Struct:
    try:
        return msgspec.convert(data, form)
    except (msgspec.ValidationError, RecursionError) as error:
        what, _, where = str(error).partition(" - at `")
        path = (place + where.partition("$")[2].removesuffix("`")).lstrip(".")
        raise NotAPlanError(f"{path or 'plan'}: {what[:1].lower()}{what[1:]}") from None
