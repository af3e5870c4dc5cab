"""Pushing a comparison into a real server: what is there afterwards is the alignment, however it came there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from neo4j_server import Contents, Home, assert_same, contents
from profiles import thorough

from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.matches import kind_name
from tracelens_graph.analyses.alignment.tables import places_table
from tracelens_graph.db import push
from tracelens_graph.db.connection import OpenDatabase
from tracelens_graph.db.database import Database
from tracelens_graph.db.diffs import claim, diff_image
from tracelens_graph.db.image import Options
from tracelens_graph.db.statements import DIFF
from tracelens_graph.errors import DatabaseError
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema.comparisons import DIFF_EDGE_PROPERTIES, DIFF_PROPERTIES
from tracelens_graph.schema.database import EDGE_PROPERTIES
from tracelens_graph.simulate import simulate


@pytest.fixture
def database(home: Home) -> Iterator[Database]:
    """A database without any trace."""
    with Database(home.connection) as found:
        for trace in found.traces():
            found.drop(trace["id"])
        assert contents(home.connection) == Contents({}, {})  # type: ignore[arg-type]
        yield found


@pytest.fixture(scope="module")
def difference() -> Diff:
    """Two runs of which the second has a layer more."""
    a, b = (load_core(simulate(1, steps=1, layers=layers, seed=41).ranks[0].trace) for layers in (2, 3))
    return diff(a, b, ("two", "three"))


def asked(database: Database, statement: str, **parameters: Any) -> list[dict[str, Any]]:
    return database.ask(statement, **parameters).records()


def test_it_holds_the_alignment(database: Database, difference: Diff) -> None:
    assert database.push_diff(difference, run="r") == "pushed"
    a, b = difference.a.core, difference.b.core
    found = difference.matches
    edges = asked(
        database,
        "MATCH (x:Event)-[m:MATCHES]->(y:Event) WHERE x.trace = $a AND y.trace = $b "
        "RETURN x.uid AS a, y.uid AS b, m.kind AS kind, m.a_ns AS a_ns, m.b_ns AS b_ns, m.cost_ns AS cost",
        a=a.trace_id, b=b.trace_id,
    )  # fmt: skip
    expected = zip(
        a.columns.uid[found.rows[0]].tolist(), b.columns.uid[found.rows[1]].tolist(),
        map(kind_name, found.kinds.tolist()), found.ns[0].tolist(), found.ns[1].tolist(),
        (found.ns[1] - found.ns[0]).tolist(), strict=True,
    )  # fmt: skip
    assert sorted(tuple(row.values()) for row in edges) == sorted(expected)
    for side, core in enumerate((a, b)):
        alone = asked(
            database,
            f"MATCH (d:Diff)-[o:ONLY_IN_{'AB'[side]}]->(x:Event) WHERE x.trace = $t RETURN x.uid AS uid, o.ns AS ns",
            t=core.trace_id,
        )
        rows = core.columns.uid[found.alone[side]].tolist()
        assert sorted(tuple(row.values()) for row in alone) == sorted(
            zip(rows, found.alone_ns[side].tolist(), strict=True)
        )
    assert len(found.alone[1]) > 0


def test_every_gpu_event_is_in_one_place_and_changes_add_up(database: Database, difference: Diff) -> None:
    database.push_diff(difference)
    for side, window in zip("ab", (difference.a, difference.b), strict=True):
        rows = asked(
            database,
            f"MATCH (p:Divergence)-[:IN_{side.upper()}]->(k:GpuEvent) RETURN p.place AS place, p.{side}_ns AS ns, "
            f"p.events_{side} AS events, collect(k.uid) AS uids, sum(k.dur_ns) AS sum",
        )
        uids = [uid for row in rows for uid in row["uids"]]
        assert sorted(uids) == sorted(window.core.columns.uid[window.gpu_rows].tolist())
        assert all((row["ns"], row["events"]) == (row["sum"], len(row["uids"])) for row in rows)
    (diff_node,) = database.diffs()
    assert (diff_node["a_ns"], diff_node["b_ns"]) == difference.ns
    (total,) = asked(
        database, "MATCH (p:Divergence)-[:OF_DIFF]->(:Diff) RETURN sum(p.change_ns) AS change, count(*) AS n"
    )
    table = places_table(difference.called(("a", "b")))
    assert total == {"change": difference.ns[1] - difference.ns[0], "n": len(table)}
    places = asked(database, "MATCH (p:Divergence) RETURN p.place AS place, p.name AS op, p.why AS why, p.uid_a AS uid")
    assert {(row["place"], row["op"], row["why"], row["uid"]) for row in places} == set(
        zip(list(table["place"]), table["op"], table["why"], table["uid_a"], strict=True)
    )


def test_nothing_undeclared_is_written(database: Database, difference: Diff) -> None:
    database.push_diff(difference)
    words = {"int": "Long", "str": "String", "bool": "Boolean", "strs": "StringArray"}
    declared = {label: {prop.name: words[prop.type] for prop in found} for label, found in DIFF_PROPERTIES.items()}
    declared["Divergence"]["diff"] = "String"
    rows = asked(
        database,
        "CALL db.schema.nodeTypeProperties() YIELD nodeLabels, propertyName, propertyTypes "
        "WITH * WHERE any(label IN nodeLabels WHERE label IN ['Diff', 'Divergence']) RETURN *",
    )
    assert rows
    for row in rows:
        assert [declared[row["nodeLabels"][0]][row["propertyName"]]] == row["propertyTypes"]
    of_edges = asked(database, "CALL db.schema.relTypeProperties() YIELD relType, propertyName RETURN *")
    known = {(name, prop.name) for name, found in DIFF_EDGE_PROPERTIES.items() for prop in found}
    found = {(row["relType"].strip(":`"), row["propertyName"]) for row in of_edges if row["propertyName"]}
    of_traces = {(name, prop.name) for name, declared_here in EDGE_PROPERTIES.items() for prop in declared_here}
    assert known - {("ONLY_IN_A", "ns")} <= found - of_traces <= known  # no event is in the first alone


def test_pushing_again_changes_nothing_and_drops_are_complete(database: Database, difference: Diff) -> None:
    database.push(difference.a.core, run="r", name="first")
    assert database.push_diff(difference) == "pushed"
    assert "r/first" in {trace["path"] for trace in database.traces()}
    before = contents(database.connection)
    assert database.push_diff(difference) == "unchanged"
    assert database.push_diff(difference, replace=True) == "replaced"
    assert_same(contents(database.connection), before)
    database.drop(difference.b.core.trace_id)
    assert database.diffs() == []
    assert not asked(database, "MATCH (p:Divergence) RETURN p")
    assert not asked(database, "MATCH ()-[m:MATCHES]->() RETURN m")
    database.drop("r")
    assert contents(database.connection) == Contents({}, {})  # type: ignore[arg-type]


def test_another_part_is_another_comparison(database: Database, difference: Diff) -> None:
    database.push_diff(difference)
    middle = difference.a.core.info.lead_ns + difference.a.span_ns() // 2
    part = diff(difference.a.core.window(before_ns=middle), difference.b.core)
    with pytest.raises(DatabaseError, match="another part of the first trace .none, not up to .*: push it with --repl"):
        database.push_diff(part)
    assert database.push_diff(part, replace=True) == "replaced"
    (edges,) = asked(database, "MATCH ()-[m:MATCHES]->() RETURN count(m) AS n")
    assert edges["n"] == len(part.matches) < len(difference.matches)
    # The other way round is another one beside it.
    assert database.push_diff(diff(difference.b.core, difference.a.core)) == "pushed"
    assert len(database.diffs()) == 2


def test_events_that_were_left_out_have_no_edges(database: Database, difference: Diff) -> None:
    for core in (difference.a.core, difference.b.core):
        database.push(core, options=Options(kinds=("Op", "Kernel")))
    assert database.push_diff(difference) == "pushed"
    kinds = asked(database, "MATCH (x)-[:MATCHES]->(y) UNWIND labels(x) + labels(y) AS l RETURN DISTINCT l")
    assert {"Op", "Kernel"} <= {row["l"] for row in kinds} <= {"Event", "Op", "Kernel", "GpuEvent", "Hot", "Warm"}


class _CutError(Exception):
    """What stands for a client that is killed: batches that were committed stay, all others are gone."""


@pytest.mark.parametrize("dropping", [False, True])
def test_cut_off_anywhere_the_next_one_completes_it(
    database: Database, difference: Diff, monkeypatch: pytest.MonkeyPatch, dropping: bool
) -> None:
    monkeypatch.setattr("tracelens_graph.db.batches.BATCH", 100)
    commit = push.Writer._commit
    done: list[int] = []

    def counted(*arguments: Any) -> int:
        done.append(1)
        return commit(*arguments)

    monkeypatch.setattr(push.Writer, "_commit", counted)
    for core in (difference.a.core, difference.b.core):
        database.push(core)
    done.clear()
    database.push_diff(difference)
    expected, batches = contents(database.connection), len(done)
    assert batches > 10
    for cut in range(0, batches, 6 if thorough() else 12):
        done.clear()

        def cutting(*arguments: Any, cut: int = cut) -> int:
            if len(done) >= cut:
                raise _CutError
            return counted(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(push.Writer, "_commit", cutting)
            with pytest.raises(_CutError):
                database.push_diff(difference, replace=True)
        assert [one["state"] for one in database.diffs()] == ["loading"]
        if dropping:
            assert database.push_diff(difference, replace=True) == "replaced"
        else:
            assert database.push_diff(difference) == "completed"
        assert_same(contents(database.connection), expected)


def test_a_trace_that_is_being_dropped_is_pushed_anew(database: Database, difference: Diff) -> None:
    database.push_diff(difference)
    with database.connection.driver() as driver, driver.session(database="neo4j") as session:
        session.run("MATCH (t:Trace {id: $id}) SET t.state = 'dropping'", id=difference.a.core.trace_id).consume()
    known = {trace["id"]: trace for trace in database.traces()}
    image = diff_image(difference, [known[one.core.trace_id] for one in (difference.a, difference.b)])
    with database.connection.driver() as driver, pytest.raises(DatabaseError, match="is not complete in the database"):
        push.push_whole(OpenDatabase(driver), DIFF, image, claim=claim)
    # Its comparison goes with it.
    assert database.push_diff(difference) == "pushed"
    assert [trace["state"] for trace in database.traces()] == ["complete"] * 2
