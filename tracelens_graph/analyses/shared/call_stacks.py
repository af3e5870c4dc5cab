"""Where in the program an op stands: the modules around it, and the line of Python that it comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import ancestors
from tracelens_graph.schema import PYTHON_KINDS, Kind

_INSTANCE = re.compile(r"_\d+$")
_PASSED_ON_IN = (
    "torch/_functorch/", "torch/_inductor/", "triton/backends/", "torch/_ops.py(", "torch/_tensor.py(",
    "torch/distributed/c10d_logger.py(", "torch/functional.py(", "torch/nn/functional.py(",
    "torch/nn/modules/module.py(", "torch/overrides.py(", "torch/utils/_contextlib.py(",
)  # fmt: skip
_PASSED_ON_BY = ("_call_impl", "__torch_function__", "decorate_context", "wrapper_custom", "dispatch_wrapper")
_WRAPPER = re.compile(
    rf"(?:^|/)(?:{'|'.join(map(re.escape, _PASSED_ON_IN))})|: (?:{'|'.join(map(re.escape, _PASSED_ON_BY))})$"
)
"""Frames that only pass a call on: files and functions of PyTorch and Triton that stand between a user's line and an
op, and tell nothing of either."""

NOT_FOUND = "Not found"

Stack = list[str | list[str]]


def module_stacks(core: Core, rows: np.ndarray) -> list[list[str]]:
    """For each row the names of the modules around it, the outermost first."""
    kind, name = core.columns.kind, core.columns.name
    return [
        [core.names[name[above]] for above in reversed(ancestors(core.columns, row)) if kind[above] == Kind.Module]
        for row in rows.tolist()
    ]


def parent_modules(core: Core, modules: np.ndarray) -> list[str]:
    """Names of module rows without the number of the instance; `(no module)` for -1."""
    names = {
        row: _INSTANCE.sub("", core.names[core.columns.name[row]]) if row >= 0 else "(no module)"
        for row in np.unique(modules).tolist()
    }
    return [names[row] for row in modules.tolist()]


def entry_points(core: Core, rows: np.ndarray) -> list[str]:
    """For each row the Python function that it comes from.

    First a frame below the op whose name holds the op's own, as ops written in Python have; else the nearest frame
    of a `.py` file above it that does more than pass the call on.
    """
    return [_entry_point(core, row) for row in rows.tolist()]


def call_stacks(core: Core, rows: Sequence[np.ndarray]) -> list[Stack]:
    """For each group of GPU events what is above them, the outermost first, down to the kernels.

    Frames of Python files, modules without the number of the instance, and ops; then, where the ways part, one list
    for each different way, in the order of the events.
    """
    return [_call_stack(core, events.tolist()) for events in rows]


def _call_stack(core: Core, events: Sequence[int]) -> Stack:
    ways = list(dict.fromkeys(tuple(_way(core, event)) for event in events))
    if len(ways) == 1:
        return list(ways[0])
    levels = enumerate(zip(*ways, strict=False))
    parted = next((depth for depth, names in levels if len(set(names)) > 1), min(map(len, ways)))
    return [*ways[0][:parted], *(list(way[parted:]) for way in ways)]


def _way(core: Core, event: int) -> list[str]:
    """Names from the outermost frame to a GPU event."""
    c, way = core.columns, [core.names[core.columns.name[event]]]
    for above in ancestors(c, event):
        kind, name = c.kind[above], core.names[c.name[above]]
        if kind == Kind.Module:
            way.append(_INSTANCE.sub("", name))
        elif kind == Kind.Op or (kind in PYTHON_KINDS and ".py(" in name):
            way.append(name)
    return way[::-1]


def _entry_point(core: Core, row: int) -> str:
    c, names = core.columns, core.names
    local = names[c.name[row]].rpartition("::")[2]
    for inner in range(row + 1, int(c.last[row]) + 1):
        if c.kind[inner] in PYTHON_KINDS and ".py(" in (name := names[c.name[inner]]) and local in name:
            return name
    for above in ancestors(c, row):
        name = names[c.name[above]]
        if c.kind[above] in PYTHON_KINDS and ".py(" in name and not _WRAPPER.search(name):
            return name
    return NOT_FOUND
