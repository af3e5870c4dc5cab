"""Which tests need what, and which are long proofs.

`make test` leaves out the tests marked `proof`, and `make proof` runs them; CI runs both. Three things mark a test:

* `pytestmark = pytest.mark.proof` in its module: depth, growth, fuzz, hard shapes, damage, kill points;
* it needs Neo4j and is not among the `EVERYDAY_TWINS` below;
* `pytest.mark.proof` on the test, or on some of its parameters.

All other markers follow from fixtures, parameters and measured times; none is set by hand.

A test that asks for a fixture, directly or through another one, bears the markers of that fixture. All tests of the
database run in one process of pytest-xdist, before all others, so that one server serves them. Of the others, those of
one file run in one process, and share its fixtures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from slow_tests import slow_tests, test_of

from corpus import CHECKOUT, needs_corpus, needs_goldens

if TYPE_CHECKING:
    from xdist.scheduler import LoadGroupScheduling

MARKERS_OF_FIXTURES = {
    "neo4j_program": pytest.mark.neo4j,
    "neo4j": pytest.mark.neo4j,
    "chromium": pytest.mark.browser,
    "corpus": needs_corpus,
    "goldens": needs_goldens,
    "wheel": pytest.mark.slow,
    "workspace": pytest.mark.slow,
}

ON_THE_SERVER = ("home", "neo4j", "doomed")
"""Fixtures in the order in which their tests run: where the database must be empty it still is nearly so, and what the
last ones end has served all others."""


EVERYDAY_TWINS = (
    "tests/questions/test_structure.py::test_the_database_says_the_same[layered-",
    "tests/questions/test_attribution.py::test_the_database_says_the_same[nested-",
    "tests/questions/test_shapes.py::test_the_database_says_the_same[nested-",
)
"""How the ids of the database's tests begin that `make test` runs: three small traces, about 15 questions on each."""


@pytest.hookimpl(tryfirst=True)  # before markers are looked at, by pytest itself and by xdist
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark, group and order the tests."""
    slow = slow_tests()
    for item in items:
        if test_of(item.nodeid) in slow:
            item.add_marker(pytest.mark.slow)
        for fixture in MARKERS_OF_FIXTURES.keys() & _fixtures(item):
            item.add_marker(MARKERS_OF_FIXTURES[fixture])
        for reason in _missing(item):
            item.add_marker(pytest.mark.skip(reason=reason))
        if item.get_closest_marker("neo4j"):
            if not item.nodeid.startswith(EVERYDAY_TWINS):
                item.add_marker(pytest.mark.proof)
            item.add_marker(pytest.mark.xdist_group("neo4j"))
    items.sort(key=_place)


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def _place(item: pytest.Item) -> int:
    asked = [place for place, fixture in enumerate(ON_THE_SERVER) if fixture in _fixtures(item)]
    return max(asked, default=len(ON_THE_SERVER))


def _missing(item: pytest.Item) -> Iterator[str]:
    for marker in item.iter_markers("corpus"):
        if marker.kwargs["missing"]:
            yield marker.kwargs["missing"]
    if item.get_closest_marker("checkout") and not (CHECKOUT / "tracelens_graph").is_dir():
        yield "the source of the package is not beside the tests"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadGroupScheduling | None:
    """With `--dist loadgroup`, take files for the groups of tests that have none."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByGroupOrFile(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return super()._split_scope(nodeid).partition("::")[0]

    return ByGroupOrFile(config, log)
