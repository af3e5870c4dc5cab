"""Where the real traces and the reference tables are, and how tests name them.

Both folders are optional: tests that need one skip with its reason where it is absent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]


def _folder(variable: str, beside_checkout: str) -> Path | None:
    folder = Path(os.environ.get(variable) or CHECKOUT.parent / beside_checkout)
    return folder.resolve() if folder.is_dir() else None


CORPUS = _folder("TRACELENS_GRAPH_CORPUS", "shared/traces")
GOLDENS = _folder("TRACELENS_GRAPH_GOLDENS", "shared/goldens")

NO_CORPUS = "no folder of real traces: set TRACELENS_GRAPH_CORPUS"
NO_GOLDENS = "no folder of reference tables: set TRACELENS_GRAPH_GOLDENS"

needs_corpus = pytest.mark.skipif(CORPUS is None, reason=NO_CORPUS)
needs_goldens = pytest.mark.skipif(CORPUS is None or GOLDENS is None, reason=NO_GOLDENS)


def _files(pattern: str) -> list[Path]:
    return sorted(CORPUS.rglob(pattern)) if CORPUS else []


def _is_execution_trace(path: Path) -> bool:
    return path.name.startswith("execution-trace") or path.parent.name == "execution-trace"


def kineto_traces() -> list[Path]:
    """All Kineto traces of the corpus; empty without a corpus."""
    return [path for path in _files("*.json.gz") if not _is_execution_trace(path)]


def execution_traces() -> list[Path]:
    """All PyTorch execution traces of the corpus; empty without a corpus."""
    return [path for path in _files("*.json.gz") if _is_execution_trace(path)]


def xplane_files() -> list[Path]:
    """All JAX/XLA profiles of the corpus; empty without a corpus."""
    return _files("*.xplane.pb")


def trace_id(path: Path) -> str:
    """Name of a trace in test ids: its path in the corpus, without suffixes."""
    assert CORPUS is not None
    return path.relative_to(CORPUS).as_posix().removesuffix(".json.gz")


def parametrize(argument: str, paths: Iterable[Path]) -> pytest.MarkDecorator:
    """Run a test once per trace; without a corpus it is one skipped test, not none.

    >>> @parametrize("path", kineto_traces())
    ... def test_loads(path: Path) -> None: ...
    """
    cases = [pytest.param(path, id=trace_id(path)) for path in paths]
    return pytest.mark.parametrize(
        argument, cases or [pytest.param(None, id="no-corpus", marks=pytest.mark.skip(reason=NO_CORPUS))]
    )
