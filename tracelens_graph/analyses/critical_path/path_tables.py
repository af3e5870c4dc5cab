"""Critical paths as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path.path import Path
from tracelens_graph.analyses.critical_path.walk import Class
from tracelens_graph.analyses.shared.grouping import text_codes
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.ranks import rank_number
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

CLASS_MEANING = {
    "host": "the host worked, or waited for something that is not GPU work",
    "launch": "from the launching call to the start of the GPU work",
    "computation": "a kernel or fill computed",
    "communication": "a collective moved data, after the last rank had come",
    "peer": "a collective waited for ranks that are not in the set: its time beyond that of its shortest equal",
    "copy": "data was copied",
    "stream": "from the end of GPU work to the start of the next on its stream",
    "event": "from the end of GPU work to the start of work on a stream that waited for it",
    "sync": "from the end of GPU work to the return of a call that waited for it",
    "unrecorded": "nothing is recorded that explains it, such as before the first event",
}
"""Class of time on a critical path -> what happened."""

_PATH_TIME = Column.total("time on the path", "ms", "time ms", figure="ms")

_PERCENT = Column.share("share of the length of the path", "% of path", "percent")

CLASS = Column.key(
    "what the time is: " + "; ".join(f"`{name}`: {meaning}" for name, meaning in CLASS_MEANING.items()), "class"
)

RANK = Column("rank in the job, its place in the set where it is not known", heading="rank")

_SEGMENTS = Column.count("segments of the path", "segments")

_UID = Column.instance("node of the longest segment, in the trace of its rank")

SEGMENTS = TableSchema(
    "critical_path",
    "What bounds a step over all ranks: the critical path, segment by segment.",
    {
        "place": Column("place on the path, from 1"),
        "class": CLASS,
        "rank": RANK,
        "trace": Column.text("name of the trace of the rank; absent where nothing is recorded"),
        "name": Column.key(
            "GPU work; of host time the innermost call with more than half of it, `(no recorded call)` where none is "
            "open; of launches and waits the call; else the class",
            "name",
        ),
        "op": Column.text("op that it is charged to, or that is around the call", "op"),
        "module": Column.text("innermost module around that", "module"),
        "start_us": Column("when it begins, from the beginning of the path", "us", Role.time, heading="start us"),
        "dur_ns": Column.total("how long it lasts", "ns", "ns"),
        "from_rank": Column("rank that the path comes from, if it is another one", heading="from rank"),
        "uid": Column.instance("node, in the trace of its rank"),
    },
    ordered=True,
)

CLASSES = TableSchema(
    "critical_path_classes",
    "What the critical path of a step consists of, by class of time.",
    {
        "class": CLASS,
        "time_ms": _PATH_TIME,
        "percent": _PERCENT,
        "segments": _SEGMENTS,
        "longest_us": Column("the longest segment", "us", Role.max, heading="longest us"),
        "longest_name": Column("name of the longest segment", heading="longest", cells="text"),
        "rank": Column("rank of the longest segment", heading="on rank"),
        "uid": _UID,
    },
)

RANKS = TableSchema(
    "critical_path_ranks",
    "On which ranks the critical path of a step lies.",
    {
        "rank": Column.key("rank in the job, its place in the set where it is not known", "rank", "number"),
        "trace": Column.text("name of the trace"),
        "time_ms": _PATH_TIME,
        "percent": _PERCENT,
        "segments": _SEGMENTS,
        **{
            f"{name}_ms": Column.total(f"of that: {meaning}", "ms", f"{name} ms")
            for name, meaning in CLASS_MEANING.items()
        },
    },
    figure="rank",
)

NAMES = TableSchema(
    "critical_path_names",
    "Which work the critical path of a step consists of.",
    {
        "class": CLASS,
        "name": Column.key("name, as in the segments of the path", "name"),
        "op": Column.key("op, as there", "op"),
        "time_ms": _PATH_TIME,
        "percent": _PERCENT,
        "segments": _SEGMENTS,
        "ranks": Column("ranks that they are on", heading="ranks", cells="list"),
        "uid": _UID,
    },
)

STEPS = TableSchema(
    "critical_path_steps",
    "How long the critical path of each step is, and of what.",
    {
        "step": Column.key("number of the step", "step", "number"),
        "length_ms": Column.total(
            "length of the path step: from the last GPU end of the steps before it to its own, over all ranks",
            "ms",
            "length ms",
        ),
        **{
            f"{name}_ms": Column.total(f"on its path: {meaning}", "ms", f"{name} ms")
            for name, meaning in CLASS_MEANING.items()
        },
        "near_ties": Column.count("points of its path with another cause close behind", "near ties"),
        "rank": Column("rank with most of its path", heading="most on rank"),
    },
    ordered=True,
)

TIES = TableSchema(
    "critical_path_ties",
    "Where the critical path might as well run otherwise.",
    {
        "rank": RANK,
        "name": Column.key("what started or returned there", "name"),
        "bound_by": Column.text("what it followed from", "bound by"),
        "bound_name": Column.text("name of that"),
        "bound_rank": Column("rank of that", heading="bound on rank"),
        "other": Column.text("the cause that came nearly as late", "nearly by"),
        "other_name": Column.text("name of that"),
        "other_rank": Column("rank of that", heading="on other rank"),
        "margin_us": Column("how much sooner this would have allowed it", "us", Role.min, heading="margin us"),
        "uid": Column.instance("node, in the trace of its rank"),
    },
)


def segments(path: Path) -> Table:
    """One row per segment of the path, in the order of time; durations add up to its length."""
    known = segment_columns(path)
    known["start_us"] = ((path.start_ns - path.start_ns[:1]) / 1e3).tolist()
    return SEGMENTS.table({name: known[name] for name in SEGMENTS}, path.title, path.notes)


def segment_columns(path: Path) -> dict[str, list[Any]]:
    """What is known of the segments of a path, in their order; None for nothing."""
    nodes, classes = path.nodes, [Class(one).name for one in path.kind.tolist()]
    traces = [one.name for one in path.traces]
    return {
        "place": list(range(1, len(classes) + 1)),
        "class": classes,
        "rank": path.rank,
        "trace": [traces[at] if at >= 0 else None for at in path.ordinal.tolist()],
        "name": [name or of for name, of in zip(nodes.name, classes, strict=True)],
        "op": [op or None for op in nodes.op],
        "module": [module or None for module in nodes.module],
        "start_ns": path.start_ns.tolist(),
        "dur_ns": (path.end_ns - path.start_ns).tolist(),
        "from_rank": [
            rank_number(path.traces, source) if source not in (-1, at) else None
            for source, at in zip(path.came_from.tolist(), path.ordinal.tolist(), strict=True)
        ],
        "uid": nodes.uid,
    }


def classes(path: Path) -> Table:
    """One row per class of time, the greatest first; they add up to the length of the path."""
    return _grouped(CLASSES, path, path.kind.astype(np.int64), path.notes)


def names(path: Path) -> Table:
    """One row per class, name and op, the greatest sum first; they add up to the length of the path."""
    nodes = path.nodes
    group = text_codes(list(zip(path.kind.tolist(), nodes.name, nodes.op, strict=True)))
    return _grouped(NAMES, path, group, path.notes)


def _grouped(schema: TableSchema, path: Path, group: np.ndarray, notes: Sequence[str]) -> Table:
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
            "rank": path.rank[longest],
            "ranks": sorted({rank for place in of.tolist() if (rank := path.rank[place]) is not None}),
            "uid": nodes.uid[longest],
        }
        records.append({column: known[column] for column in schema})
    records.sort(key=lambda record: -record["time_ms"])
    return schema.of_records(records, path.title, notes)


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
            "rank": rank_number(path.traces, ordinal), "trace": path.traces[ordinal].name,
            "time_ms": int(spent.sum()) / 1e6, "percent": _percent(int(spent.sum()), path), "segments": len(of),
            **{f"{one.name}_ms": int(spent[one]) / 1e6 for one in Class},
        })  # fmt: skip
    records.sort(key=lambda record: -record["time_ms"])
    return RANKS.of_records(records, path.title, path.notes)


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
    notes = list(dict.fromkeys(note for path in paths for note in path.job.notes))
    return STEPS.of_records(records, "Critical paths of steps", notes)


def near_ties(path: Path) -> Table:
    """One row per point of the path with a cause that came nearly as late as the binding one, the closest first."""
    return TIES.table(dict(path.ties.columns), f"Near ties: {path.title}", path.notes)
