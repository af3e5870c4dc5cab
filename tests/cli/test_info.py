"""info: its counts against a count made here, from the JSON alone."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

from handmade import Run, span

from corpus import chosen_traces, parametrize

KIND_OF_CATEGORY = {
    "cpu_op": "Op", "Operator": "Op", "python_function": "PythonFunction", "cuda_runtime": "RuntimeCall",
    "cuda_driver": "RuntimeCall", "Runtime": "RuntimeCall", "kernel": "Kernel", "Kernel": "Kernel",
    "gpu_memcpy": "Memcpy", "Memcpy": "Memcpy", "gpu_memset": "Memset", "Memset": "Memset",
    "user_annotation": "Annotation", "gpu_user_annotation": "DeviceAnnotation", "cuda_sync": "SyncEvent",
    "cuda_event": "SyncEvent", "overhead": "Overhead", "cpu_instant_event": "MemoryEvent",
}  # fmt: skip
GPU = {"Kernel", "Memcpy", "Memset"}


def counted(events: list[dict[str, Any]]) -> tuple[Counter[str], Counter[str]]:
    """Number of nodes of each kind, and of entries left out for each reason."""
    kinds: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for event in events:
        category, name = event.get("cat"), event.get("name", "")
        kind = KIND_OF_CATEGORY.get(category or "")
        if event["ph"] == "M":
            left_out["metadata"] += 1
        elif category is None:
            left_out["no category"] += 1
        elif kind == "PythonFunction" and name.startswith("nn.Module: "):
            kinds["Module"] += 1
        elif kind == "Annotation" and name.startswith("ProfilerStep#"):
            kinds["Step"] += 1
        elif kind:
            kinds[kind] += 1
        elif category in ("ac2g", "async_cpu_to_gpu"):
            left_out["launch flows"] += 1
        elif category == "fwdbwd":
            left_out["forward-backward flows"] += 1
        else:
            left_out[f"category {category}"] += 1
    return kinds, left_out


@parametrize("path", chosen_traces())
def test_counts_are_those_of_the_file(run: Run, path: Path) -> None:
    parsed = json.loads(gzip.decompress(path.read_bytes()), strict=False)
    events = parsed["traceEvents"]
    code, out, err = run("info", path, "--format", "json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    kinds, left_out = counted(events)
    assert {row["kind"]: row["count"] for row in told["nodes"]} == kinds
    assert {row["why"]: row["count"] for row in told["left_out"]} == left_out
    assert told["trace"]["entries in the file"] == len(events) == kinds.total() + left_out.total()
    assert told["trace"]["nodes"] == kinds.total()
    assert told["trace"]["steps"] == kinds["Step"]
    gpu = [event for event in events if KIND_OF_CATEGORY.get(event.get("cat", "")) in GPU]
    assert sum(row["gpu_events"] for row in told["launches"]) == len(gpu)
    assert sum(row["gpu_events"] for row in told["devices"]) == len(gpu)
    total_us = sum(float(event["dur"]) for event in gpu)
    assert abs(sum(row["gpu_sum_ms"] for row in told["launches"]) * 1000 - total_us) < 0.01
    assert told["trace"]["rank"] == parsed.get("distributedInfo", {}).get("rank")


def test_page_of_the_small_trace(run: Run, trace_file: Path) -> None:
    _, out, _ = run("info", trace_file, env={"COLUMNS": "300"})
    for line in (
        "  entries in the file  18",
        "  absolute start       2023-11-14T22:13:20.001000000 UTC",
        "  time covered         0.900 ms",
        "  GPU span             0.159 ms",
        "  rank                 3",
        "cuda_runtime  12.4",
    ):
        assert line in out.splitlines()
    (missing,) = [line for line in out.splitlines() if "Record with" in line]
    assert missing.startswith("  launches of GPU work (missing for 1 of 3 GPU events, 29.9 % of GPU time): ")


def test_what_begins_before_the_first_event_moves_its_place_on_the_timeline(run: Run, tmp_path: Path) -> None:
    around = {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "ts": 0, "dur": 900, "pid": "Spans", "tid": 1}
    events = [around, span("cpu_op", "aten::mm", 852.5, 10)]
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps({"baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": events}))
    _, out, _ = run("info", trace, env={"COLUMNS": "300"})
    assert "  absolute start         2023-11-14T22:13:20.000852500 UTC" in out.splitlines()
    assert "  start on the timeline  0.853 ms" in out.splitlines()


def test_a_name_without_end_is_shortened(run: Run, tmp_path: Path) -> None:
    step = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{'7' * 100_000}", "ts": 1, "dur": 9, "pid": 1}
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"traceEvents": [step | {"tid": 1}]}))
    code, out, _ = run("info", path)
    assert code == 0
    assert "first step" in out
    assert len(out) < 10_000
