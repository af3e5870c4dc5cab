"""The ranks of a run side by side: collectives, who comes late to them, and the critical path of a step."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from made_jobs import SimulatedJob, simulated_job
from placed_traces import dlrm, on_host, placed, ranks_of, simulated
from same_tables import Ask, assert_same

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.critical_path.critical_path import critical_path
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.graph.window import step_number
from tracelens_graph.loading.one import load_core

NAMES = ("rank_collectives", "rank_balance", "collective_kinds")


def test_the_spread_of_a_collective() -> None:
    (row,) = QUESTIONS["rank_collectives"](ranks_of((10.0, 30.0), (25.0, 15.5), (12.0, 28.0))).records()
    assert (row["kind"], row["group"], row["sequence"], row["ranks"]) == ("allreduce", "0", 7, 3)
    assert (row["start_us"], row["last_start_us"], row["start_skew_us"]) == (10.0, 25.0, 15.0)
    assert (row["end_skew_us"], row["wait_us"]) == (0.5, 15.0 + 13.0)
    assert (row["shortest_us"], row["longest_us"], row["duration_spread_us"]) == (15.5, 30.0, 14.5)
    assert (row["last_trace"], row["last_rank"]) == ("rank1", 1)


def test_absolute_starts_put_ranks_on_one_clock() -> None:
    later = ranks_of((10.0, 30.0), (10.0, 30.0), epoch_ns=(1_700_000_000_000_000_000, 1_700_000_000_000_004_000))
    (row,) = QUESTIONS["rank_collectives"](later).records()
    assert (row["start_skew_us"], row["end_skew_us"], row["last_rank"]) == (4.0, 4.0, 1)


def test_of_equally_late_ranks_the_smallest_is_named_and_all_are_counted() -> None:
    ranks = ranks_of((10.0, 30.0), (25.0, 15.0), (25.0, 15.0))
    assert QUESTIONS["rank_collectives"](ranks)["last_rank"] == [1]
    late = QUESTIONS["rank_balance"](ranks, late_first=True).records()
    names = ("trace", "times_last", "times_among_last", "times_first", "wait_ms", "mean_wait_us", "collective_ms")
    assert [tuple(row[name] for name in names) for row in late] == [
        ("rank1", 1, 1, 0, 0.0, 0.0, 0.015),
        ("rank2", 0, 1, 0, 0.0, 0.0, 0.015),
        ("rank0", 0, 0, 1, 0.015, 15.0, 0.03),
    ]


def test_one_rank_alone_meets_nobody() -> None:
    alone = ranks_of((10.0, 30.0))
    assert len(QUESTIONS["rank_collectives"](alone)) == len(QUESTIONS["rank_balance"](alone, late_first=True)) == 0
    (row,) = QUESTIONS["rank_balance"](alone).records()
    assert (row["collectives"], row["unmatched"], row["mean_wait_us"]) == (0, 1, None)
    both = [*ranks_of((10.0, 30.0), (11.0, 30.0)), *ranks_of((10.0, 30.0), run="another")]
    assert len(QUESTIONS["rank_collectives"](both)) == 0  # the run pushed last
    assert len(QUESTIONS["rank_collectives"](both, run="across ranks")) == 1
    assert len(QUESTIONS["rank_collectives"](both, run="across ranks", kind="broadcast")) == 0
    with pytest.raises(AnalysisError, match="no run is called 'nothing'; there are 'across ranks', another"):
        QUESTIONS["rank_balance"](both, run="nothing")


def test_collectives_are_as_they_were_simulated() -> None:
    placed, truth = simulated()
    rows = {row["sequence"]: row for row in QUESTIONS["rank_collectives"](placed, top=1000).records()}
    assert set(rows) == {one["seq"] for one in truth["collectives"]}
    for one in truth["collectives"]:
        row = rows[one["seq"]]
        assert (row["kind"], row["last_rank"]) == (one["kind"], one["last_rank"])
        assert round(row["start_skew_us"] * 1000) == one["skew_ns"]
        assert round(row["shortest_us"] * 1000) == one["transfer_ns"]
        assert row["end_skew_us"] == 0.0
    assert QUESTIONS["rank_balance"](placed, late_first=True)["rank"][0] == 1


@needs_corpus
def test_eight_real_ranks_end_together() -> None:
    rows = QUESTIONS["rank_collectives"](dlrm()).records()
    assert [row["ranks"] for row in rows] == [8] * 8
    assert sorted(row["kind"] for row in rows) == ["all_to_all"] * 5 + ["allreduce"] * 3
    assert all(1.0 <= row["end_skew_us"] <= 7.0 for row in rows)
    assert rows[0]["start_skew_us"] == max(row["start_skew_us"] for row in rows) == 7624.0
    late = QUESTIONS["rank_balance"](dlrm(), late_first=True).records()[0]
    assert (late["rank"], late["times_last"], late["times_first"]) == (7, 5, 0)


def test_kernels_that_neither_overlap_nor_end_together_are_left_out_and_counted() -> None:
    apart = ranks_of((10.0, 30.0), (150.1, 0.0))  # ends 110.1 us apart
    for name in NAMES:
        table = QUESTIONS[name](apart)
        assert len(table) == (2 if name == "rank_balance" else 0)
        assert (
            "2 of 2 parts of collectives are not matched: "
            "it neither overlaps with the others nor ends within 0.1 ms of them"
        ) in table.notes
    (note,) = QUESTIONS["rank_balance"](apart, kind="broadcast", late_first=True).notes
    assert note.startswith("no collective is of kind 'broadcast'; there are ")
    for verified in (((10.0, 30.0), (139.0, 1.0)), ((10.0, 900.0), (39.0, 1.0))):  # ends 100 us apart; overlap
        table = QUESTIONS["rank_collectives"](ranks_of(*verified))
        assert (len(table), [note for note in table.notes if "not matched" in note]) == (1, [])


def test_ranks_that_may_leave_early_wait_no_longer_than_they_stay() -> None:
    (row,) = QUESTIONS["rank_collectives"](ranks_of((10.0, 5.0), (30.0, 5.0), Collective_name="broadcast")).records()
    assert (row["start_skew_us"], row["wait_us"]) == (20.0, 5.0)


def test_groups_are_known_by_their_ranks_and_not_by_their_names() -> None:
    ranks = [
        ranks_of((10.0, 30.0), (25.0, 15.0), Process_Group_Name=name, Process_Group_Ranks="[0, 1]")[rank]
        for rank, name in enumerate(("7", "3"))
    ]
    (row,) = QUESTIONS["collective_kinds"](ranks, by="group").records()
    assert (row["group"], row["group_ranks"], row["kind"], row["recorded_ranks"]) == ("3", "[0, 1]", "allreduce", 2)
    assert (row["wait_ms"], row["transfer_ms"], row["end_skew_ms"]) == (0.015, 0.03, 0.0)
    assert (row["wait_percent"], row["longest_wait_us"]) == (pytest.approx(100 / 3), 15.0)
    assert (row["last_trace"], row["last_rank"], row["last_wait_ms"]) == ("rank1", 1, 0.015)


@needs_corpus
def test_real_ranks_of_which_each_ran_collectives_alone() -> None:
    assert CORPUS
    folder = CORPUS / "hta" / "two-of-128-ranks"
    ranks = TraceSet.of({f"rank-{n}": load_core(folder / f"rank-{n}.json.gz") for n in range(2)})
    table = QUESTIONS["rank_collectives"](ranks)
    # The first all-to-all of rank 1 is the second one of rank 0: they end at the same time. Gathers of the two overlap,
    # but end 0.2 ms apart and more, and these traces do not name process groups: they may be of different ones.
    assert sorted(place.rpartition("#")[2] for place in table["key"]) == ["0", "2", "8"]
    assert all(row["start_skew_us"] < row["longest_us"] for row in table.records())
    assert max(table["end_skew_us"]) < 100
    assert "the traces do not name process groups" in table.notes[0]
    assert sum(int(note.split()[0]) for note in table.notes if "are not matched" in note) == 20 - 2 * 3
    assert "2 of the job's 128 ranks are compared; others may be last" in table.notes
    assert list(QUESTIONS["rank_balance"](ranks)["collectives"]) == [3, 3]


@needs_corpus
def test_of_windows_only_their_kernels_count() -> None:
    whole = QUESTIONS["rank_collectives"](dlrm())
    of_streams = [TraceSet(dlrm()).narrowed(stream=stream) for stream in (7, 22, 24, 84)]
    found = [key for ranks in of_streams for key in QUESTIONS["rank_collectives"](ranks)["key"]]
    assert sorted(found) == sorted(whole["key"])
    table = QUESTIONS["rank_balance"](of_streams[0], late_first=True)
    assert (len(table), table.title) == (0, "Ranks of across dlrm (stream 7)")
    late = QUESTIONS["rank_collectives"](TraceSet(dlrm()).narrowed(after_ns=14_000_000))  # of each trace's own start
    assert 0 < len(late) < len(whole)
    assert max(late["ranks"]) < 8
    assert late.notes[-1] == f"{len(late)} of {len(late)} collectives are in the window on some of their ranks only"


def test_a_window_takes_some_kernels_of_a_collective() -> None:
    first, second = ranks_of((10.0, 30.0), (25.0, 15.5))
    late = TraceSet([first, second]).narrowed(after_ns=20_000)
    assert len(QUESTIONS["rank_collectives"](late)) == 0  # the kernel of the first began before
    assert len(QUESTIONS["rank_collectives"](TraceSet([first, second]).narrowed(after_ns=5_000))) == 1
    mixed = TraceSet([replace(first, graph=first.core.window(stream=7)), second])
    title = "(across ranks/rank0: stream 7; across ranks/rank1: whole)"
    assert QUESTIONS["rank_balance"](mixed).title.endswith(title)


@pytest.mark.parametrize("name", NAMES)
def test_the_database_leaves_out_the_same(ask: Ask, name: str) -> None:
    for run, starts in {
        "apart": ((10.0, 30.0), (150.1, 0.0)),
        "ends": ((10.0, 30.0), (139.0, 1.0)),
        "overlap": ((10.0, 900.0), (39.0, 1.0)),
    }.items():
        query, twin = ask(ranks_of(*starts, run=f"verified {run}"), name, run=f"verified {run}")
        assert_same(query, twin)
        if name == "rank_balance":
            assert list(query["collectives"]) == [int(run != "apart")] * 2
        else:
            assert len(query) == int(run != "apart")


@pytest.mark.parametrize("name", NAMES)
def test_the_database_sees_the_same_ranks(ask: Ask, name: str) -> None:
    placed, _ = simulated()
    assert_same(*ask(placed, name, run=placed[0].run))
    by_hand = ranks_of((10.0, 30.0), (25.0, 15.5), (25.0, 28.0))
    for kind in (None, "allreduce", "broadcast"):
        assert_same(*ask(by_hand, name, run=by_hand[0].run, kind=kind))


@pytest.mark.parametrize("name", NAMES)
def test_the_database_sees_the_same_job_without_a_gpu(ask: Ask, name: str) -> None:
    assert_same(*ask(on_host(), name, run="across gloo"))


@needs_corpus
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("rank_collectives", {}),
        ("rank_collectives", {"kind": "allreduce", "top": 2}),
        ("rank_collectives", {"top": 0}),
        ("rank_balance", {}),
        ("rank_balance", {"kind": "all_to_all", "late_first": True}),
        ("collective_kinds", {}),
        ("collective_kinds", {"kind": "allreduce", "by": "group"}),
        ("collective_spread", {"top": 3}),
        ("slowest_ranks", {"kind": "all_to_all"}),
        ("waits_by_group", {}),
    ],
)
def test_the_database_sees_the_same_eight_ranks(ask: Ask, name: str, parameters: dict[str, Any]) -> None:
    query, twin = ask(dlrm(), name, run="across dlrm", **parameters)
    assert_same(query, twin)
    assert len(twin) > 0


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
        rows = QUESTIONS["critical_path"](ranks, step=step).records()
        assert sum(row["dur_ns"] for row in rows) == ends[step] - ends[step - 1]
        assert [row["place"] for row in rows] == list(range(1, len(rows) + 1))
        at = 0
        for row in rows:
            assert round(row["start_us"] * 1e3) == at
            at += row["dur_ns"]


@pytest.mark.parametrize("step", [None, FIRST_STEP, FIRST_STEP + 2])
def test_the_database_has_the_same_path(ask: Ask, step: int | None) -> None:
    ran, ranks = job()
    query, twin = ask(ranks, "critical_path", run=RUN, step=step)
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
    for table in ask(ranks, "critical_path", run=ranks[0].run, step=step):
        assert (len(table), table.notes) == (0, [note])


@needs_corpus
def test_the_database_has_the_same_path_of_eight_real_ranks(ask: Ask) -> None:
    query, twin = ask(dlrm(), "critical_path", run="across dlrm")
    assert_same(query, twin)
    assert sum(query["dur_ns"]) == critical_path(dlrm()).length_ns
