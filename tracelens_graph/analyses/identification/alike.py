"""What another trace of the same model knows: the calls that run each place of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.identification.kernels import all_passes, nameless
from tracelens_graph.analyses.identification.layers import Place, places
from tracelens_graph.captures.recording import arguments_of, calls_above, captured_calls
from tracelens_graph.errors import LinkError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.instances import CallTree
from tracelens_graph.graph.traversals import climb, nearest_above
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Mask, Rows

_SAME_MODEL = 0.5
"""Share of the places of a model that another trace has to have."""

Way = tuple[int, str, str]
"""Layer, block and role of a place."""


@dataclass(frozen=True, eq=False)
class KnownModel:
    """A model as another trace recorded it.

    Attributes:
        source: the trace.
        tree: modules, frames of the user and ops of one forward pass.
        calls: place -> positions in the tree of the calls whose kernels are there, in order of time.
    """

    source: str
    tree: CallTree
    calls: Mapping[Way, Sequence[int]]


def way_of(place: Place) -> Way:
    """What a place is looked up by."""
    return place.layer, place.slot.block, place.slot.role


def known_model(other: Core, wanted: Iterable[Place]) -> KnownModel:
    """The pass of another trace that has most of the wanted places.

    Args:
        other: a trace whose kernels have ops, or of a capture that recorded names of kernels.
        wanted: places of the trace that is to be explained.

    Raises:
        LinkError: no pass of it has layers with ops.
    """
    ways = {way_of(place) for place in wanted}
    found: list[tuple[int, Rows, Sequence[Place]]] = []
    alike = 0
    for rows, read, has_ops in _passes(other):
        known = {way_of(place) for place, has_op in zip(read, has_ops.tolist(), strict=True) if has_op}
        found += [(len(ways & known), rows, read)] if read else []
        alike = max(alike, len(ways & {way_of(place) for place in read}))
    shared, rows, places_ = max(found, key=lambda one: one[0], default=(-1, other.gpu_rows, []))
    if shared < _SAME_MODEL * len(ways):
        lacks = "no layers were found in it" if not found else "its layers are those of another model"
        if alike >= _SAME_MODEL * len(ways):
            lacks = "its layers are replays, which have no ops"
        raise LinkError(
            f"{other.info.source}: {lacks}, so it explains no kernels of another trace; --identify needs no other, and "
            "`ask identified_labels` of both none with ops"
        )
    tree, call = calls_above(other, rows, _begin(other, rows))
    calls: dict[Way, list[int]] = defaultdict(list)
    is_known = climb(tree.parent, call, tree.kind == Kind.Op) >= 0 if len(tree) else call >= 0
    for place, position, known in zip(places_, call.tolist(), is_known.tolist(), strict=True):
        if known and position not in calls[way_of(place)][-1:]:
            calls[way_of(place)].append(position)
    return KnownModel(other.info.source, tree, {way: positions for way, positions in calls.items() if positions})


def _passes(core: Core) -> Iterator[tuple[Rows, Sequence[Place], Mask]]:
    """The forward passes of a trace, and those that it captured.

    Of each the rows of kernels, or of captured calls, their places, and which have an op.
    """
    c, unknown = core.columns, nameless(core)
    for one in all_passes(core):
        yield one.rows, one.places, ~unknown[one.rows] & (c.owner[one.rows] >= 0)
    for rows in (capture.rows for capture in captured_calls(core)):
        kernels = [one.get("kernel") for one in arguments_of(core, rows)]
        if all(isinstance(one, str) for one in kernels):
            read = places([str(one) for one in kernels])
            yield rows[: len(read)], read, (nearest_above(c, rows, (Kind.Op,)) >= 0)[: len(read)]


def _begin(core: Core, rows: Rows) -> int:
    """When the outermost modules above some rows began; the frames around these are of the other program."""
    c = core.columns
    is_top = (c.kind == Kind.Module) & (climb(c.parent, c.parent, c.kind == Kind.Module) < 0)
    top = climb(c.parent, rows, is_top)
    return int(c.start_ns[top[top >= 0]].min(initial=np.iinfo(np.int64).max))
