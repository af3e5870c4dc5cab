"""The verdict: planted problems are found and nothing else is, facts are those of the tables, commands run."""

from __future__ import annotations

import json
import math
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import HOSTILE, span
from hypothesis import given
from made_traces import traces
from typer.testing import CliRunner

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.idle.idle import Cause, idle_causes
from tracelens_graph.analyses.report.verdict import TOPICS, Finding, verdict
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.cli.app import app
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.loading import load_core
from tracelens_graph.simulate import PROBLEMS, simulate

SEEDS = (0, 1)


@cache
def simulated(problem: str | None, seed: int, stacks: bool) -> list[Core]:
    run = simulate(problem=problem, seed=seed, python_stacks=stacks)
    return [load_core(rank.trace) for rank in run.ranks]


def losses(g: Core | Window) -> dict[str, Finding]:
    """Findings about lost time, the greatest first."""
    return {finding.topic: finding for finding in verdict(g) if finding.severity != "fact"}


def finding(g: Core | Window, topic: str) -> Finding:
    return next(found for found in verdict(g) if found.topic == topic)


# -- planted problems -----------------------------------------------------------------------------------------

EXPECTED: dict[str | None, list[list[str]]] = {
    None: [[]],
    "data_loader": [["data_loader"]],
    "host_to_device_copy": [["host_to_device_copy"]],
    "synchronization": [["synchronization", "python"]],  # the simulated log is written while the GPU is idle
    "tiny_launches": [["launches"]],
    "python_bound": [["python"]],
    "exposed_communication": [["exposed_communication"], ["exposed_communication"]],
    "late_rank": [["exposed_communication"], ["data_loader"]],
}
"""Planted problem -> per rank the topics of what was lost, the greatest first."""

UNSEEN = {"python": "unknown"}
"""What cannot be told without Python stacks, and what is said instead."""


def test_every_problem_is_expected() -> None:
    assert EXPECTED.keys() - {None} == PROBLEMS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("stacks", [True, False], ids=["stacks", "no stacks"])
@pytest.mark.parametrize("problem", EXPECTED)
def test_the_planted_problem_is_found_and_no_other(problem: str | None, stacks: bool, seed: int) -> None:
    found = [list(losses(core)) for core in simulated(problem, seed, stacks)]
    expected = EXPECTED[problem]
    assert found == (expected if stacks else [[UNSEEN.get(topic, topic) for topic in topics] for topics in expected])


@pytest.mark.slow
@pytest.mark.parametrize("recompute", ["non_reentrant", "reentrant"])
def test_healthy_runs_of_other_kinds_have_nothing_to_say(recompute: str) -> None:
    for rank in simulate(recompute=recompute, seed=4, cuda_sync=True, layers=3).ranks:
        assert losses(load_core(rank.trace)) == {}


@pytest.mark.slow
def test_the_evidence_of_planted_problems() -> None:
    (loader,) = simulated("data_loader", 0, True)
    found = losses(loader)["data_loader"]
    assert found.severity == "major"
    assert found.evidence["gaps"] == 2  # three steps have two waits between them
    assert 9 < float(found.evidence["longest_ms"]) < 12  # of 12 ms of waiting the GPU worked for some
    assert found.evidence["because"] == "torch/utils/data/dataloader.py(733): __next__"
    assert loader.node(int(found.evidence["uid"])).name == found.evidence["because"]

    (copies,) = simulated("host_to_device_copy", 0, True)
    found = losses(copies)["host_to_device_copy"]
    assert found.evidence["copies"] == 9
    assert found.evidence["gb_per_s"] == pytest.approx(9, rel=0.01)
    assert found.evidence["pageable_percent"] == 100
    assert copies.node(int(found.evidence["uid"])).name == "Memcpy HtoD (Pageable -> Device)"
    assert "in 9 copies, 768.2 MB at 9.0 GB/s, all pageable" in found.text

    (synchronized,) = simulated("synchronization", 0, True)
    found = losses(synchronized)["synchronization"]
    assert "Synchronize" in str(found.evidence["because"])

    (tiny,) = simulated("tiny_launches", 0, True)
    found = losses(tiny)["launches"]
    assert int(found.evidence["short_gpu_events"]) >= 3 * 400
    assert float(found.evidence["between_queued_ms"]) > float(found.evidence["host_ms"])

    (python,) = simulated("python_bound", 0, True)
    assert losses(python)["python"].evidence["because"] == "torch/nn/modules/module.py(1791): _call_impl"
    (python,) = simulated("python_bound", 0, False)
    found = losses(python)["unknown"]
    assert found.evidence["not_recorded_ms"] == found.evidence["ms"]
    assert "no Python stacks" in found.text

    slow, _ = simulated("exposed_communication", 0, True)
    found = losses(slow)["exposed_communication"]
    assert slow.node(int(found.evidence["uid"])).dur_ns == round(float(found.evidence["longest_ms"]) * 1e6)


# -- facts ----------------------------------------------------------------------------------------------------


def gpu(
    ts: float, dur: float, correlation: int, name: str = "gemm", cat: str = "kernel", **args: Any
) -> dict[str, Any]:
    place = {"device": 0, "stream": 7} | args
    return span(cat, name, ts, dur, place["device"], place["stream"], **place, correlation=correlation)


def call(ts: float, correlation: int, name: str = "cudaLaunchKernel", dur: float = 2) -> dict[str, Any]:
    return span("cuda_runtime", name, ts, dur, correlation=correlation)


def test_facts_of_a_small_trace() -> None:
    core = load_core([
        span("cpu_op", "aten::mm", 0, 10), call(1, 1), gpu(5, 60, 1),
        span("cpu_op", "aten::mm", 20, 10), call(21, 2), gpu(66, 24, 2),
        span("cpu_op", "aten::add", 40, 10), call(41, 3), gpu(91, 9, 3, "add"), gpu(101, 4, 99, "lone"),
    ])  # fmt: skip
    texts = [found.text for found in verdict(core)]
    assert texts == [
        "The GPU was busy for 97.0 % of 100 us and idle for 3.0 % (3 us)",
        "Of its time: computation 97.0 %, exposed communication 0.0 %, exposed copies 0.0 %, idle 3.0 %",
        "Without a launch in the trace, so charged to nobody: 4.1 % of the GPU time (1 of 4 GPU events)",
        "Largest op: aten::mm, 86.6 % of the GPU time (84 us in 2 calls)",
        "Largest kernel: gemm, 86.6 % of the GPU time (84 us in 2 runs)",
    ]
    assert finding(core, "largest_op").evidence == {
        "name": "aten::mm", "ms": 0.084, "percent_of_gpu_time": 100 * 84 / 97, "count": 2, "uid": 0,
    }  # fmt: skip
    assert finding(core, "largest_kernel").evidence["uid"] == 2
    assert finding(core, "unlinked").evidence["unlinked"] == 1


def test_the_greatest_loss_comes_first_and_severity_follows_the_share() -> None:
    core = load_core([
        span("python_function", "train.py(1): f", 0, 500), call(1, 1), gpu(5, 95, 1), call(130, 2), gpu(130, 100, 2),
        call(240, 3, "cudaMalloc", 60), call(300, 4), gpu(302, 98, 4),
    ])  # fmt: skip
    assert [(topic, found.severity, found.evidence["ms"]) for topic, found in losses(core).items()] == [
        ("allocation", "minor", 0.06), ("python", "minor", 0.04),
    ]  # fmt: skip
    assert losses(core.window(after_ns=230_000 - 100_000))["allocation"].severity == "major"


def test_copies_that_do_not_go_to_the_device() -> None:
    copy = gpu(85, 20, 2, "Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", bytes=200_000)
    core = load_core([call(0, 1), gpu(5, 80, 1), call(2, 2), copy])
    found = losses(core)["other_copies"]
    assert found.evidence["ms"] == 0.02
    assert found.evidence["gb_per_s"] == 10
    assert found.text == "Copied otherwise with nothing beside it: 20.0 % (20 us) in 1 copy, 0.2 MB at 10.0 GB/s"


def test_a_wait_for_copies_that_the_window_does_not_hold() -> None:
    copy = gpu(110, 50, 2, "Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", stream=8)
    core = load_core(
        [call(0, 1), gpu(5, 95, 1), call(101, 2, "cudaMemcpyAsync", 99), copy, call(200, 3), gpu(205, 5, 3)]
    )
    found = losses(core.window(stream=7))
    assert [(topic, one.evidence["ms"]) for topic, one in found.items()] == [
        ("outside", 0.05), ("host_to_device_copy", 0.049),
    ]  # fmt: skip
    assert found["host_to_device_copy"].evidence["because"] == "cudaMemcpyAsync"
    together = losses(core)["host_to_device_copy"]
    assert (together.evidence["exposed_ms"], together.evidence["idle_ms"]) == (0.05, 0.049)
    assert together.text == (
        "Copied from host to device with nothing beside it: 48.3 % (50 us, and 49 us idle for it) in 1 copy,"
        " all pageable"
    )


def test_a_long_step_is_named_with_the_report_of_it() -> None:
    lengths = [100, 90, 110, 200]
    steps = [span("user_annotation", f"ProfilerStep#{n}", 1000 * n, dur) for n, dur in enumerate(lengths)]
    core = load_core([*steps, call(1, 1), gpu(5, 95, 1)])
    found = finding(core, "long_step")
    assert found.text == "ProfilerStep#3 took 200 us, the median of 4 steps 105 us"
    assert found.ask_next == "tracelens-graph report TRACE --step 3"
    assert "long_step" not in [found.topic for found in verdict(load_core([*steps[:3], call(1, 1), gpu(5, 95, 1)]))]


def test_a_window_is_named_and_judged_alone() -> None:
    (core,) = simulated("data_loader", 0, True)
    assert "(step 4)" in finding(core.window(step=4), "busy").text
    # The wait for a batch lies before the first kernel of a step: no window of one step has it.
    assert "data_loader" not in losses(core.window(step=4))
    assert "data_loader" in losses(core.window(step=range(3, 5)))


def test_work_of_others_between_that_of_a_window() -> None:
    core = load_core([
        span("user_annotation", "ProfilerStep#1", 0, 90), span("user_annotation", "ProfilerStep#2", 90, 90),
        call(1, 1), gpu(5, 40, 1), call(50, 2), gpu(200, 100, 2), call(100, 3), gpu(45, 155, 3),
    ])  # fmt: skip
    found = losses(core.window(step=1))
    assert list(found) == ["outside"]
    assert found["outside"].evidence["ms"] == 0.155


def test_several_devices_are_added_up() -> None:
    core = load_core(
        [call(0, 1), gpu(5, 95, 1), call(2, 2), gpu(5, 40, 2, device=1), call(4, 3), gpu(55, 10, 3, device=1)]
    )
    found = finding(core, "busy")
    assert found.text == "2 GPUs, taken together, were busy for 93.5 % of 155 us and idle for 6.5 % (10 us)"
    assert losses(core)["launches"].evidence["percent"] == pytest.approx(100 * 10 / 155)


# -- nothing to go by -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("events", [[], [span("cpu_op", "aten::add", 0, 5)]], ids=["no events", "CPU only"])
def test_without_gpu_events(events: list[dict[str, Any]]) -> None:
    (only,) = verdict(load_core(events))
    assert only.text == "The trace has no GPU events: nothing can be said about a GPU"


def test_without_a_host_idle_time_has_no_known_cause() -> None:
    core = load_core([gpu(0, 10, 1), gpu(40, 10, 2)])
    found = losses(core)
    assert list(found) == ["unknown"]
    assert found["unknown"].evidence["percent"] == 60
    assert "the launch of what came next is not in the trace (30 us)" in found["unknown"].text
    assert "largest_op" not in [finding.topic for finding in verdict(core)]


def test_one_empty_kernel() -> None:
    assert [found.topic for found in verdict(load_core([gpu(5, 0, 1)]))] == [
        "busy",
        "time",
        "unlinked",
        "largest_kernel",
    ]


def test_names_are_cut_in_texts_and_whole_in_the_evidence() -> None:
    name = HOSTILE * 10_000
    found = finding(load_core([gpu(5, 10, 1, name)]), "largest_kernel")
    assert len(found.text) < 200
    assert found.evidence["name"] == name


# -- what holds everywhere ------------------------------------------------------------------------------------


def check(g: Core) -> None:
    """Topics are known, evidence is finite and can be written as JSON, losses are sorted and those of the tables."""
    found = verdict(g)
    topics = [one.topic for one in found]
    assert len(topics) == len(set(topics))
    assert set(topics) <= TOPICS.keys()
    for one in found:
        assert json.loads(json.dumps(one.evidence)) == one.evidence
        assert all(math.isfinite(value) for value in one.evidence.values() if isinstance(value, float))
        assert one.ask_next.startswith("tracelens-graph ")
    shares = [float(one.evidence["percent"]) for one in found if one.severity != "fact"]
    assert shares == sorted(shares, reverse=True)
    timeline = gpu_timeline(g)
    if topics[0] == "busy" and found[0].evidence.get("devices") == 1:
        times = dict(zip(timeline["type"], np.asarray(timeline["time ms"]).tolist(), strict=True))
        assert found[0].evidence["idle_ms"] == times["idle_time"]
        assert found[1].evidence["computation_ms"] == times["computation_time"]
    causes = {Cause[row["cause"]]: row["idle_ms"] for row in idle_causes(g).records()}
    for one in found:
        if one.topic in ("data_loader", "synchronization", "python", "allocation", "profiler", "outside"):
            assert one.evidence["ms"] == causes[Cause[one.topic]]
        if one.topic == "launches":
            assert one.evidence["ms"] == pytest.approx(causes.get(Cause.launches, 0) + causes.get(Cause.queued, 0))


@given(traces())
def test_made_traces(trace: dict[str, Any]) -> None:
    check(load_core(trace))


@parametrize("path", chosen_traces())
def test_real_traces(path: Path) -> None:
    check(loaded(path))


@pytest.mark.slow
@pytest.mark.parametrize("problem", EXPECTED)
def test_every_command_runs(problem: str | None, tmp_path: Path) -> None:
    run = simulate(problem=problem, seed=5, unlaunched=2)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(run.ranks[0].trace))
    core = load_core(path)
    for found in verdict(core):
        command = [str(path) if word == "TRACE" else word for word in shlex.split(found.ask_next)]
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, (found.ask_next, result.output)
        assert result.stdout


def test_work_replayed_outside_of_ops_is_named() -> None:
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": 0, "dur": 2,
              "args": {"correlation": 1}}  # fmt: skip
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5, "dur": 9,
              "args": {"correlation": 1, "device": 0, "stream": 7}}  # fmt: skip
    found = finding(load_core([launch, kernel]), "outside_ops")
    assert found.text == "Largest launch outside of ops: cudaGraphLaunch, 100.0 % of the GPU time (9 us in 1 call)"
    assert found.evidence["uid"] == 0
