"""Types of tensor elements: their size, and the precision in which devices compute on them."""

from __future__ import annotations

from typing import NamedTuple

from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.scalar_types import DTYPES, profiler_type


class ElementType(NamedTuple):
    """Bits of one element, the name of the precision among a device's peak rates ("" where it has none), and how many
    numbers one element holds (2 in packed 4-bit types).
    """

    bits: int
    precision: str
    values: int = 1


_TYPES = {
    "double": ElementType(64, "fp64"),
    "float": ElementType(32, "fp32"),
    "half": ElementType(16, "fp16"),
    "bfloat16": ElementType(16, "bf16"),
    "float8_e4m3fn": ElementType(8, "fp8"),
    "float8_e4m3fnuz": ElementType(8, "fp8"),
    "float8_e5m2": ElementType(8, "fp8"),
    "float8_e5m2fnuz": ElementType(8, "fp8"),
    "float8_e8m0fnu": ElementType(8, ""),
    "float4_e2m1fn_x2": ElementType(8, "fp4", 2),
    "complex<float>": ElementType(64, "fp32"),
    "complex<double>": ElementType(128, "fp64"),
    "long int": ElementType(64, ""),
    "long": ElementType(64, ""),
    "int": ElementType(32, ""),
    "short int": ElementType(16, ""),
    "short": ElementType(16, ""),
    "signed char": ElementType(8, "int8"),
    "char": ElementType(8, "int8"),
    "unsigned char": ElementType(8, ""),
    "bool": ElementType(8, ""),
}
"""Names as PyTorch's profiler writes them (C++ types), in lower case, without `c10::`. A packed type is one element."""

_SHORT = {
    "fp64": "double", "fp32": "float", "tf32": "float", "fp16": "half", "bf16": "bfloat16", "fp8": "float8_e4m3fn",
    "fp4": "float4_e2m1fn_x2", "int8": "signed char", "int32": "int", "int64": "long",
    "f64": "double", "f32": "float", "f16": "half", "f8e4m3fn": "float8_e4m3fn", "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu", "c64": "complex<float>",
    "c128": "complex<double>", "s64": "long", "u64": "long", "s32": "int", "u32": "int", "s16": "short", "u16": "short",
    "s8": "signed char", "u8": "unsigned char", "pred": "bool",
}  # fmt: skip
"""Names that people use, and those of XLA -> those above."""

SCALAR_TYPES = {
    number: written
    for number, written in enumerate(map(profiler_type, DTYPES))
    if written.lower().removeprefix("c10::") in _TYPES
}
"""A dtype as an argument is recorded as its number in `c10::ScalarType` -> the name that profilers have for it."""


def element_type(name: str) -> ElementType:
    """What is known of a type, by the profiler's name or a short one (`c10::BFloat16`, `bf16`, `torch.bfloat16`).

    Raises:
        CannotModel: nothing is.
    """
    plain = name.lower().removeprefix("torch.").rpartition("c10::")[2]
    plain = {"float32": "float", "float64": "double", "float16": "half", "int64": "long", "int8": "char"}.get(
        plain, plain
    )
    if plain == "tf32":
        return ElementType(32, "tf32")
    try:
        return _TYPES[_SHORT.get(plain, plain)]
    except KeyError:
        raise CannotModel(f"element type {name!r} is not known") from None
