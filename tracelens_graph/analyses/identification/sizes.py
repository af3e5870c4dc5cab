"""Sizes of products that replayed kernels are, from the tiles in their names and their numbers of blocks.

A block makes a tile of the result, so that blocks times the tile's width are the columns, where the batch is known and
the depth is not split. The width of the model is what leads out of attention; what goes in has that depth, what comes
after a gate half of the gate's columns. The depth of what leads out of attention shows nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tracelens_graph.analyses.identification.layers import Place
from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.thread_blocks import thread_blocks
from tracelens_graph.utils.arrays import Rows

ArgumentSet = tuple[str, str, str, str]
"""Dims, types, strides and concrete inputs as JSON."""

_OF_WIDTH = ("qkv product", "gate/up product", "router product", "head product")
"""Products whose depth is the width of the model."""

_TYPES = {"bf16": "c10::BFloat16", "fp16": "c10::Half"}


def product_arguments(core: Core, rows: Rows, places: Sequence[Place], batch: int | None) -> Mapping[str, ArgumentSet]:
    """Role -> arguments of its product, of those whose sizes can be found.

    Args:
        rows: kernels of a pass.
        places: of each.
        batch: rows of the products; None where that is not known.
    """
    if not batch:
        return {}
    middle = max(place.layer for place in places) // 2
    found: dict[str, tuple[int, str]] = {}
    at = _at(places, middle)
    blocks = thread_blocks(core, rows[at])
    for place, row, count in zip([places[one] for one in at], rows[at].tolist(), blocks.tolist(), strict=True):
        parsed = parse_name(core.names[core.columns.name[row]])
        if parsed is None or not parsed.tile or not count or parsed.split_k or parsed.dtype not in _TYPES:
            continue
        down = -(-batch // parsed.tile[1])
        found[place.slot.role] = count // down * parsed.tile[0], _TYPES[parsed.dtype]
    width = found.get("out product", (0, ""))[0]
    if not width or width % 64 or found.get("down product", (width, ""))[0] != width:
        return {}
    sizes = {role: (width, *found[role]) for role in _OF_WIDTH if role in found}
    if "gate/up product" in found and "activation" in {places[one].slot.role for one in at}:
        sizes["down product"] = (found["gate/up product"][0] // 2, width, found["gate/up product"][1])
    return {role: _arguments(batch, *size) for role, size in sizes.items()}


def _at(places: Sequence[Place], layer: int) -> list[int]:
    """Positions of the kernels of a layer, and of the product behind all layers."""
    wanted = {(layer, 0), (-1, 0)}
    return [
        at for at, place in enumerate(places)
        if (place.layer, place.slot.part) in wanted and (place.layer >= 0 or place.slot.role == "head product")
    ]  # fmt: skip


def _arguments(rows: int, depth: int, columns: int, kind: str) -> ArgumentSet:
    dims = [[rows, depth], [depth, columns]]
    strides = [[depth, 1], [1, depth]]
    return json.dumps(dims), json.dumps([kind, kind]), json.dumps(strides), json.dumps(["", ""])
