"""`report --et`: the first screen says how the two are linked, and tables tell tensors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from handmade import Run

from corpus import CORPUS, needs_corpus
from tracelens_graph.simulate import simulate, write

TENSORS = {"et_node", "input_tensors", "input_storages", "output_tensors", "output_storages"}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Traces and execution traces of two ranks."""
    folder = tmp_path_factory.mktemp("job")
    write(simulate(ranks=2, steps=1, layers=1), folder)
    return folder


def test_the_first_screen_says_how(run: Run, job: Path) -> None:
    trace, et = job / "rank0.json.gz", job / "rank0.execution-trace.json"
    code, out, err = run("report", trace, "--et", et, env={"COLUMNS": "500"})
    assert (code, err) == (0, "")
    linked = " ".join(" ".join(out.splitlines()[1:3]).split())
    assert linked.startswith(f"linked with {et.name}: ")
    assert "nodes by Record function id = rf_id, 100.0 % of the names are equal" in linked
    assert "linked with" not in run("report", trace)[1]


def test_json_says_how(run: Run, job: Path, tmp_path: Path) -> None:
    trace, et = job / "rank0.json.gz", job / "rank0.execution-trace.json"
    run("report", trace, "--et", et, "-o", tmp_path / "linked.json")
    run("report", trace, "-o", tmp_path / "alone.json")
    linked, alone = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("linked", "alone"))
    assert linked["trace"]["linked"].startswith(f"linked with {et.name}: ")
    assert "linked" not in alone["trace"]


def test_tables_of_ops_tell_tensors(run: Run, job: Path) -> None:
    trace, et = job / "rank0.json.gz", job / "rank0.execution-trace.json"
    table = ("--table", "ops_unique_args", "--format", "json")
    linked = json.loads(run("report", trace, "--et", et, *table)[1])
    alone = json.loads(run("report", trace, *table)[1])
    assert {*linked["rows"][0]} - {*alone["rows"][0]} == TENSORS
    nodes = {node["id"]: node for node in json.loads(et.read_text())["nodes"]}
    told = [row for row in linked["rows"] if row["et_node"] is not None]
    assert told
    for row in told:
        node = nodes[row["et_node"]]
        assert node["name"] == row["name"]
        tensors = [
            value
            for value, kind in zip(node["inputs"]["values"], node["inputs"]["types"], strict=True)
            if kind.startswith("Tensor(")
        ]
        assert row["input_tensors"][: len(tensors)] == [tensor[0] for tensor in tensors]


def test_another_rank_ends_with_one_line(run: Run, job: Path) -> None:
    code, out, err = run("report", job / "rank0.json.gz", "--et", job / "nothing.json")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1


def test_with_a_folder_et_is_refused(run: Run, job: Path) -> None:
    code, _, err = run("report", job, "--et", job / "rank0.execution-trace.json")
    assert code == 2
    assert "--et takes one trace, not" in err


def test_a_folder_finds_its_own(run: Run, job: Path) -> None:
    code, out, _ = run("report", job, env={"COLUMNS": "500"})
    assert code == 0
    assert "rank0.execution-trace.json: " in out or "rank1.execution-trace.json: " in out


@needs_corpus
def test_ranks_of_the_real_job_have_bandwidths(run: Run) -> None:
    assert CORPUS
    job = CORPUS / "dlrm-8-ranks"
    code, out, err = run("ranks", job, "--table", "rank_collectives", "--format", "json")
    assert code == 0
    assert "linked 8 traces with their execution traces" in err
    rows = json.loads(out)["rows"]
    assert len(rows) == 8
    assert all(row["busbw_gb_s"] > 0 for row in rows)


@needs_corpus
def test_another_rank_of_the_real_job_is_refused(run: Run) -> None:
    assert CORPUS
    job = CORPUS / "dlrm-8-ranks"
    code, out, err = run(
        "report", job / "kineto/rank0.json.gz", "--et", job / "execution-trace/rank3.json.gz", env={"COLUMNS": "500"}
    )
    assert (code, out) == (1, "")
    assert "of two ranks, 0 and 3; 99.9 % of the names are equal" in err
    assert err.count("\n") == 1
