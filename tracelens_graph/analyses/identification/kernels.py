"""The forward passes that replayed kernels are of, and the places of the model that these were found to be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.identification.families import Family, family_of
from tracelens_graph.analyses.identification.layers import Place, places
from tracelens_graph.analyses.identification.segments import FEWEST
from tracelens_graph.captures.matching import Vocabulary, pattern_of, reference_of, replayed
from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.classes import launches_graphs
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb, nearest_above
from tracelens_graph.schema import PYTHON_KINDS, Kind, OwnerRule
from tracelens_graph.utils.arrays import Codes, Mask, Rows

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


def replayed_passes(core: Core) -> Sequence[Pass]:
    """The same with the kernels that a capture describes."""
    return core.once(_replayed_passes)


def all_passes(core: Core) -> Sequence[Pass]:
    """The forward passes of all kernels in which layers were found, those of ops included, in order of time."""
    return core.once(_all_passes)


def place_of(found: Iterable[Pass]) -> dict[int, Place]:
    """Row of a GPU event -> its place, of all in these passes."""
    return {row: place for one in found for row, place in zip(one.rows.tolist(), one.places, strict=True)}


def nothing_found(core: Core) -> str:
    """Why there are no passes, in words."""
    if not len(core.gpu_rows):
        return "there are no GPU events"
    if not nameless(core).any():
        return "ops are known of all its GPU events"
    return f"fewer than {FEWEST} layers repeat in what it replays from graphs or runs without ops"


def nameless(core: Core) -> Mask:
    """For each row whether it is a GPU event whose name is all that is known of it.

    These are replayed from graphs without a capture, or have no launch, or nothing of the host's code above it.
    """
    c, gpu = core.columns, core.gpu_rows
    launch = nearest_above(c, gpu, (Kind.RuntimeCall,))
    is_replay = launches_graphs(core, launch)
    found = np.zeros(len(c.kind), bool)
    is_known = nearest_above(c, launch, (Kind.Op, *PYTHON_KINDS)) >= 0
    found[gpu] = np.where(launch >= 0, is_replay | ~is_known, c.owner[gpu] < 0)
    found[gpu[np.isin(c.owner_rule[gpu], _KNOWN)]] = False
    return found


def _passes(core: Core) -> list[Pass]:
    return _read(core, nameless(core))


def _replayed_passes(core: Core) -> Sequence[Pass]:
    if not core.info.replays:
        return passes(core)
    wanted, c, gpu = nameless(core).copy(), core.columns, core.gpu_rows
    wanted[gpu[launches_graphs(core, nearest_above(c, gpu, (Kind.RuntimeCall,)))]] = True
    return _read(core, wanted)


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
        groups = _by(key(core, gpu), gpu, wanted)
        for rows, read in zip(groups, reader.places(groups), strict=True):
            if read:
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
    """Reads passes: equal ones once, and those that lost kernels like the others of their graph, put together."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.words = Vocabulary(core)

    def places(self, groups: Sequence[Rows]) -> list[list[Place]]:
        """The places of the kernels of each group; [] where it has no layers."""
        names = self.core.columns.name
        keys = [names[rows].tobytes() for rows in groups]
        different = dict(zip(keys, groups, strict=True))
        known = {key: places([self.core.names[code] for code in names[rows]]) for key, rows in different.items()}
        left = {key: names[rows] for key, rows in different.items() if len(rows) >= _LEAST}
        for share in _ALIKE:
            for alike in _alike(left, share):
                if together := self._as_one(alike, different, known):
                    known |= together
                    left = {key: one for key, one in left.items() if key not in alike}
        for alike in _alike(left, _ALIKE[0]):
            # They are not of one graph, or lost too much to be put together: what they are alone is less sure.
            known |= {
                key: _less_sure(known[key], np.ones(len(known[key]), bool))
                for key in alike if known[key] and _sureness(known[key]) < _REGULAR
            }  # fmt: skip
        return [known[key] for key in keys]

    def _as_one(
        self, keys: Sequence[bytes], rows: Mapping[bytes, Rows], own: Mapping[bytes, list[Place]]
    ) -> dict[bytes, list[Place]]:
        """The places of passes of one graph by what they ran together; {} if they are not of one graph."""
        patterns = [pattern_of(self.core, rows[key], self.words) for key in keys]
        reference = reference_of(self.core, patterns, 1 << 62)
        whole = places(reference.names)
        read = [(_sureness(own[key]), key, pattern) for key, pattern in zip(keys, patterns, strict=True) if own[key]]
        if not read or not whole or len(reference) * _LEAST_OF_ALL > max(len(one.rows) for one in patterns):
            return {}
        sure, key, pattern = max(read, key=lambda one: one[0])
        labels = [whole[at].label for at in replayed(pattern, reference)[0].tolist()]
        agree = sum(place.label == label for place, label in zip(own[key], labels, strict=True))
        if agree < _AGREE * len(labels) or _sureness(whole) < sure - _LESS_SURE:
            return {}
        found = {}
        for key, pattern in zip(keys, patterns, strict=True):
            at, doubtful = replayed(pattern, reference)
            if np.count_nonzero(at >= 0) >= (_LEAST_OF_ALL if own[key] else 1) * len(at):
                placed = [whole[place] if place >= 0 else own[key][event] for event, place in enumerate(at.tolist())]
                found[key] = _less_sure(placed, doubtful | (at < 0))
        return found


def _less_sure(found: Sequence[Place], is_doubtful: Mask) -> list[Place]:
    return [
        place._replace(confidence=round(_DOUBTFUL * place.confidence, 3)) if doubt else place
        for place, doubt in zip(found, is_doubtful.tolist(), strict=True)
    ]


_LEAST = 4 * FEWEST
"""Kernels that a pass must have to be read together with others."""

_ALIKE = (0.8, 0.9, 0.97)
"""Shares of their kernels that passes of one graph have in common; larger ones where those of several are alike."""

_LEAST_OF_ALL = 0.9
"""Share of what passes ran together that the longest of them has, and share of its kernels that each has there."""

_AGREE = 0.95
"""Share of the kernels of the surest pass whose places are as it alone shows them."""

_LESS_SURE = 0.05
"""How much less sure the reading of passes that were put together may be than the best of theirs."""

_REGULAR = 0.92
"""Confidence of a pass, from which on its layers are alike."""

_DOUBTFUL = 0.6
"""Share of its confidence that a kernel keeps whose place lies open, as those beside it were lost."""


def _sureness(found: Sequence[Place]) -> float:
    return sum(place.confidence for place in found) / len(found)


def _alike(passes_: Mapping[bytes, Codes], share: float) -> list[list[bytes]]:
    """Keys of different passes that have a share of their kernels in common, however ordered: several in each list."""
    groups: list[tuple[Counter[int], list[bytes]]] = []
    for key, names in sorted(passes_.items(), key=lambda one: -len(one[1])):
        counts = Counter(names.tolist())
        common = [((counts & most).total() / most.total(), keys) for most, keys in groups[-_GRAPHS:]]
        shared, own = max(common, key=lambda one: one[0], default=(0.0, []))
        if shared >= share:
            own.append(key)
        else:
            groups.append((counts, [key]))
    return [keys for _, keys in groups if len(keys) > 1]


_GRAPHS = 64
"""Graphs with which a pass is compared."""
