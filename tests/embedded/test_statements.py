"""Statements in Cypher without a server: known answers on a graph made by hand, errors, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from handmade import small_trace

from tracelens_graph import TraceGraph, load
from tracelens_graph.errors import DatabaseError

pytest.importorskip("ladybug")


@pytest.fixture(scope="module")
def graph() -> TraceGraph:
    return load(small_trace())


def rows(graph: TraceGraph, statement: str, **parameters: Any) -> list[list[Any]]:
    table = graph.cypher(statement, **parameters)
    return [list(row) for row in zip(*table.columns.values(), strict=True)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("MATCH (k:Kernel) RETURN k.name ORDER BY k.dur_ns DESC LIMIT 1", [["gemm"]]),
        ("MATCH (k:Kernel)-[:CHARGED_TO]->(o:Op) RETURN k.name, o.name", [["gemm", "aten::addmm"]]),
        ("MATCH (k:GpuEvent)-[:CHARGED_TO]->(o) RETURN count(*), sum(k.dur_ns)", [[2, 70_250]]),
        ("MATCH (o:Op {name: 'aten::linear'})-[:CALLS]->(b:Op) RETURN b.name", [["aten::addmm"]]),
        ("MATCH (f:PythonFunction)-[:CALLS*]->(r:RuntimeCall) RETURN count(DISTINCT r)", [[2]]),
        ("MATCH (n:Event) WHERE n:Op OR n:Memcpy RETURN count(*)", [[5]]),
        ("MATCH (n:Event&!Op&!GpuEvent:RuntimeCall) RETURN count(*)", [[2]]),
        ("MATCH (n:Op|Memcpy) RETURN DISTINCT labels(n)[0] AS first ORDER BY first", [["Memcpy"], ["Op"]]),
        ("MATCH (n:Hot) WHERE NOT n:GpuEvent AND NOT n:RuntimeCall RETURN count(*) > 0", [[True]]),
        ("MATCH (n:Op) WHERE NOT n:Hot AND NOT n:Warm RETURN count(*)", [[2]]),
        ("MATCH (o:Op) WHERE o.flags IS NULL RETURN count(o.flags)", [[0]]),
        # One edge is not two edges of a clause.
        ("MATCH (a)<-[:CALLS]-(p:Op)-[:CALLS]->(b) RETURN DISTINCT p.name, a.name < b.name AS less ORDER BY less",
         [["aten::addmm", False], ["aten::addmm", True]]),
        ("MATCH (p:Op)-[:CALLS]->(a), (p)-[:CALLS]->(b) RETURN count(*)", [[2]]),
        ("MATCH (p:Op)-[:CALLS]->(a) MATCH (p)-[:CALLS]->(b) RETURN count(*)", [[5]]),
        ("MATCH (a:Op {name: 'aten::addmm'})-[:CALLS*1..2]-(b) RETURN count(*)", [[4]]),
        # Sums of nothing, counting from 0, quotients, order.
        ("MATCH (k:Kernel) WHERE k.name = 'none' RETURN sum(k.dur_ns), count(*), max(k.dur_ns)", [[0, 0, None]]),
        ("RETURN [1, 2, 3][0], [1, 2, 3][-1], [1, 2, 3][0..2], substring('hello', 1, 3), 7 / 2, 7 / 2.0, log(1)",
         [[1, 3, [1, 2], "ell", 3, 3.5, 0.0]]),
        ("WITH [5, 6] AS xs, 1 AS i RETURN xs[i], [x IN xs WHERE x > 5 | x * 2]",
         [[6, [12]]]),
        ("RETURN toInteger(2.7), toInteger('-3'), toInteger(-2.7), toFloat('1.5'), round(2.5)",
         [[2, -3, -2, 1.5, 3.0]]),
        ("RETURN 'abc' =~ 'b', 'abc' =~ '(?i).*B.*', '\\ud83d\\ude00'", [[False, True, "\U0001f600"]]),
        ("WITH 'x' AS a " + "WITH a + a AS a " * 10 + "RETURN size(a)", [[1024]]),
        ("MATCH (call:Hot:RuntimeCall) RETURN count(call) > 0", [[True]]),
        ("UNWIND [2, null, 1] AS x RETURN x ORDER BY x", [[1], [2], [None]]),
        # Empty parts are parts.
        ("UNWIND [',a', 'a::b,,c,', '', null] AS x RETURN split(x, ','), split(x, '::')[0], split('ab', '')",
         [[["", "a"], ",a", ["a", "b"]], [["a::b", "", "c", ""], "a", ["a", "b"]],
          [[""], "", ["a", "b"]], [None, None, ["a", "b"]]]),
        ("MATCH (o:Op) RETURN DISTINCT split(o.name, ':')[1] AS part", [[""]]),
        ("RETURN any(x IN [1, 2] WHERE x > 1), head([4, 5]), last([4, 5]), tail([4, 5]), range(0, 2)",
         [[True, 4, 5, [5], [0, 1, 2]]]),
        ("RETURN 'it\\'s', \"a\\\"b\", 'a\\\\b', 'tab\\t', '\\u00e9' // a comment",
         [["it's", 'a"b', "a\\b", "tab\t", "é"]]),
        # A list with a null holds neither this nor not this; halves are rounded up; texts of numbers.
        ("UNWIND [1, 2, null] AS x RETURN x IN [1, null], NOT x IN [1, null], x IN [], x + 1 IN [2, null] OR x = 2",
         [[True, False, False, True], [None, None, False, True], [None, None, False, None]]),
        ("UNWIND [1, 2] AS x WITH x WHERE NOT x IN [1, null] RETURN x", []),
        ("RETURN any(x IN [1, 2] WHERE x IN [2, null]), CASE WHEN 3 IN [1, null] THEN 'in' ELSE 'out' END",
         [[True, "out"]]),
        ("MATCH (k:Kernel) WITH collect(k.stream) AS streams RETURN NOT 99 IN streams", [[True]]),
        ("RETURN round(-2.5), round(2.5), round(0.49999999999999994), round(-0.5, 0), round(-2.45, 1)",
         [[-2.0, 3.0, 0.0, 0.0, -2.5]]),
        ("RETURN toString(1.0), toString(-0.25), toString(3), toString(true)", [["1.0", "-0.25", "3", "true"]]),
        # What no node has, and types that no edge is of.
        ("MATCH (m:Collective) RETURN count(m)", [[0]]),
        ("MATCH (a:Kernel)-[:DEPENDS_ON]->(b:Kernel) RETURN count(*)", [[0]]),
        ("MATCH (a:Kernel)-[:CALLS]->(b:Op) RETURN count(*)", [[0]]),
        ("MATCH (o:Op) OPTIONAL MATCH (o)-[:CALLS]->(r:RuntimeCall) RETURN count(o), count(r)", [[5, 2]]),
        ("MATCH (o:Op) WHERE EXISTS { (o)-[:CALLS]->(:RuntimeCall) } RETURN o.name", [["aten::addmm"]]),
        ("MATCH (o:Op) WHERE NOT EXISTS { MATCH (o)-[:CALLS]->(x) } RETURN count(*)", [[2]]),
        ("MATCH (t:Trace)<-[:IN_TRACE]-(p:Process) RETURN t.state, p.pid", [["complete", "100"]]),
    ],
)  # fmt: skip
def test_known_answers(graph: TraceGraph, statement: str, expected: list[list[Any]]) -> None:
    assert rows(graph, statement) == expected


def test_columns_are_called_as_they_are_written(graph: TraceGraph) -> None:
    table = graph.cypher("MATCH (k:Kernel) RETURN count(*), max(k.dur_ns) / 1e3 AS `longest us`, min( k.uid )")
    assert list(table.columns) == ["count(*)", "longest us", "min( k.uid )"]


def test_nodes_edges_and_paths_are_readable(graph: TraceGraph) -> None:
    found = rows(graph, "MATCH p = (o:Op {name: 'aten::linear'})-[r:CALLS]->(b) RETURN o, r, p, id(o) = id(b)")
    node, edge, path, is_one = found[0]
    assert (node["labels"], node["name"], node["uid"]) == (["Op", "Event", "Hot"], "aten::linear", 5)
    assert not [name for name in node if name.startswith("_")]
    assert edge == {"type": "CALLS"}
    assert [one["uid"] for one in path] == [5, 6]
    assert is_one is False


def test_parameters(graph: TraceGraph) -> None:
    statement = "MATCH (k:Kernel) WHERE $name IS NULL OR k.name = $name RETURN count(*)"
    assert rows(graph, statement, name="gemm") == [[1]]
    assert rows(graph, statement, name=None) == [[2]]
    assert rows(graph, "MATCH (o:Op) WHERE o.uid IN $uids RETURN count(*)", uids=[5, 6, 99]) == [[2]]
    assert rows(graph, "MATCH (o:Op) WHERE NOT o.uid IN $uids RETURN count(*)", uids=[5, None]) == [[0]]
    with pytest.raises(DatabaseError, match=r"line 1, column 33: no value is given for \$nam; did you mean name\?"):
        rows(graph, "MATCH (k:Kernel) WHERE k.name = $nam RETURN k", name="gemm")


def test_a_map_in_the_first_clause_takes_parameters(graph: TraceGraph) -> None:
    statement = (
        "WITH {name: null, top: 5} AS p MATCH (k:Kernel) WHERE p.name IS NULL OR k.name = p.name RETURN count(*)"
    )
    assert rows(graph, statement) == [[2]]
    assert rows(graph, statement, name="gemm") == [[1]]


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("", "nothing to ask"),
        ("MATCH (n:Op", r"line 1, column 7: \( is not closed"),
        ("MATCH (n:Op) RETURN 'x", "line 1, column 21: a text is not closed"),
        ("MATCH (n:Op)\nRETURN n.name +", "line 2, column 15"),
        ("MATCH (n:Opp) RETURN n", "line 1, column 10: no label Opp; did you mean Op"),
        ("MATCH (n:Meeting) RETURN n", "Neo4j database only"),
        ("MATCH (n:Op)-[:CALL]->(m) RETURN m", "no type of edges CALL; did you mean CALLS"),
        ("MATCH (n:Op) RETURN n.nam", "n has no property nam; did you mean name"),
        ("MATCH (n:Op) RETURN stDev(n.dur_ns)", r"stDev\(\) needs Neo4j"),
        ("MATCH (n:Op), (N:Kernel) RETURN n", "N and n are one name here"),
        ("MATCH (n:Op) RETURN n; MATCH (n) RETURN n", "one statement at a time"),
        ("EXPLAIN MATCH (n) RETURN n", "begins with|plans need Neo4j"),
        ("MATCH (n:Op) CALL { WITH n RETURN 1 AS x } RETURN x", "need Neo4j"),
        ("RETURN 1 AS x, 'a' < ", "line 1"),
        ("MATCH (k:Kernel) RETURN", "line 1, column 18: nothing follows RETURN"),
        ("RETURN 1 IN", "line 1, column 10: nothing follows IN"),
        ("MATCH (k:Kernel) RETURN k.name + k.uid", r"line 1, column 32: \+ does not take STRING,INT64 here"),
        ("RETURN 1 / 0", "line 1, column 10: division by zero"),
        ("RETURN toInteger('x')", "^x is no number"),
        ("MATCH (n)-[:CALLS*1..2000]->(m) RETURN m", "1,000 edges"),
        ("MATCH (n:Op) RETURN COUNT { (n)-[:CALLS]->() }", "OPTIONAL MATCH"),
        ("UNWIND [3, 1, 2] AS x WITH x ORDER BY x DESC RETURN x", "line 1, column 30: .* needs a LIMIT"),
        ("UNWIND [3, 1, 2] AS x WITH x ORDER BY x LIMIT 9 RETURN collect(x)", "keeps no order"),
        ("RETURN range(0, 100000000)", "1,000,000"),
        ("WITH 10 AS n RETURN range(0, n)", "range"),
        # What would grow with each word of the statement, in the engine or here.
        ("WITH 'x' AS a " + "WITH a + a AS a " * 30 + "RETURN size(a)", "more than 50,000 words"),
        ("WITH 1 AS a " + "WITH toInteger(a) AS a " * 20 + "RETURN a", "more than 50,000 words"),
        ("RETURN " + "toInteger(" * 30 + "1" + ")" * 30, "more than 50,000 characters"),
        ("WITH [0] AS a RETURN " + "a[" * 30 + "0" + "]" * 30, "more than 50,000 characters"),
        ("RETURN " + "(" * 3000 + "1" + ")" * 3000, "more than 50 brackets"),
        ("RETURN " + "+".join(["1"] * 20_000), "10,000 words and signs"),
        # Patterns that the engine would take for others, or for none.
        ("MATCH (k:Kernel) WHERE k.name =~ '(' RETURN k", "line 1, column 34: .* no regular expression"),
        ("MATCH (k:Kernel) WHERE k.name =~ 'a(?!b)' RETURN k", "needs Neo4j"),
        ("MATCH (o:Op) WHERE EXISTS { MATCH (o)-[:CALLS]->(x) MATCH (x)-->(y) } RETURN o", "one MATCH"),
        ("MATCH (n:Op) RETURN n{.name}", "needs Neo4j"),
        ("MATCH (n:Op) WHERE EXISTS { MATCH (n)-->(m) RETURN m } RETURN n", "one MATCH"),
    ],
)  # fmt: skip
def test_errors_take_one_line_and_name_the_place(graph: TraceGraph, statement: str, why: str) -> None:
    with pytest.raises(DatabaseError, match=why) as caught:
        rows(graph, statement)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE (n:Op {uid: 1})",
        "MATCH (n:Op) SET n.name = 'x' RETURN n",
        "MATCH (n:Op) DETACH DELETE n",
        "MERGE (n:Op {uid: 1}) RETURN n",
        "MATCH (n:Op) REMOVE n.name",
        "DROP TABLE Op",
        "COPY Op TO '/tmp/x.csv'",
        "COPY (MATCH (n:Op) RETURN n.name) TO '/tmp/x.csv'",
        "LOAD FROM '/etc/passwd' (header=false) RETURN *",
        "LOAD CSV FROM 'file:///etc/passwd' AS row RETURN row",
        "MATCH (n:Op) WITH n LOAD FROM '/etc/passwd' RETURN *",
        "RETURN 1 AS x UNION LOAD FROM '/etc/passwd' (file_format='csv') RETURN *",
        "/* x */ LOAD FROM '/etc/passwd' RETURN *",
        "RETURN 1 /* ' */ LOAD FROM '/etc/passwd' RETURN *",
        "EXPORT DATABASE '/tmp/x'",
        "ATTACH '/tmp/x' AS y (dbtype lbug)",
        "INSTALL httpfs",
        "CALL show_tables() RETURN *",
        "MATCH (n:Op) CALL db_version() RETURN version",
        "CALL timeout=1000000",
        "BEGIN TRANSACTION",
        "CHECKPOINT",
        "MATCH (n:Op) RETURN read_csv_parallel('/etc/passwd')",
        "MATCH (n:Op) RETURN nextval('x')",
    ],
)  # fmt: skip
def test_what_does_more_than_read_is_refused(graph: TraceGraph, statement: str) -> None:
    with pytest.raises(DatabaseError):
        rows(graph, statement)
    assert rows(graph, "MATCH (n:Op) RETURN count(*)") == [[4]]


def test_names_that_are_words_of_the_engine(graph: TraceGraph) -> None:
    assert rows(graph, "MATCH (call:RuntimeCall) RETURN count(call) AS load") == [[2]]
    assert rows(graph, "MATCH (k:Kernel) WITH k.dur_ns AS begin RETURN max(begin)") == [[50_250]]
    assert rows(graph, "MATCH (`my kernel`:Kernel) RETURN count(`my kernel`)") == [[2]]


def test_a_long_statement_is_given_up(graph: TraceGraph) -> None:
    statement = (
        "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b WITH a, b WHERE a % 7 < b % 5 RETURN sum(a * b)"
    )
    with pytest.raises(DatabaseError, match="took longer than 0.2 s"):
        graph.cypher(statement, timeout_s=0.2)


def test_memory_of_the_engine_is_bounded(graph: TraceGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracelens_graph.embedded.engine.MEMORY_BYTES", 64 * 2**20)
    with pytest.raises(DatabaseError, match="more than the 64 MB"):
        graph.cypher("UNWIND range(1, 3000) AS a UNWIND range(1, 3000) AS b RETURN collect(a)")
