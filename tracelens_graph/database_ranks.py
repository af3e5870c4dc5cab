"""What stands for the matched collectives of a run in a database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph._version import __version__
from tracelens_graph.analyses.ranks.attendance import Attendance, GpuTime
from tracelens_graph.analyses.ranks.figures import Figures
from tracelens_graph.analyses.ranks.gathering import gathered, read_alone
from tracelens_graph.analyses.ranks.meetings import Meetings
from tracelens_graph.analyses.ranks.process_groups import ProcessGroups
from tracelens_graph.analyses.ranks.transfers import transfers
from tracelens_graph.graph.trace_set import TraceMember
from tracelens_graph.schema import SCHEMA_VERSION
from tracelens_graph.schema.database import EVENT, RANK_EDGE_PROPERTIES, RANK_PROPERTIES
from tracelens_graph.stores.neo4j.context_image import cast
from tracelens_graph.stores.neo4j.event_image import kept_rows
from tracelens_graph.stores.neo4j.image import Edges, Nodes, Options
from tracelens_graph.stores.neo4j.ranks_push import RanksImage


@dataclass(frozen=True, eq=False)
class PushedRank:
    """One rank of a run that is in a database: what it took part in, without its graph.

    Attributes:
        trace: id of its trace.
        attendance: what it took part in, read alone; its name is that of the trace in the run.
        is_there: for each collective that it held whether the first kernel was pushed.
    """

    trace: str
    attendance: Attendance
    is_there: tuple[bool, ...]

    @classmethod
    def of(cls, trace: TraceMember, name: str, options: Options) -> PushedRank:
        """That of a trace that was pushed whole.

        Args:
            trace: the trace.
            name: its name in the run.
            options: what of it was pushed.
        """
        attendance = replace(read_alone(trace), name=name, gpu=GpuTime())
        kept = kept_rows(trace.core, options)
        return cls(trace.core.trace_id, attendance, tuple(bool(kept[one.rows[0]]) for one, _, _ in attendance.held))


def ranks_image(run: str, ranks: Sequence[PushedRank]) -> RanksImage:
    """The nodes and edges that stand for the matched collectives of a run.

    Args:
        run: its name.
        ranks: all of its ranks. Edges to kernels that were not pushed are left out.
    """
    by_name = {one.attendance.name: one for one in ranks}
    meetings = Meetings(gathered([one.attendance for one in ranks]))
    ordered = [by_name[one.name] for one in meetings.attendances]
    figures = Figures(meetings)
    nodes = _meetings(figures)
    traces = [one.trace for one in ordered]
    found = {
        "run": run,
        "name": f"collectives of {len(ranks):,} ranks",
        "traces": traces,
        "collectives": len(meetings),
        "parts": len(meetings.parts),
        "unmatched": int((meetings.meeting < 0).sum()),
        "notes": meetings.notes or None,
        "schema_version": SCHEMA_VERSION,
        "tool_version": __version__,
    }
    matching = {prop.name: cast(prop, found[prop.name]) for prop in RANK_PROPERTIES["Matching"] if prop.name in found}
    of_matching = Edges("OF_MATCHING", "Meeting", "Matching", (nodes.columns[0], [matching["run"]] * len(nodes)))
    edges = [
        _ranks(matching["run"], meetings, traces),
        of_matching,
        _members(meetings, ordered),
        _transfers(figures, ordered),
    ]
    return RanksImage(matching, nodes, [one for one in edges if len(one)])


def _meetings(figures: Figures) -> Nodes:
    m, groups = figures.meetings, ProcessGroups.of(figures.meetings)
    last = [m.parts.collective(part) for part in m.last_part.tolist()]
    late = [m.attendances[trace] for trace in m.trace[m.last_part].tolist()]
    ranks = [groups.ranks[number] for number in groups.number.tolist()]
    known: dict[str, Any] = {
        "number": list(range(len(m))),
        "name": m.kind,
        "key": [one.key for one in last],
        "process_group": groups.number.tolist(),
        "group": groups.name,
        "group_ranks": [None if one is None else json.dumps(one) for one in ranks],
        "group_size": [size or None for size in m.group_size.tolist()],
        "sequence": [one.sequence for one in last],
        "step": figures.step,
        "ranks": m.count.tolist(),
        "start_ns": m.first_start_ns.tolist(),
        "dur_ns": (m.last_end_ns - m.first_start_ns).tolist(),
        "start_skew_ns": (m.last_start_ns - m.first_start_ns).tolist(),
        "end_skew_ns": (m.last_end_ns - m.first_end_ns).tolist(),
        "wait_ns": m.reduced(np.add, m.wait_ns).tolist(),
        "latency_ns": figures.latency_ns.tolist(),
        "shortest_ns": m.shortest_ns.tolist(),
        "longest_ns": m.reduced(np.maximum, m.end_ns - m.start_ns).tolist(),
        "message_bytes": _known(figures.size),
        "algbw_gb_s": _known(figures.algorithm_bandwidth),
        "busbw_gb_s": _known(figures.bus_bandwidth),
        "last_trace": [one.name for one in late],
        "last_rank": [one.rank for one in late],
    }
    properties = RANK_PROPERTIES["Meeting"]
    columns = tuple([cast(prop, value) for value in known[prop.name]] for prop in properties)
    sizes = [sum(len(value) for value in row if isinstance(value, str)) for row in zip(*columns, strict=True)]
    return Nodes(("Meeting",), properties, columns, np.array(sizes, np.int64))


def _ranks(run: str, meetings: Meetings, traces: Sequence[str]) -> Edges:
    """The edges from the matching to its ranks, with their clocks."""
    zero = [int(meetings.clock_ns(rank, np.zeros(1, np.int64))[0]) for rank in range(len(traces))]
    told = np.isfinite(meetings.estimated.error_ns).tolist()
    columns = (
        [run] * len(traces),
        list(traces),
        [one.rank for one in meetings.attendances],
        zero,
        (meetings.parts.shift_ns - np.array(zero, np.int64)).tolist(),
        [ns if is_told else None for ns, is_told in zip(meetings.estimated.offset_ns.tolist(), told, strict=True)],
        [ns if is_told else None for ns, is_told in zip(meetings.estimated.error_ns.tolist(), told, strict=True)],
    )
    return Edges("OF_RANK", "Matching", "Trace", columns, True, RANK_EDGE_PROPERTIES["OF_RANK"])


def _members(m: Meetings, ranks: Sequence[PushedRank]) -> Edges:
    """The edges from the first kernel of each part to its collective, by collective."""
    parts = m.order[_is_there(m, ranks, m.order)]
    of = m.meeting[parts]
    times = (m.start_ns, m.end_ns, m.wait_ns, m.transfer_ns, m.end_skew_ns)
    columns = (
        _first_kernels(m, parts), of, *(ns[parts] for ns in times), m.start_ns[parts] - m.first_start_ns[of],
        [ranks[place].trace for place in m.trace[parts].tolist()],
    )  # fmt: skip
    return Edges("MEMBER_OF", EVENT, "Meeting", columns, False, RANK_EDGE_PROPERTIES["MEMBER_OF"], (8, ""))


def _transfers(figures: Figures, ranks: Sequence[PushedRank]) -> Edges:
    """The edges from the kernels that send to those that receive."""
    m = figures.meetings
    at, source, target = transfers(m)
    kept = _is_there(m, ranks, source) & _is_there(m, ranks, target)
    at, source, target = at[kept], source[kept], target[kept]
    size = _known(figures.size[at])
    columns = (
        _first_kernels(m, source), _first_kernels(m, target), at, [None if one is None else int(one) for one in size],
        (m.last_start_ns - m.first_start_ns)[at], figures.latency_ns[at],
        *([ranks[place].trace for place in m.trace[end].tolist()] for end in (source, target)),
    )  # fmt: skip
    return Edges("SENDS", EVENT, EVENT, columns, True, RANK_EDGE_PROPERTIES["SENDS"], (6, 7))


def _first_kernels(m: Meetings, parts: np.ndarray) -> list[int]:
    return [m.parts.collective(part).uids[0] for part in parts.tolist()]


def _is_there(m: Meetings, ranks: Sequence[PushedRank], parts: np.ndarray) -> np.ndarray:
    """Whether the first kernel of some parts is in the database."""
    places = zip(m.trace[parts].tolist(), m.node[parts].tolist(), strict=True)
    return np.array([ranks[trace].is_there[node] for trace, node in places], bool)


def _known(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]
