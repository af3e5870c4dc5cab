"""Every rule has a trace in which it finds its opportunity, and one in which it must not."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from handmade import call, gpu, span

from tracelens_graph.analyses.diagnosis.finding import ADVICE
from tracelens_graph.analyses.opportunities.opportunities import found_in, opportunities
from tracelens_graph.analyses.opportunities.opportunity import Opportunity
from tracelens_graph.analyses.opportunities.rules import RULES
from tracelens_graph.graph.window import window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import Architecture

Events = list[dict[str, Any]]


def ops(
    many: int = 40, us: float = 200, name: str = "aten::add", start: float = 0, first: int = 0, **kernel: Any
) -> Events:
    """Ops, each of one kernel, all launched ahead and run back to back."""
    found = []
    for n in range(many):
        at = start + 10 * n
        found += [
            span("cpu_op", name, at, 8),
            call(at + 1, first + n),
            gpu(start + 20 + us * n, us, first + n, **kernel),
        ]
    return found


def waiting(name: str, us: float, cat: str = "python_function") -> Events:
    """Ops, then a call during which the GPU has nothing to do, then more ops."""
    return [*ops(), span(cat, name, 400, 7_700 + us), *ops(start=8_100 + us, first=100)]


class Case(NamedTuple):
    """Two traces: in the first the rule finds something, in the second it must not."""

    found: Events
    left: Events
    arch: Architecture | None = None


CASES: dict[str, Case] = {
    "data-loader": Case(
        waiting("torch/utils/data/dataloader.py(700): __next__", 5_000),
        waiting("torch/utils/data/dataloader.py(700): __next__", 100),
    ),
    "synchronization": Case(
        waiting("cudaStreamSynchronize", 5_000, "cuda_runtime"), waiting("cudaStreamSynchronize", 100, "cuda_runtime")
    ),
    "python": Case(waiting("train.py(3): work", 5_000), waiting("train.py(3): work", 100)),
}


def of_rule(rule: str, events: Events, arch: Architecture | None) -> list[Opportunity]:
    return [one for one in found_in(window_of(load_core(events)), arch) if one.rule == rule]


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_finds_what_it_should_and_nothing_else(rule: str) -> None:
    case = CASES[rule]
    (one,) = of_rule(rule, case.found, case.arch)
    assert 0 < one.gain_ns <= one.ns
    assert one.advice
    assert one.advice[0] in ADVICE
    assert not of_rule(rule, case.left, case.arch)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_a_source(rule: str) -> None:
    one = RULES[rule]
    assert one.source.startswith("https://")
    assert one.thresholds


def test_the_table_is_ranked_by_gain() -> None:
    table = opportunities(load_core(CASES["data-loader"].found))
    (first, *_) = table.records()
    assert first["id"] == "data-loader"
    assert first["could_win_ms"] == pytest.approx(5.0, rel=0.1)
    assert first["percent"] == pytest.approx(100 * first["could_win_ms"] / (16 + first["could_win_ms"]), rel=0.02)


def test_an_id_is_the_same_in_every_run() -> None:
    slow, slower = (waiting("torch/utils/data/dataloader.py(700): __next__", us) for us in (5_000, 7_000))
    ids = [[one.id for one in found_in(window_of(load_core(events)))] for events in (slow, slower)]
    assert ids[0] == ids[1]
