"""Kernels and shapes: what kinds of kernels the GPU time goes to, how they are tiled, copies, graphs, signatures.

Functions take a graph or a window of it, and with `step` the number of one `ProfilerStep` to look at; they raise
AnalysisError where the trace has no such step. GPU time is the sum of the durations of GPU events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tracelens_graph.analyses.gpu_class import MEMCPY, gpu_classes
from tracelens_graph.analyses.grouping import Cells, group_by, picked, text_codes
from tracelens_graph.analyses.launchers import NO_LAUNCH
from tracelens_graph.analyses.questions.gpu_work import COUNT, GPU_TIME, MEAN_TIME, PERCENT, known, percent
from tracelens_graph.analyses.questions.shapes_signatures import modules_of_signature, op_signatures
from tracelens_graph.categories.kernel_names import properties
from tracelens_graph.categories.kernels import kernel_category
from tracelens_graph.graph.classes import distinct as distinct_classes
from tracelens_graph.graph.classes import subtree_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import launcher
from tracelens_graph.graph.window import Window, narrow, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.schema.tables import SHORT_KERNELS_SUMMARY
from tracelens_graph.table import Column, Table

_TILE = ("operation", "family", "dtype", "tile_m", "tile_n", "tile_k")
_SHORT = tuple(f"Short Kernel duration (µs) {which}" for which in ("sum", "mean", "percent of total time"))
_NAMES = Column("number of different names")

ABOUT: Mapping[str, Mapping[str, Column]] = {
    "category_shares": {
        "category": Column("kind of kernel, by its name; Memcpy and Memset for copies and fills"),
        "names": _NAMES,
        "count": COUNT,
        "gpu_time_us": GPU_TIME,
        "mean_time_us": MEAN_TIME,
        "percent": PERCENT,
    },
    "kernels_by_tile": {
        "operation": Column("what is computed, as the name says"),
        "family": Column("whose naming it is"),
        "dtype": Column("type of the first operand's elements"),
        **{f"tile_{axis}": Column(f"size of a thread block's tile along {axis.upper()}") for axis in "mnk"},
        "names": _NAMES,
        "count": Column("number of kernels"),
        "gpu_time_us": GPU_TIME,
        "mean_time_us": MEAN_TIME,
        "percent": PERCENT,
    },
    "short_kernels": {
        name: SHORT_KERNELS_SUMMARY[name]
        for name in ("Parent cpu_op", "Kernel name", _SHORT[0], "Short Kernel count", *_SHORT[1:])
    },
    "copies": {
        "direction": Column("H is the host, D a device, P another device; fill for fills, else unknown"),
        "name": Column("name of the copies, which also tells the kind of memory"),
        "size_class": Column("size of a single copy; absent where it was not recorded"),
        "count": Column("number of copies"),
        "bytes": Column("their bytes", "B"),
        "gpu_time_us": GPU_TIME,
        "gb_per_s": Column("bytes per time", "GB/s"),
        "percent": PERCENT,
    },
    "graph_launches": {
        "call": Column("the runtime call"),
        "launches": Column("number of launches"),
        "gpu_events": Column("GPU events that one launch replays; 0 where the trace holds none of them"),
        "names": _NAMES,
        "gpu_time_us": Column("sum of their durations in all launches", "us"),
        "mean_gpu_time_us": Column("the same per launch", "us"),
        "percent": PERCENT,
        "longest": Column("name with the most time"),
        "longest_time_us": Column("its time in all launches", "us"),
        "uid": Column("the first of the launches"),
    },
}
"""Definitions of the columns of each table here."""

SIZES = (
    (4096, "below 4 KiB"),
    (65536, "4 KiB to 64 KiB"),
    (1 << 20, "64 KiB to 1 MiB"),
    (1 << 24, "1 MiB to 16 MiB"),
    (1 << 63, "16 MiB and more"),
)
"""Size from which on a copy is no longer of a class, and the class."""

DIRECTIONS = (
    ("HtoD", ("HtoD", "HOST_TO_DEVICE", "HostToDevice")),
    ("DtoH", ("DtoH", "DEVICE_TO_HOST", "DeviceToHost")),
    ("DtoD", ("DtoD", "DEVICE_TO_DEVICE", "DeviceToDevice")),
    ("HtoH", ("HtoH", "HOST_TO_HOST", "HostToHost")),
    ("PtoP", ("PtoP", "PeerToPeer")),
)
"""Direction of a copy, and words in its name that tell it; the first that fits counts."""

GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")
"""How names of calls that launch a graph begin."""


def category_shares(g: Core | Window, step: int | None = None) -> Table:
    """GPU time by kind of kernel, the greatest first; copies and fills in rows of their own."""
    w = narrow(window_of(g), step=step)
    c, gpu = w.core.columns, w.gpu_rows
    group, first = group_by(c.name[gpu], c.kind[gpu])
    categories = [
        kernel_category(w.core.names[c.name[row]]) if c.kind[row] == Kind.Kernel else Kind(int(c.kind[row])).name
        for row in gpu[first].tolist()
    ]
    code = text_codes(categories)
    _, place = group_by(code)
    columns = {
        "category": [categories[i] for i in place.tolist()],
        "names": np.bincount(code, minlength=len(place)),
        **_times(w, gpu, code[group], len(place)),
    }
    return _ordered("category_shares", columns, "GPU time by kind of kernel", w)


def kernels_by_tile(
    g: Core | Window,
    dtype: str | None = None,
    tile_m: int | None = None,
    tile_n: int | None = None,
    step: int | None = None,
) -> Table:
    """Kernels whose names tell a tile or a type, by what they tell, the greatest time first.

    Args:
        g: the graph, or a window of it.
        dtype: only those whose first operand is of this type, such as bf16.
        tile_m, tile_n: only those with this size of tile.
        step: n of ProfilerStep#n.
    """
    w = narrow(window_of(g), step=step)
    c, kernels = w.core.columns, w.rows_of_kind(Kind.Kernel)
    group, first = group_by(c.name[kernels])
    said = [properties(w.core.names[code]) for code in c.name[kernels[first]].tolist()]
    asked = {
        name: value for name, value in (("dtype", dtype), ("tile_m", tile_m), ("tile_n", tile_n)) if value is not None
    }
    fits = np.array(
        [("dtype" in one or "tile_m" in one) and all(one.get(k) == v for k, v in asked.items()) for one in said], bool
    )
    tiles = [tuple(one.get(name) for name in _TILE) for one in said]
    kept = np.flatnonzero(fits)
    code = text_codes([tiles[i] for i in kept.tolist()])
    _, place = group_by(code)
    of_name = np.full(len(said) + 1, -1)
    of_name[kept] = code
    of_kernel = of_name[group]
    columns: dict[str, Cells] = {
        name: [tiles[i][position] for i in kept[place].tolist()] for position, name in enumerate(_TILE)
    }
    columns["names"] = np.bincount(code, minlength=len(place))
    columns |= _times(w, kernels[of_kernel >= 0], of_kernel[of_kernel >= 0], len(place))
    return _ordered("kernels_by_tile", columns, "Kernels by tile and type", w)


def short_kernels(g: Core | Window, threshold_us: float = 10, step: int | None = None) -> Table:
    """Kernels shorter than a threshold by parent and name, as in the report, arguments not told apart.

    The parent is the op that a kernel is charged to, else the runtime call that launched it. Kernels only, without
    copies and fills.
    """
    w = narrow(window_of(g), step=step)
    core, c = w.core, w.core.columns
    kernels, gpu = w.rows_of_kind(Kind.Kernel), w.gpu_rows
    short = kernels[c.dur_ns[kernels] / 1e3 < threshold_us]
    owner = launcher(c, short)
    parents = [*core.names, NO_LAUNCH]
    parent = np.where(owner >= 0, c.name[owner], len(core.names))
    group, first = group_by(parent, c.name[short])
    count, ns = np.bincount(group, minlength=len(first)), sum_by_group(group, c.dur_ns[short], len(first))
    span = int(c.end_ns[gpu].max() - c.start_ns[gpu].min()) if len(gpu) else 0
    columns: dict[str, Cells] = {
        "Parent cpu_op": [parents[code] for code in parent[first].tolist()],
        "Kernel name": [core.names[code] for code in c.name[short[first]].tolist()],
        _SHORT[0]: ns / 1e3,
        "Short Kernel count": count,
        _SHORT[1]: ns / 1e3 / np.maximum(count, 1),
        _SHORT[2]: percent(ns, span),
    }
    return _ordered("short_kernels", columns, f"Kernels shorter than {threshold_us:g} us", w, _SHORT[0])


def copies(g: Core | Window, step: int | None = None) -> Table:
    """Copies and fills by name and size, the greatest time first.

    Kernels that are copies in disguise are among them; how many bytes they moved was not recorded.
    """
    w = narrow(window_of(g), step=step)
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
    times = _times(w, gpu, group, len(first))
    ns = sum_by_group(group, c.dur_ns[gpu], len(first))
    rate = np.divide(moved, ns, out=np.full(len(first), np.nan), where=recorded & (ns > 0))
    columns: dict[str, Cells] = {
        "direction": [
            "fill" if fill else _direction(name) for fill, name in zip(fills[first].tolist(), names, strict=True)
        ],
        "name": names,
        "size_class": [SIZES[code][1] if code >= 0 else None for code in size[first].tolist()],
        "count": times["count"],
        "bytes": [one if told else None for one, told in zip(moved.tolist(), recorded.tolist(), strict=True)],
        "gpu_time_us": times["gpu_time_us"],
        "gb_per_s": rate,
        "percent": times["percent"],
    }
    return _ordered("copies", columns, "Copies and fills", w)


def graph_launches(g: Core | Window, step: int | None = None) -> Table:
    """Launches of captured graphs by what they replay, the greatest time first.

    Launches that replay GPU events of the same names in the same order are one row.
    """
    w = narrow(window_of(g), step=step)
    core, c = w.core, w.core.columns
    calls = w.rows_of_kind(Kind.RuntimeCall)
    begins = np.array([name.startswith(GRAPH_LAUNCHES) for name in core.names], bool)
    holds = np.array(["GraphLaunch" in name for name in core.names], bool)
    above = c.parent[calls]
    inner = (above >= 0) & (c.kind[above] == Kind.RuntimeCall) & holds[c.name[above]]
    calls = calls[begins[c.name[calls]] & ~inner]
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
    return _ordered("graph_launches", columns, "Launches of graphs", w)


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


def _direction(name: str) -> str:
    return next((way for way, words in DIRECTIONS if any(word in name for word in words)), "unknown")


def _times(w: Window, rows: np.ndarray, group: np.ndarray, groups: int) -> dict[str, Cells]:
    """Number, time and share of GPU events by group."""
    duration = w.core.columns.dur_ns
    count, ns = np.bincount(group, minlength=groups), sum_by_group(group, duration[rows], groups)
    return {
        "count": count,
        "gpu_time_us": ns / 1e3,
        "mean_time_us": ns / 1e3 / np.maximum(count, 1),
        "percent": percent(ns, int(duration[w.gpu_rows].sum())),
    }


def _ordered(name: str, columns: Mapping[str, Cells], title: str, w: Window, by: str = "gpu_time_us") -> Table:
    """The table, rows with the most time first."""
    order = np.argsort(-np.asarray(columns[by]), kind="stable")
    return Table(name, {key: picked(cells, order) for key, cells in columns.items()}, ABOUT[name], w.titled(title))


QUESTIONS: Mapping[str, Callable[..., Table]] = {
    "category_shares": category_shares,
    "kernels_by_tile": kernels_by_tile,
    "short_kernels": short_kernels,
    "copies": copies,
    "graph_launches": graph_launches,
    "op_signatures": op_signatures,
    "modules_of_signature": modules_of_signature,
}
"""Name of a query -> its twin."""
