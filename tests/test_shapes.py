"""Whatever the shape of a trace, twice the events are about twice the work: for building, and for every question.

Work is counted: function calls, and elements of arrays. `benchmarks/hard_shapes.py` takes the seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest
from growth import calls, elements, metered
from shapes import SHAPES, trace

from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.categories import kernels
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph import traversals
from tracelens_graph.graph.collective_kinds import communication
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core

pytestmark = pytest.mark.proof

SIZES = (100, 200, 400)
AT_MOST = 2.2
"""Growth for each doubling; quadratic work would be 4."""

SLACK = (1000, 10_000)
"""Calls and elements that may come on top, so that nothing which happens once is taken for growth."""


WARM: set[str] = set()
"""What ran once, so that imports and compiled patterns are not counted."""


def cost(call: Callable[[], object]) -> tuple[int, int]:
    kernels._KEPT.clear()  # what is known of names that another size had, too
    communication.cache_clear()
    made = 0

    def counted() -> None:
        nonlocal made
        made = elements(call)

    return calls(counted), made


def asked(core: Core, question: str) -> object:
    try:
        return QUESTIONS[question](core)
    except AnalysisError:
        return None  # the shape has nothing of what is asked for


def ways() -> Iterator[tuple[str, Callable[[Core], object]]]:
    for question in QUESTIONS:
        if not QUESTIONS[question].several:
            yield question, lambda core, question=question: asked(core, question)
    yield "busy", lambda core: core.gpu_busy_ns(np.arange(len(core.columns)))
    yield "annotation", lambda core: (core.annotation, core.step)


@pytest.mark.parametrize("shape", SHAPES)
def test_work_grows_with_the_trace(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traversals, "_EXPANDED", 4)
    cores = [load_core(trace(shape, n)) for n in SIZES]
    too_much = {}
    for name, call in ways():
        if name not in WARM:
            call(cores[0])
            WARM.add(name)
        costs = [cost(lambda core=core, call=call: call(metered(core))) for core in cores]
        for once, twice in pairwise(costs):
            if any(b > AT_MOST * a + slack for a, b, slack in zip(once, twice, SLACK, strict=True)):
                too_much[name] = costs
    assert not too_much
