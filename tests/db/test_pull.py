"""What was pushed comes back: the same columns, edges, facts and tables, saved and loaded again, too."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import HOSTILE, small_trace, span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces
from memory_snapshots import SNAPSHOT
from memory_traces import training
from profiles import examples
from typer.testing import CliRunner

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.memory.holders import memory_peak
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.api import from_networkx
from tracelens_graph.cli.db import app
from tracelens_graph.db import pull
from tracelens_graph.db.connection import Connection
from tracelens_graph.db.database import Database
from tracelens_graph.db.image import Options
from tracelens_graph.errors import DatabaseError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.fused import with_ranks_apart
from tracelens_graph.loading.one import load_core
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.schema import Flag, Kind
from tracelens_graph.schema.database import ARGUMENTS_OF_TABLES
from tracelens_graph.stores.frames import ARGSET_PARTS, edge_columns, node_columns
from tracelens_graph.stores.graph_file import write_graph

RUN = "pull"
NAMES = (
    HOSTILE,
    "a\"b'c\\",
    "line\nbreak\r",
    "nul\x00",
    "",
    " blank ",
    "x" * 100_000,
    "\U0001f600\u2028",
    "$trace}) //",
)
REAL = (
    "dlrm-8-ranks/kineto/rank0",
    "hta/amd/mi250-minitoy",
    "hta/cpu-only/rank-34",
    "hta/critical-path/event-sync-multi-stream",
    "linkage/simple-add/kineto",
    "tracelens/h100/bert-small",
    "tracelens/inference/vllm-decode/graph-replay",
    "tracelens/mi210/gpu-only",
    "tracelens/mi300/normalization-layers",
    "tracelens/mi300/resnet-ddp-checkpointing",
    "tracelens/mi300/torch-compile-triton",
    "tracelens/mi300/vit-nsfw",
)


@pytest.fixture(scope="module")
def database(neo4j: Connection) -> Iterator[Database]:
    with Database(neo4j) as found:
        yield found


def marked(trace: dict[str, Any], mark: str) -> Core:
    """A graph whose id no other test has."""
    return load_core(json.dumps({"pushed_by": mark, **trace}).encode())


def odd_trace() -> dict[str, Any]:
    """Names, threads and numbers that are odd, flags, arrows that lead somewhere and nowhere, dependencies."""
    events = small_trace()["traceEvents"]
    wide = {"pid": 2**70, "tid": "worker \u20ac"}
    for place, name in enumerate(NAMES):
        events.append(span("cpu_op", name, 2000 + place, 0.5, **wide, Input_Dims=[[place]], Input_type=[name[:20]]))
    events += [
        span("cpu_op", "forward", 3000, 10, Sequence_number=7, Concrete_Inputs=["", "[1, 2]"]),
        span("cpu_op", "other", 3020, 10, Sequence_number=8),
        span("cpu_op", "BackwardBackward0", 3100, 50, tid=200, Sequence_number=7, Fwd_thread_id=1),
        span("cpu_op", "inner", 3110, 60, tid=200),  # outlives the one it starts in
        {**span("cpu_op", "endless", 3300, 0), "dur": None},
        {**span("cpu_op", "backwards", 3400, 0), "dur": -5},
        span("cpu_op", "numbers", 3500, 1, External_id=2**62, Sequence_number=2**40, Collective_name="allreduce",
             In_msg_nelems=2**40, dtype="Float", Process_Group_Ranks="[0, 1]"),
        span("cuda_runtime", "cudaLaunchKernel", 3510, 1, correlation=2**31 + 5),
        span("kernel", "ncclKernel", 3505, 3, 0, 9, device=0, stream=9, correlation=2**31 + 5),
    ]  # fmt: skip
    for key, tail, head in ((1, (100, 3000), (200, 3100)), (2, (100, 3020), (200, 3100)), (3, (100, 1), (200, 2))):
        for phase, (tid, ts) in (("s", tail), ("f", head)):
            events.append({"ph": phase, "cat": "fwdbwd", "id": key, "name": "", "pid": 100, "tid": tid, "ts": ts})
    for phase, tid, ts in (("s", 7, 1150.25), ("f", 9, 3505)):
        events.append({"ph": phase, "cat": "ac2g", "id": 2**40 + 1, "name": "", "pid": 0, "tid": tid, "ts": ts})
    return {**small_trace(), "traceEvents": events}


def assert_same(pushed: Core, pulled: Core) -> None:
    """Equal as far as a graph can be looked at. White space in argument sets is that of whoever pushed them last."""
    ours, theirs = node_columns(pushed), node_columns(pulled)
    assert list(ours) == list(theirs)
    for name in ours:
        one, other = ours[name].tolist(), theirs[name].tolist()
        if name in ARGSET_PARTS:
            one, other = (["".join((text or "").split()) for text in column] for column in (one, other))
        assert one == other, name
    for name, column in edge_columns(pushed).items():
        assert column.tolist() == edge_columns(pulled)[name].tolist(), name
    assert pulled.names == sorted({name for name in node_columns(pushed)["name"].tolist() if name is not None})
    assert pulled.threads == pushed.threads
    assert dict(pulled.collective_args) == dict(pushed.collective_args)
    assert pulled.trace_id == pushed.trace_id
    assert pulled.info == replace(pushed.info, source=Path(pushed.info.source).name)
    assert pulled.autograd.lost_arrows == pushed.autograd.lost_arrows
    assert np.array_equal(pulled.autograd.by_arrow, pushed.autograd.by_arrow)


def assert_same_tables(pushed: Core, pulled: Core) -> None:
    for make in (report_tables, inventory):
        ours, theirs = make(pushed), make(pulled)
        assert list(ours) == list(theirs)
        for name, table in ours.items():
            pd.testing.assert_frame_equal(table.to_pandas(), theirs[name].to_pandas(), obj=name)
    assert_same_answers(pushed, pulled)


def assert_same_answers(pushed: Core, pulled: Core) -> None:
    for name, question in QUESTIONS.items():
        if not question.several:
            table, other = question(pushed), question(pulled)
            pd.testing.assert_frame_equal(table.to_pandas(), other.to_pandas(), obj=name, check_dtype=False)
            assert table.notes == other.notes, name


def again(core: Core, folder: Path) -> Core:
    """The graph from a file that it was saved to."""
    write_graph(core, folder / "saved.tlg")
    return load_core(folder / "saved.tlg")


@needs_corpus
@pytest.mark.parametrize("trace", REAL)
def test_real_graphs_come_back(trace: str, database: Database, tmp_path: Path) -> None:
    assert CORPUS is not None
    text = gzip.decompress((CORPUS / f"{trace}.json.gz").read_bytes()).lstrip()
    assert text.startswith(b"{")
    core = load_core(b'{"pushed_by":"pull",' + text[1:])
    database.push(core, run=RUN, name=trace)
    pulled = database.pull_core(f"{RUN}/{trace}")
    assert_same(core, pulled)
    assert_same_tables(core, pulled)
    assert_same(core, again(pulled, tmp_path))
    described = {kind for kind in Kind if any(pulled.node(uid).args for uid in uids_of(core, kind))}
    assert described <= set(ARGUMENTS_OF_TABLES)


def uids_of(core: Core, kind: Kind) -> list[int]:
    return core.columns.uid[core.columns.kind == kind][:100].tolist()


def test_memory_comes_back(database: Database) -> None:
    core = marked({"traceEvents": training()}, "pull memory")
    database.push(core, run=RUN, name="memory")
    pulled = database.pull_core("memory")
    assert_same_tables(core, pulled)
    assert memory_peak(pulled).columns["device"][0] == "cuda:0"


def test_snapshots_of_memory_come_back(database: Database) -> None:
    core = load_core(pickle.dumps(SNAPSHOT))
    database.push(core)  # as all tests do that have it
    assert_same_tables(core, database.pull_core(core.trace_id))


@needs_corpus
@pytest.mark.parametrize("file", ["nsys/mfu_2gpu_after.sqlite", "rocprofv3/rocprof_908_results.json.gz"])
def test_reports_of_other_profilers_come_back(database: Database, file: str) -> None:
    assert CORPUS is not None
    path = with_ranks_apart([str(CORPUS / "external" / file)])[0]
    core = load_core(path)
    database.push(core, run=RUN, name=file)
    pulled = database.pull_core(f"{RUN}/{file}")
    assert_same(core, pulled)
    assert_same_answers(core, pulled)


@needs_corpus
def test_profiles_of_jax_come_back(database: Database) -> None:
    assert CORPUS is not None
    core = load_core((CORPUS / "tracelens/jax/conv-legacy.xplane.pb").read_bytes())
    database.push(core, run=RUN, name="jax", replace=True)
    assert_same_tables(core, database.pull_core(f"{RUN}/jax"))
    database.drop(core.trace_id)


@needs_corpus
def test_pulled_graphs_are_linked_with_their_execution_trace(database: Database, tmp_path: Path) -> None:
    assert CORPUS is not None
    of_run = CORPUS / "dlrm-8-ranks/execution-trace/rank1.json.gz"
    core = load_core((CORPUS / "dlrm-8-ranks/kineto/rank1.json.gz").read_bytes(), et=of_run)
    database.push(core, run=RUN, name="linked", replace=True)
    write_graph(database.pull_core(f"{RUN}/linked"), tmp_path / "saved.tlg")
    pulled = load_core(tmp_path / "saved.tlg", et=of_run)
    assert_same_answers(core, pulled)
    database.drop(core.trace_id)


@pytest.fixture(scope="module")
def odd(database: Database) -> Core:
    core = marked(odd_trace(), "pull odd")
    database.push(core, run=RUN, name="odd", options=Options(with_args=True))
    return core


def test_odd_things_come_back_with_all_arguments(odd: Core, database: Database, tmp_path: Path) -> None:
    assert set(np.unique(odd.columns.flags)) >= {0, Flag.outlives_parent, Flag.no_duration, Flag.negative_duration}
    assert odd.columns.flags.max() >= Flag.starts_before_launch
    assert odd.autograd.lost_arrows == 1
    assert len(odd.autograd.by_arrow[0]) == 2
    assert len(odd.depends_on) == 1
    pulled = database.pull("odd")
    assert isinstance(pulled, TraceGraph)
    saved = again(pulled, tmp_path)
    for other in (pulled, saved):
        assert_same(odd, other)
        assert_same_tables(odd, other)
        for uid in odd.columns.uid.tolist():
            assert other.node(uid).args == odd.node(uid).args
    assert pulled.node(5).args["Input Dims"] == [[8, 16], [32, 16]]


def test_batches_hold_few_events_and_little_text(
    odd: Core, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "BATCH", 5)
    monkeypatch.setattr(pull, "BATCH_BYTES", 40)
    monkeypatch.setattr(pull, "_ARGS_AT_ONCE", 7)
    monkeypatch.setattr(pull, "_KEYS_AT_ONCE", 2)
    seen: list[tuple[int, int]] = []
    pulled = database.pull_core("odd", progress=lambda done, size: seen.append((done, size)))
    assert_same(odd, pulled)
    assert pulled.node(5).args == odd.node(5).args
    size = len(odd.columns) + odd.info.events
    assert {total for _, total in seen} == {size}
    assert seen[-1][0] == size
    steps = np.diff([0, *(done for done, _ in seen)])
    assert steps.min() > 0
    assert steps.max() <= 7


@examples(5)
@given(made=st.lists(traces(), min_size=4, max_size=4))
def test_made_graphs_come_back(
    made: list[dict[str, Any]], database: Database, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for number, trace in enumerate(made):
        core = marked(trace, f"pull made {number}")
        database.push(core, run=RUN, name=f"made-{core.trace_id}", options=Options(with_args=True))
        pulled = database.pull_core(core.trace_id)
        assert_same(core, pulled)
        assert_same(core, again(pulled, tmp_path_factory.getbasetemp()))
        assert all(pulled.node(uid).args == core.node(uid).args for uid in core.columns.uid.tolist())


def test_halves_of_characters_come_back_replaced(database: Database) -> None:
    core = marked({"traceEvents": [span("cpu_op", "half \ud800", 1, 1)]}, "pull half")
    database.push(core, run=RUN, name="half")
    assert database.pull_core("half").names == ["half \ufffd"]


def test_a_graph_without_a_file_comes_back(database: Database) -> None:
    core = from_networkx(TraceGraph(marked(small_trace(), "pull networkx")).to_networkx())
    database.push(core, run=RUN, name="networkx")
    assert_same(core, database.pull_core("networkx"))


def test_a_trace_without_events_comes_back(database: Database) -> None:
    core = marked({"traceEvents": []}, "pull empty")
    database.push(core, run=RUN, name="empty")
    assert_same(core, database.pull_core("empty"))


def test_what_lacks_events_is_refused(database: Database) -> None:
    core = marked(small_trace(), "pull lean")
    database.push(core, run=RUN, name="lean", options=Options(kinds=(Kind.Kernel.name,)))
    with pytest.raises(DatabaseError, match=r"^pull/lean was pushed without some of its events"):
        database.pull("lean")


CHANGES = {
    "MATCH (t:Trace {id: $id}) SET t.state = 'loading'": "is not complete in the database (loading): push it again",
    "MATCH (t:Trace {id: $id}) SET t.schema_version = 0": "is stored in model",
    "MATCH (t:Trace {id: $id}) SET t.database_version = 1": "is stored in model",
    "MATCH (t:Trace {id: $id}) REMOVE t.database_version": "is stored in model",
    "MATCH (n:Op {trace: $id, uid: 11}) DETACH DELETE n": "12 events are there in place of those pushed",
    "MATCH (n:Op {trace: $id, uid: 11}) SET n.pre = 3": "events are missing",
    "MATCH (t:Trace {id: $id}) SET t.nodes = 4000000000000": "13 events are there in place of those pushed",
    "MATCH (n:Op {trace: $id, uid: 11}) SET n.start_ns = 1.5": "a property or a label is not what was pushed",
    "MATCH (n:Op {trace: $id, uid: 11}) SET n.start_ns = true": "a property or a label is not what was pushed",
    "MATCH (n:Op {trace: $id, uid: 11}) SET n.thread = 4294967296": "a property or a label is not what was pushed",
    "MATCH (n:Op {trace: $id, uid: 11}) SET n.name = 5": "a property or a label is not what was pushed",
    "MATCH (n:Op {trace: $id, uid: 11}) SET n.collective = '{'": "a property or a label is not what was pushed",
    "MATCH (n:Kernel {trace: $id, uid: 9})-[e:CHARGED_TO]->() DELETE e": "edges CHARGED_TO are there in place of",
    "MATCH (n:Event {trace: $id})-[e:HAS_SIGNATURE]->() DELETE e": "0 edges HAS_SIGNATURE are there in place of",
    "MATCH (n:Op {trace: $id, uid: 6}) CREATE (n)-[:DEPENDS_ON]->(n)": "1 edges DEPENDS_ON are there in place of 0",
    "MATCH (n:Op {trace: $id, uid: 11}) REMOVE n.start_ns": "a property or a label is not what was pushed",
    "MATCH (n:Op {trace: $id, uid: 11}) SET n.name = null": "a property or a label is not what was pushed",
    "MATCH (n:Op {trace: $id, uid: 11}) REMOVE n:Op": "a property or a label is not what was pushed",
    "MATCH (n:Op {trace: $id, uid: 6}) SET n.last = 100000": "calls are missing",
    "MATCH (n:Op {trace: $id, uid: 6})<-[e:CALLS]-() DELETE e": "calls are missing",
    "MATCH (n:Kernel {trace: $id, uid: 9})<-[e:LAUNCHES]-() DELETE e": "calls are missing",
    "MATCH (n:Op {trace: $id, uid: 11}) SET n.thread = 1000": "threads are missing",
    "MATCH (n:Op {trace: $id, uid: 11}) SET n.arrows = '[100000]'": "ends of arrows are missing",
}


@pytest.fixture(scope="module")
def small(database: Database) -> Core:
    return marked(small_trace(), "pull changed")


@pytest.mark.parametrize(("change", "said"), CHANGES.items())
def test_what_somebody_changed_is_refused(change: str, said: str, small: Core, database: Database) -> None:
    database.push(small, run=RUN, name="changed", replace=True)
    assert_same(small, database.pull_core("changed"))
    database.ask(change, write=True, id=small.trace_id)
    with pytest.raises(DatabaseError, match=r"^pull/changed ") as raised:
        database.pull_core("changed")
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_questions_of_a_trace_in_another_model_are_refused(small: Core, database: Database, tmp_path: Path) -> None:
    database.push(small, run=RUN, name="changed", labels=["commit=1"], replace=True)
    old = "SET t.database_version = 1, t.labels = ['commit=1'] REMOVE t.label_commit"
    database.ask(f"MATCH (t:Trace {{id: $id}}) {old}", write=True, id=small.trace_id)
    with pytest.raises(
        DatabaseError, match=r"pull/changed is stored in model \d+\.1 .* reads model \d+\.\d+: .*db upgrade"
    ):
        database.ask("odd_layers", trace=small.trace_id)
    for name in ("run_history", "regressions"):  # of all traces: this one may be missing
        assert any("pull/changed" in note for note in database.ask(name).notes)
    (tmp_path / "moved.json").write_text(json.dumps({"pushed_by": "pull changed", **small_trace()}))
    arguments = ["upgrade", str(tmp_path), "--uri", database.connection.uri]
    upgraded = CliRunner().invoke(app, arguments, env={"NEO4J_PASSWORD": database.connection.password})
    assert upgraded.exit_code == 0, upgraded.output
    assert "replaced pull/changed" in upgraded.output or "replaced changed" in upgraded.output
    (trace,) = (one for one in database.traces() if one["id"] == small.trace_id)
    assert (trace["path"], trace["label_commit"], "labels" in trace) == ("pull/changed", 1, False)
    assert len(database.pull_core("changed").columns) == len(small.columns)
    again = CliRunner().invoke(app, arguments, env={"NEO4J_PASSWORD": database.connection.password})
    assert "older" in again.output


def test_what_is_replaced_meanwhile_is_refused(small: Core, database: Database) -> None:
    database.push(small, run=RUN, name="changed", replace=True)
    with pytest.raises(DatabaseError, match="was changed by somebody else while it was read"):
        database.pull_core(
            "changed", progress=lambda done, size: database.push(small, run=RUN, name="changed", replace=True)
        )


def test_unknown_traces_are_named(odd: Core, database: Database) -> None:
    with pytest.raises(DatabaseError, match=r"no trace 'pull/ood' is in the database; did you mean pull/odd\?"):
        database.pull("pull/ood")
