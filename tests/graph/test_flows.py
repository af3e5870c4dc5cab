from __future__ import annotations

import numpy as np
import pytest

from tracelens_graph.graph.flows import Flow, FlowEnds, Flows
from tracelens_graph.loading.one import load_core
from tracelens_graph.utils.arrays import Numbering

ENDS: list[Flow] = [("s", 7, 0, 100), ("s", "7", 1, 110), ("f", 7, 1, 120), ("t", "x", 0, 130)]


def test_columns_hold_what_tuples_hold() -> None:
    flows = Flows.of(ENDS)
    assert list(flows) == ENDS
    assert flows[-1] == ENDS[-1]
    assert list(flows[1:3]) == ENDS[1:3]
    assert len(flows.ids) == 3
    assert flows.of_phase("s").tolist() == [0, 1]
    assert flows.of_phase("?").tolist() == []
    assert Flows.of(flows) is flows
    assert list(Flows.of()) == []


def test_threads_and_times_change_alone() -> None:
    changed = Flows.of(ENDS).with_threads(np.array([5, 4])).since(100)
    assert list(changed) == [("s", 7, 5, 0), ("s", "7", 4, 10), ("f", 7, 4, 20), ("t", "x", 5, 30)]


@pytest.mark.parametrize("split", range(len(ENDS) + 1))
def test_two_stretches_join_to_one(split: int) -> None:
    first, second = FlowEnds(), FlowEnds()
    for target, ends in ((first, ENDS[:split]), (second, ENDS[split:])):
        if ends:
            target.add(*zip(*ends, strict=True))
    first.join(second, np.array([0, 1]))
    assert list(first.flows()) == ENDS


def test_codes_of_another_table_are_taken_over() -> None:
    here, there = Numbering(a=0, b=1), Numbering(c=0, a=1)
    assert here.take_over(there).tolist() == [2, 0]
    assert list(here) == ["a", "b", "c"]


def test_threads_stand_by_process_with_numbers_before_text() -> None:
    places = [("p", 2), (3, "t"), (10, 1), (3, 4), ("p", "a"), (3, 2), ("P", 1)]
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": pid, "tid": tid, "ts": 1, "dur": 1} for pid, tid in places
    ]
    core = load_core({"traceEvents": events})
    assert core.threads == [(3, 2), (3, 4), (3, "t"), (10, 1), ("P", 1), ("p", 2), ("p", "a")]
