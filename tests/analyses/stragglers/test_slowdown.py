"""The slowdown of a job against even work: two production jobs with published results, and planted ones."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from html_pages import read
from simulated_jobs import Cause, Job, simulated, write
from typer.testing import CliRunner

import tracelens_graph as tlg
from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.ranks.job import Job as Ranks
from tracelens_graph.analyses.shared.common_factor import agreed_factor
from tracelens_graph.analyses.stragglers import slowdown as slowdowns
from tracelens_graph.analyses.stragglers.operations import COLUMNS
from tracelens_graph.analyses.stragglers.reasons import OTHERS, UNNAMED
from tracelens_graph.cli.app import app
from tracelens_graph.errors import TraceError

pytest.importorskip("pyarrow")
PUBLISHED = CORPUS / "external" / "straggler" if CORPUS else Path()


def published(name: str) -> Any:
    return json.loads((PUBLISHED / name).read_text())


@needs_corpus
@pytest.mark.parametrize("job", ["AR", "ST"])
def test_published_jobs(job: str) -> None:
    found = tlg.slowdown(PUBLISHED / f"trace-{job}.parquet")
    theirs = published(f"result-{job}.json")
    assert found.job == pytest.approx(theirs["blocking_slowdown"], rel=5e-4)
    assert found.length_ns / 1e9 == pytest.approx(np.mean(list(theirs["step_t_nodelay"].values())), rel=5e-4)
    for ours, of in ((found.types, "optype"), (found.stages, "stage"), (found.dp_ranks, "dp_rank")):
        expected = theirs[f"blocking_decompose_by_{of}"]
        assert {str(name): value for name, value in ours.items()} == pytest.approx(expected, rel=5e-4)
    assert found.by_workers == pytest.approx(published(f"mw-{job}.json")["Mw"], abs=2e-3)
    assert found.by_last_stage == pytest.approx(published(f"ms-{job}.json")["Ms"], abs=2e-3)


@needs_corpus
def test_every_row_has_a_name() -> None:
    """In a narrow terminal the columns of stages and data-parallel ranks give way."""
    rows = tlg.slowdown(PUBLISHED / "trace-AR.parquet").table().records()
    assert {row["name"] for row in rows if row["of"] == "stage"} == {"0", "1", "2", "3"}
    assert len({(row["of"], row["name"]) for row in rows}) == len(rows)


@needs_corpus
@pytest.mark.parametrize(
    ("job", "culprit"), [("AR", "dp 0 stage 0 alone 1.97"), ("ST", "stage 3 (of 0 to 3) alone 1.23")]
)
def test_the_culprit_of_published_jobs_is_named(job: str, culprit: str) -> None:
    assert culprit in tlg.slowdown(PUBLISHED / f"trace-{job}.parquet").line()


def even(job: Job) -> Job:
    """The same job in which all ranks have equally much work."""
    slow = [one for one in job.causes if one.kind == "slower_kernels"]
    factor = 1 + sum((one.factor - 1) * len(one.ranks) for one in slow) / job.ranks
    factor *= (job.pipeline - len(job.stage_factor) + sum(job.stage_factor.values())) / job.pipeline
    causes = (Cause("slower_kernels", tuple(range(job.ranks)), factor=factor),)
    return replace(job, causes=causes, stage_factor={}, slow=())


JOBS = {
    "two stages": (Job(ranks=2, pipeline=2, causes=(Cause("slower_kernels", (0,), factor=1.5),)), "rank0", "slower"),
    "four stages": (Job(ranks=4, pipeline=4, causes=(Cause("slower_kernels", (1,), factor=1.6),)), "rank1", "slower"),
    "host": (Job(ranks=4, pipeline=4, causes=(Cause("python", (2,), us=6000),)), "rank2", "gc.py(12): collect"),
    "loader": (Job(ranks=8, pipeline=4, causes=(Cause("data_loader", (0,), us=8000),)), "rank0", "data loader"),
    "link": (Job(ranks=8, pipeline=4, slow=(((2, 4), 0.05),)), "slow transfers of recv", "recv"),
    "stage": (Job(ranks=8, pipeline=4, stage_factor={3: 1.6}), "stage 3 (of 0 to 3)", "uneven stages"),
    "eight stages": (
        Job(ranks=8, pipeline=8, microbatches=8, causes=(Cause("slower_kernels", (5,), factor=1.8),)), "rank5", "slower"
    ),
    "python of a stage": (
        Job(ranks=4, pipeline=2, causes=(Cause("python", (0, 1), us=3000),)),
        "stage 0 (of 0 to 1)", "uneven stages, python",
    ),
    "further kernels": (
        Job(causes=(Cause("more_gpu_work", (2,), us=900),)), "rank2", "more gpu work"
    ),
    "foreign file": (Job(causes=(Cause("python", (3,), us=3000),), foreign=(6,)), "rank3", "python"),
    "lost kernels": (Job(causes=(Cause("python", (3,), us=3000),), lost={6: 2, 1: 1}), "rank3", "python"),
    "begins late": (Job(causes=(Cause("python", (3,), us=3000),), begins={6: 2}), "rank3", "python"),
    "no pipeline": (Job(ranks=8, causes=(Cause("op", (6,), us=5000),)), "rank6", "op (aten::index"),
}  # fmt: skip


@pytest.mark.parametrize("name", JOBS)
def test_planted_culprits(name: str, tmp_path: Path) -> None:
    job, culprit, reason = JOBS[name]
    found = tlg.slowdown(tlg.load_set(write(job, tmp_path)))
    truth = simulated(job)[0].now / simulated(even(job))[0].now
    assert found.job == pytest.approx(truth, rel=0.015)
    line = found.line()
    assert f"{culprit} alone" in line
    assert reason in line


def test_a_slower_device_is_named_where_all_its_kernels_are_slower(tmp_path: Path) -> None:
    """The lines of late ranks and of the slowdown have one cause."""
    slow = Job(ranks=4, causes=(Cause("slower_kernels", (1,), factor=1.5),))
    traces = tlg.load_set(write(slow, tmp_path))
    ranks = Ranks(traces, whole=traces)
    assert ranks.lateness is not None
    (culprit,) = ranks.lateness.culprits
    assert "all kernels 1.5" in culprit.what
    assert culprit.what in ranks.slowdown_line


def test_kernels_agree_on_a_factor() -> None:
    kernel, ns = np.arange(8) // 2, np.full(8, 10_000)
    assert agreed_factor(np.linspace(1.28, 1.32, 8), ns, kernel) == pytest.approx(1.3, abs=0.02)
    one_kernel = np.where(kernel == 3, 3.0, 1.0)
    assert agreed_factor(one_kernel, ns, kernel) is None
    assert agreed_factor(np.full(8, 1.3), ns, kernel // 2) is None  # two kernels show nothing


@pytest.mark.parametrize("job", [Job(ranks=4), Job(ranks=8, pipeline=4), Job(ranks=4, style="moe")])
def test_an_even_job_has_no_culprit(job: Job, tmp_path: Path) -> None:
    found = tlg.slowdown(tlg.load_set(write(job, tmp_path)))
    assert found.job == pytest.approx(1.0, abs=0.01)
    assert "alone" not in found.line()


# --- operations in a file --------------------------------------------------------------------------------------------


def test_of_many_workers_some_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(ranks=16, causes=(Cause("slower_kernels", (3, 9), factor=1.5), Cause("python", (12,), us=4000)))
    write(job, tmp_path)
    whole = tlg.slowdown(tlg.load_set(tmp_path))
    assert not any("interpolated" in note for note in whole.table().notes)
    monkeypatch.setattr(slowdowns, "MOST_STEPPED", 0)
    monkeypatch.setattr(slowdowns, "LEAST_REPLAYS", 8)
    some = tlg.slowdown(tlg.load_set(tmp_path))
    assert sorted(some.culprits) == sorted(whole.culprits) != []
    assert [some.workers[at] for at in some.culprits] == pytest.approx([whole.workers[at] for at in some.culprits])
    assert some.workers == pytest.approx(whole.workers, abs=0.02)
    assert any("8 of 16 workers are replayed" in note for note in some.table().notes)


def test_collectives_on_the_host_are_not_covered(tmp_path: Path) -> None:
    folder = write(Job(gloo=True, ranks=4, causes=(Cause("python", (2,), us=3000),)), tmp_path)
    for file in folder.iterdir():
        trace = json.loads(gzip.decompress(file.read_bytes()))
        where = {"pid": 0, "tid": 7, "ts": max(one["ts"] for one in trace["traceEvents"] if "ts" in one)}
        kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "dur": 5, "args": {"device": 0, "stream": 7}, **where}
        trace["traceEvents"].append(kernel)
        file.write_bytes(gzip.compress(json.dumps(trace).encode()))
    found = tlg.slowdown(tlg.load_set(folder))
    assert not found.work.is_covered
    assert found.line() == ""


def operations(path: Path, **columns: list[Any]) -> Path:
    """A file of two workers, each with one forward computation."""
    import pyarrow as pa
    from pyarrow import parquet

    made: dict[str, list[Any]] = {name: [0, 0] for name in COLUMNS} | {"dp_rank": [0, 1], "duration": [1.0, 3.0]}
    parquet.write_table(pa.table(made | {"optype": ["forward-compute"] * 2} | columns), path)
    return path


def test_two_operations(tmp_path: Path) -> None:
    found = tlg.slowdown(operations(tmp_path / "job.parquet"))
    assert found.job == pytest.approx(3 / 2)
    assert found.workers.tolist() == pytest.approx([1.0, 1.5])
    assert found.by_workers == pytest.approx(1.0)
    assert found.by_last_stage is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"duration": [1.0, None]}, "cells are empty"),
        ({"duration": ["a", "b"]}, "something else"),
        ({name: [] for name in (*COLUMNS,)}, "no operations"),
    ],
)
def test_what_is_no_job(columns: dict[str, list[Any]], message: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=message):
        tlg.slowdown(operations(tmp_path / "job.parquet", **columns))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "job.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceError, match=r"job\.parquet: no parquet file"):
        tlg.slowdown(tmp_path / "job.parquet")


# --- delays that arrive through chains -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "culprit", "reason"),
    [
        (Job(ranks=2, pipeline=2, causes=(Cause("python", (1,), us=6000),)), 1, "python"),
        (Job(ranks=4, pipeline=4, causes=(Cause("python", (2,), us=6000),)), 2, "python"),
        (Job(ranks=8, pipeline=4, causes=(Cause("data_loader", (0,), us=8000),)), 0, "data_loader"),
        (Job(ranks=8, pipeline=8, causes=(Cause("slower_kernels", (6,), factor=2.0),)), 6, "slower_kernels"),
        (Job(ranks=8, pipeline=4, tensor=2, causes=(Cause("op", (5,), us=6000),)), 5, "op"),
    ],
)
def test_victims_in_pipelines_are_not_blamed(job: Job, culprit: int, reason: str, tmp_path: Path) -> None:
    rows = tlg.rank_tables(tlg.load_set(write(job, tmp_path)))["late_ranks"].records()
    named = [row for row in rows if row["reason"] not in (*UNNAMED, OTHERS) and row["new_ms"] > 1]
    assert {(row["rank"], row["reason"]) for row in named} == {(culprit, reason)}
    assert sum(row["new_ms"] for row in named) > 10
    followed = [row for row in rows if row["what"].startswith("waited for ")]
    assert followed or job.ranks == 2
    assert all(row["what"].startswith(f"waited for rank{culprit}: ") for row in followed)


def test_all_tables_of_operations_are_written_to_a_folder(tmp_path: Path) -> None:
    file = operations(tmp_path / "job.parquet")
    result = CliRunner().invoke(app, ["ranks", str(file), "--csv", str(tmp_path / "all")])
    assert result.exit_code == 0, result.output
    assert {one.name for one in (tmp_path / "all").iterdir()} == {"slowdown.csv", "slowdown_map.csv"}


def test_operations_are_written_as_a_page(tmp_path: Path) -> None:
    file, page = operations(tmp_path / "job.parquet"), tmp_path / "job.html"
    result = CliRunner().invoke(app, ["ranks", str(file), "-o", str(page)])
    assert result.exit_code == 0, result.output
    found = read(page.read_text())
    assert found.head["overview"]["slowdown"]["rows"][0]["cells"] == [
        ["dp 0 stage 0", 1.0, False], ["dp 1 stage 0", 1.5, True],
    ]  # fmt: skip
    assert [one["name"] for one in found.body["tables"]] == ["slowdown", "slowdown_map"]


def test_below_one_there_is_no_slowdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = tlg.slowdown(tlg.load_set(write(Job(ranks=4), tmp_path)))
    for job, is_none in ((0.91, True), (0.9995, False), (1.05, False)):
        monkeypatch.setattr(slowdowns.Slowdown, "job", job)
        assert ("none" in found.line()) == is_none
        assert (f"{job:.2f}" in found.line()) != is_none
        assert any("below 1 is none" in note for note in found.table().notes) == is_none


@needs_corpus
def test_a_call_with_little_of_the_difference_has_its_share() -> None:
    """The loader of rank 7 takes 56 us longer than the median of the others, of 216 us that its host takes longer."""
    found = tlg.slowdown(tlg.load_set(CORPUS / "dlrm-8-ranks" / "kineto" if CORPUS else Path()))
    reason, what = found.why(7)
    assert reason == "data_loader"
    assert 0 < float(what.rpartition(", ")[2].split(" %")[0]) < 50
