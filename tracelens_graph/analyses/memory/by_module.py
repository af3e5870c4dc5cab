"""What modules allocate, and what becomes of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracelens_graph.analyses.memory.blocks import Blocks, blocks_of, whose_work
from tracelens_graph.analyses.memory.instants import instants_of
from tracelens_graph.analyses.memory.notes import notes_on, without_instants
from tracelens_graph.analyses.memory.peak import DEVICE, device_key
from tracelens_graph.analyses.places.modules import PASSES
from tracelens_graph.analyses.shared.grouping import Cells, text_codes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

ALLOCATIONS_BY_MODULE = TableSchema(
    "allocations_by_module",
    "What modules allocate, forward and backward, for how long, and what they leave.",
    {
        "device": DEVICE,
        "module_path": Column.key(
            "names of the modules around what allocates, joined by /; in brackets what is of no "
            "module, or of the optimizer"
        ),
        "pass": Column.key("forward, backward or optimizer"),
        "allocations": Column.count("number of allocations"),
        "allocated_bytes": Column.total("sum of their sizes", "B", drop_priority=-1),
        "released_bytes": Column.total(
            "part of it that is released in the recording, whoever releases it", "B", drop_priority=3
        ),
        "net_bytes": Column.total("the rest of it", "B", drop_priority=1),
        "peak_bytes": Column("most bytes of these that are in use at one moment", "B", Role.max, drop_priority=0),
        "unreleased": Column.count("number of those that are not released in the recording", drop_priority=3),
        "mean_lifetime_us": Column(
            "mean time from allocation to release of those that are released", "us", drop_priority=2
        ),
        "uid": Column.uid(
            "the call of the module, or the step of the optimizer, that allocates first; absent for none"
        ),
    },
)


def allocations_by_module(g: Core | Window) -> Table:
    """What modules allocate, forward and backward, for how long, and what they leave: the most bytes first.

    Each allocation counts once, for the innermost module that it belongs to; see `memory_peak`.

    Args:
        g: the graph, or a window of it: allocations in it count, whenever they are released.
    """
    w = window_of(g)
    core, c, title = w.core, w.core.columns, w.titled("Allocations by module")
    found, blocks = instants_of(core), blocks_of(core)
    inside = np.flatnonzero(w.holds(found.rows)[blocks.begin])
    if not len(inside):
        return without_instants(ALLOCATIONS_BY_MODULE, title, w)
    whose, begin, size = whose_work(core), blocks.begin[inside], blocks.bytes[inside]
    path = text_codes(whose.paths)[whose.path[begin]]
    group = text_codes(
        list(zip(found.device[begin].tolist(), path.tolist(), whose.passes[begin].tolist(), strict=True))
    )
    firsts = np.unique(group, return_index=True)[1]
    groups, released = len(firsts), blocks.is_released[inside]
    at = c.start_ns[found.rows]
    lifetime = np.where(released, at[blocks.end[inside]] - at[begin], 0)
    count, freed = np.bincount(group, minlength=groups), np.bincount(group[released], minlength=groups)
    allocated, given_back = sum_by_group(group, size, groups), sum_by_group(group, size * released, groups)
    lived, most = sum_by_group(group, lifetime, groups), _peaks(blocks, inside, group, groups, len(found))
    rows: list[tuple[Any, ...]] = []
    for place, first in enumerate(begin[firsts].tolist()):
        module, gone = int(whose.module[first]), int(freed[place])
        rows.append((
            found.devices[found.device[first]],
            whose.paths[whose.path[first]],
            PASSES[whose.passes[first]],
            int(count[place]),
            int(allocated[place]),
            int(given_back[place]),
            int(allocated[place] - given_back[place]),
            int(most[place]),
            int(count[place]) - gone,
            int(lived[place]) / 1e3 / gone if gone else None,
            int(c.uid[module]) if module >= 0 else None,
        ))  # fmt: skip
    rows.sort(key=lambda row: (device_key(row[0]), -row[4], row[1], row[2]))
    columns: dict[str, Cells] = {name: [row[i] for row in rows] for i, name in enumerate(ALLOCATIONS_BY_MODULE)}
    return ALLOCATIONS_BY_MODULE.table(columns, title, notes_on(w))


def _peaks(blocks: Blocks, inside: np.ndarray, group: np.ndarray, groups: int, behind: int) -> np.ndarray:
    """Most bytes of each group of blocks that are alive at one moment.

    Args:
        blocks: blocks of the trace.
        inside: which of them.
        group: the group of each of these; all of a group are of one device.
        groups: number of groups.
        behind: a position behind all.
    """
    end = np.where(blocks.end[inside] >= 0, blocks.end[inside], behind)
    position, change = np.concatenate((blocks.begin[inside], end)), np.tile(blocks.bytes[inside], 2)
    change[len(inside) :] *= -1
    of = np.tile(group, 2)
    order = np.lexsort((change, position, of))  # what ends where another begins, at one address, ends before
    total = np.cumsum(change[order])  # every block ends, so each group begins at zero
    most = np.zeros(groups, np.int64)
    np.maximum.at(most, of[order], total)
    return most
