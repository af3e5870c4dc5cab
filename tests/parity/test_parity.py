"""Our tables are TraceLens's, but for the departures listed, each with its reason and a test of the cause."""

from __future__ import annotations

from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

import pytest
from parity.cases import (
    Case,
    Eval,
    Ranks,
    cases,
    compared,
    compared_eval,
    compared_ranks,
    evals,
    everything_compared,
    jax_profiles,
    parameters,
    ranks_of_jobs,
)
from parity.departures import account, departures, elsewhere, more_linked

from corpus import CHECKOUT, needs_goldens


@pytest.mark.parametrize("case", parameters(cases()))
def test_tables_equal_the_reference(case: Case) -> None:
    tables = compared(case)
    assert sum(comparison.cells for comparison in tables) >= 24
    assert account(departures(), [(str(case), comparison) for comparison in tables]).unexplained == []


@pytest.mark.parametrize("job", parameters(ranks_of_jobs()))
def test_tables_of_ranks_equal_the_reference(job: Ranks) -> None:
    tables = compared_ranks(job)
    assert sum(comparison.cells for comparison in tables) == 7297
    assert account(departures(), [(str(job), comparison) for comparison in tables]).unexplained == []
    ours, theirs = job.tables(), job.reference
    assert list(ours) == list(theirs)
    assert [list(table.columns) for table in ours.values()] == [list(rows[0]) for rows in theirs.values()]


@pytest.mark.parametrize("case", parameters(evals()))
def test_tables_equal_those_of_its_evaluation(case: Eval) -> None:
    tables = compared_eval(case)
    assert sum(comparison.cells for comparison in tables) >= 97
    assert account(departures(), [(str(case), comparison) for comparison in tables]).unexplained == []


@needs_goldens
def test_departures_are_used_and_no_wider_than_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    known = departures()
    found = account(known, everything_compared())
    assert found.wide == []
    assert [known[number] for number, cells in enumerate(found.covered) if not cells] == []
    for trace in {trace for departure in known for trace in departure.traces}:
        assert any(fnmatchcase(str(one), trace) for one in (*cases(), *jax_profiles(), *evals())), trace
    with capsys.disabled():
        cells, departed = sum(found.cells.values()), sum(found.departed.values())
        print(f"\n{departed} of {cells} cells depart from the reference ({departed / cells:.1%})")


def test_every_departure_names_the_test_of_its_cause() -> None:
    for entry in [*departures(), *elsewhere(), *more_linked().values()]:
        module, _, name = entry.test.rpartition("::")
        assert callable(getattr(import_module(module or "parity.test_causes"), name)), entry


@needs_goldens
def test_page_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(CHECKOUT / "docs"))
    import make_parity

    page = Path(CHECKOUT / "docs/parity.md")
    assert make_parity.parity() == page.read_text(), "run docs/make_parity.py"
