"""From an operator in the execution trace to its kernels in the profiler's trace, and back.

from tracelens_graph.linkage import load_trace, op_to_kernel_tracing

cpu, gpu = load_trace("execution-trace.json"), load_trace("kineto.json.gz")
op_to_kernel_tracing(5, cpu, gpu)["timing"]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracelens_graph._lazy import on_first_use as _on_first_use

if TYPE_CHECKING:
    from tracelens_graph.linkage.cpu_metadata import operation_metadata_scrape as operation_metadata_scrape
    from tracelens_graph.linkage.identifiers import get_gpu_op_identifier as get_gpu_op_identifier
    from tracelens_graph.linkage.kernel_metadata import kernel_metadata_scrape as kernel_metadata_scrape
    from tracelens_graph.linkage.kernel_ops import kernel_to_op_tracing as kernel_to_op_tracing
    from tracelens_graph.linkage.op_events import op_to_kernel_tracing as op_to_kernel_tracing
    from tracelens_graph.linkage.traces import load_trace as load_trace

_HOME = {
    "get_gpu_op_identifier": "linkage.identifiers",
    "kernel_metadata_scrape": "linkage.kernel_metadata",
    "kernel_to_op_tracing": "linkage.kernel_ops",
    "load_trace": "linkage.traces",
    "op_to_kernel_tracing": "linkage.op_events",
    "operation_metadata_scrape": "linkage.cpu_metadata",
}

__all__ = [
    "get_gpu_op_identifier",
    "kernel_metadata_scrape",
    "kernel_to_op_tracing",
    "load_trace",
    "op_to_kernel_tracing",
    "operation_metadata_scrape",
]

__getattr__, __dir__ = _on_first_use(__name__, _HOME)
