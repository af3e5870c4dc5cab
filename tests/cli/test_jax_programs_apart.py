"""Two profiles of JAX of other programs: their instructions are numbered otherwise, and still belong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracelens_graph.analyses.across.compare import compare
from tracelens_graph.analyses.across.outer_join import NOTE
from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.analyses.alignment.tables import places_table
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate.xla.__main__ import main as simulate_xla


def profile(folder: Path, *options: str) -> Path:
    assert simulate_xla([str(folder), *options]) == 0
    (found,) = folder.rglob("*.xplane.pb")
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "base": profile(folder / "base"),
        "deeper": profile(folder / "deeper", "--layers", "3"),
        "larger": profile(folder / "larger", "--layers", "3", "--tokens", "1024"),
    }


@pytest.fixture(scope="module")
def graphs(files: dict[str, Path]) -> dict[str, Core]:
    return {name: load_core(file) for name, file in files.items()}


def test_other_sizes_are_no_matter_of_the_clock(graphs: dict[str, Core]) -> None:
    places = places_table(diff(graphs["base"].window(step=0), graphs["larger"].window(step=0)))
    both = [row for row in places.records() if row["a_ms"] and row["b_ms"]]
    assert len(both) > 15
    assert {row["reason"] for row in both if "gemm" in row["op"] or "fusion" in row["op"]} == {"other_sizes", "same"}
    assert "clock" not in {row["reason"] for row in both}
    head = next(row for row in both if row["module"] == "head (backward)")
    assert (head["op"], head["a_ms"] < head["b_ms"]) == ("cublas-gemm", True)
    assert head["why"].startswith("other sizes: 4096x16384 became 8192x16384")


def test_a_further_layer_is_all_that_is_new(graphs: dict[str, Core]) -> None:
    places = places_table(diff(graphs["base"].window(step=0), graphs["deeper"].window(step=0)))
    changed = [row for row in places.records() if row["reason"] != "same"]
    assert {row["a_ms"] for row in changed} == {0.0}
    assert all((row["module"] or row["op"]).startswith("layer") for row in changed)  # one is the layer itself


def test_operations_are_joined_without_numbers(graphs: dict[str, Core]) -> None:
    found = compare({"a": graphs["base"], "b": graphs["deeper"]}, tables=["ops_summary", "gpu_timeline"])
    rows = {row["name"]: row for row in found["ops_summary"].records()}
    assert not any(row["only_in"] for row in rows.values())
    column = "total_direct_kernel_time_ms"
    assert rows["cublas-gemm"][f"b::{column}"] > rows["cublas-gemm"][f"a::{column}"] > 2
    assert found["ops_summary"].notes[-1] == NOTE
    assert NOTE not in found["gpu_timeline"].notes


def test_one_program_keeps_its_numbers(graphs: dict[str, Core]) -> None:
    found = compare({"a": graphs["base"], "b": graphs["base"]}, tables=["ops_summary"])["ops_summary"]
    assert "cublas-gemm.7" in found["name"]
    assert NOTE not in found.notes
