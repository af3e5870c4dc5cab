"""The critical path of a step of a run, in memory and in the database."""

from __future__ import annotations

from functools import cache

import pytest
from handmade import span
from lockstep import PRODUCT, call, gpu, trace
from made_jobs import SimulatedJob, simulated_job
from placed_traces import dlrm, on_host, placed
from same_tables import Ask, assert_same

from corpus import needs_corpus
from tracelens_graph.analyses.critical_path.critical_path import critical_path
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceMember
from tracelens_graph.graph.window import step_number
from tracelens_graph.loading.one import load_core

RUN = "path of step"
FIRST_STEP = 3


@cache
def job() -> tuple[SimulatedJob, tuple[TraceMember, ...]]:
    """Three ranks, of which one waits for its data in every step; and how they stand in a run."""
    ran = simulated_job(ranks=3, steps=3, layers=1, seed=83, problem="late_rank")
    return ran, tuple(placed(one.core, RUN, one.name) for one in ran.traces)


def last_gpu_ends(ran: SimulatedJob) -> dict[int, int]:
    """Step -> last end of GPU work that any rank launched in it, since 1970, ns."""
    ends: dict[int, int] = {}
    for one in ran.traces:
        core = one.core
        for row in core.gpu_rows.tolist():
            if (mark := int(core.gpu_step[row])) >= 0:
                step = step_number(core.names[core.columns.name[mark]])
                assert step is not None
                ends[step] = max(ends.get(step, 0), int(core.columns.end_ns[row]) + core.info.start_epoch_ns)
    return ends


def test_segments_lie_end_to_end_and_add_up_to_the_step() -> None:
    ran, ranks = job()
    ends = last_gpu_ends(ran)
    assert list(ends) == [FIRST_STEP, FIRST_STEP + 1, FIRST_STEP + 2]
    for step in list(ends)[1:]:
        rows = QUESTIONS["path_of_step"](ranks, step=step).records()
        assert sum(row["dur_ns"] for row in rows) == ends[step] - ends[step - 1]
        assert [row["place"] for row in rows] == list(range(1, len(rows) + 1))
        at = 0
        for row in rows:
            assert round(row["start_us"] * 1e3) == at
            at += row["dur_ns"]


def test_it_is_the_path_of_python() -> None:
    ran, ranks = job()
    for step in (None, FIRST_STEP + 1):
        table = QUESTIONS["path_of_step"](ranks, step=step)
        segments = critical_path(ran.traces, step).segments()
        for name in ("class", "rank", "dur_ns", "uid", "from_rank"):
            assert list(table[name]) == list(segments[name])
        assert table.notes == segments.notes
    assert {"host", "launch", "computation", "communication"} <= set(table["class"])


def test_ranks_are_taken_in_their_order() -> None:
    _, ranks = job()
    turned = QUESTIONS["path_of_step"](ranks[::-1], step=FIRST_STEP + 1)
    assert list(turned.rows()) == list(QUESTIONS["path_of_step"](ranks, step=FIRST_STEP + 1).rows())


def test_a_run_that_is_not_there() -> None:
    with pytest.raises(AnalysisError, match="no run is called 'another'"):
        QUESTIONS["path_of_step"](job()[1], run="another")


@pytest.mark.parametrize("step", [None, FIRST_STEP, FIRST_STEP + 2])
def test_the_database_has_the_same_path(ask: Ask, step: int | None) -> None:
    ran, ranks = job()
    query, twin = ask(ranks, "path_of_step", run=RUN, step=step)
    assert_same(query, twin)
    assert list(query["place"]) == list(range(1, len(twin) + 1))
    assert sum(query["dur_ns"]) == critical_path(ran.traces, step).length_ns
    assert len(set(query["rank"])) > 1


@pytest.mark.parametrize(
    ("step", "note"),
    [
        (77, "no rank has GPU work of step 77; steps with GPU work: 3, 4, 5"),
        (None, "there are no GPU events, so there is no path to follow through them"),
    ],
)
def test_both_say_why_there_is_none(ask: Ask, step: int | None, note: str) -> None:
    ranks = on_host() if step is None else job()[1]
    for table in ask(ranks, "path_of_step", run=ranks[0].run, step=step):
        assert (len(table), table.notes) == (0, [note])


@needs_corpus
def test_the_database_has_the_same_path_of_eight_real_ranks(ask: Ask) -> None:
    query, twin = ask(dlrm(), "path_of_step", run="across dlrm")
    assert_same(query, twin)
    assert sum(query["dur_ns"]) == critical_path(dlrm()).length_ns


def test_time_that_nothing_explains_has_no_rank(ask: Ask) -> None:
    """The step begins before the first thing that its thread is known to have done."""
    events = [
        span("user_annotation", "ProfilerStep#1", 0.0, 50.0),
        call("cudaLaunchKernel", 5.0, 8.0, 1),
        gpu(PRODUCT, 20.0, 30.0, 7, 1),
    ]
    ranks = [placed(load_core({**trace(events, rank, 2), "run": RUN}), "path begun", f"r{rank}") for rank in range(2)]
    query, twin = ask(ranks, "path_of_step", run="path begun", step=1)
    assert_same(query, twin)
    rows = [tuple(row[name] for name in ("class", "name", "dur_ns", "trace")) for row in twin.records()]
    assert rows == [
        ("unrecorded", "unrecorded", 5_000, None),
        ("launch", "cudaLaunchKernel", 15_000, "r1"),
        ("computation", PRODUCT, 10_000, "r1"),
    ]
