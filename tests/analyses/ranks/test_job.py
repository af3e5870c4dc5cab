"""All that is asked of the ranks of a job at once: of whole traces, and of steps of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated_jobs import simulated_job

from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.matched_collectives import Meetings
from tracelens_graph.analyses.stragglers.reasons import UNNAMED

LATE = {"ranks": 4, "steps": 3, "layers": 1, "dataloader_rank": 2, "dataloader_us": 12_000.0}


@pytest.mark.parametrize(
    "settings",
    [
        LATE,
        {**LATE, "nodes": 2, "clock_offset_us": 20_000.0, "end_noise_us": 5.0},
        {**LATE, "tensor_parallel": 2},
    ],
    ids=["one host", "two hosts", "groups"],
)
@pytest.mark.parametrize("step", [3, 4, 5])
def test_reasons_of_a_step_are_those_of_the_whole_recording(settings: dict[str, Any], step: int) -> None:
    traces = simulated_job(**settings).traces
    whole = Job(traces, whole=traces)
    part = Job(traces.narrowed(step=step), whole=traces)
    own = {"collective"}
    wanted = [row for row in whole.table("late_arrivals").records() if row["step"] == step]
    found = part.table("late_arrivals").records()
    assert [row | dict.fromkeys(own) for row in found] == [row | dict.fromkeys(own) for row in wanted]
    assert any(row["reason"] not in UNNAMED for row in found)
    # Numbers are those of the tables of the step.
    key = {row["collective"]: row["key"] for row in part.table("rank_collectives").records()}
    assert all(key[row["collective"]].split("/")[0] == row["key"].split("/")[0] for row in found)
    assert len({row["collective"] for row in found}) == len(found)
    of_step = part.table("late_ranks")
    late = of_step.records()[0]
    of_it = [row for row in found if (row["rank"], row["kind"]) == (late["rank"], late["kind"])]
    assert late["new_ms"] == pytest.approx(sum(row["new_us"] for row in of_it if row["reason"] != "even") / 1e3)
    took_part = [row for row in part.table("rank_collectives").records() if row["kind"] == late["kind"]]
    assert late["times_late"] <= late["collectives"] <= len(took_part)


def test_windows_alone_are_explained_by_their_whole_traces() -> None:
    traces = simulated_job(**LATE).traces
    windows = traces.narrowed(step=4)
    assert Job(windows, whole=windows).why_late == Job(windows, whole=traces).why_late != ""
    assert "data loader" in Job(windows, whole=windows).why_late


def test_clocks_of_a_step_are_those_of_the_whole_recording() -> None:
    """Four collectives tell no clocks apart."""
    settings = {**LATE, "nodes": 2, "clock_offset_us": 20_000.0, "end_noise_us": 5.0}
    traces = simulated_job(**settings).traces
    whole, part = Job(traces).meetings, Job(traces.narrowed(step=4)).meetings
    assert (len(part), part.unmatched) == (4, [])
    assert part.untold_clocks == 0
    assert np.array_equal(part.clocks.offset_ns, whole.clocks.offset_ns)
    skew = dict(zip(keys(whole), whole.last_start_ns - whole.first_start_ns, strict=True))
    of_step = zip(keys(part), part.last_start_ns - part.first_start_ns, strict=True)
    assert all(skew[key] == value for key, value in of_step)


def keys(meetings: Meetings) -> list[str]:
    return [meetings.parts.collective(int(part)).key for part in meetings.order[meetings.first]]


def test_what_else_is_told_of_a_step_is_of_the_step_alone() -> None:
    traces = simulated_job(**LATE).traces
    windows = traces.narrowed(step=4)
    lean, whole = Job(windows), Job(windows, whole=traces)
    for name in lean.names:
        assert lean.table(name).records() == whole.table(name).records()
