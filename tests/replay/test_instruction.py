"""Instructions of XLA as programs of JAX: what is planned, what is refused and why, and what the programs make."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade_jax import F32, dot_dims, shape, training_profile
from instructions_to_replay import CASES, SQUARE, plan, profile_of
from plain_xplane import block
from replay_plans import plan_in

from tracelens_graph.errors import CannotReplay
from tracelens_graph.replay.folder import program_name
from tracelens_graph.replay.replay_plan import TensorValue, Work


@pytest.mark.parametrize("name", CASES)
def test_what_is_computed_is_planned_and_stands_in_its_program(name: str) -> None:
    opcode, *_ = CASES[name]
    made = plan(profile_of(*CASES[name]))
    assert made.opcode == ("convolution" if name == "library convolution" else opcode)
    (entry,) = plan_in(made.script(), "instruction")
    assert entry["opcode"] == made.opcode
    assert bool(made.assumed) == (name == "library convolution")


def test_a_plan_has_shapes_types_and_dimensions() -> None:
    made = plan(profile_of(*CASES["dot"]))
    assert made.operands == (TensorValue((3, 5, 4), "bfloat16"), TensorValue((3, 5, 6), "bfloat16"))
    assert made.result == TensorValue((3, 4, 6), "float32")
    assert made.call == {"dims": [[1], [1], [0], [0]]}
    made = plan(profile_of(*CASES["convolution"]))
    assert made.call["dims"] == [[0, 3, 1, 2], [3, 2, 0, 1], [0, 3, 1, 2]]
    assert (made.call["stride"], made.call["pad"]) == ([2, 2], [[1, 1], [1, 1]])


@pytest.mark.parametrize(
    ("opcode", "more", "why"),
    [
        ("fusion", b"", "a fusion: what is in it is not recorded in full"),
        ("while", b"", "control flow"),
        ("all-reduce", b"", "a collective"),
        ("custom-call", block(28, "te_fused_attn_forward"), "attention of a library"),
        ("custom-call", block(28, "lapack_ssyevd"), "a call of a library"),
        ("fft", b"", "no replay of fft"),
    ],
)
def test_what_cannot_be_replayed_says_why(opcode: str, more: bytes, why: str) -> None:
    with pytest.raises(CannotReplay) as told:
        plan(profile_of(opcode, SQUARE, [SQUARE], more))
    assert told.value.reason == why


def test_arrays_beyond_measure_and_of_unknown_types_are_refused() -> None:
    with pytest.raises(CannotReplay, match="larger than any memory"):
        plan(profile_of("tanh", shape(F32, 2**40), [shape(F32, 2**40)]))
    with pytest.raises(CannotReplay, match="no array of JAX is of type s4"):
        plan(profile_of("tanh", shape(21, 8), [shape(21, 8)]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "step.xplane.pb").write_bytes(training_profile())
    return tmp_path


def test_a_dot_is_told_apart_by_its_dimensions() -> None:
    square = shape(F32, 5, 5)
    one, other = (plan(profile_of("dot", square, [square, square], dot_dims([1], [at]))) for at in (0, 1))
    assert program_name(one, 1) != program_name(other, 1)


def test_bytes_of_a_product_are_those_of_its_operands_and_result() -> None:
    """Models know those of the whole fusion around it; 2 bytes of [3, 5, 4] and [3, 5, 6], 4 of [3, 4, 6]."""
    made = plan(profile_of(*CASES["dot"]))
    assert made.with_traced(made.traced, Work(8.0, 9e9)).work == Work(8.0, 588.0)
