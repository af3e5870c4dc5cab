"""Attention of libraries: sizes and operations by hand, of calls as JAX configures them for cuDNN.

`cudnn_attention.json` holds what `jax._src.cudnn.fused_attention_stablehlo` (JAX 0.10) writes for 2 sequences of 128
queries and 256 keys and 8 heads, without the algorithm: BTNH without a mask, BNTH with a causal one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from handmade_jax import BF16, F32, U8, computation, instruction, program, shape, tuple_of
from plain_xplane import block

from tracelens_graph.hlo.attention import Attention, attention_flops, attention_of
from tracelens_graph.hlo.attributes import facts
from tracelens_graph.hlo.program import Program
from tracelens_graph.loaders.xplane.hlo import read_program

RECORDED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "cudnn_attention.json").read_text())
SHAPES = {
    "BTNH": ((2, 128, 8, 64), (2, 256, 4, 64), (2, 256, 4, 32)),
    "BNTH": ((2, 8, 128, 64), (2, 4, 256, 64), (2, 4, 256, 32)),
}
"""Queries of 8 heads, keys and values of 4."""


def call(layout: str, which: str, config: str, target: str = "") -> Program:
    """A program that is one call of cuDNN."""
    q, k, v = SHAPES[layout]
    operands = [instruction(n, f"p{n}", "parameter", shape(BF16, *dims)) for n, dims in enumerate((q, k, v), 1)]
    made = tuple_of(shape(BF16, *q), shape(F32, 2, 8, 128), shape(U8, 0))
    target = target or "__cudnn$fmhaSoftmax" + ("Backward" if which == "backward" else "")
    more = block(28, target) + block(43, config)
    one = instruction(9, "cudnn-fmha.9", "custom-call", made, [1, 2, 3], more=more)
    proto = program("p", 1, computation(1, "main", 9, *operands, one))
    return read_program(proto, 0, len(proto), 3)


def found(layout: str, which: str, config: str, target: str = "") -> Attention | None:
    made = call(layout, which, config, target)
    return attention_of(made, made.by_name["cudnn-fmha.9"])


@pytest.mark.parametrize("which", ["forward", "backward"])
@pytest.mark.parametrize("layout", ["BTNH", "BNTH"])
def test_what_jax_writes_for_cudnn(layout: str, which: str) -> None:
    config = json.dumps(RECORDED[f"{layout} {which}"])
    causal = layout == "BNTH"
    assert found(layout, which, config) == Attention(2, 128, 8, 256, 4, 64, 32, causal)
    made = call(layout, which, config)
    one = made.by_name["cudnn-fmha.9"]
    forward = 2 * 2 * 8 * 128 * 256 * (64 + 32) // (2 if causal else 1)
    assert attention_flops(made, one) == (forward * 5 // 2 if which == "backward" else forward)
    known = facts(made, one)
    assert known.table_name == f"hlo::custom-call(attention {which})"
    assert (known.attention, known.type, known.causal) == ((2, 128, 8, 256, 4, 64, 32), "bf16", causal)


def test_without_the_shape_of_the_scores_operands_tell() -> None:
    config = RECORDED["BTNH forward"]["cudnn_fmha_backend_config"]
    flat = {key: value for key, value in config.items() if key != "intermediate_tensor_shape"}
    assert found("BTNH", "forward", json.dumps(flat)) == Attention(2, 128, 8, 256, 4, 64, 32, False)
    assert found("BTNH", "forward", json.dumps({**flat, "is_causal_mask": True}), "__cudnn$fmhaScaleBiasSoftmax") == (
        Attention(2, 128, 8, 256, 4, 64, 32, True)
    )


def changed(**more: Any) -> str:
    return json.dumps({"cudnn_fmha_backend_config": {**RECORDED["BTNH forward"]["cudnn_fmha_backend_config"], **more}})


@pytest.mark.parametrize(
    "config",
    [
        "", "[]", "{}", "null", '{"cudnn_fmha_backend_config": 7}', "[" * 5000,
        changed(sliding_window_length=64), changed(sliding_window_length=float("inf")),
        changed(bmm2_dot_dimension_numbers=None), changed(intermediate_tensor_shape=["2"]),
        changed(intermediate_tensor_shape={"dimensions": ["2", "8", "0", "256"]}),
        changed(intermediate_tensor_shape={"dimensions": ["9" * 3000, "8", "1", "256"]}),
        changed(bmm1_dot_dimension_numbers={"lhs_contracting_dimensions": ["7"], "lhs_batch_dimensions": ["0", "2"]}),
    ],
)  # fmt: skip
def test_what_is_not_known_or_damaged_counts_nothing(config: str) -> None:
    assert found("BTNH", "forward", config) is None
    made = call("BTNH", "forward", config)
    assert attention_flops(made, made.by_name["cudnn-fmha.9"]) == 0
    assert facts(made, made.by_name["cudnn-fmha.9"])


def test_a_window_over_all_keys_leaves_out_nothing() -> None:
    assert found("BTNH", "forward", changed(sliding_window_length=256)) is not None


def test_other_targets_are_no_attention() -> None:
    assert found("BTNH", "forward", changed(), "__cudnn$convForward") is None
