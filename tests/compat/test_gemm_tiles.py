"""How the tiles of products fit a device."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import span

from tracelens_graph.compat.tree_perf import TreePerfAnalyzer

TENSILE = "Cijk_Alik_Bljk_BBS_BH_MT64x32x16_MI16x16x16x1"
NVJET = "nvjet_hsh_64x32_16x4_1x1_h_bz{split}_TNT"


def frame(*kernels: str, op: str = "aten::mm", dims: Any = ((100, 8), (8, 130)), units: int = 4) -> Any:
    """The metrics of one product that launched these kernels."""
    gpu = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
    args = {"Input_Dims": [list(one) for one in dims], "Input_type": ["c10::BFloat16"] * 2}
    events = [span("cpu_op", op, 100, 90, **args)]
    for number, kernel in enumerate(kernels, 1):
        events.append(span("cuda_runtime", "cudaLaunchKernel", 100 + number, 0.5, correlation=number))
        events.append(span("kernel", kernel, 150 + 10 * number, 5, **gpu, correlation=number))
    analyzer = TreePerfAnalyzer.from_file({"traceEvents": events}, arch={"num_cus": units})
    found = analyzer.build_df_perf_metrics(
        [event for event in analyzer.tree.events if event["name"] == op], detail_level=1, include_kernel_names=True
    )
    (row,) = found.to_dict("records")
    return {name: row[f"param: {name}"] for name in ("mt_m", "mt_n", "depth_u", "num_tiles", *SHARES)}


SHARES = ("tile_eff", "wq_eff", "dim_eff")


def test_tiles_of_a_product() -> None:
    """The kernel's M is PyTorch's N: 3 tiles of 64 along 130, 4 of 32 along 100, 12 in three waves of 4."""
    inside = 100 * 130 / (3 * 64 * 4 * 32)
    assert frame(TENSILE) == {
        "mt_m": 64, "mt_n": 32, "depth_u": 16, "num_tiles": 12, "tile_eff": pytest.approx(inside), "wq_eff": 1.0,
        "dim_eff": pytest.approx(inside),
    }  # fmt: skip


def test_every_product_of_a_batch_has_its_tiles() -> None:
    found = frame(TENSILE, op="aten::bmm", dims=((3, 100, 8), (3, 8, 130)))
    assert found["num_tiles"] == 36


def test_blocks_that_share_a_sum() -> None:
    assert frame(f"{TENSILE}_GSU3_", units=5)["wq_eff"] == 36 / 40
    assert frame(f"{TENSILE}_GSU3_", units=5)["num_tiles"] == 12
    unknown = frame(NVJET.format(split="_splitK"))
    assert (unknown["num_tiles"], unknown["wq_eff"], unknown["dim_eff"]) == (12, None, None)
    assert frame(NVJET.format(split=""))["wq_eff"] == 1.0


def test_the_first_name_that_tells_counts() -> None:
    assert frame("vectorized_elementwise_kernel", TENSILE)["num_tiles"] == 12
    assert set(frame("gemm").values()) == {None}
    assert set(frame("void cutlass::device_kernel<at::cuda::gemm_64x32>").values()) == {None}
