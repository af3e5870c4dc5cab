"""Copies and fills: in which direction, how large, how fast."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.shared.columns import GPU_TIME, PERCENT
from tracelens_graph.analyses.shared.gpu_class import MEMCPY, gpu_classes
from tracelens_graph.analyses.shared.gpu_work import gpu_time_columns, most_time_first
from tracelens_graph.analyses.shared.grouping import Cells, group_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.perf.host_copies import copy_direction
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

COPIES = TableSchema(
    "copies",
    "What is copied and filled, in which direction, and how fast.",
    {
        "direction": Column.key("H is the host, D a device, P another device; fill for fills, else unknown"),
        "name": Column.key("name of the copies, which also tells the kind of memory"),
        "size_class": Column.key("size of a single copy; absent where it was not recorded"),
        "count": Column.count("number of copies"),
        "bytes": Column.total("their bytes", "B"),
        "gpu_time_us": GPU_TIME,
        "gb_per_s": Column("bytes per time", "GB/s"),
        "percent": PERCENT,
    },
)


SIZES = (
    (4096, "below 4 KiB"),
    (65536, "4 KiB to 64 KiB"),
    (1 << 20, "64 KiB to 1 MiB"),
    (1 << 24, "1 MiB to 16 MiB"),
    (1 << 63, "16 MiB and more"),
)
"""Size from which on a copy is no longer of a class, and the class."""


def copies(g: Core | Window) -> Table:
    """Copies and fills by name and size, the greatest time first.

    Kernels that are copies in disguise are among them; how many bytes they moved was not recorded.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    gpu = w.gpu_rows[
        (gpu_classes(core, w.gpu_rows) == MEMCPY) | np.isin(c.kind[w.gpu_rows], (Kind.Memcpy, Kind.Memset))
    ]
    size = np.searchsorted(np.array([end for end, _ in SIZES[:-1]]), c.bytes[gpu], "right")
    size[c.bytes[gpu] == -(2**63)] = -1
    fills = c.kind[gpu] == Kind.Memset
    group, first = group_by(c.name[gpu], fills, size)
    names = [core.names[code] for code in c.name[gpu[first]].tolist()]
    recorded = size[first] >= 0
    moved = sum_by_group(group, np.where(size >= 0, c.bytes[gpu], 0), len(first))
    times = gpu_time_columns(w, gpu, group, len(first))
    ns = sum_by_group(group, c.dur_ns[gpu], len(first))
    rate = np.divide(moved, ns, out=np.full(len(first), np.nan), where=recorded & (ns > 0))
    columns: dict[str, Cells] = {
        "direction": [
            "fill" if fill else copy_direction(name) for fill, name in zip(fills[first].tolist(), names, strict=True)
        ],
        "name": names,
        "size_class": [SIZES[code][1] if code >= 0 else None for code in size[first].tolist()],
        "count": times["count"],
        "bytes": [one if told else None for one, told in zip(moved.tolist(), recorded.tolist(), strict=True)],
        "gpu_time_us": times["gpu_time_us"],
        "gb_per_s": rate,
        "percent": times["percent"],
    }
    return most_time_first(COPIES, columns, ["name", "size_class"], "Copies and fills", w)
