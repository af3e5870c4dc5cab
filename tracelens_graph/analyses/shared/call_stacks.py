"""Where in the program an op stands: the modules around it, and the line of Python that it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import fitting_names
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb
from tracelens_graph.graph.user_code import Code, codes_of
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.schema import PYTHON_KINDS, Kind
from tracelens_graph.utils.arrays import Rows

_INSTANCE = re.compile(r"_\d+$")
NOT_FOUND = "Not found"
OUTSIDE_MODULES = "(no module)"

DEEPEST = 200
"""Frames or modules of a stack in a table."""

_FRAMES_BELOW = 1000
"""Frames below an op among which the function that the op is written as is looked for."""

Stack = list[str | list[str]]


def module_stacks(core: Core, rows: np.ndarray) -> list[list[str]]:
    """For each row the names of the modules around it, the outermost first; of more than DEEPEST the inner ones."""
    c = core.columns
    above = whole_window(core).once(_modules_above)
    return [[core.names[c.name[module]] for module in reversed(_chain(above, row))] for row in rows.tolist()]


def _modules_above(w: Window) -> np.ndarray:
    """Per row of the graph the row of the nearest module above it, -1 for none."""
    c = w.core.columns
    return climb(c.parent, c.parent, c.kind == Kind.Module)


def _chain(above: np.ndarray, row: int) -> list[int]:
    """What is above a row, the nearest first, DEEPEST at most."""
    found: list[int] = []
    while len(found) < DEEPEST and (row := int(above[row])) >= 0:
        found.append(row)
    return found


def parent_modules(core: Core, modules: np.ndarray) -> list[str]:
    """Names of module rows without the number of the instance; `(no module)` for -1."""
    names = {
        row: _INSTANCE.sub("", core.names[core.columns.name[row]]) if row >= 0 else OUTSIDE_MODULES
        for row in np.unique(modules).tolist()
    }
    return [names[row] for row in modules.tolist()]


def entry_points(core: Core, rows: np.ndarray) -> list[str]:
    """For each row the Python function that it comes from.

    First a frame below the op whose name holds the op's own, as ops written in Python have; else the nearest frame
    of a `.py` file above it that does more than pass the call on. Below an op the first frames are looked at, no more
    than a function that wraps another one calls.
    """
    c, names = core.columns, core.names
    frames, is_own = whole_window(core).once(_frames)
    above = climb(c.parent, c.parent[rows], is_own)
    low, high = np.searchsorted(frames, rows, "right"), np.searchsorted(frames, c.last[rows], "right")
    found = []
    for row, outer, first, end in zip(rows.tolist(), above.tolist(), low.tolist(), high.tolist(), strict=True):
        local = names[c.name[row]].rpartition("::")[2]
        below = (names[code] for code in c.name[frames[first : min(end, first + _FRAMES_BELOW)]].tolist())
        found.append(next((name for name in below if local in name), names[c.name[outer]] if outer >= 0 else NOT_FOUND))
    return found


def _frames(w: Window) -> tuple[np.ndarray, np.ndarray]:
    """Rows of frames of Python files, ascending, and for each row of the graph whether it is one that does work."""
    core, c = w.core, w.core.columns
    in_file = fitting_names(core, lambda name: ".py(" in name)
    is_python = is_kind(c.kind, PYTHON_KINDS)
    return np.flatnonzero(is_python & in_file[c.name]), codes_of(core) >= Code.compiled


def call_stacks(core: Core, rows: Sequence[np.ndarray], python_frames: bool = True) -> list[Stack]:
    """For each group of GPU events what is above them, the outermost first, down to the kernels.

    Frames of Python files, modules without the number of the instance, and ops; then, where the ways part, one list
    for each different way, in the order of the events. Of a way with more than DEEPEST frames the inner ones.
    """
    above = whole_window(core).once(_frames_above if python_frames else _ops_above)
    return [_call_stack(core, events.tolist(), above) for events in rows]


def _call_stack(core: Core, events: Sequence[int], above: Rows) -> Stack:
    ways = list(dict.fromkeys(tuple(_way(core, event, above)) for event in events))
    if len(ways) == 1:
        return list(ways[0])
    levels = enumerate(zip(*ways, strict=False))
    parted = next((depth for depth, names in levels if len(set(names)) > 1), min(map(len, ways)))
    return [*ways[0][:parted], *(list(way[parted:]) for way in ways)]


def _way(core: Core, event: int, above: Rows) -> list[str]:
    """Names from the outermost frame to a GPU event."""
    c, way = core.columns, [core.names[core.columns.name[event]]]
    chain = _chain(above, event)
    is_module = (c.kind[chain] == Kind.Module).tolist() if chain else []
    for code, module in zip(c.name[chain].tolist() if chain else [], is_module, strict=True):
        way.append(_INSTANCE.sub("", core.names[code]) if module else core.names[code])
    return way[::-1]


def _ops_above(w: Window) -> np.ndarray:
    """Per row of the graph the row of the nearest op above it, -1 for none."""
    c = w.core.columns
    return climb(c.parent, c.parent, c.kind == Kind.Op)


def _frames_above(w: Window) -> np.ndarray:
    """Per row of the graph the row of the nearest frame of a Python file, module or op above it, -1 for none."""
    c = w.core.columns
    shown = is_kind(c.kind, (Kind.Module, Kind.Op))
    shown[w.once(_frames)[0]] = True
    return climb(c.parent, c.parent, shown)
