"""Ten thousand different calls below one frame, on both sides: neither time nor memory for all pairs of them."""

from __future__ import annotations

import resource
from itertools import pairwise
from random import Random
from time import process_time
from typing import Any

import numpy as np
import pytest
from alignments import aligned, graph, kernels
from call_trees import frame, launch, op
from growth import cost
from handmade import span

from tracelens_graph.analyses.alignment import costs, leaf_matching, matches, sequence
from tracelens_graph.analyses.alignment.align import align
from tracelens_graph.analyses.alignment.matches import common_places
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loading.one import load_core

pytestmark = pytest.mark.proof

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


def test_long_chains_of_other_names_need_no_table() -> None:
    first, second = tuple(range(20_000)), tuple(range(20_000, 40_000))
    assert cost(lambda: common_places(first, second)).peak < 8 << 20
    found = common_places((*first, 7), (*second[:9000], *range(5, 15_000, 2), *second[9000:]))
    assert len(found) == 7497
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(found))


@pytest.mark.parametrize("link", [False, True])
def test_many_threads_and_streams_are_paired_with_their_like(link: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def lanes(count: int) -> Window:
        return window_of(load_core([event for k in range(count) for event in lane(k, link)]))

    def lane(k: int, link: bool) -> list[dict[str, Any]]:
        kernel = span("kernel", f"kernel_{k % 50}", 10.0 + k, 0.5, 0, 7 + k, device=0, stream=7 + k, correlation=k)
        call = span("cuda_runtime", "cudaLaunchKernel", float(k), 0.5, 100, 100 + k, correlation=k)
        return [call, kernel] if link else [kernel]

    monkeypatch.setattr(leaf_matching, "_ROOT_PAIRS", 100)
    few, many = lanes(60), lanes(61)
    found = align(few, many)
    assert (found.leaves[0] >= 0).all()
    names = [kernels(side) for side in found.sides]
    assert all(names[0][i] == names[1][j] for i, j in enumerate(found.leaves[0].tolist()))


def test_what_is_too_long_for_a_band_is_cut_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence, "_CELLS", 1000)
    monkeypatch.setattr(sequence, "_MOST_CELLS", 5000)
    monkeypatch.setattr(sequence, "_LARGE", 1 << 40)
    first, second = np.arange(400), np.arange(400) + 1_000_000
    second[100:300:3] = first[100:300:3]
    ones = np.ones(400, np.int64)
    pairs = sequence.aligned(
        ones,
        ones,
        lambda i, j, k: np.where(first[i] == second[j:k], 0, sequence.NEVER),
        (first, second),
        (first, second),
    )
    # Neighbours that are cut apart may be lost.
    assert len(pairs) > 60
    assert all(first[i] == second[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))


def test_only_the_nearest_callers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def nested(depth: int, name: str) -> Any:
        call = op(f"{name}{depth}", launch(f"kernel{depth}"))
        for level in reversed(range(depth)):
            call = op(f"{name}{level}", call, launch(f"kernel{level}"))
        return [frame("deep.py(1): main", call)]

    monkeypatch.setattr(costs, "_NEAREST", 3)
    monkeypatch.setattr(matches, "_WRAPPERS", 3)
    found = aligned(nested(40, "one"), nested(40, "other"))
    assert (found.leaves[0] >= 0).all()


def _peak_memory() -> int:
    """Largest resident memory of this process so far, in bytes (Linux counts in KiB)."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
