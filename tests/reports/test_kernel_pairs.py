"""Kernels of two sides that look alike."""

from __future__ import annotations

from tracelens_graph.reports.diff_tree import told_apart
from tracelens_graph.tables.names import short_name

FOUR, EIGHT, SIX = (f"void add<{number}, int>(float)" for number in (4, 8, 6))


def test_what_looks_alike_is_told_apart() -> None:
    assert told_apart([FOUR], [EIGHT], short_name) == {EIGHT: "other template arguments: 4 became 8"}
    assert told_apart([FOUR, "relu"], ["gelu", EIGHT], short_name) == {EIGHT: "other template arguments: 4 became 8"}


def test_what_both_run_or_looks_different_is_not() -> None:
    assert told_apart([FOUR], [FOUR], short_name) == {}
    assert told_apart([FOUR, EIGHT], [EIGHT], short_name) == {}
    assert told_apart(["relu"], ["gelu"], short_name) == {}


def test_each_of_the_first_stands_for_one() -> None:
    found = told_apart([FOUR], [EIGHT, SIX], short_name)
    assert found == {EIGHT: "other template arguments: 4 became 8"}
    assert set(told_apart([FOUR, "void add<5, int>(float)"], [EIGHT, SIX], short_name)) == {EIGHT, SIX}


def test_builds_without_other_arguments() -> None:
    assert told_apart(["add(float)"], ["add(double)"], lambda _: "add")["add(double)"]
