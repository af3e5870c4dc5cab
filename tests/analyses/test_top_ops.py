"""The operations with most GPU time: known answers."""

from __future__ import annotations

from typing import Any

from handmade import call, gpu, span

from tracelens_graph.analyses.ops.top_ops import top_ops
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core


def work(*layers: tuple[str, float]) -> Core:
    """A model whose modules, named, launch one kernel of some us each."""
    events: list[dict[str, Any]] = [span("python_function", "nn.Module: Net_0", 0, 1_000)]
    for number, (name, us) in enumerate(layers, 1):
        at = 10 * number
        events += [span("python_function", f"nn.Module: {name}", at, 8), span("cpu_op", "aten::mm", at + 1, 6)]
        events += [call(at + 2, number, dur=1), gpu(100 * number, us, number)]
    return load_core(events)


def test_a_row_names_a_call_of_the_place_that_it_names() -> None:
    core = work(("Linear_0", 20), ("Linear_1", 25), ("Head_0", 30))
    (row,) = top_ops(core).records()
    assert (row["name"], row["mostly_in"], row["total_ms"]) == ("aten::mm", "Net/Linear (60 %)", 0.075)
    assert row["uid"] == 6  # of the 25 us, not of the longest call, which is in Head


def test_without_a_place_the_longest_call_is_named() -> None:
    (row,) = top_ops(load_core([span("cpu_op", "aten::mm", 0, 6), call(1, 1), gpu(10, 5, 1)])).records()
    assert (row["mostly_in"], row["uid"]) == ("", 0)
