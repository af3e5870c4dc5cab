"""explain, and the table of kernels worth work: what they say is what the report and the graph say."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from handmade import Run

from tracelens_graph.analyses.diagnosis.explain import explain
from tracelens_graph.analyses.opportunities.kernel_candidates import kernel_candidates
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.errors import AnalysisError
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate, write


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write(simulate(ranks=1, steps=2, layers=1), folder, traces_only=True)
    return folder / "rank0.json.gz"


def rows(run: Run, *words: object) -> list[dict[str, Any]]:
    code, out, err = run(*words, "-f", "json", "--top", "0") if words[0] == "ask" else run(*words, "-f", "json")
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)["rows"]
    return found


def test_every_finding_and_opportunity_is_explained(run: Run, trace: Path) -> None:
    _, out, _ = run("report", trace, "-f", "json", "--all")
    report = json.loads(out)
    texts = {one["id"]: one["what"] for one in report["opportunities"]}
    texts |= {one["id"]: one["text"] for one in report["verdict"]}
    assert {row["what"]: row["value"] for row in rows(run, "explain", trace)} == texts
    assert len(texts) > 5
    for finding in report["verdict"]:
        found = explain(load_core(trace), finding["id"]).records()
        figures = {row["what"]: row["value"] for row in found if row["part"] == "evidence"}
        assert {**figures, "uid": finding["evidence"].get("uid")}.items() >= finding["evidence"].items()
        assert [row["value"] for row in found if row["part"] == "finding"] == [finding["text"]]
        assert [row["value"] for row in found if row["part"] == "try"] == finding["suggestions"]


def test_the_place_leads_to_the_node_from_the_outside(run: Run, trace: Path) -> None:
    core = load_core(trace)
    found = rows(run, "explain", trace, "kernels@compute.gemm")
    places = [row["uid"] for row in found if row["part"] == "place"]
    assert len(places) > 4
    depths = [int(core.columns.depth[core.row(uid)]) for uid in places]
    assert depths == sorted(depths)
    for outer, inner in pairwise(places):
        assert core.row(outer) < core.row(inner) <= core.columns.last[core.row(outer)]


def test_the_commands_that_follow_run(run: Run, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [row["command"] for row in rows(run, "explain", trace, "kernels@compute.gemm") if row["command"]]
    assert [shlex.split(one)[1] for one in commands] == ["ask", "tree", "cut", "replay"]
    for command in commands:
        code, _, err = run(*shlex.split(command)[1:])
        assert code == 0, err


def test_an_id_that_is_not_there_is_refused(run: Run, trace: Path) -> None:
    code, out, err = run("explain", trace, "kernels@compute.gem")
    assert (code, out) == (1, "")
    assert "did you mean kernels@compute.gemm?" in err
    with pytest.raises(AnalysisError):
        explain(load_core(trace), "")


@pytest.mark.parametrize("width", [80, 120])
def test_the_screen_fits(run: Run, trace: Path, width: int) -> None:
    for words in ([], ["headline"], ["kernels@compute.gemm"]):
        _, out, _ = run("explain", trace, *words, env={"COLUMNS": str(width)})
        assert all(len(line) <= width for line in out.splitlines() if not line.startswith("ask next: "))


def test_candidates_are_the_computation_of_the_unified_table(trace: Path) -> None:
    core = load_core(trace)
    found = kernel_candidates(core, top=0).records()
    every = {row["ex_UID"]: row for row in unified_perf_summary(core, linked_only=True).records()}
    assert {row["uid"] for row in found} == {
        uid for uid, row in every.items() if row["op category"] != "Communication" and row["kernel_details_summary"]
    }
    for row in found:
        same = every[row["uid"]]
        assert row["time_ms"] == pytest.approx(same["Kernel Time (µs)_sum"] / 1e3)
        assert row["kernel"] in {one["name"] for one in same["kernel_details_summary"]}
        assert (row["op"], row["input_dims"], row["calls"]) == (
            same["name"], same["Input Dims"], same["operation_count"],
        )  # fmt: skip
    won = [row["could_win_ms"] or 0 for row in found]
    assert won == sorted(won, reverse=True)
    assert sum(row["percent"] for row in found) <= 100
    assert kernel_candidates(core, top=2).records() == found[:2]


def test_candidates_name_the_place_and_a_command_that_runs(run: Run, trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "kernel_candidates.json"
    assert run("ask", "kernel_candidates", trace, "--top", "3", "-o", file)[0] == 0
    first, *others = json.loads(file.read_text())["rows"]
    assert any(row["module"] and row["line"] for row in (first, *others))
    assert 0 < first["percent_of_roof"] < 100
    words = shlex.split(first["command"].replace("FOLDER", str(tmp_path / "programs")))
    code, out, err = run(*words[1:])
    assert code == 0, err
    assert "wrote 1 program" in out
