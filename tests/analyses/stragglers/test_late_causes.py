"""Who comes late to collectives, by how much, and why."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from lockstep import device_sync, job, kernel, loader, malloc, op, pair, python, reduce
from made_jobs import simulated_job

from corpus import CHECKOUT, CORPUS, loaded, needs_corpus
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.stragglers.late_causes import late_arrivals, late_ranks
from tracelens_graph.analyses.stragglers.lateness import lateness
from tracelens_graph.analyses.stragglers.reasons import EARLIER, EVEN, REASONS, UNNAMED
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core

Rows = list[dict[str, Any]]


def arrivals_of(traces: TraceSet) -> Rows:
    """The late arrivals of some ranks, in the order of the collectives."""
    return sorted(
        late_arrivals(Figures(MatchedCollectives(traces)), traces).records(), key=lambda row: row["collective"]
    )


def brief(rows: Rows) -> list[tuple[int, int, float, float, str]]:
    return [(row["collective"], row["rank"], row["late_us"], row["new_us"], row["reason"]) for row in rows]


# --- by hand ---------------------------------------------------------------------------------------------------------

BESIDE = [kernel(100), reduce(), kernel(100), reduce(), kernel(100)]
BLOCKING = [kernel(100), reduce(block=True), kernel(100), reduce(block=True), kernel(100)]


def with_second(*steps: Any) -> list[Any]:
    """The blocking program with other steps between its two all-reduces."""
    return [kernel(100), reduce(block=True), *steps, reduce(block=True), kernel(100)]


def test_lateness_that_shows_again_is_not_new() -> None:
    rows = arrivals_of(job(BESIDE, BESIDE, [op(500), *BESIDE]))
    # The second all-reduce of the others starts behind the first one, TRANSFER after the late rank came to it; without
    # it they could have come 500 us before the late rank again.
    assert brief(rows) == [(0, 2, 500, 500, "op"), (1, 2, 80, 0, EARLIER)]
    assert rows[0]["what"] == "aten::sort"
    assert rows[0]["evidence"].startswith("505 us against 5 us on rank0")


def test_behind_an_all_reduce_that_all_wait_for_all_lateness_is_new() -> None:
    slow = [kernel(200), reduce(block=True), kernel(150), reduce(block=True), kernel(100)]
    rows = arrivals_of(job(BLOCKING, slow, BLOCKING))
    assert brief(rows) == [(0, 1, 100, 100, "slower_kernels"), (1, 1, 50, 50, "slower_kernels")]
    assert rows[1]["what"] == "gemm, in aten::gemm"
    assert "150 us against 100 us on rank0" in rows[1]["evidence"]


@pytest.mark.parametrize(
    ("steps", "reason", "what"),
    [
        ([op(500), kernel(100)], "op", "aten::sort"),
        ([python(500), kernel(100)], "python", "train.py(7): augment"),
        ([loader(500), kernel(100)], "data_loader", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        ([malloc(500), kernel(100)], "allocation", "cudaMalloc"),
        ([python(60), malloc(500), kernel(100)], "allocation", "cudaMalloc"),
        ([kernel(100), kernel(300, "extra")], "more_gpu_work", "extra, in aten::extra"),
        ([kernel(300, dims="[[16, 16]]")], "other_inputs", "gemm, in aten::gemm"),
        ([kernel(300)], "slower_kernels", "gemm, in aten::gemm"),
    ],
)
def test_the_reason_is_what_the_median_rank_did_not_do(steps: list[Any], reason: str, what: str) -> None:
    (row,) = arrivals_of(job(BLOCKING, BLOCKING, with_second(*steps)))
    assert (row["rank"], row["reason"], row["what"]) == (2, reason, what)
    assert row["new_us"] == row["late_us"] > 150
    assert row["median_trace"] == "rank0"


def test_host_time_beside_the_gpu_is_no_reason() -> None:
    usual, busy = with_second(kernel(600), kernel(100)), with_second(kernel(600), python(300), kernel(200))
    (row,) = arrivals_of(job(usual, usual, busy))
    assert (row["late_us"], row["reason"]) == (100, "slower_kernels")


def test_synchronisation_keeps_the_host_from_launching_ahead() -> None:
    usual, waiting = [], []
    for _ in range(20):
        usual += [kernel(20)]
        waiting += [kernel(20), device_sync()]
    (row,) = arrivals_of(job(with_second(*usual), with_second(*usual), with_second(*waiting)))
    assert (row["rank"], row["reason"], row["what"]) == (2, "synchronization", "cudaDeviceSynchronize")


def test_a_host_that_was_late_before_is_so_again_where_others_had_waited() -> None:
    """All hosts do 300 us of work behind the first all-reduce; those that came early did it while they waited."""
    program = [op(300), kernel(10), reduce(block=True), op(300), kernel(10), device_sync(), reduce(block=True)]
    rows = arrivals_of(job(program, program, program, begin=[0, 0, 1000]))
    assert [row["reason"] for row in rows] == [EARLIER, EARLIER]
    assert [row["new_us"] for row in rows] == [0, 0]
    before = "it began its recording 1.00 ms later than rank0: the reason lies before the recording"
    assert rows[0]["what"] == before
    assert rows[1]["late_us"] == 280
    rows = arrivals_of(job(program, program, program, begin=[0, 0, 1000], recorded_from=-50))
    assert [row["reason"] for row in rows] == [EARLIER, EARLIER]
    assert rows[0]["what"] == "it began the step 1.00 ms later than rank0"


def test_who_waited_elsewhere_passes_lateness_on() -> None:
    first = [kernel(50), pair(0, 1), kernel(20), reduce(block=True)]
    second = [kernel(50), pair(2, 3), kernel(20), reduce(block=True)]
    rows = arrivals_of(job(first, first, second, [kernel(50), malloc(600), *second]))
    passed_on = [row for row in rows if row["reason"] == "other_collective"]
    assert {(row["rank"], row["reason"]) for row in rows if row not in passed_on} == {(3, "allocation")}
    assert [(row["rank"], row["what"]) for row in passed_on] == [(2, "waited for rank3: allocation (cudaMalloc)")]
    assert passed_on[0]["evidence"] == "it took 624 us, 604 us of it waiting for rank3"


def test_ranks_are_summed_up_by_kind() -> None:
    traces = job(BESIDE, BESIDE, [op(500), *BESIDE])
    figures = Figures(MatchedCollectives(traces))
    arrivals = late_arrivals(figures, traces)
    ranks = late_ranks(arrivals, figures)
    (row,) = ranks.records()
    assert (row["rank"], row["kind"], row["times_late"], row["collectives"]) == (2, "allreduce", 2, 2)
    assert (row["percent_late"], row["median_late_us"], row["late_ms"], row["new_ms"]) == (100, 290, 0.58, 0.5)
    assert (row["reason"], row["percent_reason"], row["times_reason"], row["median_new_us"]) == ("op", 100, 1, 500)
    assert traces[2].core.node(row["uid"]).name == "aten::sort"
    found = lateness(figures, arrivals.records())
    assert found is not None
    (culprit,) = found.culprits
    assert (culprit.who, culprit.reason, culprit.what, culprit.late_ns) == ("rank 2", "op", "aten::sort", 500_000)


# --- simulated -------------------------------------------------------------------------------------------------------

WHAT = {
    "data_loader": "__next__",
    "python": "train.py(52): augment",
    "op": "aten::sort",
    "allocation": "cudaMalloc, in aten::empty, in train.py(48): make_buffer",
}


@cache
def simulated(**settings: Any) -> tuple[Figures, Rows, Rows]:
    traces = simulated_job(**{"ranks": 4, "steps": 2, "layers": 1, **settings}).traces
    figures = Figures(MatchedCollectives(traces))
    table = late_arrivals(figures, traces)
    return figures, table.records(), late_ranks(table, figures).records()


@pytest.mark.parametrize(
    ("reason", "recorded"), [*((reason, True) for reason in WHAT), ("allocation", False), ("data_loader", False)]
)
def test_planted_host_time(reason: str, recorded: bool) -> None:
    """With waits recorded or not; and with hosts that wait for the loss of each step, or run ahead."""
    _, rows, ranks = simulated(late_rank=2, late_us=3000.0, late_reason=reason, read_loss=recorded, cuda_sync=recorded)
    named = [row for row in rows if row["reason"] not in UNNAMED]
    # Once per step; what follows in the step shows the same lateness again.
    assert sorted((row["step"], row["rank"], row["reason"]) for row in named) == [(at, 2, reason) for at in (3, 4)]
    assert all(WHAT[reason] in row["what"] for row in named)
    if recorded:  # hosts stand at the same place at the end of a step, so that all that was lost shows
        assert [row["new_us"] for row in named] == pytest.approx([3000] * 2, abs=100)
    assert (ranks[0]["rank"], ranks[0]["reason"], ranks[0]["times_reason"]) == (2, reason, 2)
    assert ranks[0]["percent_reason"] > 99


@pytest.mark.parametrize(("reason", "only"), [*zip(WHAT, (None, 0, 2, None), strict=True)])
def test_planted_host_time_where_recordings_begin_in_mid_step(reason: str, only: int | None) -> None:
    """What a recording holds is explained; hosts that run ahead may be beyond the marks of their steps by then."""
    settings: dict[str, Any] = {"late_rank": 2, "late_us": 3000.0, "late_reason": reason, "steps": 4}
    _, rows, ranks = simulated(**settings, recording_begins_us=4_000.0, recording_begins_rank=only)
    named = [row for row in rows if row["reason"] not in UNNAMED]
    assert {(row["rank"], row["reason"]) for row in named} == {(2, reason)}
    assert 3 <= len(named) <= 4
    assert all(WHAT[reason] in row["what"] for row in named)
    assert (ranks[0]["rank"], ranks[0]["reason"]) == (2, reason)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"read_loss": True},
        {"cuda_sync": True},
        {"host_barrier": True},
        {"slow_link_rank": 1},
        {"tensor_parallel": 4},
        {"nodes": 2, "clock_offset_us": 20_000.0, "end_noise_us": 5.0},
        {"ranks": 2},
    ],
    ids=str,
)
def test_where_nothing_is_planted_there_is_no_reason(settings: dict[str, Any]) -> None:
    _, rows, _ = simulated(**settings)
    assert len(rows) > 5
    assert {row["reason"] for row in rows} <= {EARLIER, EVEN}


@pytest.mark.parametrize("settings", [{}, {"tensor_parallel": 4}, {"cuda_sync": True, "read_loss": True}], ids=str)
def test_a_slow_gpu(settings: dict[str, Any]) -> None:
    _, rows, ranks = simulated(slow_rank=1, **settings)
    assert {(row["rank"], row["reason"]) for row in rows if row["reason"] not in UNNAMED} == {(1, "slower_kernels")}
    assert (ranks[0]["rank"], ranks[0]["reason"]) == (1, "slower_kernels")
    assert ranks[0]["percent_late"] > 60


def test_clocks_of_several_hosts() -> None:
    settings = {"late_rank": 2, "late_us": 3000.0, "late_reason": "op"}
    _, rows, _ = simulated(**settings, nodes=2, clock_offset_us=20_000.0, end_noise_us=5.0)
    named = [row for row in rows if row["reason"] not in UNNAMED]
    assert [(row["rank"], row["reason"]) for row in named] == [(2, "op")] * 2
    assert named[0]["new_us"] == pytest.approx(3000, abs=100)


def test_the_ranks_of_a_group_pass_lateness_on() -> None:
    _, rows, _ = simulated(tensor_parallel=2, late_rank=2, late_us=3000.0)
    named = [row for row in rows if row["reason"] not in UNNAMED]
    assert {(row["rank"], row["reason"]) for row in named} == {(2, "data_loader"), (3, "other_collective")}
    passed_on = [row for row in named if row["rank"] == 3]
    assert all("waiting for rank2" in row["evidence"] for row in passed_on)
    assert all(row["what"].startswith("waited for rank2: data loader") for row in passed_on)


def test_stages_of_a_pipeline_are_not_blamed_for_their_own_work() -> None:
    _, rows, _ = simulated(layers=2, pipeline_parallel=2)
    assert {row["reason"] for row in rows} <= {*UNNAMED, "other_collective"}
    _, rows, _ = simulated(layers=2, pipeline_parallel=2, late_rank=1, late_us=3000.0, late_reason="allocation")
    assert {row["rank"] for row in rows if row["reason"] == "allocation"} == {1}
    assert {row["reason"] for row in rows} <= {*UNNAMED, "other_collective", "allocation"}


def test_experts_with_more_tokens_have_other_inputs() -> None:
    _, rows, _ = simulated(expert_parallel=2)
    named = {row["reason"] for row in rows if row["reason"] not in UNNAMED}
    assert "other_inputs" in named
    assert named <= {"other_inputs", "other_collective"}  # of the group that has the same experts


@pytest.mark.parametrize("settings", [{}, {"tensor_parallel": 2}, {"pipeline_parallel": 2, "layers": 2}], ids=str)
def test_new_lateness_is_a_part_of_it(settings: dict[str, Any]) -> None:
    figures, rows, ranks = simulated(late_rank=1, late_us=1500.0, slow_rank=2, **settings)
    assert all(0 <= row["new_us"] <= row["late_us"] for row in rows)
    assert all(row["reason"] in REASONS for row in rows)
    last, later = figures.held_up_ns
    of_last = {(row["collective"], row["rank"]): row["late_us"] for row in rows}
    for collective, (place, late_ns) in enumerate(zip(last.tolist(), later.tolist(), strict=True)):
        if place >= 0:
            assert of_last[collective, figures.matched.ranks[place].rank] == pytest.approx(late_ns / 1e3)
    late = [row for row in rows if row["reason"] != EVEN]
    assert sum(row["new_ms"] for row in ranks) == pytest.approx(sum(row["new_us"] for row in late) / 1e3)
    assert sum(row["times_late"] for row in ranks) == len(late)


# --- real ------------------------------------------------------------------------------------------------------------


@needs_corpus
def test_dlrm() -> None:
    """Rank 7 began its step 4.5 ms after the median rank, and nothing it did afterwards made it later.

    Behind the first all-to-all it comes last again, for its host has no lead: the others ran the same ops while they
    waited for it. Later, ranks 5 and 4 lose some 0.1 to 0.4 ms in ops of the backward pass, all of which take longer.
    """
    assert CORPUS
    files = sorted((CORPUS / "dlrm-8-ranks" / "kineto").glob("rank*.json.gz"))
    traces = TraceSet.of({path.name.split(".")[0]: load_core(path) for path in files})
    last = MatchedCollectives(traces)
    late = {(at, last.ranks[last.trace[part]].rank) for at, part in enumerate(last.last_part.tolist())}
    rows = [row for row in arrivals_of(traces) if (row["collective"], row["rank"]) in late]
    assert [row["rank"] for row in rows] == [7, 7, 7, 7, 7, 5, 5, 4]
    assert [row["reason"] for row in rows] == [EARLIER] * 5 + ["slow_host"] * 3
    before = "it began its recording 4.52 ms later than rank5: the reason lies before the recording"
    assert rows[0]["what"] == before
    assert [row["new_us"] for row in rows[1:5]] == pytest.approx([0, 0, 0, 0], abs=20)
    assert "1.70 ms against 1.37 ms on rank6" in rows[5]["evidence"]


@pytest.mark.parametrize("ranks", [2, 4])
def test_gloo(ranks: int) -> None:
    """The last rank of the recorded job sleeps 20 ms in every step while it makes a batch."""
    folder = CHECKOUT / f"examples/traces/gloo-{ranks}-ranks"
    traces = TraceSet.of({f"rank{rank}": loaded(folder / f"rank{rank}.json.gz") for rank in range(ranks)})
    figures = Figures(MatchedCollectives(traces))
    table = late_arrivals(figures, traces)
    of_loader = [row for row in table.records() if row["reason"] == "data_loader"]
    assert sorted((row["step"], row["rank"]) for row in of_loader) == [(step, ranks - 1) for step in (1, 2, 3)]
    assert all(17_000 < row["new_us"] < 23_000 for row in of_loader)
    assert {row["kind"] for row in of_loader} == {"allreduce"}
    found = lateness(figures, table.records())
    assert found is not None
    (culprit,) = found.culprits
    assert (culprit.who, culprit.reason, culprit.steps) == (f"rank {ranks - 1}", "data_loader", (1, 2, 3))
    assert culprit.what.startswith("torch/utils/data/dataloader.py")
