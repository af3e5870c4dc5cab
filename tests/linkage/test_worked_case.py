"""The product of `mm_pair`: every figure that is known of it, through the six functions."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import mm_pair
import pytest
from mm_pair import KERNEL, MM, START

import tracelens_graph as tlg
from tracelens_graph.graph.core import Core
from tracelens_graph.linkage import (
    get_gpu_op_identifier,
    kernel_metadata_scrape,
    kernel_to_op_tracing,
    load_trace,
    op_to_kernel_tracing,
    operation_metadata_scrape,
)
from tracelens_graph.reports.link_text import occupancy_text

IDENTIFIER = (START + 170.0, 7309.66, 7, 9)


@pytest.fixture(scope="module")
def cpu() -> Core:
    return load_trace(mm_pair.execution_trace())


@pytest.fixture(scope="module")
def gpu() -> Core:
    return load_trace(mm_pair.kineto())


def test_metadata_of_the_op(cpu: Core) -> None:
    found = operation_metadata_scrape(MM, cpu)
    a, b = found.pop("inputs")
    (product,) = found.pop("outputs")
    assert found == {
        "id": MM, "name": "aten::mm", "rf_id": 2, "ctrl_deps": 4, "ctrl_deps_name": "product",
        "schema": mm_pair.SCHEMA, "sequence_number": None, "scope": 0, "thread": 1, "forward_thread": None,
        "forward_parent": None, "input_bytes": 201_326_592, "output_bytes": 268_435_456, "values": [],
        "attributes": {},
    }  # fmt: skip
    assert a == {
        "argument": 0, "item": None, "tensor_id": 10, "storage_id": 11, "offset": 0, "shape": [16384, 4096],
        "dtype": "c10::BFloat16", "device": "cuda:0", "elements": 67_108_864, "element_bytes": 2,
        "bytes": 134_217_728, "stride": [4096, 1],
    }  # fmt: skip
    assert (b["argument"], b["shape"], b["bytes"]) == (1, [4096, 8192], 67_108_864)
    assert (product["shape"], product["bytes"]) == ([16384, 8192], 268_435_456)


def test_events_of_the_op(cpu: Core, gpu: Core) -> None:
    found = op_to_kernel_tracing(MM, cpu, gpu)
    assert (found["cpu_op_id"], found["name"]) == (MM, "aten::mm")
    assert found["method"] == "Record function id = rf_id"
    events = found["events"]
    assert {category: [event["name"] for event in of] for category, of in events.items()} == {
        "cpu_op": ["aten::mm"],
        "runtime": ["cudaOccupancyMaxActiveBlocksPerMultiprocessor", "cudaLaunchKernel"],
        "kernel": [KERNEL],
        "gpu_memcpy": [],
        "gpu_memset": [],
    }
    assert [event["dur_us"] for event in events["runtime"]] == [2.81, 151.17]
    assert events["cpu_op"][0]["cpu_op_id"] == MM
    assert events["kernel"][0] == {
        "uid": 4, "category": "kernel", "name": KERNEL, "ts_us": IDENTIFIER[0], "dur_us": 7309.66,
        "start_ns": 180_000, "dur_ns": 7_309_660, "pid": 0, "tid": 7, "external_id": 9, "correlation": 41, "device": 0,
        "stream": 7, "bytes": None, "identifier": IDENTIFIER,
    }  # fmt: skip


def test_split_of_time(cpu: Core, gpu: Core) -> None:
    times = op_to_kernel_tracing(MM, cpu, gpu)["timing"]
    assert times["cpu_op_us"] == 259.16
    assert times["runtime_ns"] == 2_810 + 151_170
    assert times["kernel_us"] == times["gpu_us"] == times["gpu_busy_us"] == 7309.66
    assert times["copy_ns"] == times["set_ns"] == 0
    assert times["elapsed_us"] == 170.0 + 7309.66
    published = times["every_event_added"]
    assert published["total_us"] == 7722.80
    assert published["overhead_us"] == 413.14
    assert [round(published[key], 1) for key in ("gpu_percent", "overhead_percent")] == [94.7, 5.3]
    once = times["launches_counted_once"]
    assert once["total_us"] == 7568.82  # the calls of the runtime lie inside the op
    assert once["overhead_us"] == 259.16
    assert [round(once[key], 2) for key in ("gpu_percent", "overhead_percent")] == [96.58, 3.42]


def test_kernel(gpu: Core) -> None:
    found = kernel_metadata_scrape(IDENTIFIER, gpu)
    expected = {
        "name": KERNEL, "category": "kernel", "device": 0, "device_name": "NVIDIA A100-SXM4-80GB", "context": 1,
        "stream": 7, "correlation": 41, "external_id": 9, "ts_us": IDENTIFIER[0], "dur_us": 7309.66,
        "start_ns": 180_000, "end_ns": 7_489_660, "grid": [64, 64, 1], "block": [256, 1, 1], "blocks": 4096,
        "threads_per_block": 256, "threads": 1_048_576, "shared_memory_bytes": 147_456, "registers_per_thread": 234,
        "blocks_per_sm": 37.925926, "warps_per_sm": 303.40741,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert found["name_tells"]["dtype"] == "bf16"
    assert (found["name_tells"]["tile_m"], found["name_tells"]["tile_n"]) == (256, 128)


def test_occupancy_that_reads_0_is_worked_out(gpu: Core) -> None:
    found = kernel_metadata_scrape(IDENTIFIER, gpu)
    assert (found["occupancy_percent"], found["occupancy_source"]) == (12.5, "theoretical")
    assert found["occupancy_unknown"] is None
    theory = found["theoretical_occupancy"]
    assert (theory["blocks_per_sm"], theory["warps_per_sm"], theory["most_warps_per_sm"]) == (1, 8, 64)
    assert theory["limited_by"] == ["registers", "shared memory"]


@pytest.mark.parametrize(
    ("grid", "reported", "percent", "source", "text"),
    [
        (
            [3, 1, 1],
            0,
            100 * 3 / 108 / 8,
            "estimated",
            "occupancy 0.3472 %, estimated from its grid; at most 12.5 % by",
        ),
        ([3, 1, 1], None, 100 * 3 / 108 / 8, "estimated", "occupancy 0.3472 %, estimated from its grid"),
        ([107, 1, 1], 0, 100 * 107 / 108 / 8, "estimated", "occupancy 12.38 %, estimated from its grid"),
        ([108, 1, 1], 0, 12.5, "theoretical", "theoretical occupancy 12.5 %: 1 block"),
        (None, 0, 12.5, "theoretical", "theoretical occupancy 12.5 %: 1 block"),
        ([3, 1, 1], 7, 7, "reported", "occupancy 7 %, as reported; at most 12.5 % by"),
    ],
)
def test_occupancy_of_a_grid_that_does_not_fill_the_device_is_estimated(
    grid: list[int] | None, reported: int | None, percent: float, source: str, text: str
) -> None:
    trace = mm_pair.kineto()
    args = trace["traceEvents"][4]["args"]
    args |= {"grid": grid, "est. achieved occupancy %": reported}
    found = kernel_metadata_scrape(IDENTIFIER, trace)
    assert (found["occupancy_percent"], found["occupancy_source"]) == (pytest.approx(percent), source)
    assert found["theoretical_occupancy"]["percent"] == 12.5
    estimated = found["theoretical_occupancy"]["estimated_percent"]
    assert estimated == (None if grid is None else pytest.approx(min(12.5, 100 * prod(grid) / 108 / 8)))
    assert occupancy_text(found).startswith(text)


def test_kernel_leads_back(cpu: Core, gpu: Core) -> None:
    found = kernel_to_op_tracing(IDENTIFIER, gpu, cpu)
    assert found["cpu_op_id"] == MM
    assert found["cpu_op"] == operation_metadata_scrape(MM, cpu)
    assert found["launch"]["name"] == "cudaLaunchKernel"
    assert found["kernel"]["identifier"] == IDENTIFIER
    assert found["way"] == "launch, and the op that it stands in"


def test_a_range_of_the_program_has_what_runs_inside_it(cpu: Core, gpu: Core) -> None:
    events = op_to_kernel_tracing(4, cpu, gpu)["events"]
    assert [event["name"] for event in events["cpu_op"]] == ["product", "aten::mm"]
    assert [event["cpu_op_id"] for event in events["cpu_op"]] == [4, MM]
    assert len(events["runtime"]) == 2
    assert len(events["kernel"]) == 1


def test_an_identifier_comes_from_events_of_all_forms(cpu: Core, gpu: Core) -> None:
    kernel = mm_pair.kineto()["traceEvents"][4]
    (node,) = gpu.find("Kernel")
    found = op_to_kernel_tracing(MM, cpu, gpu)["events"]["kernel"][0]
    assert {get_gpu_op_identifier(one) for one in (kernel, node, found)} == {IDENTIFIER}


def test_paths_parsed_json_graphs_and_a_linked_graph_answer_alike(tmp_path: Path, cpu: Core, gpu: Core) -> None:
    (tmp_path / "et.json").write_text(json.dumps(mm_pair.execution_trace()))
    (tmp_path / "kineto.json").write_text(json.dumps(mm_pair.kineto()))
    linked = tlg.load(mm_pair.kineto(), et=mm_pair.execution_trace())
    pairs: list[tuple[Any, Any]] = [
        (cpu, gpu), (str(tmp_path / "et.json"), tmp_path / "kineto.json"),
        (mm_pair.execution_trace(), mm_pair.kineto()), (linked, linked), (linked, gpu), (cpu, linked),
    ]  # fmt: skip
    told = [
        json.dumps([op_to_kernel_tracing(MM, et, trace), kernel_to_op_tracing(IDENTIFIER, trace, et)])
        for et, trace in pairs
    ]
    assert set(told) == {told[0]}


def test_answers_are_plain_and_at_top_level(cpu: Core, gpu: Core) -> None:
    answers = [
        tlg.operation_metadata_scrape(MM, cpu),
        tlg.op_to_kernel_tracing(MM, cpu, gpu),
        tlg.kernel_metadata_scrape(IDENTIFIER, gpu),
        tlg.kernel_to_op_tracing(IDENTIFIER, gpu, cpu),
        tlg.get_gpu_op_identifier(gpu.find("Kernel")[0]),
    ]
    assert all(_is_plain(answer) for answer in answers)
    assert tlg.load_trace is load_trace


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and _is_plain(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in (int, float, str, bool)
