"""What the ranks of a run have in common, in a database that holds them: what stands for it, and writing that.

A Matching node stands for the collectives and the critical paths of a run. There is one for a run, and it is about all
of its traces: it goes when one of them is dropped, and another trace that is pushed into the run makes it invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph._version import __version__
from tracelens_graph.analyses.critical_path.critical_path import JobPaths, job_paths
from tracelens_graph.analyses.ranks.figures import Figures, transfers
from tracelens_graph.analyses.ranks.link_delays import LinkDelays
from tracelens_graph.analyses.ranks.links import Links
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.matching_notes import notes_on_matching
from tracelens_graph.db.event_image import kept_rows
from tracelens_graph.db.image import Edges, Image, Options, nodes_of, properties_of
from tracelens_graph.db.push import Claim, begun, hold, judged
from tracelens_graph.db.statements import MATCHING
from tracelens_graph.errors import DatabaseError
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.intervals import length
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.schema import SCHEMA_VERSION
from tracelens_graph.schema.database import EVENT
from tracelens_graph.schema.jobs import RANK_EDGE_PROPERTIES, RANK_PROPERTIES
from tracelens_graph.utils.arrays import Mask, Rows

if TYPE_CHECKING:
    from neo4j import ManagedTransaction

_COMPARED = ("traces", "paths", "schema_version", "tool_version")
"""Properties that a matching and one that is there have in common if they are the same."""


def ranks_image(run: str, ranks: TraceSet, options: Options) -> Image:
    """The nodes and edges that stand for the matched collectives and the critical paths of a run.

    Args:
        run: its name.
        ranks: all of its ranks. Their whole graphs count, whatever windows of them are in the set.
        options: what of them was pushed. Edges to events that were not are left out.
    """
    whole = ranks.with_graphs(lambda core: core).by_rank()
    matched = MatchedCollectives(whole)
    figures, paths = Figures(matched), job_paths(whole, matched)
    kept = [kept_rows(one.core, options) for one in whole]
    traces = [one.core.trace_id for one in whole]
    found = {
        "run": run, "name": f"collectives of {len(whole):,} ranks", "traces": traces, "collectives": len(matched),
        "parts": len(matched.parts), "unmatched": int((matched.number < 0).sum()), "paths": len(paths.paths),
        "notes": notes_on_matching(matched) or None, "schema_version": SCHEMA_VERSION, "tool_version": __version__,
    }  # fmt: skip
    matching = properties_of(RANK_PROPERTIES["Matching"], found)
    about = [paths.about(number) for number in range(len(paths.paths))]
    known: dict[str, Mapping[str, Sequence[Any]]] = {
        "Meeting": {**figures.columns, "name": figures.columns["kind"]},
        "CriticalPath": {name: [one[name] for one in about] for name in (about[0] if about else ())},
        "PathSegment": paths.columns,
    }
    nodes = [nodes_of(label, RANK_PROPERTIES[label], values) for label, values in known.items()]
    edges = [
        _ranks(matching["run"], figures, traces),
        *(
            Edges("OF_MATCHING", some.labels[0], "Matching", (some.columns[0], [matching["run"]] * len(some)))
            for some in nodes[:2]
        ),
        _members(figures, traces, kept),
        _transfers(figures, traces, kept),
        *_path_edges(paths, whole, traces, kept),
    ]
    some = [one for one in nodes if len(one)]
    return Image(properties=matching, nodes=some, edges=[one for one in edges if len(one)])


def claim(tx: ManagedTransaction, matching: Mapping[str, Any], _: bool) -> Claim:
    """Make the Matching node, or go on with the one that is there, while nobody drops one of the traces.

    What other ranks of the run had is to be dropped.

    Raises:
        DatabaseError: a trace is not complete, or the run has others.
    """
    hold(tx, sorted(matching["traces"]))
    other = tx.run(
        "MATCH (t:Trace {run: $run}) WHERE NOT t.id IN $traces RETURN t.path AS path ORDER BY path LIMIT 1",
        run=matching["run"], traces=matching["traces"],
    ).single()  # fmt: skip
    if other:
        raise DatabaseError(f"{other['path']} is of the run too: push all of its ranks together")
    there, new = begun(tx, MATCHING, matching)
    return judged(MATCHING, there, new, matching, any(there.get(name) != matching[name] for name in _COMPARED))


def _ranks(run: str, figures: Figures, traces: Sequence[str]) -> Edges:
    """The edges from the matching to its ranks, with their clocks and what each did in all."""
    matched = figures.matched
    exchanged = [figures.exchanged_bytes[matched.parts.of_rank(rank)] for rank in range(len(traces))]
    zero = [int(matched.clock_ns(rank, np.zeros(1, np.int64))[0]) for rank in range(len(traces))]
    estimated = matched.estimated
    known = np.isfinite(estimated.error_ns).tolist()
    columns = (
        [run] * len(traces),
        list(traces),
        [one.rank for one in matched.ranks],
        zero,
        (matched.parts.shift_ns - np.array(zero, np.int64)).tolist(),
        *(
            [value if is_known else None for value, is_known in zip(ns.tolist(), known, strict=True)]
            for ns in (estimated.offset_ns, estimated.error_ns)
        ),
        matched.hosts,
        [end - start for start, end in (one.span_ns for one in matched.ranks)],
        [length(one.gpu.computing) if one.has_gpu_work else None for one in matched.ranks],
        [figures.bubble_ns(rank) for rank in range(len(traces))],
        [None if np.isnan(some).all() else int(np.nansum(some)) for some in exchanged],
    )
    return Edges("OF_RANK", "Matching", "Trace", columns, True, RANK_EDGE_PROPERTIES["OF_RANK"])


def _members(figures: Figures, traces: Sequence[str], kept: Sequence[Mask]) -> Edges:
    """The edges from the first kernel of each part to its collective, by collective."""
    m = figures.matched
    parts = m.order[_is_there(m, kept, m.order)]
    of = m.number[parts]
    times = (m.start_ns, m.end_ns, m.wait_ns, m.transfer_ns, m.end_skew_ns)
    late = (figures.held_up_ns, LinkDelays(Links(figures)).held_up_ns)
    columns = (
        _first_kernels(m, parts), of, *(ns[parts] for ns in times), m.start_ns[parts] - m.first_start_ns[of],
        *(np.ma.masked_array(ns[of], who[of] != m.trace[parts]) for who, ns in late),
        [traces[place] for place in m.trace[parts].tolist()],
    )  # fmt: skip
    return Edges("MEMBER_OF", EVENT, "Meeting", columns, False, RANK_EDGE_PROPERTIES["MEMBER_OF"], (10, ""))


def _transfers(figures: Figures, traces: Sequence[str], kept: Sequence[Mask]) -> Edges:
    """The edges from the kernels that send to those that receive."""
    m = figures.matched
    at, source, target = transfers(m)
    there = _is_there(m, kept, source) & _is_there(m, kept, target)
    at, source, target = at[there], source[there], target[there]
    size = figures.columns["message_bytes"]
    columns = (
        _first_kernels(m, source), _first_kernels(m, target), at, [size[one] for one in at.tolist()],
        (m.last_start_ns - m.first_start_ns)[at], figures.latency_ns[at],
        *([traces[place] for place in m.trace[end].tolist()] for end in (source, target)),
    )  # fmt: skip
    return Edges("SENDS", EVENT, EVENT, columns, True, RANK_EDGE_PROPERTIES["SENDS"], (6, 7))


def _path_edges(paths: JobPaths, ranks: TraceSet, traces: Sequence[str], kept: Sequence[Mask]) -> Iterator[Edges]:
    """The edges of segments: to their paths, to those that follow them, and from the events that account for them."""
    path = paths.path
    yield Edges("OF_PATH", "PathSegment", "CriticalPath", (np.arange(len(path)), path))
    before = np.flatnonzero(path[1:] == path[:-1])
    yield Edges("NEXT_ON_PATH", "PathSegment", "PathSegment", (before, before + 1))
    segment, ordinal, uid = paths.events
    there = np.zeros(len(segment), bool)
    for one, of in positions_by(ordinal):
        there[of] = kept[one][ranks[one].core.rows_of(uid[of])]
    columns = uid[there], segment[there], [traces[one] for one in ordinal[there].tolist()]
    yield Edges("ON_PATH", EVENT, "PathSegment", columns, scopes=(2, ""))


def _first_kernels(m: MatchedCollectives, parts: Rows) -> list[int]:
    return [m.parts.collective(part).uids[0] for part in parts.tolist()]


def _is_there(m: MatchedCollectives, kept: Sequence[Mask], parts: Rows) -> Mask:
    """Whether the first kernel of some parts is in the database."""
    first = (
        (trace, m.parts.collective(part).rows[0])
        for part, trace in zip(parts.tolist(), m.trace[parts].tolist(), strict=True)
    )
    return np.array([kept[trace][row] for trace, row in first], bool)
