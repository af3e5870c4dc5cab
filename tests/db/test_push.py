"""Pushing into a real server and dropping from it: what is there afterwards is the image, however it came there."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from handmade import hostile_trace
from neo4j_server import Contents, Home, assert_same, contents, rows

from tracelens_graph.db import batches, catalog
from tracelens_graph.db.database import Database, image
from tracelens_graph.db.image import Edges, Image, Options, Placement
from tracelens_graph.errors import DatabaseError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import architecture
from tracelens_graph.schema import CONTEXT_EDGES, EVENT_EDGES, GPU_KINDS, Kind
from tracelens_graph.schema.database import CONTEXT_PROPERTIES, EDGE_PROPERTIES, EVENT, EVENT_PROPERTIES, HEAT, KEYS
from tracelens_graph.simulate import simulate


@pytest.fixture
def database(home: Home) -> Iterator[Database]:
    """A database without any trace."""
    with Database(home.connection) as found:
        for trace in found.traces():
            found.drop(trace["id"])
        assert_same(contents(home.connection), Contents(Counter(), Counter()))
        yield found


@pytest.fixture(scope="module")
def ranks() -> list[Core]:
    return [load_core(rank.trace) for rank in simulate(2, steps=1, layers=1, seed=31).ranks]


@pytest.fixture(scope="module")
def other() -> Core:
    return load_core(simulate(1, steps=2, layers=1, seed=32, tokens=256).ranks[0].trace)


def placed(core: Core, name: str = "rank0", run: str = "run") -> Image:
    return image(core, Placement(run, name))


def expected(*images: Image) -> Contents:
    """What a database holds after images are pushed that share nothing but equal knowledge."""
    nodes: dict[tuple[Any, ...], str] = {}
    edges = set()
    for found in images:
        scopes = {"trace": found.properties["id"], "run": found.properties["run"]}

        def ends(label: str, key: Any, scopes: dict[str, str] = scopes) -> list[Any]:
            scope = KEYS[label].scope
            if label == "Trace":  # its run is a property, not its scope
                return [None, scopes["run"], key]
            return [scopes["trace"] if scope == "trace" else None, scopes["run"] if scope == "run" else None, key]

        for group in found.nodes:
            scope = KEYS[group.labels[0]].scope
            for row in rows(group):
                known = {name: value for name, value in row.items() if value is not None}
                known |= {scope: scopes[scope]} if scope else {}
                identity = (group.labels[0], *ends(group.labels[0], row[KEYS[group.labels[0]].name]))
                nodes[identity] = repr((sorted(group.labels), sorted(known.items())))
        trace = {name: value for name, value in found.properties.items() if value is not None} | {"state": "complete"}
        nodes["Trace", found.properties["id"]] = repr((["Trace"], sorted(trace.items())))
        for group in found.edges:
            names = [prop.name for prop in group.properties]
            for source, target, *values in group.rows(0, len(group)):
                known = [item for item in zip(names, values, strict=True) if item[1] is not None]
                edges.add((group.type, repr(sorted(known)), *ends(group.source, source), *ends(group.target, target)))
    return Contents(Counter(nodes.values()), Counter(edges))


def test_what_is_there_is_the_image(database: Database, other: Core) -> None:
    hostile = image(load_core(hostile_trace()), Placement("a`b\"'\n}", "{x}\\"), Options(with_args=True))
    plain = placed(other)
    seen: list[tuple[int, int]] = []
    assert database.push_image(hostile, progress=lambda *at: seen.append(at)) == "pushed"
    assert database.push_image(plain) == "pushed"
    assert_same(contents(database.connection), expected(hostile, plain))
    assert seen == sorted(seen)
    assert seen[-1] == (hostile.size, hostile.size)


def test_nothing_undeclared_is_written(database: Database, ranks: list[Core], other: Core) -> None:
    database.push_image(image(load_core(hostile_trace()), Placement("r", "hostile"), Options(with_args=True)))
    for number, core in enumerate((*ranks, other)):
        database.push_image(placed(core, f"rank{number}"))
    declared = {label: {prop.name: prop.type for prop in found} for label, found in CONTEXT_PROPERTIES.items()}
    declared[EVENT] = {prop.name: prop.type for prop in EVENT_PROPERTIES}
    for label, properties in declared.items():
        key = KEYS[label]
        properties |= {key.scope: "str"} if key.scope else {}
        properties.setdefault(key.name, "str")
    words = {"int": "Long", "float": "Double", "str": "String", "bool": "Boolean", "strs": "StringArray"}
    table = database.ask("CALL db.schema.nodeTypeProperties() YIELD nodeLabels, propertyName, propertyTypes RETURN *")
    extra = {*HEAT, "GpuEvent", *(kind.name for kind in Kind)}
    for row in table.records():
        label = next(one for one in row["nodeLabels"] if one in declared)
        assert set(row["nodeLabels"]) - {label} <= (extra if label == EVENT else set())
        assert row["propertyTypes"] == [words[declared[label][row["propertyName"]]]], row
    of_edges = database.ask(
        "CALL db.schema.relTypeProperties() YIELD relType, propertyName, propertyTypes RETURN *"
    ).records()
    types = {edge.name for edge in (*EVENT_EDGES, *CONTEXT_EDGES)}
    assert {row["relType"].strip(":`") for row in of_edges} <= types
    for row in of_edges:
        if row["propertyName"]:
            declared_here = {prop.name: words[prop.type] for prop in EDGE_PROPERTIES[row["relType"].strip(":`")]}
            assert row["propertyTypes"] == [declared_here[row["propertyName"]]]
    nameless = database.ask("MATCH (n) WHERE n.name IS NULL RETURN count(n) AS n").records()
    assert nameless == [{"n": 0}]
    of_gpu = database.ask(
        "MATCH (n:GpuEvent) RETURN DISTINCT [l IN labels(n) WHERE l IN $k] AS k", k=[k.name for k in Kind]
    )
    assert {kind for row in of_gpu.records() for kind in row["k"]} <= {kind.name for kind in GPU_KINDS}


def test_pushing_again_changes_nothing(database: Database, other: Core) -> None:
    database.push_image(placed(other))
    before = database.traces()
    assert database.push_image(placed(other)) == "unchanged"
    assert database.traces() == before
    assert before[0]["state"] == "complete"
    assert before[0]["begun_ns"] < before[0]["pushed_ns"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"placement": Placement("run", "other")}, "another name (run/rank0, not run/other)"),
        ({"placement": Placement("run", "rank0", {"a": 1, "b": "x"})}, "other labels (none, not a=1, b=x)"),
        ({"options": Options(("Op", "Kernel"))}, "other options (all events, not Op, Kernel)"),
        ({"arch": architecture("mi300x")}, "another device (h100-sxm, not mi300x)"),
    ],
)
def test_what_differs_is_said_and_replaced_when_wanted(
    database: Database, other: Core, change: dict[str, Any], says: str
) -> None:
    database.push_image(placed(other))
    changed = image(other, **({"placement": Placement("run", "rank0")} | change))
    with pytest.raises(DatabaseError) as error:
        database.push_image(changed)
    assert str(error.value) == f"run/rank0 is in the database with {says}: push it with --replace"
    assert_same(contents(database.connection), expected(placed(other)))
    (before,) = database.traces()
    assert database.push_image(changed, replace=True) == "replaced"
    assert_same(contents(database.connection), expected(changed))
    (after,) = database.traces()
    assert after["pushed_ns"] == before["pushed_ns"]  # builds stay in their order


def test_another_version_is_said(database: Database, other: Core) -> None:
    found = placed(other)
    database.push_image(replace(found, properties=found.properties | {"tool_version": "0.0.1", "schema_version": 0}))
    with pytest.raises(
        DatabaseError, match=r"another version of the graph model \(0, not .*of tracelens_graph \(0.0.1"
    ):
        database.push_image(found)


def test_a_name_belongs_to_one_trace_of_a_run(database: Database, ranks: list[Core]) -> None:
    database.push_image(placed(ranks[0]))
    with pytest.raises(DatabaseError, match=f"run/rank0 is the name of another trace .*{ranks[0].trace_id}.*--as"):
        database.push_image(placed(ranks[1]))
    with pytest.raises(DatabaseError, match="a name of 501 characters is too long: 500 at most"):
        database.push_image(placed(ranks[1], "x" * 501))
    assert_same(contents(database.connection), expected(placed(ranks[0])))


@pytest.mark.parametrize("same_run", [True, False])
def test_a_dropped_trace_leaves_nothing_behind(
    database: Database, ranks: list[Core], other: Core, same_run: bool
) -> None:
    first = placed(ranks[0])
    second = placed(ranks[1], "rank1") if same_run else placed(other, run="other")
    database.push_image(second)
    alone = contents(database.connection)
    database.drop(second.properties["id"])
    database.push_image(first)
    database.push_image(second)
    assert sum(alone.nodes.values()) < sum(contents(database.connection).nodes.values())
    assert database.drop("run/rank0") == ["run/rank0"]
    assert_same(contents(database.connection), alone)
    database.drop(second.properties["run"])
    assert_same(contents(database.connection), Contents(Counter(), Counter()))


@pytest.mark.parametrize("then", ["drop", "push"])
def test_a_drop_that_was_cut_off_is_gone_on_with(
    database: Database, other: Core, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "DELETED_AT_ONCE", 100)
    found = placed(other)
    database.push_image(found)
    with pytest.raises(KeyboardInterrupt):
        database.drop("run", interrupting(3))
    assert [trace["state"] for trace in database.traces()] == ["dropping"]
    left = expected(found).nodes.total() - contents(database.connection).nodes.total()
    assert left == 400
    if then == "drop":
        assert database.drop("run") == ["run/rank0"]
        assert_same(contents(database.connection), Contents(Counter(), Counter()))
    else:
        assert database.push_image(found) == "pushed"
        assert_same(contents(database.connection), expected(found))


def interrupting(after: int) -> Callable[[int, int], None]:
    calls = iter(range(after))

    def progress(_done: int, _all: int) -> None:
        if next(calls, None) is None:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("after", [0, 5, 25])
def test_an_interrupted_push_is_completed(database: Database, other: Core, after: int) -> None:
    found = placed(other)
    with pytest.raises(KeyboardInterrupt):
        database.push_image(found, progress=interrupting(after))
    assert [trace["state"] for trace in database.traces()] == ["loading"]
    with pytest.raises(DatabaseError, match="no trace"):
        database.ask("gpu_timeline", trace="run/rank0")
    assert database.push_image(found) == "completed"
    assert_same(contents(database.connection), expected(found))


def test_a_permanent_error_is_one_line_and_the_next_push_completes(
    database: Database, other: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = placed(other)
    with monkeypatch.context() as patched:
        patched.setattr(batches, "write_edges", lambda edges: "UNWIND $rows AS r RETURN 1 / 0 AS found")
        with pytest.raises(DatabaseError) as error:
            database.push_image(found)
    assert len(str(error.value).splitlines()) == 1
    assert "by zero" in str(error.value)
    assert database.push_image(found) == "completed"
    assert_same(contents(database.connection), expected(found))


def together(*works: Callable[[], Any]) -> list[Any]:
    """Results, or errors, of what is done at the same time."""
    found: list[Any] = [None] * len(works)
    ready = threading.Barrier(len(works))

    def run(number: int) -> None:
        ready.wait()
        try:
            found[number] = works[number]()
        except DatabaseError as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_two_traces_at_the_same_time(database: Database, ranks: list[Core], other: Core) -> None:
    images = [placed(ranks[0]), placed(ranks[1], "rank1"), placed(other, run="other")]
    for one in images:
        database.push_image(one)
    expected_contents = contents(database.connection)
    for one in images:
        database.drop(one.properties["id"])
    pushes = [lambda one=one: database.push_image(one) for one in images]
    assert together(*pushes) == ["pushed"] * 3
    assert_same(contents(database.connection), expected_contents)


def test_the_same_trace_at_the_same_time(database: Database, other: Core) -> None:
    found = placed(other)
    outcomes = together(*[lambda: database.push_image(found)] * 2)
    assert sorted(outcomes) == ["completed", "pushed"]
    assert_same(contents(database.connection), expected(found))


def test_a_trace_dropped_while_it_is_pushed(database: Database, other: Core) -> None:
    """The push that lost says so; the next one brings everything."""
    found, started = placed(other), threading.Event()

    def drop() -> None:
        started.wait()
        database.drop("run")

    outcome, _ = together(lambda: database.push_image(found, progress=lambda *_: started.set()), drop)
    assert isinstance(outcome, DatabaseError)
    assert "dropped or replaced by somebody else" in str(outcome)
    assert_same(contents(database.connection), Contents(Counter(), Counter()))
    assert database.push_image(found) == "pushed"
    assert_same(contents(database.connection), expected(found))


def test_knowledge_dropped_while_it_is_needed_is_written_again(
    database: Database, other: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, write_edges = placed(other), batches.write_edges

    def drop_first(edges: Edges) -> str:
        if edges.type == "NAMED" and not dropped:
            dropped.append(database.ask("MATCH (n:KernelName) DETACH DELETE n RETURN 1", write=True))
        return write_edges(edges)

    dropped: list[Any] = []
    monkeypatch.setattr(batches, "write_edges", drop_first)
    assert database.push_image(found) == "pushed"
    assert dropped
    assert_same(contents(database.connection), expected(found))
