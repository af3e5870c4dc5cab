"""The library of queries by its form; what the queries answer is tested in tests/questions."""

from __future__ import annotations

import re

import pytest

from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.cypher import Query, library, parse

EVERY = pytest.mark.parametrize("query", library().values(), ids=lambda query: query.name)


def test_every_query_has_a_twin_in_its_theme() -> None:
    for query in library().values():
        assert QUESTIONS[query.name].theme == query.theme


@EVERY
def test_the_header_says_what_a_reader_needs(query: Query) -> None:
    assert re.match(r"[A-Z][^:]+: .+[.?]$", query.title)
    assert query.columns
    assert list(query.parameters) == list(query.defaults)
    assert all(query.parameters.values())
    assert all(query.columns.values())


@EVERY
def test_it_is_one_statement_of_the_common_form(query: Query) -> None:
    text = "\n".join(line for line in query.text.splitlines() if not line.lstrip().startswith("//"))
    assert ";" not in text
    assert text.startswith("WITH {")
    assert "RETURN" in text
    assert not re.search(r"\b(CREATE|MERGE|SET|DELETE|REMOVE|LOAD CSV)\b", text)
    # A chain of comparisons seeks with one bound only.
    assert not re.search(r"\.pre <=? *\w+\.pre", text)
    # Two paths of any length in one pattern count a kernel once per enclosing op.
    assert not re.search(r"\[[^\]]*\*[^\]]*\][^,\n]*\[[^\]]*\*[^\]]*\]", text)


@EVERY
def test_it_has_no_riddles_for_the_planner(query: Query) -> None:
    """What belongs to a trace is found by its id alone."""
    assert not re.search(r"\b(?:pre|number|place) >= 0", query.text)


@EVERY
def test_every_sort_ends_in_a_key(query: Query) -> None:
    """Which of several traces was pushed last is told by their ids where they were pushed together."""
    assert not re.search(r"pushed_ns( DESC)?\s+LIMIT", query.text)


@pytest.mark.parametrize("name", ["modules", "idle_gaps", "odd_layers"])
def test_what_analyses_know_is_read_in_at_most_three_clauses(name: str) -> None:
    """A path of the graph and what is added up, between the choice of the trace and RETURN."""
    (_, asked) = re.split(r"LIMIT 1\n", library()[name].text, maxsplit=1)
    clauses = re.findall(r"^(?:OPTIONAL MATCH|MATCH|WITH|UNWIND|CALL)\b", asked, re.MULTILINE)
    assert 0 < len(clauses) <= 3


@EVERY
def test_it_sees_complete_traces_only(query: Query) -> None:
    assert "state" in query.text
    assert ("complete" in query.text) or query.name == "incomplete_traces"


@EVERY
def test_its_twin_takes_its_parameters_with_its_defaults(query: Query) -> None:
    given = QUESTIONS[query.name].parameters
    wanted = {name: value for name, value in query.defaults.items() if name != "trace"}
    assert {name: _literal(given[name].default) for name in wanted} == wanted


def _literal(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"'{value}'" if isinstance(value, str) else str(value)


def test_parameters_take_the_place_of_defaults() -> None:
    query = parse(
        "x",
        "y",
        "// X: what?\n//\n// Columns:\n//   n: number\nWITH {trace: null, top: 10, k: 'a b'} AS p\nRETURN 1 AS n",
    )
    assert dict(query.defaults) == {"trace": "null", "top": "10", "k": "'a b'"}
    assert "WITH {trace: $trace, top: 10, k: $k} AS p" in query.statement({"trace", "k"})
    assert query.columns == {"n": "number"}
    assert query.title == "X: what?"


def test_a_meaning_may_go_on_in_the_next_line() -> None:
    query = parse(
        "x", "y", "// X: what?\n// Further words.\n//\n// Columns:\n//   n: number\n//      of things\nRETURN 1 AS n"
    )
    assert query.columns == {"n": "number of things"}
    assert query.notes == "Further words."


@pytest.mark.parametrize(
    ("text", "defaults"),
    [
        ("\n with { top : 5 , k: [1, {a: 'x, }'}]} as q RETURN 1", {"top": "5", "k": "[1, {a: 'x, }'}]"}),
        ("// c\n/* d */ PROFILE\nWITH {\n a: null, // why\n b: -1.5} AS p RETURN 1", {"a": "null", "b": "-1.5"}),
        ("CYPHER 25 runtime=slotted explain WITH {a: 1} AS p RETURN 1", {"a": "1"}),
        ("// WITH {a: 1} AS p\nRETURN 1", {}),
        ("/* x */ MATCH (n) /* */ WITH {a: 1} AS p RETURN 1", {}),
        ("RETURN 'WITH {a: 1} AS p'", {}),
        ("WITH {a: 1", {}),
        ("CYPHER " + "a" * 5000 + "!", {}),
    ],
)
def test_defaults_are_found_as_the_server_finds_them(text: str, defaults: dict[str, str]) -> None:
    assert parse("x", "", text).defaults == defaults


def test_what_a_statement_is_asked_with() -> None:
    text = "MATCH (n {a: '$no', b: $yes}) // $not; not\nRETURN n.x = \";\", `$y`, $yes;"
    asked = parse("x", "", text).asked
    assert (asked.used, asked.statements, asked.plan) == (("yes",), 1, None)
    assert [parse("x", "", text).asked.statements for text in ("", " ;", "// x", "RETURN 1; RETURN 2;")] == [0, 0, 0, 2]
    plan = parse("x", "", "/* explain */ Profile RETURN 1").asked.plan
    assert plan
    assert (plan.text, plan.start) == ("Profile", 14)
