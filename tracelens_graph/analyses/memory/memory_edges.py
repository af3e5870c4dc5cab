"""Allocations as edges of a graph: the call that each was made in, its module, and its release."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.memory.blocks import blocks_of, whose_work
from tracelens_graph.analyses.memory.instants import NO_VALUE, Instants, instants_of
from tracelens_graph.analyses.places.modules import PASSES
from tracelens_graph.graph.context import Context, EdgeTexts, EventProperty
from tracelens_graph.graph.core import Core

Pairs = tuple[np.ndarray, np.ndarray]


def add_memory(context: Context, core: Core) -> None:
    """Add to the context of a graph what is known of its allocations and releases; modules have to be there already.

    ALLOCATED_IN leads from an allocation to the innermost call around it, IN_MODULE to the module whose work it is, and
    RELEASES to it from what ends it. Instants have their device (`on`), the address, and the totals of the allocator.
    """
    found = instants_of(core)
    if not len(found):
        return
    whose, blocks, rows = whose_work(core), blocks_of(core), found.rows
    allocations = np.flatnonzero(found.change > 0)
    inside = allocations[whose.call[allocations] >= 0]
    context.between_events["ALLOCATED_IN"] = rows[inside], whose.call[inside]
    ended = blocks.end >= 0
    context.between_events["RELEASES"] = rows[blocks.end[ended]], rows[blocks.begin[ended]]
    inside = allocations[whose.module[allocations] >= 0]
    _more(context, "IN_MODULE", (rows[inside], whose.module[inside]), whose.passes[inside])
    _properties(context, found)
    _property(context, "pass", rows[allocations], whose.passes[allocations], PASSES)


def _more(context: Context, name: str, pairs: Pairs, codes: np.ndarray) -> None:
    """Further edges of a type that has a text for each."""
    (source, target), texts = context.between_events[name], context.of_edges[name]
    context.between_events[name] = np.concatenate((source, pairs[0])), np.concatenate((target, pairs[1]))
    context.of_edges[name] = EdgeTexts(texts.name, np.concatenate((texts.codes, codes)), texts.texts)


def _properties(context: Context, found: Instants) -> None:
    _property(context, "on", found.rows, found.device, found.devices)
    for name, values in (("address", found.address), ("allocated", found.allocated), ("reserved", found.reserved)):
        known = values != NO_VALUE
        _property(context, name, found.rows[known], values[known])


def _property(
    context: Context, name: str, rows: np.ndarray, values: np.ndarray, texts: tuple[str, ...] | None = None
) -> None:
    order = np.argsort(rows)
    context.of_events[name] = EventProperty(rows[order], values[order], texts)
