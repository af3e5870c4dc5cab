"""A second, plain reading of Kineto JSON, that shares nothing with the simulator."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

Event = dict[str, Any]
HOST = ("cpu_op", "python_function", "cuda_runtime", "cuda_driver")
GPU = ("kernel", "gpu_memcpy", "gpu_memset")


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def span(event: Event) -> tuple[int, int]:
    start = ns(event["ts"])
    return start, start + ns(event["dur"])


def of(trace: dict[str, Any], *cats: str) -> dict[int, Event]:
    """Complete events of some categories by their position in the file."""
    return {i: e for i, e in enumerate(trace["traceEvents"]) if e["ph"] == "X" and e.get("cat") in cats}


def parents(events: dict[int, Event]) -> dict[int, int | None]:
    """The innermost enclosing event of each on its thread; a failed assertion if two cross."""
    threads: dict[tuple[Any, Any], list[tuple[int, int, int]]] = defaultdict(list)
    for uid, event in events.items():
        start, end = span(event)
        threads[event["pid"], event["tid"]].append((start, -end, uid))
    above: dict[int, int | None] = {}
    for rows in threads.values():
        stack: list[tuple[int, int]] = []
        for start, minus_end, uid in sorted(rows):
            while stack and stack[-1][0] <= start:
                stack.pop()
            assert not stack or -minus_end <= stack[-1][0], f"{uid} outlives {stack[-1][1]}"
            above[uid] = stack[-1][1] if stack else None
            stack.append((-minus_end, uid))
    return above


def chain(uid: int | None, above: dict[int, int | None]) -> list[int]:
    """The ancestors of an event, innermost first, itself left out."""
    found = []
    while uid is not None and (uid := above[uid]) is not None:
        found.append(uid)
    return found


def union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def length(spans: list[tuple[int, int]]) -> int:
    return sum(end - start for start, end in union(spans))
