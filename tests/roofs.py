"""A toy device, models of some operations, and calls of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from extended import with_models
from handmade import span

from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.devices import Architecture, Figure, Source
from tracelens_graph.perf.model import OpModel

FIGURES = {"matrix_bf16": 10.0, "matrix_fp16": 10.0, "vector_fp32": 8.0, "memory_bandwidth_gbps": 1000.0}
TOY = Architecture("toy", "Toy <b>", "", {name: Figure(value, Source()) for name, value in FIGURES.items()})

HOSTILE = [
    "<script>document.title = 'owned'</script>",
    "</script><script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\">",
    "</title></table></td><!-- ",
    "%{x} $\\alpha$ &lt;b&gt; ` ${1} \\u003cb\\u003e",
    "\u2028line\nfeed\x1b[31m\u202e\x00",
    "half \ud83d a pair",
    "y" * 100_000,
]


def always(cost: Cost) -> OpModel:
    return OpModel(lambda arguments, context: cost, "GEMM")


MODELS: Mapping[str, OpModel] = {
    "product": always(Cost(4_000_000_000, 40_000_000, "matrix", "bf16")),
    "half product": always(Cost(4_000_000_000, 400_000_000, "matrix", "fp16")),
    "sum": always(Cost(10_000_000, 40_000_000, "vector", "fp32")),
    "no rate": always(Cost(10_000_000, 40_000_000, "vector", "")),
    "copy": always(Cost(0, 40_000_000, "vector", "fp32")),
    "bytes unknown": always(Cost(10_000_000, None, "vector", "fp32")),
    **{name: always(Cost(10_000_000, 40_000_000, "vector", "fp32")) for name in HOSTILE},
}


def calls_of(names: Iterable[str]) -> Window:
    """Calls of operations one after the other, each with a kernel of 1 ms."""
    events = []
    for number, name in enumerate(names, 1):
        at = number * 2000.0
        events += [
            span("cpu_op", name, at, 100, Input_Dims=[[8, 16]], Input_type=["c10::BFloat16"]),
            span("cuda_runtime", "cudaLaunchKernel", at + 1, 5, correlation=number),
            span("kernel", name, at + 50, 1000, 0, 7, correlation=number, device=0, stream=7),
        ]
    return with_models(load_core(events), MODELS)
