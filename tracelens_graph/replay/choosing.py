"""Which schema a call was made by: the one whose parameters fit what was recorded.

A candidate has as many parameters as arguments were recorded, since the profiler records defaults, too. Every argument
must fit its parameter; a bool, int or float that fits exactly counts more than one that becomes a Scalar. Where an
execution trace names the overload, that is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracelens_graph.errors import CannotReplay, NotAValueError, TraceLensGraphError
from tracelens_graph.replay.calls import Call, Number, number, numbers
from tracelens_graph.replay.replay_plan import NAMED
from tracelens_graph.replay.schemas import Parameter, Schema, parse, schemas_of

SCALAR, SCALARS, TENSORS = "Scalar", "ScalarList", ("TensorList", "OptionalTensorList", "GenericList")
"""Types that the profiler records of what is not a tensor."""

_INTEGERS = frozenset({"int", "SymInt"})
_UNRECORDED = frozenset({"str", "Device", "Generator", "Storage", "Stream", "Dimname", "Tensor"})
"""Types that are recorded as nothing; an undefined tensor is."""

LINK = "give the execution trace of the run: --et FILE"
"""What has what the profiler does not record."""


def choose(call: Call) -> Schema:
    """The schema of a call.

    Raises:
        CannotReplay: no schema fits.
    """
    known = call.schemas or schemas_of(call.op)
    if not known:
        raise CannotReplay("not an operator of PyTorch", "a replayer in an extension file")
    if not len(call):
        bare = [one for one in known if not one.parameters]
        if bare and not call.recorded.dims:
            return bare[0]
        raise CannotReplay("arguments are not recorded", f"record with record_shapes=True, or {LINK}")
    alike = [one for one in known if len(one.parameters) == len(call)]
    if not alike and len(call.recorded.values) > len(call):
        missing = f"{len(call.recorded.values) - len(call)} of its {len(call.recorded.values)} arguments"
        raise CannotReplay(f"types and sizes of {missing} are not recorded", "record with PyTorch's profiler")
    if not alike:
        raise CannotReplay(
            f"no known schema takes {len(call)} arguments", "a replayer with its schema, in an extension"
        )
    if named := _named(call, alike):
        return named
    scored = [(score, one) for one in alike if (score := _score(call, one)) > 0]
    if not scored:
        raise CannotReplay("no known schema takes these arguments", LINK)
    return min(scored, key=lambda one: (-one[0], _has_string(one[1]), -_absent(call, one[1]), len(one[1].overload)))[1]


def _named(call: Call, alike: Sequence[Schema]) -> Schema | None:
    """The candidate that the execution trace names."""
    if not call.schema:
        return None
    try:
        recorded = parse(call.schema)
    except TraceLensGraphError:
        return None
    same = [one for one in alike if one.overload == recorded.overload and recorded.op == call.op]
    return next((one for one in same if one.names == recorded.names), same[0] if same else None)


def _absent(call: Call, schema: Schema) -> int:
    """Tensors that were not given: Python tries to pass nothing as one before it tries a number."""
    pairs = zip(schema.parameters, call.recorded.types, strict=True)
    return sum(one.kind.base == "Tensor" and not one.kind.is_list for one, written in pairs if not written)


def _has_string(schema: Schema) -> bool:
    return any(one.kind.base == "str" for one in schema.parameters)


def _score(call: Call, schema: Schema) -> int:
    """How well a schema fits; 0 if it does not."""
    total = 0
    values = call.recorded.values
    for at, (parameter, written) in enumerate(zip(schema.parameters, call.recorded.types, strict=True)):
        points = fit(parameter, written, values[at] if at < len(values) else "", bool(values))
        if not points:
            return 0
        total += points
    return total


def fit(parameter: Parameter, written: str, text: str, has_values: bool = True) -> int:
    """How well an argument fits a parameter: 0 not at all, 1 possibly, 2 exactly.

    Args:
        parameter: the parameter.
        written: type of the argument as recorded.
        text: its value as recorded; empty where it was not.
        has_values: whether values were recorded at all.
    """
    kind = parameter.kind
    if not written:
        if kind.is_list and kind.length and has_values and not kind.is_optional:
            return 0  # too short to be cut
        if parameter.is_written and not kind.is_optional and not kind.is_list:
            return 0  # a tensor that is written is one
        return int(kind.is_optional or kind.is_list or kind.base in _UNRECORDED or "." in kind.base)
    if written == SCALAR:
        return 0 if kind.is_list or kind.base == "Tensor" else _fit_number(kind.base, text)
    if written == SCALARS:
        return int(kind.is_list and kind.base != "Tensor" and _fits_numbers(kind.base, text))
    if written in TENSORS:
        return int(kind.is_list and (kind.base == "Tensor" or written == "GenericList"))
    return int(kind.base == "Tensor" and not kind.is_list)


def _fit_number(base: str, text: str) -> int:
    if not text:
        return int(base in ("int", "SymInt", "bool", "float", "Scalar", *NAMED))
    try:
        return _fit_value(base, number(text))
    except NotAValueError:
        return 0


def _fit_value(base: str, value: Number) -> int:
    if base == "Scalar":
        return 1
    if isinstance(value, bool):
        return 2 * (base == "bool")
    if isinstance(value, int):
        return 2 * (base in _INTEGERS) or int(base in NAMED and 0 <= value < len(NAMED[base][1]))
    return 2 * (base == "float" and isinstance(value, float))


def _fits_numbers(base: str, text: str) -> bool:
    if not text:
        return True
    try:
        return all(_fit_value(base, one) for one in numbers(text))
    except NotAValueError:
        return False
