"""Theoretical occupancy: by hand, and against what Kineto wrote on real devices."""

from __future__ import annotations

from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mm_pair import A100

from corpus import kineto_traces, loaded, parametrize
from tracelens_graph.perf.occupancy import Occupancy, theoretical_occupancy

H100 = A100 | {"computeMajor": 9, "sharedMemPerMultiprocessor": 233472, "numSms": 132}
T4 = A100 | {
    "computeMajor": 7, "computeMinor": 5, "maxThreadsPerMultiprocessor": 1024, "sharedMemPerMultiprocessor": 65536,
}  # fmt: skip


def occupancy(*given: Any) -> Occupancy:
    found = theoretical_occupancy(*given)
    assert isinstance(found, Occupancy), found
    return found


# Blocks by warps, blocks, registers, shared memory, each worked out by hand.
@pytest.mark.parametrize(
    ("device", "threads", "registers", "shared", "limits", "warps"),
    [
        # 234 registers x 32 lanes round up to 7,680; a quarter of 65,536 holds 2 such warps, so 8 in all, one block
        (A100, 256, 234, 147456, {"warps": 8, "blocks": 32, "registers": 1, "shared memory": 1}, 8),
        # the kibibyte that a block takes for itself lets 163 kB fit, but not 164
        (A100, 64, 16, 163 * 1024, {"warps": 32, "blocks": 32, "registers": 64, "shared memory": 1}, 2),
        (A100, 32, 0, 0, {"warps": 64, "blocks": 32, "shared memory": 164}, 32),
        (A100, 33, 32, 0, {"warps": 32, "blocks": 32, "registers": 32, "shared memory": 164}, 64),
        (H100, 384, 168, 231424, {"warps": 5, "blocks": 32, "registers": 1, "shared memory": 1}, 12),
        (T4, 32, 8, 0, {"warps": 32, "blocks": 16, "registers": 256}, 16),
    ],
)
def test_limits(
    device: dict[str, Any], threads: int, registers: int, shared: int, limits: dict[str, int], warps: int
) -> None:
    found = occupancy(device, threads, registers, shared)
    assert dict(found.limits) == limits
    assert found.warps == warps
    assert found.limited_by == [name for name, blocks in limits.items() if blocks == min(limits.values())]
    assert found.percent == 100 * warps * 32 / device["maxThreadsPerMultiprocessor"]


def test_what_is_not_known() -> None:
    assert theoretical_occupancy(A100, 256, None, 0) == "the trace does not give registers of a thread of the kernel"
    assert theoretical_occupancy(A100, None, None, None) == (
        "the trace does not give threads of a block, registers of a thread, shared memory of the kernel"
    )
    assert theoretical_occupancy({}, 256, 32, 0) == "the trace does not describe the device"
    assert theoretical_occupancy(A100 | {"warpSize": 64}, 256, 32, 0) == "no rules are known for AMD devices"
    assert theoretical_occupancy(A100 | {"computeMajor": 99}, 256, 32, 0) == (
        "no rules are known for compute capability 99.0"
    )
    assert theoretical_occupancy(A100 | {"regsPerMultiprocessor": 0}, 256, 32, 0) == (
        "the trace does not give threads, warp size, registers and shared memory of a multiprocessor"
    )
    assert theoretical_occupancy(A100, 0, 32, 0) == "a block of the kernel has no threads"
    assert (
        theoretical_occupancy(A100, 256, 32, 10**6)
        == "a block of the kernel needs more shared memory than the device has"
    )
    assert theoretical_occupancy(A100, 1024, 255, 0) == "a block of the kernel needs more registers than the device has"


@given(st.integers(1, 1024), st.integers(0, 255), st.integers(0, 163 * 1024))
def test_more_of_a_resource_never_allows_more_blocks(threads: int, registers: int, shared: int) -> None:
    found = theoretical_occupancy(A100, threads, registers, shared)
    more = theoretical_occupancy(A100, threads, registers + 8, shared + 1024)
    if isinstance(found, Occupancy):
        assert 0 < found.percent <= 100
        if isinstance(more, Occupancy):
            assert more.blocks <= found.blocks


@parametrize("path", kineto_traces())
def test_estimates_are_those_that_kineto_wrote(path: Path) -> None:
    """The estimate agrees to the percent, blocks and warps per SM exactly.

    Where a block takes more shared memory than it gets without asking for more (48 KiB), Kineto gives 0, although the
    kernel ran: these are the kernels whose occupancy is only known in theory.
    """
    core = loaded(path)
    devices = {one.get("id"): one for one in core.info.metadata.get("deviceProperties", [])}
    kernels = [node.uid for node in core.find("Kernel") if node.device in devices]
    seen: Counter[str] = Counter()
    for event in core.details.events(kernels).values():
        args, device = event["args"], devices[event["args"]["device"]]
        if "est. achieved occupancy %" not in args:
            continue
        threads, blocks = prod(args["block"]), prod(args["grid"])
        found = occupancy(device, threads, args["registers per thread"], args["shared memory"], blocks)
        units = device["numSms"]
        assert args["blocks per SM"] == pytest.approx(blocks / units, rel=1e-5, abs=1e-6)
        assert args["warps per SM"] == pytest.approx(blocks * threads / 32 / units, rel=1e-5, abs=1e-6)
        if args["shared memory"] > device["sharedMemPerBlock"] and args["est. achieved occupancy %"] == 0:
            seen["0 for want of shared memory"] += 1
            assert found.percent > 0
            continue
        seen["equal"] += 1
        assert found.estimated_percent == pytest.approx(args["est. achieved occupancy %"], abs=0.5001)
    if seen:
        assert seen["equal"] > seen["0 for want of shared memory"]
    else:
        assert not kernels or {device["warpSize"] for device in devices.values()} == {64}
