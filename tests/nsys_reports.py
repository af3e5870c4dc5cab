"""Reports of Nsight Systems made by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PID, TID = 144, 150
PROCESS = PID << 24
THREAD = PROCESS | TID
SECOND = (PID + 1) << 24

Rows = Sequence[Mapping[str, Any]]


def report(folder: Path, tables: Mapping[str, Rows], texts: Mapping[int, str]) -> Path:
    """A database with tables of the columns that their rows have."""
    file = folder / "report.sqlite"
    with sqlite3.connect(file) as connection:
        made = {"StringIds": [{"id": i, "value": text} for i, text in texts.items()], **tables}
        for name, rows in made.items():
            columns = list(rows[0])
            connection.execute(f'CREATE TABLE "{name}" ({", ".join(chr(34) + one + chr(34) for one in columns)})')
            marks = ", ".join("?" for _ in columns)
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', [tuple(row.values()) for row in rows])
    connection.close()
    return file


TEXTS = {1: "void gemm<float>(int)", 2: "cudaLaunchKernel_v7000", 3: "cuMemcpyAsync", 4: "pthread_cond_wait"}
KERNEL = {
    "start": 2_000_001, "end": 2_500_002, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 11,
    "globalPid": PROCESS, "demangledName": 1, "shortName": 1, "gridX": 4, "gridY": 2, "gridZ": 1, "blockX": 128,
    "blockY": 1, "blockZ": 1, "registersPerThread": 32, "staticSharedMemory": 16, "dynamicSharedMemory": 32,
}  # fmt: skip
CALL = {
    "start": 1_000_000, "end": 1_010_000, "eventClass": 0, "globalTid": THREAD, "correlationId": 11, "nameId": 2,
    "returnValue": 0,
}  # fmt: skip
COPY = {
    "start": 3_000_000, "end": 3_100_000, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 12,
    "globalPid": PROCESS, "bytes": 4096, "copyKind": 1, "srcKind": 0, "dstKind": 2,
}  # fmt: skip
RANGE = {
    "start": 990_000, "end": 1_020_000, "eventType": 59, "globalTid": THREAD, "textId": None, "domainId": 0,
    "text": "aten::mm, seq = 5, op_id = 34, sizes = [[2, 3], [3, 4]]",
}  # fmt: skip
STEP = RANGE | {"start": 900_000, "end": 4_000_000, "text": "ProfilerStep#3"}
MARK = RANGE | {"end": None, "eventType": 34, "text": "here"}
TABLES: dict[str, Rows] = {
    "CUPTI_ACTIVITY_KIND_KERNEL": [KERNEL],
    "CUPTI_ACTIVITY_KIND_RUNTIME": [
        CALL, CALL | {"start": 1_030_000, "end": 1_031_000, "correlationId": 12, "nameId": 3},
    ],
    "CUPTI_ACTIVITY_KIND_MEMCPY": [COPY],
    "NVTX_EVENTS": [RANGE, STEP, MARK],
    "OSRT_API": [{"start": 1_100_000, "end": 1_900_000, "globalTid": THREAD, "nameId": 4, "returnValue": 0}],
    "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": 1_700_000_000_000_000_000, "systemClockNs": 500}],
    "TARGET_INFO_GPU": [{"id": 0, "name": "NVIDIA H100", "totalMemory": 80 << 30, "smCount": 132}],
}  # fmt: skip
