"""Traces of ops that stand in a pattern: elementwise chains, attention, copies around an op, collectives."""

from __future__ import annotations

from typing import Any, NamedTuple

from handmade import call, gpu, span

POINTWISE = "void at::native::vectorized_elementwise_kernel<4, f>(int)"
REDUCE = "void at::native::reduce_kernel<512, 1, f>(int)"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<f>(int)"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<f>(int)"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
CONVOLUTION = "cutlass_tensorop_s1688fprop_optimized_tf32_128x128_16x4_nhwc"
FLASH = "void pytorch_flash::flash_fwd_kernel<f>(int)"
X = [64, 512, 1024]
Q, KT, SCORES, V = [128, 512, 64], [128, 64, 512], [128, 512, 512], [128, 512, 64]


class Op(NamedTuple):
    """An op of one kernel; several kernels for an op are a list of names.

    `backward_of` makes it a part of the backward pass of the last op of that name; `node` is what autograd calls it.
    """

    name: str
    dims: list[Any]
    kernel: str | list[str] = POINTWISE
    us: float = 100
    types: list[str] | None = None
    strides: list[Any] | None = None
    module: str = ""
    stream: int = 7
    arguments: dict[str, Any] | None = None
    backward_of: str = ""
    node: str = ""


def trace(*ops: Op, times: int = 4, module: str = "Block") -> list[dict[str, Any]]:
    """The ops in a module, as often as that; all are launched ahead, and run one after another."""
    found: list[dict[str, Any]] = []
    sequence: dict[str, int] = {}
    launch, run = 0.0, 10_000.0
    for n in range(times):
        begin = launch
        for op in ops:
            if op.module:
                found.append(span("python_function", f"nn.Module: {op.module}_{n}", launch, 9))
            number = sequence[op.backward_of] if op.backward_of else len(found)
            sequence[op.name] = number
            where = {"tid": 200} if op.backward_of else {}
            if op.node:
                numbers = {"Sequence_number": number, "Fwd_thread_id": 1}
                for at, name in enumerate((f"autograd::engine::evaluate_function: {op.node}", op.node)):
                    found.append(span("cpu_op", name, launch + at / 4, 9.5 - at / 2, **where, **numbers))
            recorded: dict[str, Any] = {
                "Input_Dims": op.dims,
                "Input_type": op.types or [("c10::BFloat16" if one else "Scalar") for one in op.dims],
            }
            recorded |= {"Input_Strides": op.strides} if op.strides else {}
            recorded |= {} if op.backward_of else {"Sequence_number": number, "Fwd_thread_id": 0}
            found.append(span("cpu_op", op.name, launch + 1, 8, **where, **recorded))
            for at, kernel in enumerate([op.kernel] if isinstance(op.kernel, str) else op.kernel):
                found.append(call(launch + 1.5 + at, len(found), dur=0.5, **where))
                found.append(gpu(run, op.us, len(found) - 1, kernel, stream=op.stream, **(op.arguments or {})))
                run += op.us
            launch += 10
        found.append(span("python_function", f"nn.Module: {module}_{n}", begin, launch - begin - 0.5))
        found.append(span("python_function", "nn.Module: Linear_0", begin + 0.1, 0.2))
        found.append(span("python_function", "model.py(10): forward", begin, launch - begin - 0.4))
    return found


MM = Op("aten::mm", [[32768, 1024], [1024, 1024]], GEMM)
ADD = Op("aten::add", [X, X, []])
GELU = Op("aten::gelu", [X, []])
DROPOUT = Op("aten::native_dropout", [X, [], []])
LAYER_NORM = Op("aten::native_layer_norm", [X, [], [1024], [1024], []], NORM)

SCALE = Op("aten::div", [SCORES, []])
MASK = Op("aten::add", [SCORES, [1, 512, 512], []])
PROBABILITIES = Op("aten::_softmax", [SCORES, [], []], SOFTMAX)
PRODUCT_1 = Op("aten::bmm", [Q, KT], GEMM)
PRODUCT_2 = Op("aten::bmm", [SCORES, V], GEMM)
ATTENTION = (PRODUCT_1, SCALE, MASK, PROBABILITIES, PRODUCT_2)

CAST = Op("aten::copy_", [[1024, 1024], [1024, 1024], []], types=["c10::BFloat16", "float", "Scalar"])
CONTIGUOUS = Op("aten::copy_", [[16, 16, 512, 64], [16, 16, 512, 64], []])
FUSED = Op("aten::_flash_attention_forward", [[16, 512, 16, 64]] * 3, FLASH)
IMAGE = [32, 256, 56, 56]
CONV = Op(
    "aten::cudnn_convolution", [IMAGE, [256, 256, 3, 3]],
    ["void cudnn::ops::nchwToNhwcKernel<float>(int)", CONVOLUTION], types=["float", "float"],
)  # fmt: skip
CHANNELS_LAST = [[802816, 1, 14336, 256], [2304, 1, 768, 256]]

NCCL = {
    "Collective_name": "all_reduce", "Process_Group_Name": "0", "In_msg_nelems": 3 * 2**20,
    "Out_msg_nelems": 3 * 2**20, "dtype": "BFloat16",
}  # fmt: skip
REDUCED = [3072, 1024]
COLLECTIVE = Op("c10d::allreduce_", [REDUCED], "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", stream=20, arguments=NCCL)
OTHER = Op("aten::mm", [[5000, 700], [700, 300]], GEMM)
READER = Op("aten::add_", [REDUCED, REDUCED, []])

PATTERNS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "fusible-chain": (trace(MM, ADD, GELU, LAYER_NORM), trace(ADD, MM, GELU, MM, LAYER_NORM)),
    "eager-attention": (trace(MM, *ATTENTION), trace(MM, FUSED)),
    "copies-around": (trace(CONTIGUOUS, FUSED), trace(CONTIGUOUS, GELU, FUSED)),
    "overlappable-collective": (trace(COLLECTIVE, OTHER, READER), trace(COLLECTIVE, READER, OTHER)),
}
"""Rule -> a trace in which it finds something, and one in which it must not."""
