"""From an operator in the execution trace to its kernels in the profiler's trace, and back.

from tracelens_graph.linkage import load_trace, op_to_kernel_tracing

cpu, gpu = load_trace("execution-trace.json"), load_trace("kineto.json.gz")
op_to_kernel_tracing(5, cpu, gpu)["timing"]
"""

from __future__ import annotations

from tracelens_graph._lazy import on_first_use as _on_first_use

_NAMES = {
    "linkage.metadata": "kernel_metadata_scrape operation_metadata_scrape",
    "linkage.traces": "get_gpu_op_identifier load_trace",
    "linkage.tracing": "kernel_to_op_tracing op_to_kernel_tracing",
}
"""Module -> the public names that are imported from it; `__init__.pyi` is made of it."""

__getattr__, __dir__, __all__ = _on_first_use(__name__, _NAMES)
