"""Python numbers, which are recorded as tensors without dimensions.

`x * 2.0` reaches the profiler as a product of two tensors. Passed as a number again, it is recorded alike, promotes
types as it did, and needs no copy to a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracelens_graph.replay.arguments import Argument, TensorValue, Value
from tracelens_graph.replay.call import Call
from tracelens_graph.replay.schemas import Schema

_OF_PYTHON: dict[str, Value] = {"float64": 2.0, "int64": 2, "bool": True, "complex128": complex(2.0, 0.0)}
"""Dtypes that Python's numbers have as tensors, and a number of each that nearly every op can take."""

_BINARY = frozenset((
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "float_power",
    "atan2", "arctan2", "hypot", "copysign", "eq", "ne", "lt", "le", "gt", "ge", "less", "greater", "less_equal",
    "greater_equal", "not_equal", "maximum", "minimum", "fmax", "fmin", "max", "min", "where", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "logical_and", "logical_or",
    "logical_xor", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "xlogy", "heaviside", "nextafter",
    "divide", "multiply", "subtract", "ldexp", "result_type", "masked_fill", "fill", "clamp", "clamp_min",
    "clamp_max", "lerp", "special_xlog1py", "special_xlogy", "special_zeta", "gcd", "lcm", "logaddexp",
    "logaddexp2",
))  # fmt: skip
"""Ops that Python's operators, or functions that take a number for a tensor, lead to; in-place forms not told apart."""

_TAKING_NUMBERS = frozenset(
    ("add", "div", "divide", "mul", "multiply", "sub", "subtract", "true_divide", "floor_divide")
)
"""Those to which PyTorch lets one pass a number for a tensor when they are called by overload; to the others a tensor
on the host is passed, which is what PyTorch makes of a number."""

_WHY = "a Python number, as far as types and sizes tell; its value is not recorded"


def as_numbers(call: Call, schema: Schema, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with numbers for those tensors that most likely were Python's numbers.

    Such a tensor has no dimensions and the dtype of a Python number, is not written, and stands beside one with
    dimensions or of another dtype. Where an execution trace has devices, it is on the host beside one that is not.
    """
    name = call.op.partition("::")[2]
    name = name if name.endswith("__") else name.removesuffix("_")
    if name not in _BINARY:
        return list(arguments)
    given = [one.value for one in arguments if isinstance(one.value, TensorValue)]
    on_device = any(not one.on_cpu for one in given)
    told = len(call.observed) == len(call) and any(one.on_cpu for one in given)
    written = {one.name for one in schema.parameters if one.is_written}
    found = []
    kept = _kept(call, arguments)
    for one in arguments:
        value = one.value
        if (
            isinstance(value, TensorValue)
            and not value.shape
            and value.dtype in _OF_PYTHON
            and one.name not in written
            and one.name != kept
            and (any(one.shape or one.dtype != value.dtype for one in given) or (told and on_device))
            and not (told and not value.on_cpu)
        ):
            made = _OF_PYTHON[value.dtype] if name in _TAKING_NUMBERS else replace(value, on_cpu=True)
            one = replace(one, value=made, assumed=_WHY)
        found.append(one)
    return found


def _kept(call: Call, arguments: Sequence[Argument]) -> str:
    """Name of the operand that stays a tensor where none has dimensions; empty if that need not be said.

    A number beside a tensor of a lower kind makes the result of the default dtype, to which both are cast. Where only
    one is, the tensor has the floating dtype of the result.
    """
    given = [one for one in arguments if isinstance(one.value, TensorValue)]
    if not call.around.is_traced or any(one.value.shape for one in given if isinstance(one.value, TensorValue)):
        return ""
    floating = [one.name for one in given if isinstance(one.value, TensorValue) and one.value.dtype == "float64"]
    return floating[0] if len(floating) == 1 and list(call.around.children).count("aten::to") == 1 else ""
