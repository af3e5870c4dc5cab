"""Kernels and shapes: what kinds of kernels the GPU time goes to, how they are tiled, copies, graphs, signatures.

GPU time is the sum of the durations of GPU events.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.kernels.graph_launches import DIFFERENT_NAMES
from tracelens_graph.analyses.shared.columns import GPU_EVENTS, GPU_TIME, MEAN_TIME, PERCENT
from tracelens_graph.analyses.shared.gpu_work import gpu_time_columns, most_time_first
from tracelens_graph.analyses.shared.grouping import Cells, group_by, text_codes
from tracelens_graph.categories.kernel_names import properties
from tracelens_graph.categories.kernels import kernel_category
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

CATEGORY_SHARES = TableSchema(
    "category_shares",
    "What kinds of kernels the GPU time goes to.",
    {
        "category": Column.key("kind of kernel, by its name; Memcpy and Memset for copies and fills"),
        "names": DIFFERENT_NAMES,
        "count": GPU_EVENTS,
        "gpu_time_us": replace(GPU_TIME, compared="main"),
        "mean_time_us": MEAN_TIME,
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
    """GPU time by kind of kernel, the greatest first; copies and fills in rows of their own."""
    w = window_of(g)
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
        **gpu_time_columns(w, gpu, code[group], len(place)),
    }
    return most_time_first(CATEGORY_SHARES, columns, ["category"], "GPU time by kind of kernel", w)


def kernels_by_tile(
    g: Core | Window, dtype: str | None = None, tile_m: int | None = None, tile_n: int | None = None
) -> Table:
    """Kernels whose names tell a tile or a type, by what they tell, the greatest time first.

    Args:
        g: the graph, or a window of it.
        dtype: only those whose first operand is of this type, such as bf16.
        tile_m, tile_n: only those with this size of tile.
    """
    w = window_of(g)
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
    columns |= gpu_time_columns(w, kernels[of_kernel >= 0], of_kernel[of_kernel >= 0], len(place))
    return most_time_first(
        KERNELS_BY_TILE,
        columns,
        ["family", "operation", "dtype", "tile_m", "tile_n", "tile_k"],
        "Kernels by tile and type",
        w,
    )
