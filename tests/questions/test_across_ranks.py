"""The ranks of a run side by side: collectives, and who comes late to them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from placed_traces import dlrm, marked, on_host, placed, ranks_of, simulated
from same_tables import Ask, assert_same

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core

NAMES = ("collective_spread", "slowest_ranks", "waits_by_group")


def test_the_spread_of_a_collective() -> None:
    (row,) = QUESTIONS["collective_spread"](ranks_of((10.0, 30.0), (25.0, 15.5), (12.0, 28.0))).records()
    assert (row["kind"], row["group"], row["sequence"], row["ranks"]) == ("allreduce", "0", 7, 3)
    assert (row["first_start_us"], row["last_start_us"], row["start_skew_us"]) == (10.0, 25.0, 15.0)
    assert (row["end_skew_us"], row["wait_us"]) == (0.5, 15.0 + 13.0)
    assert (row["shortest_us"], row["longest_us"], row["duration_spread_us"]) == (15.5, 30.0, 14.5)
    assert (row["last_trace"], row["last_rank"]) == ("rank1", 1)


def test_absolute_starts_put_ranks_on_one_clock() -> None:
    later = ranks_of((10.0, 30.0), (10.0, 30.0), epoch_ns=(1_700_000_000_000_000_000, 1_700_000_000_000_004_000))
    (row,) = QUESTIONS["collective_spread"](later).records()
    assert (row["start_skew_us"], row["end_skew_us"], row["last_rank"]) == (4.0, 4.0, 1)


def test_of_equally_late_ranks_the_smallest_is_named_and_all_are_counted() -> None:
    ranks = ranks_of((10.0, 30.0), (25.0, 15.0), (25.0, 15.0))
    assert QUESTIONS["collective_spread"](ranks)["last_rank"] == [1]
    table = QUESTIONS["slowest_ranks"](ranks)
    assert list(table.rows()) == [
        ("rank1", 1, 1, 1, 0, 0.0, 0.0, 15.0),
        ("rank2", 2, 1, 1, 0, 0.0, 0.0, 15.0),
        ("rank0", 0, 1, 0, 1, 15.0, 15.0, 30.0),
    ]


def test_one_rank_alone_meets_nobody() -> None:
    alone = ranks_of((10.0, 30.0))
    assert len(QUESTIONS["collective_spread"](alone)) == len(QUESTIONS["slowest_ranks"](alone)) == 0
    both = [*ranks_of((10.0, 30.0), (11.0, 30.0)), *ranks_of((10.0, 30.0), run="another")]
    assert len(QUESTIONS["collective_spread"](both)) == 0  # the run pushed last
    assert len(QUESTIONS["collective_spread"](both, run="across ranks")) == 1
    assert len(QUESTIONS["collective_spread"](both, run="across ranks", kind="broadcast")) == 0
    with pytest.raises(AnalysisError, match="no run is called 'nothing'; there are 'across ranks', another"):
        QUESTIONS["slowest_ranks"](both, run="nothing")


def test_collectives_are_as_they_were_simulated() -> None:
    placed, truth = simulated()
    rows = {row["sequence"]: row for row in QUESTIONS["collective_spread"](placed, top=1000).records()}
    assert set(rows) == {one["seq"] for one in truth["collectives"]}
    for one in truth["collectives"]:
        row = rows[one["seq"]]
        assert (row["kind"], row["last_rank"]) == (one["kind"], one["last_rank"])
        assert round(row["start_skew_us"] * 1000) == one["skew_ns"]
        assert round(row["shortest_us"] * 1000) == one["transfer_ns"]
        assert row["end_skew_us"] == 0.0
    assert QUESTIONS["slowest_ranks"](placed)["rank"][0] == 1


@needs_corpus
def test_eight_real_ranks_end_together() -> None:
    rows = QUESTIONS["collective_spread"](dlrm()).records()
    assert [row["ranks"] for row in rows] == [8] * 8
    assert sorted(row["kind"] for row in rows) == ["all_to_all"] * 5 + ["allreduce"] * 3
    assert all(1.0 <= row["end_skew_us"] <= 7.0 for row in rows)
    assert rows[0]["start_skew_us"] == max(row["start_skew_us"] for row in rows) == 7624.0
    late = QUESTIONS["slowest_ranks"](dlrm()).records()[0]
    assert (late["rank"], late["times_last"], late["times_first"]) == (7, 5, 0)


def test_made_up_ranks_are_as_in_the_reference_tables(goldens: Path) -> None:
    folder = goldens / "multirank-synthetic4"
    ranks = [placed(marked(folder / "synthetic4" / f"rank{n}_trace.json"), "four", f"rank{n}") for n in range(4)]
    rows = {}
    for row in QUESTIONS["collective_spread"](ranks, top=1000).records():
        _, group, _, place = row["collective"].split(":")
        rows[f"{group}_{place.removeprefix('#')}"] = row
    reference = _csv(folder / "synthetic4_report" / "nccl_implicit_sync.csv")
    assert len(reference) == 36
    for wanted in reference:
        row = rows[wanted["collective_id"]]
        assert row["kind"] == wanted["Collective name"]
        assert row["shortest_us"] == pytest.approx(float(wanted["comm_latency"]))
        assert row["start_skew_us"] == pytest.approx(float(wanted["skew in start time"]))
        assert row["end_skew_us"] == pytest.approx(float(wanted["skew in end time"]))
        assert row["wait_us"] / 4 == pytest.approx(float(wanted["avg_wait_time"]))
    kinds = sorted({wanted["Collective name"] for wanted in reference})
    by_kind = [QUESTIONS["slowest_ranks"](ranks, kind=kind).records() for kind in kinds]
    for wanted in _csv(folder / "synthetic4_report" / "straggler_summary.csv"):
        mine = [row for rows in by_kind for row in rows if row["rank"] == int(wanted["rank"])]
        assert sum(row["times_last"] for row in mine) == int(wanted["times_arrived_last"])
        assert sum(row["times_first"] for row in mine) == int(wanted["times_arrived_first"])
        assert sum(row["wait_us"] for row in mine) == pytest.approx(float(wanted["total_wait_time_us"]), abs=0.06)


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_kernels_that_neither_overlap_nor_end_together_are_left_out_and_counted() -> None:
    apart = ranks_of((10.0, 30.0), (150.1, 0.0))  # ends 110.1 us apart
    for name in NAMES:
        table = QUESTIONS[name](apart)
        assert len(table) == 0
        assert table.notes[0] == (
            "2 of 2 parts of collectives are not matched: "
            "it neither overlaps with the others nor ends within 0.1 ms of them"
        )
    (note,) = QUESTIONS["slowest_ranks"](apart, kind="broadcast").notes
    assert note.startswith("no collective is of kind 'broadcast'; there are ")
    for verified in (((10.0, 30.0), (139.0, 1.0)), ((10.0, 900.0), (39.0, 1.0))):  # ends 100 us apart; overlap
        table = QUESTIONS["collective_spread"](ranks_of(*verified))
        assert (len(table), [note for note in table.notes if "not matched" in note]) == (1, [])


def test_a_part_that_does_not_fit_the_others_is_left_out_alone() -> None:
    three = ranks_of((10.0, 500.0), (20.0, 490.0), (600.0, 300.0))
    (row,) = QUESTIONS["collective_spread"](three).records()
    assert (row["ranks"], row["last_trace"], row["wait_us"]) == (2, "rank1", 10.0)
    assert list(QUESTIONS["slowest_ranks"](three)["trace"]) == ["rank1", "rank0"]
    assert QUESTIONS["slowest_ranks"](three).notes[0].startswith("1 of 3 parts of collectives are not matched: ")


def test_ranks_that_may_leave_early_wait_no_longer_than_they_stay() -> None:
    (row,) = QUESTIONS["collective_spread"](ranks_of((10.0, 5.0), (30.0, 5.0), Collective_name="broadcast")).records()
    assert (row["start_skew_us"], row["wait_us"]) == (20.0, 5.0)


def test_groups_are_told_by_their_ranks_and_not_by_their_names() -> None:
    ranks = [
        ranks_of((10.0, 30.0), (25.0, 15.0), Process_Group_Name=name, Process_Group_Ranks="[0, 1]")[rank]
        for rank, name in enumerate(("7", "3"))
    ]
    (row,) = QUESTIONS["waits_by_group"](ranks).records()
    assert (row["group"], row["group_ranks"], row["kind"], row["ranks"]) == ("3", "[0, 1]", "allreduce", 2)
    assert (row["wait_us"], row["transfer_us"], row["end_skew_us"]) == (15.0, 30.0, 0.0)
    assert (row["wait_percent"], row["longest_wait_us"]) == (pytest.approx(100 / 3), 15.0)
    assert (row["last_trace"], row["last_rank"], row["last_wait_us"]) == ("rank1", 1, 15.0)


def test_missing_ranks_of_a_group_are_told() -> None:
    two = ranks_of((10.0, 30.0), (25.0, 15.5), Group_size=3)
    missing = "1 of 1 collectives lack ranks of their groups, which may be the last"
    for name in NAMES:
        assert missing in QUESTIONS[name](two).notes
    assert missing not in QUESTIONS["slowest_ranks"](ranks_of((10.0, 30.0), (25.0, 15.5), Group_size=2)).notes


@needs_corpus
def test_real_ranks_of_which_each_ran_collectives_alone() -> None:
    assert CORPUS
    folder = CORPUS / "hta" / "two-of-128-ranks"
    ranks = TraceSet.of({f"rank-{n}": load_core(folder / f"rank-{n}.json.gz") for n in range(2)})
    table = QUESTIONS["collective_spread"](ranks)
    # The first all-to-all of rank 1 is the second one of rank 0: they end at the same time. Gathers of the two overlap,
    # but end 0.2 ms apart and more, and these traces do not tell process groups: they may be of different ones.
    assert sorted(place.rpartition("#")[2] for place in table["collective"]) == ["0", "2", "8"]
    assert all(row["start_skew_us"] < row["longest_us"] for row in table.records())
    assert max(table["end_skew_us"]) < 100
    assert "the traces do not tell process groups" in table.notes[0]
    assert sum(int(note.split()[0]) for note in table.notes if "are not matched" in note) == 20 - 2 * 3
    assert "2 of the job's 128 ranks are compared; others may be the last" in table.notes
    assert list(QUESTIONS["slowest_ranks"](ranks)["collectives"]) == [3, 3]


@needs_corpus
def test_of_windows_only_their_kernels_count() -> None:
    whole = QUESTIONS["collective_spread"](dlrm())
    of_streams = [TraceSet(dlrm()).narrowed(stream=stream) for stream in (7, 22, 24, 84)]
    found = [key for ranks in of_streams for key in QUESTIONS["collective_spread"](ranks)["collective"]]
    assert sorted(found) == sorted(whole["collective"])
    table = QUESTIONS["slowest_ranks"](of_streams[0])
    assert (len(table), table.title) == (0, "Ranks of across dlrm: who the others waited for (stream 7)")
    late = QUESTIONS["collective_spread"](TraceSet(dlrm()).narrowed(after_ns=14_000_000))  # of each trace's own start
    assert 0 < len(late) < len(whole)
    assert max(late["ranks"]) < 8
    assert late.notes[-1] == f"{len(late)} of {len(late)} collectives are in the window on some of their ranks only"


def test_a_window_takes_some_kernels_of_a_collective() -> None:
    first, second = ranks_of((10.0, 30.0), (25.0, 15.5))
    late = TraceSet([first, second]).narrowed(after_ns=20_000)
    assert len(QUESTIONS["collective_spread"](late)) == 0  # the kernel of the first began before
    assert len(QUESTIONS["collective_spread"](TraceSet([first, second]).narrowed(after_ns=5_000))) == 1
    mixed = TraceSet([replace(first, graph=first.core.window(stream=7)), second])
    title = "(across ranks/rank0: stream 7; across ranks/rank1: whole)"
    assert QUESTIONS["slowest_ranks"](mixed).title.endswith(title)


@pytest.mark.parametrize("name", NAMES)
def test_the_database_leaves_out_the_same(ask: Ask, name: str) -> None:
    for run, starts in {
        "apart": ((10.0, 30.0), (150.1, 0.0)),
        "ends": ((10.0, 30.0), (139.0, 1.0)),
        "overlap": ((10.0, 900.0), (39.0, 1.0)),
    }.items():
        query, twin = ask(ranks_of(*starts, run=f"verified {run}"), name, run=f"verified {run}")
        assert_same(query, twin)
        assert (len(query) == 0) == (run == "apart")


@pytest.mark.parametrize("name", NAMES)
def test_the_database_sees_the_same_ranks(ask: Ask, name: str) -> None:
    placed, _ = simulated()
    assert_same(*ask(placed, name, run=placed[0].run))
    by_hand = ranks_of((10.0, 30.0), (25.0, 15.5), (25.0, 28.0))
    for kind in (None, "allreduce", "broadcast"):
        assert_same(*ask(by_hand, name, run=by_hand[0].run, kind=kind))


def test_the_late_rank_of_a_job_without_a_gpu() -> None:
    table = QUESTIONS["collective_spread"](on_host(), kind="allreduce", top=3)
    assert (table["last_rank"], table["ranks"]) == ([3, 3, 3], [4, 4, 4])
    assert all(15_000 < skew < 40_000 for skew in table["start_skew_us"])
    assert QUESTIONS["slowest_ranks"](on_host())["rank"][0] == 3


@pytest.mark.parametrize("name", NAMES)
def test_the_database_sees_the_same_job_without_a_gpu(ask: Ask, name: str) -> None:
    assert_same(*ask(on_host(), name, run="across gloo"))


@needs_corpus
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("collective_spread", {}),
        ("collective_spread", {"kind": "allreduce", "top": 2}),
        ("collective_spread", {"top": 0}),
        ("slowest_ranks", {}),
        ("slowest_ranks", {"kind": "all_to_all"}),
        ("waits_by_group", {}),
        ("waits_by_group", {"kind": "allreduce"}),
    ],
)
def test_the_database_sees_the_same_eight_ranks(ask: Ask, name: str, parameters: dict[str, Any]) -> None:
    query, twin = ask(dlrm(), name, run="across dlrm", **parameters)
    assert_same(query, twin)
    assert len(twin) > 0
