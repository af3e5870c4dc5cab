"""Pairs of a profiler's trace and an execution trace of one run: real ones, and where they are."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from corpus import CHECKOUT, CORPUS, needs_corpus

EXAMPLES = CHECKOUT / "examples/traces"


class Pair(NamedTuple):
    """Files of a pair."""

    trace: Path
    execution_trace: Path

    def documents(self) -> tuple[Any, Any]:
        """Both as JSON."""
        return document(self.trace), document(self.execution_trace)


@cache
def document(path: Path) -> Any:
    """A JSON file, read once for all tests of a process: who changes it copies it."""
    return json.loads(gzip.decompress(path.read_bytes()))


def linked(folder: Path, name: str) -> Pair:
    """A pair that `examples/record_pairs.py` recorded into a folder."""
    return Pair(folder / f"{name}.json.gz", folder / f"{name}.execution-trace.json.gz")


def _of_corpus() -> dict[str, Pair]:
    if not CORPUS:
        return {}
    linkage, dlrm = CORPUS / "linkage", CORPUS / "dlrm-8-ranks"
    return {
        "simple-add": Pair(linkage / "simple-add/kineto.json.gz", linkage / "simple-add/execution-trace.json.gz"),
        "resnet-ddp": Pair(
            CORPUS / "hta/resnet-ddp-nccl-args.json.gz", linkage / "resnet-ddp/execution-trace-1.0.3.json.gz"
        ),
    } | {
        f"dlrm-{rank}": Pair(dlrm / f"kineto/rank{rank}.json.gz", dlrm / f"execution-trace/rank{rank}.json.gz")
        for rank in range(8)
    }


OF_CORPUS = _of_corpus()

RECORDED = ("threads", "compiled", "lineage", "one-step")
"""Pairs that `examples/record_pairs.py` records."""


def parametrize_real() -> pytest.MarkDecorator:
    """Run a test once per real pair of the corpus, and of the tiny transformer; those recorded have a fixture."""
    cases = [pytest.param(pair, id=name, marks=needs_corpus) for name, pair in OF_CORPUS.items()]
    tiny = Pair(EXAMPLES / "tiny-transformer-cpu.json.gz", EXAMPLES / "tiny-transformer-cpu.execution-trace.json.gz")
    none = [] if cases else [pytest.param(None, id="none", marks=needs_corpus)]
    return pytest.mark.parametrize("pair", [pytest.param(tiny, id="tiny-transformer"), *cases, *none])
