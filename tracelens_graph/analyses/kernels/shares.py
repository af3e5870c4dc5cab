"""GPU time by what kernels are: categories, tiles, copies, launches of graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import (
    GPU_EVENTS,
    GPU_TIME,
    MEAN_TIME,
    PERCENT,
    calls_named,
    copies_of,
    fitting_names,
    gpu_categories,
    gpu_time_columns,
    known,
    most_time_first,
    percent,
)
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by, text_codes
from tracelens_graph.categories.kernel_names import properties
from tracelens_graph.graph.classes import distinct_classes, subtree_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.schema.categories import copy_direction
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

DIFFERENT_NAMES = Column("number of different names")

GRAPH_LAUNCHES = TableSchema(
    "graph_launches",
    "Which captured graphs are launched, and what they replay.",
    {
        "call": Column.key("the runtime call"),
        "launches": Column.count("number of launches"),
        "gpu_events": Column("GPU events that one launch replays; 0 where the trace holds none of them"),
        "names": DIFFERENT_NAMES,
        "gpu_time_us": Column.total("sum of their durations in all launches", "us"),
        "mean_gpu_time_us": Column("the same per launch", "us", Role.mean),
        "percent": PERCENT,
        "longest": Column.text("name with the most time"),
        "longest_time_us": Column("its time in all launches", "us"),
        "uid": Column.uid("the first of the launches"),
    },
)


GRAPH_LAUNCH_CALLS = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")
"""How names of calls that launch a graph begin."""


def graph_launches(g: Core | Window) -> Table:
    """Launches of captured graphs, by the replayed graph; the greatest time first.

    Launches that replay GPU events of the same names in the same order are one row.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    calls = calls_named(w, lambda name: name.startswith(GRAPH_LAUNCH_CALLS))
    holds = fitting_names(core, lambda name: "GraphLaunch" in name)
    above = c.parent[calls]
    # A launch of the runtime may hold the one of the driver, which is the same replay.
    inner = (above >= 0) & (c.kind[above] == Kind.RuntimeCall) & holds[c.name[above]]
    calls = calls[~inner]
    low, high = np.searchsorted(core.gpu_rows, calls), np.searchsorted(core.gpu_rows, c.last[calls], "right")
    _, graph = distinct_classes(subtree_classes(core, kernel_names=True)[calls])
    group, first = group_by(c.name[calls], graph, high - low)
    launches, ns = np.bincount(group, minlength=len(first)), sum_by_group(group, core.gpu_sum_ns[calls], len(first))
    replayed = [_replayed(core, low[group == n], high[group == n]) for n in range(len(first))]
    columns: dict[str, Cells] = {
        "call": [core.names[code] for code in c.name[calls[first]].tolist()],
        "launches": launches,
        "gpu_events": (high - low)[first],
        "names": np.array([names for names, _, _ in replayed], np.int64),
        "gpu_time_us": ns / 1e3,
        "mean_gpu_time_us": ns / 1e3 / np.maximum(launches, 1),
        "percent": percent(ns, int(c.dur_ns[w.gpu_rows].sum())),
        "longest": [longest for _, longest, _ in replayed],
        "longest_time_us": known(np.array([time / 1e3 for _, _, time in replayed])),
        "uid": np.array([c.uid[calls[group == n]].min() for n in range(len(first))], np.int64),
    }
    return most_time_first(GRAPH_LAUNCHES, columns, ["uid"], "Launches of graphs", w)


def _replayed(core: Core, low: np.ndarray, high: np.ndarray) -> tuple[int, str | None, float]:
    """Of the GPU events of some calls the number of names, the one with the most time, and its time in ns."""
    spans = [core.gpu_rows[begin:end] for begin, end in zip(low.tolist(), high.tolist(), strict=True)]
    gpu = np.concatenate(spans)
    if not len(gpu):
        return 0, None, np.nan
    group, first = group_by(core.columns.name[gpu])
    ns = sum_by_group(group, core.columns.dur_ns[gpu], len(first)).tolist()
    names = [core.names[code] for code in core.columns.name[gpu[first]].tolist()]
    time, longest = min((-time, name) for time, name in zip(ns, names, strict=True))
    return len(names), longest, -time


CATEGORY_SHARES = TableSchema(
    "category_shares",
    "What kinds of kernels the GPU time goes to.",
    {
        "category": Column.key("kind of kernel, by its name and op; Memcpy and Memset for copies and fills"),
        "names": DIFFERENT_NAMES,
        "count": GPU_EVENTS,
        "gpu_time_us": replace(GPU_TIME, compared="main"),
        "mean_time_us": MEAN_TIME,
        "min_us": Column("least duration", "us"),
        "median_us": Column("median of their durations", "us"),
        "max_us": Column("greatest duration", "us"),
        "percent": PERCENT,
    },
    counts="kernel",
)

KERNELS_BY_TILE = TableSchema(
    "kernels_by_tile",
    "How kernels are tiled, as their names say.",
    {
        "operation": Column.key("what is computed, as the name says"),
        "family": Column.key("whose naming it is"),
        "dtype": Column.key("type of the first operand's elements"),
        **{
            f"tile_{axis}": Column.key(f"size of a thread block's tile along {axis.upper()}", cells="number")
            for axis in "mnk"
        },
        "names": DIFFERENT_NAMES,
        "count": Column.count("number of kernels"),
        "gpu_time_us": GPU_TIME,
        "mean_time_us": MEAN_TIME,
        "percent": PERCENT,
    },
)


_TILE = ("operation", "family", "dtype", "tile_m", "tile_n", "tile_k")


def category_shares(g: Core | Window) -> Table:
    """GPU time by category of kernel, the greatest first; copies and fills have separate rows."""
    w = window_of(g)
    c, gpu = w.core.columns, w.gpu_rows
    labels, kind = gpu_categories(w)
    group, first = group_by(c.name[gpu], c.kind[gpu], kind[gpu])
    categories = [
        labels[kind[row]] if c.kind[row] == Kind.Kernel else Kind(int(c.kind[row])).name for row in gpu[first].tolist()
    ]
    code = text_codes(categories)
    _, place = group_by(code)
    each = Groups(code[group], c.dur_ns[gpu], len(place))
    columns = {
        "category": [categories[i] for i in place.tolist()],
        "names": np.bincount(code, minlength=len(place)),
        **gpu_time_columns(w, gpu, code[group], len(place)),
        "min_us": each.min / 1e3,
        "median_us": each.median / 1e3,
        "max_us": each.max / 1e3,
    }
    return most_time_first(CATEGORY_SHARES, columns, ["category"], "GPU time by kind of kernel", w)


def kernels_by_tile(
    g: Core | Window, dtype: str | None = None, tile_m: int | None = None, tile_n: int | None = None
) -> Table:
    """Kernels by the tile and type in their names, the greatest time first.

    Args:
        dtype: only those whose first operand is of this type, such as bf16.
        tile_m, tile_n: only those with this size of tile.
    """
    w = window_of(g)
    c, kernels = w.core.columns, w.rows_of_kind(Kind.Kernel)
    group, first = group_by(c.name[kernels])
    found = [properties(w.core.names[code]) for code in c.name[kernels[first]].tolist()]
    asked = {
        name: value for name, value in (("dtype", dtype), ("tile_m", tile_m), ("tile_n", tile_n)) if value is not None
    }
    fits = np.array(
        [("dtype" in one or "tile_m" in one) and all(one.get(k) == v for k, v in asked.items()) for one in found], bool
    )
    tiles = [tuple(one.get(name) for name in _TILE) for one in found]
    kept = np.flatnonzero(fits)
    code = text_codes([tiles[i] for i in kept.tolist()])
    _, place = group_by(code)
    of_name = np.full(len(found) + 1, -1)
    of_name[kept] = code
    of_kernel = of_name[group]
    columns: dict[str, Cells] = {
        name: [tiles[i][position] for i in kept[place].tolist()] for position, name in enumerate(_TILE)
    }
    columns["names"] = np.bincount(code, minlength=len(place))
    columns |= gpu_time_columns(w, kernels[of_kernel >= 0], of_kernel[of_kernel >= 0], len(place))
    order = ["family", "operation", "dtype", "tile_m", "tile_n", "tile_k"]
    table = most_time_first(KERNELS_BY_TILE, columns, order, "Kernels by tile and type", w)
    others = kernels[of_kernel < 0]
    if len(others):
        share = 100 * int(c.dur_ns[others].sum()) / int(c.dur_ns[w.gpu_rows].sum() or 1)
        what = "are others than asked for, or have" if asked else "have"
        table.notes = [
            *table.notes, f"{len(others):,} more kernels, {share:.1f} % of the GPU time, {what} neither in their names"
        ]  # fmt: skip
    return table


COPIES = TableSchema(
    "copies",
    "What is copied and filled, in which direction, and how fast.",
    {
        "direction": Column.key("H is the host, D a device, P another device; fill for fills, else unknown"),
        "name": Column.key("name of the copies, which also names the kind of memory"),
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
    gpu = copies_of(w)
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
        "bytes": [
            one if is_recorded else None for one, is_recorded in zip(moved.tolist(), recorded.tolist(), strict=True)
        ],
        "gpu_time_us": times["gpu_time_us"],
        "gb_per_s": rate,
        "percent": times["percent"],
    }
    return most_time_first(COPIES, columns, ["name", "size_class"], "Copies and fills", w)
