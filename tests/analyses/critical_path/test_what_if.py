"""What if: known answers, simulations with the change, and that nothing changes where nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joint_causes import replayed, steps_of
from lockstep import two_ranks
from made_jobs import simulated_job
from simulated_jobs import Cause, Job, simulated, write

from tracelens_graph.analyses.critical_path.critical_path import critical_path
from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.analyses.critical_path.rerun import NEVER, Latency, forward, weights
from tracelens_graph.analyses.critical_path.slack import slack_of_ranks
from tracelens_graph.analyses.critical_path.what_if import WhatIf, what_if
from tracelens_graph.api import load_set
from tracelens_graph.errors import AnalysisError
from tracelens_graph.simulate import host
from tracelens_graph.simulate.events import GpuEvent

BOUNDS: tuple[Latency, ...] = ("least", "usual", "most")
JOB = {"ranks": 4, "steps": 2, "cuda_sync": True, "seed": 3}


@pytest.mark.parametrize(
    ("change", "length_ns", "edges"),
    [
        ({"collectives": 2.0}, 126_000, 2),
        ({"collectives": {"allreduce": 2.0}}, 126_000, 2),
        ({"collectives": {"all_reduce": 0.5}}, 198_000, 2),
        ({"ops": {"aten::mm": 2.0}}, 148_000, 2),  # then the launch of the all-reduce binds, at 90 + 10
        ({"ops": {"aten::mm": 0.25}}, 230_000, 2),  # now rank 0 comes last: 20 + 160, 2 until the all-reduce, 48
        ({"repair": 1}, 110_000, 1),
        ({"repair": "1"}, 110_000, 1),
        ({"repair": "rank1"}, 110_000, 1),
        ({"repair": 0}, 150_000, 1),  # its product takes longer than on rank 1, but nothing waits for it
        ({"repair": 1, "collectives": 2.0}, 86_000, 3),
    ],
)  # fmt: skip
def test_known_answers(change: dict[str, Any], length_ns: int, edges: int) -> None:
    found = what_if(two_ranks(), 1, **change)
    assert found.path.length_ns == 150_000
    assert (found.changed_ns, found.changed_durations) == (length_ns, edges)
    assert found.least_ns <= found.changed_ns <= found.most_ns
    row = found.table().records()[0]
    assert row["saved_ms"] == pytest.approx((150_000 - length_ns) / 1e6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "nothing is changed"),
        ({"collectives": {"broadcast": 2.0}}, "no collective of the ranks is a 'broadcast'"),
        ({"collectives": 0.0}, "a factor is a number above 0, not 0.0"),
        ({"collectives": float("nan")}, "a factor is a number above 0, not nan"),
        ({"ops": {"aten::mmm": 2.0}}, "no GPU work is launched by an op 'aten::mmm'; did you mean aten::mm"),
        ({"repair": 9}, r"there is no rank 9 among 0 \(rank0\), 1 \(rank1\)"),
        ({"repair": "rank9"}, r"there is no rank rank9 among 0 \(rank0\), 1 \(rank1\)"),
    ],
)
def test_what_cannot_be_changed_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(AnalysisError, match=said):
        what_if(two_ranks(), 1, **change)


def test_of_one_rank_waiting_stays() -> None:
    found = what_if(two_ranks()[0].core, 1, collectives=2.0)
    assert found.changed_ns == 150_000 - 44_000
    assert any("counts as waiting" in note for note in found.notes)


# --- simulations with the change --------------------------------------------------------------------------------------


def assert_within_bound(found: WhatIf, true: JobCauses, step: int) -> None:
    """The true length lies within the bounds, and these within the few us that were measured."""
    length = critical_path(true, step).length_ns
    assert found.least_ns <= length <= found.most_ns
    assert abs(found.changed_ns - length) <= found.error_ns
    assert found.error_ns <= 5_000


@pytest.mark.parametrize("step", [3, 4])
def test_the_late_data_loader_repaired(step: int) -> None:
    late = simulated_job(**JOB, dataloader_us=12_000.0, dataloader_rank=2)
    found = what_if(late.job, step, repair=2)
    assert found.saved_ns > 9_000_000
    assert_within_bound(found, simulated_job(**JOB).job, step)


@pytest.mark.parametrize("factor", [0.25, 2.0])
def test_another_bus(factor: float) -> None:
    """Every transfer as it is in the simulation with that bus: its latency is not in the trace."""
    now, then = (simulated_job(**JOB, bus_gb_per_s=45.0 * times) for times in (1.0, factor))
    known = now.causes
    change = {
        uid: new["transfer_ns"] - old["transfer_ns"]
        for old, new in zip(now.truth[0]["collectives"], then.truth[0]["collectives"], strict=True)
        for uid in zip(old["ranks"], old["kernels"], strict=True)
    }
    for step in (3, 4):
        lengths = {}
        for bound in BOUNDS:
            weight = weights(known, bound)
            for edge in np.flatnonzero(known.kind == Edge.transfer).tolist():
                point = known.after[edge]
                ordinal = int(known.ordinal[point])
                uid = int(known.core(ordinal).columns.uid[known.row[point]])
                weight[edge] += change[ordinal, uid]
            start, end = steps_of(known, replayed(known, weight)).of(step)
            lengths[bound] = end - start
        true = critical_path(then.job, step).length_ns
        assert lengths["least"] <= true <= lengths["most"]
        assert abs(lengths["usual"] - true) <= 5_000


def test_an_op_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    now = simulated_job(**JOB)
    submit = host.Process.submit

    def faster(self: host.Process, gpu: GpuEvent) -> GpuEvent:
        if gpu.owner is not None and gpu.owner.name == "aten::mm":
            gpu.duration = round(gpu.duration / 2)
        return submit(self, gpu)

    monkeypatch.setattr(host.Process, "submit", faster)
    then = simulated_job.__wrapped__(**JOB)
    for step in (3, 4):
        found = what_if(now.job, step, ops={"aten::mm": 2.0})
        assert found.saved_ns > 100_000
        assert_within_bound(found, then.job, step)


def test_a_rank_that_runs_something_else_is_repaired_where_it_is_alike() -> None:
    """Rank 2 runs a further collective in its second step: that stays, and its late first step is repaired."""
    late = simulated_job(**JOB, late_rank=2, late_us=5_000.0, extra_collectives=((2, 7),))
    counts = [len(trace.core.gpu_rows) for trace in late.traces]
    assert counts[2] > counts[0]
    found = what_if(late.job, 3, repair=2)
    assert found.saved_ns > 4_000_000
    assert any("does not run the same as any other" in note for note in found.notes)


PLANTED = {
    "further kernels": (Job(causes=(Cause("more_gpu_work", (2,), us=900),)), 2),
    "python of a stage": (Job(ranks=4, pipeline=2, causes=(Cause("python", (0, 1), us=3000),)), "stage0"),
    "lost kernels": (Job(causes=(Cause("data_loader", (3,), us=3000),), lost={6: 2, 1: 1}), 3),
    "slow stage": (Job(ranks=8, pipeline=4, causes=(Cause("slower_kernels", (4, 5), factor=1.4),)), "stage2"),
    "slow rank of a stage": (Job(ranks=8, pipeline=8, causes=(Cause("slower_kernels", (5,), factor=1.5),)), 5),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_work_that_no_other_rank_does_is_repaired(name: str, tmp_path: Path) -> None:
    job, repair = PLANTED[name]
    found = what_if(load_set(write(job, tmp_path)), repair=repair)
    truth_us = simulated(job)[0].now - simulated(replace(job, causes=()))[0].now
    assert truth_us > 1_000
    assert abs(found.saved_ns / 1e3 - truth_us) < 0.02 * truth_us + found.error_ns / 1e3


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    ranks = load_set(write(Job(ranks=2, begins={0: 3}, ends={1: 1}), tmp_path))
    with pytest.raises(AnalysisError, match="no other rank does work like that of 0"):
        what_if(ranks, repair=0)


# --- running again ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", BOUNDS)
def test_with_nothing_changed_recorded_times_come_out(bound: Latency) -> None:
    known = simulated_job(**JOB).causes
    assert (replayed(known, weights(known, bound)) == known.time).all()


@given(st.data())
def test_running_forward(data: st.DataObject) -> None:
    """Against the plain recursion over points in order."""
    points = data.draw(st.integers(1, 12))
    order = np.array(data.draw(st.permutations(range(points))))
    pairs = data.draw(st.lists(st.tuples(st.integers(0, points - 1), st.integers(0, points - 1), st.integers(0, 9)),
                               max_size=30))  # fmt: skip
    edges = [(int(order[low]), int(order[high]), takes) for low, high, takes in pairs if low < high]
    before, after, weight = (
        (np.array(column, np.int64) for column in zip(*edges, strict=True)) if edges else np.zeros((3, 0), np.int64)
    )
    given_at = np.array(data.draw(st.lists(st.integers(0, 99), min_size=points, max_size=points)))
    found = forward(before, after, weight, order, given_at)
    expected = given_at.copy()
    for point in order.tolist():
        into = [expected[one] + takes for one, other, takes in edges if other == point]
        if into:
            expected[point] = max(into)
    assert found.tolist() == expected.tolist()


def test_slack_of_the_path_is_none_and_delaying_by_more_delays() -> None:
    """Against all points of both ranks run again, with one piece of work that takes longer."""
    job = simulated_job(ranks=2, steps=1, cuda_sync=True)
    known, path = job.causes, critical_path(job.job)
    ends = np.flatnonzero((known.role == Role.gpu_end) & (known.time > path.start_ns[0]))
    late = np.full(len(known.time), -NEVER)
    for rank, found in slack_of_ranks(path):
        core = known.core(rank)
        own = ends[known.ordinal[ends] == rank]
        names = [core.names[code] for code in core.columns.name[known.row[own]].tolist()]
        for name, one in found.items():
            late[own[[at == name for at in names]]] = one.slack_ns
    sink = int(known.last_ends(path.end_ns[-1:])[0])
    point = sink
    while (edge := int(known.binding[point])) >= 0:
        assert late[point] in (0, -NEVER)  # those of GPU work have none, others are not in it
        point = int(known.before[edge])
    assert late[sink] == 0
    assert (late[late < -NEVER // 2] >= 0).all()
    runs = np.flatnonzero(known.kind == Edge.run)
    for edge in runs[:: max(len(runs) // 40, 1)].tolist():
        room = int(late[known.after[edge]])
        if room < -NEVER // 2:
            for extra, delayed in ((room, 0), (room + 7, 7)):
                weight = weights(known)
                weight[edge] += extra
                assert replayed(known, weight)[sink] - known.time[sink] == delayed
