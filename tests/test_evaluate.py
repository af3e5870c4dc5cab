"""Questions of TraceLens's evaluations are answered with their figures, in few calls and tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from agents.evaluate import CALLS, TOKENS, Task, holds, result, tasks

from corpus import needs_corpus

TASKS = {Path(task.case).name: task for task in tasks()}


@pytest.fixture
def cases(corpus: Path) -> Path:
    return corpus / "external"


@needs_corpus
@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_answered(name: str, cases: Path) -> None:
    found = result(TASKS[name], cases)
    assert found.missing == ()
    assert len(found.task.calls) <= CALLS
    assert 100 < found.tokens <= TOKENS
    assert found.passes


@needs_corpus
@pytest.mark.parametrize("name", TASKS)
def test_figures_are_those_of_the_reference(name: str, cases: Path) -> None:
    task = TASKS[name]
    reference = task.reference(cases)
    assert [figure for figure in task.figures if not holds(reference, figure, whatever_unit=True)] == []


@needs_corpus
def test_every_case_is_a_task_and_what_is_not_answered_is_missing(cases: Path) -> None:
    folders = [
        path.parent for kind in ("", "-comparative") for path in cases.glob(f"tracelens-evals{kind}/*/reference.md")
    ]
    assert {folder.name for folder in folders} == set(TASKS)
    task = TASKS["gemm_01_compute_few_tiles"]
    wrong = replace(task, figures=(*task.figures, "12.3 ms"), words=("aten::bmm",))
    assert result(wrong, cases).missing == ("12.3 ms", "aten::bmm")
    assert not result(replace(task, calls=task.calls * 2), cases).passes


@pytest.mark.parametrize(
    ("text", "figure", "there"),
    [
        ("took 10.9 ms in 10 calls", "10.89 ms", True),
        ("took 10.9 ms in 10 calls", "10 calls", True),
        ("took 10,890 us", "10.89 ms", True),
        ("took 10.9 s", "10.89 ms", False),
        ("took 11.1 ms", "10.89 ms", False),
        ("1.260 ->      0.800 ms", "1.26 ms", True),
        ("1.260 ->      0.800 ms", "0.80 ms", True),
        ("share 1.27", "1.3", True),
        ("share 1.27", "1.3 %", False),
        ("share 1.23", "1.3", False),
        ("MT256x128x64 v2.5", "128", False),
    ],
)
def test_figures_are_found_with_their_units(text: str, figure: str, there: bool) -> None:
    assert holds(text, figure) == there


def test_tasks_are_whole() -> None:
    assert len(TASKS) == len(tasks())
    assert all(isinstance(task, Task) and task.figures and task.words and task.question for task in TASKS.values())
