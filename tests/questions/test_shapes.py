"""Kernels and shapes: known answers on small traces, sums that must hold, and the database's answers beside ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from call_trees import BACKWARD, FORWARD, Call, frame, op, run, trace
from handmade import HOSTILE, small_trace, span
from hypothesis import given
from made_traces import traces
from same_tables import twins, with_queries

from corpus import traces_named
from tracelens_graph.analyses.kernels.short_kernels import short_kernels_summary
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import architecture
from tracelens_graph.simulate import simulate
from tracelens_graph.tables.table import Table

QUERIES = with_queries(
    "category_shares copies copy_bandwidth graph_launches instruction_costs kernels_by_tile modules_of_signature "
    "op_signatures short_kernels_summary"
)

category_shares = QUESTIONS["category_shares"]
copies = QUESTIONS["copies"]
graph_launches = QUESTIONS["graph_launches"]
kernels_by_tile = QUESTIONS["kernels_by_tile"]
modules_of_signature = QUESTIONS["modules_of_signature"]
op_signatures = QUESTIONS["op_signatures"]
short_kernels = QUESTIONS["short_kernels"]

FILES = traces_named(
    "tracelens/h100/bert-small",
    "tracelens/mi300/vit-nsfw",
    "tracelens/mi300/torch-compile-triton",
    "tracelens/mi210/gpu-only",
    "tracelens/inference/vllm-decode/graph-replay",
)

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel"
SMALL = GEMM.replace("128x128x64", "64x128x64")
H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_000_000_000, "numSms": 132}]
BF16 = ["c10::BFloat16", "c10::BFloat16"]
LARGE, SQUARE = [[4096, 1024], [1024, 512]], [[64, 64], [64, 64]]


def launch(kernel: str, dur: float) -> Call:
    """A call that launches a kernel of this length in us."""
    return Call("cudaLaunchKernel", "cuda_runtime", kernel=kernel, kernel_args={"lasts": dur})


def mm(dims: list[list[int]], *kernels: Call, **more: Any) -> Call:
    """A product three ops deep, each of which would count its kernels if nesting were not seen to."""
    inner = op("aten::mm", *kernels, **{"Input Dims": dims, "Input type": BF16})
    return op("aten::linear", op("aten::matmul", inner), **more)


@cache
def nested() -> Core:
    """Two modules with products, and the backward pass of one; kernels of 40, 60, 3, 2 and 20 us."""
    forward = mm(LARGE, launch(GEMM, 40), seq=1)
    calls = [
        Call("ProfilerStep#1", "user_annotation", [frame("nn.Module: Net_0", frame("nn.Module: Linear_0", forward))]),
        Call(
            "ProfilerStep#2", "user_annotation",
            [
                frame("nn.Module: Net_0", frame("nn.Module: Linear_1", mm(LARGE, launch(GEMM, 60)))),
                mm(SQUARE, launch(SMALL, 3), launch("splitKreduce_kernel", 2)),
            ],
        ),
    ]  # fmt: skip
    backward = run("MmBackward0", op("aten::mm", launch(GEMM, 20), **{"Input Dims": LARGE, "Input type": BF16}), seq=1)
    made = trace([(FORWARD, calls), (BACKWARD, [backward])], [(forward, backward.calls[0])])
    for event in made["traceEvents"]:
        event["dur"] = event.get("args", {}).pop("lasts", event.get("dur"))
    # Nothing overlaps: the device does one thing after the other.
    at = 10_000.0
    for event in made["traceEvents"]:
        if event.get("cat") == "kernel":
            event["ts"], at = at, at + 100
    return load_core(made | {"deviceProperties": H100})


@cache
def moving() -> Core:
    """Copies, fills, and a kernel that is a copy in disguise."""
    where = {"pid": 0, "tid": 7, "device": 0, "stream": 7}

    def work(cat: str, name: str, at: float, dur: float, **more: Any) -> dict[str, Any]:
        return span(cat, name, at, dur, **where, **more)

    return load_core(
        [
            span("cpu_op", "aten::copy_", 0.0, 5.0),
            work("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 0.0, 2.0, bytes=4000),
            work("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 10.0, 2.0, bytes=4095),
            work("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 20.0, 4.0, bytes=4096),
            work("gpu_memcpy", "CopyDeviceToDevice", 30.0, 8.0, bytes=80_000_000),
            work("gpu_memcpy", "Memcpy", 40.0, 1.0),
            work("gpu_memset", "Memset (Device)", 50.0, 0.0, bytes=16),
            work("kernel", "MEMORY_COPY_DEVICE_TO_HOST", 60.0, 3.0),
            work("kernel", HOSTILE, 70.0, 80.0),
        ]
    )


@cache
def copied() -> Core:
    """One op that copies from device to host, on a device whose link is known."""
    args = {"Input_Dims": [[1000], [1000], []], "Input_type": ["float", "float", "Scalar"]}
    gpu = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
    events = [
        span("cpu_op", "aten::copy_", 0.0, 9.0, **args),
        span("cuda_runtime", "cudaMemcpyAsync", 1.0, 2.0, correlation=1),
        span("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 4.0, 4.0, **gpu, correlation=1, bytes=4000),
    ]
    return load_core({"traceEvents": events, "deviceProperties": H100})


@cache
def graphs() -> Core:
    """Launches of graphs: twice one of two kernels, once another, once with nothing of it in the trace."""
    events: list[dict[str, Any]] = []
    launches: Sequence[tuple[float, str, list[tuple[str, float]]]] = (
        (0.0, "cudaGraphLaunch", [("a", 5.0), ("b", 7.0)]),
        (100.0, "cudaGraphLaunch", [("a", 6.0), ("b", 2.0)]),
        (200.0, "cudaGraphLaunch", [("b", 1.0), ("a", 1.0), ("a", 1.0)]),
        (300.0, "hipGraphLaunch", []),
        (400.0, "cudaLaunchKernel", [("c", 9.0)]),
    )
    for correlation, (at, name, kernels) in enumerate(launches, 1):
        outer = correlation if at != 200 else 99
        events.append(span("cuda_runtime", name, at, 20.0, correlation=outer))
        if at == 200:  # the runtime calls the driver, which launches
            events.append(span("cuda_driver", "cuGraphLaunch", at + 1, 10.0, correlation=correlation))
        for place, (kernel, dur) in enumerate(kernels):
            where = {"pid": 0, "tid": 7, "device": 0, "stream": 7}
            events.append(span("kernel", kernel, at + 30 + 20 * place, dur, **where, correlation=correlation))
    return load_core(events)


@cache
def simulated() -> Core:
    return load_core(simulate(steps=2, layers=2, recompute=True, copy_mb=4, tiny_kernels=5, seed=3).ranks[0].trace)


def rows(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(record[name] for name in columns) for record in table.records()]


# --- kernels ----------------------------------------------------------------------------------------------------


def test_categories_of_kernels() -> None:
    found = category_shares(nested())
    assert rows(found, "category", "names", "count", "gpu_time_us") == [("GEMM", 3, 5, 125.0)]
    assert rows(category_shares(moving()), "category", "count", "gpu_time_us", "percent") == [
        ("Other", 1, 80.0, 80.0), ("Memcpy", 5, 17.0, 17.0), ("Memory Ops", 1, 3.0, 3.0), ("Memset", 1, 0.0, 0.0),
    ]  # fmt: skip


def test_kernels_by_tile() -> None:
    tiles = ("operation", "dtype", "tile_m", "tile_n", "tile_k", "count", "gpu_time_us", "percent")
    large = ("gemm", "bf16", 128, 128, 64, 3, 120.0, 96.0)
    small = ("gemm", "bf16", 64, 128, 64, 1, 3.0, 2.4)
    assert rows(kernels_by_tile(nested()), *tiles) == [large, small]
    assert rows(kernels_by_tile(nested(), dtype="bf16", tile_m=64, tile_n=128), *tiles) == [small]
    assert rows(kernels_by_tile(nested(), step=2), "tile_m", "gpu_time_us") == [(128, 60.0), (64, 3.0)]
    assert not len(kernels_by_tile(nested(), dtype="fp16"))
    asked = kernels_by_tile(nested(), tile_m=64)
    kernels = sum(1 for _ in nested().find("Kernel"))
    assert [int(note.split()[0]) for note in asked.notes] == [kernels - sum(asked["count"])]
    assert not len(kernels_by_tile(moving()))


def test_short_kernels_are_those_of_the_report() -> None:
    found = short_kernels(nested(), threshold_us=20.5)
    assert rows(found, "Parent cpu_op", "Kernel name", "Short Kernel count", "Short Kernel duration (µs) sum") == [
        ("aten::mm", GEMM, 1, 20.0), ("aten::mm", SMALL, 1, 3.0), ("aten::mm", "splitKreduce_kernel", 1, 2.0),
    ]  # fmt: skip
    for core in (nested(), moving(), simulated()):
        mine, report = short_kernels(core, threshold_us=50), short_kernels_summary(core, 50)
        for column in ("sum", "percent of total time"):
            name = f"Short Kernel duration (µs) {column}"
            assert np.sum(mine[name]) == pytest.approx(np.sum(report[name]))
        assert np.sum(mine["Short Kernel count"]) == np.sum(report["Short Kernel count"])


def test_copies_by_direction_and_size() -> None:
    assert rows(copies(moving()), "direction", "size_class", "count", "bytes", "gpu_time_us", "gb_per_s")[:3] == [
        ("DtoD", "16 MiB and more", 1, 80_000_000, 8.0, 10_000.0),
        ("HtoD", "4 KiB to 64 KiB", 1, 4096, 4.0, 1.024),
        ("HtoD", "below 4 KiB", 2, 8095, 4.0, 8095 / 4000),
    ]
    kernel, unknown, fill = copies(moving()).records()[3:]
    assert (kernel["direction"], kernel["size_class"], kernel["bytes"], kernel["percent"]) == ("DtoH", None, None, 3.0)
    assert (unknown["direction"], unknown["bytes"]) == ("unknown", None)
    assert np.isnan(unknown["gb_per_s"])
    assert (fill["direction"], fill["bytes"], fill["count"]) == ("fill", 16, 1)
    assert np.isnan(fill["gb_per_s"])


def test_graphs_are_told_apart_by_what_they_replay() -> None:
    columns = (
        "call",
        "launches",
        "gpu_events",
        "names",
        "gpu_time_us",
        "mean_gpu_time_us",
        "longest",
        "longest_time_us",
    )
    assert rows(graph_launches(graphs()), *columns) == [
        ("cudaGraphLaunch", 2, 2, 2, 20.0, 10.0, "a", 11.0),
        ("cudaGraphLaunch", 1, 3, 2, 3.0, 3.0, "a", 2.0),
        ("hipGraphLaunch", 1, 0, 0, 0.0, 0.0, None, None),
    ]
    assert not len(graph_launches(nested()))


# --- signatures -------------------------------------------------------------------------------------------------


def test_cost_and_roofline_of_signatures() -> None:
    large, square = op_signatures(nested()).records()
    assert large["op"] == square["op"] == "aten::mm"
    assert (large["input_dims"], large["input_types"]) == (
        "[[4096,1024],[1024,512]]",
        '["c10::BFloat16","c10::BFloat16"]',
    )
    assert (large["calls"], large["gpu_events"], large["gpu_time_us"], large["percent"]) == (3, 3, 120.0, 96.0)
    assert (square["calls"], square["gpu_events"], square["gpu_time_us"]) == (1, 2, 5.0)
    flops, moved = 2 * 4096 * 1024 * 512, 2 * (4096 * 1024 + 1024 * 512 + 4096 * 512)
    assert (large["gflops"], large["moved_mb"]) == (flops / 1e9, moved / 2**20)
    assert large["flops_per_byte"] == pytest.approx(flops / moved)
    rate = np.mean([1 / us for us in (40, 60, 20)])
    assert large["tflops_per_s"] == pytest.approx(flops / 1e6 * rate)
    assert large["tb_per_s"] == pytest.approx(moved / 1e6 * rate)
    h100 = architecture("h100-sxm")
    speed, bandwidth = h100.value("matrix_bf16"), h100.value("memory_bandwidth_gbps")
    assert speed
    assert bandwidth
    assert large["roofline_us"] == pytest.approx(max(flops / speed / 1e6, moved / bandwidth / 1e3))
    assert (large["bound"], square["bound"]) == ("COMPUTE_BOUND", "MEMORY_BOUND")
    assert large["percent_of_roof"] == pytest.approx(100 * large["roofline_us"] * rate)
    assert large["no_model"] is None


def test_a_copy_from_the_device_is_bound_by_the_link() -> None:
    (row,) = op_signatures(copied()).records()
    link = architecture("h100-sxm").value("host_link_gbps")
    assert link
    assert (row["bound"], row["moved_mb"]) == ("LINK_BOUND", 8000 / 2**20)
    assert row["roofline_us"] == pytest.approx(4000 / link / 1e3)
    assert row["percent_of_roof"] == pytest.approx(100 * row["roofline_us"] / 4)


@pytest.mark.parametrize("core", [nested, simulated])
def test_rates_are_those_of_the_report(core: Callable[[], Core]) -> None:
    found = op_signatures(core())
    (name,) = set(found["op"])
    report = [
        one for one in unified_perf_summary(core(), arch=architecture("h100-sxm")).records() if one["name"] == name
    ]
    assert sum(one["operation_count"] for one in report) == np.sum(found["calls"])
    assert sum(one["Kernel Time (µs)_sum"] for one in report) == pytest.approx(np.sum(found["gpu_time_us"]))
    by_time = {round(one["Kernel Time (µs)_sum"], 6): one for one in report}
    same = [
        (one, by_time[round(one["gpu_time_us"], 6)])
        for one in found.records()
        if round(one["gpu_time_us"], 6) in by_time
    ]
    assert same
    for mine, theirs in same:
        assert mine["tflops_per_s"] == pytest.approx(theirs["TFLOPS/s_mean"])
        assert mine["tb_per_s"] == pytest.approx(theirs["TB/s_mean"])
        assert mine["percent_of_roof"] == pytest.approx(theirs["Pct Roofline_mean"])
        assert mine["roofline_us"] == pytest.approx(theirs["Roofline Time (µs)_first"])


def test_modules_of_a_signature() -> None:
    found = modules_of_signature(nested())
    assert set(found["input_dims"]) == {"[[4096,1024],[1024,512]]"}
    assert rows(found, "module", "inside", "backward", "gpu_time_us", "percent") == [
        ("nn.Module: Linear_1", "nn.Module: Net_0", False, 60.0, 50.0),
        ("nn.Module: Linear_0", "nn.Module: Net_0", False, 40.0, 100 / 3),
        ("nn.Module: Linear_0", "nn.Module: Net_0", True, 20.0, 50 / 3),
    ]


# --- all of them ------------------------------------------------------------------------------------------------


@given(traces())
def test_every_gpu_event_is_in_one_row(made: dict[str, Any]) -> None:
    core = load_core(made)
    gpu = core.gpu_rows
    found = category_shares(core)
    assert np.sum(found["count"]) == len(gpu)
    assert np.sum(found["gpu_time_us"]) == pytest.approx(core.columns.dur_ns[gpu].sum() / 1e3)


LAST_STEP = {"nested": 2, "simulated": 4}
test_the_database_says_the_same, test_the_database_says_the_same_of_real_traces = twins(
    QUERIES,
    {
        "nested": nested, "moving": moving, "copied": copied, "graphs": graphs, "simulated": simulated,
        "hostile": lambda: load_core(small_trace()),
    },
    [
        ("kernels_by_tile", {"dtype": "bf16", "tile_n": 128}),
        ("short_kernels_summary", {"threshold_us": 3.5}),
        ("short_kernels", {}),
        ("op_signatures", {"op": "aten::add"}),
        ("modules_of_signature", {"op": "aten::linear"}),
        ("modules_of_signature", {"input_dims": "[[64, 64], [64, 64]]"}),
    ],
    also=[(trace, name, {"step": LAST_STEP[trace]}) for trace in LAST_STEP for name in QUERIES],
    files=FILES,
)  # fmt: skip
