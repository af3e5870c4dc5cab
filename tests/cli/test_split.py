"""split, and cut by iteration: each part holds what belongs to its iterations, and says what that is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from handmade import Run

from tracelens_graph.analyses.idle.idle import idle_parts
from tracelens_graph.analyses.serving.iterations import iterations
from tracelens_graph.analyses.serving.phases import phases
from tracelens_graph.graph.iterations import iterations_of, left_out_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate.serving import simulate


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("server") / "trace.json"
    path.write_text(json.dumps(simulate(steps=40).ranks[0].trace))
    return path


def test_phases_as_traces(run: Run, server: Path, tmp_path: Path) -> None:
    code, out, _ = run("split", server, "-o", tmp_path / "parts")
    assert code == 0
    assert "ui.perfetto.dev" in out
    whole = {row["phase"]: row for row in phases(load_core(server)).records()}
    details = json.loads((tmp_path / "parts" / "execution_details.json").read_text())
    assert {Path(one["output_path"]).name for one in details} == {f"{phase}.json.gz" for phase in whole}
    for one in details:
        part = load_core(one["output_path"])
        (row,) = [row for row in phases(part).records() if row["iterations"]]
        true = whole[row["phase"]]
        for name in (
            "iterations",
            "context_tokens",
            "generation_tokens",
            "gpu_sum_ms",
            "busy_ms",
            "device_ms",
            "step_ms",
        ):
            assert row[name] == pytest.approx(true[name]), name
        assert one["num_gpu_events"] == len(part.gpu_rows)
        assert one["gpu_busy_duration"] == pytest.approx(1e3 * true["gpu_sum_ms"])
        assert one["num_steps"] == len(one["steps"]) == true["iterations"]
        kind = {"mixed": "num_prefilldecode", "decode": "num_decode", "prefill": "num_prefill"}[row["phase"]]
        assert one["phase"][kind] == true["iterations"]


def test_the_steady_state_as_traces(run: Run, server: Path, tmp_path: Path) -> None:
    assert run("split", server, "--by", "steady", "--num-steps", 5, "-o", tmp_path / "parts")[0] == 0
    first, behind = iterations_of(load_core(server)).steady
    for one in json.loads((tmp_path / "parts" / "execution_details.json").read_text()):
        assert one["num_steps"] <= 5
        assert set(one["iterations"]) <= set(range(first, behind))


def test_iterations_as_traces(run: Run, server: Path, tmp_path: Path) -> None:
    assert run("split", server, "--by", "iteration", "--iteration", "3-5", "-o", tmp_path / "parts")[0] == 0
    events = iterations(load_core(server))["gpu_events"]
    for number in (3, 4, 5):
        assert len(load_core(tmp_path / "parts" / f"iteration_{number}.json.gz").gpu_rows) == events[number]


def test_iterations_are_cut_alone_unless_time_around_is_asked_for(run: Run, server: Path, tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    whole = iterations(load_core(server))
    code, out, _ = run("cut", server, "--iteration", "7", "-o", path)
    assert code == 0
    assert "iteration 7: " in out
    (row,) = iterations(load_core(path)).records()
    assert [row[name] for name in ("gpu_events", "busy_ms")] == [whole[name][7] for name in ("gpu_events", "busy_ms")]
    assert run("cut", server, "--iteration", "0-3", "-o", path)[0] == 0
    assert list(iterations(load_core(path))["gpu_events"]) == list(whole["gpu_events"][:4])
    code, out, _ = run("cut", server, "--iteration", "7", "--around", "1ms", "-o", path)
    assert " in part: " in out
    assert len(load_core(path).gpu_rows) > whole["gpu_events"][7]


def test_time_of_iterations_left_out_is_not_counted(run: Run, server: Path, tmp_path: Path) -> None:
    out = run("split", server, "-o", tmp_path / "parts")[1]
    assert "left out" in out
    part = tmp_path / "parts" / "decode.json.gz"
    core, whole = load_core(part), load_core(server)
    assert idle_parts(core).total_ns < idle_parts(whole).total_ns
    assert "iterations were left out between" in run("report", part)[1]
    left_out = left_out_of(core)
    assert left_out is not None
    assert 0 < left_out.count <= len(iterations_of(whole)) - len(iterations_of(core))
    damaged = json.loads(gzip.decompress(part.read_bytes()))
    for value in (
        {"count": 1},
        {"count": -1, "behind": [], "device_ns": []},
        {"count": 1, "behind": 5, "device_ns": 6},
    ):
        damaged["iterationsLeftOut"] = value
        assert left_out_of(load_core(damaged)) is None


def test_below_iterations_an_iteration_is_offered(run: Run, server: Path) -> None:
    out, err = run("ask", "iterations", server)[1:]
    assert "--iteration 0 -o iteration-0.json.gz" in out + err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["split", "TRACE", "-o", "PLACE", "--iteration", "99"], "no iteration 99; it has 0-39"),
        (["split", "TRACE", "-o", "PLACE", "--mixed-share", "0.5"], "--mixed-share goes with --by steady"),
        (["cut", "TRACE", "-o", "PLACE.json", "--iteration", "99"], "no iteration 99"),
        (["cut", "TRACE", "-o", "PLACE.json", "--iteration", "x"], "no list of iterations"),
    ],
)
def test_what_is_refused(run: Run, server: Path, tmp_path: Path, words: list[str], message: str) -> None:
    paths = {"TRACE": str(server), "PLACE": str(tmp_path / "parts"), "PLACE.json": str(tmp_path / "x.json")}
    code, _, err = run(*(paths.get(word, word) for word in words))
    assert code
    assert message in " ".join(err.replace("│", " ").split())
    assert not list(tmp_path.iterdir())


def test_traces_without_iterations(run: Run, trace_file: Path, tmp_path: Path) -> None:
    code, _, err = run("split", trace_file, "-o", tmp_path / "parts")
    assert code == 1
    assert "the trace has no iterations" in err
