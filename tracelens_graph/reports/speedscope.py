"""GPU time as a file of speedscope: one profile for each view, by module, op, line of Python and kernel.

Format: https://www.speedscope.app/file-format-schema.json. Profiles are of the type `evented`, whose size grows with
the number of frames, not with their depth. Merged stacks have no moment: frames stand in the order in which their
first GPU event began, and are as long as their GPU time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from tracelens_graph.graph.window import Window
from tracelens_graph.output.markers import GENERATOR
from tracelens_graph.reports.folded import own_ns, stacks_of
from tracelens_graph.reports.html.names import Names
from tracelens_graph.reports.html.stacks import VIEWS, Stacks
from tracelens_graph.utils.texts import printable

SCHEMA = "https://www.speedscope.app/file-format-schema.json"

_LINE = re.compile(r"(?P<file>.+)\((?P<line>\d{1,9})\): .*", re.DOTALL)
"""How PyTorch names a function of Python."""


def speedscope(w: Window, title: str) -> dict[str, Any]:
    """A file of speedscope.

    Args:
        w: the window.
        title: what to call it.

    Returns:
        The file as JSON: `exporter` first, so that it is known as ours; times in ns.

    Raises:
        AnalysisError: there are no GPU events, or the graph has no times.
    """
    views, names = stacks_of(w)
    used = np.unique(np.concatenate([one.name for one in views.values()]))
    number = np.zeros(len(names.texts), np.int64)
    number[used] = np.arange(len(used))
    return {
        "exporter": GENERATOR,
        "$schema": SCHEMA,
        "name": printable(title),
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(names, one) for one in used.tolist()]},
        "profiles": [_profile(f"GPU time by {VIEWS[view]}", one, number[one.name]) for view, one in views.items()],
    }


def write_speedscope(w: Window, title: str, file: BinaryIO) -> int:
    """Write a file of speedscope.

    Returns:
        Number of frames of all profiles.

    Raises:
        AnalysisError: as `speedscope`.
    """
    found = speedscope(w, title)
    file.write(json.dumps(found, allow_nan=False, separators=(",", ":")).encode())
    return sum(len(profile["events"]) // 2 for profile in found["profiles"])


def _frame(names: Names, number: int) -> dict[str, Any]:
    text = names.texts[number]
    place = _LINE.fullmatch(text) if names.class_of(number) == "python" else None
    return {"name": text} | ({"file": place["file"], "line": int(place["line"])} if place else {})


def _profile(title: str, one: Stacks, name: np.ndarray) -> dict[str, Any]:
    events = list(_events(one, name))
    return {
        "type": "evented",
        "name": title,
        "unit": "nanoseconds",
        "startValue": 0,
        "endValue": int(one.ns.sum()),
        "events": events,
    }


def _events(one: Stacks, name: np.ndarray) -> Iterator[dict[str, Any]]:
    """Openings and closings of frames; a frame's own time comes before the frames in it."""
    own, frame_name = own_ns(one).tolist(), name.tolist()
    order = np.lexsort((np.arange(len(one.parent)), one.first, one.parent))
    edges = np.searchsorted(one.parent[order], np.arange(-1, len(one.parent) + 1)).tolist()
    inside, at = order.tolist(), 0
    open_frames: list[int] = []
    left = [iter(inside[edges[0] : edges[1]])]
    while left:
        frame = next(left[-1], None)
        if frame is not None:
            yield {"type": "O", "frame": frame_name[frame], "at": at}
            at += own[frame]
            open_frames.append(frame)
            left.append(iter(inside[edges[frame + 1] : edges[frame + 2]]))
        else:
            left.pop()
            if open_frames:
                yield {"type": "C", "frame": frame_name[open_frames.pop()], "at": at}
