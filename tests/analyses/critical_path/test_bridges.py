"""Transfers through ranks without a file, of jobs whose cause is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from simulated_jobs import Cause, Job, write

from tracelens_graph import load_set
from tracelens_graph.analyses.critical_path.bridges import bridged, through
from tracelens_graph.analyses.ranks.job import Job as Ranks
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives

pytestmark = pytest.mark.filterwarnings("ignore::tracelens_graph.errors.IncompleteSetWarning")

SLOW = Job(ranks=6, pipeline=3, steps=2, seed=5, causes=(Cause("slower_kernels", (4,), factor=1.3),))


def _cost_ms(job: Job, folder: Path) -> float:
    ranks = load_set(write(job, folder))
    found = Ranks(ranks, whole=ranks).lateness
    assert found is not None
    return sum(one.late_ns for one in found.culprits if one.who == "rank 4") / 1e6


@pytest.mark.parametrize(("missing", "share"), [(2, 0.75)])
def test_a_slow_rank_behind_a_missing_one_costs_nearly_what_it_does(missing: int, share: float, tmp_path: Path) -> None:
    truth = _cost_ms(SLOW, tmp_path / "all")
    found = _cost_ms(replace(SLOW, missing=(missing,)), tmp_path / "without")
    assert share * truth < found < 1.05 * truth


def test_what_is_sent_to_a_missing_rank_is_what_it_sends_on(tmp_path: Path) -> None:
    m = MatchedCollectives(load_set(write(replace(SLOW, missing=(2,)), tmp_path)))
    ends = {(m.ranks[m.trace[sends[0]]].rank, m.ranks[m.trace[receives[0]]].rank) for sends, receives in through(m)}
    assert ends == {(0, 4), (4, 0)}
    assert (bridged(m).number >= 0).sum() == (m.number >= 0).sum() + sum(2 * len(sends) for sends, _ in through(m))


def test_nothing_passes_ranks_that_are_there(tmp_path: Path) -> None:
    m = MatchedCollectives(load_set(write(SLOW, tmp_path)))
    assert bridged(m) is m
