"""What all tests share: the folders of the corpus, no silent skip in CI, and a process that is fit for them."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from profiles import IN_CI

from corpus import CHECKOUT, CORPUS, GOLDENS

pytest.register_assert_rewrite("op_costs")
pytest_plugins = ["lanes", "neo4j_server", "chromium"]


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real traces."""
    assert CORPUS is not None  # else the test is skipped: see lanes.py
    return CORPUS


@pytest.fixture(scope="session")
def goldens(corpus: Path) -> Path:
    """The folder of reference tables; they are of no use without the traces they were made of."""
    assert GOLDENS is not None
    return GOLDENS


@pytest.fixture(scope="session")
def pairs_folder(request: pytest.FixtureRequest) -> Path:
    """Where the pairs are that `examples/record_pairs.py` recorded."""
    return request.config.getoption("--pairs") or CHECKOUT / "examples/traces/linked"


def _skip_is_failure(report: pytest.TestReport | pytest.CollectReport) -> None:
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"nothing may be skipped in CI, but: {reason}"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _skip_is_failure(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _skip_is_failure(report)
    return report


def pytest_configure() -> None:
    """Take signals as a terminal gives them: whoever runs tests in the background may have them ignored."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """Do not search thousands of tests for garbage again and again: an eighth of the time of all tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--wheel", type=Path, help="check this wheel instead of building one from an sdist")
    parser.addoption("--pairs", type=Path, help="check the pairs of traces in this folder instead of those recorded")
