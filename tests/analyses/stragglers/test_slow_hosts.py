"""Ranks whose host takes longer for everything, and those where one call does: the amount is that of what differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_jobs import Cause, Job, write

import tracelens_graph as tlg
from tracelens_graph.analyses.ranks.job import Job as Ranks
from tracelens_graph.analyses.shared.common_factor import shared_factor

HOST_BOUND = {"ranks": 4, "host_us": 400.0, "kernel_us": 20.0}


def job(folder: Path, *causes: Cause) -> Ranks:
    traces = tlg.load_set(write(Job(**HOST_BOUND, causes=causes), folder))
    return Ranks(traces, whole=traces)


def test_no_call_is_blamed_where_all_take_longer(tmp_path: Path) -> None:
    found = job(tmp_path, Cause("slow_host", (2,), factor=1.3))
    assert found.lateness is not None
    (culprit,) = found.lateness.culprits
    assert (culprit.places, culprit.reason) == ((2,), "slow_host")
    assert "all host calls" in culprit.what
    assert float(culprit.what.rpartition(", ")[2].rstrip("x")) == pytest.approx(1.3, rel=0.02)
    assert culprit.what in found.slowdown_line
    workers = {row["name"]: row for row in found.table("slowdown").records() if row["of"] == "worker"}
    assert (workers["rank2"]["reason"], workers["rank2"]["what"]) == (culprit.reason, culprit.what)
    late = [row for row in found.table("late_ranks").records() if row["trace"] == "rank2"]
    assert {row["reason"] for row in late} == {"slow_host"}


def test_no_call_is_blamed_where_one_has_most_of_the_time(tmp_path: Path) -> None:
    job = Job(ranks=8, gloo=True, causes=(Cause("slow_host", (5,), factor=1.2),), seed=10)
    traces = tlg.load_set(write(job, tmp_path))
    found = Ranks(traces, whole=traces)
    assert found.lateness is not None
    (culprit,) = found.lateness.culprits
    assert (culprit.places, culprit.reason, culprit.what) == ((5,), "slow_host", "all host calls, 1.20x")


def test_a_call_is_blamed_where_it_has_most_of_the_difference(tmp_path: Path) -> None:
    found = job(tmp_path, Cause("slow_host", (2,), factor=1.1), Cause("op", (2,), us=9000))
    assert found.lateness is not None
    (culprit,) = found.lateness.culprits
    assert culprit.reason == "op"
    assert culprit.what.startswith("aten::index")


def test_factors_of_calls() -> None:
    usual = {name: 100.0 + 10 * at for at, name in enumerate("abcdefgh")}
    slow = {name: 1.2 * ns for name, ns in usual.items()}
    assert shared_factor(slow, usual) == pytest.approx(1.2)
    assert shared_factor(slow | {"a": 95.0}, usual) == pytest.approx(1.17, abs=0.02)  # they vary
    assert shared_factor(usual | {"a": 400.0}, usual) is None  # one call
    assert shared_factor(slow | {"a": 2000.0}, usual) is None  # most of the difference
    large, small = {"mm": 9000.0}, {"step": 2.0}
    assert shared_factor(slow | {"mm": 10800.0} | small, usual | large | small) == pytest.approx(1.2, abs=0.001)
    some = dict(list(slow.items())[:5])
    assert shared_factor(usual | some | {"mm": 10800.0} | small, usual | large | small) is None
    assert shared_factor({name: 1.03 * ns for name, ns in usual.items()}, usual) is None
    assert shared_factor(usual, slow) is None
    assert shared_factor(slow, dict(list(usual.items())[:4])) is None  # too few are known elsewhere
    half = {"step": 3000.0, "a": 1200.0, "b": 1200.0, "c": 300.0, "d": 300.0}
    slower = {name: 1.5 * ns for name, ns in half.items()}
    launches = {"launch": 200.0, "copy": 30.0}  # they take no longer: few calls of the others, and little of the time
    assert shared_factor(slower | launches, half | launches) == pytest.approx(1.48, abs=0.01)
    assert shared_factor(half | {"step": 4500.0, "a": 1800.0} | launches, half | launches) is None  # two calls
    assert shared_factor({}, {}) is None
