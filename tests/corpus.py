"""Where the real traces and the reference tables are, and how tests name them.

Both folders are optional. What needs one bears the marker `corpus`, and skips with the reason where it is absent.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import pytest
from profiles import thorough

from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core

CHECKOUT = Path(__file__).resolve().parents[1]


def _folder(variable: str, beside_checkout: str) -> Path | None:
    folder = Path(os.environ.get(variable) or CHECKOUT.parent / beside_checkout)
    return folder.resolve() if folder.is_dir() else None


CORPUS = _folder("TRACELENS_GRAPH_CORPUS", "shared/traces")
GOLDENS = _folder("TRACELENS_GRAPH_GOLDENS", "shared/goldens")

NO_CORPUS = "" if CORPUS else "no folder of real traces: set TRACELENS_GRAPH_CORPUS"
NO_GOLDENS = NO_CORPUS or ("" if GOLDENS else "no folder of reference tables: set TRACELENS_GRAPH_GOLDENS")
"""Why tests that need the folder skip; empty where it is there. Reference tables need the traces they were made of."""

needs_corpus = pytest.mark.corpus(missing=NO_CORPUS)
needs_goldens = pytest.mark.corpus(missing=NO_GOLDENS)

CHOSEN = {
    "tracelens/h100/qwen1.5-0.5b": "inference with Python stacks and modules; 30 % of the GPU events have no launch",
    "tracelens/mi300/resnet-ddp-checkpointing": "training: backward, checkpointing, steps, collectives of eight ranks",
    "tracelens/mi300/normalization-layers": "training without steps; annotations, every kind of normalization",
    "tracelens/mi300/torch-compile-triton": "compiled ops",
    "tracelens/inference/vllm-decode/graph-replay": "graph launches, each of many kernels",
    "tracelens/mi210/gpu-only": "no op: GPU work that nobody is charged",
    "dlrm-8-ranks/kineto/rank0": "one of several ranks whose collectives have no arguments; no Python stacks",
    "hta/critical-path/event-sync-multi-stream": "streams that wait for one another; neither steps nor annotations",
    "hta/cpu-only/rank-34": "no GPU event",
}
"""The traces that analyses and reports run on, and what each of them is there for: between them they hold every
feature that an analysis treats apart, on both vendors. Loaders, graph and parity run on all traces."""


ELSEWHERE = "external"
"""Folder of the corpus with files of other tools and recordings by others, which come with formats and truths of their
own; tests of all traces do not take them."""


def _files(pattern: str) -> list[Path]:
    every = sorted(CORPUS.rglob(pattern)) if CORPUS else []
    return [path for path in every if ELSEWHERE not in path.parts]


def _is_execution_trace(path: Path) -> bool:
    return path.name.startswith("execution-trace") or path.parent.name == "execution-trace"


def kineto_traces() -> list[Path]:
    """All Kineto traces of the corpus; empty without a corpus."""
    return [path for path in _files("*.json.gz") if not _is_execution_trace(path)]


def chosen_traces() -> list[Path]:
    """The traces of CHOSEN; all Kineto traces if the run is to be thorough. Empty without a corpus."""
    return [path for path in kineto_traces() if thorough() or trace_id(path) in CHOSEN]


def execution_traces() -> list[Path]:
    """All PyTorch execution traces of the corpus; empty without a corpus."""
    return [path for path in _files("*.json.gz") if _is_execution_trace(path)]


def xplane_files() -> list[Path]:
    """All JAX/XLA profiles of the corpus; empty without a corpus."""
    return _files("*.xplane.pb")


def reference_tables(name: str, *flavours: str) -> list[tuple[str, Path, Path]]:
    """The reference tables of a name; empty without the folder of them.

    Args:
        name: the table.
        flavours: "default", "full" or both: the options that they were made with.

    Returns:
        For each `flavour/platform/trace`, the table and the trace.
    """
    if NO_GOLDENS:
        return []
    assert CORPUS is not None
    assert GOLDENS is not None
    found = []
    for flavour in flavours:
        for table in sorted((GOLDENS / flavour).glob(f"*/*/{name}.csv")):
            trace = table.parent.relative_to(GOLDENS / flavour).as_posix()
            places = [CORPUS / "tracelens" / f"{trace}{rest}" for rest in (".json.gz", "/graph-replay.json.gz")]
            found.append((f"{flavour}/{trace}", table, next(place for place in places if place.exists())))
    return found


def trace_id(path: Path) -> str:
    """Name of a trace in test ids: its path in the corpus, without suffixes."""
    assert CORPUS is not None
    return path.relative_to(CORPUS).as_posix().removesuffix(".json.gz")


def traces_named(*names: str) -> list[Path]:
    """The traces with these ids; empty without a corpus."""
    return [CORPUS / f"{name}.json.gz" for name in names] if CORPUS else []


@lru_cache(maxsize=64)
def loaded(path: Path) -> Core:
    """The graph of a real trace, one for all tests of a process: who changes a graph loads another."""
    return load_core(path)


def parametrize(argument: str, paths: Iterable[Path]) -> pytest.MarkDecorator:
    """Run a test once per trace; without a corpus it is one skipped test, not none.

    >>> @parametrize("path", kineto_traces())
    ... def test_loads(path: Path) -> None: ...
    """
    return pytest.mark.parametrize(argument, cases((trace_id(path), path) for path in paths))


def parametrize_all(argument: str, paths: Iterable[Path]) -> pytest.MarkDecorator:
    """Like `parametrize`, for what takes long: the traces that are not chosen are left to `make proof`."""
    marks = {True: (needs_corpus,), False: (needs_corpus, pytest.mark.proof)}
    found = [pytest.param(path, id=trace_id(path), marks=marks[trace_id(path) in CHOSEN]) for path in paths]
    return pytest.mark.parametrize(argument, found or cases([]))


def cases(
    found: Iterable[tuple[object, ...]], *, needs: pytest.MarkDecorator = needs_corpus, width: int = 1
) -> list[object]:
    """Cases for `pytest.mark.parametrize` that come of the corpus or the reference tables.

    Args:
        found: for each case its id, and the values of the parameters.
        needs: what they need: `needs_corpus` or `needs_goldens`.
        width: how many parameters there are.

    Returns:
        The cases, marked; where there are none, one that is skipped.
    """
    marked: list[object] = [pytest.param(*values, id=str(name), marks=needs) for name, *values in found]
    return marked or [pytest.param(*[None] * width, id="none", marks=needs)]
