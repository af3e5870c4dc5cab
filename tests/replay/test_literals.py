"""Values become source that evaluates to them, and nothing else does."""

from __future__ import annotations

import ast
import keyword
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_plans import HOSTILE, SCALARS

from tracelens_graph.replay.literals import identifier, literal

VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3), max_leaves=6
)


def evaluated(source: str) -> Any:
    return eval(source, {"__builtins__": {"float": float, "complex": complex}})


def alike(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, complex):
        return alike(one.real, other.real) and alike(one.imag, other.imag)
    if isinstance(one, float):
        return (
            math.isnan(other) if math.isnan(one) else (one, math.copysign(1, one)) == (other, math.copysign(1, other))
        )
    return bool(one == other)


@given(VALUES)
def test_a_literal_evaluates_to_its_value(value: Any) -> None:
    source = literal(value)
    assert source.isascii()
    assert alike(evaluated(source), value)


@given(HOSTILE)
def test_a_text_is_one_string(text: str) -> None:
    tree = ast.parse(literal(text), mode="eval").body
    assert isinstance(tree, ast.Constant)
    assert tree.value == text


def test_strings_are_quoted_as_the_formatter_does() -> None:
    assert literal("aten::mm") == '"aten::mm"'
    assert literal("it's") == '"it\'s"'
    assert literal('a "b"') == "'a \"b\"'"


def test_tuples_are_lists() -> None:
    assert literal((1, (2,), ())) == "[1, [2], []]"


def test_long_lists_take_several_lines() -> None:
    lines = literal(list(range(100)), "    ").splitlines()
    assert lines[0] == "["
    assert lines[-1] == "    ]"
    assert all(line.startswith("        ") and len(line) <= 100 for line in lines[1:-1])


class Impostor(str):
    def __repr__(self) -> str:
        return "__import__('os')"


@pytest.mark.parametrize("value", [Impostor("x"), b"x", object(), {1}, ...])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="no literal"):
        literal(value)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("aten::mm", "aten_mm"),
        ("aten::add_", "aten_add"),
        ("3d", "op_3d"),
        ("", "op"),
        ("é\0", "op"),
        ("class", "class_"),
    ],
)
def test_identifiers(text: str, name: str) -> None:
    assert identifier(text) == name


@given(HOSTILE)
def test_an_identifier_is_a_name(text: str) -> None:
    name = identifier(text)
    assert name.isidentifier()
    assert name.isascii()
    assert not keyword.iskeyword(name)
