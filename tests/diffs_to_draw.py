"""Comparisons for tests of what is drawn of them."""

from __future__ import annotations

from pathlib import Path

from handmade import small_trace, span

from corpus import loaded, traces_named
from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.loading.one import load_core

MODELS = traces_named("tracelens/h100/qwen1.5-0.5b", "tracelens/h100/vit-nsfw", "tracelens/h100/bert-small")


def pair_of(path: Path) -> Diff:
    """One model on two devices."""
    return diff(loaded(path), loaded(Path(str(path).replace("h100", "mi300"))), ("h100", "mi300"))


def small_diff() -> Diff:
    """The small trace against one whose GEMM has another name and takes longer, and which calls one op more."""
    other = small_trace()
    for event in other["traceEvents"]:
        if event["name"] == "gemm":
            event |= {"name": "Cijk_gemm", "dur": 70.25}
    other["traceEvents"] += [
        span("cpu_op", "aten::more", 5000, 50),
        span("cuda_runtime", "cudaLaunchKernel", 5001, 5, correlation=999),
        span("kernel", "more_kernel", 5100, 10, 0, 7, device=0, stream=7, correlation=999),
    ]
    return diff(load_core(small_trace()), load_core(other))
