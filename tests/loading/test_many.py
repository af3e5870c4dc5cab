"""Loading sets: what is left out and said, in several processes or one, lean, in memory or mapped, from a database."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import warnings
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from call_trees import FORWARD, annotation, launch, load, op
from handmade import small_trace

import tracelens_graph as tlg
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.errors import AnalysisError, DamagedTraceWarning, IncompleteSetWarning, NotATraceError, TraceError
from tracelens_graph.graph.columns import ALWAYS
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.files import trace_files
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.document import table_json
from tracelens_graph.schema import STORED
from tracelens_graph.simulate import simulate, write


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of three ranks."""
    folder = tmp_path_factory.mktemp("job")
    for path in write(simulate(ranks=3, steps=2, layers=1), tmp_path_factory.mktemp("simulated")):
        shutil.copy(path, folder)
    return folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("memory_bytes", [0, 2**40])
def test_a_folder(job: Path, temporary: Path, processes: int, memory_bytes: int) -> None:
    files = trace_files([str(job)])
    seen: list[tuple[int, int]] = []
    traces = load_core_set(
        files, run="job", processes=processes, memory_bytes=memory_bytes, progress=lambda *given: seen.append(given)
    )
    assert [(one.run, one.name, one.rank) for one in traces] == [("job", f"rank{rank}", rank) for rank in range(3)]
    total = sum(Path(file).stat().st_size for file in files)
    assert [whole for _, whole in seen] == [total] * 3
    assert seen[-1][0] == total
    for one, file in zip(traces, files, strict=True):
        alone = load_core(file)
        assert one.core.equals(alone)
        assert one.core.trace_id == alone.trace_id
        assert one.core.node(100).event == alone.node(100).event
    kept = [path for folder in temporary.iterdir() for path in folder.glob("*.tlg")]
    assert len(kept) == (3 if memory_bytes == 0 else 0)
    assert all(folder.stat().st_mode & 0o077 == 0 for folder in temporary.iterdir())
    del traces, one
    gc.collect()
    assert not list(temporary.iterdir())


def test_what_is_no_trace_is_left_out_in_one_line(job: Path, tmp_path: Path) -> None:
    shutil.copy(job / "rank0.json.gz", tmp_path)
    for number in range(7):
        (tmp_path / f"config{number}.json").write_text('{"lr": 0.1}')
    traces = load_core_set(trace_files([str(tmp_path)]))
    assert len(traces) == 1
    assert traces.notes == (
        "left out 7 files that are not traces: config0.json, config1.json, config2.json, config3.json, config4.json "
        "and 2 more",
    )
    assert traces.broken == ()


def test_what_cannot_be_read_is_told_apart(job: Path, tmp_path: Path) -> None:
    shutil.copy(job / "rank0.json.gz", tmp_path)
    tlg.load(job / "rank1.json.gz").save(tmp_path / "rank1.tlg")
    (tmp_path / "rank1.tlg").write_bytes((tmp_path / "rank1.tlg").read_bytes()[:5000])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        traces = tlg.load_set(tmp_path)
    assert [one.name for one in traces] == ["rank0"]
    said = {warning.category: str(warning.message) for warning in caught}
    assert "rank1.tlg" in said[DamagedTraceWarning]
    (tmp_path / "rank0.json.gz").unlink()
    with pytest.raises(TraceError, match=r"rank1\.tlg"):
        load_core_set(trace_files([str(tmp_path)]))


def test_missing_ranks_are_told(job: Path) -> None:
    with pytest.warns(IncompleteSetWarning, match="rank 1 is missing: the job has 3"):
        traces = tlg.load_set([job / "rank0.json.gz", job / "rank2.json.gz"])
    assert [type(one.graph) for one in traces] == [tlg.TraceGraph] * 2
    assert traces.notes == ("rank 1 is missing: the job has 3",)


def test_no_files_at_all(tmp_path: Path) -> None:
    with pytest.raises(NotATraceError, match="no file in it ends with"):
        tlg.load_set(tmp_path)
    with pytest.raises(NotATraceError, match="no file fits"):
        tlg.load_set(str(tmp_path / "*.json"))
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(NotATraceError, match=r"a\.json"):
        tlg.load_set(tmp_path)
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(TraceError, match="none of the 2 files is a trace"):
        tlg.load_set(tmp_path)
    with pytest.raises(TypeError, match="one of them"):
        tlg.load_set()


def test_pipes_in_a_folder_are_left_out(job: Path, tmp_path: Path) -> None:
    shutil.copy(job / "rank0.json.gz", tmp_path)
    os.mkfifo(tmp_path / "pipe.json")
    for named in (tmp_path, tmp_path / "*.json*"):
        with pytest.warns(IncompleteSetWarning, match=r"left out 1 pipe, socket or device: pipe\.json"):
            traces = tlg.load_set(named)
        assert [one.name for one in traces] == ["rank0"]
    (tmp_path / "rank0.json.gz").unlink()
    with pytest.raises(NotATraceError, match="left out 1 pipe"):
        tlg.load_set(tmp_path)


def test_a_pipe_that_is_named_is_read(job: Path, tmp_path: Path) -> None:
    pipe, trace = tmp_path / "pipe.json", job / "rank1.json.gz"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_bytes(trace.read_bytes()), daemon=True)
    writer.start()
    traces = load_core_set(trace_files([str(job / "rank0.json.gz"), str(pipe)]))
    writer.join()
    assert [one.rank for one in traces] == [0, 1]
    assert traces[1].core.node(100).event == load_core(trace).node(100).event


def test_a_file_counts_once(job: Path, tmp_path: Path) -> None:
    file = tmp_path / "rank0.json.gz"
    shutil.copy(job / "rank0.json.gz", file)
    (tmp_path / "link.json.gz").symlink_to(file)
    os.link(file, tmp_path / "same.json.gz")
    with pytest.warns(IncompleteSetWarning, match="left out 2 files that are named twice"):
        traces = tlg.load_set(file, tmp_path)
    assert [one.name for one in traces] == ["rank0"]
    told: list[str] = []
    assert trace_files([str(file), f"{tmp_path}/../{tmp_path.name}/rank0.json.gz"], told.append) == [str(file)]
    assert told == [f"left out 1 file that is named twice: {tmp_path}/../{tmp_path.name}/rank0.json.gz is {file}"]


def test_several_paths(job: Path) -> None:
    files = [job / f"rank{rank}.json.gz" for rank in range(3)]
    assert [one.rank for one in tlg.load_set(*files)] == [0, 1, 2]
    assert [one.rank for one in tlg.load_set(files[0], [str(files[1]), files[2]])] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": ("ownr",)}, "no column 'ownr'; did you mean owner?"),
        ({"columns": "ownr"}, "no column 'ownr'; did you mean owner?"),
        ({"processes": -1}, "processes=-1: expected a whole number of at least 1"),
        ({"processes": 1.5}, r"processes=1\.5"),
        ({"memory_bytes": -1}, "memory_bytes=-1: expected a number of bytes"),
        ({"memory_bytes": float("nan")}, "memory_bytes=nan"),
    ],
)
def test_options_that_make_no_sense(job: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(AnalysisError, match=said):
        tlg.load_set(job, **options)


def test_saved_graphs_and_traces_of_one_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        tlg.load(small_trace()).save(tmp_path / folder / "graph.tlg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteSetWarning)  # both are rank 3 of 8
        traces = tlg.load_set([tmp_path / "a" / "graph.tlg", tmp_path / "b" / "graph.tlg"])
    assert [one.name for one in traces] == ["a/graph", "b/graph"]
    assert traces[0].core.node(6).event


def test_lean_graphs_say_what_they_lack(job: Path) -> None:
    traces = load_core_set(trace_files([str(job)]), columns=("owner",))
    columns = traces[0].core.columns
    assert {name for name, _ in columns} == ALWAYS | {"owner"}
    assert len(columns.owner) == len(columns)
    for prop in STORED:
        if prop.name not in ALWAYS | {"owner"}:
            with pytest.raises(AnalysisError, match=f"without the column {prop.name}"):
                getattr(columns, prop.name)
    assert not hasattr(columns, "nonsense")


@pytest.mark.parametrize("name", ["collective_spread", "slowest_ranks"])
def test_lean_graphs_tell_kinds_by_annotations(name: str) -> None:
    old = launch("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)")
    core = load({FORWARD: [op("record_param_comms", annotation("nccl:_reduce_scatter_base", old))]})
    [node] = core.lean(QUESTIONS[name].columns or ()).collectives.nodes
    assert node.kind == "_reduce_scatter_base"


SEVERAL = [name for name, question in QUESTIONS.items() if question.several]


@cache
def read(folder: Path, columns: tuple[str, ...] | None) -> TraceSet:
    return load_core_set(trace_files([str(folder)]), run="job", columns=columns)


def check_lean(folder: Path, name: str) -> None:
    question = QUESTIONS[name]
    lean, whole = read(folder, None if question.columns is None else tuple(question.columns)), read(folder, None)
    pair = dict(zip(("a", "b"), [one.name for one in whole], strict=False)) if "a" in question.parameters else {}
    assert table_json(question(lean, **pair)) == table_json(question(whole, **pair))


@pytest.mark.parametrize("name", SEVERAL)
def test_questions_about_several_traces_read_what_they_say(job: Path, name: str) -> None:
    check_lean(job, name)


@pytest.mark.parametrize("name", SEVERAL)
def test_questions_about_real_ranks_read_what_they_say(corpus: Path, name: str) -> None:
    check_lean(corpus / "dlrm-8-ranks" / "kineto", name)


def test_a_run_of_a_database(job: Path, neo4j: object) -> None:
    from tracelens_graph.db.database import Database

    traces = tlg.load_set(job)
    with Database(neo4j) as graphs:  # type: ignore[arg-type]
        for one in traces:
            graphs.push(one.core, run="a set of ranks", name=one.name, labels=("kind=set",))
        again = tlg.load_set(database=graphs, run="a set of ranks")
        with pytest.raises(tlg.DatabaseError, match="no run is called 'a set of rank'; did you mean 'a set of ranks'"):
            tlg.load_set(database=graphs, run="a set of rank")
        graphs.drop("a set of ranks")
    assert [(one.path, one.labels) for one in again] == [(f"a set of ranks/rank{n}", ("kind=set",)) for n in range(3)]
    assert [one.offset_ns for one in again] == [one.offset_ns for one in traces]
    for mine, other in zip(traces, again, strict=True):
        for (name, pushed), (_, pulled) in zip(mine.core.columns, other.core.columns, strict=True):
            if name not in {"name", "argset"}:  # numbers of strings, which a database does not keep
                np.testing.assert_array_equal(pushed, pulled, name)


def test_what_ranks_say_alike_of_their_job_is_kept_once(tmp_path: Path) -> None:
    """Each rank names all ranks of its groups: kept rank by rank, that grows with the square of their number."""
    files = list(map(str, write(simulate(ranks=5, steps=1, layers=1), tmp_path, traces_only=True)))
    traces = load_core_set(files, processes=2)
    told = [one.core.info.metadata["distributedInfo"] for one in traces]
    assert [one["rank"] for one in told] == [0, 1, 2, 3, 4]
    gc.collect()
    alike = [one for one in gc.get_objects() if isinstance(one, dict) and one.get("ranks") == [0, 1, 2, 3, 4]]
    assert len(alike) == 1
    assert all(one["pg_config"][0] is alike[0] for one in told)
