"""Several traces as one object: names, ranks, runs, clocks, node ids, and what a set says of itself."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import pytest
from handmade import span

from tracelens_graph.errors import AnalysisError, NodeNotFoundError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.ranks import rank_called
from tracelens_graph.graph.trace_set import NODES_PER_TRACE, TraceMember, TraceSet
from tracelens_graph.loading.one import load_core


def trace(rank: Any = None, world_size: Any = None, base_ns: int = 0, source: str = "") -> Core:
    events = [span("cpu_op", "aten::mm", 0.0, 5.0), span("cpu_op", f"op{rank}", 6.0, 1.0)]
    top: dict[str, Any] = {"traceEvents": events, "baseTimeNanoseconds": base_ns}
    if rank is not None:
        top["distributedInfo"] = {"rank": rank, **({"world_size": world_size} if world_size else {})}
    core = load_core(top)
    core.info.source = source or core.info.source
    return core


def test_a_set_of_graphs_windows_names_and_sets() -> None:
    a, b = trace(0, source="a/rank0.json.gz"), trace(1, source="a/rank1.json.gz")
    of_list = TraceSet.of([a, b])
    assert [one.name for one in of_list] == ["rank0", "rank1"]
    assert [one.rank for one in of_list] == [0, 1]
    assert TraceSet.of(of_list) is of_list
    named = TraceSet.of({"before": a, "after": b.window(after_ns=6000)})
    assert [one.name for one in named] == ["before", "after"]
    assert [len(one.window.rows_of_kind(*range(13))) for one in named] == [2, 1]
    assert named[1].core is b
    assert [one.name for one in TraceSet.of([a, a])] == ["rank0#1", "rank0#2"]
    assert len(TraceSet.of(a)) == 1
    assert [one.run for one in TraceSet.of([a, b], run="job")] == ["job", "job"]
    for wrong in (7, [7], {"a": "b"}):
        with pytest.raises(AnalysisError, match="expected"):
            TraceSet.of(wrong)


def test_ranks_come_from_metadata_else_from_the_name() -> None:
    assert TraceSet.of(trace(source="rank12_trace.json"))[0].rank == 12
    assert TraceSet.of(trace(3, source="rank12_trace.json"))[0].rank == 3
    assert TraceSet.of(trace(source="trace.json"))[0].rank is None
    assert TraceSet([TraceMember(trace(3), "a", rank=9)])[0].rank == 9


def test_offsets_put_traces_on_one_clock() -> None:
    traces = TraceSet.of([trace(0, base_ns=5_000), trace(1, base_ns=2_000), trace(2)])
    assert [one.offset_ns for one in traces] == [3_000, 0, 0]
    given = TraceSet([TraceMember(trace(0), "a", clock_ns=50), TraceMember(trace(1), "b", clock_ns=90)])
    assert [one.offset_ns for one in given] == [0, 40]


def test_nodes_have_numbers_of_their_own() -> None:
    traces = TraceSet.of([trace(0), trace(1)])
    assert traces.node_id(1, 1) == NODES_PER_TRACE + 1
    assert traces.node(traces.node_id(1, 1)).name == "op1"
    assert traces.node(1).name == "op0"
    with pytest.raises(NodeNotFoundError, match="no trace 2 in a set of 2"):
        traces.node(2 * NODES_PER_TRACE)
    with pytest.raises(NodeNotFoundError, match="no node has uid 9"):
        traces.node(NODES_PER_TRACE + 9)
    for ordinal, uid in ((2, 0), (-1, 0), (0, -1), (0, NODES_PER_TRACE)):
        with pytest.raises(NodeNotFoundError, match=r"no trace 2 in a set of 2|no trace -1|no trace has a node"):
            traces.node_id(ordinal, uid)


@pytest.mark.parametrize("size", [2_000_000_000, 10**30, -5, [2], True, 2.5, "two", {"a": 1}])
def test_a_number_of_ranks_that_cannot_be_is_told(size: Any) -> None:
    traces = TraceSet.of({"a": trace(0, size), "b": trace(1, 2), "c": trace(0, 2)}.values())
    assert [one.core.info.world_size for one in traces] == [None, 2, 2]
    assert traces.notes[0].startswith("what 1 trace says of the job cannot be: ")
    assert "world_size " in traces.notes[0]
    assert not any("missing" in note for note in traces.notes)


@pytest.mark.parametrize("rank", [1.5, True, -1, 10**30, 2, "x", [1]])
def test_a_rank_that_cannot_be_is_told_and_none_is_missing(rank: Any) -> None:
    traces = TraceSet.of([trace(0, 2), trace(rank, 2)])
    assert [one.rank for one in traces] == [0, None]
    assert len(traces.notes) == 1
    assert "says of the job cannot be: " in traces.notes[0]
    many = TraceSet.of([trace(0, 8), trace(8, 8)])
    assert many.notes[1:] == ("6 or more of 8 ranks are missing",)


def test_slices_and_windows_keep_what_is_said() -> None:
    members = [TraceMember(trace(rank, 4), f"rank{rank}") for rank in range(3)]
    traces = TraceSet(members, ["left out 1 file"], ["x.json: broken"])
    for some in (traces[:1], traces.narrowed(after_ns=1000)):
        assert (some.notes, some.broken) == (traces.notes, traces.broken)


def test_members_are_found_by_place_path_id_and_name() -> None:
    a, b, c = trace(0), trace(1), trace(2)
    traces = TraceSet([TraceMember(a, "x", "one"), TraceMember(b, "y", "one"), TraceMember(c, "x", "two", ("k=v",))])
    assert traces["one/x"].core is traces[a.trace_id].core is a
    assert traces["y"].core is b
    assert traces["two/x"].value_of("k") == "v"
    assert traces["two/x"].value_of("l") is None
    with pytest.raises(AnalysisError, match="x is the name of several traces: one/x, two/x"):
        traces["x"]
    with pytest.raises(AnalysisError, match="no trace is called 'z' among: one/x, one/y, two/x"):
        traces["z"]
    assert [one.core for one in traces.of_run("one")] == [a, b]
    assert [one.core for one in traces.of_run()] == [c]
    assert [one.name for one in traces[:2]] == ["x", "y"]
    with pytest.raises(AnalysisError, match="no run is called 'three'; there are one, two"):
        traces.of_run("three")
    assert [one.core for one in traces.pair()] == [b, c]
    assert [one.core for one in traces.pair(b="y")] == [a, b]
    with pytest.raises(AnalysisError, match="there are no traces"):
        TraceSet([]).last()


class Called(NamedTuple):
    name: str
    rank: int | None


@pytest.mark.parametrize(
    ("ranks", "what", "place"),
    [
        ([Called("a", 1), Called("b", 0)], "1", 0),
        ([Called("a", 1), Called("b", 0)], 0, 1),
        ([Called("a", 1), Called("b", 0)], "b", 1),
        ([Called("a", None), Called("b", None)], "1", 1),  # no rank is known: the place counts
        ([Called("7", 1), Called("1", 7)], "7", 1),  # a number is that of the rank
        ([Called("7", 1), Called("8", 2)], "7", 0),  # unless there is none of that number
    ],
)
def test_a_rank_is_called_by_its_number_or_the_name_of_its_trace(
    ranks: list[Called], what: int | str, place: int
) -> None:
    assert rank_called(ranks, what) == place


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("2", "there is no rank 2 among 0 (a), 1 (b), 1 (c)"),
        ("d", "there is no rank d among 0 (a), 1 (b), 1 (c)"),
        ("1", "1 is the number of several ranks: name the trace, one of b, c"),
    ],
)
def test_a_rank_that_is_not_there_or_twice(what: str, said: str) -> None:
    with pytest.raises(AnalysisError, match=re.escape(said)):
        rank_called([Called("a", 0), Called("b", 1), Called("c", 1)], what)


def test_a_set_names_ranks_that_are_missing_doubled_or_of_another_job() -> None:
    whole = TraceSet.of([trace(rank, 2) for rank in range(2)])
    assert whole.notes == ()
    assert TraceSet.of([trace(0), trace(5)]).notes == ()
    lacking = TraceSet.of([trace(0, 4), trace(0, 4), trace(2, 4), trace(1, 8)], run="job")
    assert len(lacking.notes) == 3
    assert lacking.notes[0].endswith("is of a job of 8 ranks, the others of 4")
    assert lacking.notes[1:] == (
        "run job: rank 3 is missing: the job has 4",
        "run job: rank 0 is there more than once",
    )
    many = TraceSet.of([trace(0, 40), trace(39, 40)])
    assert many.notes == ("ranks 1, 2, 3, 4, 5, 6, 7, 8 and 30 more are missing: the job has 40",)


def test_narrowing_narrows_every_graph() -> None:
    traces = TraceSet.of({"a": trace(0), "b": trace(1)}).narrowed(after_ns=6000)
    assert [one.window.title for one in traces] == ["from 0.006 ms"] * 2
    assert repr(traces) == "<TraceSet of 2: a, b>"
