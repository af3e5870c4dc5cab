"""Runs as AMD's profilers write them, made by hand: databases of three schemas and JSON results."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

KERNEL, COPY = "Cijk_Ailk_Bljk_HHS(float*)", "Memcpy HtoD"


def made(file: Path, script: str) -> Path:
    with sqlite3.connect(file) as connection:
        connection.executescript(script)
    connection.close()
    return file


RPD = f"""
CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT);
INSERT INTO rocpd_string VALUES (1, ''), (2, '{KERNEL}'), (3, 'KernelExecution'), (4, 'CopyHostToDevice'),
    (5, 'hipLaunchKernel'), (6, 'hipMemcpyAsync'), (7, 'UserMarker'), (8, 'aten::mm, seq = 3, op_id = 1');
CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId, queueId, sequenceId, start, "end", description_id, opType_id);
INSERT INTO rocpd_op VALUES (1, 2, 5, 0, 20000, 70000, 2, 3), (2, 2, 5, 0, 80000, 90000, 1, 4);
CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid, tid, start, "end", apiName_id, args_id);
INSERT INTO rocpd_api VALUES (11, 100, 101, 2000, 4000, 5, 1), (12, 100, 101, 6000, 9000, 6, 1),
    (13, 100, 101, 1000, 10000, 7, 8);
CREATE TABLE rocpd_api_ops (id INTEGER PRIMARY KEY, api_id, op_id);
INSERT INTO rocpd_api_ops VALUES (1, 11, 1), (2, 12, 2);
CREATE TABLE rocpd_copyapi (api_ptr_id INTEGER PRIMARY KEY, size);
INSERT INTO rocpd_copyapi VALUES (12, 4096);
"""

_KNOWN = f"""
CREATE TABLE rocpd_string_a (id INTEGER PRIMARY KEY, guid, string TEXT);
INSERT INTO rocpd_string_a VALUES (1, '', 'hipLaunchKernel'), (2, '', 'hipMemcpyAsync'),
    (3, '', 'MEMORY_COPY_HOST_TO_DEVICE'), (4, '', 'MARKER_CORE_API'), (5, '', 'HIP_RUNTIME_API'),
    (6, '', 'roctxThreadRangeA');
CREATE TABLE rocpd_info_process_a (id INTEGER PRIMARY KEY, pid); INSERT INTO rocpd_info_process_a VALUES (1, 100);
CREATE TABLE rocpd_info_thread_a (id INTEGER PRIMARY KEY, tid); INSERT INTO rocpd_info_thread_a VALUES (1, 101);
CREATE TABLE rocpd_info_agent_a (id INTEGER PRIMARY KEY, type, type_index);
INSERT INTO rocpd_info_agent_a VALUES (1, 'CPU', 0), (2, 'GPU', 0), (3, 'GPU', 1), (4, 'GPU', 2);
CREATE TABLE rocpd_info_kernel_symbol_a (id INTEGER PRIMARY KEY, kernel_name, display_name);
INSERT INTO rocpd_info_kernel_symbol_a VALUES (9, 'mangled', '{KERNEL}');
CREATE TABLE rocpd_event_a (id INTEGER PRIMARY KEY, category_id, stack_id, extdata);
INSERT INTO rocpd_event_a VALUES (1, 5, 11, '{{}}'), (2, 5, 12, '{{}}'),
    (3, 4, 13, '{{"message": "aten::mm, seq = 3, op_id = 1"}}'), (4, NULL, 11, '{{}}'), (5, NULL, 12, '{{}}');
"""
ROCPD_3 = f"""{_KNOWN}
CREATE TABLE rocpd_region_a (id INTEGER PRIMARY KEY, pid, tid, start, "end", name_id, event_id);
INSERT INTO rocpd_region_a VALUES (1, 1, 1, 2000, 4000, 1, 1), (2, 1, 1, 6000, 9000, 2, 2),
    (3, 1, 1, 1000, 10000, 6, 3);
CREATE TABLE rocpd_kernel_dispatch_a (id INTEGER PRIMARY KEY, pid, tid, agent_id, kernel_id, queue_id, stream_id, start,
    "end", workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, event_id);
INSERT INTO rocpd_kernel_dispatch_a VALUES (1, 1, 1, 4, 9, 7, 5, 20000, 70000, 256, 1, 1, 1024, 2, 1, 4);
CREATE TABLE rocpd_memory_copy_a (id INTEGER PRIMARY KEY, pid, tid, start, "end", name_id, dst_agent_id, src_agent_id,
    size, queue_id, stream_id, event_id);
INSERT INTO rocpd_memory_copy_a VALUES (1, 1, 1, 80000, 90000, 3, 4, 1, 4096, 7, 5, 5);
"""
ROCPD_4 = f"""{_KNOWN}
CREATE TABLE rocpd_track_a (id INTEGER PRIMARY KEY, pid, tid, agent_id, queue_id, stream_id);
INSERT INTO rocpd_track_a VALUES (1, 1, 1, NULL, NULL, NULL), (2, 1, 1, 4, 7, 5);
CREATE TABLE rocpd_timestamp_a (id INTEGER PRIMARY KEY, value);
INSERT INTO rocpd_timestamp_a VALUES (1, 2000), (2, 4000), (3, 6000), (4, 9000), (5, 1000), (6, 10000), (7, 20000),
    (8, 70000), (9, 80000), (10, 90000);
CREATE TABLE rocpd_region_a (id INTEGER PRIMARY KEY, track_id, name_id, start_id, end_id, event_id);
INSERT INTO rocpd_region_a VALUES (1, 1, 1, 1, 2, 1), (2, 1, 2, 3, 4, 2), (3, 1, 6, 5, 6, 3);
CREATE TABLE rocpd_kernel_dispatch_a (id INTEGER PRIMARY KEY, track_id, kernel_id, start_id, end_id, workgroup_size_x,
    workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, grid_size_z, event_id);
INSERT INTO rocpd_kernel_dispatch_a VALUES (1, 2, 9, 7, 8, 256, 1, 1, 1024, 2, 1, 4);
CREATE TABLE rocpd_memory_copy_a (id INTEGER PRIMARY KEY, track_id, start_id, end_id, name_id, dst_agent_id,
    src_agent_id, size, event_id);
INSERT INTO rocpd_memory_copy_a VALUES (1, 2, 9, 10, 3, 4, 1, 4096, 5);
"""


def record(kind: int, operation: int, correlation: int, start: int, end: int, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind, "operation": operation, "thread_id": 101, "correlation_id": {"internal": correlation},
        "start_timestamp": start, "end_timestamp": end, **more,
    }  # fmt: skip


def result() -> dict[str, Any]:
    dispatch = {
        "agent_id": {"handle": 44}, "queue_id": {"handle": 7}, "kernel_id": 9,
        "workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": 1024, "y": 2, "z": 1},
    }  # fmt: skip
    return {
        "metadata": {"pid": 100},
        "agents": [{"id": {"handle": at}, "type": 1 if at == 41 else 2, "name": "gfx942"} for at in (41, 42, 43, 44)],
        "strings": {
            "buffer_records": [
                {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel", "hipMemcpyAsync"]},
                {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
                {"kind": "KERNEL_DISPATCH", "operations": []},
                {"kind": "MARKER_CORE_API", "operations": ["roctxRangePushA"]},
            ],
            "marker_api": [{"key": 13, "value": "aten::mm, seq = 3, op_id = 1"}],
        },
        "kernel_symbols": [{"kernel_id": 9, "formatted_kernel_name": KERNEL}],
        "buffer_records": {
            "kernel_dispatch": [record(2, 0, 11, 20000, 70000, dispatch_info=dispatch, stream_id={"handle": 5})],
            "memory_copy": [
                record(1, 1, 12, 80000, 90000, dst_agent_id={"handle": 44}, src_agent_id={"handle": 41}, bytes=4096,
                       stream_id={"handle": 5}),
            ],
            "hip_api": [record(0, 0, 11, 2000, 4000), record(0, 1, 12, 6000, 9000)],
            "marker_api": [record(3, 0, 13, 1000, 10000)],
        },
    }  # fmt: skip


def files(folder: Path) -> Iterable[Path]:
    for name, script in {"t.rpd": RPD, "three.db": ROCPD_3, "four.db": ROCPD_4}.items():
        yield made(folder / name, script)
    (folder / "results.json").write_text(json.dumps({"rocprofiler-sdk-tool": [result()]}))
    yield folder / "results.json"


def of_two_processes(folder: Path) -> Iterable[Path]:
    """The same runs with a second process, number 200, that uses the GPU before."""
    second = """
INSERT INTO rocpd_api VALUES (21, 200, 201, 2000, 4000, 5, 1), (22, 200, 201, 1000, 10000, 7, 8);
INSERT INTO rocpd_op VALUES (3, 1, 5, 0, 20000, 60000, 2, 3); INSERT INTO rocpd_api_ops VALUES (3, 21, 3);"""
    yield made(folder / "t.rpd", RPD + second)
    for name, script in {"three.db": ROCPD_3, "four.db": ROCPD_4}.items():
        other = re.sub(r"_a\b", "_b", script).replace("(1, 100)", "(1, 200)")
        other = re.sub(r"(INSERT INTO rocpd_memory_copy_b VALUES).*?;", "", other, flags=re.DOTALL)
        for own, there in (
            ("1, 1, 4, 9, 7, 5", "1, 1, 3, 9, 7, 5"),
            ("(2, 1, 1, 4, 7", "(2, 1, 1, 3, 7"),
            ("70000", "60000"),
        ):
            other = other.replace(own, there)
        yield made(folder / name, script + other)
    other = result() | {"metadata": {"pid": 200}}
    other["buffer_records"]["kernel_dispatch"][0]["dispatch_info"]["agent_id"]["handle"] = 43
    other["buffer_records"]["kernel_dispatch"][0]["end_timestamp"] = 60000
    other["buffer_records"]["memory_copy"] = []
    (folder / "results.json").write_text(json.dumps({"rocprofiler-sdk-tool": [result(), other]}))
    yield folder / "results.json"
