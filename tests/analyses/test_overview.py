"""Several traces side by side, and the slowest rank of simulated jobs whose truth is known."""

from __future__ import annotations

import pytest
from handmade import small_trace

from tracelens_graph.analyses.across.overview import overview, overview_line, slowest
from tracelens_graph.loading import load_core
from tracelens_graph.simulate import PROBLEMS, simulate


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_late_rank_is_named(seed: int) -> None:
    late = PROBLEMS["late_rank"]["dataloader_rank"]
    run = simulate(seed=seed, problem="late_rank")
    lines = [overview_line(load_core(rank.trace), f"rank{rank.rank}.json") for rank in run.ranks]
    assert slowest(lines) == late
    table = overview(lines[::-1])
    assert list(table["rank"]) == list(range(len(lines)))
    assert f"slowest: rank {late}:" in table.notes[0]


def test_without_communication_the_longest_steps_tell() -> None:
    short, long = small_trace(), small_trace()
    long["distributedInfo"]["rank"] = 4
    long["traceEvents"][2]["dur"] = 1000
    lines = [overview_line(load_core(trace), name) for trace, name in ((short, "a"), (long, "b"))]
    assert slowest(lines) == 1
    assert "step" in overview(lines).notes[0]


def test_one_trace_and_traces_without_gpu_events() -> None:
    nothing = [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 0, "dur": 2}]
    line = overview_line(load_core(nothing), "cpu.json")
    assert (line["total_ms"], line["rank"], line["steps"]) == (None, None, 0)
    assert slowest([line]) is None
    assert slowest([line, line]) is None
    assert list(overview([line, line]).notes) == []
