"""Thread blocks of kernels: grids of blocks, grids of threads, and what is no grid."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import span

from tracelens_graph.analyses.kernels.occupancy import kernel_occupancy
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.thread_blocks import multiprocessors, thread_blocks
from tracelens_graph.loading.one import load_core


def launched(call: str, **args: Any) -> Core:
    events = [
        span("cuda_runtime", call, 0, 2, correlation=1),
        span("kernel", "k", 5, 10, 0, 7, device=0, stream=7, correlation=1, **args),
    ]
    return load_core({"deviceProperties": [{"id": 0, "numSms": 8}, {"id": 0, "numSms": 9}], "traceEvents": events})


@pytest.mark.parametrize(
    ("call", "args", "blocks"),
    [
        ("hipLaunchKernel", {"grid": [16, 2, 1], "block": [256, 1, 1]}, 32),
        ("hipExtModuleLaunchKernel", {"grid": [4096, 2, 1], "block": [256, 1, 1]}, 32),
        ("hipExtModuleLaunchKernel", {"grid": [4097, 2, 1], "block": [256, 1, 1]}, 34),
        ("hipExtModuleLaunchKernel", {"grid": [4096, 2, 1]}, 8192),
        ("hipLaunchKernel", {"grid": [2**40] * 3}, 2**62),
        ("hipLaunchKernel", {"grid": [16, 2]}, 0),
        ("hipLaunchKernel", {"grid": [16, True, 1]}, 0),
        ("hipLaunchKernel", {"grid": "16"}, 0),
        ("hipLaunchKernel", {}, 0),
    ],
)
def test_blocks(call: str, args: dict[str, Any], blocks: int) -> None:
    core = launched(call, **args)
    assert thread_blocks(core, core.gpu_rows).tolist() == [blocks]
    assert multiprocessors(core) == {0: 8}
    (found,) = kernel_occupancy(core).records()
    assert found["blocks_per_sm"] == pytest.approx(blocks / 8 if blocks else float("nan"), nan_ok=True)


def test_grid_and_device_of_rocm() -> None:
    """The grid stands with the launch; the device has its number in the node, its description that of the process."""
    core = load_core({
        "deviceProperties": [{"id": 0, "numSms": 8}],
        "traceEvents": [
            span("cuda_runtime", "hipExtModuleLaunchKernel", 0, 2, correlation=1, grid=[1024, 1, 1], block=[256, 1, 1]),
            span("kernel", "k", 5, 10, 2, 7, device=2, stream=7, correlation=1),
        ],
    })  # fmt: skip
    assert thread_blocks(core, core.gpu_rows).tolist() == [4]
    assert multiprocessors(core)[2] == 8
