"""The tiler of the benchmarks: N copies hold N times everything, and no copy refers to another."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import orjson
import pytest

from tile import PAUSE_NS, tile

TRACE = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "M", "name": "process_name", "pid": 1, "ts": 0, "args": {"name": "100 % python"}},
        {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "pid": 1,
            "tid": 1,
            "ts": 10.001,
            "dur": 5,
            "args": {"correlation": 7, "External id": 3},
        },
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 7, "pid": 1, "tid": 1, "ts": 10.001},
        {
            "ph": "X",
            "cat": "kernel",
            "name": "gemm<50%>",
            "pid": 0,
            "tid": 7,
            "ts": 12.5,
            "dur": 4.25,
            "args": {"correlation": 7, "External id": 3, "stream": 7, "bytes": 0},
        },
        {
            "ph": "X",
            "cat": "gpu_memset",
            "name": "Memset",
            "pid": 0,
            "tid": 7,
            "ts": 17,
            "dur": 1,
            "args": {"correlation": 0},
        },
    ],
    "traceName": "small.json",
}


def tiled(tmp_path: Path, copies: int) -> dict[str, Any]:
    source, target = tmp_path / "trace.json", io.BytesIO()
    source.write_bytes(orjson.dumps(TRACE))
    tile(source, target, copies)
    return orjson.loads(target.getvalue())


def test_one_copy_is_the_trace(tmp_path: Path) -> None:
    assert tiled(tmp_path, 1) == TRACE


def test_copies_follow_one_another_and_link_only_within_themselves(tmp_path: Path) -> None:
    metadata, *events = tiled(tmp_path, 3)["traceEvents"]
    assert metadata == TRACE["traceEvents"][0]
    assert len(events) == 3 * 4
    span = (18_000 - 10_001 + PAUSE_NS) / 1000
    for index in range(3):
        launch, flow, kernel, memset = events[4 * index : 4 * index + 4]
        assert launch["ts"] == pytest.approx(10.001 + index * span, abs=1e-9)
        assert kernel["ts"] == pytest.approx(12.5 + index * span, abs=1e-9)
        assert launch["args"]["correlation"] == flow["id"] == kernel["args"]["correlation"] == 7 + 8 * index
        assert launch["args"]["External id"] == kernel["args"]["External id"] == 3 + 4 * index
        assert (kernel["name"], kernel["dur"], kernel["args"]["stream"]) == ("gemm<50%>", 4.25, 7)
        assert memset["args"]["correlation"] == 0
