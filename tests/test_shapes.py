"""Whatever the shape of a trace, twice the events are about twice the work: for building, questions and commands.

Work is counted: lines and function calls, and elements of arrays. `benchmarks/hard_shapes.py` takes the seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from growth import calls, elements, metered, steps
from shapes import SHAPES, trace
from typer.testing import CliRunner

from tracelens_graph.analyses.alignment import root_pairs
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.categories import kernels
from tracelens_graph.cli.app import app
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph import traversals
from tracelens_graph.graph.batches import batch_of
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


def forget_names() -> None:
    """What is known of names that another size had, too."""
    kernels._KEPT.clear()
    communication.cache_clear()
    batch_of.cache_clear()


def cost(call: Callable[[], object]) -> tuple[int, int]:
    forget_names()
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


COMMANDS = (
    ("process_groups", "info A"),
    ("process_groups", "ranks A B --path"),
    ("threads", "diff A B"),
    ("nested_batches", "report A --csv OUT"),
    ("nested_batches", "report A -o OUT.html"),
    ("devices", "info A"),
    ("steps_of_a_rank", "ranks A B -o OUT.html"),
    ("steps_of_a_rank", "ranks A B --path"),
    ("steps_of_a_rank", "ranks A B --path --table critical_path_steps"),
    ("modules", "diff A B"),
    ("modules", "diff A B -o OUT.html"),
    ("modules", "modules A"),
    ("modules", "report A -o OUT.html"),
)
"""Shapes, and what is done with traces of them, beside questions."""

LARGER = (192, 384, 768)


@pytest.mark.parametrize(("shape", "command"), COMMANDS, ids=lambda one: one.replace(" ", "_"))
def test_work_of_commands_grows_with_the_trace(
    shape: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root_pairs, "_ROOT_PAIRS", 64)
    measured = []
    for n in LARGER:
        words = command.replace("OUT", str(tmp_path / f"{n}")).split()
        for name, found in zip("AB", two_ranks(shape, n), strict=True):
            (tmp_path / f"{name}{n}.json").write_text(json.dumps(found))
            words = [str(tmp_path / f"{name}{n}.json") if word == name else word for word in words]
        if not measured:
            run(words)  # imports are no growth
        forget_names()
        made = 0

        def counted(words: list[str] = words) -> None:
            nonlocal made
            made = elements(lambda: run(words))

        measured.append((steps(counted), made))
    for quantity in zip(*measured, strict=True):
        more = np.diff(quantity)  # what happens once is in neither
        assert more[1] <= 2.5 * more[0], quantity


def run(words: list[str]) -> None:
    assert CliRunner().invoke(app, ["--force", *words], catch_exceptions=False).exit_code == 0


def two_ranks(shape: str, n: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Traces of a shape by two ranks, of which the second calls some other ops and takes longer for some kernels."""
    first, second = trace(shape, n), trace(shape, n)
    for rank, one in enumerate((first, second)):
        one["distributedInfo"] = {"world_size": 2, **one.get("distributedInfo", {}), "rank": rank}
    for event in second["traceEvents"][::7]:
        if event["cat"] == "cpu_op":
            event["name"] = "aten::bmm"
        event["dur"] += event["cat"] == "kernel"
    return first, second
