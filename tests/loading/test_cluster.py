"""Work on a Dask cluster: the same answers as without, and one line for whatever a cluster can lack or lose."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cluster_work import deadly, failing, size, slow
from typer.testing import CliRunner

import tracelens_graph as tlg
from tracelens_graph.analyses.critical_path.critical_path import critical_path
from tracelens_graph.analyses.critical_path.job_causes import JobCauses
from tracelens_graph.analyses.critical_path.rank_answers import kept_rank
from tracelens_graph.analyses.critical_path.what_if import what_if
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.ranks import COLUMNS
from tracelens_graph.analyses.ranks.rank_collectives import ReadRank
from tracelens_graph.analyses.stragglers.slowdown import slowdown
from tracelens_graph.cli.app import app
from tracelens_graph.errors import (
    AnalysisError,
    ClusterError,
    DamagedTraceWarning,
    IncompleteSetWarning,
    MissingExtraError,
    TraceError,
    TraceLensGraphError,
)
from tracelens_graph.loading import cluster
from tracelens_graph.loading.cluster import map_on_workers
from tracelens_graph.loading.files import trace_files
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.reports.document import table_json
from tracelens_graph.simulate import simulate, write

if TYPE_CHECKING:
    from distributed import LocalCluster


@pytest.fixture(scope="module")
def workers() -> Iterator[LocalCluster]:
    """Two worker processes; a task is given up as soon as one of them died of it."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=2, dashboard_address=":0", silence_logs=logging.CRITICAL,
        scheduler_kwargs={"allowed_failures": 0},
    ) as found:  # fmt: skip
        yield found


@pytest.fixture(scope="module")
def scheduler(workers: LocalCluster) -> str:
    return str(workers.scheduler_address)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of four ranks."""
    folder = tmp_path_factory.mktemp("job")
    for path in write(simulate(ranks=4, steps=2, layers=1), tmp_path_factory.mktemp("simulated")):
        shutil.copy(path, folder)
    return folder


@pytest.fixture(scope="module")
def here(job: Path) -> tlg.TraceSet:
    """The lean graphs, loaded on this machine."""
    return load_core_set(trace_files([str(job)]), run="job", columns=COLUMNS)


def assert_same(found: tlg.TraceSet, expected: tlg.TraceSet) -> None:
    assert [(one.path, one.rank, one.offset_ns) for one in found] == [
        (one.path, one.rank, one.offset_ns) for one in expected
    ]
    assert (found.notes, found.broken) == (expected.notes, expected.broken)
    assert all(one.core.equals(other.core) for one, other in zip(found, expected, strict=True))
    for name in ("slowest_ranks", "collective_spread"):
        assert table_json(QUESTIONS[name](found)) == table_json(QUESTIONS[name](expected))


@pytest.mark.parametrize("memory_bytes", [0, 2**40])
def test_lean_graphs_are_those_of_this_machine(
    scheduler: str, job: Path, here: tlg.TraceSet, memory_bytes: int
) -> None:
    files = trace_files([str(job)])
    seen: list[tuple[int, int]] = []
    found = load_core_set(
        files, run="job", columns=COLUMNS, scheduler=scheduler, memory_bytes=memory_bytes,
        progress=lambda *given: seen.append(given),
    )  # fmt: skip
    assert_same(found, here)
    assert [one.core.columns.names for one in found] == [one.core.columns.names for one in here]
    assert found[3].core.node(100).event == here[3].core.node(100).event
    assert found[3].core.info.source == files[3]
    total = sum(Path(file).stat().st_size for file in files)
    assert seen[-1] == (total, total)
    assert len(seen) == 4


def test_whole_graphs_by_relative_paths(scheduler: str, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(job)
    with pytest.warns(IncompleteSetWarning, match="ranks 2, 3 are missing: the job has 4"):
        found = tlg.load_set("rank[01].json.gz", scheduler=scheduler)
    expected = load_core_set(trace_files(["rank[01].json.gz"]))
    assert [one.core.info.source for one in found] == ["rank0.json.gz", "rank1.json.gz"]
    assert all(one.core.equals(other.core) for one, other in zip(found, expected, strict=True))
    assert type(found[0].graph) is tlg.TraceGraph


def test_a_worker_that_is_killed_is_replaced(
    workers: LocalCluster, scheduler: str, job: Path, here: tlg.TraceSet, capfd: pytest.CaptureFixture[str]
) -> None:
    victims: list[int] = []

    def kill_one(done: int, total: int) -> None:
        if not victims:
            victims.append(workers.workers[0].pid)
            os.kill(victims[0], signal.SIGKILL)

    found = load_core_set(trace_files([str(job)]), run="job", columns=COLUMNS, scheduler=scheduler, progress=kill_one)
    assert victims
    assert_same(found, here)
    assert capfd.readouterr().err == ""


def kill_one_of(workers: LocalCluster) -> None:
    """Kill a worker, and wait until that is known: a task that it gets before is one that it died of."""
    worker = next(one for one in workers.workers.values() if one.pid is not None)
    address, known = worker.worker_address, workers.scheduler.workers
    os.kill(worker.pid, signal.SIGKILL)
    while address in known:
        time.sleep(0.02)


def test_a_worker_that_is_killed_changes_no_path(workers: LocalCluster, scheduler: str, job: Path) -> None:
    files = trace_files([str(job)])
    ranks = load_core_set(files, scheduler=scheduler, leaves=ReadRank(), keeps=kept_rank)
    known = JobCauses(ranks)
    kill_one_of(workers)
    expected = critical_path(load_core_set(files))
    assert critical_path(known).segments().records() == expected.segments().records()


@pytest.mark.parametrize("edit", [{"repair": "all"}, {"repair": 1, "collectives": 2.0}, {"scale": {"*": 0.5}}])
def test_what_if_on_workers(scheduler: str, job: Path, edit: dict[str, Any]) -> None:
    files = trace_files([str(job)])
    ranks = load_core_set(files, scheduler=scheduler, leaves=ReadRank(), keeps=kept_rank)
    found, expected = (what_if(one, 3, **edit).table() for one in (ranks, load_core_set(files)))
    assert (found.records(), found.notes) == (expected.records(), expected.notes)


def test_slack_on_workers(scheduler: str, job: Path) -> None:
    files = trace_files([str(job)])
    ranks = load_core_set(files, scheduler=scheduler, leaves=ReadRank(), keeps=kept_rank)
    found, expected = (critical_path(one, 3).slack() for one in (ranks, load_core_set(files)))
    assert found.records() == expected.records()


def test_slowdown_on_workers(workers: LocalCluster, scheduler: str, job: Path) -> None:
    """Of which one is killed on the way."""
    files = trace_files([str(job)])
    known = JobCauses(load_core_set(files, scheduler=scheduler, leaves=ReadRank(), keeps=kept_rank))
    kill_one_of(workers)
    found, expected = (slowdown(one).table() for one in (known, load_core_set(files)))
    assert (found.records(), found.notes) == (expected.records(), expected.notes)


def test_what_workers_die_of_is_given_up_and_the_others_are_not(scheduler: str, tmp_path: Path) -> None:
    files = [str(tmp_path / f"{place}{'.deadly' if place == 3 else ''}") for place in range(12)]
    for place, file in enumerate(files):
        Path(file).write_bytes(bytes(place))
    found = dict(map_on_workers(deadly, {file: file for file in files}, scheduler))
    error = found.pop(files[3])
    assert type(error) is TraceError
    assert str(error) == f"{files[3]}: workers die of it, over and over; they may lack memory"
    assert found == {file: place for place, file in enumerate(files) if place != 3}


def test_a_file_that_no_worker_sees(scheduler: str, job: Path, tmp_path: Path) -> None:
    gone = tmp_path / "gone.json"
    with pytest.warns(DamagedTraceWarning) as warned:
        found = tlg.load_set(job, gone, scheduler=scheduler)
    assert [one.rank for one in found] == list(range(4))
    (line,) = [str(one.message) for one in warned]
    assert re.fullmatch(rf"{re.escape(str(gone))}: the worker tcp://127\.0\.0\.1:\d+ does not see it", line)
    with pytest.raises(TraceError, match=r"gone\.json: the worker tcp:"):
        load_core_set([str(gone)], scheduler=scheduler)


def test_files_that_are_no_traces(scheduler: str, job: Path, tmp_path: Path) -> None:
    shutil.copy(job / "rank0.json.gz", tmp_path)
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    (tmp_path / "broken.json").write_bytes((job / "rank1.json.gz").read_bytes()[:20])
    there, alone = (load_core_set(trace_files([str(tmp_path)]), scheduler=one) for one in (scheduler, None))
    assert (there.notes, there.broken) == (alone.notes, alone.broken)
    assert len(there) == len(alone)


def test_errors_of_a_worker_are_raised_here(scheduler: str, tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.touch()
    with pytest.raises(TraceLensGraphError, match=f"RuntimeError: .*{file}"):
        list(map_on_workers(failing, {str(file): str(file)}, scheduler))


def test_workers_of_another_version(scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client

    file = tmp_path / "a"
    file.touch()
    with Client(scheduler, set_as_default=False) as client:
        late = client.submit(cluster._call, "99.0", size, str(file), str(file)).result()
    assert ": workers need tracelens_graph 99.0, as here: tcp://" in str(late.error)
    monkeypatch.setattr(cluster, "__version__", "99.0")
    with pytest.raises(ClusterError) as caught:
        list(map_on_workers(size, {str(file): str(file)}, scheduler))
    there = rf"tcp:\S+ has {re.escape(tlg.__version__)}"
    assert re.fullmatch(
        rf"{scheduler}: workers need tracelens_graph 99\.0, as here: {there}(, {there})?", str(caught.value)
    )


def test_a_scheduler_without_workers_and_one_that_goes_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr(cluster, "WORKERS_S", 0.2)
    (tmp_path / "a").touch()
    items = {str(tmp_path / "a"): str(tmp_path / "a")}
    with LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=logging.CRITICAL) as empty:
        address = empty.scheduler_address
        with pytest.raises(ClusterError, match=f"^{address}: the scheduler has no workers$"):
            list(map_on_workers(size, items, address))
    monkeypatch.setattr(cluster, "CONNECT_S", 0.5)
    with pytest.raises(ClusterError, match=f"^{address}: no Dask scheduler answers: [^\n]+$"):
        list(map_on_workers(size, items, address))


def test_a_scheduler_that_is_lost(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from distributed import LocalCluster

    files = [str(tmp_path / str(place)) for place in range(4)]
    for file in files:
        Path(file).touch()
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", silence_logs=logging.CRITICAL
    ) as lost:
        results = map_on_workers(slow, {file: file for file in files}, lost.scheduler_address)
        next(results)
        lost.close()
        with pytest.raises(ClusterError, match="the connection to the Dask scheduler was lost"):
            list(results)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("address", ["nonsense://x", "no-such-host.invalid:1", "tcp://127.0.0.1:1", "tcp://127.0.0.1"])
def test_addresses_that_nobody_answers_at(address: str, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.3)
    with pytest.raises(ClusterError, match=f"^{re.escape(address)}: no Dask scheduler answers: [^\n]+$"):
        tlg.load_set(job, scheduler=address)


def test_without_the_extra(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        MissingExtraError,
        match=r"^distributed is not installed: pip install '\.\[dask\]' in a clone of tracelens_graph$",
    ):
        tlg.load_set(job, scheduler="tcp://127.0.0.1:8786")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scheduler": ""}, "scheduler='': the address"),
        ({"scheduler": 8786}, "scheduler=8786: the address"),
        ({"scheduler": "tcp://127.0.0.1:1", "processes": 2}, "give one"),
    ],
)
def test_arguments_that_make_no_sense(job: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(AnalysisError, match=said):
        tlg.load_set(job, **options)


@pytest.mark.parametrize(
    "command",
    [
        ("ask", "collective_spread", "--format", "csv"),
        ("ask", "slowest_ranks", "--step", "3"),
        ("report",),
        ("ranks",),
        ("ranks", "--table", "rank_balance", "--format", "csv"),
        ("ranks", "--table", "late_arrivals", "--format", "csv"),
        ("ranks", "--step", "3"),
        ("ranks", "--path"),
    ],
)
def test_commands_print_the_same(scheduler: str, job: Path, command: tuple[str, ...]) -> None:
    arguments = [*command, str(job)]
    there, here = (run(*arguments, *options) for options in (("--scheduler", scheduler), ()))
    assert there == here
    assert here[0] == 0


def test_a_report_without_the_files_that_workers_do_not_see(scheduler: str, job: Path, tmp_path: Path) -> None:
    code, out, said = run("report", str(job), str(tmp_path / "gone.json"), "--scheduler", scheduler)
    assert code == 1
    assert "rank3" in out
    assert re.search(r"left out: \S+gone\.json: the worker tcp:\S+ does not see it", said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ask", "idle_gaps", "{job}/rank0.json.gz"), "--scheduler goes with questions about several traces"),
        (("report", "{job}/rank0.json.gz"), "--scheduler takes several traces"),
        (("report", "{job}", "--csv", "{job}/tables"), "--csv and --extension need files of this machine"),
        (("ask", "slowest_ranks", "{job}"), "error: tcp://127.0.0.1:1: no Dask scheduler answers"),
        (("report", "{job}"), "error: tcp://127.0.0.1:1: no Dask scheduler answers"),
    ],
)
def test_commands_that_cannot_be_sent(
    job: Path, arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_S", 0.3)
    code, out, err = run(*(one.format(job=job) for one in arguments), "--scheduler", "tcp://127.0.0.1:1")
    assert code != 0
    assert out == ""
    assert said in " ".join(err.replace("│", " ").split())


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    result = CliRunner(env={"COLUMNS": None}).invoke(app, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr
