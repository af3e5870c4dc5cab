"""Steps, ops, kernels and devices against what PyTorch's profiler plugin for TensorBoard shows of two recordings."""

from __future__ import annotations

import json
from functools import cache
from math import isnan, nan
from typing import Any

import pytest
from handmade import span

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.kernels.occupancy import device_use, kernel_occupancy
from tracelens_graph.analyses.ops.op_times import op_times
from tracelens_graph.analyses.timeline.step_breakdown import step_breakdown
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.views import view
from tracelens_graph.schema import Kind

PARTS = ("kernel", "communication", "memcpy", "memset", "runtime", "data_loader", "op", "other")
PLACE = "external/kineto-resnet50-2021"
VIEWS = 5
"""Documents of the plugin for each recording: overview, charts of ops, ops, kernels, chart of kernels."""

both = pytest.mark.parametrize("number", [0, 1])


@cache
def recording(number: int) -> tuple[Core, list[dict[str, Any]]]:
    """One of the recordings, and the plugin's views of it."""
    assert CORPUS is not None
    lines = (CORPUS / PLACE / "result_check_file_2022.txt").read_text().splitlines()
    views = [json.loads(line) for line in lines if line.strip()]
    path = sorted((CORPUS / PLACE).glob("*.pt.trace.json.gz"))[number]
    return load_core(path), views[VIEWS * number : VIEWS * (number + 1)]


@needs_corpus
@both
def test_steps(number: int) -> None:
    core, (overview, *_) = recording(number)
    found = step_breakdown(core).records()
    titles = [one["name"] for one in overview["steps"]["columns"] if one.get("role") != "tooltip"]
    assert titles == ["Step", "Kernel", "Memcpy", "Memset", "Runtime", "DataLoader", "CPU Exec", "Other"]
    parts = ("kernel", "memcpy", "memset", "runtime", "data_loader", "op", "other")
    shown = [[row[0], *row[1::2]] for row in overview["steps"]["rows"]]
    assert [[str(row["step"]), *(round(1000 * row[f"{part}_ms"]) for part in parts)] for row in found[:-1]] == shown
    (mean,) = overview["performance"]
    assert 1000 * found[-1]["step_ms"] == pytest.approx(mean["value"], abs=1)
    for one, part in zip(mean["children"], parts, strict=True):
        assert found[-1][f"{part}_percent"] == pytest.approx(one["extra"], abs=0.1)


@needs_corpus
@both
def test_ops(number: int) -> None:
    core, views = recording(number)
    found = {row["name"]: row for row in op_times(core).records()}
    shown = views[2]["data"]
    figures = {
        "calls": "calls", "device_self_duration": "gpu_self_us", "device_total_duration": "gpu_time_us",
        "host_self_duration": "host_self_us", "host_total_duration": "host_time_us",
    }  # fmt: skip
    for one in shown:
        ours = found.pop(one["name"])
        assert [ours[name] for name in figures.values()] == [one[name] for name in figures], one["name"]
    # The plugin leaves out PyTorch's own ranges, which are ops here.
    assert all("#" in name for name in found)
    assert len(shown) > 60


@needs_corpus
@both
def test_kernels(number: int) -> None:
    core, views = recording(number)
    found = {row["name"]: row for row in kernel_occupancy(core).records()}
    table = views[3]["data"]
    titles = [one["name"] for one in table["columns"]]
    assert len(table["rows"]) == len(found)
    for cells in table["rows"]:
        one = dict(zip(titles, cells, strict=True))
        ours = found[one["Name"]]
        assert [ours["kernels"], ours["gpu_time_us"], ours["max_us"], ours["min_us"]] == [
            one["Calls"], one["Total Duration (us)"], one["Max Duration (us)"], one["Min Duration (us)"],
        ]  # fmt: skip
        assert round(ours["mean_us"]) == pytest.approx(one["Mean Duration (us)"], abs=1)
        assert ours["blocks_per_sm"] == pytest.approx(one["Mean Blocks Per SM"], abs=0.006)
        assert ours["occupancy_percent"] == pytest.approx(one["Mean Est. Achieved Occupancy (%)"], abs=0.006)
        assert ours["tensor_cores"] is (one["Tensor Cores Used"] == "Yes")


@needs_corpus
@both
def test_devices(number: int) -> None:
    core, (overview, *_) = recording(number)
    (found,) = device_use(core).records()
    shown = {one["title"]: one["value"] for one in overview["gpu_metrics"]["data"]}
    assert found["name"] == shown["Name"]
    for title, name in (
        ("GPU Utilization", "utilization_percent"), ("Est. SM Efficiency", "sm_efficiency_percent"),
        ("Est. Achieved Occupancy", "occupancy_percent"), ("Kernel Time using Tensor Cores", "tensor_core_percent"),
    ):  # fmt: skip
        assert found[name] == pytest.approx(float(shown[title].removesuffix(" %")), abs=0.1), title


@needs_corpus
@both
def test_steps_of_2021_are_steps(number: int) -> None:
    core, _ = recording(number)
    assert [core.names[code] for code in core.columns.name[core.columns.kind == Kind.Step].tolist()] == [
        f"ProfilerStep#{step}" for step in range(5, 11)
    ]
    assert (core.gpu_step[core.gpu_rows] >= 0).all()
    dims = [core.argsets[code][0] for code in core.columns.argset[core.columns.argset >= 0].tolist()]
    assert any("[" in text for text in dims)


@needs_corpus
def test_people_are_shown_where_the_step_begins_in_the_table() -> None:
    core, _ = recording(0)
    table = step_breakdown(core)
    assert view(table, core)["start ms"].tolist() == pytest.approx(table["start_ms"].tolist(), nan_ok=True)


# --- made by hand ------------------------------------------------------------------------------------------------


def two_steps() -> Core:
    """Two steps, of which the first one's kernel runs into the second, and a device that is not described."""

    def work(number: int, ts: float, start: float, dur: float, device: int = 0, **args: Any) -> list[dict[str, Any]]:
        return [
            span("cuda_runtime", "cudaLaunchKernel", ts, 2, correlation=number),
            span("kernel", f"sm80_xmma_gemm_{number}", start, dur, device, 7, device=device, stream=7,
                 correlation=number, **args),
        ]  # fmt: skip

    return load_core({
        "deviceProperties": [{"id": 0, "name": "A", "numSms": 10}],
        "traceEvents": [
            span("cpu_op", "ProfilerStep#1", 0, 100), span("cpu_op", "ProfilerStep#2", 100, 100),
            span("cpu_op", "enumerate(DataLoader)#_Iter.__next__", 0, 30), span("cpu_op", "aten::mm", 40, 10),
            *work(1, 41, 60, 60, grid=[2, 1, 1]), *work(2, 110, 130, 20, grid=[4, 5, 1]),
            *work(3, 115, 180, 10, device=1, grid=[4, 5, 1]),
        ],
    })  # fmt: skip


def test_a_step_lasts_as_long_as_its_gpu_work() -> None:
    rows = step_breakdown(two_steps()).records()
    parts = ("step", "kernel", "runtime", "data_loader", "op", "other")
    assert [[round(1000 * row[f"{part}_ms"]) for part in parts] for row in rows] == [
        [120, 60, 2, 30, 8, 20], [80, 30, 0, 0, 0, 50], [100, 45, 1, 15, 4, 35],
    ]  # fmt: skip


def test_processes_and_windows_keep_to_themselves() -> None:
    """Two processes with the same steps at the same time; a window shows its steps with the bounds that they have."""
    events = [span("cpu_op", f"ProfilerStep#{step}", 100 * step, 100, pid) for pid in (1, 2) for step in (0, 1)]
    for number, (pid, ts, dur) in enumerate(((1, 90, 30), (1, 150, 10), (2, 20, 50)), 1):
        events += [
            span("cuda_runtime", "cudaLaunchKernel", ts, 5, pid, correlation=number),
            span("kernel", "k", ts + 1, dur, 9, pid, device=pid, stream=7, correlation=number),
        ]
    core = load_core(events)

    def shown(w: Window) -> list[list[Any]]:
        rows = step_breakdown(w).records()
        assert all(row["step_ms"] == pytest.approx(sum(row[f"{part}_ms"] for part in PARTS)) for row in rows)
        return [[row["pid"], row["step"], *(round(1e3 * row[f"{part}_ms"]) for part in ("kernel", "runtime", "other"))]
                for row in rows[:-1]]  # fmt: skip

    assert shown(core.everything) == [
        ["1", 0, 30, 1, 90], ["1", 1, 10, 1, 68], ["2", 0, 50, 1, 49], ["2", 1, 0, 0, 100],
    ]  # fmt: skip
    assert shown(core.window(step=1)) == [["1", 1, 10, 1, 68], ["2", 1, 0, 0, 100]]


def test_multiprocessors_from_the_grid() -> None:
    first, second = device_use(two_steps()).records()
    figures = ("device", "multiprocessors", "time_ms", "utilization_percent", "sm_efficiency_percent")
    assert [first[name] for name in figures] == [0, 10, 0.2, 40.0, pytest.approx(100 * (60 * 0.2 + 20) / 200)]
    assert (second["name"], second["multiprocessors"], second["tensor_core_percent"]) == (None, None, 100)
    assert isnan(second["sm_efficiency_percent"])
    by_name = {row["name"]: row["blocks_per_sm"] for row in kernel_occupancy(two_steps()).records()}
    assert by_name == {
        "sm80_xmma_gemm_1": 0.2,
        "sm80_xmma_gemm_2": 2.0,
        "sm80_xmma_gemm_3": pytest.approx(nan, nan_ok=True),
    }


def test_without_steps_or_kernels() -> None:
    core = load_core([span("cpu_op", "aten::mm", 0, 10)])
    assert [len(ask(core)) for ask in (step_breakdown, device_use, kernel_occupancy)] == [0, 0, 0]
    assert op_times(core)["host_self_us"] == [10]


def test_a_step_that_holds_work_of_before_the_recording_says_so() -> None:
    core = load_core({"traceEvents": [
        span("user_annotation", "ProfilerStep#1", 0, 100), span("user_annotation", "ProfilerStep#2", 100, 100),
        span("kernel", "earlier", 10, 50, 0, 7, device=0, stream=7),
        span("kernel", "late", 150, 5, 0, 7, device=0, stream=7),
    ]})  # fmt: skip
    assert step_breakdown(core).notes == [
        "ProfilerStep#1: GPU work that no step launched runs for 0.050 of its 0.100 ms"
    ]


@pytest.mark.parametrize("name", [
    "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_sm100f", "attn_fwd.kd",
    "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext", "gemm_fusion_dot_6.kd",
    "void ck_tile::kentry<ck_tile::gfx950_t, 1, ck_tile::FmhaBwdDQDKDVKernel<ck_tile::BlockFmha>>", "bwd_kernel_dk_dv",
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1", "_ZN2ck16kernel_gemm_xdlops_bwd",
])  # fmt: skip
def test_products_and_attention_use_tensor_cores(name: str) -> None:
    assert shown_use(name) == (True, 100)


@pytest.mark.parametrize("name", [
    "FmhaBwdOGradDotOKernel<ck_tile::BlockFmhaBwdOGradDotO>", "attn_bwd_preprocess", "ampere_sgemm_128x64_nn",
    "void splitKreduce_kernel<float>", "paged_attention_ll4mi_reduce_kernel", "Cijk_Ailk_Bljk_SB_MT32x32x8_fallback",
])  # fmt: skip
def test_what_stands_beside_a_product_does_not(name: str) -> None:
    assert shown_use(name) == (False, 0)


def shown_use(name: str) -> tuple[bool, float]:
    core = load_core([span("kernel", name, 0, 10, 0, 7, device=0, stream=7)])
    (kernel,), (device,) = kernel_occupancy(core).records(), device_use(core).records()
    return kernel["tensor_cores"], device["tensor_core_percent"]


def test_efficiency_is_that_of_the_steps() -> None:
    """A kernel of before the steps fills the device, one that ends behind them counts until they end."""
    core = load_core({
        "deviceProperties": [{"id": 0, "numSms": 4}],
        "traceEvents": [
            span("user_annotation", "ProfilerStep#1", 100, 100),
            span("kernel", "early", 0, 120, 0, 7, device=0, stream=7, grid=[4, 1, 1]),
            span("kernel", "late", 180, 40, 0, 7, device=0, stream=8, grid=[2, 1, 1]),
            span("kernel", "bare", 130, 10, 0, 7, device=0, stream=8),
        ],
    })  # fmt: skip
    (row,), notes = device_use(core).records(), device_use(core).notes
    assert (row["time_ms"], row["utilization_percent"], row["sm_efficiency_percent"]) == (0.1, 50, 30)
    assert notes == ["1 of 3 kernels, without a recorded grid, count as 0 in SM efficiency"]
