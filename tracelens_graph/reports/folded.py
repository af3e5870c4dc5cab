"""GPU time as stacks for other programs, and host time where there is none: folded, one line each
(`forward;Linear_0;aten::addmm;gemm 50250`), or a file of speedscope.

The format of folded stacks is that of Brendan Gregg's stackcollapse scripts, which flamegraph.pl, inferno and
speedscope read. Values are whole nanoseconds, and add up to the GPU time.

speedscope: https://www.speedscope.app/file-format-schema.json. A profile for each view, of the type `evented`, whose
size grows with the number of frames, not with their depth. Merged stacks have no moment: frames stand in the order in
which their first GPU event began, and are as long as their GPU time.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.window import Window
from tracelens_graph.output.files import GENERATOR
from tracelens_graph.reports.html.names import Names
from tracelens_graph.reports.html.stacks import ALL_VIEWS, HOST, MEASURES, Stacks, stacks, views_of
from tracelens_graph.reports.html.timeline import DRAWN_KINDS
from tracelens_graph.utils.texts import printable

VIEW = "modules"
"""Frames of a line: pass, modules, op, kernel."""

DEEPEST = 200
"""Frames of a line. Of a deeper stack the middle gives way to one frame that says how many it stands for: each line
holds all names above, so a file grows with the square of the depth."""


def stacks_of(w: Window) -> tuple[dict[str, Stacks], Names]:
    """The merged stacks of all views that a window has, and the names of their frames; kept with the window.

    Raises:
        AnalysisError: there are neither GPU events nor calls, or the graph has no times.
    """
    w.core.info.check_times()
    if not views_of(w):
        source = w.core.info.source or "the graph"
        raise AnalysisError(f"{source}: there are no GPU events and no calls, so there are no stacks of their time")
    return w.once(_stacks_of)


def _stacks_of(w: Window) -> tuple[dict[str, Stacks], Names]:
    names = Names(w, DRAWN_KINDS)
    return stacks(w, names), names


def own_ns(one: Stacks) -> np.ndarray:
    """For each frame its own time of all steps, ns: without that of the frames in it."""
    found = np.zeros(len(one.parent), np.int64)
    np.add.at(found, one.frame, one.ns)
    return found


def folded(w: Window) -> dict[str, int]:
    """Stack, from the outside inwards with `;` between frames -> its own GPU time in ns, by the text of the stack.

    A `;` in a name becomes `:`.

    Raises:
        AnalysisError: there are neither GPU events nor calls, or the graph has no times.
    """
    views, names = stacks_of(w)
    one, texts = views.get(VIEW) or views[HOST], [text.replace(";", ":") for text in names.texts]
    own = own_ns(one).tolist()
    found: Counter[str] = Counter()
    for frame, path in _paths(one, texts):
        found[";".join(path)] += own[frame]
    return dict(sorted(found.items()))


def write_folded(w: Window, file: BinaryIO) -> int:
    """Write folded stacks, sorted, as UTF-8.

    Returns:
        Number of lines.

    Raises:
        AnalysisError: as `folded`.
    """
    found = folded(w)
    file.writelines(f"{stack} {ns}\n".encode() for stack, ns in found.items())
    return len(found)


def _paths(one: Stacks, texts: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Each frame with GPU events of its own, and the names from the outermost one to it."""
    parent, name = one.parent.tolist(), one.name.tolist()
    depth: list[int] = []
    upper: list[int] = []  # of a frame and those above it the innermost that stands before a gap
    for frame, above in enumerate(parent):
        depth.append(depth[above] + 1 if above >= 0 else 1)
        upper.append(frame if depth[frame] <= DEEPEST // 2 else upper[above])

    def up(frame: int, most: int) -> list[str]:
        found: list[str] = []
        while frame >= 0 and len(found) < most:
            found.append(texts[name[frame]])
            frame = parent[frame]
        return found[::-1]

    for frame in np.unique(one.frame).tolist():
        if depth[frame] <= DEEPEST:
            yield frame, up(frame, DEEPEST)
        else:
            outer = up(upper[frame], DEEPEST)
            inner = up(frame, DEEPEST - 1 - len(outer))
            yield frame, [*outer, f"... ({depth[frame] - len(outer) - len(inner):,} frames)", *inner]


# --- speedscope -----------------------------------------------------------------------------------------------------


SCHEMA = "https://www.speedscope.app/file-format-schema.json"

_LINE = re.compile(r"(?P<file>.+)\((?P<line>\d{1,9})\): .*", re.DOTALL)
"""How PyTorch names a function of Python."""


def speedscope(w: Window, title: str) -> dict[str, Any]:
    """A file of speedscope.

    Returns:
        The file as JSON: `exporter` first, so that it is known as ours; times in ns.

    Raises:
        AnalysisError: there are neither GPU events nor calls, or the graph has no times.
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
        "profiles": [_profile(_title(view), one, number[one.name]) for view, one in views.items()],
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


def _title(view: str) -> str:
    return ALL_VIEWS[view] if view in MEASURES else f"GPU time by {ALL_VIEWS[view]}"


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
