"""Commands on an execution trace alone: it has no times, and whoever needs them is told how to have them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from handmade import Run
from made_execution import Op, trace

from corpus import CHECKOUT
from tracelens_graph.loading.one import load_core

EXAMPLE = CHECKOUT / "examples/traces/tiny-transformer-cpu"


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    return Path(shutil.copy(f"{EXAMPLE}.execution-trace.json.gz", tmp_path / "et.json.gz"))


def test_info_says_what_it_tells_and_what_not(run: Run, alone: Path) -> None:
    code, out, err = run("info", alone)
    assert (code, err) == (0, "")
    assert "PyTorch's execution trace observer, schema 1.1.1-chakra.0.0.4" in out
    for fact in ("tensors", "storages of tensors", "schemas of ops", "threads"):
        assert fact in out
    assert f"tracelens-graph report KINETO --et {alone}" in " ".join(out.split())
    assert " ms" not in out
    code, out, _ = run("info", alone, "--format", "json")
    told = json.loads(out)
    lineage = load_core(alone).link.lineage  # type: ignore[union-attr]
    counted = len(lineage.tensors), len(lineage.storages), 1
    assert tuple(told["trace"][what] for what in ("tensors", "storages of tensors", "threads")) == counted
    assert len(lineage.tensors) > len({*lineage.tensors.id.tolist()}), "ids are used again"
    assert "time covered" not in told["trace"]
    assert told["launches"] == []
    assert [row["what"] for row in told["recording"] if row["missing"]] == ["times and kernels"]


def test_report_counts_calls(run: Run, alone: Path) -> None:
    code, out, err = run("report", alone, "--top", "3")
    assert (code, err) == (0, "")
    assert "execution trace, 3,820 calls of ops, 1 thread" in out
    assert "no times and no kernels" in " ".join(out.split())
    assert f"tracelens-graph report KINETO --et {alone}" in out
    assert "aten::copy_" in out
    assert " ms" not in out
    assert " us" not in out


def test_tables_of_the_report(run: Run, alone: Path, tmp_path: Path) -> None:
    code, out, _ = run("report", alone, "--table", "calls_by_op", "--format", "csv")
    assert code == 0
    assert out.splitlines()[1].startswith("aten::copy_,Memory Ops,254,")
    code, out, _ = run("report", alone, "--csv", tmp_path / "tables", "-o", tmp_path / "r.json")
    assert code == 0
    assert sorted(file.name for file in (tmp_path / "tables").glob("*.csv")) == [
        "calls_by_arguments.csv", "calls_by_category.csv", "calls_by_op.csv",
    ]  # fmt: skip
    told = json.loads((tmp_path / "r.json").read_text())
    assert told["trace"]["has_times"] is False
    assert set(told["tables"]) == {"calls_by_arguments", "calls_by_category", "calls_by_op"}
    code, out, _ = run("report", alone, "--under", "aten::linear", "--table", "calls_by_op")
    assert code == 0
    assert "aten::addmm" in out
    assert "aten::randint" not in out


def test_tree_shows_no_times(run: Run, alone: Path) -> None:
    code, out, err = run("tree", alone, "--name", "aten::linear", "--max-lines", "3", "--gpu-time")
    assert (code, err) == (0, "")
    first, second, *_ = out.splitlines()
    assert first.startswith("└── (cpu) aten::linear")
    assert second.startswith("    ├── (cpu)")
    code, out, _ = run("tree", alone, "--max-lines", "1", "--labels", "full")
    assert (code, "cpu_op" in out or "Process" in out) == (0, True)


def test_of_a_folder_those_of_other_runs_are_left_out(run: Run, alone: Path) -> None:
    alone.unlink()
    (alone.parent / "et.json").write_bytes(trace([Op(3), Op(4)]))
    shutil.copy(f"{EXAMPLE}.json.gz", alone.parent / "trace.json.gz")
    for command in ("report", "ranks"):
        _, _, err = run(command, alone.parent)
        assert "et.json" in err


def test_damage_and_hostile_names_are_told(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "et.json"
    path.write_bytes(trace([Op(3, "\x1b[31mred\n", parent=99)]))
    for command in ("info", "tree", "report"):
        code, out, err = run(command, path)
        assert code == 0
        assert "warning: " in err
        assert "parent is missing" in err
        assert "\x1b[31m" not in out
