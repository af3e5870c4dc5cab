"""Snapshots of CUDA memory made by hand."""

from __future__ import annotations

from typing import Any

MIB = 2**20


def frames(*names: str) -> list[dict[str, Any]]:
    """Frames, the innermost first."""
    return [{"filename": "train.py", "line": line, "name": name} for line, name in enumerate(names, 1)]


def entry(action: str, at: int, address: int, size: int, *names: str) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": at, "frames": frames(*names)}


SNAPSHOT = {
    "segments": [
        {
            "device": 0, "address": 4096, "total_size": 1000,
            "blocks": [
                {"size": 100, "state": "active_allocated", "frames": frames("load", "main")},  # before the history
                {"size": 300, "state": "active_allocated", "frames": frames("forward", "step", "main")},
                {"size": 600, "state": "inactive", "frames": []},
            ],
        },
    ],
    "device_traces": [
        [
            entry("segment_alloc", 10, 4096, 1000),
            entry("alloc", 10, 4196, 300, "forward", "step", "main"),
            entry("alloc", 10, 4496, 200, "backward", "step", "main"),
            entry("free_completed", 20, 4496, 200),
            entry("free_completed", 21, 9999, 50),  # of a block that was there before
        ],
    ],
}  # fmt: skip


def _block(size: int, state: str, asked: int, *names: str) -> dict[str, Any]:
    return {"size": size, "requested_size": asked, "state": state, "frames": frames(*names)}


def _mark(stage: str, name: str, at: int) -> dict[str, Any]:
    return {"stage": stage, "name": name, "device": 1, "time_us": at}


PIECES = {
    "segments": [
        {
            "device": 1, "address": 4096, "total_size": 2 * MIB, "stream": 0, "segment_type": "small",
            "segment_pool_id": (0, 0), "is_expandable": False,
            "blocks": [
                _block(512, "active_allocated", 500, "load", "main"),  # before the history
                _block(1024, "inactive", 0),
                _block(512, "active_allocated", 400, "backward", "main"),
                _block(512, "active_pending_free", 300),
                _block(2 * MIB - 2560, "inactive", 0),
            ],
        },
        {
            "device": 1, "address": 50_000_000, "total_size": 20 * MIB, "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": False, "blocks": [_block(20 * MIB, "inactive", 0)],
        },
        {
            "device": 1, "address": 90_000_000, "total_size": 40 * MIB, "stream": 0, "segment_type": "large",
            "segment_pool_id": (0, 0), "is_expandable": False,
            "blocks": [
                _block(30 * MIB, "active_allocated", 30 * MIB - 100, "forward", "main"),
                _block(10 * MIB, "inactive", 0),
            ],
        },
    ],
    "device_traces": [
        [],
        [
            entry("alloc", 1010, 5632, 400, "backward", "main"),
            entry("segment_alloc", 2010, 90_000_000, 40 * MIB),
            entry("alloc", 2010, 90_000_000, 30 * MIB - 100, "forward", "main"),
            {"action": "oom", "size": 2**40, "device_free": 5, "stream": 0, "time_us": 2020, "frames": frames("main")},
        ],
    ],
    "external_annotations": [
        _mark("START", "ProfilerStep#3", 1000), _mark("END", "ProfilerStep#3", 2000),
        _mark("START", "ProfilerStep#4", 2000), _mark("END", "ProfilerStep#4", 3000),
    ],
}  # fmt: skip
"""A device with a whole free segment, two that are in use in part, a failure, and two steps."""
