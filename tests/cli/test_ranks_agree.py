"""One question about ranks has one answer: on the first screen, in tables, for the only step, of operations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tracelens_graph as tlg
from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.cli.app import app

TRACES = CORPUS or Path()


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["ranks", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


@needs_corpus
def test_the_only_step_has_the_verdict_of_the_recording() -> None:
    folder = TRACES / "dlrm-8-ranks" / "kineto"
    (_, whole, _), (_, step, _) = run(folder), run(folder, "--step", 10)
    verdict = whole.partition("Times of a step")[0]
    assert "late: ranks 4 and 5, by 814 us" in verdict
    assert "aten::" not in verdict  # no call has most of it
    assert step.partition("Times of a step")[0] == verdict
    assert re.search(r"a repair of ranks 4 and 5 saves 789 us \(6\.0 % of the 13\.2 ms in which all", whole)
    # Who holds up the others most came later to record, and a repair wins next to nothing.
    (held_up,) = re.findall(r"a repair of rank 7, .* saves at most (\d+) us", whole)
    assert int(held_up) < 50


@needs_corpus
def test_slowdown_and_repair_are_of_one_recording() -> None:
    traces = tlg.load_set(TRACES / "dlrm-8-ranks" / "kineto")
    job = Job(traces, whole=traces)
    assert job.slowdown is not None
    assert job.lateness is not None
    repaired = job.repaired(job.lateness.culprits[0].places)
    assert repaired is not None
    assert job.slowdown.length_ns == pytest.approx(repaired.path.length_ns, rel=1e-3)
    assert job.slowdown.job >= repaired.path.length_ns / repaired.changed_ns  # even work wins at least as much


@needs_corpus
def test_thinned_files_are_named() -> None:
    folder = TRACES / "hta" / "two-of-128-ranks"
    for more in ([], ["--path"]):
        assert "most events were left out of the files of 2 of 2 ranks" in run(folder, *more)[1]
    assert "left out of the file" not in run(TRACES / "dlrm-8-ranks" / "kineto")[1]


@needs_corpus
@pytest.mark.parametrize(
    ("job", "head", "cause"),
    [
        ("AR", "16 workers, 4 stages, 4 data-parallel ranks, 44 steps", "computation (forward 2.51x, backward 2.27x)"),
        ("ST", "8 workers, 4 stages, 2 data-parallel ranks, 32 steps", "computation (forward 2.08x, backward 1.42x)"),
    ],
)
def test_recorded_operations(job: str, head: str, cause: str) -> None:
    pytest.importorskip("pyarrow")
    file = TRACES / "external" / "straggler" / f"trace-{job}.parquet"
    code, screen, stderr = run(file, "--fail-if", "slowdown > 1.5")
    assert screen.startswith(head)
    assert cause in screen
    assert len(re.findall(r"^worker ", screen, re.MULTILINE)) == 5
    assert "ask next: tracelens-graph ranks" in screen
    assert (code, "slowdown is 1.97272" in stderr) == ((3, True) if job == "AR" else (0, False))
    assert run(file, "--fail-if", "idle_percent > 1")[0] == 2


@needs_corpus
def test_the_slowdown_of_traces_is_a_figure() -> None:
    folder = TRACES / "dlrm-8-ranks" / "kineto"
    code, _, stderr = run(folder, "--fail-if", "slowdown > 1.05")
    assert code == 3
    assert "slowdown is 1.08" in stderr


@needs_corpus
def test_a_change_of_one_trace_is_suggested() -> None:
    trace = TRACES / "hta" / "resnet-ddp-nccl-args.json.gz"
    screen = run(trace, "--path")[1]
    (change,) = re.findall(r"^ask next: .*--what-if (\S+)$", screen, re.MULTILINE)
    saved = float(re.findall(r"saves [\d.]+ ms, ([\d.]+) %", run(trace, "--what-if", change)[1])[0])
    assert saved >= 1


@needs_corpus
def test_lean_graphs_need_no_numbers_of_launches() -> None:
    files = sorted((TRACES / "dlrm-8-ranks" / "kineto").glob("rank[01].json.gz"))
    result = CliRunner().invoke(app, ["ask", "rank_balance", *map(str, files)])
    assert result.exit_code == 0, result.output
