"""The replayed kernels of a trace, pass by pass, and the places of the model that they were found to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.identification.layers import Place, places
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import OwnerRule
from tracelens_graph.utils.arrays import Rows

_UNOWNED = (OwnerRule.no_op, OwnerRule.unlinked)


@dataclass(frozen=True)
class Pass:
    """One forward pass: the kernels of a graph launch, in order of time.

    Attributes:
        launch: row of the launch; -1 where kernels have none.
        rows: of its GPU events.
        places: of each; empty where no layers were found.
    """

    launch: int
    rows: Rows
    places: Sequence[Place]


def passes(core: Core) -> Sequence[Pass]:
    """The forward passes among kernels that no op is charged with, in order of time."""
    return core.once(_passes)


def place_of(core: Core) -> Mapping[int, Place]:
    """Row of a GPU event -> its place, of all that were identified."""
    return {row: place for one in passes(core) for row, place in zip(one.rows.tolist(), one.places, strict=False)}


def _passes(core: Core) -> list[Pass]:
    c = core.columns
    rows = core.gpu_rows[np.isin(c.owner_rule[core.gpu_rows], _UNOWNED)]
    rows = rows[np.lexsort((c.uid[rows], c.start_ns[rows]))]
    launch = c.parent[rows]
    first = dict.fromkeys(launch.tolist())
    found = []
    known: dict[tuple[int, ...], list[Place]] = {}
    for one in first:
        of = rows[launch == one]
        # Replays of one graph are equal, name for name, so the grammar reads the sequence once.
        key = tuple(c.name[of].tolist())
        if key not in known:
            known[key] = places([core.names[i] for i in key])
        found.append(Pass(one, of, known[key]))
    return found
