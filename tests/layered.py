"""Traces of a small program of equal layers, written by hand so that two of them differ in one known thing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from handmade import span

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >"
    "(int)"
)
GELU = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)::"
    "{lambda()#1}, std::array<char*, 2ul> >(int)"
)
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int, float const*)"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True)
class Call:
    """One op of a layer: the module it stands in, and the kernels that it launches, with their times in us."""

    module: str
    op: str
    kernels: tuple[tuple[str, float], ...]
    sizes: tuple[tuple[int, ...], ...] = ((64, 64), (64, 64))
    types: tuple[str, ...] = ("float", "float")


LAYER = (
    Call("LayerNorm", "aten::native_layer_norm", ((NORM, 5.0),)),
    Call("Linear", "aten::mm", ((GEMM, 40.0),)),
    Call("GELU", "aten::gelu", ((GELU, 6.0),)),
    Call("Linear", "aten::addmm", ((GEMM.replace("128x128", "64x64"), 30.0),)),
    Call("Residual", "aten::add", ((ADD, 4.0),)),
)
"""A layer that is the same in all programs, but for what a test changes."""


def changed(op: str, change: Callable[[Call], Call], layer: Sequence[Call] = LAYER) -> tuple[Call, ...]:
    """A layer in which one op is another."""
    return tuple(change(call) if call.op == op else call for call in layer)


def slower(factor: float) -> Callable[[Call], Call]:
    """A change: all kernels of an op take so much longer."""
    return lambda call: replace(call, kernels=tuple((name, us * factor) for name, us in call.kernels))


def kernels(*names: tuple[str, float]) -> Callable[[Call], Call]:
    """A change: an op launches other kernels."""
    return lambda call: replace(call, kernels=names)


def program(
    layers: Sequence[Sequence[Call]] = (LAYER,) * 4,
    how: Literal["eager", "graph", "capture"] = "eager",
    *,
    gap_us: float = 10.0,
    beside: float = 0.0,
    device: str = "GPU of tests",
    launch: str = "cudaLaunchKernel",
) -> dict[str, Any]:
    """A trace of one step.

    Args:
        layers: what each layer calls.
        how: op by op; as the replay of one graph; or the recording of that graph, in which nothing runs.
        gap_us: time between two calls on the host.
        beside: part of the time in which a collective runs on another stream.
        device: name of the GPU.
        launch: what the launching call is called; that of ROCm says the kernel.
    """
    host: list[dict[str, Any]] = []
    gpu: list[dict[str, Any]] = []
    now, ready, number = 1100.0, 1120.0, 100
    if how == "graph":
        host.append(span("cuda_runtime", "cudaGraphLaunch", now, 8.0, correlation=7))
    for layer_number, layer in enumerate(layers):
        frames = [span("python_function", f"nn.Module: Layer_{layer_number}", now, 0.0)]
        for call in layer:
            begin, number = now, number + 1
            module = span("python_function", f"nn.Module: {call.module}_{number}", now, 0.0)
            op = span("cpu_op", call.op, now + 1, 0.0, External_id=number, Input_Dims=[list(one) for one in call.sizes],
                      Input_type=list(call.types))  # fmt: skip
            inner = []
            for name, us in call.kernels:
                number += 1
                now += 2 + gap_us
                correlation = 7 if how == "graph" else number
                said = {"kernel": name} if launch.startswith("hip") else {}
                inner.append(span("cuda_runtime", launch, now, 4.0, correlation=number, **said))
                now += 4
                ready = max(ready, now if how == "eager" else ready)
                if how != "capture":
                    gpu.append(_on_gpu(name, ready, us, correlation))
                ready += us
            now += 2
            module["dur"], op["dur"] = now - begin, now - begin - 2
            now += 1
            frames += [module, op, *inner]
        frames[0]["dur"] = now - frames[0]["ts"]
        host += frames if how != "graph" else []
        now += 1
    if how == "capture":
        host.append(span("cuda_runtime", launch[: -len("LaunchKernel")] + "StreamBeginCapture", 1090.0, 2.0))
        host.append(span("cuda_runtime", launch[: -len("LaunchKernel")] + "StreamEndCapture", now + 1, 2.0))
    if beside:
        length = ready - 1120.0
        gpu.append(_on_gpu(REDUCE, 1120.0 + (1 - beside) * length, beside * length, 9, stream=20))
        host.append(span("cuda_runtime", "cudaLaunchKernelExC", 1092.0, 2.0, correlation=9))
    step = span("user_annotation", "ProfilerStep#3", 1080.0, max(now, ready) - 1060.0, External_id=1)
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": device}],
        "traceEvents": [step, *host, *gpu],
    }


def _on_gpu(name: str, start: float, us: float, correlation: int, stream: int = 7) -> dict[str, Any]:
    cat = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
    return span(cat, name, start, us, 0, stream, device=0, stream=stream, correlation=correlation)
