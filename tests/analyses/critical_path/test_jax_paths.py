"""Critical paths of profiles of JAX: Python that waits, and threads of a pool that wait for Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus import loaded, parametrize, xplane_files
from tracelens_graph.analyses.critical_path.critical_path import causes_of, critical_path
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate.xla.__main__ import main as simulate


@pytest.mark.parametrize("devices", [1, 2])
def test_what_is_computed_bounds_steps_that_are_launched_ahead(tmp_path: Path, devices: int) -> None:
    assert simulate([str(tmp_path), "--devices", str(devices), "--steps", "3"]) == 0
    path = critical_path(causes_of(TraceSet.of(load_core(tmp_path)).by_device()))
    time = {row["class"]: row["time_ms"] for row in path.classes().records()}
    total = sum(time.values())
    assert time["computation"] > 0.8 * total
    # From one step to the next: Python is told that the GPU is done, and gives threads of the pool the next step.
    assert 0 < time["host"] < 0.15 * total
    assert 0 < time["sync"] < 0.05 * total
    names = {(row["class"], row["name"]) for row in path.names().records()}
    assert any(of == "sync" and "block_until_ready" in name for of, name in names)


@parametrize("path", [path for path in xplane_files() if "te-" in path.name])
def test_starting_the_profiler_is_no_part_of_a_path(path: Path) -> None:
    """It takes 9.7 s there, 700 times as long as all that follows."""
    found = critical_path(causes_of(TraceSet.of(loaded(path))))
    assert sum(row["time_ms"] for row in found.classes().records()) < 20
    assert not any("start_trace" in row["name"] for row in found.names().records())
