"""A trace for extensions, a toy device, models of some operations, and calls of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from handmade import span

from tracelens_graph.analyses.report.report_tables import ReportOptions, Tables, report_tables
from tracelens_graph.extensions.extension import Extension
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.devices import Architecture, Figure, Source
from tracelens_graph.perf.model import CallContext, OpModel

KERNEL_US = (40.0, 10.0, 20.0)
"""Durations of the kernels of `my::norm`, `my::norm` again in step 2, and `aten::mm`."""


def trace() -> dict[str, Any]:
    """Two steps: `my::norm` in each, `aten::mm` in the second, one kernel each."""
    events: list[dict[str, Any]] = [
        span("user_annotation", "ProfilerStep#1", 0, 100),
        span("user_annotation", "ProfilerStep#2", 100, 200),
    ]
    calls = [("my::norm", 10, [[4, 8]]), ("my::norm", 110, [[4, 8]]), ("aten::mm", 130, [[4, 8], [8, 2]])]
    for i, ((name, ts, dims), us) in enumerate(zip(calls, KERNEL_US, strict=True)):
        events += [
            span("cpu_op", name, ts, 10, External_id=i, Input_Dims=dims, Input_type=["c10::BFloat16"] * len(dims)),
            span("cuda_runtime", "cudaLaunchKernel", ts + 2, 2, External_id=i, correlation=i + 1),
            span("kernel", f"{name[-4:]}_kernel<{i}>", ts + 5, us, 0, 7, device=0, stream=7, correlation=i + 1),
        ]
    return {"schemaVersion": 1, "traceEvents": events}


NORM, NORM_KERNEL, MM_KERNEL = 2, 4, 10
"""Uids of the first `my::norm`, of its kernel, and of the kernel of `aten::mm`."""


_OF_MODELS: dict[int, Extension] = {}


def with_models(g: Core | Window, models: Mapping[str, OpModel]) -> Window:
    """A graph or window for analyses that know these models only; one extension per registry, so results are shared."""
    extension = _OF_MODELS.setdefault(id(models), Extension(registry=models, name="models"))
    return extension.of(g)


def tables_of(g: Any, extension: Extension, **options: Any) -> Tables:
    return report_tables(g, ReportOptions(extension=extension, **options))


def categories(tables: Tables) -> dict[str, int]:
    table = tables["ops_summary_by_category"]
    return dict(zip(table["op category"], table["Count"], strict=True))


def norm_cost(arguments: Arguments, context: CallContext) -> Cost:
    x = arguments.tensor(0)
    return Cost(7 * x.elements, 2 * x.bytes, "vector", "bf16", {"shape": x.shape})


NORM_MODEL = OpModel(norm_cost, "MyNorm_fwd")


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
