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
from tracelens_graph.analyses.stragglers.rank_work import pipelines

pytestmark = pytest.mark.filterwarnings("ignore::tracelens_graph.errors.IncompleteSetWarning")

SLOW = Job(ranks=6, pipeline=3, steps=2, seed=5, causes=(Cause("slower_kernels", (4,), factor=1.3),))


def _cost_ms(job: Job, folder: Path) -> float:
    ranks = load_set(write(job, folder))
    found = Ranks(ranks, whole=ranks).lateness
    assert found is not None
    return sum(one.late_ns for one in found.culprits if one.who == "rank 4") / 1e6


FOUR = Job(ranks=8, pipeline=4, steps=2, seed=4, causes=SLOW.causes)


@pytest.mark.parametrize(
    ("job", "missing"),
    [(SLOW, 2), (SLOW, 0), (SLOW, 1), (FOUR, 0), (FOUR, 2), (FOUR, 6), (FOUR, 3), (replace(SLOW, microbatches=6), 0)],
)
def test_a_slow_rank_beside_a_missing_one_costs_what_it_does(job: Job, missing: int, tmp_path: Path) -> None:
    """Of a first, a middle and a last stage without a file: others of the stage show how long it computes."""
    truth = _cost_ms(job, tmp_path / "all")
    assert _cost_ms(replace(job, missing=(missing,)), tmp_path / "without") == pytest.approx(truth, rel=0.05)


def test_what_is_sent_to_a_missing_rank_is_what_it_sends_on(tmp_path: Path) -> None:
    m = MatchedCollectives(load_set(write(replace(SLOW, missing=(2,)), tmp_path)))
    ends = {(m.ranks[m.trace[one.sends[0]]].rank, m.ranks[m.trace[one.follows[0]]].rank) for one in through(m).over}
    assert ends == {(0, 4), (4, 0)}
    passed = sum(2 * len(one.sends) for one in through(m).over)
    assert (bridged(m).number >= 0).sum() == (m.number >= 0).sum() + passed


def test_a_first_stage_comes_to_what_all_share_after_what_is_sent_to_it(tmp_path: Path) -> None:
    m = MatchedCollectives(load_set(write(replace(SLOW, missing=(0,)), tmp_path)))
    back, last = sorted(through(m).over, key=lambda one: one.is_joint)
    assert len(last.sends) == SLOW.steps
    assert {m.parts.form_of(part).kind for part in last.follows.tolist()} == {"allreduce"}
    # Of four messages a step the first stage of three sends three before it needs one that comes back.
    assert len(back.sends) == SLOW.steps
    assert set(through(m).ahead.values()) == {0, 1}


def test_ranks_of_a_pipeline_have_their_stage_beside_a_missing_one(tmp_path: Path) -> None:
    m = MatchedCollectives(load_set(write(replace(FOUR, missing=(0,)), tmp_path)))
    assert pipelines(m)[1].tolist() == [0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("missing", [(), (2,)])
def test_ranks_of_a_ring_are_one_stage(missing: tuple[int, ...], tmp_path: Path) -> None:
    m = MatchedCollectives(load_set(write(Job(ranks=5, style="ring", steps=2, missing=missing), tmp_path)))
    assert not pipelines(m)[1].any()


def test_stages_that_send_in_a_circle_are_no_ring(tmp_path: Path) -> None:
    m = MatchedCollectives(load_set(write(Job(ranks=3, pipeline=3, virtual=2, layers=2, steps=2), tmp_path)))
    assert pipelines(m)[1].tolist() == [0, 1, 2]


def test_nothing_passes_ranks_that_are_there(tmp_path: Path) -> None:
    m = MatchedCollectives(load_set(write(SLOW, tmp_path)))
    assert bridged(m) is m
