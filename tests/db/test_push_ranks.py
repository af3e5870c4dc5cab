"""Pushing the ranks of a run into a real server: what they have in common is there as it was matched in memory."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from neo4j_server import Contents, Home, assert_same, contents
from profiles import thorough

from tracelens_graph.analyses.critical_path.critical_path import critical_path, step_paths
from tracelens_graph.analyses.critical_path.path_nodes import NO_CALL
from tracelens_graph.analyses.ranks.job import rank_tables
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.db import push
from tracelens_graph.db.database import Database
from tracelens_graph.db.image import Options
from tracelens_graph.errors import DatabaseError
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema.database import EDGE_PROPERTIES
from tracelens_graph.schema.jobs import RANK_EDGE_PROPERTIES, RANK_PROPERTIES
from tracelens_graph.simulate import simulate

GPU = Options(kinds=("Kernel",))


@pytest.fixture
def database(home: Home) -> Iterator[Database]:
    """A database without any trace."""
    with Database(home.connection) as found:
        for trace in found.traces():
            found.drop(trace["id"])
        assert contents(home.connection) == Contents({}, {})  # type: ignore[arg-type]
        yield found


def simulated(**settings: Any) -> TraceSet:
    run = simulate(**{"steps": 1, "layers": 1, "python_stacks": False, **settings})
    return TraceSet.of({f"rank{one.rank}": load_core(one.trace) for one in run.ranks})


@cache
def pipeline() -> TraceSet:
    """Two stages of two ranks each, which send to one another."""
    return simulated(ranks=4, seed=71, layers=2, pipeline_parallel=2, micro_batches=2)


@cache
def pair() -> TraceSet:
    return simulated(ranks=2, seed=72)


def asked(database: Database, statement: str, **parameters: Any) -> list[dict[str, Any]]:
    return database.ask(statement, **parameters).records()


def everything(database: Database) -> tuple[Contents, list[str]]:
    """All nodes and edges, and what stands on those of the ranks."""
    edges = asked(
        database,
        "MATCH (a)-[e:MEMBER_OF|SENDS|OF_RANK|OF_MATCHING|OF_PATH|NEXT_ON_PATH|ON_PATH]->(b) "
        "RETURN type(e) AS type, e AS e, a.uid AS a, b.uid AS b",
    )
    return contents(database.connection), sorted(map(repr, edges))


def test_it_holds_what_was_matched(database: Database) -> None:
    ranks = pipeline()
    assert database.push_run(ranks, run="r") == "pushed"
    m = MatchedCollectives(ranks)
    rows = asked(
        database,
        "MATCH (k)-[m:MEMBER_OF]->(c:Meeting {run: 'r'}) RETURN k.trace AS trace, k.uid AS uid, k.dur_ns AS dur, "
        "c.number AS number, c.name AS kind, m AS m",
    )
    expected = {
        (ranks[trace].core.trace_id, m.parts.collective(part).uids[0]): part
        for part, trace in enumerate(m.trace.tolist())
    }
    assert len(rows) == len(expected) == len(m.parts)
    for row in rows:
        part, times = expected[row["trace"], row["uid"]], row["m"]
        assert (row["number"], row["kind"]) == (m.number[part], m.kind[m.number[part]])
        for name in ("start_ns", "end_ns", "wait_ns", "transfer_ns", "end_skew_ns"):
            assert times[name] == getattr(m, name)[part]
        assert times["wait_ns"] + times["transfer_ns"] + times["end_skew_ns"] == row["dur"]
        assert times["late_ns"] == m.start_ns[part] - m.first_start_ns[m.number[part]]
    (matching,) = database.matchings()
    assert (matching["run"], matching["state"], matching["collectives"]) == ("r", "complete", len(m))
    assert (matching["parts"], matching["unmatched"]) == (len(m.parts), 0)
    assert matching["traces"] == [one.core.trace_id for one in ranks]


@pytest.mark.checkout
def test_links_as_the_docs_ask_for_them(database: Database) -> None:
    ranks = pipeline()
    database.push_run(ranks, run="demo", options=GPU)
    docs = (Path(__file__).parents[2] / "docs/database.md").read_text()
    (statement,) = (text for text in re.findall(r"```cypher\n(.*?)```", docs, re.DOTALL) if "AS link" in text)
    found = {(row["kind"], row["bytes"], row["source"], row["target"]): row for row in asked(database, statement)}
    pairs = [row for row in rank_tables(ranks)["rank_links"].records() if row["level"] == "pair"]
    assert pairs
    for row in pairs:
        link = found[row["kind"], row["message_bytes"], row["source_rank"], row["target_rank"]]
        assert link["count"] == row["count"]
        assert link["gb_per_s"] == pytest.approx(row["busbw_gb_s"], rel=0.1)  # the lower one of two in the middle


def test_transfers_lead_from_rank_to_rank(database: Database) -> None:
    ranks = pipeline()
    database.push_run(ranks, run="r", options=GPU)
    rows = asked(
        database,
        "MATCH (a:Kernel)-[s:SENDS]->(b:Kernel), (x:Trace {id: a.trace}), (y:Trace {id: b.trace}) "
        "MATCH (a)-[m:MEMBER_OF]->(c:Meeting)<-[n:MEMBER_OF]-(b) "
        "RETURN x.rank AS source, y.rank AS target, c.number = s.meeting AS same, c.name AS kind, "
        "s.message_bytes AS bytes, s.start_skew_ns = abs(m.start_ns - n.start_ns) AS skewed",
    )
    # Activations go to the next stage and gradients back, one of each per micro-batch.
    assert Counter((row["source"], row["target"]) for row in rows) == {(0, 2): 2, (1, 3): 2, (2, 0): 2, (3, 1): 2}
    assert all(row["same"] and row["skewed"] and row["kind"] == "send" and row["bytes"] > 0 for row in rows)


def test_clocks_of_hosts_are_corrected(database: Database) -> None:
    ranks = simulated(ranks=4, seed=73, steps=3, nodes=2, clock_offset_us=50_000.0)
    database.push_run(ranks, run="r", options=GPU)
    clocks = asked(database, "MATCH (:Matching)-[o:OF_RANK]->(t:Trace) RETURN o.rank AS rank, o AS o ORDER BY rank")
    assert [row["rank"] for row in clocks] == [0, 1, 2, 3]
    assert [round(row["o"]["offset_ns"] / 1e6) for row in clocks] == [0, 0, 50, 50]
    rows = asked(
        database,
        "MATCH (k)-[m:MEMBER_OF]->(c:Meeting {name: 'allreduce'}) MATCH (:Matching)-[o:OF_RANK]->(:Trace {id: k.trace})"
        "RETURN c.number AS number, max(m.end_ns) - min(m.end_ns) AS apart, "
        "max(abs(k.start_ns + o.zero_ns - m.start_ns)) AS off",
    )
    assert rows
    assert all(row["apart"] < 1000 and row["off"] < 1000 for row in rows)


def test_one_that_a_rank_lacks_does_not_shift_the_others(database: Database) -> None:
    job: dict[str, Any] = {"ranks": 3, "seed": 74, "collective_args": "none", "program": "loop", "layers": 6}
    ranks = simulated(**job, dropped_collectives=((2, 3),))
    database.push_run(ranks, run="r", options=GPU)
    rows = asked(
        database,
        "MATCH (k)-[m:MEMBER_OF]->(c:Meeting) MATCH (k)-[:MEMBER_OF]->(own:Collective) "
        "RETURN c.number AS number, c.ranks AS ranks, count(*) AS parts, count(DISTINCT own) AS keys, "
        "max(m.end_ns) - min(m.end_ns) AS apart",
    )
    assert sorted(row["ranks"] for row in rows) == [2, *[3] * (len(rows) - 1)]
    assert all(row["parts"] == row["ranks"] and row["apart"] < 100_000 for row in rows)
    # Places in the order of a rank, which keys are made of, are shifted behind it.
    assert max(row["keys"] for row in rows) == 2


def test_paths_lead_from_event_to_event(database: Database) -> None:
    ranks = pipeline()
    database.push_run(ranks, run="r")
    ids = {one.core.trace_id: one for one in ranks}
    expected = [critical_path(ranks), *step_paths(ranks)]
    (matching,) = database.matchings()
    assert matching["paths"] == len(expected) == 2
    about = asked(database, "MATCH (c:CriticalPath)-[:OF_MATCHING]->(:Matching) RETURN c AS c ORDER BY c.number")
    for path, row in zip(expected, about, strict=True):
        c = row["c"]
        assert (c.get("step"), c["dur_ns"], c["segments"]) == (path.step, path.length_ns, len(path))
        assert (c["start_ns"], c["notes"], c["near_ties"]) == (path.start_ns[0], path.notes, path.ties.points)
        chain = asked(
            database,
            "MATCH (c:CriticalPath {run: 'r', number: $number})<-[:OF_PATH]-(s) "
            "OPTIONAL MATCH (e:Event)-[:ON_PATH]->(s) OPTIONAL MATCH (s)-[:NEXT_ON_PATH]->(next) "
            "RETURN s AS s, e.trace AS trace, e.uid AS uid, e.name AS name, next.place AS next ORDER BY s.place",
            number=c["number"],
        )
        segments = path.segments().records()
        assert [one["next"] for one in chain] == [*range(2, len(segments) + 1), None]
        for one, segment in zip(chain, segments, strict=True):
            s = one["s"]
            assert (s["class"], s["dur_ns"], s.get("rank")) == (segment["class"], segment["dur_ns"], segment["rank"])
            assert one["uid"] == segment["uid"] == s.get("uid")
            if segment["uid"] is None:
                assert (s["class"], s["name"]) in {("unrecorded", "unrecorded"), ("host", NO_CALL)}
            else:
                assert one["name"] == segment["name"] == s["name"]
                assert (ids[one["trace"]].rank, ids[one["trace"]].name) == (s["rank"], s["trace_name"])
    on_path = asked(
        database,
        "MATCH (k:GpuEvent)-[:ON_PATH]->(s {class: 'computation'})-[:OF_PATH]->(c {step: $step}) "
        "RETURN sum(s.dur_ns) AS ns",
        step=expected[1].step,
    )
    assert on_path == [{"ns": expected[1].ns_by_class["computation"]}]


def test_a_path_is_whole_where_events_were_left_out(database: Database) -> None:
    database.push_run(pair(), run="r", options=GPU)
    (path,) = step_paths(pair())
    table = database.ask("path_of_step", run="r", step=path.step)
    assert sum(table["dur_ns"]) == path.length_ns
    labels = asked(database, "MATCH (e)-[:ON_PATH]->(:PathSegment) UNWIND labels(e) AS label RETURN DISTINCT label")
    assert {row["label"] for row in labels} - {"Hot", "Warm"} == {"Event", "GpuEvent", "Kernel"}


def test_a_path_of_other_ranks_takes_the_place_of_the_old_one(database: Database) -> None:
    first, second, third = simulated(ranks=3, seed=75)
    database.push_run([first, second], run="r", options=GPU)
    database.push(third.core, run="r", name=third.name, options=GPU)
    assert len(database.ask("path_of_step", run="r")) == 0
    assert database.push_run([first, second, third], run="r", options=GPU) == "pushed"
    path = critical_path([first, second, third])
    assert sum(database.ask("path_of_step", run="r")["dur_ns"]) == path.length_ns
    (count,) = asked(database, "MATCH (s:PathSegment) RETURN count(s) AS n")
    assert count["n"] == len(path) + sum(len(one) for one in step_paths([first, second, third]))
    database.drop("r/rank2")
    assert not asked(database, "MATCH (c:CriticalPath|PathSegment) RETURN c")


def test_nothing_undeclared_is_written(database: Database) -> None:
    database.push_run(pipeline(), run="r")
    words = {"int": "Long", "str": "String", "float": "Double", "strs": "StringArray"}
    declared = {label: {prop.name: words[prop.type] for prop in found} for label, found in RANK_PROPERTIES.items()}
    for label in ("Meeting", "CriticalPath", "PathSegment"):
        declared[label]["run"] = "String"
    rows = asked(
        database,
        "CALL db.schema.nodeTypeProperties() YIELD nodeLabels, propertyName, propertyTypes "
        "WITH * WHERE any(label IN nodeLabels WHERE label IN $labels) RETURN *",
        labels=list(declared),
    )
    assert {row["nodeLabels"][0] for row in rows} == set(declared)
    for row in rows:
        assert [declared[row["nodeLabels"][0]][row["propertyName"]]] == row["propertyTypes"]
    of_edges = asked(database, "CALL db.schema.relTypeProperties() YIELD relType, propertyName RETURN *")
    known = {(name, prop.name) for name, found in RANK_EDGE_PROPERTIES.items() for prop in found}
    written = {(row["relType"].strip(":`"), row["propertyName"]) for row in of_edges if row["propertyName"]}
    # A clock cannot be estimated by so few collectives, none of which is an uneven all-to-all.
    of_traces = {(name, prop.name) for name, found in EDGE_PROPERTIES.items() for prop in found}
    assert (
        known - {("OF_RANK", name) for name in ("estimate_ns", "error_ns", "exchanged_bytes")}
        <= written - of_traces
        <= known
    )


def test_pushing_again_changes_nothing_and_drops_are_complete(database: Database) -> None:
    assert database.push_run(pair(), run="r") == "pushed"
    before = everything(database)
    assert database.push_run(pair(), run="r") == "unchanged"
    after = everything(database)
    assert_same(after[0], before[0])
    assert after[1] == before[1]
    assert database.push_run(pair(), run="r", replace=True) == "pushed"  # it went with the traces
    assert_same(everything(database)[0], before[0])
    pulled = database.pull_core("r/rank1")
    for name in ("start_ns", "dur_ns", "kind", "owner", "parent"):
        assert np.array_equal(getattr(pulled.columns, name), getattr(pair()[1].core.columns, name))
    assert pulled.collectives.nodes == pair()[1].core.collectives.nodes
    database.drop("r/rank1")
    assert database.matchings() == []
    assert not asked(database, "MATCH (c:Meeting|CriticalPath|PathSegment) RETURN c")
    database.drop("r")
    assert contents(database.connection) == Contents({}, {})  # type: ignore[arg-type]


def test_ranks_that_are_pushed_one_by_one_are_matched_together(database: Database) -> None:
    first, second = pair()
    assert database.push_run([first], run="r", options=GPU) == "pushed"
    database.push(second.core, run="r", name=second.name, options=GPU)
    # Nobody is misled by a matching without the new rank.
    assert [one["state"] for one in database.matchings()] == ["dropping"]
    table = database.ask("slowest_ranks", run="r")
    assert len(table) == 0
    assert table.notes == ["the collectives of r are not matched: push its 2 traces together, with --run"]
    with pytest.raises(DatabaseError, match="r/rank1 is of the run too: push all of its ranks together"):
        database.match("r", [first], options=GPU)
    assert database.push_run(pair(), run="r", options=GPU) == "pushed"
    assert len(database.ask("slowest_ranks", run="r")) == 2
    (note,) = database.ask("slowest_ranks", run="r", kind="nothing").notes
    assert note.startswith("nothing of this is in run r")


def test_other_ranks_of_a_run_are_matched_anew(database: Database) -> None:
    database.push_run(pair(), run="r", options=GPU)
    count = asked(database, "MATCH (c:Meeting) RETURN count(c) AS n")
    with database.connection.driver() as driver, driver.session(database="neo4j") as session:
        session.run("MATCH (m:Matching) SET m.tool_version = 'another'").consume()
    assert database.push_run(pair(), run="r", options=GPU) == "replaced"
    assert asked(database, "MATCH (c:Meeting) RETURN count(c) AS n") == count


def test_kernels_that_were_left_out_have_no_edges(database: Database) -> None:
    database.push_run(pair(), run="r", options=Options(kinds=("Op",)))
    assert not asked(database, "MATCH ()-[m:MEMBER_OF]->() RETURN m")
    nodes = asked(database, "MATCH (c:Meeting) RETURN c.wait_ns AS wait, c.last_rank AS rank, c.group_ranks AS ranks")
    assert len(nodes) == len(MatchedCollectives(pair()))
    assert all(row["rank"] in (0, 1) and json.loads(row["ranks"]) == [0, 1] for row in nodes)


class _CutError(Exception):
    """What stands for a client that is killed: batches that were committed stay, all others are gone."""


def test_cut_off_anywhere_the_next_one_completes_it(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracelens_graph.db.batches.BATCH", 50)
    commit = push.Writer._commit
    done: list[int] = []

    def counted(*arguments: Any) -> int:
        done.append(1)
        return commit(*arguments)

    monkeypatch.setattr(push.Writer, "_commit", counted)
    database.push_run(pipeline(), run="r", options=GPU)
    expected = everything(database)
    with database.connection.driver() as driver, driver.session(database="neo4j") as session:
        session.run("MATCH (m:Matching) SET m.state = 'dropping'").consume()
    done.clear()
    assert database.match("r", pipeline(), options=GPU) == "pushed"
    batches = len(done)
    assert batches > 10
    for cut in range(0, batches, 4 if thorough() else 12):
        with database.connection.driver() as driver, driver.session(database="neo4j") as session:
            session.run("MATCH (m:Matching) SET m.state = 'dropping'").consume()
        done.clear()

        def cutting(*arguments: Any, cut: int = cut) -> int:
            if len(done) >= cut:
                raise _CutError
            return counted(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(push.Writer, "_commit", cutting)
            with pytest.raises(_CutError):
                database.match("r", pipeline(), options=GPU)
        assert [one["state"] for one in database.matchings()] == ["loading"]
        assert len(database.ask("slowest_ranks", run="r")) == 0
        assert database.match("r", pipeline(), options=GPU) == "completed"
        found = everything(database)
        assert_same(found[0], expected[0])
        assert found[1] == expected[1]
