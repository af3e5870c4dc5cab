"""Types of tensor elements: their size and precision, and their names in profilers, PyTorch and XLA.

Numbers of PyTorch's enums are here, too, those of layouts and memory formats included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tracelens_graph.perf.cost import CannotModel

DTYPES: tuple[str, ...] = (
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
    "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16", "quint4x2", "quint2x4", "bits1x8", "bits2x4",
    "bits4x2", "bits8", "bits16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16",
    "uint32", "uint64", "uint1", "uint2", "uint3", "uint4", "uint5", "uint6", "uint7", "int1", "int2", "int3", "int4",
    "int5", "int6", "int7", "float8_e8m0fnu", "float4_e2m1fn_x2", "bcomplex32",
)  # fmt: skip
"""PyTorch's dtypes by their number in `c10::ScalarType`, which is how a trace has a dtype that is an argument."""

LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
"""PyTorch's layouts by their number in `c10::Layout`."""

MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
"""PyTorch's memory formats by their number in `c10::MemoryFormat`."""

_WRITTEN: Mapping[str, str] = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int", "int64": "long int",
    "uint16": "short unsigned int", "uint32": "unsigned int", "uint64": "long unsigned int", "float16": "c10::Half",
    "float32": "float", "float64": "double", "bfloat16": "c10::BFloat16", "bool": "bool",
    "complex32": "c10::complex<c10::Half>", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
    "bcomplex32": "c10::complex<c10::BFloat16>",
    **{name: f"c10::{name}" for name in DTYPES if name.startswith(("q", "bits"))},
    **{name: f"c10::{name.capitalize()}" for name in DTYPES if name.startswith(("float8", "float4"))},
    **{f"{sign}{bits}": f"c10::dummy_{sign}1_7_t<{bits}>" for sign in ("int", "uint") for bits in range(1, 8)},
}  # fmt: skip
"""PyTorch's name -> the profiler's, which is that of the C++ type as GCC writes it."""

_ALSO: Mapping[str, str] = {
    "long": "int64", "long long": "int64", "__int64": "int64", "long long int": "int64", "short": "int16",
    "char": "int8", "unsigned short": "uint16", "unsigned long": "uint64", "unsigned __int64": "uint64",
    "unsigned long long": "uint64", "long long unsigned int": "uint64", "at::Half": "float16",
    "at::BFloat16": "bfloat16", "std::complex<float>": "complex64", "std::complex<double>": "complex128",
}  # fmt: skip
"""How other compilers and versions write them."""

_BY_NAME: Mapping[str, str] = {**{written: name for name, written in _WRITTEN.items()}, **_ALSO}
_BY_PLAIN_NAME = {written.lower().removeprefix("c10::"): name for written, name in _BY_NAME.items()}

FLOATING = frozenset(name for name in DTYPES if name.startswith(("float", "bfloat", "complex", "bcomplex")))
"""Dtypes of numbers with a fraction, complex ones included."""

INTEGRAL = frozenset(name for name in DTYPES if name.startswith(("int", "uint")))
"""Dtypes of whole numbers; not bool."""

_SIZES: Mapping[str, int] = {
    **dict.fromkeys(DTYPES, 1), "int16": 2, "uint16": 2, "float16": 2, "bfloat16": 2, "bits16": 2, "int32": 4,
    "uint32": 4, "float32": 4, "qint32": 4, "complex32": 4, "bcomplex32": 4, "int64": 8, "uint64": 8, "float64": 8,
    "complex64": 8, "complex128": 16,
}  # fmt: skip


def torch_dtype(written: str) -> str:
    """PyTorch's name of an element type as a profiler writes it: `int64` for `long int`; empty where it is none.

    Case does not matter, nor whether `c10::` stands before it: others than PyTorch write `Float` and `c10::bfloat16`.
    """
    return _BY_NAME.get(written) or _BY_PLAIN_NAME.get(written.lower().removeprefix("c10::"), "")


def profiler_type(dtype: str) -> str:
    """The profiler's name of a dtype: `long int` for `int64`.

    Raises:
        KeyError: PyTorch has no such dtype.
    """
    return _WRITTEN[dtype]


def item_size(dtype: str) -> int:
    """Bytes of one element.

    Raises:
        KeyError: PyTorch has no such dtype.
    """
    return _SIZES[dtype]


class ElementType(NamedTuple):
    """Bits of one element, the name of the precision among a device's peak rates ("" where it has none), and how many
    numbers one element holds (2 in packed 4-bit types).
    """

    bits: int
    precision: str
    values: int = 1

    @property
    def is_floating(self) -> bool:
        """Whether its numbers have a fraction, as far as that is known."""
        return self.precision not in ("", "int8")


_TYPES = {
    "double": ElementType(64, "fp64"), "float": ElementType(32, "fp32"), "tf32": ElementType(32, "tf32"),
    "half": ElementType(16, "fp16"), "bfloat16": ElementType(16, "bf16"), "float8_e4m3fn": ElementType(8, "fp8"),
    "float8_e4m3fnuz": ElementType(8, "fp8"), "float8_e5m2": ElementType(8, "fp8"),
    "float8_e5m2fnuz": ElementType(8, "fp8"), "float8_e8m0fnu": ElementType(8, ""),
    "float4_e2m1fn_x2": ElementType(8, "fp4", 2), "complex<float>": ElementType(64, "fp32"),
    "complex<double>": ElementType(128, "fp64"), "long int": ElementType(64, ""), "long": ElementType(64, ""),
    "int": ElementType(32, ""), "short int": ElementType(16, ""), "short": ElementType(16, ""),
    "signed char": ElementType(8, "int8"), "char": ElementType(8, "int8"), "unsigned char": ElementType(8, ""),
    "bool": ElementType(8, ""),
}  # fmt: skip
"""Names as PyTorch's profiler writes them (C++ types), in lower case, without `c10::`. A packed type is one element."""

_SHORT = {
    "fp64": "double", "fp32": "float", "fp16": "half", "bf16": "bfloat16", "fp8": "float8_e4m3fn",
    "fp4": "float4_e2m1fn_x2", "int8": "signed char", "int32": "int", "int64": "long", "float64": "double",
    "float32": "float", "float16": "half",
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
    found = _TYPES.get(_SHORT.get(plain, plain))
    if found is None:
        raise CannotModel(f"element type {name!r} is not known")
    return found


def known(name: str) -> ElementType:
    """What is known of a type; no bits and no precision if nothing is."""
    try:
        return element_type(name)
    except CannotModel:
        return ElementType(0, "")
