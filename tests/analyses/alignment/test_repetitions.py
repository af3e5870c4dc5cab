"""One repetition of a program that a trace repeats without steps."""

from __future__ import annotations

import numpy as np
import pytest
from call_trees import FORWARD, call_of, load, module

from tracelens_graph.analyses.alignment.compared_steps import choice_note, median_steps
from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of


def program(times: int, layers: int = 3) -> Core:
    """An embedding, equal layers and a head, several times."""
    calls = []
    for _ in range(times):
        inner = [module(f"Layer_{k}", call_of("mm"), call_of("relu")) for k in range(layers)]
        calls.append(module("Net_0", call_of("embedding"), *inner, call_of("softmax")))
    return load({FORWARD: calls})


def compared(a: Core, b: Core) -> tuple[Window, Window]:
    return median_steps(window_of(a), window_of(b))


@pytest.mark.parametrize("times", [2, 5])
def test_one_of_several_is_compared_with_the_one_of_the_other(times: int) -> None:
    for one, other in ((1, times), (times, 1)):
        windows = compared(program(one), program(other))
        assert [len(window.gpu_rows) for window in windows] == [8, 8]
        assert f"repetition {(times + 1) // 2} of {times}" in windows[other == times].title
        assert "one repetition" in choice_note(*windows)
        found = diff(*windows)
        assert all((partner >= 0).all() for partner in found.alignment.leaves)


def test_parts_of_a_repeated_program_are_all_of_it() -> None:
    w = window_of(program(3))
    parts = [compared(program(1), program(3))[1]]
    assert np.isin(parts[0].gpu_rows, w.gpu_rows).all()
    assert len(w.gpu_rows) == 3 * len(parts[0].gpu_rows)


@pytest.mark.parametrize(("one", "other"), [(2, 2), (1, 1)])
def test_as_many_on_both_sides_stay_as_they_are(one: int, other: int) -> None:
    windows = window_of(program(one)), window_of(program(other))
    assert median_steps(*windows) == windows


def test_more_layers_are_no_repetition() -> None:
    windows = window_of(program(1, layers=4)), window_of(program(1, layers=24))
    assert median_steps(*windows) == windows


def test_repetitions_that_are_not_quite_equal_are_repetitions() -> None:
    calls = []
    for number in range(4):
        inner = [module(f"Layer_{k}", call_of("mm"), call_of("relu")) for k in range(12)]
        extra = [call_of("tune")] if number == 1 else []
        head = [call_of("softmax")] if number != 2 else []
        calls.append(module("Net_0", call_of("embedding"), *inner, *extra, *head))
    irregular = load({FORWARD: calls})
    first, second = compared(program(1, layers=12), irregular)
    assert "of 4" in second.title
    assert abs(len(second.gpu_rows) - len(first.gpu_rows)) <= 1
    assert compared(irregular, program(1, layers=12))[0].title == second.title


def test_a_program_that_only_begins_alike_is_no_repetition() -> None:
    calls = [module("Net_0", call_of("embedding"), *[call_of(f"op{k}") for k in range(n)]) for n in (9, 1, 30)]
    windows = window_of(load({FORWARD: calls[:1]})), window_of(load({FORWARD: calls}))
    assert median_steps(*windows) == windows
