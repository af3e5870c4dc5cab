"""The ranks of a job on the terminal: which rows and columns a screen has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_jobs import collective, rank
from to_draw import late_job

from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.rank_collectives import GpuTime, RankCollectives, Step
from tracelens_graph.reports.ranks_text import first_rows, headline
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.table import Table


def made(name: str, **columns: list[Any]) -> Table:
    return Table(name, dict(columns), {key: Column(key, heading=key) for key in columns})


def test_columns_that_tell_nothing_take_no_room() -> None:
    table = made(
        "rank_balance", rank=[0, 1], host=[0, 0], bubble_ms=[None, float("nan")], text=["", None], wait_ms=[0.0, 0.0]
    )
    assert list(first_rows(table, 0).columns) == ["rank", "wait_ms"]
    hosts = made("rank_balance", rank=[0, 1], host=[0, 1])
    assert list(first_rows(hosts, 0).columns) == ["rank", "host"]


def test_the_headline_tells_the_idle_time() -> None:
    job = late_job()
    idle = next(row for row in job.table("rank_times").records() if row["time"] == "idle")
    assert headline(job).endswith(f"; for {idle['percent']:.1f} % of it the GPU is idle")


STEPS = (Step(1, 0, 10_000),)
GPU = GpuTime((np.array([0]), np.array([9_000])), (np.array([0]), np.array([9_000])))


def ranks(*more: dict[str, Any]) -> Sequence[RankCollectives]:
    """Ranks that share a collective and differ in what else there is of them."""
    held = [(collective(0), 1_000, 2_000)]
    return [replace(rank(number, held, step_of=(0,)), **one) for number, one in enumerate(more)]


def test_a_gpu_that_no_rank_with_a_step_has_is_not_told_of() -> None:
    job = Job(ranks({"steps": STEPS}, {"steps": STEPS}, {"gpu": GPU, "step_of": (None,)}))
    assert {row["percent"] for row in job.table("rank_times").records() if row["time"] in ("computing", "idle")} == {
        None
    }
    assert "GPU is idle" not in headline(job)
    assert headline(job).startswith("A step takes 0.010 ms; 10.0 % of it is communication")


def test_only_ranks_with_gpu_work_have_idle_time() -> None:
    job = Job(ranks({"steps": STEPS, "gpu": GPU}, {"steps": STEPS}))
    rows = {row["time"]: row for row in job.table("rank_times").records()}
    assert rows["idle"]["percent"] == pytest.approx(10)
    assert rows["idle"]["most_trace"] == rows["idle"]["least_trace"] == "rank0"
    assert rows["computing"]["percent"] == pytest.approx(90)
    assert rows["communication"]["mean_ms"] == pytest.approx(0.001)
