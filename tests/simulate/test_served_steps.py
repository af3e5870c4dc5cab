"""Tables of a server's steps say of simulated servers what is true of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tracelens_graph import idle_causes, idle_gaps, iterations, load, phases, step_costs
from tracelens_graph.analyses.alignment.compared_steps import median_steps
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.tables import totals_table
from tracelens_graph.analyses.alignment.times import time_parts
from tracelens_graph.analyses.diagnosis.server import host_parts_between
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.analyses.serving.compared import phases_table
from tracelens_graph.analyses.serving.iterations import served_in
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.window import window_of
from tracelens_graph.simulate.serving import RankTrace, simulate, write

PHASES = {"decode_only": "decode", "prefill_only": "prefill", "prefilldecode": "mixed"}
SERVERS: list[dict[str, Any]] = [
    {},
    {"platform": "rocm", "annotations": "native"},
    {"capture": "piecewise"},
    {"engine": "sglang"},
    {"engine": "sglang", "platform": "rocm", "experts": 4},
]


def served(folder: Path, **settings: Any) -> tuple[Graph, RankTrace]:
    """The trace of a simulated server, joined with its captures, and what the server left."""
    run = simulate(**settings)
    write(run, folder, traces_only=True)
    return load(folder / "rank0.json.gz", capture=folder / "capture"), run.ranks[0]


@pytest.mark.parametrize("settings", SERVERS, ids=str)
def test_iterations_are_those_that_were(tmp_path: Path, settings: dict[str, Any]) -> None:
    g, rank = served(tmp_path, seed=1, steps=40, layers=2, arrivals=0.3, **settings)
    true = rank.truth["iterations"]
    rows = [row for row in iterations(g).records() if row["iteration"] is not None]
    for name, of in [
        ("iteration", "iteration"), ("uid", "annotation"), ("requests", "requests"),
        ("context_requests", "context_requests"), ("context_tokens", "context_tokens"),
        ("generation_requests", "generation_requests"),
    ]:  # fmt: skip
        assert [row[name] for row in rows] == true[of], name
    assert [row["phase"] for row in rows] == [PHASES[phase] for phase in true["phase"]]
    replayed = [(row, at) for at, row in enumerate(rows) if true["captured_size"][at]]
    assert len(replayed) > 10
    for row, at in replayed:
        assert (row["captured"], row["padding"]) == (true["captured_size"][at], true["padding"][at])
    if settings.get("annotations") != "native":
        assert [row["keys"] for row in rows] == true["keys"]
    for row, gap in list(zip(rows, true["gap_ns"], strict=True))[1:]:
        assert row["gap_ms"] == pytest.approx(gap / 1e6, abs=2e-6)
    if settings.get("engine") != "sglang":  # whose annotation leaves out the sampling
        for row, total, events in zip(rows, true["gpu_sum_ns"], true["gpu_events"], strict=True):
            assert row["gpu_sum_ms"] == pytest.approx(total / 1e6, abs=1e-6)
            assert row["gpu_events"] == events


def test_phases_sum_iterations_up(tmp_path: Path) -> None:
    g, rank = served(tmp_path, seed=2, steps=40, layers=2, arrivals=0.3)
    true = rank.truth["iterations"]
    for row in phases(g).records():
        own = [at for at, phase in enumerate(true["phase"]) if PHASES[phase] == row["phase"]]
        assert row["iterations"] == len(own)
        assert row["gpu_sum_ms"] == pytest.approx(sum(true["gpu_sum_ns"][at] for at in own) / 1e6)
        assert row["requests"] == pytest.approx(sum(true["requests"][at] for at in own) / len(own))


@pytest.mark.parametrize("seed", range(3))
def test_costs_are_those_of_the_simulator(tmp_path: Path, seed: int) -> None:
    # With a small vocabulary what a request costs besides its tokens and keys is next to nothing.
    g, rank = served(tmp_path, seed=seed, steps=200, layers=3, arrivals=0.3, output=60, vocabulary=512)
    true = rank.truth["cost"]
    names = {"fixed": "fixed_ns", "context token": "row_ns", "generation token": "row_ns", "key": "key_ns"}
    found = [row for row in step_costs(g).records() if row["phase"] in ("decode", "all") and row["term"] in names]
    assert {row["term"] for row in found} == {*names}
    for row in found:
        assert abs(row["ns"] - true[names[row["term"]]]) < 4 * row["std_error"] + 0.02 * row["ns"], row


def test_costs_without_captures_are_those_with_them(tmp_path: Path) -> None:
    """Two captured sizes, 8 and 32, look like a steep line where empty places do not count."""
    g, rank = served(tmp_path, seed=7, steps=40, layers=2, arrivals=0.1, sizes=(8, 32))
    alone = load(tmp_path / "rank0.json.gz")
    true = rank.truth["cost"]
    found, joined = ({(row["phase"], row["term"]): row for row in step_costs(one).records()} for one in (alone, g))
    assert found == joined
    place, fixed = found["decode", "generation token"], found["decode", "fixed"]
    assert abs(place["ns"] - true["row_ns"]) < 4 * place["std_error"] < 0.5 * true["row_ns"]
    assert abs(fixed["ns"] - true["fixed_ns"]) < 4 * fixed["std_error"]


def test_costs_that_a_stair_hides_are_left_out(tmp_path: Path) -> None:
    run = simulate(seed=7, steps=40, layers=2, arrivals=0.1, sizes=(8, 32))
    for event in run.ranks[0].trace["traceEvents"]:
        event.get("args", {}).pop("grid", None)
    table = step_costs(load(run.ranks[0].trace))
    assert {row["term"] for row in table.records()} <= {"fixed", "context token"}
    assert not any(row["phase"] == "decode" for row in table.records())
    assert any("cannot be separated" in note for note in table.notes)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("culprit", ["scheduler", "sampling", "detokenise"])
def test_gaps_are_due_to_the_planted_culprit(tmp_path: Path, engine: str, culprit: str) -> None:
    g, rank = served(tmp_path, steps=20, layers=1, engine=engine, culprit=culprit)
    found = host_parts_between(served_in(g))
    assert found.leads == culprit
    true = rank.truth["iterations"]["gap_parts"]
    for part in ("scheduler", "sampling", "detokenise", "prepare"):
        total = sum(parts[part] for parts in true)
        assert found.ns[part] == pytest.approx(total, rel=0.02, abs=2000 * len(true))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_planted_culprit_is_the_same_in_all_tables(tmp_path: Path, engine: str) -> None:
    slow, _ = served(tmp_path / "slow", steps=20, layers=1, engine=engine, culprit="detokenise")
    quick, _ = served(tmp_path / "quick", steps=20, layers=1, engine=engine)
    first = idle_causes(slow).records()[0]
    assert (first["cause"], first["because"]) == ("detokenise", "plugins/detokenise_hook.py(31): run")
    assert idle_causes(slow.window(phase="decode")).records()[0]["cause"] == "detokenise"
    assert idle_gaps(slow).records()[0]["because"] == "plugins/detokenise_hook.py(31): run"
    table = phases_table(window_of(quick), window_of(slow), ("quick", "slow"))
    assert table is not None
    rows = [row for row in table.records() if row["phase"] == "decode"]
    assert all("detokenise_hook" in row["why"] for row in rows)
    sides = median_steps(window_of(quick), window_of(slow))
    parts = sorted(time_parts(Diff(*sides)), key=lambda part: -abs(part.change_ns))
    assert parts[0].cause is Cause.detokenise
    # Parts of the time add up to all of it, gaps before the steps included.
    totals = {row["time"]: row for row in totals_table(Diff(*sides)).records()}
    of_parts = sum(part.change_ns for part in parts if part.part != "around")
    assert of_parts / 1e6 == pytest.approx(totals["total_time"]["change_ms"], abs=1e-6)


def test_a_server_without_annotations_has_its_culprit_on_the_first_screen(tmp_path: Path) -> None:
    g, _ = served(tmp_path, steps=20, layers=1, annotations="none", culprit="scheduler")
    found = verdict(g.window())
    assert "for scheduling" in found[0].text
    assert any("scheduler_hook" in one.text for one in found[1:])
