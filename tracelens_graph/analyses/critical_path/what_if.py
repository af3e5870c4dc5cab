"""How long a step would be if something in it took another time.

The points of all ranks are run again, forward in time, with new weights on what is changed; the old path with new
weights would be wrong, because another one may become the longest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.critical_path import CriticalPath, causes_of, critical_path, steps_of
from tracelens_graph.analyses.critical_path.meant import meant_by, names_of
from tracelens_graph.analyses.critical_path.path_nodes import rank_of
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.analyses.critical_path.rank_answers import Given, kept_rank, own_causes, reach_of
from tracelens_graph.analyses.critical_path.reduced import ReducedCauses
from tracelens_graph.analyses.critical_path.rerun import (
    NO_CAUSE,
    Latency,
    Reach,
    Repair,
    incomplete_ranks,
    repaired,
    replayed,
    weights,
    without_arrivals,
)
from tracelens_graph.analyses.critical_path.walk import shortest_equal
from tracelens_graph.analyses.ranks.links import LATENCY_BYTES
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.sizes import Messages
from tracelens_graph.analyses.stragglers.rank_work import pipelines
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import fitting, positions_by
from tracelens_graph.graph.collective_kinds import UNKNOWN, kind_of
from tracelens_graph.graph.collectives import Collective, collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import length_before, merge
from tracelens_graph.graph.trace_set import Reader, rank_called
from tracelens_graph.graph.traversals import host_rows
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Mask
from tracelens_graph.utils.suggest import hint

WHAT_IF = TableSchema(
    "what_if",
    "How long a step would be if something took another time.",
    {
        "change": Column.key("what is changed", "change"),
        "changed_durations": Column.count(
            "how many durations are changed, in all steps and on all ranks: of GPU work, of "
            "transfers of collectives, and for a repaired rank of its host time between two calls",
            "durations changed",
        ),
        "recorded_ms": Column("length of the path step, or of the recording, as recorded", "ms", heading="now ms"),
        "changed_ms": Column("length with the change", "ms", heading="then ms", figure="changed_ms"),
        "saved_ms": Column("what is gained", "ms", heading="saved ms", figure="saved_ms"),
        "saved_percent": Column("share of the length as recorded", "%", heading="saved %", figure="saved_percent"),
        "least_ms": Column("length if causes that did not bind are as fast as the fastest", "ms", heading="least ms"),
        "most_ms": Column("length if they are as slow as the slowest that bound", "ms", heading="most ms"),
        "begins_earlier_ms": Column(
            "how much sooner the path step begins with the change, since the step before ends "
            "sooner; negative for later, absent without a step",
            "ms",
        ),
    },
)


@dataclass(frozen=True)
class WhatIf:
    """Length of a step with a change.

    Attributes:
        path: the critical path as recorded.
        change: what is changed, in words.
        changed_durations: how many durations are changed, in all steps and on all ranks.
        changed_ns: length with the change.
        least_ns, most_ns: between which it lies. How fast a cause is that did not bind is not in a trace: with the
            change it may bind, and then it is as fast as the fastest of its kind, or as slow as the slowest.
        begins_earlier_ns: how much sooner the step begins: what is changed in the steps before moves their end, which
            is where a path step begins. None without a step.
        notes: what a reader must know.
    """

    path: CriticalPath
    change: str
    changed_durations: int
    changed_ns: int
    least_ns: int
    most_ns: int
    begins_earlier_ns: int | None = None
    notes: Sequence[str] = ()

    @property
    def saved_ns(self) -> int:
        """What the change gains; negative where it costs."""
        return self.path.length_ns - self.changed_ns

    @property
    def error_ns(self) -> int:
        """How far the length with the change may be off, either way."""
        return max(self.changed_ns - self.least_ns, self.most_ns - self.changed_ns)

    def table(self) -> Table:
        """One row: the length as recorded, with the change, and the bounds of that."""
        length = self.path.length_ns
        record = {
            "change": self.change, "changed_durations": self.changed_durations, "recorded_ms": length / 1e6,
            "changed_ms": self.changed_ns / 1e6, "saved_ms": self.saved_ns / 1e6,
            "saved_percent": 100 * self.saved_ns / length if length else 0.0,
            "least_ms": self.least_ns / 1e6, "most_ms": self.most_ns / 1e6,
            "begins_earlier_ms": None if self.begins_earlier_ns is None else self.begins_earlier_ns / 1e6,
        }  # fmt: skip
        title = f"What if: {self.change} ({self.path.title[0].lower()}{self.path.title[1:]})"
        return WHAT_IF.of_records([record], title, [*self.notes, *self.path.notes])


def what_if(
    ranks: Any,
    step: int | None = None,
    *,
    collectives: float | Mapping[str, float] | None = None,
    ops: Mapping[str, float] | None = None,
    repair: int | str | Sequence[int | str] | None = None,
    scale: Mapping[str, float] | None = None,
    remove: str | None = None,
    bandwidth: Mapping[str, float] | None = None,
    overlap: str | None = None,
    matched: MatchedCollectives | None = None,
) -> WhatIf:
    """How long a step would be if something in it took another time.

    Args:
        ranks: a set of traces, a graph, or `Causes`; see `critical_path`. Or
            `ReducedCauses`, of ranks that are not held; a repair compares all ranks, so that they are held for it.
        step: the number in `ProfilerStep#n`; by default everything there is. What is changed is changed in all steps.
        collectives: how many times as fast collectives move data; or kind of collective -> how many times. Waiting for
            other ranks is not moving data.
        ops: name of an op -> how many times as fast the GPU work is that it and what it calls launch.
        repair: a rank, by its number or the name of its trace, or several: `stage2`, `host0` or the label of
            a host, or `all`; or a sequence of these.
            Host time and GPU work of theirs that take longer than on all other ranks take the median of these.
        scale: a part of the names of kernels, or a pattern with `*` -> how many times as long they take.
        remove: a part of the names of functions of the host: their time is gone; what they launch stays.
        bandwidth: name or description of a process group, a kind of collectives, `all`, or ranks of a link (`2->4`,
            `4-7`, `rank3`, `host1`; see `meant_by`) -> how many times as fast these move data.
        overlap: kind of collectives for which no computation waits.
        matched: which collectives of the ranks are one; by default they are matched.

    Raises:
        AnalysisError: no change is given, a factor is not above 0, or nothing is called so.
    """
    edits = {
        "collectives": collectives, "ops": ops, "scale": scale, "bandwidth": bandwidth, "remove": remove,
        "overlap": overlap, "repair": repair,
    }  # fmt: skip
    if all(one is None for one in edits.values()):
        raise AnalysisError(f"what_if: nothing is changed: give {', '.join(EDITS[:-1])} or {EDITS[-1]}")
    if isinstance(ranks, ReducedCauses):
        if repair is None:
            return _reduced(ranks, step, edits)
        ranks = ranks.held
    causes = ranks if isinstance(ranks, Causes) else causes_of(ranks, matched)
    changes = _Changes(causes)
    changes.make(edits)
    _check_known(changes.looked)
    if not changes.words:
        raise AnalysisError(f"what_if: nothing is changed: give {', '.join(EDITS[:-1])} or {EDITS[-1]}")
    path = critical_path(causes, step)
    recorded = _extent(causes, causes.time, step)
    extents: dict[str, tuple[int, int]] = {
        bound: _extent(causes, replayed(causes, changes.weights(bound)), step) for bound in _BOUNDS
    }
    if (unsure := changes.unsure()).any():
        weight = without_arrivals(causes, changes.weights("least"), unsure)
        extents["alone"] = _extent(
            causes, np.where(unsure[causes.ordinal], causes.time.min(), replayed(causes, weight)), step
        )
    return _found(path, changes.words, len(changes.edges), recorded, extents, changes.notes)


def _found(
    path: CriticalPath, words: Sequence[str], count: int, recorded: tuple[int, int],
    extents: Mapping[Any, tuple[int, int]], notes: Sequence[str],
) -> WhatIf:  # fmt: skip
    lengths = {
        bound: path.length_ns + (end - start) - (recorded[1] - recorded[0]) for bound, (start, end) in extents.items()
    }
    begins = None if path.step is None else recorded[0] - extents["usual"][0]
    return WhatIf(
        path,
        "; ".join(words),
        count,
        lengths["usual"],
        min(lengths.values()),
        max(lengths.values()),
        begins,
        list(dict.fromkeys(notes)),
    )


class _Edited(NamedTuple):
    """What a rank answers to edits.

    Attributes:
        words, notes, looked: as in `_Changes`.
        edges: how many durations change.
        reach: by bound how it depends on others.
    """

    words: list[str]
    notes: list[str]
    looked: list[_Looked]
    edges: int
    reach: Mapping[Latency, Reach]


def _edited(rank: Reader, given: tuple[Given, Mapping[str, Any], Mapping[int, int | None]]) -> _Edited:
    """The answer of a rank to edits."""
    kept = rank.once(kept_rank)
    causes = own_causes(kept, given[0], rank.core)
    changes = _Changes(causes, given[2])
    changes.make(given[1])
    reach: dict[Latency, Reach] = {}
    for bound in _BOUNDS:
        found = reach_of(causes, kept, given[0], changes.weights(bound))
        # Bounds seldom differ, so that most of what would be sent and held is one.
        reach[bound] = next((one for one in reach.values() if all(map(np.array_equal, one, found))), found)
    return _Edited(changes.words, changes.notes, changes.looked, len(changes.edges), reach)


def _reduced(ranks: ReducedCauses, step: int | None, edits: Mapping[str, Any]) -> WhatIf:
    """The same of ranks that are not held."""
    hosts = _hosts(ranks.matched)
    found: dict[int, _Edited] = dict(
        ranks.traces.ask(_edited, {at: (one, edits, hosts) for at, one in enumerate(ranks.bounded)})
    )
    looked: list[_Looked] = []
    for same in zip(*(found[at].looked for at in sorted(found)), strict=True):
        known = dict.fromkeys(name for one in same for name in one.known)
        looked.append(same[0]._replace(times=sum(one.times for one in same), known=sorted(known)))
    _check_known(looked)
    path = ranks.path(step)
    recorded = (0, ranks.last_ns) if step is None else ranks.steps.of(step)
    extents = {bound: ranks.extent({at: one.reach[bound] for at, one in found.items()}, step) for bound in _BOUNDS}
    notes = sorted(note for one in found.values() for note in one.notes)
    return _found(path, found[0].words, sum(one.edges for one in found.values()), recorded, extents, notes)


class _Looked(NamedTuple):
    """A name that was looked for by an edit: how often it was there, and else which names are."""

    edit: str
    name: str
    times: int
    known: Sequence[str]


_UNKNOWN = {
    "collectives": "collectives: no collective of the ranks is a {!r}",
    "ops": "ops: no GPU work is launched by an op {!r}",
    "scale": "scale: no kernel is called {!r}",
    "remove": "remove: no function of the host is called {!r}",
    "overlap": "overlap: no computation waits for a collective {!r}",
}


def _check_known(looked: Sequence[_Looked]) -> None:
    """Raise an error for a name that is nowhere.

    Raises:
        AnalysisError: there is one.
    """
    for edit, name, times, known in looked:
        if times:
            continue
        if edit == "collectives" and not name:
            raise AnalysisError("what_if: collectives: there are none")
        instead = "" if edit == "remove" else f"; {hint(name, known)}"
        raise AnalysisError(f"what_if: {_UNKNOWN[edit].format(name)}{instead}")


EDITS = ("collectives", "ops", "repair", "scale", "remove", "bandwidth", "overlap")
"""What can be changed."""

_BOUNDS: tuple[Latency, ...] = ("least", "usual", "most")


def _extent(causes: Causes, time: np.ndarray, step: int | None) -> tuple[int, int]:
    """When a step begins and ends with other times of the points; without a step 0, and when everything has ended."""
    if step is None:
        return 0, int(time[causes.role == Role.gpu_end].max())
    return steps_of(causes, time).of(step)


class _Changes:
    """Edges with new weights, as they are collected."""

    def __init__(self, causes: Causes, hosts: Mapping[int, int | None] | None = None) -> None:
        self._causes = causes
        self._hosts = _hosts(causes.matched) if hosts is None else hosts
        self._gap = causes.time[causes.after] - causes.time[causes.before]
        self._factor = np.ones(len(self._gap))
        self._fixed = np.zeros(len(self._gap), np.int64)
        self._gone = np.zeros(len(self._gap), np.int64)
        self._earlier = np.zeros(len(self._gap), np.int64)
        self._repairs: list[Repair] = []
        self._repaired: list[int] = []
        self.words: list[str] = []
        self.notes: list[str] = []
        self.looked: list[_Looked] = []

    def make(self, edits: Mapping[str, Any]) -> None:
        """Make the changes of the arguments of `what_if`."""
        if (collectives := edits["collectives"]) is not None:
            self.speed_up_collectives(collectives if isinstance(collectives, Mapping) else {"": collectives})
        for edit, change in (
            ("ops", self.speed_up_op), ("scale", self.scale_kernels), ("bandwidth", self.speed_up_group),
        ):  # fmt: skip
            for name, factor in (edits[edit] or {}).items():
                change(name, factor)
        for edit, change_all in (("remove", self.remove), ("overlap", self.overlap), ("repair", self.repair)):
            if edits[edit] is not None:
                change_all(edits[edit])

    def _look(self, edit: str, name: str, count: int, known: Iterable[str] = ()) -> None:
        self.looked.append(_Looked(edit, name, count, [] if count else sorted(set(known))))

    @property
    def edges(self) -> np.ndarray:
        """The edges that are changed."""
        changed = (self._factor != 1) | (self._gone > 0) | (self._earlier > 0)
        for one in self._repairs:
            changed[one.edge[one.weight["usual"] != self._gap[one.edge]]] = True
        return np.flatnonzero(changed)

    def weights(self, bound: Latency) -> np.ndarray:
        """Weights of all edges with the changes."""
        weight = weights(self._causes, bound)
        for one in self._repairs:
            weight[one.edge] = one.weight[bound]
        scaled = np.flatnonzero(self._factor != 1)
        fixed = self._fixed[scaled]
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
        for kind, factor in factors.items():
            self.words.append(f"{kind or 'collectives'} {factor:g} times as fast")

    def speed_up_group(self, group: str, factor: float) -> None:
        """Let large messages take less; the time of small ones is latency, whatever the bandwidth."""
        is_meant = meant_by(group, self._hosts)
        self._speed_up({group: factor}, lambda _, one: is_meant(one), names_of, LATENCY_BYTES)
        self.words.append(f"bandwidth of {group} {factor:g} times as high")

    def _speed_up(
        self,
        factors: Mapping[str, float],
        is_meant: Callable[[str, Collective], bool],
        names: Callable[[Collective], Iterable[str]],
        least_bytes: int = 0,
    ) -> None:
        """Let transfers of some collectives take less; those that are called by a name are meant by it.

        Those of fewer bytes are meant, too, and stay as they are.
        """
        causes = self._causes
        moves = np.flatnonzero(np.isin(causes.kind, (Edge.transfer, Edge.run)))
        point = causes.after[moves]
        kinds: set[str] = set()
        found = dict.fromkeys(factors, 0)
        are_small = False
        for ordinal, of in positions_by(causes.ordinal[point]):
            core = causes.core(ordinal)
            nodes, of_row = collectives_of(core).nodes, collectives_of(core).of_row
            place = np.array([of_row.get(row, -1) for row in causes.row[point[of]].tolist()], np.int64)
            of, place = of[place >= 0], place[place >= 0]
            own = [nodes[at] for at in place.tolist()]
            kinds.update(name for one in own for name in names(one))
            edges = moves[of]
            alone = np.flatnonzero(~causes.is_whole[point[of]])
            if len(alone):  # what it takes longer than the shortest equal one is waiting
                rows = causes.row[point[of[alone]]]
                self._fixed[edges[alone]] = np.maximum(self._gap[edges[alone]] - shortest_equal(core, rows), 0)
            is_small = Messages.of(own).size < least_bytes  # an unknown size is not
            for kind, factor in factors.items():
                fits = np.array([is_meant(kind, one) for one in own], bool)
                self._factor[edges[fits & ~is_small]] *= _checked(factor)
                are_small |= bool((fits & is_small).any())
                found[kind] += int(fits.sum())
        for kind, count in found.items():
            self._look("collectives", kind, count, sorted(kinds))
        if are_small:
            self.notes.insert(0, f"messages below {least_bytes >> 10} KiB are latency: they take as long as before")
        if not causes.is_whole[causes.after[self.edges]].all():
            self.notes.append(
                "of collectives of which ranks are not in the set, what they take longer than their shortest equal "
                "counts as waiting, which stays"
            )

    def speed_up_op(self, op: str, factor: float) -> None:
        causes = self._causes
        runs = np.flatnonzero(causes.kind == Edge.run)
        point = causes.after[runs]
        count = 0
        for ordinal, of in positions_by(causes.ordinal[point]):
            below = _below(causes.core(ordinal), op)[causes.row[point[of]]]
            self._factor[runs[of[below]]] *= _checked(factor)
            count += int(below.sum())
        self._look("ops", op, count, self._ops() if not count else ())
        self.words.append(f"GPU work of {op} {factor:g} times as fast")

    def scale_kernels(self, name: str, factor: float) -> None:
        fits = name_filter(name)
        runs = np.flatnonzero(self._causes.kind == Edge.run)
        count = 0
        known: set[str] = set()
        for ordinal, of in positions_by(self._causes.ordinal[self._causes.after[runs]]):
            core = self._causes.core(ordinal)
            code = core.columns.name[self._causes.row[self._causes.after[runs[of]]]]
            meant = fitting(core.names, code, fits)
            known.update(core.names[one] for one in np.unique(code).tolist())
            self._factor[runs[of[meant]]] /= _checked(factor)
            count += int(meant.sum())
        self._look("scale", name, count, sorted(known))
        self.words.append(f"kernels {name} {factor:g} times as long")

    def remove(self, name: str) -> None:
        """Take the time of functions of the host out of the edges of their threads."""
        causes, fits, count = self._causes, name_filter(name), 0
        hosts = np.flatnonzero(np.isin(causes.kind, (Edge.host, Edge.call)))
        for ordinal, of in positions_by(causes.ordinal[causes.after[hosts]]):
            core, c = causes.core(ordinal), causes.core(ordinal).columns
            rows = host_rows(c)
            rows = rows[fitting(core.names, c.name[rows], fits)]
            count += len(rows)
            shift = causes.on_clock(ordinal, 0)
            edges = hosts[of]
            for point in (causes.after, causes.before):  # where another thread hands over, the time was spent there
                thread = c.thread[causes.row[point[edges]]]
                for code, spans in positions_by(c.thread[rows]):  # calls of one name may nest
                    covered = merge(c.start_ns[rows[spans]], c.end_ns[rows[spans]])
                    own = edges[(thread == code) & (self._gone[edges] == 0)]
                    start, end = (causes.time[one[own]] - shift for one in (causes.before, causes.after))
                    self._gone[own] = length_before(covered, end) - length_before(covered, start)
        self._look("remove", name, count)
        self.words.append(f"{name} removed")

    def overlap(self, kind: str) -> None:
        """Let computation wait for no collectives of a kind.

        Waits for another stream are dropped, where something else is known to come before. What comes behind a
        collective on its own stream starts with it instead, so that it still waits for what is before that.
        """
        causes = self._causes
        others = np.bincount(causes.after, minlength=len(causes.time))[causes.after] > 1
        waits = np.flatnonzero((causes.kind == Edge.stream) | ((causes.kind == Edge.event) & others))
        kinds, count = set(), 0
        for ordinal, of in positions_by(causes.ordinal[causes.after[waits]]):
            core = causes.core(ordinal)
            held = collectives_of(core)
            for edge in waits[of].tolist():
                row = int(causes.row[causes.before[edge]])
                at = held.of_row.get(row, -1)
                if at < 0 or int(causes.row[causes.after[edge]]) in held.of_row:
                    continue
                kinds.add(held.nodes[at].kind)
                if kind in ("all", held.nodes[at].kind):
                    if causes.kind[edge] == Edge.stream:
                        self._earlier[edge] = core.columns.dur_ns[row]
                    else:
                        self._gone[edge] = NO_CAUSE
                    count += 1
        self._look("overlap", kind, count, sorted(kinds))
        self.words.append(f"no computation waits for {kind}")

    def repair(self, rank: int | str | Sequence[int | str]) -> None:
        causes = self._causes
        called = [rank] if isinstance(rank, int | str) else rank
        places = list(dict.fromkeys(place for one in called for place in self._ranks(one)))
        if causes.matched is not None and 2 * len(np.unique(causes.collective)) < len(causes.matched):
            raise AnalysisError(
                "what_if: repair: most collectives ran on the host, where waiting counts as host time, so what "
                "a repair saves is not known"
            )
        stage = pipelines(causes.matched)[1].tolist() if causes.matched is not None else ()
        repairs = [repaired(causes, place, places, stage) for place in places]
        if not any(one.is_compared for one in repairs):
            raise AnalysisError(
                f"what_if: repair: no other rank does work like that of {', '.join(map(str, called))}, so what "
                "a repair saves is not known"
            )
        self._repairs += repairs
        self._repaired += places
        one = len(places) == 1
        self.words.append(
            f"rank {rank_of(causes, places[0])} as its median peer"
            if one
            else f"{', '.join(f'rank {one}' if isinstance(one, int) else one for one in called)} as their median peers"
        )
        self.notes += [note for repair in self._repairs for note in repair.notes]

    def unsure(self) -> Mask:
        """Per rank whether others may wait for it, with ranks repaired, only because its recording is incomplete."""
        found = incomplete_ranks(self._causes) if self._repairs else np.zeros(len(self._causes.traces), bool)
        found[self._repaired] = False
        return found

    def _ranks(self, called: int | str) -> list[int]:
        """Places of the ranks that are meant: one, those of a stage or a host, or all."""
        causes, traces = self._causes, self._causes.traces
        if called == "all":
            return list(range(len(traces)))
        named = [at for at, one in enumerate(traces) if str(called) == one.value_of("host")]
        several = _SEVERAL.fullmatch(str(called))
        if several is not None and causes.matched is not None:
            numbers = pipelines(causes.matched)[1] if several[1] == "stage" else causes.matched.hosts
            named = [at for at, number in enumerate(numbers) if number == int(several[2])]
        try:
            return named or [rank_called(traces, called)]
        except AnalysisError as error:
            raise AnalysisError(f"what_if: repair: {error}") from None

    def _ops(self) -> Iterable[str]:
        for one in self._causes.traces:
            core, c = one.core, one.core.columns
            yield from {core.names[code] for code in np.unique(c.name[c.kind == Kind.Op]).tolist()}


_SEVERAL = re.compile(r"(stage|host)[:_ ]?(\d{1,6})")


def _hosts(m: MatchedCollectives | None) -> dict[int, int | None]:
    """Number of a rank -> that of its host."""
    known = () if m is None else zip(m.ranks, m.hosts, strict=True)
    return {one.rank: host for one, host in known if one.rank is not None}


def name_filter(text: str) -> Callable[[str], bool]:
    """Whether a name has a text in it, in whatever case; one with `*` or `?` is a pattern for the whole name."""
    wanted = text.lower()
    if set(wanted) & set("*?"):
        return lambda name: fnmatchcase(name.lower(), wanted)
    return lambda name: wanted in name.lower()


def _checked(factor: float) -> float:
    if not 0 < factor < float("inf"):
        raise AnalysisError(f"what_if: a factor is a number above 0, not {factor}")
    return factor


def _below(core: Core, op: str) -> np.ndarray:
    """For every row whether it is, or is below, an op of a name."""
    c = core.columns
    named = np.array([name == op for name in core.names], bool)
    rows = np.flatnonzero((c.kind == Kind.Op) & named[c.name])
    change = np.zeros(len(c) + 1, np.int64)
    np.add.at(change, rows, 1)
    np.add.at(change, c.last[rows].astype(np.int64) + 1, -1)
    return np.cumsum(change)[:-1] > 0
