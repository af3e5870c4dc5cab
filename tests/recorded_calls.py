"""Calls as the profiler records them: single ones, and a small training step of every kind of work."""

from __future__ import annotations

from math import prod
from typing import Any

from handmade import span

from tracelens_graph.replay.calls import Call, Surroundings
from tracelens_graph.replay.replay_plan import Recorded


def tensor(*shape: int, dtype: str = "float", strides: tuple[int, ...] | None = None) -> tuple[Any, str, Any, str]:
    """A tensor: dims, type, strides, value."""
    dense = tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
    return shape, dtype, dense if strides is None else strides, ""


def scalar(text: str) -> tuple[Any, str, Any, str]:
    return (), "Scalar", (), text


def listed(text: str) -> tuple[Any, str, Any, str]:
    return (), "ScalarList", (), text


def tensors(*shapes: tuple[int, ...]) -> tuple[Any, str, Any, str]:
    return shapes, "TensorList", tuple(tensor(*one)[2] for one in shapes), ""


NOTHING: tuple[Any, str, Any, str] = ((), "", (), "")


class Around(Surroundings):
    """Names below a call."""

    def __init__(self, children: tuple[str, ...] = (), kernels: tuple[str, ...] = (), near: str = "") -> None:
        self.children, self.kernels, self._near = children, kernels, near

    def dtype_near(self, shape: tuple[int, ...]) -> str:
        return self._near


def call(op: str, *arguments: tuple[Any, str, Any, str], around: Surroundings | None = None, **more: Any) -> Call:
    dims, types, strides, values = zip(*arguments, strict=True) if arguments else ((), (), (), ())
    return Call(f"aten::{op}", Recorded(dims, types, strides, values), around=around or Surroundings(), **more)


MM = {"Input_Dims": [[8, 16], [16, 4]], "Input_type": ["float", "float"], "Input_Strides": [[16, 1], [4, 1]],
      "Concrete_Inputs": ["", ""]}  # fmt: skip
OTHER = MM | {"Input_Dims": [[8, 32], [32, 4]], "Input_Strides": [[32, 1], [4, 1]]}
COPY = {"Input_Dims": [[8], [8], []], "Input_type": ["float", "c10::Half", "Scalar"],
        "Input_Strides": [[1], [1], []], "Concrete_Inputs": ["", "", "False"]}  # fmt: skip


def calls() -> dict[str, Any]:
    """The trace, as parsed JSON. Every call's uid is its place in the list.

    GPU time in us: mm of one shape 10 + 30, of another 25, copy_ below a custom op 5, that op itself 37, a collective
    50, a graph 100, a launch below no op 3, no launch 2.
    """
    gpu: dict[str, Any] = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
    events = [
        span("cpu_op", "aten::matmul", 100, 40, **MM),
        span("cpu_op", "aten::mm", 110, 20, **MM),
        span("cuda_runtime", "cudaLaunchKernel", 115, 5, correlation=1),
        span("kernel", "gemm", 200, 10, **gpu, correlation=1),
        span("cpu_op", "aten::mm", 300, 20, **MM),
        span("cuda_runtime", "cudaLaunchKernel", 305, 5, correlation=2),
        span("kernel", "gemm", 350, 30, **gpu, correlation=2),
        span("cpu_op", "aten::mm", 400, 20, **OTHER),
        span("cuda_runtime", "cudaLaunchKernel", 405, 5, correlation=3),
        span("kernel", "gemm2", 450, 25, **gpu, correlation=3),
        span("cpu_op", "my::fused", 500, 60, **MM),
        span("cpu_op", "aten::copy_", 510, 20, **COPY),
        span("cuda_runtime", "cudaLaunchKernel", 515, 5, correlation=4),
        span("kernel", "copy", 560, 5, **gpu, correlation=4),
        span("cuda_runtime", "cudaLaunchKernel", 540, 5, correlation=5),
        span("kernel", "fused", 570, 37, **gpu, correlation=5),
        span("cpu_op", "c10d::allreduce_", 700, 60),
        span("cuda_runtime", "cudaLaunchKernel", 710, 5, correlation=6),
        span("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 750, 50, **gpu, correlation=6),
        span("cuda_runtime", "cudaGraphLaunch", 900, 10, correlation=7),
        span("kernel", "captured", 920, 60, **gpu, correlation=7),
        span("kernel", "captured", 980, 40, **gpu, correlation=7),
        span("cuda_runtime", "cudaMemsetAsync", 1100, 10, correlation=8),
        span("gpu_memset", "Memset (Device)", 1120, 3, **gpu, correlation=8),
        span("kernel", "before", 50, 2, **gpu, correlation=99),
        span("python_function", "nn.Module: Linear_0", 90, 60, tid=101),
        span("cpu_op", "aten::view", 1200, 4, Input_Dims=[[8], []], Input_type=["float", "ScalarList"],
             Concrete_Inputs=["", "[2, 4]"]),
    ]  # fmt: skip
    return {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU of tests"}], "traceEvents": events}


GPU_US = 10 + 30 + 25 + 5 + 37 + 50 + 100 + 3 + 2
