"""Causal convolution and Mamba 2's scan."""

from __future__ import annotations

import pytest
from op_costs import BF16, FP32, Family, call

from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.ssm import Scan, causal_conv1d, mamba2
from tracelens_graph.perf.model import CallContext

FAMILY = Family("ssm")
FORWARD, BACKWARD = "DaoAILab::_causal_conv1d_fwd_cpp", "DaoAILab::_causal_conv1d_bwd_cpp"
MAMBA = "MambaSplitConv1dScanCombinedFn"


def test_convolution_by_hand() -> None:
    cost = causal_conv1d(2, 8, 100, 4, bias=True)
    assert cost.flops == 2 * 2 * 8 * 100 * 4
    assert cost.bytes == 2 * (2 * 1600 + 32 + 8)
    assert cost.compute_spec == "vector_bf16"
    backward = causal_conv1d(2, 8, 100, 4, bias=True, silu=True, backward=True)
    assert backward.flops == 3 * cost.flops
    assert backward.bytes == 2 * (3 * 1600 + 2 * 40)
    assert causal_conv1d(2, 8, 100, 4, backward=True).flops == 2 * cost.flops


def test_convolution_ops() -> None:
    data, weight, bias = (BF16, (2, 8, 100)), (BF16, (8, 4)), (BF16, (8,))
    forward = FAMILY.cost(FORWARD, data, weight, bias, None, None, data, None, "True")
    expected = causal_conv1d(2, 8, 100, 4, bias=True)
    assert (forward.flops, forward.bytes, dict(forward.params)) == (expected.flops, expected.bytes, expected.params)
    wide = FAMILY.cost(FORWARD, data, (FP32, (8, 4)), None, None, None, data, None, "True")
    assert wide.bytes == 2 * 2 * 1600 + 4 * 32
    returned = FAMILY.cost(FORWARD, data, weight, bias)
    assert returned.bytes == forward.bytes
    backward = FAMILY.cost(BACKWARD, data, weight, bias, data, None, None, None, data, weight, bias, None, "True")
    expected = causal_conv1d(2, 8, 100, 4, bias=True, silu=True, backward=True)
    assert (backward.flops, backward.bytes) == (expected.flops, expected.bytes)


SCAN = Scan(batch=2, length=512, heads=8, head_dim=16, groups=2, state=32, chunk=128, taps=4)


def operands(scan: Scan) -> list[object]:
    """Arguments before the width of a head."""
    data, heads = (BF16, (scan.batch, scan.length, scan.projected)), (FP32, (scan.heads,))
    conv = (BF16, (scan.channels, scan.taps)), (BF16, (scan.channels,))
    return [data, *conv, heads, heads, heads, scan.chunk, None, None]


_DATA, _WEIGHT = (BF16, (2, 8, 100)), (BF16, (8, 4))
test_hostile = FAMILY.hostile(
    [
        (FORWARD, (_DATA, _WEIGHT, (BF16, (8,)), None, None, _DATA, None, "True")),
        (BACKWARD, (_DATA, _WEIGHT, None, _DATA, None, None, None, _DATA, _WEIGHT, None, None, "True")),
        (MAMBA, (*operands(SCAN), *[None] * 7, SCAN.head_dim, SCAN.groups, "True")),
        (MAMBA, (*operands(SCAN), *[None] * 5, (BF16, (64, 128)), None, SCAN.head_dim, SCAN.groups, "True")),
    ],
)


def test_scan_by_hand() -> None:
    assert (SCAN.inner, SCAN.channels, SCAN.projected) == (128, 256, 392)
    cost = mamba2(SCAN)
    conv = 2 * 2 * 256 * 512 * 4
    scores, within, states = 2 * 2 * 2 * 512 * 128 * 32, 2 * 2 * 8 * 512 * 128 * 16, 2 * 2 * 8 * 512 * 32 * 16
    assert cost.flops == conv + scores + within + 2 * states
    assert cost.bytes == 2 * (2 * 512 * 392 + 256 * 5 + 24 + 2 * 512 * 128)
    backward = mamba2(SCAN, backward=True)
    assert backward.flops == 3 * conv + 3 * scores + 2 * within + 5 * states
    assert backward.bytes == 2 * (2 * (2 * 512 * 392 + 256 * 5 + 24) + 2 * 512 * 128)


@pytest.mark.parametrize("unrecorded", [0, 1])
def test_scan_op(unrecorded: int) -> None:
    middle = [None] * (7 - unrecorded)  # from the limits of the time step to the bias of a projection
    arguments = [*operands(SCAN), *middle, SCAN.head_dim, SCAN.groups, "True"]
    assert len(arguments) == 19 - unrecorded
    cost = FAMILY.cost(MAMBA, *arguments)
    assert cost.flops == mamba2(SCAN).flops
    assert cost.bytes == (mamba2(SCAN).bytes or 0) + 2 * 24  # the three parameters of a head have 32 bits
    assert dict(cost.params) == mamba2(SCAN).params
    backward = FAMILY.models[MAMBA].backward
    assert backward is not None
    assert backward(call(*arguments), CallContext()).flops == mamba2(SCAN, backward=True).flops


def test_fused_output_projection() -> None:
    arguments = [*operands(SCAN), *[None] * 5, (BF16, (64, 128)), None, SCAN.head_dim, SCAN.groups, "True"]
    cost = FAMILY.cost(MAMBA, *arguments)
    assert cost.flops == mamba2(SCAN).flops + 2 * 2 * 512 * 128 * 64
    assert cost.bytes == (mamba2(SCAN, out_features=64).bytes or 0) + 2 * 24


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (0, (BF16, (2, 392)), "dimensions"),
        (0, (BF16, (2, 512, 100)), "width of the input"),
        (6, None, "not recorded"),
        (6, -128, "not recorded"),
        (-3, 17, "does not fit the heads"),
    ],
)
def test_reasons(place: int, value: object, reason: str) -> None:
    arguments = [*operands(SCAN), *[None] * 7, SCAN.head_dim, SCAN.groups, "True"]
    arguments[place] = value
    with pytest.raises(CannotModel, match=reason):
        FAMILY.cost(MAMBA, *arguments)
