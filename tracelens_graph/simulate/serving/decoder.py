"""The network of a server: a decoder of layers, called as vLLM and SGLang call theirs.

What a kernel takes is linear: a fixed part for the weights, a part for each row (token), and for attention a part for
each key. So a step's GPU time is linear in rows and keys, with coefficients that are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from tracelens_graph.simulate.communicate import wait_stream
from tracelens_graph.simulate.events import Storage, Tensor, contiguous
from tracelens_graph.simulate.host import COMPUTE_STREAM, Process, Thread
from tracelens_graph.simulate.kernels import FLOOR_NS, PEAK_BYTES, PEAK_FLOPS, Kernel
from tracelens_graph.simulate.serving.options import Options

SIDE_STREAMS = (COMPUTE_STREAM, 101, 102)
TOP_EXPERTS = 2

FILES = {"vllm": "vllm/model_executor/", "sglang": "sglang/srt/"}
"""Where an engine keeps its models and layers."""
OPS = {
    "norm": ("_C::rms_norm", "sgl_kernel::rmsnorm"),
    "add_norm": ("_C::fused_add_rms_norm", "sgl_kernel::fused_add_rmsnorm"),
    "rope": ("_C::rotary_embedding", "sgl_kernel::rotary_embedding"),
    "cache": ("_C_cache_ops::reshape_and_cache_flash", "sglang::store_cache"),
    "attention": ("vllm::unified_attention_with_output", "sglang::unified_attention_with_output"),
    "act": ("_C::silu_and_mul", "sgl_kernel::silu_and_mul"),
    "moe": ("vllm::moe_forward", "sglang::moe_forward"),
    "topk": ("_moe_C::topk_softmax", "sgl_kernel::topk_softmax"),
    "sort": ("_moe_C::moe_align_block_size", "sgl_kernel::moe_align_block_size"),
    "experts": ("vllm::outplace_fused_experts", "sglang::outplace_fused_experts"),
}
"""Names of ops in vLLM and in SGLang."""
_NORM_TYPES = "(c10::BFloat16*, c10::BFloat16*, c10::BFloat16 const*, float, int, int)"
_AITER_NORM = (
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi{0}ELi{1}ELb{2}ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib"
)
_FLASH = "void cutlass::device_kernel<flash::{0}<cute::tuple<cute::C<128>, cute::C<128> >, cutlass::bfloat16_t> >"
_PAGED = "void paged_attention_ll4mi_{0}_kernel<__hip_bfloat16, __hip_bfloat16, 128, 128, 256>(__hip_bfloat16 const*)"
_CACHE = "void vllm::reshape_and_cache_flash_kernel<{0}, {0}, (vllm::Fp8KVCacheDataType)0>({0} const*, {0} const*)"
NAMES = {
    "norm": (f"void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>{_NORM_TYPES}", _AITER_NORM.format(256, 16, 0)),
    "head_norm": (f"void vllm::rms_norm_kernel<c10::BFloat16, 4, 3>{_NORM_TYPES}", _AITER_NORM.format(64, 8, 0)),
    "add_norm": (
        f"void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>{_NORM_TYPES}",
        _AITER_NORM.format(256, 16, 1),
    ),
    "rope": ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*)",) * 2,
    "cache": (_CACHE.format("__nv_bfloat16"), _CACHE.format("__hip_bfloat16")),
    "attention": (_FLASH.format("FlashAttnFwdSm90"), _PAGED.format("QKV_mfma16")),
    "combine": (_FLASH.format("FlashAttnFwdCombine"), _PAGED.format("reduce")),
    "act": ("void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*)",)
    * 2,
    "reduce": (
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16>(int)",
        "Cijk_SB_BiasS_HAS_ScaleAlphaVec_PostGSU16_VW4",
    ),
    "embedding": (
        "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long, unsigned int, 2, 2, -2>()",
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)",
    ),
    "topk": ("void vllm::moe::topkGatingSoftmax<8, 64, 4, 16, 32, int>(float const*, bool const*, float*, int)",) * 2,
    "sort": ("void vllm::moe::moe_align_block_size_kernel<int>(int const*, int*, int*, int*, int, int, unsigned long)",)
    * 2,
    "experts": ("fused_moe_kernel",) * 2,
    "sum": ("void vllm::moe::moe_sum_kernel<c10::BFloat16, 2>(c10::BFloat16*, c10::BFloat16 const*, int)",) * 2,
}
"""Names of kernels on NVIDIA and on ROCm."""


def tensor(*shape: int, dtype: str = "c10::BFloat16") -> Tensor:
    """A tensor whose memory nobody follows."""
    return Tensor(shape, contiguous(shape), dtype, Storage(0))


def linear_ns(fixed_bytes: float, row_bytes: float, row_flops: float, rows: int) -> int:
    """Nanoseconds of a kernel: its launch, the memory that it reads once, and what each row adds."""
    per_row = row_bytes / (0.78 * PEAK_BYTES) + row_flops / (0.62 * PEAK_FLOPS)
    return FLOOR_NS + round(1e9 * (fixed_bytes / (0.78 * PEAK_BYTES) + rows * per_row))


class Decoder:
    """The network, whose weights are those of any layer."""

    def __init__(self, process: Process, options: Options) -> None:
        self._options = o = options
        self._engine = ("vllm", "sglang").index(o.engine)
        self._rocm = process.is_rocm
        self._files = FILES[o.engine]
        self._head = o.width // o.heads
        self._kv = max(1, o.heads // 4) * self._head
        self._inner = 3 * o.width
        self._weights: dict[str, Tensor] = {}

    def __call__(self, t: Thread, rows: int, between: Callable[[int, Tensor], None] | None = None) -> Tensor:
        """Run all layers on the hidden states of so many tokens.

        `between` is called in the place of the attention of each layer.
        """
        with self._module(t, "LlamaModel", 0, "models/llama.py(377)"):
            x = self._embed(t, rows)
            for layer in range(self._options.layers):
                with self._module(t, "LlamaDecoderLayer", layer, "models/llama.py(302)"):
                    self._norm(t, x, 2 * layer, fused=layer > 0)
                    self._attend(t, x, layer, between)
                    self._norm(t, x, 2 * layer + 1)
                    (self._experts if self._options.experts else self._transform)(t, x, layer)
            self._norm(t, x, 2 * self._options.layers)
            return x

    def attention(self, t: Thread, layer: int, rows: int) -> None:
        """Attention over the cache."""
        o = self._options
        q, kv = tensor(rows, o.heads, self._head), tensor(rows, self._kv // self._head, self._head)
        cache = tensor(2, 4096, 16, self._kv // self._head, self._head)
        with (
            self._module(t, "Attention", layer, "layers/attention.py(321)"),
            self._op(t, "attention", q, kv, kv, q, f"model.layers.{layer}.self_attn.attn"),
        ):
            with self._op(t, "cache", kv, kv, cache, cache, tensor(rows, dtype="long int")):
                self._wait(t, 2, 0)
                with self._stream(t, 2) as stream:
                    self._launch(t, "cache", (rows, 1, 1), linear_ns(0, 8 * self._kv, 0, rows), stream=stream)
                self._wait(t, 0, 2)
            key_ns = 1e9 * 4 * self._kv / (0.78 * PEAK_BYTES)
            grid = (1, self._kv // self._head, rows)
            self._launch(t, "attention", grid, linear_ns(0, 4 * o.width, 0, rows), key_ns=key_ns)
            self._launch(t, "combine", (rows, o.heads, 1), linear_ns(0, 4 * o.width, 0, rows))

    def logits(self, t: Thread, rows: int) -> Tensor:
        """The product with the vocabulary."""
        o = self._options
        with self._module(t, "LogitsProcessor", 0, "layers/logits_processor.py(61)"):
            return self._matmul(t, tensor(rows, o.width), "head", o.vocabulary)

    # -- pieces ---------------------------------------------------------------------------------------

    @contextmanager
    def _module(self, t: Thread, name: str, number: int, where: str) -> Iterator[None]:
        """Call a module; a piecewise capture is of compiled code, which has none within the model."""
        if self._options.capture == "piecewise" and name != "LlamaModel":
            yield
            return
        with t.module(f"{name}_{number}", f"{self._files}{where}: forward"):
            yield

    @contextmanager
    def _op(self, t: Thread, role: str, *inputs: object) -> Iterator[None]:
        with t.op(OPS[role][self._engine], *inputs):
            yield

    def _launch(
        self, t: Thread, role: str, grid: tuple[int, int, int], ns: int, *, key_ns: float = 0.0,
        stream: int = COMPUTE_STREAM, api: str = "cudaLaunchKernel", name: str = "",
    ) -> None:  # fmt: skip
        t.launch(Kernel(name or NAMES[role][self._rocm], ns, grid, (256, 1, 1), api=api, key_ns=key_ns), stream)

    @contextmanager
    def _stream(self, t: Thread, number: int) -> Iterator[int]:
        """A stream for some work, as `torch.cuda.stream` gives it; the main one where there are not so many."""
        if number >= self._options.streams:
            yield COMPUTE_STREAM
            return
        with t.frame("torch/cuda/__init__.py(561): __enter__"):
            t.spend(900, 1500)
        yield SIDE_STREAMS[number]
        with t.frame("torch/cuda/__init__.py(579): __exit__"):
            t.spend(900, 1500)

    def _wait(self, t: Thread, waiting: int, awaited: int) -> None:
        """Let a stream wait for another, if there are so many; streams by their numbers."""
        if max(waiting, awaited) < self._options.streams:
            with t.frame("torch/cuda/streams.py(64): wait_stream"):
                wait_stream(t, SIDE_STREAMS[waiting], SIDE_STREAMS[awaited])

    def _embed(self, t: Thread, rows: int) -> Tensor:
        width = self._options.width
        weight, indices = tensor(self._options.vocabulary, width), tensor(rows, dtype="long int")
        with (
            self._module(t, "VocabParallelEmbedding", 0, "layers/vocab_parallel_embedding.py(460)"),
            t.op("aten::embedding", weight, indices, -1, False, False),
            t.op("aten::index_select", weight, 0, indices),
        ):
            grid = (math.ceil(rows * width / 2048), 1, 1)
            self._launch(t, "embedding", grid, linear_ns(0, 4 * width, 0, rows))
        return tensor(rows, width)

    def _norm(self, t: Thread, x: Tensor, number: int, fused: bool = True) -> None:
        rows, width = x.shape
        weight = tensor(width)
        role, inputs = ("add_norm", (x, x, weight, 1e-6)) if fused else ("norm", (x, x, weight, 1e-6))
        with self._module(t, "RMSNorm", number, "layers/layernorm.py(154)"), self._op(t, role, *inputs):
            self._launch(t, role, (rows, 1, 1), linear_ns(0, (8 if fused else 4) * width, 0, rows))

    def _matmul(self, t: Thread, x: Tensor, weight: str, n: int, split: bool = False) -> Tensor:
        rows, k = x.shape
        w = self._weights.setdefault(weight, tensor(n, k))
        out = tensor(rows, n)
        tile_n = 64 if n <= 2048 else 128 if n <= 8192 else 256
        tile_m = next((size for size in (16, 32, 64, 128) if size >= rows), 256)
        blocks = math.ceil(n / tile_n) * math.ceil(rows / tile_m)
        name = f"nvjet_sm90_tst_{tile_n}x{tile_m}_64x8_2x1_v_bz{'_splitK' * split}_TNT"
        if self._rocm:
            name = f"Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT{tile_n}x{tile_m}x64_MI16x16x1_SN_LDSB1_ISA942"
        ns = linear_ns(2 * n * k, 2 * (n + k), 2 * n * k, rows)
        pair = (x, w.transpose(0, 1))
        with t.op("aten::linear", x, w, None), t.op("aten::matmul", *pair), t.op("aten::mm", *pair):
            grid = (blocks * (256 if self._rocm else 1), 1, 1)
            self._launch(t, "", grid, ns, api="cuLaunchKernelEx", name=name)
            if split:
                self._launch(t, "reduce", (blocks, 1, 1), linear_ns(0, 10 * n, 0, rows))
        return out

    def _attend(self, t: Thread, x: Tensor, layer: int, between: Callable[[int, Tensor], None] | None) -> None:
        o, rows = self._options, x.shape[0]
        q, k = tensor(rows, o.heads, self._head), tensor(rows, self._kv // self._head, self._head)
        with self._module(t, "LlamaAttention", layer, "models/llama.py(213)"):
            with self._module(t, "QKVParallelLinear", layer, "layers/linear.py(565)"):
                self._matmul(t, x, "qkv", o.width + 2 * self._kv)
            self._wait(t, 1, 0)
            for place, heads in enumerate((q, k)):
                ns = linear_ns(0, 4 * heads.shape[1] * self._head, 0, rows)
                with (
                    self._stream(t, place) if place else nullcontext(COMPUTE_STREAM) as stream,
                    self._module(t, "HeadNorm", 2 * layer + place, "layers/layernorm.py(154)"),
                    self._op(t, "norm", heads, heads, tensor(self._head), 1e-6),
                ):
                    self._launch(t, "head_norm", (rows * heads.shape[1], 1, 1), ns, stream=stream)
            self._wait(t, 0, 1)
            angles = (tensor(rows, dtype="long int"), q, k, self._head, tensor(8192, self._head), True)
            with (
                self._module(t, "RotaryEmbedding", layer, "layers/rotary_embedding.py(142)"),
                self._op(t, "rope", *angles),
            ):
                self._launch(t, "rope", (rows, 1, 1), linear_ns(0, 4 * (o.width + self._kv), 0, rows))
            if between is None:
                self.attention(t, layer, rows)
            else:
                between(layer, x)
            with self._module(t, "RowParallelLinear", 2 * layer, "layers/linear.py(1391)"):
                self._matmul(t, x, "out", o.width)

    def _transform(self, t: Thread, x: Tensor, layer: int) -> None:
        rows, inner = x.shape[0], self._inner
        with self._module(t, "LlamaMLP", layer, "models/llama.py(96)"):
            with self._module(t, "MergedColumnParallelLinear", layer, "layers/linear.py(565)"):
                both = self._matmul(t, x, "up", 2 * inner)
            half = tensor(rows, inner)
            with self._module(t, "SiluAndMul", layer, "layers/activation.py(88)"), self._op(t, "act", half, both):
                self._launch(t, "act", (rows, 1, 1), linear_ns(0, 6 * inner, 0, rows))
            with self._module(t, "RowParallelLinear", 2 * layer + 1, "layers/linear.py(1391)"):
                self._matmul(t, half, "down", self._options.width, split=True)

    def _experts(self, t: Thread, x: Tensor, layer: int) -> None:
        o, (rows, width), inner = self._options, x.shape, self._inner // 2
        up, down = tensor(o.experts, 2 * inner, width), tensor(o.experts, width, inner)
        with self._module(t, "MixtralMoE", layer, "models/mixtral.py(142)"):
            with self._module(t, "ReplicatedLinear", layer, "layers/linear.py(400)"):
                scores = self._matmul(t, x, "gate", o.experts)
            with self._module(t, "FusedMoE", layer, "layers/fused_moe/layer.py(1500)"), self._op(t, "moe", x, scores):
                weights, ids = tensor(rows, TOP_EXPERTS, dtype="float"), tensor(rows, TOP_EXPERTS, dtype="long int")
                with self._op(t, "topk", weights, ids, scores):
                    self._launch(t, "topk", (math.ceil(rows / 4), 1, 1), linear_ns(0, 8 * o.experts, 0, rows))
                with self._op(t, "sort", ids, o.experts, 16):
                    self._launch(t, "sort", (1, 1, 1), linear_ns(0, 16 * TOP_EXPERTS, 0, rows))
                with self._op(t, "experts", x, up, down, weights, ids):
                    blocks = math.ceil(rows * TOP_EXPERTS / 16)
                    for role, n, k in (("experts", 2 * inner, width), ("act", inner, 0), ("experts", width, inner)):
                        flops, moved = 2 * TOP_EXPERTS * n * k, 2 * TOP_EXPERTS * (n + (k or 2 * n))
                        ns = linear_ns(2 * o.experts * n * k, moved, flops, rows)
                        grid = (blocks * math.ceil(n / 64), 1, 1) if k else (rows * TOP_EXPERTS, 1, 1)
                        self._launch(t, role, grid, ns, api="cuLaunchKernelEx" if k else "cudaLaunchKernel")
                    self._launch(t, "sum", (rows, 1, 1), linear_ns(0, 2 * (1 + TOP_EXPERTS) * width, 0, rows))
