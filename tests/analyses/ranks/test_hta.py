"""What HTA says of ranks, where it is right: times of GPU work, overlap, sums of communication kernels."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.matched_collectives import Meetings
from tracelens_graph.analyses.ranks.rank_collectives import Attendance, GpuTime
from tracelens_graph.analyses.shared.gpu_work import COMPUTATION, gpu_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import Intervals, length, merge
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind

JOBS = {
    "dlrm": ("dlrm-8-ranks/kineto/rank{}.json.gz", 8, "dlrm-8-ranks"),
    "two of 128": ("hta/two-of-128-ranks/rank-{}.json.gz", 2, "two-of-128-ranks/all-steps-exact"),
}
"""Name of a job -> its traces, how many, and the folder of what HTA says of them."""


@pytest.fixture(scope="module", params=JOBS)
def job(request: pytest.FixtureRequest, corpus: Path, goldens: Path) -> tuple[Meetings, Path]:
    """The job as HTA sees it: what fills memory is no computation there."""
    files, number, folder = JOBS[request.param]
    ranks = TraceSet.of({f"rank{n}": load_core(corpus / files.format(n)) for n in range(number)})
    attendances = [
        replace(Attendance.of(one), gpu=GpuTime(GpuTime.of(one.window).busy, computing(one.core))) for one in ranks
    ]
    return Meetings(attendances), goldens / "hta" / folder


def computing(core: Core) -> Intervals:
    kernels = np.flatnonzero(core.columns.kind == Kind.Kernel)
    kernels = kernels[gpu_classes(core, kernels) == COMPUTATION]
    return merge(core.columns.start_ns[kernels], core.columns.end_ns[kernels])


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def communicating(meetings: Meetings, trace: int) -> tuple[np.ndarray, np.ndarray]:
    own = meetings.trace == trace
    return meetings.parts.start_ns[own], meetings.parts.end_ns[own]


def us(told: str) -> Any:
    return pytest.approx(float(told), abs=0.0011)


def test_times_of_gpu_work(job: tuple[Meetings, Path]) -> None:
    meetings, folder = job
    for row, rank in zip(rows(folder / "temporal_breakdown.csv"), meetings.attendances, strict=True):
        busy, computes = length(rank.gpu.busy), length(rank.gpu.computing)
        start, end = rank.span_ns
        assert (end - start) / 1e3 == us(row["kernel_time(us)"])
        assert (end - start - busy) / 1e3 == us(row["idle_time(us)"])
        assert computes / 1e3 == us(row["compute_time(us)"])
        assert (busy - computes) / 1e3 == us(row["non_compute_time(us)"])


def test_overlap_of_communication_with_computation(job: tuple[Meetings, Path]) -> None:
    meetings, folder = job
    figures = Figures(meetings)
    for row, trace in zip(rows(folder / "comm_comp_overlap.csv"), range(len(meetings.attendances)), strict=True):
        start, end = communicating(meetings, trace)
        shift = meetings.parts.shift_ns[trace]
        whole = length(merge(start, end))
        exposed = figures.exposed_ns(trace, start - shift, end - shift)
        assert 100 * (whole - exposed) / whole == pytest.approx(float(row["comp_comm_overlap_pctg"]), abs=0.0051)


def test_sums_of_communication_kernels(job: tuple[Meetings, Path]) -> None:
    meetings, folder = job
    told: dict[int, float] = {}
    for row in rows(folder / "gpu_kernel_breakdown_all.csv"):
        if row["kernel_type"] == "COMMUNICATION":
            told[int(row["rank"])] = told.get(int(row["rank"]), 0.0) + float(row["sum (us)"])
    assert set(told) == set(range(len(meetings.attendances)))
    for trace, total in told.items():
        start, end = communicating(meetings, trace)
        assert int((end - start).sum()) / 1e3 == pytest.approx(total, abs=0.01)


def test_a_rank_is_known_by_its_attendance_alone(job: tuple[Meetings, Path]) -> None:
    meetings, _ = job
    assert all(isinstance(one, Attendance) and one.held for one in meetings.attendances)
    again = Meetings(meetings.attendances)
    assert (again.meeting == meetings.meeting).all()
