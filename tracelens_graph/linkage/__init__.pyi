# Made by docs/make_stub.py of the list in __init__.py.

from tracelens_graph.linkage.cpu_metadata import operation_metadata_scrape as operation_metadata_scrape
from tracelens_graph.linkage.identifiers import get_gpu_op_identifier as get_gpu_op_identifier
from tracelens_graph.linkage.kernel_metadata import kernel_metadata_scrape as kernel_metadata_scrape
from tracelens_graph.linkage.kernel_ops import kernel_to_op_tracing as kernel_to_op_tracing
from tracelens_graph.linkage.op_events import op_to_kernel_tracing as op_to_kernel_tracing
from tracelens_graph.linkage.traces import load_trace as load_trace

__all__: list[str]
