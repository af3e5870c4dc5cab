"""Critical paths as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path.causes import Causes
from tracelens_graph.analyses.critical_path.path_nodes import Nodes, nodes_of, rank_of
from tracelens_graph.analyses.critical_path.points import Edge, Role
from tracelens_graph.analyses.critical_path.replay import NEVER, slack
from tracelens_graph.analyses.critical_path.walk import Class, Path
from tracelens_graph.analyses.shared.grouping import Cells, text_codes
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.schema.tables.paths import CLASSES, NAMES, RANKS, SEGMENTS, SLACK, STEPS, TIES
from tracelens_graph.tables.table import Table, columns_of


def segments(path: Path) -> Table:
    """One row per segment of the path, in the order of time; durations add up to its length."""
    nodes = path.nodes
    columns: dict[str, Cells] = {
        "class": class_names(path),
        "rank": nodes.rank,
        "name": nodes.name,
        "op": nodes.op,
        "module": nodes.module,
        "start_us": (path.start_ns - path.start_ns[:1]) / 1e3,
        "dur_ns": path.end_ns - path.start_ns,
        "from_rank": from_ranks(path),
        "uid": nodes.uid,
    }
    return Table("critical_path", columns, SEGMENTS, path.title, path.notes)


def class_names(path: Path) -> list[str]:
    """Per segment the name of its class."""
    return [Class(one).name for one in path.kind.tolist()]


def from_ranks(path: Path) -> list[int | None]:
    """Per segment the rank that the path comes from, where that is another one."""
    causes = path.causes
    came_from = np.where(path.edge >= 0, causes.ordinal[causes.before[path.edge]], -1)
    return [
        rank_of(causes, source) if source not in (-1, at) else None
        for source, at in zip(came_from.tolist(), path.ordinal.tolist(), strict=True)
    ]


def classes(path: Path) -> Table:
    """One row per class of time, the greatest first; they add up to the length of the path."""
    return _grouped(path, path.kind.astype(np.int64), "critical_path_classes", CLASSES, path.notes)


def names(path: Path) -> Table:
    """One row per class, name and op, the greatest sum first; they add up to the length of the path."""
    nodes = path.nodes
    group = text_codes(list(zip(path.kind.tolist(), nodes.name, nodes.op, strict=True)))
    return _grouped(path, group, "critical_path_names", NAMES, path.notes)


def _grouped(path: Path, group: np.ndarray, name: str, about: Any, notes: Sequence[str]) -> Table:
    nodes, length = path.nodes, path.end_ns - path.start_ns
    records: list[dict[str, Any]] = []
    for _, of in positions_by(group):
        longest = int(of[np.argmax(length[of])])
        time = int(length[of].sum())
        known = {
            "class": Class(int(path.kind[longest])).name,
            "name": nodes.name[longest],
            "op": nodes.op[longest],
            "time_ms": time / 1e6,
            "percent": _percent(time, path),
            "segments": len(of),
            "longest_us": int(length[longest]) / 1e3,
            "longest_name": nodes.name[longest],
            "rank": nodes.rank[longest],
            "ranks": sorted({rank for place in of.tolist() if (rank := nodes.rank[place]) is not None}),
            "uid": nodes.uid[longest],
        }
        records.append({column: known[column] for column in about})
    records.sort(key=lambda record: -record["time_ms"])
    return Table(name, columns_of(records, about), about, path.title, notes)


def _percent(ns: int, path: Path) -> float:
    return 100 * ns / path.length_ns if path.length_ns else 0.0


def by_rank(path: Path) -> Table:
    """One row per rank with part of the path, the greatest first; what no rank recorded is not in it."""
    length = path.end_ns - path.start_ns
    records: list[dict[str, Any]] = []
    for ordinal, of in positions_by(path.ordinal):
        if ordinal < 0:
            continue
        spent = sum_by_group(path.kind[of].astype(np.int64), length[of], len(Class))
        records.append({
            "rank": rank_of(path.causes, ordinal), "trace": path.causes.traces[ordinal].name,
            "time_ms": int(spent.sum()) / 1e6, "percent": _percent(int(spent.sum()), path), "segments": len(of),
            **{f"{one.name}_ms": int(spent[one]) / 1e6 for one in Class},
        })  # fmt: skip
    records.sort(key=lambda record: -record["time_ms"])
    return Table("critical_path_ranks", columns_of(records, RANKS), RANKS, path.title, path.notes)


def steps(paths: Sequence[Path]) -> Table:
    """One row per step: how long its path is, and of what."""
    records: list[dict[str, Any]] = []
    for path in paths:
        spent, by = path.ns_by_class, by_rank(path)
        records.append({
            "step": path.step, "length_ms": path.length_ns / 1e6,
            **{f"{one.name}_ms": spent.get(one.name, 0) / 1e6 for one in Class},
            "near_ties": path.ties.points, "rank": by["rank"][0] if len(by) else None,
        })  # fmt: skip
    notes = list(dict.fromkeys(note for path in paths for note in path.causes.notes))
    return Table("critical_path_steps", columns_of(records, STEPS), STEPS, "Critical paths of steps", notes)


def near_ties(path: Path) -> Table:
    """One row per point of the path with a cause that came nearly as late as the binding one, the closest first."""
    causes, edge = path.causes, path.ties.edge
    point, bound = causes.after[edge], causes.binding[causes.after[edge]]
    at, of_bound, of_other = (
        _point_nodes(causes, points) for points in (point, causes.before[bound], causes.before[edge])
    )
    columns: dict[str, Cells] = {
        "rank": at.rank,
        "name": [name or "the last rank comes" for name in at.name],
        "bound_by": [Edge(one).name for one in causes.kind[bound].tolist()],
        "bound_name": of_bound.name,
        "bound_rank": of_bound.rank,
        "other": [Edge(one).name for one in causes.kind[edge].tolist()],
        "other_name": of_other.name,
        "other_rank": of_other.rank,
        "margin_us": path.ties.margin_ns / 1e3,
        "uid": at.uid,
    }
    return Table("critical_path_ties", columns, TIES, f"Near ties: {path.title}", path.notes)


def _point_nodes(causes: Causes, points: np.ndarray) -> Nodes:
    return nodes_of(causes, causes.ordinal[points], causes.row[points])


def slack_by_name(path: Path) -> Table:
    """One row per name of GPU work that ends within the path, the most urgent first.

    Slack is an upper bound: causes that did not bind count with the least latency of their kind.
    """
    causes = path.causes
    end = int(causes.time[path.sink])
    start = end - path.length_ns
    late = slack(causes, path.sink)
    points = np.flatnonzero((causes.role == Role.gpu_end) & (causes.time > start) & (causes.time <= end))
    length = np.zeros(len(causes.time), np.int64)
    on_path = np.zeros(len(causes.time), np.int64)
    for ordinal, of in positions_by(causes.ordinal[points]):
        length[points[of]] = causes.core(ordinal).columns.dur_ns[causes.row[points[of]]]
    runs = np.flatnonzero((path.edge >= 0) & np.isin(causes.kind[path.edge], (Edge.run, Edge.transfer)))
    np.add.at(on_path, causes.after[path.edge[runs]], (path.end_ns - path.start_ns)[runs])
    nodes = _point_nodes(causes, points)
    records: list[dict[str, Any]] = []
    for _, of in positions_by(text_codes(nodes.name)):
        own = points[of]
        urgent = int(of[np.argmin(late[own])])
        median = float(np.median(late[own]))
        records.append({
            "name": nodes.name[urgent], "gpu_events": len(of), "time_ms": int(length[own].sum()) / 1e6,
            "on_path_ms": int(on_path[own].sum()) / 1e6, "least_slack_us": _us(int(late[points[urgent]])),
            "median_slack_us": _us(median), "rank": nodes.rank[urgent], "uid": nodes.uid[urgent],
        })  # fmt: skip
    records.sort(
        key=lambda record: (record["least_slack_us"] is None, record["least_slack_us"] or 0.0, -record["time_ms"])
    )
    return Table("critical_path_slack", columns_of(records, SLACK), SLACK, f"Slack: {path.title}", path.notes)


def _us(ns: float) -> float | None:
    """Nanoseconds in us; None for what cannot delay anything."""
    return ns / 1e3 if ns < -NEVER // 2 else None
