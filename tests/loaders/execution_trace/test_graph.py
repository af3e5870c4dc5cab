"""An execution trace alone as a graph: its tree is the one that was recorded, and nobody is shown a time."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_execution import SCHEMAS, THREAD, Op, made, node, process, special, tensor, trace

import tracelens_graph as tlg
from corpus import CHECKOUT, CORPUS, execution_traces, needs_corpus, parametrize
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.errors import AnalysisError, NotATraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import window_of
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind

EXAMPLE = CHECKOUT / "examples/traces/tiny-transformer-cpu"
ALONE = f"{EXAMPLE}.execution-trace.json.gz"


def nearest(core: Core, kinds: tuple[Kind, ...]) -> np.ndarray:
    """For each row of the execution trace the nearest node of some kinds above it, by its own parents."""
    assert core.link is not None
    execution, rows = core.link.execution, core.link.row_of_node
    wanted = np.zeros(len(execution), bool)
    wanted[rows >= 0] = np.isin(core.columns.kind[rows[rows >= 0]], kinds)
    above = np.full(len(execution), -1)
    for row, parent in enumerate(execution.parent.tolist()):
        if parent >= 0:
            above[row] = parent if wanted[parent] else above[parent]
    return above


def assert_tree_as_recorded(core: Core) -> None:
    """Parents of ops, and annotations over them, are those of the execution trace."""
    assert core.link is not None
    node = core.link.node_of_row
    ops = np.flatnonzero(core.columns.kind == Kind.Op)

    def nodes(rows: np.ndarray) -> np.ndarray:
        return np.where(rows >= 0, node[rows], -1)

    assert np.array_equal(nodes(core.columns.parent[ops]), nearest(core, (Kind.Op,))[node[ops]])
    assert np.array_equal(nodes(core.annotation[ops]), nearest(core, (Kind.Annotation, Kind.Step))[node[ops]])


@parametrize("path", execution_traces())
def test_the_tree_is_the_recorded_one(path: Path) -> None:
    core = load_core(path)
    assert_tree_as_recorded(core)
    assert core.info.damage == ""
    assert core.link is not None
    execution = core.link.execution
    assert len(core.columns) == execution.is_op.sum()
    assert np.array_equal(core.columns.uid, execution.place[core.link.node_of_row])
    assert np.array_equal(core.link.row_of_node[core.link.node_of_row], np.arange(len(core.columns)))
    assert [tid for _, tid in core.threads] == sorted(set(execution.tid[execution.is_op].tolist()))


def test_the_tree_of_the_example_is_the_recorded_one() -> None:
    assert_tree_as_recorded(load_core(ALONE))


@st.composite
def traces(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Threads that call, return and take turns at random; nodes are numbered at begin and written at end."""
    threads = draw(st.integers(1, 3))
    stacks: list[list[Op]] = [[] for _ in range(threads)]
    last = THREAD + threads
    written: list[dict[str, Any]] = [special(thread=THREAD + i, tid=i + 1) for i in range(threads)]
    for thread, calls in draw(st.lists(st.tuples(st.integers(0, threads - 1), st.booleans()), max_size=60)):
        stack = stacks[thread]
        if calls or not stack:
            last += draw(st.integers(1, 3))
            scope = draw(st.sampled_from((0, 0, 7)))
            parent = stack[-1].id if stack else THREAD + thread
            stack.append(Op(last, f"op {last}", parent, facts={"tid": thread + 1, "scope": scope}))
        else:
            written.append(node(stack.pop()))
    written += [node(op) for stack in stacks for op in reversed(stack)]
    return [*written, process()]


@given(traces())
def test_the_tree_of_any_trace_is_the_recorded_one(nodes: list[dict[str, Any]]) -> None:
    core = load_core(made(nodes))
    assert core.info.damage == ""
    assert_tree_as_recorded(core)
    c = core.columns
    moments = np.concatenate((c.start_ns, c.end_ns))
    assert len(np.unique(moments)) == len(moments)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_small_graph(schema: str) -> None:
    ops = [
        Op(5, "aten::mul", 4, [tensor(9), (2, [], "Int", [])], [tensor(10)], {"rf_id": 8, "seq_id": 3}),
        Op(4, "aten::add", 3, facts={"op_schema": "add(x)", "scope": 0}),
        Op(3, "ProfilerStep#1", facts={"scope": 7}),
        Op(6, "my range", facts={"scope": 7}),
        Op(7, "torch.ops.mine", facts={"scope": 7, "op_schema": "mine(x)"}),
    ]
    core = load_core(trace(ops, schema))
    kinds = {one.name: one.kind for one in core.nodes_at(range(5))}
    assert kinds == {
        "aten::mul": Kind.Op, "aten::add": Kind.Op, "ProfilerStep#1": Kind.Step, "my range": Kind.Annotation,
        "torch.ops.mine": Kind.Op,
    }  # fmt: skip
    (mul,) = core.find(name="aten::mul")
    assert (mul.uid, mul.pid, mul.tid) == (1, 77, 1)
    assert mul.parent is not None
    assert mul.parent.name == "aten::add"
    assert mul.shapes["Input Dims"] == [[2, 3], []]
    assert mul.shapes["Concrete Inputs"] == ["", "2"]
    assert mul.event["cat"] == "cpu_op"
    assert mul.args["Record function id"] == 8
    assert mul.args["Inputs"][0]["value"][0] == 9
    assert "ts" not in mul.event
    assert core.info.metadata == {"schema": schema, "time": "2026-01-02 03:04:05"}
    assert core.info.left_out == {"process or thread": 2}


@pytest.mark.parametrize(
    ("alone", "profile"),
    [
        (ALONE, f"{EXAMPLE}.json.gz"),
        pytest.param(
            "linkage/resnet-ddp/execution-trace-1.0.3.json.gz", "hta/resnet-ddp-nccl-args.json.gz", marks=needs_corpus
        ),
    ],
    ids=["example", "resnet"],
)
def test_kinds_and_links_are_those_of_the_profile(alone: str, profile: str) -> None:
    """The same run, or the same program, by both recorders."""
    folder = CORPUS or Path()
    one, other = load_core(folder / alone), load_core(folder / profile)
    assert one.link is not None
    records = one.link.execution.rf_id[one.link.node_of_row]
    row_of = {record: row for row, record in enumerate(records.tolist()) if record}
    events = other.details.events(other.columns.uid.tolist())
    told = [events[uid].get("args", {}).get("Record function id", 0) for uid in other.columns.uid.tolist()]
    same = {there: row_of[record] for there, record in enumerate(told) if record in row_of}
    assert len(same) > 0.99 * len(records)
    for there, here in same.items():
        assert one.names[one.columns.name[here]] == other.names[other.columns.name[there]]
        assert one.columns.kind[here] == other.columns.kind[there]
        if one.columns.sequence[here] >= 0:  # the observer tells none of the autograd engine's own ranges
            assert one.columns.sequence[here] == other.columns.sequence[there]
            assert one.columns.forward_thread[here] == other.columns.forward_thread[there]
    pairs = zip(other.autograd.forward.tolist(), other.autograd.backward.tolist(), strict=True)
    known = {(same[a], same[b]) for a, b in pairs if a in same and b in same}
    found = set(zip(one.autograd.forward.tolist(), one.autograd.backward.tolist(), strict=True))
    assert found == known


def test_nobody_is_shown_a_time() -> None:
    g = tlg.load(ALONE)
    assert not g.info.has_times
    for shown in (repr(g), g._repr_html_(), repr(g.node(3)), g.node(3)._repr_html_()):
        assert " ms" not in shown
        assert " us" not in shown
        assert "_ns" not in shown
    assert "start_ns" not in g.nodes[3]
    assert g.nodes[3] == g.node(3).attributes()


def test_what_needs_times_is_refused_with_what_to_load(tmp_path: Path) -> None:
    g = tlg.load(ALONE)
    for ask in (
        lambda: gpu_timeline(g),
        lambda: g.tables["ops_summary"],
        lambda: g.window(after_ns=3),
        lambda: tlg.diff(g, g),
        lambda: g.export(tmp_path / "x.csv"),
    ):
        with pytest.raises(AnalysisError, match="no times and no kernels") as caught:
            ask()
        assert str(caught.value).endswith(f"profiler's trace of the same run, with et='{ALONE}' to link the two")
        assert "\n" not in str(caught.value)
    assert window_of(g, needs_times=False) is g.everything
    assert len(g.window(under="aten::linear").rows_of_kind(Kind.Op)) > 0


def test_a_saved_graph_still_tells_no_times(tmp_path: Path) -> None:
    g = tlg.load(ALONE)
    g.save(tmp_path / "x.tlg")
    again = tlg.load(tmp_path / "x.tlg")
    assert not again.info.has_times
    assert again.node(3).args == g.node(3).args
    with pytest.raises(AnalysisError, match="no times"):
        gpu_timeline(again)


def test_a_graph_travels_with_its_execution_trace() -> None:
    g = tlg.load(ALONE)
    again = pickle.loads(pickle.dumps(g))
    assert again.link is not None
    assert np.array_equal(again.link.execution.id, g.link.execution.id)
    assert again.node(3).args == g.node(3).args


def test_sets_leave_execution_traces_of_other_runs_out(tmp_path: Path) -> None:
    other = tmp_path / "et.json"
    other.write_bytes(trace([Op(3), Op(4)]))
    traces = load_core_set([f"{EXAMPLE}.json.gz", str(other)])
    assert [one.core.info.has_times for one in traces] == [True]
    assert any("et.json" in line for line in traces.notes)
    with pytest.raises(NotATraceError, match="is a PyTorch execution trace, which has no times"):
        load_core_set([ALONE])


@pytest.mark.parametrize("events", [[], [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("many", [1, 3000])
def test_nodes_win_over_an_event_list_without_events(events: list[Any], is_first: bool, many: int) -> None:
    whole = made([special(), *(node(Op(3 + i, f"op {i}")) for i in range(many)), process()])
    list_of = {"traceEvents": events}
    core = load_core(json.dumps({**list_of, **whole} if is_first else {**whole, **list_of}).encode())
    assert (core.info.has_times, len(core.columns)) == (False, many)
