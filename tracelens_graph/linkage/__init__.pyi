# Made by docs/make_stub.py of the list in __init__.py.

from tracelens_graph.linkage.metadata import kernel_metadata_scrape as kernel_metadata_scrape
from tracelens_graph.linkage.metadata import operation_metadata_scrape as operation_metadata_scrape
from tracelens_graph.linkage.traces import get_gpu_op_identifier as get_gpu_op_identifier
from tracelens_graph.linkage.traces import load_trace as load_trace
from tracelens_graph.linkage.tracing import kernel_to_op_tracing as kernel_to_op_tracing
from tracelens_graph.linkage.tracing import op_to_kernel_tracing as op_to_kernel_tracing

__all__: list[str]
