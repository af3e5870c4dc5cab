"""What Nsight Systems sampled, in databases made by hand: functions of threads, waits, metrics of GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nsys_reports import CALL, KERNEL, RANGE, TEXTS, THREAD, Rows, report

import tracelens_graph as tlg
from tracelens_graph.schema import Kind

NAMES = TEXTS | {5: "main", 6: "load_batch", 7: "memcpy", 8: "/usr/lib/libc.so.6", 9: "/opt/train", 10: "poll"}
KERNELS = [KERNEL, KERNEL | {"start": 5_000_000, "end": 5_400_000, "correlationId": 13}]
CALLS = [CALL, CALL | {"start": 4_900_000, "end": 4_905_000, "correlationId": 13}]
POLL = {"start": 2_600_000, "end": 3_600_000, "globalTid": THREAD, "nameId": 10, "returnValue": 0}
TRAIN = [(5, 9), (6, 9)]


def stacks(*samples: tuple[int, list[tuple[int | None, int]]]) -> dict[str, Rows]:
    """Tables of samples: a moment, and the functions (symbol, module), the outermost first."""
    return {
        "COMPOSITE_EVENTS": [{"id": 7 * n, "start": at, "globalTid": THREAD} for n, (at, _) in enumerate(samples)],
        "SAMPLING_CALLCHAINS": [
            {"id": 7 * n, "symbol": symbol, "module": module, "unresolved": int(symbol is None), "stackDepth": depth}
            for n, (_, stack) in enumerate(samples)
            for depth, (symbol, module) in enumerate(reversed(stack))
        ],
    }


def load(folder: Path, **tables: Rows) -> tlg.Graph:
    every: dict[str, Rows] = {"CUPTI_ACTIVITY_KIND_KERNEL": KERNELS, "CUPTI_ACTIVITY_KIND_RUNTIME": CALLS, **tables}
    return tlg.load(report(folder, every, NAMES))


def frames(g: tlg.Graph) -> list[tuple[str, int, int]]:
    """Name, begin in us and duration in us of the functions."""
    found = [data for _, data in g.nodes(data=True) if data["kind"] == "PythonFunction"]
    start = min(data["start_ns"] for _, data in g.nodes(data=True) if data["name"] == "cudaLaunchKernel") - 1_000_000
    return sorted((one["name"], (one["start_ns"] - start) // 1000, one["dur_ns"] // 1000) for one in found)


def test_equal_frames_of_samples_in_a_row_are_one(tmp_path: Path) -> None:
    copy = [*TRAIN, (7, 8)]
    g = load(tmp_path, **stacks((2_000_000, TRAIN), (2_100_000, copy), (2_200_000, copy), (2_300_000, TRAIN)))
    assert frames(g) == [
        ("load_batch (train)", 1900, 500), ("main (train)", 1900, 500), ("memcpy (libc.so.6)", 2050, 200),
    ]  # fmt: skip
    names = {data["name"]: node for node, data in g.nodes(data=True)}
    assert names["memcpy (libc.so.6)"] in g[names["load_batch (train)"]]


def test_functions_stand_only_where_no_call_and_no_op_is_known(tmp_path: Path) -> None:
    samples = [(1_000_000 + 100_000 * n, TRAIN) for n in range(40)]
    g = load(tmp_path, OSRT_API=[POLL], NVTX_EVENTS=[RANGE], **stacks(*samples))
    c = g.columns
    for row in (c.kind == Kind.PythonFunction).nonzero()[0].tolist():
        assert c.depth[row] == (g.names[c.name[row]] != "main (train)")
    assert [one for one in frames(g) if one[0] == "main (train)"] == [
        ("main (train)", 1050, 1500), ("main (train)", 3600, 1250),
    ]  # fmt: skip


def test_samples_far_apart_say_nothing_of_the_time_between(tmp_path: Path) -> None:
    g = load(tmp_path, **stacks(*((at, [(5, 9)]) for at in (2_000_000, 2_100_000, 2_200_000, 4_000_000))))
    assert frames(g) == [("main (train)", 1900, 400), ("main (train)", 3900, 200)]


def test_what_has_no_symbol_goes_by_its_module(tmp_path: Path) -> None:
    g = load(
        tmp_path, **stacks((2_000_000, [(5, 9), (None, 8), (None, 8)]), (2_100_000, [(5, 9), (None, 8), (None, 8)]))
    )
    assert [name for name, *_ in frames(g)] == ["(libc.so.6)", "main (train)"]


def test_idle_time_names_the_function_and_the_wait(tmp_path: Path) -> None:
    def causes(**tables: Rows) -> dict[str, tuple[str, float]]:
        rows = tlg.QUESTIONS["idle_causes"](load(tmp_path, **tables)).to_pandas()
        (tmp_path / "report.sqlite").unlink()
        return {row.cause: (row.because, row.idle_ms) for row in rows.itertuples()}

    # 2.5 ms pass between the kernels; the call that launches the second begins 0.1 ms before it.
    assert "python" not in causes()
    assert causes(OSRT_API=[POLL])["python"] == ("poll", pytest.approx(1.0))
    samples = stacks(*((2_000_000 + 100_000 * n, TRAIN) for n in range(29)))
    assert causes(**samples)["python"] == ("load_batch (train)", pytest.approx(2.35, abs=0.06))


def test_metrics_of_a_gpu_are_counters_of_its_kernels(tmp_path: Path) -> None:
    def sample(at: int, metric: int, value: int, device: int = 0) -> dict[str, Any]:
        return {"timestamp": at, "typeId": 0x1_0000_0000_0000 + device, "metricId": metric, "value": value}

    active, read = "SMs Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]"
    g = load(
        tmp_path,
        NVTX_EVENTS=[RANGE],
        GPU_METRICS=[
            sample(1_900_000, 1, 7), sample(2_100_000, 1, 80), sample(2_400_000, 1, 40), sample(2_200_000, 2, 5),
            sample(2_400_000, 1, 99, device=1), sample(5_100_000, 1, 10), sample(5_600_000, 1, 77),
        ],
        TARGET_INFO_GPU_METRICS=[{"metricId": 1, "metricName": active}, {"metricId": 2, "metricName": read}],
    )  # fmt: skip
    table = tlg.QUESTIONS["kernel_counters"](g).to_pandas()
    rows = [(row.op, row.counter, row.ranges, row.mean) for row in table.fillna("").itertuples()]
    assert rows == [("aten::mm", active, 1, 60), ("aten::mm", read, 1, 5), ("", active, 1, 10)]
