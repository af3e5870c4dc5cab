"""What a diagnosis is made of: findings, and the words for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tracelens_graph.categories.kernel_names import title
from tracelens_graph.tables.names import fitted
from tracelens_graph.utils.texts import printable, quoted

Severity = Literal["fact", "minor", "major"]
Numbers = Mapping[str, int | float | str]


@dataclass(frozen=True, repr=False)
class Finding:
    """One line of a verdict.

    Attributes:
        topic: what it is about, one of TOPICS; the first finding is the headline.
        text: the line, for people; long names are cut.
        evidence: the numbers behind it, with names in full; keys end in the unit. Where there is `percent`,
            `percent_of` says of what: `steps`, `gpu_span` (from the first to the last GPU event), `judged_span` (that
            without what is left out at its start), `own_time` (of a part that owns no span: its GPU work and the gaps
            that end with it), `gpu_time` and the like. The headline's has `kind`, one of KINDS.
        severity: "fact", or for what costs time "minor", and "major" from MAJOR_PERCENT of the window on.
        advice: what to try, names of ADVICE.
        ask_next: the command line that shows more; TRACE stands for the trace.
        name: its id, where the topic alone does not separate it from others.
    """

    topic: str
    text: str
    evidence: Numbers = field(default_factory=dict)
    severity: Severity = "fact"
    advice: tuple[str, ...] = ()
    ask_next: str = ""
    name: str = ""

    @property
    def id(self) -> str:
        """What it is called in every run of the program: `data-loader`, `kernels@compute.gemm`."""
        return self.name or self.topic.replace("_", "-")

    @property
    def suggestions(self) -> tuple[str, ...]:
        """What to try, in words."""
        return tuple(ADVICE[name] for name in self.advice)

    @property
    def _lines(self) -> list[str]:
        """What it says, what to try, and the command that shows more."""
        more = ("try: ", "; ".join(self.suggestions)), ("ask next: ", self.ask_next)
        return [printable(line) for line in (self.text, *(f"{what}{text}" for what, text in more if text))]

    def __repr__(self) -> str:
        return "\n  ".join(self._lines)

    def _repr_html_(self) -> str:
        from html import escape

        first, *others = map(escape, self._lines)
        return "<br>".join((f"<b>{first}</b>" if self.topic == "headline" else first, *others))


class Verdict(list[Finding]):
    """Findings, the headline first, as `verdict` gives them."""

    def __repr__(self) -> str:
        return "\n".join(f"* {one!r}" for one in self)

    def _repr_html_(self) -> str:
        return f"<ul>{''.join(f'<li>{one._repr_html_()}</li>' for one in self)}</ul>"


KINDS: Mapping[str, str] = {
    "no_gpu": "no GPU events were recorded",
    "other_accelerator": "the device is no GPU",
    "too_little": "too little was recorded, or too little of it explains the time",
    "graph.capture": "a graph was being captured: its launches are recorded, and nothing ran",
    "graph.replay": "most GPU time is the replay of graphs",
    "host.init": "the host was starting up: loading modules, creating contexts, first use",
    "host.launches": "the GPU waited for ops and launch calls of the host",
    "host.python": "the GPU waited for Python",
    "host.dataloader": "the GPU waited for the data loader",
    "host.sync": "the GPU waited because the host had stopped to wait for it",
    "host.copies": "copies held the run up",
    "host.compilation": "the GPU waited for programs to be traced and compiled",
    "host.other": "the GPU waited for the host, for another reason, or one that was not recorded",
    "comm.exposed": "communication that no computation overlaps",
    "comm.waits_for_a_late_rank": "the rank waited for one that came late",
    "compute.gemm": "matrix products",
    "compute.conv": "convolutions",
    "compute.attention": "attention",
    "compute.matrix": "matrix products, convolutions and attention together",
    "memory.elementwise_norm": "kernels that move more data than they compute: elementwise, normalization, layout",
    "gpu_bound": "computation, of no family that leads",
    "mixture": "two kinds at once, and neither leads",
}
"""What bounds a run, as headlines classify it."""

TOPICS: Mapping[str, str] = {
    "headline": "what kind of run this is",
    "operation": "an operation that takes much of a small trace: what bounds it, and what holds it back",
    "server": "how long the steps of a server take, by phase, and what leads each",
    "server_gaps": "idle: between two steps of a server",
    "server_prompts": "steps of a server with prompts, which hold up the answers of other requests",
    "server_padding": "places of captured batches that stay empty",
    "server_fixed": "what a decode step costs, whatever the size of its batch",
    "cut_short": "where the GPU events of a file end that is cut short",
    "data_loader": "idle: the host waited for the next batch, or made it",
    "synchronization": "idle: calls that wait for the GPU kept the host from launching ahead",
    "host_to_device_copy": "copies to the device that nothing overlaps, and idle time because of them",
    "other_copies": "other copies that nothing overlaps",
    "launches": "idle: the host was in ops and launch calls, or the GPU went from one short kernel to the next",
    "python": "idle: the host was in Python, also in that of ops, or in the operating system",
    "unrecorded": "idle: nothing was recorded on the launching thread",
    "compilation": "idle: the host traced or compiled a program",
    "allocation": "idle: the host had the driver allocate or release memory",
    "profiler": "idle: the host was in the profiler's own code",
    "exposed_communication": "communication that no computation overlaps",
    "opportunity": "what one change could win, by a rule",
    "kernels": "GPU time of one family of kernels",
    "unexplained": "idle without a known reason",
    "outside": "the GPU ran work that is not in the window",
    "unknown_kernels": "a large family of unknown kernels that may be communication, and counts as computation",
    "unlinked": "GPU time whose launch is not in the trace",
    "long_step": "a step that takes longer than the others",
    "host_programs": "compiled programs and their time on the host, of a profile of JAX without GPU events",
    "host_steps": "the steps of such a profile and their time on the host",
    "several_devices": "such a profile covers several devices",
    "compiled": "programs of JAX that were compiled during the recording",
}
"""Topics of findings, and what each is about."""

ADVICE: Mapping[str, str] = {
    "overlap_scheduling": "schedule the next step while this one runs: --async-scheduling of vLLM, SGLang's overlap "
    "scheduler",
    "sampling_on_gpu": "sample on the GPU: no logits processors or penalties in Python, fewer log probabilities",
    "detokenise_beside": "detokenise beside the steps, in a process of its own, and less often: --stream-interval",
    "next_inputs": "make the inputs of the next step while this one runs; update buffers instead of building them",
    "capture_sizes": "capture more batch sizes between those in use: cudagraph_capture_sizes of vLLM, --cuda-graph-bs "
    "of SGLang",
    "smaller_chunks": "smaller pieces of prompts in a step: --max-num-batched-tokens of vLLM, --chunked-prefill-size "
    "of SGLang; or prompts on GPUs of their own",
    "more_requests": "more requests at a time, as long as their cache fits: --max-num-seqs of vLLM, "
    "--max-running-requests of SGLang",
    "cuda_graphs": 'CUDA graphs, or torch.compile(mode="reduce-overhead")',
    "fewer_launches": "fewer, larger ops: a larger batch, fused or foreach optimizers",
    "larger_batch": "fewer, larger ops: a larger batch",
    "graph_breaks": "find why Python runs between compiled regions: TORCH_LOGS=graph_breaks,recompiles",
    "python_tuning": "less Python between ops: torch.compile, or move the work out of the loop",
    "data_loader": "more DataLoader workers (num_workers), prefetch_factor, persistent_workers",
    "remove_sync": "read values later or less often: no .item(), .cpu() or print of a tensor in each step",
    "pin_memory": "pin_memory=True and non_blocking=True, so that copies run beside computation",
    "allocator": "keep memory: no empty_cache() in the loop, buffers that are reused",
    "warm_up": "record after some warm-up steps: schedule(wait=…, warmup=…)",
    "record_longer": "record several whole steps in a steady state",
    "record_launches": "begin to record before the work is launched, and record several whole steps",
    "hip_trace": "record the launches, too: rocprofv3 --hip-trace",
    "record_stacks": "record with with_stack=True to see the Python lines",
    "replay_trace": "look at the trace of the replay; this one names the nodes of the graph",
    "all_ranks": "all ranks together, to separate a late rank from a slow network: tracelens-graph ranks FOLDER",
    "overlap": "start communication earlier beside computation: other bucket sizes, prefetch of shards",
    "network": "find why the transport is slow: NCCL_DEBUG=INFO shows whether it is NVLink or xGMI, PCIe or sockets",
    "fusion": "fuse elementwise and normalization kernels: torch.compile, or fused kernels of a library",
    "gemm_tuning": "see how far products are below the roofline: lower precision, larger tiles or batches",
    "more_tiles": "more pieces of work at a time: split the depth (split-K, stream-K), a larger batch, smaller tiles",
    "more_rows": "do more in one call: a larger batch, several calls as one, grouped or batched kernels",
    "pad_sizes": "pad sizes to whole tiles, multiples of 8 or better 64 elements",
    "tensor_cores": 'TF32, torch.set_float32_matmul_precision("high"), or mixed precision, torch.autocast in bfloat16',
    "mixed_precision": "mixed precision: torch.autocast in bfloat16",
    "newer_kernels": "a newer framework, CUDA or ROCm, with kernels for this device; sizes that these take",
    "occupancy": "smaller blocks, or fewer registers and less shared memory for each: launch bounds, another tile",
    "timed_kernels": 'kernels that are chosen by timing: mode="max-autotune" of the compiler, TunableOp on AMD',
    "attention_kernels": "another attention kernel: torch.nn.attention.sdpa_kernel chooses; FlashAttention 3, aiter",
    "engine_attention": "another attention backend of the engine: --attention-backend of vLLM and SGLang",
    "library_attention": 'another attention kernel: jax.nn.dot_product_attention(implementation="cudnn") on NVIDIA; '
    "NVTE_FUSED_ATTN_CK or NVTE_FUSED_ATTN_AOTRITON of TransformerEngine on AMD",
    "more_tilings": "time more tiles of Triton products: --xla_gpu_exhaustive_tiling_search=true",
    "default_precision": 'TF32, jax.default_matmul_precision("tensorfloat32"), or operands in bfloat16',
    "bfloat16": "operands of products in bfloat16",
    "convolution_kernels": "torch.backends.cudnn.benchmark = True, and channels_last memory format",
    "kernel_tuning": "see how far these kernels are below the roofline",
    "channels_last": "channels_last memory format, to get rid of layout changes around convolutions",
    "flash_attention": "F.scaled_dot_product_attention instead of products and softmax; fused, it writes no scores",
    "attention_backend": "see why scaled_dot_product_attention took its math backend: type, mask, size of heads; "
    "torch.nn.attention.sdpa_kernel names the reason",
    "keep_dtype": "keep weights and activations in the type that products compute in, or cast once per step",
    "grouped_queries": "scaled_dot_product_attention(..., enable_gqa=True) instead of repeated keys and values",
    "keep_layout": "no .contiguous(), permute or reshape before it that copies: products and attention read strides",
    "fused_optimizer": "fused=True of the optimizer, or foreach=True: one kernel for many parameters",
    "miopen_nhwc": "PYTORCH_MIOPEN_SUGGEST_NHWC=1, so that MIOpen takes channels_last as it is",
    "async_collective": "start it with async_op=True, and wait() right before its result is read",
    "compile_before": "run the program once before recording; keep shapes equal, so that nothing is compiled anew",
    "one_program": "one jax.jit around the whole step, or lax.scan over several; command buffers",
    "larger_programs": "fewer, larger programs and operands: a larger batch per device",
    "less_python": "less Python between programs: one jax.jit around the step, no work on the host in the loop",
    "batches_ahead": "make batches ahead, and jax.device_put the next one while the step runs",
    "read_later": "read values later or less often: no float(), np.asarray or block_until_ready in each step",
    "donate": "donate buffers (donate_argnums), and let JAX allocate memory ahead",
    "run_before": "run some steps before jax.profiler.trace begins",
    "python_tracer": "record with ProfileOptions().python_tracer_level = 1 to see the Python lines",
    "devices": "the devices as ranks, to separate a late one from a slow network: tracelens-graph ranks FOLDER",
    "latency_hiding": "--xla_gpu_enable_latency_hiding_scheduler=true, so that collectives run beside computation",
    "own_kernels": "see which arrays are written and read again between fusions; fused kernels, such as in Pallas",
    "layouts": "keep channels last (NHWC), to get rid of layout changes around convolutions",
}
"""What a finding may suggest."""

NAME_WIDTH = 60


def brief(name: str) -> str:
    """A name for a line of text: a kernel by library and tile, or without templates and namespaces."""
    return title(name) or (quoted(fitted(name, NAME_WIDTH)) if name else "(no name)")


def percent(part: float, whole: float) -> float:
    """A share in percent; 0 of nothing."""
    return 100 * part / whole if whole else 0.0


ABOVE_ROOF = "times, types or the device cannot be right"
"""What a share of a roof above 100 % means."""


def percent_text(share: float) -> str:
    """A share of a roof for reading, percent."""
    return f"{share:,.1f}" if share >= 1 else f"{share:.2g}" if share >= 0.01 or not share else "less than 0.01"


def shown_ms(ns: float) -> str:
    """A time for reading: three digits or more, in s, ms or us."""
    time = ns / 1e6
    for unit, size in (("s", 1000.0), ("ms", 1.0)):
        if time >= size:
            return f"{time / size:,.{max(0, 2 - len(str(int(time / size))) + 1)}f} {unit}"
    return f"{1000 * time:.3g} us"
