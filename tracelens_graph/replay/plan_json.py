"""Plans as JSON and back. A file is untrusted: whatever is not a plan is refused in one line that says where.

Arguments are JSON's own values; what JSON lacks is an object with one key:

| object | what |
|---|---|
| `{"float": "inf"}` | a float that is not finite |
| `{"complex": [re, im]}` | a complex number |
| `{"tensor": {"shape": [8], "dtype": "int64"}}` | a tensor, by `TensorValue`'s names, and `options` |
| `{"use": {"number": 3, "tensor": {...}, "of": 2}}` | a tensor of a sequence, a view of the result of another number |
| `{"dtype": "float32"}`, and so a layout, memory format, device or generator | what torch has by name |
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_type_hints

import msgspec

from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.replay.arguments import RULES, Argument, Fill, Named, TensorValue, Use, Value
from tracelens_graph.replay.replay_plan import Recorded, ReplayPlan, Traced, Work
from tracelens_graph.replay.schemas import parse

KINDS: tuple[str, ...] = get_args(get_type_hints(Named)["kind"])
"""Kinds of values that torch has by name."""

_DEEPEST = 8
"""Lists in lists, in an argument."""
_LARGEST = 1 << 62

Word = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z", max_length=60)]
Module = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z", max_length=200)]
Mode = Literal["no_grad", "below_autograd", "autocast bfloat16", "autocast float16"]
Count = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]


class NotAPlanError(TraceLensGraphError):
    """Something is no plan; the message names the place in it."""


class _Form(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    pass


class _Tensor(_Form):
    shape: tuple[Count, ...]
    dtype: Word
    strides: tuple[Annotated[int, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)], ...] | None = None
    fill: Word = "normal"
    options: dict[Word, Any] = {}
    layout: Word = "strided"
    storage: Count | None = None
    offset: Count = 0
    on_cpu: bool = False
    reach: Count = 0
    grad: bool = False
    conj: bool = False


class _Use(_Form):
    number: Count
    tensor: Any
    of: Count | None = None


class _Argument(_Form):
    name: Word
    type: str
    value: Any = None
    assumed: str = ""


class _Recorded(_Form):
    dims: list[Any] = []
    types: tuple[str, ...] = ()
    strides: list[Any] = []
    values: tuple[str, ...] = ()


class _Traced(_Form):
    calls: int = 1
    uid: int = -1
    kernels: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    kernel_us: float = 0.0
    median_us: float = 0.0
    gpu: str = ""
    host_us: float = 0.0
    total_us: float = 0.0


class _Work(_Form):
    flops: float | None = None
    bytes: float | None = None
    roof_us: float | None = None


class _Plan(_Form):
    op: str
    schema: str
    positional: list[_Argument]
    overload: str = ""
    keyword: list[_Argument] = []
    recorded: _Recorded = msgspec.field(default_factory=_Recorded)
    traced: _Traced = msgspec.field(default_factory=_Traced)
    work: _Work = msgspec.field(default_factory=_Work)
    notes: tuple[str, ...] = ()
    imports: tuple[Module, ...] = ()
    modes: tuple[Mode, ...] = ()
    restored: tuple[Word, ...] = ()


def plan_json(plan: ReplayPlan) -> dict[str, Any]:
    """A plan as JSON's values; what is at its default is left out."""
    form = _Plan(
        op=plan.op,
        overload=plan.overload,
        schema=plan.schema,
        positional=[_argument_json(one) for one in plan.positional],
        keyword=[_argument_json(one) for one in plan.keyword],
        recorded=_Recorded(**vars(plan.recorded)),
        traced=_Traced(**vars(plan.traced)),
        work=_Work(**vars(plan.work)),
        notes=plan.notes,
        imports=plan.imports,
        modes=cast("tuple[Mode, ...]", plan.modes),
        restored=plan.restored,
    )
    return cast("dict[str, Any]", msgspec.to_builtins(form))


def plan_from_json(data: Any) -> ReplayPlan:
    """The plan that JSON's values describe.

    Raises:
        NotAPlanError: they describe none, or not a call of the schema in it.
    """
    form = _converted(data, _Plan, "")
    positional = tuple(_argument(one, f"positional[{at}]") for at, one in enumerate(form.positional))
    keyword = tuple(_argument(one, f"keyword[{at}]") for at, one in enumerate(form.keyword))
    try:
        schema = parse(form.schema)
    except (TraceLensGraphError, ValueError, SyntaxError) as error:
        raise NotAPlanError(f"schema: {error}") from None
    if (schema.op, schema.overload) != (form.op, form.overload):
        raise NotAPlanError(f"schema: is of {schema.qualified}, not of {form.op!a} {form.overload!a}")
    takes = [one.name for one in schema.parameters if not one.is_keyword]
    if [one.name for one in positional] != takes[: len(positional)]:
        raise NotAPlanError(f"positional: {schema.qualified} takes {', '.join(takes) or 'none'}")
    if unknown := {one.name for one in keyword} - set(schema.names[len(positional) :]):
        raise NotAPlanError(f"keyword: {schema.qualified} has no {min(unknown)}")
    recorded = Recorded(
        _nested(form.recorded.dims, "recorded.dims"),
        form.recorded.types,
        _nested(form.recorded.strides, "recorded.strides"),
        form.recorded.values,
    )
    traced, work = Traced(**msgspec.structs.asdict(form.traced)), Work(**msgspec.structs.asdict(form.work))
    return ReplayPlan(
        form.op, form.overload, form.schema, positional, keyword, recorded, traced, work, form.notes, form.imports,
        form.modes,
    )  # fmt: skip


def value_json(value: Value) -> Any:
    """An argument as JSON's values.

    Raises:
        TypeError: it is no argument.
    """
    if isinstance(value, tuple):
        return [value_json(one) for one in value]
    if isinstance(value, TensorValue):
        return {"tensor": tensor_json(value)}
    if isinstance(value, Use):
        told = {"number": value.number, "tensor": tensor_json(value.tensor)}
        return {"use": told if value.of is None else told | {"of": value.of}}
    if isinstance(value, Named):
        return {value.kind: value.name}
    if type(value) is complex:
        return {"complex": [value_json(value.real), value_json(value.imag)]}
    if type(value) is float and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"no argument: {type(value).__name__}")


def tensor_json(value: TensorValue) -> dict[str, Any]:
    """A tensor as JSON's values."""
    told = {name: one for name, one in vars(value).items() if name != "fill"}
    options = {name: value_json(cast("Value", one)) for name, one in value.fill.options.items()}
    return cast("dict[str, Any]", msgspec.to_builtins(_Tensor(**told, fill=value.fill.rule, options=options)))


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


def _tensor(data: Any, place: str) -> TensorValue:
    form = _converted(data, _Tensor, place)
    told = msgspec.structs.asdict(form)
    rule, options = told.pop("fill"), told.pop("options")
    options = {name: value_from_json(one, f"{place}.options.{name}") for name, one in options.items()}
    value = TensorValue(**told, fill=Fill(rule, options))
    if value.strides is not None and len(value.strides) != len(value.shape):
        raise NotAPlanError(f"{place}: has {len(value.shape)} sizes and {len(value.strides)} strides")
    if value.is_filled and rule not in RULES:
        raise NotAPlanError(f"{place}.fill: nothing fills by {rule}")
    if unknown := set(options) - value.options:
        raise NotAPlanError(f"{place}.options: {rule if value.is_filled else value.layout} takes no {min(unknown)}")
    return value


def _argument_json(one: Argument) -> _Argument:
    return _Argument(name=one.name, type=one.type, value=value_json(one.value), assumed=one.assumed)


def _argument(form: _Argument, place: str) -> Argument:
    return Argument(form.name, form.type, value_from_json(form.value, f"{place}.value"), form.assumed)


def _nested(data: Any, place: str, depth: int = 0) -> Any:
    if not isinstance(data, list | tuple):
        if type(data) is int or data is None or data == "":
            return data
        raise NotAPlanError(f"{place}: is neither a number nor a list")
    if depth > _DEEPEST:
        raise NotAPlanError(f"{place}: has too many lists in lists")
    return tuple(_nested(one, place, depth + 1) for one in data)


_Struct = TypeVar("_Struct", bound=_Form)


def _converted(data: Any, form: type[_Struct], place: str) -> _Struct:
    try:
        return msgspec.convert(data, form)
    except (msgspec.ValidationError, RecursionError) as error:
        what, _, where = str(error).partition(" - at `$")
        path = (place + where.removesuffix("`")).lstrip(".")
        raise NotAPlanError(f"{path or 'plan'}: {what[:1].lower()}{what[1:]}") from None
