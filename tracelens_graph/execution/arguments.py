"""Arguments of an execution trace in the words of the profiler's trace.

PyTorch's profiler and its observer of operators record the same arguments differently. Here the observer's become what
the profiler would have written: argument sets with its names of types, and the arguments of collectives. So signatures
of operators, models and collectives are the same whichever of the two recorded them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from tracelens_graph.execution.sides import Argument, Form, Sides, decoded, elements, json_list, raw_list
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.utils.arrays import Rows

ArgumentSet = tuple[str, str, str, str]
"""Dims, types, strides and concrete inputs as compact JSON texts; empty where not recorded."""

COMMUNICATION_OP = "record_param_comms"
"""The op under which PyTorch records what a collective was called with."""

_LONGEST_LIST = 30
"""The profiler records neither shapes nor values of longer lists."""

_SCALARS = frozenset({"Int", "Double", "Bool", "ComplexDouble", "SymInt", "SymFloat", "SymBool"})
_UNDEFINED = "nullptr (uninitialized)"
_WHOLE_BELOW = 1e10
"""Whole floats below this are written as `1.`."""

_ELEMENT_TYPES = {
    "float": "Float", "double": "Double", "long int": "Long", "long": "Long", "long long": "Long", "int": "Int",
    "short int": "Short", "short": "Short", "signed char": "Char", "unsigned char": "Byte", "bool": "Bool",
}  # fmt: skip
"""C++ names of element types -> names that collectives have them by."""

_TEXTS: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[list[Raw]])
"""Of values of several nodes, each argument a text."""

_POINT_TO_POINT = {"send": "target_rank", "recv": "source_rank"}
_MOST_RANKS = 1_000_000


class ArgumentSets:
    """Translates arguments of an execution trace, and keeps the sets that it made."""

    def __init__(self) -> None:
        self._code: dict[ArgumentSet, int] = {}

    @property
    def sets(self) -> list[ArgumentSet]:
        """The sets, by code."""
        return list(self._code)

    def codes(self, inputs: Sides, rows: Rows) -> np.ndarray:
        """For the inputs of some nodes, given ascending, the code of their argument set; -1 for nodes without any."""
        found = np.full(len(inputs), -1, np.int32)
        known: dict[int, tuple[ArgumentSet, tuple[int, ...]]] = {}
        for group in inputs.groups(rows):
            if group.form not in known:
                known[group.form] = _without_values(inputs.forms[group.form])
            arguments, places = known[group.form]
            if places:
                found[group.rows] = self._with_values(arguments, places, decoded(group.texts, _TEXTS))
            elif arguments[1]:
                found[group.rows] = self._code.setdefault(arguments, len(self._code))
        return found[rows]

    def _with_values(self, arguments: ArgumentSet, places: tuple[int, ...], given: list[list[Raw] | None]) -> list[int]:
        """Codes of an argument set with the values of several nodes; few of them differ."""
        code_of: dict[tuple[bytes, ...], int] = {}
        codes = []
        for values in given:
            found = values or ()
            texts = tuple([bytes(found[place]) if place < len(found) else b"" for place in places])
            code = code_of.get(texts)
            if code is None:
                whole = (*arguments[:3], _with_values(arguments[3], texts, places))
                code = code_of[texts] = self._code.setdefault(whole, len(self._code))
            codes.append(code)
        return codes


def _without_values(form: Form) -> tuple[ArgumentSet, tuple[int, ...]]:
    """The argument set with empty values, and the places of arguments whose values the profiler records."""
    types = json_list(form[1])
    shapes, strides = (raw_list(text) for text in (form[0], form[2]))
    if not types:
        return ("", "", "", ""), ()
    names = [_type_name(one) for one in types]
    recorded = [name not in ("", "Scalar", "ScalarList") for name in names]
    texts = [
        _encoded([_sizes(of[i], name) if known and i < len(of) else [] for i, (name, known) in enumerate(pairs)])
        for of in (shapes, strides)
        if (pairs := list(zip(names, recorded, strict=True)))
    ]
    places = tuple(i for i, name in enumerate(names) if name in ("Scalar", "ScalarList"))
    values = _encoded([""] * len(names))
    return (texts[0], _encoded(names), texts[1] if strides else "", values), places


def _with_values(empty: str, values: tuple[bytes, ...], places: tuple[int, ...]) -> str:
    texts: list[str] = msgspec.json.decode(empty)
    for place, value in zip(places, values, strict=True):
        if value:
            texts[place] = value_text(decoded([value])[0])
    return _encoded(texts)


def _encoded(values: Any) -> str:
    return msgspec.json.encode(values).decode()


def _sizes(of: Raw, name: str) -> list[Any]:
    """Sizes or strides as the profiler has them."""
    if name != "TensorList":
        return json_list(bytes(of))
    found = list(islice(elements(bytes(of)), _LONGEST_LIST + 1))
    return found if len(found) <= _LONGEST_LIST else []


def _type_name(recorded: Any) -> str:
    """The profiler's name of a type: a tensor's element type, `Scalar` and the like; empty for anything else."""
    if not isinstance(recorded, str):
        return ""
    if recorded in _SCALARS:
        return "Scalar"
    if recorded.startswith("Tensor("):
        return _element_type(recorded)
    if not recorded.startswith("GenericList[") or not recorded.endswith("]"):
        return ""
    elements = recorded[len("GenericList[") : -1]
    if not elements:
        return "ScalarList"
    if elements.startswith("Tensor("):
        return "TensorList"
    is_short = elements.count(",") < _LONGEST_LIST
    return "ScalarList" if is_short and elements.partition(",")[0] in _SCALARS else ""


def _element_type(recorded: str) -> str:
    """The element type in `Tensor(float)`; empty for a tensor that is not defined."""
    found = recorded.removeprefix("Tensor(").removesuffix(")")
    return "" if found == _UNDEFINED else found


def value_text(value: Any) -> str:
    """A value as PyTorch prints it."""
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, float):
        return _float_text(value)
    return str(value)


def _float_text(value: float) -> str:
    if abs(value) < _WHOLE_BELOW and value.is_integer():
        return f"{'-' if math.copysign(1, value) < 0 else ''}{abs(int(value))}."
    return f"{value:.17g}"


def collective_arguments(execution: ExecutionTrace) -> dict[int, dict[str, Any]]:
    """Row -> arguments of the collective, for operators that record one, in the keys of `Core.collective_args`.

    A process group that is known by a number only has none: the number is an address, different on every rank.
    """
    codes = [code for code, name in enumerate(execution.names) if name == COMMUNICATION_OP]
    rows = np.flatnonzero(np.isin(execution.name, codes)).tolist()
    return {row: found for row in rows if (found := _collective(execution, row))}


def _collective(execution: ExecutionTrace, row: int) -> dict[str, Any]:
    inputs, outputs = (side[row].decoded() for side in (execution.inputs, execution.outputs))
    found = {**_from_inputs(inputs), **_from_attributes(execution.more.get(row, {}))}
    if found.get("kind") is None:
        return {}
    given, taken = _tensors_among(inputs), _tensors_among(outputs)
    for key, tensors in (("in_elements", given), ("out_elements", taken)):
        if found.get(key) is None:
            found[key] = sum(elements for elements, _ in tensors)
    if found.get("dtype") is None and (given or taken):
        name = (given or taken)[0][1]
        found["dtype"] = _ELEMENT_TYPES.get(name, name.removeprefix("c10::"))
    if found.get("group_size") is None and (parts := len(json_list((found.get("in_split") or "").encode()))):
        found["group_size"] = parts
    found["ranks"] = _ranks(found.pop("first_rank", None), found.pop("stride", None), found.get("group_size"))
    if end := _POINT_TO_POINT.get(found["kind"]):
        found[end] = found.pop("rank", None)  # there, the rank is that of the other end
    return found


def group_address(execution: ExecutionTrace, row: int) -> int | None:
    """The number of the process group of a collective where it has no name: equal on one rank for one group."""
    inputs = execution.inputs[row].decoded()
    at = _place_of_name(inputs)
    found = inputs[at - 2].value if at >= 3 else None
    return found if type(found) is int and found else None


def _place_of_name(inputs: list[Argument]) -> int:
    return next((i for i, one in enumerate(inputs) if one.type == "String" and isinstance(one.value, str)), -1)


def _from_inputs(inputs: list[Argument]) -> dict[str, Any]:
    """What stands in the inputs, by place: [tensors,] sequence, group, rank, name, splits [, first rank, stride], size.

    The name is the first text; what stands before and behind it differs between versions.
    """
    at = _place_of_name(inputs)
    if at < 3:
        return {}
    sequence, group, rank, kind = (one.value for one in inputs[at - 3 : at + 1])
    behind = [one.value for one in inputs[at + 1 :]]
    splits = [json.dumps(one) if isinstance(one, list) else None for one in behind[:2]]
    found = {
        "kind": kind,
        "sequence": sequence[0] if isinstance(sequence, list) and sequence else sequence,
        "rank": rank,
        **dict(zip(("in_split", "out_split"), splits, strict=False)),
    }
    if isinstance(group, list) and len(group) == 2 and group[0]:
        found |= {"group": group[0], "group_description": group[1]}
    if len(behind) >= 5:
        found |= {"first_rank": behind[2], "stride": behind[3], "group_size": behind[4]}
    elif len(behind) == 3:
        found["group_size"] = behind[2]
    return found


_ATTRIBUTES = {
    "collective_name": "kind", "dtype": "dtype", "in_msg_nelems": "in_elements", "out_msg_nelems": "out_elements",
    "in_split_size": "in_split", "out_split_size": "out_split", "pg_name": "group", "pg_desc": "group_description",
    "pg_size": "group_size", "global_rank_start": "first_rank", "global_rank_stride": "stride",
}  # fmt: skip


def _from_attributes(more: Mapping[str, Any]) -> dict[str, Any]:
    return {key: more[name] for name, key in _ATTRIBUTES.items() if more.get(name) not in (None, "")}


def _tensors_among(arguments: Iterable[Argument]) -> list[tuple[int, str]]:
    """(number of elements, C++ name of the element type) of tensors, also of those in lists."""
    found = []
    for one in arguments:
        many = one.value if one.type.startswith("GenericList[Tensor(") and isinstance(one.value, list) else [one.value]
        inner = one.type.removeprefix("GenericList[")
        if not inner.startswith("Tensor("):
            continue
        name = _element_type(inner.partition(")")[0])
        for value in many:
            if isinstance(value, list) and len(value) >= 4 and type(value[3]) is int:
                found.append((value[3], name))
    return found


def _ranks(first: Any, stride: Any, size: Any) -> str | None:
    """The ranks of a group as the profiler writes them; None where they do not follow from these numbers."""
    numbers = [first, stride, size]
    if any(type(one) is not int for one in numbers) or first < 0 or stride < 1 or not 1 <= size <= _MOST_RANKS:
        return None
    return json.dumps(list(range(first, first + stride * size, stride)))
