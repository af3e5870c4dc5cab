"""GPU time as folded stacks, one line each: `forward;Linear_0;aten::addmm;gemm 50250`.

The format is that of Brendan Gregg's stackcollapse scripts, which flamegraph.pl, inferno and speedscope read. Values
are whole nanoseconds, and add up to the GPU time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.html.names import Names
from tracelens_graph.reports.html.stacks import Stacks, stacks
from tracelens_graph.reports.html.timeline import DRAWN_KINDS

VIEW = "modules"
"""Frames of a line: pass, modules, op, kernel."""

DEEPEST = 200
"""Frames of a line. Of a deeper stack the middle gives way to one frame that says how many it stands for: each line
holds all names above, so a file grows with the square of the depth."""


def stacks_of(w: Window) -> tuple[dict[str, Stacks], Names]:
    """The merged stacks of GPU time of all views, and the names of their frames; kept with the window.

    Raises:
        AnalysisError: there are no GPU events, or the graph has no times.
    """
    w.core.info.check_times()
    if not len(w.gpu_rows):
        source = w.core.info.source or "the graph"
        raise AnalysisError(f"{source}: there are no GPU events, so there are no stacks of GPU time")
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
        AnalysisError: there are no GPU events, or the graph has no times.
    """
    views, names = stacks_of(w)
    one, texts = views[VIEW], [text.replace(";", ":") for text in names.texts]
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
