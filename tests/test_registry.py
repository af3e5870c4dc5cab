"""The registry names what is declared, and old names lead to what took their place."""

from __future__ import annotations

import pytest

from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.cypher import library
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.registry import HOMES, RENAMED, REPORT, THEMES, schema_of, schemas
from tracelens_graph.simulate import simulate
from tracelens_graph.tables.schema import DECLARED


def test_the_homes_are_where_tables_are_declared() -> None:
    found = schemas()
    assert {name: one.name for name, one in found.items()} == {name: name for name in HOMES}
    assert set(HOMES) == {name for name in DECLARED if name in HOMES or not name.startswith("made")}
    for name, home in HOMES.items():
        assert any(one is found[name] for one in vars(home.load()).values()), name


def test_what_can_be_asked_is_in_a_theme() -> None:
    assert {home.theme for home in HOMES.values() if home.is_question} == set(THEMES)
    assert set(REPORT) <= set(HOMES)
    assert set(library()) <= {name for name, home in HOMES.items() if home.is_question}


def test_a_name_that_no_table_has_gets_a_hint() -> None:
    with pytest.raises(KeyError, match="there is no table 'gpu_timelines'; did you mean gpu_timeline"):
        schema_of("gpu_timelines")


@pytest.mark.parametrize("old", RENAMED)
def test_an_old_name_is_still_answered(old: str) -> None:
    run = simulate(ranks=2, steps=2, layers=1)
    ranks = TraceSet.of({f"rank{one.rank}": load_core(one.trace) for one in run.ranks}, run="job")
    assert old not in QUESTIONS.keys() - RENAMED.keys()
    question, now = QUESTIONS[old], RENAMED[old]
    given = ranks if question.several else ranks[0].graph
    answer, new = question(given), QUESTIONS[now.name](given, **now.given)
    assert answer.name == old
    assert list(answer.columns) == list(now.columns or new.columns)
    for column, source in (now.columns or dict.fromkeys(new.columns, "")).items():
        assert list(map(repr, answer[column])) == list(map(repr, new[source or column]))
