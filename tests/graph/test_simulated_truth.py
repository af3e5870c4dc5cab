"""On simulated jobs everything the graph says equals what the simulator knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tracelens_graph.analyses.places.attribution import attribution
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.simulate import simulate

JOBS: dict[str, dict[str, Any]] = {
    "plain": {},
    "two ranks, recomputed, unlaunched work, skewed clock": {
        "ranks": 2, "recompute": "non_reentrant", "unlaunched": 5, "clock_offset_us": 250,
    },
    "reentrant checkpoints": {"recompute": "reentrant"},
    "no Python stacks, no shapes": {"python_stacks": False, "shapes": False},
    "synchronisation events": {"cuda_sync": True, "sync_every_step": True},
}  # fmt: skip


@pytest.fixture(scope="module", params=JOBS)
def job(request: pytest.FixtureRequest) -> list[tuple[Core, dict[str, Any]]]:
    run = simulate(**{"steps": 2, "seed": 11, **JOBS[request.param]})
    return [(load_core(rank.trace), rank.truth) for rank in run.ranks]


def uid_or_none(core: Core, rows: np.ndarray) -> list[int | None]:
    return [int(core.columns.uid[row]) if row >= 0 else None for row in rows.tolist()]


def test_launches_owners_steps_and_modules(job: list[tuple[Core, dict[str, Any]]]) -> None:
    for core, truth in job:
        known = truth["gpu_events"]
        rows = core.rows_of(known["uid"])
        assert sorted(known["uid"]) == sorted(core.columns.uid[core.gpu_rows].tolist())
        assert uid_or_none(core, core.columns.parent[rows]) == known["launch"]
        assert uid_or_none(core, core.columns.owner[rows]) == known["owner"]
        assert uid_or_none(core, core.annotation[rows]) == known["annotation"]
        assert core.columns.dur_ns[rows].tolist() == known["duration_ns"]
        assert [[node.uid for node in core.nodes_at([row])[0].modules] for row in rows.tolist()] == known["modules"]
        steps = [core.names[core.columns.name[step]] if step >= 0 else None for step in core.step[rows].tolist()]
        assert steps == [None if number is None else f"ProfilerStep#{number}" for number in known["step"]]


def test_parents_steps_and_annotations_of_host_events(job: list[tuple[Core, dict[str, Any]]]) -> None:
    for core, truth in job:
        known = truth["host_events"]
        rows = core.rows_of(known["uid"])
        # Annotations are a layer beside the calls: the simulator knows who opened them, the graph does not ask.
        calls = core.columns.kind[rows] <= Kind.RuntimeCall
        parents = [parent for parent, is_call in zip(known["parent"], calls.tolist(), strict=True) if is_call]
        assert uid_or_none(core, core.columns.parent[rows[calls]]) == parents
        assert uid_or_none(core, core.annotation[rows]) == known["annotation"]
        first = min(known["start_ns"])
        starts = core.columns.start_ns[rows]
        assert (starts - starts.min()).tolist() == [start - first for start in known["start_ns"]]


@pytest.mark.parametrize("linked_only", [False, True])
def test_timeline(job: list[tuple[Core, dict[str, Any]]], linked_only: bool) -> None:
    for core, truth in job:
        known = truth["timeline_linked" if linked_only else "timeline"]
        table = gpu_timeline(core, linked_only=linked_only)
        found = dict(zip(table["type"], np.asarray(table["time ms"]).tolist(), strict=True))
        assert {name: round(found[f"{name}_time"] * 1e6) for name in known} == known


def test_gpu_time_charged_to_every_op(job: list[tuple[Core, dict[str, Any]]]) -> None:
    for core, truth in job:
        table = attribution(core, level="op")
        found = {
            row["name"]: round(row["exclusive_sum_us"] * 1000)
            for row in table.records()
            if row["exclusive_sum_us"] and row["uid"] is not None
        }
        assert found == {name: known["gpu_sum_ns"] for name, known in truth["ops"].items()}
