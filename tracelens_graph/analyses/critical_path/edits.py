"""What a rank answers to edits: how its parts of collectives follow from one another with the times that these leave.

Each edit gives edges of the rank another weight; its name is looked for on all ranks, and may be on some of them only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.causes import NO_CAUSE, Causes
from tracelens_graph.analyses.critical_path.lanes import lanes
from tracelens_graph.analyses.critical_path.meant import Places, meant_by, names_of
from tracelens_graph.analyses.critical_path.points import Edge
from tracelens_graph.analyses.critical_path.rank_answers import Given, kept_rank, last_ends, own_causes, reach_of
from tracelens_graph.analyses.critical_path.repair import Repair
from tracelens_graph.analyses.critical_path.rerun import NEVER, Latency, Reach, weights
from tracelens_graph.analyses.critical_path.transfer_latency import latencies_of
from tracelens_graph.analyses.critical_path.walk import shortest_equal
from tracelens_graph.graph.arrays import fitting, positions_by
from tracelens_graph.graph.collective_kinds import UNKNOWN, kind_of
from tracelens_graph.graph.collectives import Collective, collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.deferred import Reader
from tracelens_graph.graph.intervals import length_before, merge
from tracelens_graph.graph.traversals import host_rows
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Ns, Rows

BOUNDS: tuple[Latency, ...] = ("least", "usual", "most")


Rings = Mapping[int, tuple[float, bool]]
"""Place of a collective that a changed link bounds -> how many times as fast it moves data then, and whether that is
sure."""


class Looked(NamedTuple):
    """A name that was looked for by an edit: how often it was there, and else which names are."""

    edit: str
    name: str
    times: int
    known: Sequence[str]


class Edited(NamedTuple):
    """What a rank answers to edits.

    Attributes:
        notes: what a reader must know.
        looked: names that were looked for.
        edges: how many durations change.
        reach: how it depends on others.
    """

    notes: list[str]
    looked: list[Looked]
    edges: int
    reach: Reach


class Asked(NamedTuple):
    """What a rank is asked.

    Attributes:
        given: what it must know of the others.
        edits: arguments of `what_if`.
        places: where each rank is.
        repair: what it takes otherwise where it is repaired.
        rings: what changed links bound.
    """

    given: Given
    edits: Mapping[str, Any]
    places: Places
    repair: Repair | None
    rings: Rings


def edited(rank: Reader, asked: Asked) -> Edited:
    """The answer of a rank to edits."""
    kept = rank.once(kept_rank)
    causes = own_causes(kept, asked.given)
    changes = _Changes(causes, rank.core, asked.places)
    changes.make(asked.edits, asked.rings)
    if asked.repair is not None:
        changes.repair(asked.repair)
    weight: dict[str, Ns] = {bound: changes.weights(bound) for bound in BOUNDS}
    reach = reach_of(causes, kept, asked.given, weight, last_ends(causes, kept))
    return Edited(changes.notes, changes.looked, len(changes.edges), reach)


class _Changes:
    """Edges of a rank with new weights, as they are collected."""

    def __init__(self, causes: Causes, core: Core, places: Places) -> None:
        self._causes, self._core, self._places = causes, core, places
        self._gap = causes.time[causes.after] - causes.time[causes.before]
        self._factor = np.ones(len(self._gap))
        self._gone, self._earlier = np.zeros((2, len(self._gap)), np.int64)
        self._fixed: dict[Latency, Ns] = {bound: np.zeros(len(self._gap), np.int64) for bound in BOUNDS}
        self._repaired: list[tuple[Rows, Mapping[Latency, Ns]]] = []
        self.notes: list[str] = []
        self.looked: list[Looked] = []

    def make(self, edits: Mapping[str, Any], rings: Rings) -> None:
        """Make the changes of the arguments of `what_if`; see `Asked`."""
        if (collectives := edits["collectives"]) is not None:
            self.speed_up_collectives(collectives)
        if (bandwidth := edits["bandwidth"]) is not None:
            self.speed_up_links(bandwidth, rings)
        for edit, change in (("ops", self.speed_up_op), ("scale", self.scale_kernels)):
            for name, factor in (edits[edit] or {}).items():
                change(name, factor)
        for edit, change_all in (("remove", self.remove), ("overlap", self.overlap)):
            if edits[edit] is not None:
                change_all(edits[edit])

    def repair(self, repair: Repair) -> None:
        """Give what is late the times of the other ranks."""
        for place, lane in lanes(self._causes, self._core).items():
            if place in repair:
                at, weight = repair[place]
                self._repaired.append((lane.edge[at], weight))

    def _look(self, edit: str, name: str, count: int, known: Iterable[str] = ()) -> None:
        self.looked.append(Looked(edit, name, count, [] if count else sorted(set(known))))

    @property
    def edges(self) -> Rows:
        """The edges that are changed."""
        changed = (self._factor != 1) | (self._gone > 0) | (self._earlier > 0)
        for edge, weight in self._repaired:
            changed[edge[weight["usual"] != self._gap[edge]]] = True
        return np.flatnonzero(changed)

    def weights(self, bound: Latency) -> Ns:
        """Weights of all edges with the changes."""
        weight = weights(self._causes, bound)
        for edge, repaired in self._repaired:
            weight[edge] = repaired[bound]
        scaled = np.flatnonzero(self._factor != 1)
        fixed = np.minimum(self._fixed[bound][scaled], weight[scaled])
        weight[scaled] = fixed + np.rint((weight[scaled] - fixed) / self._factor[scaled]).astype(np.int64)
        left = np.maximum(weight - self._gone, 0)
        # What nobody waits for any more is no cause: it lies before all others.
        return np.where(self._gone >= NO_CAUSE, -NO_CAUSE, np.where(self._gone > 0, left, weight)) - self._earlier

    def speed_up_collectives(self, factors: Mapping[str, float]) -> None:
        self._speed_up(
            factors,
            lambda kind, one: not kind or kind == one.kind or kind_of(kind) == kind_of(one.kind) != UNKNOWN,
            lambda one: (one.kind,),
        )

    def speed_up_links(self, factors: Mapping[str, float], rings: Rings) -> None:
        """Let what is not latency take less."""
        meant = {name: meant_by(name, self._places) for name in factors}
        self._speed_up(factors, lambda name, one: meant[name](one), names_of, rings)

    def _speed_up(
        self,
        factors: Mapping[str, float],
        is_meant: Callable[[str, Collective], bool],
        names: Callable[[Collective], Iterable[str]],
        rings: Rings | None = None,
    ) -> None:
        """Let transfers of some collectives take less; `names` are what each is called.

        With `rings` their latency stays, and what is in these takes less, too; or it does not, where that is not sure.
        """
        causes, held = self._causes, collectives_of(self._core)
        edges = np.flatnonzero(np.isin(causes.kind, (Edge.transfer, Edge.run)))
        place = np.array([held.of_row.get(row, -1) for row in causes.row[causes.after[edges]].tolist()], np.int64)
        edges, place = edges[place >= 0], place[place >= 0]
        own = [held.nodes[at] for at in place.tolist()]
        waited = np.zeros(len(edges), np.int64)
        alone = np.flatnonzero(~causes.is_whole[causes.after[edges]])
        if len(alone):  # what it takes longer than the shortest equal one is waiting
            shortest = shortest_equal(self._core, causes.row[causes.after[edges[alone]]])
            waited[alone] = np.maximum(self._gap[edges[alone]] - shortest, 0)
        latency = {} if rings is None else latencies_of(own, self._gap[edges] - waited)
        ring, is_sure = np.array([(rings or {}).get(at, (1.0, True)) for at in place.tolist()]).reshape(-1, 2).T
        self._factor[edges] *= ring
        if rings:
            self.notes.append(_OF_RINGS)
        for bound, fixed in self._fixed.items():
            stays = ring > 1 if bound == "most" else (bound == "least") & (ring < 1)
            fixed[edges] = np.where(stays & (is_sure == 0), -NEVER, waited + latency.get(bound, 0))
        known = [name for one in own for name in names(one)]
        for kind, factor in factors.items():
            fits = np.array([is_meant(kind, one) for one in own], bool)
            self._factor[edges[fits]] *= factor
            self._look("collectives", kind, int(fits.sum()), known)
        if not causes.is_whole[causes.after[self.edges]].all():
            self.notes.append(
                "of collectives of which ranks are not in the set, what they take longer than their shortest equal "
                "counts as waiting, which stays"
            )

    def speed_up_op(self, op: str, factor: float) -> None:
        edges, rows = self._runs()
        below = _below(self._core, op)[rows]
        self._factor[edges[below]] *= factor
        c = self._core.columns
        known = [] if below.any() else np.unique(c.name[c.kind == Kind.Op]).tolist()
        self._look("ops", op, int(below.sum()), (self._core.names[code] for code in known))

    def scale_kernels(self, name: str, factor: float) -> None:
        edges, rows = self._runs()
        code = self._core.columns.name[rows]
        meant = fitting(self._core.names, code, name_filter(name))
        self._factor[edges[meant]] /= factor
        self._look("scale", name, int(meant.sum()), (self._core.names[one] for one in np.unique(code).tolist()))

    def _runs(self) -> tuple[Rows, Rows]:
        """The edges on which GPU work runs, and its rows."""
        edges = np.flatnonzero(self._causes.kind == Edge.run)
        return edges, self._causes.row[self._causes.after[edges]]

    def remove(self, name: str) -> None:
        """Take the time of functions of the host out of the edges of their threads."""
        causes, c = self._causes, self._core.columns
        edges = np.flatnonzero(np.isin(causes.kind, (Edge.host, Edge.call)))
        rows = host_rows(c)
        rows = rows[fitting(self._core.names, c.name[rows], name_filter(name))]
        shift = causes.shift_ns
        for point in (causes.after, causes.before):  # where another thread hands over, the time was spent there
            thread = c.thread[causes.row[point[edges]]]
            for code, spans in positions_by(c.thread[rows]):  # calls of one name may nest
                covered = merge(c.start_ns[rows[spans]], c.end_ns[rows[spans]])
                own = edges[(thread == code) & (self._gone[edges] == 0)]
                start, end = (causes.time[one[own]] - shift for one in (causes.before, causes.after))
                self._gone[own] = length_before(covered, end) - length_before(covered, start)
        self._look("remove", name, len(rows))

    def overlap(self, kind: str) -> None:
        """Let computation wait for no collectives of a kind.

        Waits for another stream are dropped, where something else is known to come before. What comes behind a
        collective on its own stream starts with it instead, so that it still waits for what is before that.
        """
        causes, held = self._causes, collectives_of(self._core)
        others = np.bincount(causes.after, minlength=len(causes.time))[causes.after] > 1
        waits = np.flatnonzero((causes.kind == Edge.stream) | ((causes.kind == Edge.event) & others))
        kinds, count = set(), 0
        for edge in waits.tolist():
            row = int(causes.row[causes.before[edge]])
            at = held.of_row.get(row, -1)
            if at < 0 or int(causes.row[causes.after[edge]]) in held.of_row:
                continue
            kinds.add(held.nodes[at].kind)
            if kind in ("all", held.nodes[at].kind):
                if causes.kind[edge] == Edge.stream:
                    self._earlier[edge] = self._core.columns.dur_ns[row]
                else:
                    self._gone[edge] = NO_CAUSE
                count += 1
        self._look("overlap", kind, count, kinds)


_OF_RINGS = "collectives of larger groups that are as slow as the slowest pair of their ranks count as bounded by it"


def name_filter(text: str) -> Callable[[str], bool]:
    """Whether a name has a text in it, in whatever case; one with `*` or `?` is a pattern for the whole name."""
    wanted = text.lower()
    if set(wanted) & set("*?"):
        return lambda name: fnmatchcase(name.lower(), wanted)
    return lambda name: wanted in name.lower()


def _below(core: Core, op: str) -> np.ndarray:
    """For every row whether it is, or is below, an op of a name."""
    c = core.columns
    named = np.array([name == op for name in core.names], bool)
    rows = np.flatnonzero((c.kind == Kind.Op) & named[c.name])
    change = np.zeros(len(c) + 1, np.int64)
    np.add.at(change, rows, 1)
    np.add.at(change, c.last[rows].astype(np.int64) + 1, -1)
    return np.cumsum(change)[:-1] > 0
