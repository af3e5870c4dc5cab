"""Asking a real server: what is answered, and what is refused."""

from __future__ import annotations

import json

import pytest
from handmade import small_trace

from tracelens_graph.db.connection import Connection
from tracelens_graph.db.database import Database
from tracelens_graph.errors import DatabaseError
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate


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
    assert row["r"]["labels"][:2] == ["RuntimeCall", "Event"]
    assert row["c"] == {"type": "CALLS"}
    assert [node["name"] for node in row["path"]] == [row["name"], row["r"]["name"]]
    json.dumps(row)


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
    assert all(isinstance(rows, int) for rows in plan["estimated rows"])
    assert sum(plan["db hits"]) > 0


def test_an_explained_statement_is_not_run(database: Database) -> None:
    plan = database.ask("EXPLAIN UNWIND range(1, 100000000000) AS x RETURN count(x)", timeout_s=5)
    assert list(plan.columns) == ["operator", "details", "estimated rows"]
    assert "Unwind" in {row["operator"].strip() for row in plan.records()}


@pytest.mark.parametrize(
    ("question", "parameters", "said"),
    [
        ("gpu_timeline", {"step": "abc"}, "step='abc': a whole number or null is wanted"),
        ("gpu_timeline", {"step": True}, "step=True: a whole number or null is wanted"),
        ("gpu_timeline", {"step": 999}, r"step 999 is not there; there are 3 \.\.\. 6"),
        ("idle_gaps", {"device": 7}, "device 7 is not there; there is only 0"),
        ("idle_gaps", {"min_us": "long"}, "min_us='long': a number is wanted"),
        ("idle_gaps", {"top": -1}, "top=-1: a whole number from 0 on is wanted"),
        ("path_to_python", {"uid": 10**6}, "uid 1000000 is not there"),
        ("op_signatures", {"op": "aten::mmm"}, "op aten::mmm is not there; did you mean aten::mm"),
        ("op_signatures", {"op": "aten::nosuch"}, "op aten::nosuch is not there; there are"),
        ("launch_delay", {"by": "zzz"}, "by='zzz': op or call is wanted"),
        ("gpu_time_under", {"under": "nosuch"}, "under nosuch is not there; there are"),
        ("gpu_time_under", {"under": 10**6}, "under 1000000 is not there: the trace has no such event"),
        ("run_history", {"label": "comit"}, "label comit is not there; did you mean commit"),
        ("regressions", {"named": "rank7"}, "named rank7 is not there; did you mean rank"),
        ("signature_history", {"op": "aten::mmm"}, "op aten::mmm is not there; did you mean aten::mm"),
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
    if any(trace["id"] == core.trace_id for trace in database.traces()):
        database.drop(core.trace_id)  # as a trace that is replaced keeps its place
    database.push(core, run="query-steps", name="rank0", labels=["commit=1"])
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
        ("nonsense", {}, "`tracelens-graph db queries` lists those there are"),
        ("category_shares", {"tracee": 1}, "did you mean trace"),
        ("category_shares", {"trace": "query-one/sam"}, "did you mean query-one/same"),
        ("category_shares", {"trace": "nonsense"}, "no trace 'nonsense' is in the database; there are .*"),
        ("MATCH (n RETURN n", {}, "SyntaxError"),
        ("MATCH (n {uid: $missing}) RETURN n", {}, "missing"),
    ],
)
def test_mistakes_are_one_line(database: Database, question: str, parameters: dict[str, str], said: str) -> None:
    with pytest.raises(DatabaseError, match=said) as caught:
        database.ask(question, **parameters)
    assert "\n" not in str(caught.value)


_MAPS = [
    " WITH {top: 5} AS p UNWIND range(1, p.top) AS n RETURN n",
    "with { top : 5 } AS params UNWIND range(1, params.top) AS n RETURN n",
    "/* how many */ WITH {\n  top: 5, // at most\n  words: ['a, b', {c: 1}]\n} AS `my p`\n"
    "UNWIND range(1, `my p`.top) AS n RETURN n",
    "CYPHER 5 runtime = slotted WITH {top: 5} AS p UNWIND range(1, p.top) AS n RETURN n;",
]


@pytest.mark.parametrize("text", _MAPS)
def test_parameters_take_the_place_of_defaults_however_they_are_written(database: Database, text: str) -> None:
    assert list(database.ask(text)["n"]) == [1, 2, 3, 4, 5]
    assert list(database.ask(text, top=2)["n"]) == [1, 2]


@pytest.mark.parametrize(
    ("text", "parameters", "said"),
    [
        (_MAPS[0], {"tpo": 3}, r"the text has no parameter 'tpo'; did you mean top\? \(it has top\)"),
        ("RETURN $x AS x, '$y' AS y", {"x": 1, "y": 2}, "the text has no parameter 'y'; .*it has x"),
        ("RETURN 1 AS n", {"unused": 3}, "the text has no parameter 'unused'; it has none"),
        (_MAPS[0], {"top": "abc"}, "top='abc': a whole number from 0 on is wanted"),
        ("", {}, "there is nothing to ask"),
        (" // nothing", {}, "there is nothing to ask"),
        ("RETURN 1; RETURN 2", {}, "these are 2; one statement at a time is answered"),
        ("DROP INDEX none_such IF EXISTS", {}, "^refused: it writes; --write"),
        ("MATCH (n {trace: $trace}) RETURN n", {"trace": "query-one/sam"}, "did you mean query-one/same"),
    ],
)
def test_what_cannot_be_asked_in_a_text(
    database: Database, text: str, parameters: dict[str, object], said: str
) -> None:
    with pytest.raises(DatabaseError, match=said):
        database.ask(text, **parameters)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"step": "abc"}, "step='abc': a whole number or null is wanted"),
        ({"step": 999}, "step 999 is not there"),
        ({"device": 7, "trace": "query-steps/rank0"}, "device 7 is not there"),
        ({"stream": 1234}, "stream 1234 is not there"),
        ({"least": "x"}, "least='x': a number is wanted"),
        ({"name": 7}, "name=7: a text is wanted"),
    ],
)
def test_values_in_a_text_are_checked_by_name_and_default(
    stepped: Database, parameters: dict[str, object], said: str
) -> None:
    text = "WITH {trace: null, step: null, device: 0, stream: null, least: 1, name: 'a', op: ''} AS p RETURN p.op AS op"
    with pytest.raises(DatabaseError, match=said):
        stepped.ask(text, **parameters)
    fine = stepped.ask(text, step=4, least=0.5, trace="query-steps/rank0", device=None, op="a part of a name")
    assert list(fine["op"]) == ["a part of a name"]


def test_the_name_of_a_trace_stands_for_its_id(database: Database) -> None:
    ids = {trace["path"]: trace["id"] for trace in database.traces()}
    statement = "MATCH (t:Trace {id: $trace}) RETURN t.path AS path"
    for wanted in ("query-one/same", ids["query-one/same"]):
        assert list(database.ask(statement, trace=wanted)["path"]) == ["query-one/same"]
    assert list(database.ask("RETURN $a AS a", a=3)["a"]) == [3]
    assert list(database.ask("WITH {a: 1} AS p RETURN p.a AS a", a=3)["a"]) == [3]


def test_names_that_the_database_does_not_know_are_told(database: Database) -> None:
    text = "MATCH (k:Kernl)-[:CALS]->(:Op) WHERE k.dir_ns > 0 AND k.causal RETURN count(*) AS n"
    assert set(database.ask(text).notes) == {
        "no label Kernl; did you mean Kernel?",
        "no relationship type CALS; did you mean CALLS?",
        "no property dir_ns; did you mean dur_ns?",
    }
    told = database.ask("MATCH (x:`Zz z`) RETURN x.qqqq AS q").notes
    assert set(told) == {
        "nothing in the database has the label Zz z",
        "nothing in the database has the property qqqq",
    }
    assert database.ask("MATCH (k:Kernel), (o:Op) RETURN count(*) AS n").notes == []  # slow is none of it
    assert all("did you mean" not in note for note in database.ask("storage_kernels").notes)
