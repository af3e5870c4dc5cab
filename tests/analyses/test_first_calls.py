"""First calls of ops, which the host spends longer in: which count, and what a report says of them."""

from __future__ import annotations

from typing import Any

from handmade import call, gpu, span

from tracelens_graph.analyses.diagnosis.causes import losses_of
from tracelens_graph.analyses.diagnosis.finding import Finding
from tracelens_graph.analyses.idle.first_calls import slow_first_calls
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import window_of
from tracelens_graph.loading.one import load_core


def run(*took: tuple[str, int, float], inner: str = "") -> Core:
    """Ops one after another, 10 us apart, by name, number of rows and time on the host in us; each launches a kernel of
    1 us as it ends. `inner` is an op that each of them calls for nearly all of its time."""
    events: list[dict[str, Any]] = []
    at = 0.0
    for number, (name, rows, us) in enumerate(took, 1):
        sizes = {"Input_Dims": [[rows, 64], [64, 64]], "Input_type": ["float", "float"]}
        events.append(span("cpu_op", name, at, us, **sizes))
        if inner:
            events.append(span("cpu_op", inner, at + 1, us - 1, **sizes))
        events += [call(at + us - 2, number), gpu(at + us, 1, number)]
        at += us + 10
    return load_core(events)


def loss(core: Core) -> Finding:
    (found,) = (one for one in losses_of(window_of(core)) if one.topic == "launches")
    return found


MANY = [("aten::mm", 8, 20.0)] * 9


def test_the_first_call_of_each_size_counts_where_it_is_slow() -> None:
    core = run(*MANY, ("aten::mm", 16, 500), *MANY, ("aten::mm", 32, 199), ("aten::mm", 16, 900), ("aten::mm", 64, 200))
    slow = slow_first_calls(core)
    assert (core.columns.dur_ns[slow] / 1e3).tolist() == [500, 200], "of equal sizes the first, 10 times 20 us at least"


def test_few_calls_have_no_median_to_go_by_and_the_outermost_call_counts() -> None:
    assert not len(slow_first_calls(run(("aten::mm", 8, 500), ("aten::mm", 8, 10))))
    core = run(("aten::linear", 8, 500), *[("aten::linear", 8, 20.0)] * 9, inner="aten::mm")
    assert [core.names[code] for code in core.columns.name[slow_first_calls(core)]] == ["aten::linear"]
    assert not len(slow_first_calls(load_core([call(0, 1), gpu(5, 1, 1)])))


def test_a_report_names_them_and_suggests_to_warm_up() -> None:
    found = loss(run(*MANY, ("aten::mm", 16, 100), ("aten::add", 8, 30), ("aten::mm", 32, 300), *MANY))
    assert found.evidence["first_calls"] == 1
    assert found.evidence["first_calls_ms"] == 0.3
    assert "; 300 us of it in the first call of aten::mm with its sizes, 10 times" in found.text
    assert found.advice[:1] == ("warm_up",)


def test_where_they_are_most_of_it_nothing_else_is_suggested() -> None:
    found = loss(run(*MANY, ("aten::mm", 16, 5_000), ("aten::mm", 32, 6_000), *MANY))
    assert (found.evidence["first_calls"], found.advice) == (2, ("warm_up",))
    assert "in the first calls of 2 ops and sizes" in found.text


def test_without_slow_ones_nothing_is_said() -> None:
    found = loss(run(*MANY, ("aten::mm", 16, 150), *MANY))
    assert "first_calls" not in found.evidence
    assert "warm_up" not in found.advice
