"""The rules of call forest and links, written as plainly as they can be: the oracle for the vectorised code."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

HOST = {
    "python_function": 1, "cpu_op": 2, "Operator": 2, "cuda_runtime": 3, "cuda_driver": 3, "Runtime": 3,
}  # fmt: skip
GPU = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}


def nanoseconds(event: dict[str, Any], key: str) -> int:
    return int((Decimal(str(event.get(key, 0))) * 1000).to_integral_value())


def host_parents(events: list[dict[str, Any]]) -> dict[int, int | None]:
    """uid -> uid of the parent, for all host events: one stack per thread."""
    threads = defaultdict(list)
    for uid, event in enumerate(events):
        if event.get("cat") in HOST and event.get("ph", "X") == "X":
            start, dur = nanoseconds(event, "ts"), max(nanoseconds(event, "dur"), 0)
            threads[event["pid"], event["tid"]].append((start, -dur, HOST[event["cat"]], uid))
    parents: dict[int, int | None] = {}
    for thread in threads.values():
        stack: list[tuple[int, int, int]] = []  # uid, start, end as cut for nesting
        for start, minus_dur, _, uid in sorted(thread):
            end = start - minus_dur
            while stack and not (start < stack[-1][2] or (stack[-1][1] == stack[-1][2] == start == end)):
                stack.pop()
            while stack and end > stack[-1][2]:
                if 2 * (stack[-1][2] - start) >= end - start:
                    end = stack[-1][2]
                else:
                    stack.pop()
            parents[uid] = stack[-1][0] if stack else None
            stack.append((uid, start, end))
    return parents


def launches(events: list[dict[str, Any]]) -> dict[int, int]:
    """uid of a GPU event -> uid of the runtime call with its correlation id."""
    calls: dict[int, int] = {}
    for uid, event in sorted(enumerate(events), key=lambda pair: nanoseconds(pair[1], "ts") if "ts" in pair[1] else 0):
        correlation = (event.get("args") or {}).get("correlation")
        if HOST.get(event.get("cat", "")) == 3 and correlation not in (None, 0, -1):
            calls.setdefault(correlation, uid)
    found = {}
    for uid, event in enumerate(events):
        if event.get("cat") in GPU and (event.get("args") or {}).get("correlation") in calls:
            found[uid] = calls[event["args"]["correlation"]]
    return found
