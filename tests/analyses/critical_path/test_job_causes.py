"""Ranks that are asked where they are read: against all of their points run on one clock, in one list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from joint_causes import causes, replayed, steps_of
from made_jobs import JOBS, simulated_job
from made_traces import traces
from planted import PLANTED
from simulated_jobs import write

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.critical_path import CriticalPath, critical_path, step_paths
from tracelens_graph.analyses.critical_path.edits import BOUNDS
from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.analyses.critical_path.rank_answers import kept_rank
from tracelens_graph.analyses.critical_path.rerun import weights
from tracelens_graph.analyses.critical_path.what_if import what_if
from tracelens_graph.analyses.ranks.rank_collectives import ReadRank
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading import many
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core

TABLES = ("segments", "classes", "ranks", "names", "near_ties", "slack")

EDITS: list[dict[str, Any]] = [
    {"collectives": 2.0}, {"scale": {"*": 0.5}}, {"bandwidth": {"all": 3.0}, "remove": "e"}, {"overlap": "all"},
    {"ops": {"aten::mm": 2.0}}, {"repair": 1}, {"repair": "all", "scale": {"*": 2.0}},
]  # fmt: skip


def walked(known: Causes, start: int | None, end: int) -> list[tuple[int, int, int]]:
    """Rank, start and end of what lasts on the way back over binding causes, in the order of time."""
    point = int(known.last_ends(np.array([end]))[0])
    found = []
    while (start is None or known.time[point] > start) and (edge := int(known.binding[point])) >= 0:
        before = int(known.before[edge])
        begun = int(known.time[before]) if start is None else max(start, int(known.time[before]))
        if known.time[point] > begun:
            found.append((int(known.ordinal[point]), begun, int(known.time[point])))
        point = before
    return found[::-1]


def merged(spans: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """The spans with those of one rank that follow each other as one."""
    found: list[tuple[int, int, int]] = []
    for rank, start, end in spans:
        if found and found[-1][0] == rank:
            found[-1] = rank, found[-1][1], end
        else:
            found.append((rank, start, end))
    return found


def assert_as_walked(path: CriticalPath, known: Causes, span: tuple[int | None, int]) -> None:
    """A path is what a walk over all points gives."""
    own = path.ordinal >= 0
    spans = zip(path.ordinal[own].tolist(), path.start_ns[own].tolist(), path.end_ns[own].tolist(), strict=True)
    assert merged(list(spans)) == merged(walked(known, *span))


def halved(known: Causes, step: int | None) -> list[int]:
    """Length of a step with all GPU work but transfers twice as fast, by all points run again."""

    def length(moments: np.ndarray) -> int:
        if step is None:
            return int(moments[known.role == Role.gpu_end].max())
        start, end = steps_of(known, moments).of(step)
        return end - start

    lengths = []
    for bound in BOUNDS:
        weight = weights(known, bound)
        runs = known.kind == Edge.run
        weight[runs] = np.rint(weight[runs] / 2).astype(np.int64)
        lengths.append(length(replayed(known, weight)) - length(known.time))
    return lengths


def assert_equal(ranks: TraceSet) -> None:
    """Paths and lengths of some ranks are those over all of their points."""
    job, known = JobCauses(ranks), causes(ranks)
    assert_as_walked(critical_path(job), known, (None, job.last_ns))
    for path in step_paths(job):
        assert path.step is not None
        assert_as_walked(path, known, job.steps.of(path.step))
    for step in (None, *job.steps.number.tolist()[1:2]):
        found = what_if(job, step, scale={"*": 0.5})
        lengths = [found.path.length_ns + more for more in halved(known, step)]
        assert (found.changed_ns, found.least_ns, found.most_ns) == (lengths[1], min(lengths), max(lengths))


@pytest.mark.parametrize("name", [name for name, one in PLANTED.items() if not one.job.gloo])
def test_planted_jobs(name: str, tmp_path: Path) -> None:
    assert_equal(load_core_set(sorted(map(str, write(PLANTED[name].job, tmp_path).iterdir()))))


@pytest.mark.parametrize("name", JOBS)
@pytest.mark.parametrize("recorded", [True, False])
def test_simulated_jobs(name: str, recorded: bool) -> None:
    assert_equal(simulated_job(**{"steps": 2, "cuda_sync": recorded, **JOBS[name]}).traces)


@given(traces(), traces())
def test_any_two_traces(one: dict[str, Any], other: dict[str, Any]) -> None:
    ranks = TraceSet.of([load_core(one), load_core(other)])
    if any(len(rank.core.gpu_rows) for rank in ranks):
        assert_equal(ranks)
    else:
        with pytest.raises(AnalysisError, match="no GPU events"):
            JobCauses(ranks)


def answers(ranks: TraceSet) -> list[object]:
    """Tables of paths, and of changes or why they cannot be made."""
    job = JobCauses(ranks)
    found: list[object] = []
    for path in (critical_path(job), *step_paths(job)[:1]):
        found += [(table.records(), table.notes) for table in (getattr(path, name)() for name in TABLES)]
        for edit in EDITS:
            try:
                table = what_if(job, path.step, **edit).table()
                found.append((table.records(), table.notes))
            except AnalysisError as error:
                found.append(str(error))
    return found


@needs_corpus
@pytest.mark.parametrize("spilled", [True, False])
def test_ranks_that_are_asked_where_they_are_read(spilled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(map(str, (CORPUS / "dlrm-8-ranks/kineto").iterdir()))
    if not spilled:
        monkeypatch.setattr(many, "SPILLED_BYTES", 0)
    assert answers(load_core_set(files, leaves=ReadRank(), keeps=kept_rank)) == answers(load_core_set(files))
