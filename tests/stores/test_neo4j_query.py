"""Asking a real server: what is answered, and what is refused."""

from __future__ import annotations

import json

import pytest
from handmade import small_trace

from tracelens_graph.database import Database
from tracelens_graph.errors import DatabaseError
from tracelens_graph.loading import load_core
from tracelens_graph.simulate import simulate
from tracelens_graph.stores.neo4j.connection import Connection


@pytest.fixture(scope="module")
def database(neo4j: Connection) -> Database:
    with Database(neo4j) as found:
        for name in ("one", "two"):
            trace = small_trace() | {"trace_id": f"query-{name}"}
            found.push(load_core(json.dumps(trace).encode()), run=f"query-{name}", name="same")
        yield found


def test_a_statement_gives_a_table_with_plain_values(database: Database) -> None:
    found = database.ask(
        "MATCH path = (o:Op)-[c:CALLS]->(r:RuntimeCall) WHERE r.trace = $t RETURN o.name AS name, r, c, path LIMIT 1",
        t=next(trace["id"] for trace in database.traces() if trace["path"] == "query-one/same"),
    )
    row = found.records()[0]
    assert row["r"]["labels"][:1] == ["Event"]
    assert row["c"] == {"type": "CALLS"}
    assert [node["name"] for node in row["path"]] == [row["name"], row["r"]["name"]]
    json.dumps(row)


def test_no_rows_are_a_table_too(database: Database) -> None:
    found = database.query("MATCH (n:Op {name: 'none such'}) RETURN n.name AS name, n.uid AS uid")
    assert list(found.columns) == ["name", "uid"]
    assert found.empty


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE (n:X)",
        "MATCH (n:Op) SET n.name = ''",
        "MATCH (n:Op) DETACH DELETE n",
        "CREATE INDEX x FOR (n:X) ON (n.y)",
        "LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line",
        "L\\u004FAD CSV FROM 'file:///etc/passwd' AS line RETURN line",
        "CALL () { LOAD CSV FROM 'file:///x.csv' AS line RETURN line } RETURN line",
        "CALL dbms.killConnection('bolt-1')",
        "CALL db.labels() YIELD label CALL dbms.killConnection(label) YIELD message RETURN message",
        "TERMINATE TRANSACTIONS 'neo4j-transaction-1'",
        "SHOW TRANSACTIONS YIELD transactionId AS t TERMINATE TRANSACTIONS t YIELD message RETURN message",
        "ALTER CURRENT USER SET PASSWORD FROM 'a' TO 'longer than eight'",
        "PROFILE CREATE (n:X)",
        "PROFILE LOAD CSV FROM 'file:///x.csv' AS line RETURN line",
    ],
)
def test_what_does_more_than_read_is_refused(database: Database, statement: str) -> None:
    with pytest.raises(DatabaseError):
        database.ask(statement)


def test_what_only_reads_is_not(database: Database) -> None:
    assert "Op" in list(database.ask("CALL db.labels() YIELD label RETURN label")["label"])
    assert len(database.ask("SHOW INDEXES"))


def test_with_write_it_writes(database: Database) -> None:
    database.ask("CREATE (n:QueryTest {name: 'x'})", write=True)
    assert len(database.ask("MATCH (n:QueryTest) RETURN n")) == 1
    database.ask("MATCH (n:QueryTest) DELETE n", write=True)
    assert not len(database.ask("MATCH (n:QueryTest) RETURN n"))


def test_a_statement_that_takes_too_long_is_ended(database: Database) -> None:
    with pytest.raises(DatabaseError, match=r"longer than --timeout allows \(in Python timeout_s\)"):
        database.ask("UNWIND range(1, 100000000000) AS x RETURN count(x)", timeout_s=0.5)


@pytest.mark.parametrize("prefix", ["PROFILE ", "// what it costs\nprofile\n", "CYPHER 5 PROFILE "])
def test_a_profile_is_run_and_printed(database: Database, prefix: str) -> None:
    plan = database.ask(f"{prefix}MATCH (k:Kernel) RETURN count(k) AS n")
    assert list(plan.columns) == ["operator", "details", "estimated rows", "rows", "db hits"]
    assert plan.records()[0]["operator"] == "ProduceResults"
    assert plan.records()[1]["operator"].startswith("  ")
    assert sum(plan["db hits"]) > 0


def test_an_explained_statement_is_not_run(database: Database) -> None:
    plan = database.ask("EXPLAIN UNWIND range(1, 100000000000) AS x RETURN count(x)", timeout_s=5)
    assert list(plan.columns) == ["operator", "details", "estimated rows"]
    assert "Unwind" in {row["operator"].strip() for row in plan.records()}


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("MATCH (n RETURN n", "(line 1, column 10 (offset: 9))"),
        ("MATCH (n)\nRETURN m", "(line 2, column 8 (offset: 17))"),
        ("PROFILE MATCH (n) RETURN m", "(line 1, column 26 (offset: 25))"),
        ("EXPLAIN MATCH (n) RETURN m", "(line 1, column 26 (offset: 25))"),
    ],
)
def test_places_are_those_of_the_text_that_was_given(database: Database, statement: str, place: str) -> None:
    with pytest.raises(DatabaseError) as raised:
        database.ask(statement)
    said = str(raised.value)
    assert place in said
    assert "^" not in said
    assert ("EXPLAIN" in said) == statement.startswith("EXPLAIN")


@pytest.mark.parametrize(
    ("question", "parameters", "said"),
    [
        ("gpu_timeline", {"step": "abc"}, "step='abc': a whole number or null is wanted"),
        ("gpu_timeline", {"step": True}, "step=True: a whole number or null is wanted"),
        ("gpu_timeline", {"step": 999}, r"step 999 is not there; there are 3 \.\.\. 6"),
        ("idle_gaps", {"device": 7}, "device 7 is not there; there are 0"),
        ("idle_gaps", {"min_us": "long"}, "min_us='long': a number is wanted"),
        ("idle_gaps", {"top": -1}, "top=-1: a whole number from 0 on is wanted"),
        ("path_to_python", {"uid": 10**6}, "uid 1000000 is not there"),
        ("op_signatures", {"op": "aten::mmm"}, "op aten::mmm is not there; did you mean aten::mm"),
        ("collective_spread", {"run": "query-steps-"}, "run query-steps- is not there; did you mean query-steps"),
    ],
)
def test_values_that_are_not_there_are_told(
    stepped: Database, question: str, parameters: dict[str, object], said: str
) -> None:
    with pytest.raises(DatabaseError, match=said):
        stepped.ask(question, **parameters)


def test_values_that_are_there_are_taken(stepped: Database) -> None:
    assert len(stepped.ask("gpu_timeline", trace="query-steps/rank0", step=4))
    assert len(stepped.ask("idle_gaps", trace="query-steps/rank0", device=0, top=3))


@pytest.fixture(scope="module")
def stepped(database: Database) -> Database:
    """With a trace of four steps, pushed last."""
    core = load_core(simulate(1, steps=4, layers=1, seed=99).ranks[0].trace)
    database.push(core, run="query-steps", name="rank0", replace=True)
    return database


def test_a_name_of_several_traces_is_an_error(database: Database) -> None:
    with pytest.raises(DatabaseError, match="query-one/same, query-two/same"):
        database.ask("category_shares", trace="same")
    ids = {path: database.ask("category_shares", trace=path) for path in ("query-one/same", "query-two/same")}
    assert len(ids["query-one/same"]) > 0


@pytest.mark.parametrize(
    ("question", "parameters", "said"),
    [
        ("categry_shares", {}, "did you mean category_shares"),
        ("nonsense", {}, "there are .*category_shares"),
        ("category_shares", {"tracee": 1}, "did you mean trace"),
        ("category_shares", {"trace": "query-one/sam"}, "did you mean query-one/same"),
        ("category_shares", {"trace": "nonsense"}, "no trace 'nonsense' is in the database; there are .*/"),
        ("MATCH (n RETURN n", {}, "SyntaxError"),
        ("MATCH (n {uid: $missing}) RETURN n", {}, "missing"),
    ],
)
def test_mistakes_are_one_line(database: Database, question: str, parameters: dict[str, str], said: str) -> None:
    with pytest.raises(DatabaseError, match=said) as caught:
        database.ask(question, **parameters)
    assert "\n" not in str(caught.value)
