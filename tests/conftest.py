"""What all tests share: the corpus of real traces, hypothesis profiles, and no silent skip in CI."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from neo4j_server import neo4j, neo4j_program, pytest_unconfigure  # noqa: F401 (fixtures and a hook for all tests)

from corpus import CORPUS, GOLDENS, NO_CORPUS, NO_GOLDENS

IN_CI = os.environ.get("CI") == "true"

# Timing of one example says nothing on a shared machine, so no profile has a deadline.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if IN_CI else "dev")


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real traces."""
    if CORPUS is None:
        pytest.skip(NO_CORPUS)
    return CORPUS


@pytest.fixture(scope="session")
def goldens(corpus: Path) -> Path:
    """The folder of reference tables; they are of no use without the traces they were made of."""
    if GOLDENS is None:
        pytest.skip(NO_GOLDENS)
    return GOLDENS


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


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--wheel", type=Path, help="check this wheel instead of building one from an sdist")
