"""The module tree as lines of text, times at the end of dotted lines.

                                         (GPU Time µs)
(all GPU events) .......................... (1,906.14)
├── nn.Module: RMSNorm_8 .................... (148.46)
└── Non-nn.Module GPU Ops ..................... (3.20)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.places.attribution import OPTIMIZER
from tracelens_graph.frameworks import PYTORCH, Framework
from tracelens_graph.reports.tree_text import DEEPEST
from tracelens_graph.tables.names import fitted
from tracelens_graph.tables.terminal import bold
from tracelens_graph.utils.texts import printable, width_of, wrapped

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

_LONGEST_NAME, _SHORTEST_NAME = 64, 21
"""Characters that are shown of a name at most, and at least, however narrow the terminal."""

_LONGEST_READ = 4096
_DOTS = 3
_ROOM = 300
"""Characters before the dots where the terminal sets no limit."""


def module_text(
    table: Table, width: int | None = None, color: bool = False, framework: Framework = PYTORCH
) -> Iterator[str]:
    """Lines that draw the result of `analyses.modules.modules`.

    Where there is backward work, a line has forward, backward and total time: what is not backward and in no module is
    neither, and part of the total only. Elsewhere a line has one time. Where it would be too long, its name is cut and
    its branches lose their beginning.

    Args:
        table: the module tree in pre-order.
        framework: that of the trace, which says what modules are called.
    """
    yield from (bold(line, color) for line in wrapped(printable(table.title), width))
    if len(table):
        head, *times = _times(table, framework)
        room = _ROOM if width is None else width - max(map(len, times)) - _DOTS - 2
        labels = list(_labels(table, room, framework.module_prefix))
        edge = max(width_of(label) + len(time) for label, time in zip(labels, times, strict=True)) + _DOTS + 2
        yield bold("(GPU Time µs)".rjust(edge), color)
        if head:
            yield bold(head.rjust(edge), color)
        for label, time in zip(labels, times, strict=True):
            yield f"{label} {'.' * (edge - width_of(label) - len(time) - 2)} {time}"
    yield from (line for note in table.notes for line in wrapped(printable(note), width, "  "))


def _times(table: Table, framework: Framework) -> list[str]:
    """What heads the times, empty for a single one, and the times of each line; they align at their ends."""
    total, backward = (np.asarray(table[f"{name}_us"]) for name in ("total", "backward"))
    outside = {framework.outside_modules, OPTIMIZER, NO_LAUNCH}
    in_none = [
        depth == 1 and uid is None and module in outside
        for depth, uid, module in zip(table["depth"], table["uid"], table["module"], strict=True)
    ]
    neither = np.where(in_none, total - backward, 0)
    neither[np.asarray(table["depth"]) == 0] = neither.sum()
    times = {"forward": np.maximum(total - backward - neither, 0), "backward": backward, "total": total}
    if not np.any(backward > 0) or len(total) == 1:
        times = {"total": total}
    columns = [[name, *(f"{us:,.2f}" for us in column)] for name, column in times.items()]
    # The dots before the first column fill it; the others are filled here.
    widths = [0, *(max(map(len, column)) for column in columns[1:])]
    head, *lines = (
        f"({'  '.join(map(str.rjust, cells, widths))})" for cells in zip(*columns, strict=True)
    )  # fmt: skip
    return [head if len(times) > 1 else "", *lines]


def _labels(table: Table, room: int, word: str) -> Iterator[str]:
    """What stands before the dots of each line: branches, name, and how many instances and calls it stands for."""
    depths = np.asarray(table["depth"]).tolist()
    longest = max(room - len(word) - _SHORTEST_NAME, 8)
    for branches, line in zip(_branches(depths), table.records(), strict=True):
        if len(branches) > longest:
            branches = "..." + branches[3 - longest :]
        is_module = line["uid"] is not None
        kind = word if is_module else ""
        suffix = _counts(line["instances"], line["calls"]) if is_module else ""
        name = _cut(line["module"], _LONGEST_NAME)
        space = room - len(branches) - len(kind)
        if space - len(suffix) < min(len(name), _SHORTEST_NAME):
            suffix = ""
        yield f"{branches}{kind}{_cut(name, max(space - len(suffix), _SHORTEST_NAME))}{suffix}"


def _counts(instances: int, calls: int) -> str:
    """How much a line stands for; nothing for a single call."""
    counts = [f"{instances:,} instances"] if instances > 1 else []
    counts += [f"{calls:,} calls"] if calls > max(instances, 1) else []
    return f" [{', '.join(counts)}]" if counts else ""


def _cut(name: str, size: int) -> str:
    # Cut before and after: escapes of a long hostile name would cost time, and are longer than what they stand for.
    return fitted(printable(name[:_LONGEST_READ]), size)


def _branches(depths: Sequence[int]) -> Iterator[str]:
    """The lines of a tree that is given by the depths of its nodes in pre-order; none at depth 0.

    What is deeper than DEEPEST levels stands at that level, so that no line is longer than that.
    """
    depths = [min(depth, DEEPEST) for depth in depths]
    is_last = [True] * len(depths)
    below: list[int] = []
    for line in range(len(depths) - 1, -1, -1):
        while below and below[-1] > depths[line]:
            below.pop()
        is_last[line] = not below or below[-1] != depths[line]
        if is_last[line]:
            below.append(depths[line])
    above = [""]
    for depth, last in zip(depths, is_last, strict=True):
        del above[max(depth, 1) :]
        if depth:
            yield above[-1] + ("└── " if last else "├── ")
            above.append(above[-1] + ("    " if last else "│   "))
        else:
            yield ""
