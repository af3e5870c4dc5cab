"""The roofline: known answers, its laws, and the roofs that TraceLens computes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.devices import Architecture, Figure, Source, architecture
from tracelens_graph.perf.roofs import Roof, roof_table, roofline, traffic_us

# The MI300X of TraceLens: rates that its authors reach. The reference tables compare every trace with it.
TRACELENS_MI300X = {
    "name": "MI300X",
    "mem_bw_gbps": 5300,
    "memory_gb": 192,
    "max_achievable_tflops": {
        "matrix_fp16": 654, "matrix_bf16": 708, "matrix_fp32": 163, "matrix_fp64": 81, "matrix_fp8": 1273,
        "matrix_int8": 2600, "vector_fp16": 163, "vector_bf16": 163, "vector_fp32": 81, "vector_fp64": 40,
    },
}  # fmt: skip

SIZES = st.integers(1, 2**50)
RATES = st.floats(1e-3, 1e6)


def made(bandwidth: float | None = 1000.0, **rates: float) -> Architecture:
    given = {**({} if bandwidth is None else {"memory_bandwidth_gbps": bandwidth}), **rates}
    return Architecture("made", "Made", "", {name: Figure(value, Source()) for name, value in given.items()})


def roof_of(cost: Cost, arch: Architecture) -> Roof:
    found = roofline(cost, arch)
    assert isinstance(found, Roof), found
    return found


def product(n: int) -> Cost:
    """A product of square matrices in bf16."""
    return Cost(2 * n**3, 3 * 2 * n**2, "matrix", "bf16")


def test_large_product_is_bound_by_compute() -> None:
    """2 * 4096^3 = 137.44e9 FLOPs at 989.4e12 per second; 3 * 2 * 4096^2 = 100.66e6 bytes at 3352e9 per second."""
    roof = roof_of(product(4096), architecture("h100-sxm"))
    assert roof.compute_us == pytest.approx(138.911, abs=1e-3)
    assert roof.memory_us == pytest.approx(30.031, abs=1e-3)
    assert (roof.time_us, roof.bound, roof.rate) == (roof.compute_us, "COMPUTE_BOUND", "matrix_bf16")
    assert roof.percent(2 * roof.compute_us) == 50
    assert roof.percent(0) is None


def test_small_product_is_bound_by_memory() -> None:
    roof = roof_of(product(512), architecture("h100-sxm"))
    assert (roof.time_us, roof.bound) == (roof.memory_us, "MEMORY_BOUND")
    assert roof.memory_us == pytest.approx(3 * 2 * 512**2 / 3352e3)


def test_at_the_ridge_compute_counts_as_the_bound() -> None:
    roof = roof_of(Cost(8000, 1000, "vector", "fp32"), made(vector_fp32=8))
    assert roof.compute_us == roof.memory_us
    assert roof.bound == "COMPUTE_BOUND"


@pytest.mark.parametrize(
    ("cost", "arch", "reason"),
    [
        (Cost(0, 10, "vector", "fp32"), made(vector_fp32=8), "it computes nothing"),
        (Cost(10, None, "vector", "fp32"), made(vector_fp32=8), "the bytes moved are not known"),
        (Cost(10, 10, "vector"), made(vector_fp32=8), "no device has a rate for this element type"),
        (Cost(10, 10, "matrix", "fp8"), made(vector_fp32=8), "made has no rate for matrix_fp8"),
        (Cost(10, 10, "vector", "fp32"), made(None, vector_fp32=8), "the memory bandwidth of made is not known"),
        (Cost(10**400, 10, "vector", "fp32"), made(vector_fp32=8), "its size is out of range"),
    ],
)
def test_reason_why_there_is_no_roof(cost: Cost, arch: Architecture, reason: str) -> None:
    assert roofline(cost, arch) == reason


def test_vectors_without_a_rate_of_their_own_have_that_of_the_matrix_units() -> None:
    work = Cost(10, 1000, "vector", "bf16")
    assert roof_of(work, made(matrix_fp32=5, matrix_bf16=8)).rate == "matrix_fp32"
    assert roof_of(work, made(matrix_bf16=8)).bound == "MEMORY_BOUND"
    assert roofline(work, made(matrix_fp8=8)) == "made has no rate for vector_bf16"


@given(flops=SIZES, moved=SIZES, rate=RATES, bandwidth=RATES)
def test_laws(flops: int, moved: int, rate: float, bandwidth: float) -> None:
    arch, cost = made(bandwidth, matrix_fp16=rate), Cost(flops, moved, "matrix", "fp16")
    roof = roof_of(cost, arch)
    assert roof.time_us == max(roof.compute_us, roof.memory_us) > 0
    ridge = arch.ridge("matrix_fp16")
    assert ridge is not None
    assert cost.intensity is not None
    if abs(cost.intensity / ridge - 1) > 1e-9:
        assert (roof.bound == "COMPUTE_BOUND") == (cost.intensity > ridge)
    assert flops / (roof.time_us * 1e6) <= rate * (1 + 1e-9)
    assert moved / (roof.time_us * 1e3) <= bandwidth * (1 + 1e-9)
    faster = made(2 * bandwidth, matrix_fp16=2 * rate)
    assert roof_of(cost, faster).time_us == pytest.approx(roof.time_us / 2)
    more = Cost(flops + 1, moved + 1, "matrix", "fp16")
    assert roof_of(more, arch).time_us >= roof.time_us


# -- the table


def test_table_says_at_which_rate_work_runs_and_what_is_open() -> None:
    cost = Cost(2 * 10**9, 4 * 2**20, "matrix", "fp32", {}, (10**9, 3 * 10**9), (2**20, 8 * 2**20))
    assert roof_table(cost, [made(vector_fp32=8)]).notes == [
        "GFLOP: 1.000 to 3.000, as the arguments leave it open",
        "data moved: 1.000 to 8.000 MiB, as the arguments leave it open",
        "made: matrix_fp32 runs at the rate of vector_fp32",
    ]


# -- what TraceLens computes


def test_what_moves_data_alone_takes_bytes_by_bandwidth() -> None:
    assert traffic_us(Cost(0, 4_000_000, "vector"), made()) == 4
    assert traffic_us(Cost(8, 4_000_000, "vector"), made()) == 4  # on whole numbers
    assert traffic_us(Cost(8, 4_000_000, "vector", "fp32"), made()) is None
    assert traffic_us(Cost(8, 4_000_000, "matrix"), made()) is None
    assert traffic_us(Cost(0, None, "vector"), made()) is None
    assert traffic_us(Cost(0, 4_000_000, "vector"), made(bandwidth=None)) is None
