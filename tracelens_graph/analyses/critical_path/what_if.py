"""How long a step would be if something in it took another time.

The points of all ranks are run again, forward in time, with new weights on what is changed; the old path with new
weights would be wrong, because another one may become the longest. Each rank is asked how its collectives follow from
one another with the edits, and the collectives are gone through here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path.bridges import ends_elsewhere
from tracelens_graph.analyses.critical_path.critical_path import CriticalPath, critical_path
from tracelens_graph.analyses.critical_path.edits import BOUNDS, Asked, Edited, Looked, Rings, edited
from tracelens_graph.analyses.critical_path.job_causes import JobCauses, job_causes
from tracelens_graph.analyses.critical_path.meant import Places, meant_by
from tracelens_graph.analyses.critical_path.repair import Repairs, repairs_of
from tracelens_graph.analyses.critical_path.rerun import incomplete_ranks
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.links import Link, Links
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.names import Names
from tracelens_graph.analyses.ranks.rings import rings
from tracelens_graph.errors import AnalysisError
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
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
        "least_ms": Column(
            "length if what is not recorded takes least: causes that did not bind, latency of collectives",
            "ms",
            heading="least ms",
        ),
        "most_ms": Column(
            "length if it takes most, and work waits for collectives that it may wait for", "ms", heading="most ms"
        ),
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
            change it may bind, and then it is as fast as the fastest of its kind, or as slow as the slowest. Nor is
            what is latency of a collective, nor whether work waits for one that had ended long before it.
        begins_earlier_ns: how much sooner the step begins: what is changed in the steps before moves their end, which
            is where a path step begins. None without a step.
        notes: what a reader must know.
        is_at_least: whether it may save more, as what ranks without a file wait for is not known.
    """

    path: CriticalPath
    change: str
    changed_durations: int
    changed_ns: int
    least_ns: int
    most_ns: int
    begins_earlier_ns: int | None = None
    notes: Sequence[str] = ()
    is_at_least: bool = False

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
        ranks: a set of traces, a graph, or `JobCauses`; see `critical_path`.
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
            `4-7`, `rank3`, `host1`, `switch2`; see `meant_by`) -> how many times as fast these move data.
        overlap: kind of collectives for which no computation waits.
        matched: which collectives of the ranks are one; by default they are matched.

    Raises:
        AnalysisError: no change is given, a factor is not above 0, or nothing is called so.
    """
    edits = {
        "collectives": collectives if isinstance(collectives, Mapping | None) else {"": collectives}, "ops": ops,
        "scale": scale, "remove": remove, "bandwidth": bandwidth, "overlap": overlap,
    }  # fmt: skip
    words = list(_words(edits))
    if not words and repair is None:
        raise AnalysisError(f"what_if: nothing is changed: give {', '.join(EDITS[:-1])} or {EDITS[-1]}")
    job = job_causes(ranks, matched)
    repairs = Repairs({}, "", []) if repair is None else repairs_of(job, repair)
    answers = _answers(job, edits, repairs)
    path = critical_path(job, step)
    again = job.meetings.again({at: one.reach for at, one in answers.items()})
    extents = [job.rerun(again, bound, step) for bound in BOUNDS]
    if repairs.of_rank and job.matched is not None:
        # Others may wait for these only because their recording is incomplete.
        unsure = incomplete_ranks(job.matched)
        unsure[list(repairs.of_rank)] = False
        if unsure.any():
            extents.append(job.rerun(again, "least", step, unsure))
    begin, end = (0, job.last_ns) if step is None else job.steps.of(step)
    lengths = [path.length_ns + (until - since) - (end - begin) for since, until in extents]
    usual = BOUNDS.index("usual")
    return WhatIf(
        path,
        "; ".join([*words, *([repairs.words] if repairs.words else [])]),
        sum(one.edges for one in answers.values()),
        lengths[usual],
        min(lengths),
        max(lengths),
        None if step is None else begin - extents[usual][0],
        list(dict.fromkeys([*sorted(note for one in answers.values() for note in one.notes), *repairs.notes])),
        job.matched is not None and bool(ends_elsewhere(job.matched)),
    )


EDITS = ("collectives", "ops", "repair", "scale", "remove", "bandwidth", "overlap")
"""What can be changed."""

_WORDS = {
    "ops": "GPU work of {} {:g} times as fast",
    "scale": "kernels {} {:g} times as long",
    "bandwidth": "bandwidth of {} {:g} times as high",
}


def _words(edits: Mapping[str, Any]) -> Iterator[str]:
    """What edits change, but for repairs.

    Raises:
        AnalysisError: a factor is not above 0.
    """
    for edit, words in {"collectives": "{} {:g} times as fast", **_WORDS}.items():
        for name, factor in (edits[edit] or {}).items():
            if not 0 < factor < float("inf"):
                raise AnalysisError(f"what_if: a factor is a number above 0, not {factor}")
            yield words.format(name or "collectives", factor)
    if edits["remove"] is not None:
        yield f"{edits['remove']} removed"
    if edits["overlap"] is not None:
        yield f"no computation waits for {edits['overlap']}"


def _rings(m: MatchedCollectives, bandwidth: Mapping[str, float], places: Places) -> dict[int, Rings]:
    """Per rank what changed links bound."""
    meant = [(meant_by(name, places), factor) for name, factor in bandwidth.items()]
    found: dict[int, dict[int, tuple[float, bool]]] = defaultdict(dict)

    def factor_of(link: Link) -> float:
        first = m.parts.collective(int(m.parts_of(int(link.collectives[0]))[0]))
        return prod(factor for is_meant, factor in meant if is_meant(first))

    for ring in rings(Links(Figures(m)), factor_of):
        if factor_of(ring.link) == 1:
            for part in np.concatenate([m.parts_of(at) for at in ring.link.collectives.tolist()]).tolist():
                found[int(m.trace[part])][int(m.node[part])] = ring.factor, ring.is_sure
    return {**found}


def _answers(job: JobCauses, edits: Mapping[str, Any], repairs: Repairs) -> dict[int, Edited]:
    """What the ranks answer to edits.

    Raises:
        AnalysisError: something is called by a name that is nowhere.
    """
    m = job.matched
    of_ranks = {} if m is None else {"host": m.hosts, "switch": Names(m, ()).switches}
    places = {
        name: {
            one.rank: at for one, at in zip(job.traces, of_ranks.get(name, ()), strict=False) if one.rank is not None
        }
        for name in ("host", "switch")
    }
    bound = {} if m is None or not edits["bandwidth"] else _rings(m, edits["bandwidth"], places)
    asked = [
        Asked(given, edits, places, repairs.of_rank.get(rank), bound.get(rank, {}))
        for rank, given in enumerate(job.bounded)
    ]
    found: dict[int, Edited] = dict(job.ask(edited, asked))
    for same in zip(*(found[at].looked for at in sorted(found)), strict=True):
        if not any(one.times for one in same):
            _refuse(same[0], sorted({name for one in same for name in one.known}))
    return found


_UNKNOWN = {
    "collectives": "collectives: no collective of the ranks is a {!r}",
    "ops": "ops: no GPU work is launched by an op {!r}",
    "scale": "scale: no kernel is called {!r}",
    "remove": "remove: no function of the host is called {!r}",
    "overlap": "overlap: no computation waits for a collective {!r}",
}


def _refuse(looked: Looked, known: Sequence[str]) -> None:
    if looked.edit == "collectives" and not looked.name:
        raise AnalysisError("what_if: collectives: there are none")
    instead = "" if looked.edit == "remove" else f"; {hint(looked.name, known)}"
    raise AnalysisError(f"what_if: {_UNKNOWN[looked.edit].format(looked.name)}{instead}")
