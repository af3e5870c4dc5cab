"""Joins the launches of graphs of a trace with the graphs that were captured: which one each replays, and how well."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph.captures.matching import Match, Matcher
from tracelens_graph.captures.recording import CapturedGraph
from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.graph.instances import Instance, with_instances
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.schema import GPU_KINDS, Flag, Kind, OwnerRule
from tracelens_graph.utils.arrays import Rows

_SIZES = (
    re.compile(r"\bbs=(\d+)"),
    re.compile(r"^execute_(\d+)_context_"),
    re.compile(r"^execute_context_\d+\((\d+)\)_generation_\d+\((\d+)\)"),
)
"""How annotations of servers tell the size of a step's batch, which is the sum of the numbers."""


@dataclass(frozen=True, eq=False)
class Replay:
    """One launch of a graph.

    Attributes:
        launch: its row.
        rows: GPU events that it ran, in the order in which they began.
        step: row of the annotation of its server's step, -1 for none.
        size: what that says of the batch; None for nothing.
    """

    launch: int
    rows: Rows
    step: int = -1
    size: int | None = None


def replays_in(core: Core) -> list[Replay]:
    """Launches of graphs that ran GPU work, in row order."""
    c = core.columns
    gpu = rows_of_kind(c, GPU_KINDS)
    gpu = gpu[c.parent[gpu] >= 0]
    launch = c.parent[gpu].astype(np.int64)

    def launches_graph(name: str) -> bool:
        return normal_name(Kind.RuntimeCall, name) == "launch graph"

    of_graph = (c.kind[launch] == Kind.RuntimeCall) & fitting(core.names, c.name[launch], launches_graph)
    gpu, launch = gpu[of_graph], launch[of_graph]
    if not len(gpu):
        return []
    first = np.flatnonzero(np.diff(launch, prepend=-1))
    steps = [_step(core, row) for row in launch[first].tolist()]
    parts = np.split(gpu, first[1:])
    return [Replay(int(launch[at]), rows, *step) for at, rows, step in zip(first, parts, steps, strict=True)]


def _step(core: Core, row: int) -> tuple[int, int | None]:
    """Row of the outermost annotation above a launch that tells the size of a batch, and the size."""
    found: tuple[int, int | None] = (-1, None)
    while (row := int(core.annotation[row])) >= 0:
        name = core.names[core.columns.name[row]]
        sizes = (match for pattern in _SIZES if (match := pattern.search(name)))
        if match := next(sizes, None):
            found = row, sum(map(int, match.groups()))
    return found


def joined_with(core: Core, graphs: Sequence[CapturedGraph]) -> Graph:
    """The graph, with the captured calls of each replay that fits below its launch.

    `TraceInfo.replays` holds what became of the replays. Whatever fits no captured graph stays as it is.
    """
    replays = replays_in(core)
    found = _chosen(core, replays, graphs)
    joined = with_instances(
        core,
        [
            Instance(replay.launch, match.graph.tree, np.append(match.graph.call, -1)[match.call])
            for replay, match in zip(replays, found, strict=True)
            if match is not None
        ],
        OwnerRule.graph_capture,
        Flag.captured,
    )
    return changed(joined, info=_with_outcome(core, replays, found))


def _chosen(core: Core, replays: Sequence[Replay], graphs: Sequence[CapturedGraph]) -> list[Match | None]:
    """How each replay fits the captured graph that it fits best; None where it fits none."""
    matcher = Matcher(core, graphs)
    turns: Counter[tuple[int, bytes]] = Counter()
    found: list[Match | None] = []
    for replay in replays:
        fitting_best = _of_rank(_of_size(matcher.matches(replay.rows), replay.size), core.info.rank)
        if not fitting_best:
            found.append(None)
            continue
        # Pieces that look alike, as those of equal layers, were captured in the order in which they are replayed.
        turn = replay.step, matcher.pattern(replay.rows)
        found.append(fitting_best[turns[turn] % len(fitting_best)])
        turns[turn] += 1
    return found


def _of_size(found: Sequence[Match], size: int | None) -> Sequence[Match]:
    """Of equal fits those captured for the batch: the least size that it fits into."""
    sizes = [one.graph.batch_size for one in found if one.graph.batch_size is not None]
    fitting_sizes = [one for one in sizes if size is not None and one >= size]
    if not fitting_sizes:
        return found
    return [one for one in found if one.graph.batch_size == min(fitting_sizes)]


def _of_rank(found: Sequence[Match], rank: int | None) -> Sequence[Match]:
    """Of equal fits those that the same rank captured, where one is."""
    return [one for one in found if one.graph.rank == rank] or found


def _with_outcome(core: Core, replays: Sequence[Replay], found: Sequence[Match | None]) -> TraceInfo:
    """The facts of a trace, with what became of its replays: one entry for each captured graph and rule, then the rest.

    Attributes of an entry: `file`, `graph`, `batch_size` and `mode` of the captured graph, or None; `rule`; `calls`,
    the number of calls captured; `launches`, uids of the launches; `sizes`, least and greatest batch of their steps;
    `gpu_events` in all of them; `joined`; `lost` and `extra`, what was captured and is not in a replay, and the other
    way round, as pairs of name and count.
    """
    groups: dict[tuple[int, str], list[tuple[Replay, Match | None]]] = {}
    for replay, match in zip(replays, found, strict=True):
        key = (0, "") if match is None else (id(match.graph), match.rule)
        groups.setdefault(key, []).append((replay, match))
    order = sorted(groups.values(), key=lambda group: (group[0][1] is None, group[0][0].launch))
    return replace(core.info, replays=[_outcome(core, group) for group in order])


def _outcome(core: Core, group: Sequence[tuple[Replay, Match | None]]) -> dict[str, Any]:
    graph = group[0][1].graph if group[0][1] else None
    c = core.columns
    lost: Counter[str] = Counter()
    extra: Counter[str] = Counter()
    joined = 0
    for replay, match in group:
        call = match.call if match else np.full(len(replay.rows), -1)
        joined += int(np.count_nonzero(call >= 0))
        left = replay.rows[call < 0]
        extra.update(core.names[code] for code in c.name[left].tolist())
        if graph is not None and len(call) - len(left) < len(graph):
            missing = np.setdiff1d(np.arange(len(graph)), call)
            lost.update(graph.names[at] or Kind(int(graph.kinds[at])).name for at in missing.tolist())
    sizes = [replay.size for replay, _ in group if replay.size is not None]
    return {
        "file": graph and graph.file,
        "graph": graph and graph.number,
        "batch_size": graph and graph.batch_size,
        "mode": graph and graph.mode,
        "calls": graph and len(graph),
        "rule": group[0][1].rule if group[0][1] else "",
        "launches": [int(c.uid[replay.launch]) for replay, _ in group],
        "sizes": [min(sizes), max(sizes)] if sizes else [],
        "gpu_events": sum(len(replay.rows) for replay, _ in group),
        "joined": joined,
        "lost": [list(one) for one in lost.most_common(_NAMED)],
        "lost_in_all": lost.total(),
        "extra": [list(one) for one in extra.most_common(_NAMED)],
        "extra_in_all": extra.total(),
    }


_NAMED = 20
"""Names of lost and of additional kernels that are kept."""
