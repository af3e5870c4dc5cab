"""Simulated servers: their truth agrees with what they wrote, and is what the settings ask for."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from simulate.jobs import GPU, of, parents, span

from tracelens_graph.simulate.__main__ import main
from tracelens_graph.simulate.serving import RankTrace, Run, simulate, write

SETTINGS: list[dict[str, Any]] = [
    {},
    {"engine": "sglang", "platform": "rocm", "experts": 8},
    {"capture": "piecewise", "streams": 3, "node_ids": True},
    {"capture": "none", "annotations": "native"},
    {"lost": 0.02, "platform": "rocm", "streams": 2, "culprit": "detokenise"},
]


@pytest.fixture(scope="module", params=range(len(SETTINGS)), ids=lambda number: str(SETTINGS[number]))
def run(request: pytest.FixtureRequest) -> Run:
    return simulate(steps=24, layers=2, requests=5, arrivals=0.3, sizes=(4, 8, 16), **SETTINGS[request.param])


def gpu_events(rank: RankTrace) -> dict[int, dict[str, Any]]:
    return of(rank.trace, *GPU)


def test_the_times_of_iterations_are_those_of_the_trace(run: Run) -> None:
    rank = run.ranks[0]
    truth, work = rank.truth, gpu_events(rank)
    step_of = dict(zip(truth["gpu_events"]["uid"], truth["gpu_events"]["step"], strict=True))
    by_step = defaultdict(list)
    for uid, event in work.items():
        by_step[step_of[uid]].append(span(event))
    iterations = truth["iterations"]
    for number, events, total, length in zip(
        *(iterations[name] for name in ("iteration", "gpu_events", "gpu_sum_ns", "gpu_span_ns")), strict=True
    ):
        spans = by_step[number]
        assert events == len(spans)
        assert total == sum(end - start for start, end in spans)
        assert length == max(end for _, end in spans) - min(start for start, _ in spans)
    for number in iterations["iteration"][1:]:
        start, before = min(start for start, _ in by_step[number]), max(end for _, end in by_step[number - 1])
        assert iterations["gap_ns"][number] == start - before
        assert sum(iterations["gap_parts"][number].values()) <= start - before


def test_calls_nest(run: Run) -> None:
    rank = run.ranks[0]
    for trace in (rank.trace, *rank.captures.values()):
        parents(of(trace, "cpu_op", "python_function", "cuda_runtime", "cuda_driver"))


def test_a_replay_runs_the_nodes_of_its_graph(run: Run) -> None:
    rank = run.ranks[0]
    work, graphs = gpu_events(rank), rank.truth["graphs"]
    replayed = set()
    for replay in rank.truth["replays"]:
        call = rank.trace["traceEvents"][replay["launch"]]
        assert call["name"].endswith("GraphLaunch")
        nodes = graphs[replay["graph"]]["nodes"]
        for uid, name in zip(replay["kernels"], nodes["kernel"], strict=True):
            if uid is not None:
                assert work[uid]["name"] == name
                assert work[uid]["args"]["correlation"] == call["args"]["correlation"]
                replayed.add(uid)
    launches = {e["args"]["correlation"] for e in rank.trace["traceEvents"] if e["name"].endswith("GraphLaunch")}
    assert replayed == {uid for uid, event in work.items() if event["args"]["correlation"] in launches}
    lost = sum(replay["kernels"].count(None) for replay in rank.truth["replays"])
    assert bool(lost) == bool(run.options.lost)


def test_a_capture_has_the_calls_of_its_nodes(run: Run) -> None:
    rank = run.ranks[0]
    by_file = defaultdict(list)
    for graph in rank.truth["graphs"]:
        by_file[graph["file"]] += zip(*graph["nodes"].values(), strict=True)
    assert by_file.keys() == rank.captures.keys()
    for file, nodes in by_file.items():
        events = rank.captures[file]["traceEvents"]
        above = parents(of(rank.captures[file], "cpu_op", "python_function", "cuda_runtime", "cuda_driver"))
        ran = {e["args"]["correlation"] for e in events if e.get("cat") in GPU}
        for call, kernel, _, op, op_uid, dims, modules, _ in nodes:
            assert events[call]["args"]["correlation"] not in ran
            assert events[call]["args"].get("kernel") == (kernel if run.options.platform == "rocm" else None)
            assert above[call] == op_uid
            assert (events[op_uid]["name"], events[op_uid]["args"]["Input Dims"]) == (op, dims)
            assert modules[0] == "nn.Module: LlamaModel_0"
        # no other call launches, but for those that ran
        calls = [e for e in events if e.get("cat", "").startswith("cuda_") and "Launch" in e["name"]]
        assert len(calls) == len(nodes) + sum(e["args"]["correlation"] in ran for e in calls)


def test_times_follow_the_cost(run: Run) -> None:
    it, cost = run.ranks[0].truth["iterations"], run.ranks[0].truth["cost"]
    rows = np.array(it["context_tokens"]) + it["generation_requests"] + it["padding"]
    expected = cost["fixed_ns"] + cost["row_ns"] * rows + cost["request_ns"] * np.array(it["requests"])
    expected += cost["key_ns"] * np.array(it["keys"])
    ratio = np.array(it["gpu_sum_ns"]) / expected
    assert np.all(ratio < 1.03)
    if not run.options.lost:  # lost kernels take their time along
        assert np.all(ratio > 0.97)


@pytest.mark.parametrize("culprit", ["scheduler", "sampling", "detokenise"])
def test_a_planted_culprit_is_the_cause_of_its_gaps(culprit: str) -> None:
    it = simulate(steps=12, layers=1, culprit=culprit).ranks[0].truth["iterations"]
    planted = [cause for cause, name in zip(it["gap_cause"], it["planted"], strict=True) if name]
    assert planted
    assert set(planted) == {culprit}


def test_the_same_arguments_give_the_same_bytes(tmp_path: Any) -> None:
    for folder in ("a", "b"):
        assert main([str(tmp_path / folder), "--serving", "--steps", "3", "--sizes", "16", "--lost", "0.1"]) == 0
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert [(tmp_path / "a" / one).read_bytes() for one in files] == [
        (tmp_path / "b" / one).read_bytes() for one in files
    ]
    details = json.loads((tmp_path / "a/capture/execution_details.json").read_text())
    assert details == [{"file": details[0]["file"], "batch_size": 16, "mode": "FULL"}]
    assert (tmp_path / "a/capture" / details[0]["file"]).is_file()


def test_ranks_and_folders(tmp_path: Any) -> None:
    run = simulate(steps=2, layers=1, ranks=2, sizes=(16,), details=False)
    files = write(run, tmp_path, traces_only=True)
    assert [file.name for file in files] == ["rank0.json.gz", "rank1.json.gz"]
    assert len(list((tmp_path / "capture").iterdir())) == 2


@pytest.mark.parametrize(
    "settings",
    [{"engine": "tgi"}, {"sizes": ()}, {"requests": 99}, {"streams": 4}, {"lost": 1.0}, {"width": 2050}, {"steps": 0}],
)
def test_senseless_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        simulate(**settings)
