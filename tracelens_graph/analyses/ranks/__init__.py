"""All ranks of a job: which of their kernels are one collective, who waited for whom, and what bounds the job."""

from tracelens_graph.graph.window import columns_read

COLUMNS = tuple(sorted({"owner", "thread", "stream", "device", "external_id", *columns_read({"annotation": ""})}))
"""Columns of lean graphs that suffice for what ranks took part in together; see `Graph.lean`."""
