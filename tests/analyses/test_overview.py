"""Several traces side by side, and the late rank of simulated jobs whose truth is known."""

from __future__ import annotations

import json
from typing import Any

import pytest
from handmade import small_trace

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.across.overview import late_trace, lateness_of, overview, overview_line
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import PROBLEMS, simulate
from tracelens_graph.simulate.xla import simulate as simulate_xla


def lines(**settings: Any) -> list[Any]:
    run = simulate(**settings)
    return [overview_line(load_core(rank.trace), f"rank{rank.rank}") for rank in run.ranks]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_late_rank_is_named(seed: int) -> None:
    late = PROBLEMS["late_rank"]["dataloader_rank"]
    found = lines(seed=seed, problem="late_rank")
    assert late_trace(found, lateness_of(found)) == late
    table = overview(found[::-1], lateness_of(found[::-1]))
    assert list(table["rank"]) == [0, 1]
    assert list(table["kind"]) == ["comm.late_rank", "host.dataloader"]
    assert table.notes[1].startswith(f"late: rank{late}: it came last to ")


def test_a_slow_network_makes_no_rank_late() -> None:
    found = lines(problem="exposed_communication")
    assert late_trace(found, lateness_of(found)) is None
    kinds, late = overview(found, lateness_of(found)).notes
    assert kinds == "all are comm.exposed: communication with no computation beside it"
    assert late.startswith("no rank is late: ")


def test_where_ranks_are_missing_none_is_late() -> None:
    run = simulate(ranks=4, dataloader_us=12_000.0, dataloader_rank=1)
    found = [overview_line(load_core(rank.trace), f"rank{rank.rank}") for rank in run.ranks]
    assert late_trace(found, lateness_of(found)) == 1
    assert late_trace(found[:3], lateness_of(found[:3])) is None
    assert "ranks are missing" in overview(found[:3], lateness_of(found[:3])).notes[-1]


@needs_corpus
def test_the_job_of_eight_ranks() -> None:
    assert CORPUS is not None
    folder = CORPUS / "dlrm-8-ranks" / "kineto"
    found = [overview_line(load_core(folder / f"rank{rank}.json.gz"), f"rank{rank}") for rank in range(8)]
    assert late_trace(found, lateness_of(found)) == 7
    assert "up to 4.67 ms in one all_to_all" in overview(found, lateness_of(found)).notes[1]
    assert late_trace(found[:7], lateness_of(found[:7])) is None, "rank 7 may be the late one"


def test_a_file_cut_short_is_marked() -> None:
    text = json.dumps(small_trace()).encode()
    whole, cut = (overview_line(load_core(data), name) for data, name in ((text, "a"), (text[:-40], "b")))
    table = overview([whole, cut])
    assert list(table["file"]) == ["", "cut short"]
    assert list(table.about) == list(table.columns)
    assert table.notes[-1].startswith("b: GPU events end at 0.160 of 0.900 ms because the file is cut short; ")
    assert "file" not in overview([whole, whole]).columns


def test_one_trace_and_traces_without_gpu_events() -> None:
    nothing = [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 0, "dur": 2}]
    line = overview_line(load_core(nothing), "cpu.json")
    assert (line["total_ms"], line["rank"], line["steps"], line["kind"]) == (None, None, 0, "no_gpu")
    assert late_trace([line], lateness_of([line])) is None
    assert list(overview([line], lateness_of([line])).notes) == []
    assert list(overview([line, line], lateness_of([line, line])).notes) == [
        "all are no_gpu: no GPU events were recorded"
    ]


def test_a_late_device_of_a_profile_of_jax_leads_to_its_host() -> None:
    core = load_core(simulate_xla(devices=2, batch=2, tokens=64, width=128, heads=4, vocabulary=512).profile)
    found = [overview_line(core, name) for name in ("a", "b")]
    assert late_trace(found, lateness_of(found)) is None
    assert not any("rank" in note for note in overview(found, lateness_of(found)).notes)  # nothing is known of devices
    ranks = TraceSet.of({"a": core, "b": core}).by_device()
    assert [one.name for one in ranks] == ["a-device0", "a-device1", "b-device0", "b-device1"]
    assert any("no rank is" in note for note in overview(found, lateness_of(found, ranks)).notes)
