"""On real traces no call is faster than its device can be: the check that the models do not count too much.

Rates are work by the time in which the GPU was busy with a call. Operations are held against the vendor's dense peak
rate of the precision that the kernels ran in, bytes against the bandwidth of the memory. From a cache bytes may come
faster than that; in these traces none do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from handmade import span

from corpus import kineto_traces, loaded, parametrize, trace_id
from tracelens_graph.analyses.performance.perf_sheets import perf_sheets
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import Architecture, architecture, detect

SLACK = 1.05
"""Clocks of a device vary, and the times of short kernels are not exact."""

UNKNOWN_DEVICE = {
    "hta/amd/mi250-minitoy": "no architecture is known for the device 'AMD Radeon Graphics'",
    "hta/backward-thread": "the trace describes no device",
    "hta/cpu-only/rank-34": "the trace describes no device",
    "hta/two-of-128-ranks/rank-0": "the trace describes no device",
    "hta/two-of-128-ranks/rank-1": "the trace describes no device",
    "tracelens/inference/vllm-decode/capture/graph_capture_rank_0": "the trace does not name its device",
    "tracelens/inference/vllm-decode/graph-replay": "the trace does not name its device",
}
"""Traces that are left out."""

NO_SHAPES = {
    "hta/critical-path/event-sync", "hta/critical-path/event-sync-multi-stream", "hta/critical-path/simple-add",
    "hta/nanosecond-resolution", "hta/resnet-ddp-nccl-args", "linkage/simple-add/kineto", "tracelens/mi210/gpu-only",
}  # fmt: skip
"""Traces of known devices in which no op has recorded the shapes of its arguments, so that no call has a cost."""


def device_of(core: Core) -> Architecture | str:
    """The vendor's figures of the device that a trace was recorded on, or why it is not known."""
    return detect(core.info.metadata.get("deviceProperties"))


def rates(core: Core, device: Architecture) -> Iterator[tuple[float, float, str]]:
    """The greatest rate of each kind of call, what the device can do of it at most, and what it is."""
    for sheet, table in perf_sheets(core, arch=device).items():
        for row in table.records():
            peak, bandwidth = device.rate(row["Compute Spec"]), device.value("memory_bandwidth_gbps")
            said = f"{row['name']} {row['Input Dims_first']} in {sheet}"
            if peak and not math.isnan(row["TFLOPS/s_max"]):
                yield row["TFLOPS/s_max"], peak.tflops, f"{said}: {row['Compute Spec']}"
            if bandwidth and not math.isnan(row["TB/s_max"]):
                yield row["TB/s_max"], bandwidth / 1e3, f"{said}: TB/s"


@parametrize("path", [path for path in kineto_traces() if trace_id(path) not in UNKNOWN_DEVICE])
def test_no_call_is_faster_than_its_device(path: Path) -> None:
    core = loaded(path)
    device = device_of(core)
    assert isinstance(device, Architecture)
    found = list(rates(core, device))
    assert [one for one in found if one[0] > SLACK * one[1]] == []
    assert (not found) == (trace_id(path) in NO_SHAPES)


def test_calls_that_are_too_fast_are_noticed() -> None:
    """2 * 4096^3 operations take 138.9 us at 989.4 TFLOPS, and 3 * 2 * 4096^2 bytes 30 us at 3352 GB/s."""

    def found(us: float) -> list[str]:
        dims, types = [[4096, 4096], [4096, 4096]], ["c10::BFloat16", "c10::BFloat16"]
        core = load_core([
            span("cpu_op", "aten::mm", 0, 9, tid=1, Input_Dims=dims, Input_type=types),
            span("cuda_runtime", "cudaLaunchKernel", 1, 1, tid=1, correlation=1),
            span("kernel", "gemm", 100, us, 0, 7, device=0, stream=7, correlation=1),
        ])  # fmt: skip
        every = list(rates(core, architecture("h100-sxm")))
        assert len(every) == 2
        return [said.rpartition(": ")[2] for rate, most, said in every if rate > SLACK * most]

    assert found(135.0) == []
    assert found(131.0) == ["matrix_bf16"]
    assert found(28.0) == ["matrix_bf16", "TB/s"]
