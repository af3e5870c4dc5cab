from __future__ import annotations

import pytest

from tracelens_graph.perf.scalar_types import DTYPES, FLOATING, INTEGRAL, item_size, profiler_type, torch_dtype


def test_every_dtype_has_a_name_in_traces_and_back() -> None:
    written = [profiler_type(name) for name in DTYPES]
    assert [torch_dtype(one) for one in written] == list(DTYPES)
    assert len(set(written)) == len(DTYPES) == 47


@pytest.mark.parametrize(
    ("written", "dtype"),
    [
        ("long int", "int64"), ("long", "int64"), ("__int64", "int64"), ("unsigned char", "uint8"),
        ("c10::Half", "float16"), ("Half", "float16"), ("c10::complex<c10::Half>", "complex32"),
        ("c10::Float8_e4m3fnuz", "float8_e4m3fnuz"), ("c10::dummy_int1_7_t<4>", "int4"), ("c10::qint8", "qint8"),
        ("Float", "float32"), ("c10::bfloat16", "bfloat16"), ("BFloat16", "bfloat16"),
        ("Scalar", ""), ("", ""), ("hostile'; import os", ""),
    ],
)  # fmt: skip
def test_names_of_compilers(written: str, dtype: str) -> None:
    assert torch_dtype(written) == dtype


def test_sizes_and_kinds() -> None:
    assert [item_size(one) for one in ("bool", "bfloat16", "int32", "complex64", "complex128")] == [1, 2, 4, 8, 16]
    assert "bfloat16" in FLOATING
    assert "uint7" in INTEGRAL
    assert "bool" not in FLOATING | INTEGRAL
