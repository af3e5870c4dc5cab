"""How many calls of JAX wait for the GPU: functions of Python do, and call others that do."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from corpus import loaded, parametrize, xplane_files
from tracelens_graph.analyses.alignment.tables import _Side


@parametrize("path", [path for path in xplane_files() if path.name.startswith("conv-")])
def test_functions_of_python_that_wait_count_once(path: Path) -> None:
    """Ten calls of `block_until_ready`, each of which calls `try_to_block`."""
    core = loaded(path)
    assert _Side(core.everything).waits() == 10
    (first, *_) = np.flatnonzero([name.endswith("): block_until_ready") for name in core.names])
    begun = np.sort(core.columns.start_ns[core.columns.name == first])
    assert _Side(core.window(before_ns=int(begun[4]))).waits() == 4
