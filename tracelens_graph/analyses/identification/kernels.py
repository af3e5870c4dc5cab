"""The forward passes that replayed kernels are of, and the places of the model that these were found to be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.identification.families import Family, family_of
from tracelens_graph.analyses.identification.layers import Place, places
from tracelens_graph.analyses.identification.segments import FEWEST
from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb, nearest_above
from tracelens_graph.schema import PYTHON_KINDS, Kind, OwnerRule
from tracelens_graph.utils.arrays import Mask, Rows

_KNOWN = (OwnerRule.hlo, OwnerRule.graph_capture, OwnerRule.pseudo_op)


@dataclass(frozen=True)
class Pass:
    """One forward pass.

    Attributes:
        rows: its GPU events that nothing but their names describes, in order of time.
        places: of each.
    """

    rows: Rows
    places: Sequence[Place]


def passes(core: Core) -> Sequence[Pass]:
    """The forward passes of replayed kernels in which layers were found, in order of time."""
    return core.once(_passes)


def all_passes(core: Core) -> Sequence[Pass]:
    """The forward passes of all kernels in which layers were found, those of ops included, in order of time."""
    return core.once(_all_passes)


def place_of(found: Iterable[Pass]) -> dict[int, Place]:
    """Row of a GPU event -> its place, of all in these passes."""
    return {row: place for one in found for row, place in zip(one.rows.tolist(), one.places, strict=True)}


def nothing_found(core: Core) -> str:
    """Why there are no passes, in words."""
    if not nameless(core).any():
        return "ops are known of all its GPU events"
    return f"fewer than {FEWEST} layers repeat in what it replays from graphs or runs without ops"


def nameless(core: Core) -> Mask:
    """For each row whether it is a GPU event of which no more than its name is known.

    These are replayed from graphs without a capture, or have no launch, or nothing of the host's code above it.
    """
    c, gpu = core.columns, core.gpu_rows
    launch = nearest_above(c, gpu, (Kind.RuntimeCall,))
    is_replay = fitting(core.names, c.name[launch], lambda name: normal_name(Kind.RuntimeCall, name) == "launch graph")
    found = np.zeros(len(c.kind), bool)
    is_known = nearest_above(c, launch, (Kind.Op, *PYTHON_KINDS)) >= 0
    found[gpu] = np.where(launch >= 0, is_replay | ~is_known, c.owner[gpu] < 0)
    found[gpu[np.isin(c.owner_rule[gpu], _KNOWN)]] = False
    return found


def _passes(core: Core) -> list[Pass]:
    return _read(core, nameless(core))


def _all_passes(core: Core) -> list[Pass]:
    wanted = np.zeros(len(core.columns.kind), bool)
    wanted[core.gpu_rows] = True
    return _read(core, wanted)


def _read(core: Core, wanted: Mask) -> list[Pass]:
    """Passes that hold wanted rows."""
    c = core.columns
    gpu = core.gpu_rows[np.lexsort((c.uid[core.gpu_rows], c.start_ns[core.gpu_rows]))]
    reader = _Reader(core)
    found = []
    # A graph is a pass of its own; one that is several graphs has layers together with what runs between these.
    # Eager ones without annotations part where tokens are embedded.
    for key in (_launch, _outermost_annotation, _embeddings_before):
        taken = np.zeros(len(wanted), bool)
        for rows in _by(key(core, gpu), gpu, wanted):
            if read := reader.places(rows):
                pick = wanted[rows]
                kept = read if pick.all() else [place for place, one in zip(read, pick.tolist(), strict=True) if one]
                found.append(Pass(rows[pick], kept))
                taken[rows] = True
        wanted, gpu = wanted & ~taken, gpu[~taken[gpu]]
    return sorted(found, key=lambda one: int(c.start_ns[one.rows[0]]))


def _by(key: Rows, rows: Rows, wanted: Mask) -> list[Rows]:
    """Rows by a key, those groups that hold wanted ones, each in the order of the rows."""
    order = np.argsort(key, kind="stable")
    groups = np.split(rows[order], np.flatnonzero(np.diff(key[order])) + 1)
    return [group for group in groups if wanted[group].any()]


def _launch(core: Core, rows: Rows) -> Rows:
    return nearest_above(core.columns, rows, (Kind.RuntimeCall,))


def _embeddings_before(core: Core, rows: Rows) -> Rows:
    """Of rows in order of time, how many lookups of embeddings began up to each."""
    names = core.columns.name[rows]
    return np.cumsum(fitting(core.names, names, lambda name: family_of(name) == Family.embedding))


def _outermost_annotation(core: Core, rows: Rows) -> Rows:
    found = core.annotation[rows].astype(np.int64)
    return climb(core.annotation, found, core.annotation < 0)


class _Reader:
    """Reads passes; replays of one graph are equal, name for name, so that each sequence is read once."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.known: dict[tuple[int, ...], list[Place]] = {}

    def places(self, rows: Rows) -> list[Place]:
        key = tuple(self.core.columns.name[rows].tolist())
        if key not in self.known:
            self.known[key] = places([self.core.names[code] for code in key])
        return self.known[key]
