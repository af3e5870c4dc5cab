"""What a shell completes, asked as a shell does."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade import Run
from typer.testing import CliRunner

from tracelens_graph.cli.app import app
from tracelens_graph.registry import REPORT
from tracelens_graph.simulate import simulate, write


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACELENS_GRAPH_CACHE", str(tmp_path / "cache"))
    write(simulate(ranks=1, steps=1, layers=1), tmp_path, traces_only=True)
    return tmp_path / "rank0.json.gz"


def completed(*words: object) -> list[str]:
    """What is offered for the last word."""
    line = ["tracelens-graph", *map(str, words)]
    asked = {
        "_TRACELENS_GRAPH_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(line) - 1),
    }  # fmt: skip
    return CliRunner().invoke(app, [], env=asked, prog_name="tracelens-graph").stdout.split("\n")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("explai",), ["explain"]),
        (("ask", "idle_"), ["idle_gaps", "idle_causes"]),
        (("ask", "idle_gaps", "x.json", "-p", "min"), ["min_us="]),
        (("roofline", "x.json", "--arch", "h100"), ["h100-sxm", "h100-pcie"]),
        (("roofline", "x.json", "--table", "b"), ["below_roof"]),
        (("ranks", "traces/", "--table", "late_r"), ["late_ranks"]),
        (("info", "x.json", "--table", "rec"), ["recording"]),
        (("x.json", "--table", "gpu"), ["gpu_timeline"]),
        (("report", "x.json", "--table", "step_summary", "--sort", "idle"), ["idle_time_ms"]),
        (("link", "--table", "link_o"), ["link_ops"]),
        (("model", "ge"), ["gemm"]),
        (("ask", "opportunities", "x.json", "-p", "ar"), ["arch="]),
        (("ask", "opportunities", "x.json", "-p", "arch=h100"), ["arch=h100-sxm"]),
    ],
)
def test_names_are_offered(words: tuple[str, ...], offered: list[str]) -> None:
    assert set(offered) <= set(completed(*words))
    assert all(one.startswith(words[-1]) for one in completed(*words) if one)


def test_all_tables_of_a_report_are_offered() -> None:
    assert set(completed("report", "x.json", "--table", "")) >= set(REPORT)


def test_modules_are_those_of_a_trace_that_was_kept(run: Run, trace: Path) -> None:
    assert set(completed("modules", trace, "--under", "Lin")) == {""}, "nothing is loaded for it"
    assert run("info", trace, "--cache")[0] == 0
    found = completed("modules", trace, "--under", "Lin")
    assert "Linear_0" in found
    assert run("modules", trace, "--under", found[0])[0] == 0
    assert set(completed("modules", "/nowhere", "--under", "Lin")) == {""}
    assert completed("explain", trace, "head") == ["headline", ""]
    assert run("explain", trace, "headline")[0] == 0
