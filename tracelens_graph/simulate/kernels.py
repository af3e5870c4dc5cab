"""GPU work: names, launch configurations and durations of the kernels of an H100."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

SMS = 132
THREADS_PER_SM = 2048
BLOCKS_PER_SM = 32
REGISTERS_PER_SM = 65536
SHARED_PER_SM = 233472
SHARED_OF_BLOCK = 1024
"""Bytes of shared memory that each block takes beside its own."""

PEAK_FLOPS = 989e12
PEAK_BYTES = 3.35e12
FLOOR_NS = 1100

DEVICE_PROPERTIES: dict[str, Any] = {
    "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": THREADS_PER_SM, "regsPerBlock": 65536,
    "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": SMS, "regsPerMultiprocessor": REGISTERS_PER_SM,
    "sharedMemPerBlockOptin": 232448, "sharedMemPerMultiprocessor": SHARED_PER_SM,
}  # fmt: skip

_SPACE = "at::native::(anonymous namespace)::"
_NATIVE = "void " + _SPACE
_ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, {0}, std::array<char*, {1}ul> >"
    "(int, {0}, std::array<char*, {1}ul>)"
)
_REDUCE = (
    "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<{0}, at::native::func_wrapper_t<{0}, "
    "at::native::sum_functor<{0}, float, {0}> >, unsigned int, {0}, 4> >(at::native::ReduceOp<{0}>)"
)
_FLASH_TRAITS = "Flash_{0}_kernel_traits<64, 128, 128, {1}, false, false, cutlass::bfloat16_t>"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel ready to launch; `duration` is in nanoseconds."""

    name: str
    duration: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int] = (128, 1, 1)
    registers: int = 32
    shared: int = 0
    api: str = "cudaLaunchKernel"
    args: dict[str, Any] = field(default_factory=dict)
    key_ns: float = 0.0
    """Nanoseconds more with each key that attention reads."""

    def shape_args(self) -> dict[str, Any]:
        """Grid, block and shared memory, as ROCm's calls have them."""
        return {"grid": list(self.grid), "block": list(self.block), "shared memory": self.shared}

    def launch_args(self) -> dict[str, Any]:
        """The configuration as Kineto writes it; a multiprocessor holds as many blocks as fit, and no more."""
        threads = math.prod(self.block)
        per_sm = math.prod(self.grid) / SMS
        resident = min(per_sm, _resident_blocks(threads, self.registers, self.shared))
        return {
            "registers per thread": self.registers,
            "shared memory": self.shared,
            "blocks per SM": round(per_sm, 6),
            "warps per SM": round(per_sm * threads / 32, 6),
            "grid": list(self.grid),
            "block": list(self.block),
            "est. achieved occupancy %": round(100 * resident * threads / THREADS_PER_SM),
            **self.args,
        }


ROCM_DEVICE: dict[str, Any] = {
    "name": "AMD Instinct MI300X", "totalGlobalMem": 206141652992, "computeMajor": 9, "computeMinor": 4,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 64,
    "sharedMemPerBlock": 65536, "numSms": 304, "maxSharedMemoryPerMultiProcessor": 65536,
}  # fmt: skip


def _resident_blocks(threads: int, registers: int, shared: int) -> int:
    """Blocks that fit onto a multiprocessor: warps, shared memory, and registers in four partitions."""
    warps = -(-threads // 32)
    of_warp = -(-registers * 32 // 256) * 256
    of_block = -(-(shared + SHARED_OF_BLOCK) // 128) * 128
    by_registers = REGISTERS_PER_SM // 4 // of_warp * 4 // warps
    return min(BLOCKS_PER_SM, THREADS_PER_SM // 32 // warps, by_registers, SHARED_PER_SM // of_block)


def roofline(flops: float, moved: float) -> int:
    """Nanoseconds of a kernel that reaches 62 % of the arithmetic or 78 % of the memory peak."""
    return FLOOR_NS + round(1e9 * max(flops / (0.62 * PEAK_FLOPS), moved / (0.78 * PEAK_BYTES)))


def gemm(m: int, n: int, k: int, layout: str) -> Kernel:
    """Matrix product of bfloat16 matrices; `layout` is tn, nn or nt."""
    tile = 128 if m * n > 2_000_000 else 64
    return Kernel(
        f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_{layout}_n_tilesize{tile}x128x64_warpgroupsize1x1x1"
        "_execute_segment_k_off_kernel__5x_cublas",
        roofline(2 * m * n * k, 2 * (m * k + k * n + m * n)),
        (math.ceil(m / tile), math.ceil(n / 128), 1),
        (384, 1, 1),
        168,
        231424,
        "cuLaunchKernelEx",
    )


def elementwise(functor: str, numel: int, tensors: int, item: int = 2) -> Kernel:
    """A pointwise kernel that reads and writes `tensors` tensors of `numel` elements."""
    return Kernel(
        _ELEMENTWISE.format(f"at::native::{functor}", tensors),
        roofline(numel, tensors * numel * item),
        (max(1, math.ceil(numel / 512)), 1, 1),
    )


def reduce_sum(numel: int, kept: int, item: int = 2) -> Kernel:
    """Sum of `numel` elements into `kept`."""
    name = _REDUCE.format("c10::BFloat16" if item == 2 else "float")
    return Kernel(name, roofline(numel, numel * item), (max(1, kept // 32), 1, 1), (32, 16, 1), 40, 2048)


def layer_norm(rows: int, width: int) -> Kernel:
    """Layer norm of `rows` rows."""
    name = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
    arguments = "(int, float, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)"
    return Kernel(name + arguments, roofline(8 * rows * width, 4 * rows * width), (rows, 1, 1), (32, 4, 1), 34, 24)


def layer_norm_backward(rows: int, width: int) -> tuple[Kernel, Kernel]:
    """The gradient of the input, then that of weight and bias."""
    space = "void at::native::(anonymous namespace)::"
    types = "<c10::BFloat16, float>(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*)"
    duration = roofline(14 * rows * width, 6 * rows * width)
    return (
        Kernel(space + "layer_norm_grad_input_kernel_vectorized" + types, duration, (rows, 1, 1), (512, 1, 1), 40, 64),
        Kernel(space + "GammaBetaBackwardCUDAKernelTemplate" + types, duration, (width // 32 or 1, 1, 1), (32, 32, 1)),
    )


def flash_forward(batch: int, heads: int, tokens: int, head: int) -> Kernel:
    """Causal flash attention."""
    name = f"void pytorch_flash::flash_fwd_kernel<pytorch_flash::{_FLASH_TRAITS.format('fwd', 4)}, false, true>"
    flops = 2 * batch * heads * tokens * tokens * head
    moved = 2 * 4 * batch * heads * tokens * head
    grid = (math.ceil(tokens / 128), batch, heads)
    return Kernel(f"{name}(pytorch_flash::Flash_fwd_params)", 2 * roofline(flops, moved), grid, (128, 1, 1), 255, 49152)


def flash_backward(batch: int, heads: int, tokens: int, head: int) -> tuple[Kernel, Kernel, Kernel]:
    """The three kernels of the backward pass, in launch order."""
    traits = f"<pytorch_flash::{_FLASH_TRAITS.format('bwd', 8)}>(pytorch_flash::Flash_bwd_params)"
    numel = batch * heads * tokens * head
    grid = (math.ceil(tokens / 128), batch, heads)
    main = 2 * roofline(5 * numel * tokens, 16 * numel)
    space = "void pytorch_flash::flash_bwd_"
    return (
        Kernel(f"{space}dot_do_o_kernel<true, {traits[1:]}", roofline(2 * numel, 4 * numel), grid, (256, 1, 1), 48),
        Kernel(f"{space}dq_dk_dv_loop_seqk_parallel_kernel{traits}", main, grid, (256, 1, 1), 255, 147456),
        Kernel(f"{space}convert_dq_kernel{traits}", roofline(numel, 6 * numel), grid, (256, 1, 1), 38, 16384),
    )


def embedding(rows: int, width: int) -> Kernel:
    """Gather of `rows` rows of an embedding table."""
    name = "indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>"
    arguments = "(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, long)"
    return Kernel(
        _NATIVE + name + arguments, roofline(0, 4 * rows * width), (min(rows * width // 128 or 1, SMS * 8), 1, 1)
    )


def embedding_backward(rows: int, width: int) -> Kernel:
    """Scatter of gradients into an embedding table."""
    name = _NATIVE + "compute_grad_weight<c10::BFloat16, long>(long*, c10::BFloat16*)"
    return Kernel(name, roofline(rows * width, 6 * rows * width), (rows // 64 or 1, 1, 1), (32, 4, 1), 40)


def softmax(rows: int, classes: int, backward: bool) -> Kernel:
    """Log-softmax of `rows` rows, forward or backward."""
    way, reads = ("Backward", 3) if backward else ("Forward", 2)
    types = f"<4, c10::BFloat16, float, c10::BFloat16, {_SPACE}LogSoftMax{way}Epilogue>"
    name = f"{_NATIVE}cunn_SoftMax{way}{types}(c10::BFloat16*, c10::BFloat16 const*, int)"
    duration = roofline(5 * rows * classes, 2 * reads * rows * classes)
    return Kernel(name, duration, (rows, 1, 1), (1024, 1, 1), 32, 128)


def nll_loss(rows: int, backward: bool) -> Kernel:
    """Negative log-likelihood of `rows` rows, forward or backward."""
    name = f"nll_loss_{'backward' if backward else 'forward'}_reduce_cuda_kernel_2d"
    types = "<c10::BFloat16, float, long>(c10::BFloat16*, c10::BFloat16*, long const*)"
    return Kernel(_NATIVE + name + types, roofline(rows, 10 * rows), (1, 1, 1))


def multi_tensor_apply(functor: str, numel: int, tensors: int) -> Kernel:
    """One kernel over all chunks of a list of parameters; `tensors` counts those read and written."""
    types = f"<{_SPACE}TensorListMetadata<{min(tensors, 4)}>, {_SPACE}{functor}<c10::BFloat16, 1, 1, 0> >"
    duration = roofline(2 * numel, 2 * tensors * numel)
    grid = (math.ceil(numel / 65536), 1, 1)
    return Kernel(_NATIVE + "multi_tensor_apply_kernel" + types, duration, grid, (512, 1, 1), 40)


def nccl(name: str, dtype: str, args: dict[str, Any]) -> Kernel:
    """A collective's kernel, `name` as in `kinds.Kind`; its duration is decided when others have arrived."""
    short = {"BFloat16": "bf16", "Float": "f32", "Byte": "u8"}[dtype]
    name = f"ncclDevKernel_{name.format(short)}(ncclDevKernelArgsStorage<4096ul>)"
    return Kernel(name, 0, (16, 1, 1), (544, 1, 1), 96, 103808, "cudaLaunchKernelExC", args)
