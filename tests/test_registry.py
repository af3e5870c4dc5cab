"""The registry names what is declared, and old names lead to what took their place."""

from __future__ import annotations

import pytest

import tracelens_graph
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
    for column, source in (now.columns or dict(zip(new.columns, new.columns, strict=True))).items():
        in_us = column.endswith("_us") and source.endswith("_ms")
        cells = [1e3 * cell for cell in new[source]] if in_us else list(new[source])
        assert list(answer[column]) == (pytest.approx(cells) if in_us else cells)
        assert answer.about[column].unit == ("us" if in_us else new.about[source].unit)


def test_old_names_of_functions_are_understood() -> None:
    run = simulate(ranks=2, steps=2, layers=1)
    ranks = [load_core(one.trace) for one in run.ranks]
    table = tracelens_graph.slowest_ranks(ranks)  # type: ignore[attr-defined]
    assert list(table.columns)[-1] == "collective_us"
    assert table["wait_us"] == sorted(table["wait_us"])
    with pytest.raises(AttributeError):
        tracelens_graph.slowest_rank  # noqa: B018
