"""How well the tiles of a product's kernel fit its sizes and the device: TraceLens's "dim efficiency".

A kernel makes the result in tiles, one or more thread blocks each, and the device runs as many blocks at a time as it
has units. Lost are what sticks out of the result, and what the last wave leaves empty: "tile" and "wave quantization"
in NVIDIA's Matrix Multiplication Background User's Guide. Blocks that share a unit are left out of account.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tracelens_graph.analyses.performance.perf_rows import CostedCalls
from tracelens_graph.analyses.shared.grouping import Cells
from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.categories.parsed_name import ParsedName

_BLAS = ("Tensile", "nvjet", "cuBLAS")
"""Families of names whose tiles are in BLAS's column-major sense: their M is the N of PyTorch's product. The tiles of
cuBLAS's own CUTLASS kernels are, too; the names of these begin with `cutlass_`."""

Figures = dict[str, float | int | None]

COLUMNS = ("mt_m", "mt_n", "depth_u", "num_tiles", "tile_eff", "wq_eff", "dim_eff")


def tile_columns(found: CostedCalls, units: int) -> dict[str, Cells]:
    """Columns `param: mt_m` and so on: one cell per call, None where no name of a kernel tells the tile.

    mt_m, mt_n and depth_u are the tile as the kernel's name says it, num_tiles the tiles of the result; tile_eff is the
    share of them that lies in the result, wq_eff the share of all waves that is filled, dim_eff the product of both.

    Args:
        found: the calls.
        units: multiprocessors or compute units of the device.
    """
    calls, core = found.calls, found.calls.core
    names = core.columns.name[calls.gpu].tolist()
    bounds = np.searchsorted(calls.of, np.arange(len(calls) + 1)).tolist()
    rows: list[Figures] = []
    for call, cost in enumerate(found.of_first(np.arange(len(calls)))):
        parsed = (_blas(core.names[name]) for name in names[bounds[call] : bounds[call + 1]])
        kernel = next(filter(None, parsed), None)
        m, n = (cost.params.get("M"), cost.params.get("N")) if cost else (None, None)
        if cost is None or kernel is None or m is None or n is None:
            rows.append({})
        else:
            rows.append(_figures(kernel, m, n, cost.params.get("B", 1), units))
    return {f"param: {name}": [row.get(name) for row in rows] for name in COLUMNS}


@cache
def _blas(name: str) -> ParsedName | None:
    parsed = parse_name(name)
    if parsed is None or parsed.tile is None:
        return None
    return parsed if parsed.family in _BLAS or name.startswith("cutlass_") else None


def _figures(kernel: ParsedName, m: int, n: int, batch: int, units: int) -> Figures:
    assert kernel.tile is not None
    tile_m, tile_n, *depth = kernel.tile
    across, down = -(-n // tile_m), -(-m // tile_n)
    tiles = batch * across * down
    inside = m * n / (across * tile_m * down * tile_n) if tiles else None
    filled = None
    if tiles and kernel.split_k is not True:  # else it is not known how many blocks share a tile
        blocks = tiles * (kernel.split_k or 1)
        filled = blocks / (-(-blocks // units) * units)
    both = inside * filled if inside is not None and filled is not None else None
    figures = (tile_m, tile_n, depth[0] if depth else None, tiles, inside, filled, both)
    return dict(zip(COLUMNS, figures, strict=True))
