"""How often ops are called, told without times."""

from __future__ import annotations

import numpy as np
from made_execution import Op, tensor, trace

from corpus import CHECKOUT
from tracelens_graph.analyses.structure.calls import calls_by_arguments, calls_by_category, calls_by_op
from tracelens_graph.loading.one import load_core

EXAMPLE = CHECKOUT / "examples/traces/tiny-transformer-cpu"

TRACE = trace(
    [
        Op(4, "aten::mm", 3, [tensor(20), tensor(21)]),
        Op(3, "aten::matmul", inputs=[tensor(20), tensor(21)]),
        Op(5, "aten::mm", inputs=[tensor(22), tensor(23)]),
        Op(6, "aten::mm", inputs=[tensor(22, (4, 4)), tensor(23)]),
        Op(7, "my op"),
        Op(8, "a range", facts={"scope": 7}),
    ]
)


def test_calls_of_a_small_trace() -> None:
    g = load_core(TRACE)
    assert calls_by_op(g).records()[0] == {
        "op": "aten::mm", "category": "GEMM", "calls": 3, "percent": 60.0, "outermost": 2, "argument_sets": 2,
        "threads": 1, "uid": 1,
    }  # fmt: skip
    assert [(row["op"], row["calls"], row["argument_sets"]) for row in calls_by_op(g).records()] == [
        ("aten::mm", 3, 2), ("aten::matmul", 1, 1), ("my op", 1, 0),
    ]  # fmt: skip
    by_category = {row["category"]: row for row in calls_by_category(g).records()}
    assert (by_category["GEMM"]["calls"], by_category["GEMM"]["outermost"]) == (3, 2)
    assert sum(row["calls"] for row in by_category.values()) == 5
    first, *others = calls_by_arguments(g).records()
    assert first == {
        "op": "aten::mm", "input_dims": "[[2,3],[2,3]]", "input_types": '["float","float"]',
        "input_strides": "[[3,1],[3,1]]", "concrete_inputs": '["",""]', "calls": 2, "percent": 50.0, "uid": 1,
    }  # fmt: skip
    assert [row["op"] for row in others] == ["aten::matmul", "aten::mm"]


def test_windows_and_other_traces() -> None:
    """A profile has the same calls of ops as the execution trace of its run, but for the ends of the recording."""
    alone, profile = (load_core(f"{EXAMPLE}{end}.json.gz") for end in (".execution-trace", ""))
    one, other = ({row["op"]: row["calls"] for row in calls_by_op(g).records()} for g in (alone, profile))
    assert one == other
    inside = calls_by_op(alone.window(under="aten::linear"))
    assert 0 < np.sum(inside["calls"]) < sum(one.values())


def test_a_trace_without_ops_has_empty_tables() -> None:
    g = load_core(trace([]))
    assert [len(make(g)) for make in (calls_by_op, calls_by_category, calls_by_arguments)] == [0, 0, 0]
