"""Traces of simulated servers, joined with their captures, hold what is true of each replayed kernel."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from simulate.served import outcomes

from tracelens_graph import load
from tracelens_graph.analyses.ops.ops import ops_unique_args
from tracelens_graph.errors import IncompleteSetWarning
from tracelens_graph.graph.graph import Graph
from tracelens_graph.simulate.serving import RankTrace, simulate, write

SERVERS: list[dict[str, Any]] = [
    {},
    {"platform": "rocm", "engine": "sglang", "experts": 8},
    {"platform": "rocm", "annotations": "native", "python_stacks": False},
    {"capture": "piecewise", "details": False},
    {"capture": "piecewise", "platform": "rocm"},
    {"streams": 3},
    {"streams": 2, "platform": "rocm"},
    {"ranks": 2, "experts": 4},
]


def joined(folder: Path, **settings: Any) -> tuple[Graph, RankTrace]:
    """The trace of a simulated server, joined with its captures, and what the server left."""
    run = simulate(**settings)
    write(run, folder, traces_only=True)
    return load(folder / "rank0.json.gz", capture=folder / "capture"), run.ranks[0]


def silently_wrong(g: Graph, truth: dict[str, Any], wrong: list[int]) -> list[int]:
    """Kernels with a wrong op that no count of the outcome of their graph covers."""
    launch_of = {uid: replay["launch"] for replay in truth["replays"] for uid in replay["kernels"]}
    left = list(wrong)
    for entry in g.info.replays:
        covered = [uid for uid in left if launch_of[uid] in entry.launches]
        for uid in covered[: entry.doubtful + entry.implausible]:
            left.remove(uid)
    return left


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("settings", SERVERS, ids=str)
def test_every_kernel_is_joined(tmp_path: Path, seed: int, settings: dict[str, Any]) -> None:
    g, rank = joined(tmp_path, seed=seed, steps=20, **settings)
    found = outcomes(g, rank.truth)
    assert len(found["right"]) > 500
    assert not found["wrong"]
    assert not found["unjoined"]
    assert all(entry.joined == entry.gpu_events for entry in g.info.replays)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("settings", SERVERS, ids=str)
def test_few_are_wrong_where_kernels_were_lost_and_none_in_silence(
    tmp_path: Path, seed: int, settings: dict[str, Any]
) -> None:
    g, rank = joined(tmp_path, seed=seed, steps=30, lost=0.01, **settings)
    found = outcomes(g, rank.truth)
    assert len(found["right"]) >= 0.999 * sum(map(len, found.values()))
    assert not silently_wrong(g, rank.truth, found["wrong"])
    lost = sum(replay["kernels"].count(None) for replay in rank.truth["replays"])
    assert sum(entry.lost for entry in g.info.replays) == lost > 0
    assert sum(entry.extra for entry in g.info.replays) == 0


def test_a_single_replay_with_lost_kernels_and_no_names(tmp_path: Path) -> None:
    g, rank = joined(tmp_path, seed=3, steps=1, layers=40, lost=0.02, arrivals=0)
    found = outcomes(g, rank.truth)
    assert None in rank.truth["replays"][0]["kernels"]
    assert len(found["right"]) >= 0.999 * sum(map(len, found.values()))
    assert not silently_wrong(g, rank.truth, found["wrong"])


# --- captures that are of something else -------------------------------------------------------------------------


def taken_from(other: dict[str, Any], folder: Path, platform: str) -> tuple[Graph, dict[str, Any]]:
    """A server's trace joined with the captures of another one."""
    run = simulate(seed=1, steps=10, platform=platform)
    write(run, folder / "server", traces_only=True)
    write(simulate(seed=1, steps=1, platform=platform, **other), folder / "other", traces_only=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*none of its replayed graphs", IncompleteSetWarning)
        return load(folder / "server/rank0.json.gz", capture=folder / "other/capture"), run.ranks[0].truth


@pytest.mark.parametrize("platform", ["nvidia", "rocm"])
@pytest.mark.parametrize("other", [{"experts": 8}, {"layers": 9}, {"sizes": (1, 2, 4)}], ids=str)
def test_captures_of_another_model_or_smaller_batches_join_nothing_wrong(
    tmp_path: Path, platform: str, other: dict[str, Any]
) -> None:
    if "sizes" in other:
        other = {**other, "requests": 4}
    g, truth = taken_from(other, tmp_path, platform)
    found = outcomes(g, truth)
    assert not silently_wrong(g, truth, found["wrong"])
    if "sizes" in other:
        assert not found["right"]
        assert [entry.note for entry in g.info.replays] == ["captured for batches of up to 4, replayed for up to 12"]
    # A replay of fewer layers is one whose end was lost, as far as names go: what is missing is counted.
    if found["right"]:
        assert sum(entry.lost for entry in g.info.replays) > len(found["right"])


@pytest.mark.parametrize("details", [True, False])
def test_a_damaged_capture_does_not_hinder_the_others(tmp_path: Path, details: bool) -> None:
    run = simulate(seed=2, steps=20, details=details)
    write(run, tmp_path, traces_only=True)
    used = {run.ranks[0].truth["graphs"][replay["graph"]]["file"] for replay in run.ranks[0].truth["replays"]}
    for file in (tmp_path / "capture").glob("*.gz"):
        if file.name not in used:
            file.write_bytes(file.read_bytes()[:200])
    # Where details say which captures are of other sizes, these are not read.
    with nullcontext() if details else pytest.warns(IncompleteSetWarning, match="left out of the captures"):
        g = load(tmp_path / "rank0.json.gz", capture=tmp_path / "capture")
    found = outcomes(g, run.ranks[0].truth)
    assert found["right"]
    assert not found["wrong"] + found["unjoined"]


def test_replays_that_run_alike_in_another_order_are_each_looked_at(tmp_path: Path) -> None:
    # One replay lacks the write of the cache of the first layer, another that of the second, on a stream of its own.
    settings = {"engine": "sglang", "experts": 8, "layers": 2, "steps": 15, "arrivals": 0, "streams": 3}
    g, rank = joined(tmp_path, seed=70253, platform="rocm", annotations="native", lost=0.01, **settings)
    assert not outcomes(g, rank.truth)["wrong"]


# --- replays of one size that differ -----------------------------------------------------------------------------


Events = list[dict[str, Any]]


def changed_and_joined(
    folder: Path, change: Callable[[Events, list[Events]], Events], **settings: Any
) -> tuple[Graph, dict[str, Any]]:
    """A server's trace, joined after a change of its events, and of its replays by kernel; the change says which go."""
    run = simulate(**{"steps": 15, "layers": 4, "sizes": (16,), **settings})
    write(run, folder, traces_only=True)
    trace = json.loads(gzip.decompress((folder / "rank0.json.gz").read_bytes()))
    events: Events = trace["traceEvents"]
    replays: dict[int, Events] = {one["args"]["correlation"]: [] for one in events if "GraphLaunch" in one["name"]}
    for one in sorted(events, key=lambda event: float(event.get("ts", 0))):
        if one.get("cat") == "kernel" and one["args"]["correlation"] in replays:
            replays[one["args"]["correlation"]].append(one)
    gone = {id(one) for one in change(events, list(replays.values()))}
    trace["traceEvents"] = [one for one in events if id(one) not in gone]
    (folder / "rank0.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    return load(folder / "rank0.json.gz", capture=folder / "capture"), run.ranks[0].truth


@pytest.mark.parametrize("platform", ["nvidia", "rocm"])
def test_streams_that_interleave_in_another_way_are_joined_all_the_same(tmp_path: Path, platform: str) -> None:
    def later(_: Events, replays: list[Events]) -> Events:
        for one in (one for kernels in replays[::2] for one in kernels if one["args"]["stream"] != 7):
            one["ts"] = round(one["ts"] + 3, 3)
        return []

    g, truth = changed_and_joined(tmp_path, later, platform=platform, streams=3, seed=87)
    found = outcomes(g, truth)
    assert len(found["right"]) > 500
    assert not found["wrong"] + found["unjoined"]


@pytest.mark.parametrize("platform", ["nvidia", "rocm"])
def test_replays_of_a_graph_that_was_not_captured_are_joined_with_nothing(tmp_path: Path, platform: str) -> None:
    def draft(_: Events, replays: list[Events]) -> Events:
        return [one for kernels in replays[1::2] for one in kernels[15:-2]]  # first layer, end

    g, _ = changed_and_joined(tmp_path, draft, platform=platform, seed=4)
    target, drafts = g.info.replays
    assert target.joined == target.gpu_events == target.calls * len(target.launches)
    assert drafts.gpu_events == 17 * len(drafts.launches) > 0
    assert (drafts.file, drafts.joined) == ("", 0)


@pytest.mark.parametrize("place", [5, 8, 11])
def test_an_odd_replay_spoils_no_other(tmp_path: Path, place: int) -> None:
    def swapped(_: Events, replays: list[Events]) -> Events:
        one, two = replays[0][place : place + 2]
        one["name"], two["name"] = two["name"], one["name"]
        return []

    g, truth = changed_and_joined(tmp_path, swapped, seed=4)
    found = outcomes(g, {**truth, "replays": truth["replays"][1:]})
    assert len(found["right"]) > 500
    assert not found["wrong"] + found["unjoined"]


# --- which of several sizes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("platform", ["nvidia", "rocm"])
def test_ops_behind_a_launch_say_the_size_where_no_annotation_does(tmp_path: Path, platform: str, engine: str) -> None:
    settings = {"sizes": (8, 16, 32), "annotations": "none", "details": False, "steps": 25, "seed": 12}
    g, rank = joined(tmp_path, platform=platform, engine=engine, **settings)
    found = outcomes(g, rank.truth)
    assert len(found["right"]) > 500
    assert not found["wrong"] + found["unjoined"]
    assert all("no annotation gives the batch size" in entry.note for entry in g.info.replays)


def test_captures_that_fit_equally_are_named_wherever_shapes_are_shown(tmp_path: Path) -> None:
    def without_ops(events: Events, _: list[Events]) -> Events:
        return [one for one in events if one.get("cat") == "cpu_op"]

    g, _ = changed_and_joined(tmp_path, without_ops, sizes=(8, 16), annotations="none", seed=4)
    (entry,) = g.info.replays
    assert (entry.others, [entry.batch_size, *entry.other_sizes]) == (1, [8, 16])
    text = "shapes are those of batch 8; captures of batch 16 fit as well"
    assert text in entry.what
    assert text in ops_unique_args(g).title


def test_graphs_that_another_thread_launches_have_the_size_of_the_step_around(tmp_path: Path) -> None:
    def on_other_threads(events: Events, _: list[Events]) -> Events:
        launches = [one for one in events if "GraphLaunch" in one["name"]]
        for number, one in enumerate(launches):
            one["tid"] = int(one["tid"]) + 1000 * (number % 3)
        return []

    g, truth = changed_and_joined(tmp_path, on_other_threads, sizes=(8, 16), platform="rocm", seed=4)
    found = outcomes(g, truth)
    assert len(found["right"]) > 500
    assert not found["wrong"] + found["unjoined"]


def test_kernels_that_cannot_be_the_work_of_their_captured_op_are_counted(tmp_path: Path) -> None:
    run = simulate(steps=8, platform="rocm", seed=4)
    write(run, tmp_path, traces_only=True)
    for file in (tmp_path / "capture").glob("*.gz"):
        trace = json.loads(gzip.decompress(file.read_bytes()))
        calls = [one["args"] for one in trace["traceEvents"] if "kernel" in one.get("args", {})]
        gemm = next(one for one in calls if one["kernel"].startswith("Cijk"))
        norm = next(one for one in calls if "rmsnorm" in one["kernel"])
        gemm["kernel"], norm["kernel"] = norm["kernel"], gemm["kernel"]
        file.write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    g = load(tmp_path / "rank0.json.gz", capture=tmp_path / "capture")
    assert all(entry.implausible >= len(entry.launches) for entry in g.info.replays)
    assert "cannot be the work of the ops" in g.info.replays[0].what
