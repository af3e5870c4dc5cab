"""Ten thousand different calls below one frame, on both sides: neither time nor memory for all pairs of them."""

from __future__ import annotations

import resource
from random import Random
from time import process_time
from typing import Any

import pytest
from alignments import graph
from call_trees import frame, launch, op

from tracelens_graph.analyses.alignment.difference import align
from tracelens_graph.graph.window import Window, window_of

CALLS = 10_000


def side(names: list[Any], size: int = 8) -> Window:
    calls = []
    for name in names:
        call = op(f"aten::{name}", launch("gemm"), **{"Input Dims": [[size, 4]]})
        calls.append(frame(f"wide.py(1): call_{name}", call))
    return window_of(graph([frame("wide.py(1): main", *calls)]))


def edited(names: list[Any]) -> list[Any]:
    random = Random(1)
    found = [name for name in names if random.random() > 0.01]
    for _ in range(100):
        found.insert(random.randrange(len(found)), f"new_{random.random()}")
    return found


def shuffled(names: list[Any]) -> list[Any]:
    return Random(1).sample(names, len(names))


NAMES: list[Any] = list(range(CALLS))
OTHERS: list[Any] = [f"other_{k}" for k in range(CALLS)]
CASES = {
    "equal but for some": (NAMES, edited(NAMES), 9890),
    "nothing alike": (NAMES, OTHERS, CALLS),
    "in any order": (NAMES, shuffled(NAMES), 200),
    "few names": ([k % 100 for k in NAMES], [k * k % 100 for k in NAMES], 200),
}


@pytest.mark.parametrize("case", CASES)
def test_ten_thousand_calls_below_one_frame(case: str) -> None:
    first, second, least = CASES[case]
    a, b = side(first), side(second, 16 if case == "few names" else 8)
    memory, start = _peak_memory(), process_time()
    found = align(a, b)
    seconds = process_time() - start
    assert int((found.leaves[0] >= 0).sum()) >= least
    # Takes up to 3 s of processor time; all pairs of children and their callers took minutes.
    assert seconds < 15
    assert _peak_memory() - memory < 400e6


def _peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes (Linux counts in KiB)."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
