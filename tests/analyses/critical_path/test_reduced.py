"""Paths over ranks that are not held are those over ranks that are, cell by cell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from made_jobs import JOBS, simulated_job
from made_traces import traces
from planted import PLANTED
from simulated_jobs import write

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.critical_path import CriticalPath, causes_of, critical_path, step_paths
from tracelens_graph.analyses.critical_path.rank_answers import kept_rank
from tracelens_graph.analyses.critical_path.reduced import ReducedCauses
from tracelens_graph.analyses.critical_path.what_if import what_if
from tracelens_graph.analyses.ranks.rank_collectives import ReadRank
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading import many
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core

TABLES = ("segments", "classes", "ranks", "names", "near_ties")


def assert_same(found: CriticalPath, expected: CriticalPath) -> None:
    """Two paths are equal, to the nanosecond and the name."""
    assert repr(found) == repr(expected)
    for name in TABLES:
        one, other = (getattr(path, name)() for path in (found, expected))
        assert one.records() == other.records(), name
        assert one.notes == other.notes


EDITS: list[dict[str, Any]] = [
    {"collectives": 2.0}, {"scale": {"*": 0.5}}, {"bandwidth": {"all": 3.0}, "remove": "e"}, {"overlap": "all"},
    {"ops": {"aten::mm": 2.0}},
]  # fmt: skip


def changed(known: Causes | ReducedCauses, step: int | None, edit: dict[str, Any]) -> object:
    """What a change would gain, or why it cannot be made."""
    try:
        found = what_if(known, step, **edit).table()
    except AnalysisError as error:
        return str(error)
    return found.records(), found.notes


def assert_equal(reduced: TraceSet, held: TraceSet) -> None:
    """The paths of some ranks, and what changes gain, are equal, however they are followed."""
    known, expected = ReducedCauses(reduced), causes_of(held)
    for step in (None, *known.steps.number.tolist()[1:2]):
        for edit in EDITS if len(held) <= 8 else EDITS[-2:]:  # of many ranks two take long enough
            assert changed(known, step, edit) == changed(expected, step, edit)
    assert_same(known.path(), critical_path(expected))
    for found, path in zip(known.step_paths(), step_paths(expected), strict=True):
        assert_same(found, path)


@pytest.mark.parametrize("name", [name for name, one in PLANTED.items() if not one.job.gloo])
def test_planted_jobs(name: str, tmp_path: Path) -> None:
    ranks = load_core_set(sorted(map(str, write(PLANTED[name].job, tmp_path).iterdir())))
    assert_equal(ranks, ranks)


@pytest.mark.parametrize("name", [name for name, one in JOBS.items() if one.get("ranks", 1) > 1])
@pytest.mark.parametrize("recorded", [True, False])
def test_simulated_jobs(name: str, recorded: bool) -> None:
    ranks = TraceSet.of(simulated_job(**{"steps": 2, "cuda_sync": recorded, **JOBS[name]}).traces)
    assert_equal(ranks, ranks)


@needs_corpus
@pytest.mark.parametrize("spilled", [True, False])
def test_ranks_that_are_asked_where_they_are_read(spilled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(map(str, (CORPUS / "dlrm-8-ranks/kineto").iterdir()))
    if not spilled:
        monkeypatch.setattr(many, "SPILLED_BYTES", 0)
    assert_equal(load_core_set(files, leaves=ReadRank(), keeps=kept_rank), load_core_set(files))


@given(traces(), traces())
def test_any_two_traces(one: dict[str, Any], other: dict[str, Any]) -> None:
    ranks = TraceSet.of([load_core(one), load_core(other)])
    if any(len(rank.core.gpu_rows) for rank in ranks):
        assert_equal(ranks, ranks)
    else:
        with pytest.raises(AnalysisError, match="no GPU events"):
            ReducedCauses(ranks)
