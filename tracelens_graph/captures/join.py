"""Joins the launches of graphs of a trace with the graphs that were captured: which one each replays, and how well."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph.captures.matching import (
    Fit,
    Pattern,
    Reference,
    Vocabulary,
    fit,
    is_alike,
    pattern_of,
    reference_of,
    replayed,
)
from tracelens_graph.captures.recording import CapturedGraph
from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.graph.info import ReplayedGraph, TraceInfo
from tracelens_graph.graph.instances import Instance, with_instances
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.schema import GPU_KINDS, Flag, Kind, OwnerRule
from tracelens_graph.utils.arrays import Mask, Rows

_SIZES = (
    re.compile(r"\bbs=(\d{1,18})\b"),
    re.compile(r"^execute_(\d{1,18})_context_"),
    re.compile(r"^execute_context_\d+\((\d{1,18})\)_generation_\d+\((\d{1,18})\)"),
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


@dataclass(frozen=True, eq=False)
class Match:
    """How one replay fits the captured graph that it fits best.

    Attributes:
        fit: how all replays of the graph fit it, put together.
        call: of each GPU event, in row order, the position of its captured call, -1 for none.
        doubtful: how many of them fit another call as well.
        implausible: how many were left out, as they cannot be the work of the op that they stand for.
        others: other captured graphs that the replay fits equally, and that say something else.
    """

    fit: Fit
    call: Rows
    doubtful: int
    implausible: int
    others: list[CapturedGraph]

    @property
    def graph(self) -> CapturedGraph:
        """The captured graph."""
        return self.fit.graph


def joined_with(core: Core, graphs: Sequence[CapturedGraph]) -> Graph:
    """The graph, with the captured calls of each replay that fits below its launch.

    `TraceInfo.replays` holds what became of the replays. Whatever fits no captured graph stays as it is.
    """
    replays = replays_in(core)
    found = _matched(core, replays, graphs)
    instances = [
        Instance(replay.launch, match.graph.tree, np.append(match.graph.call, -1)[match.call])
        for replay, match in zip(replays, found, strict=True)
        if match is not None
    ]
    joined = with_instances(core, instances, OwnerRule.graph_capture, Flag.captured)
    return changed(joined, info=_with_outcome(core, replays, found, graphs))


def _matched(core: Core, replays: Sequence[Replay], graphs: Sequence[CapturedGraph]) -> list[Match | None]:
    """How each replay fits the captured graph that it fits best; None where it fits none."""
    words = Vocabulary(core)
    patterns = [pattern_of(core, replay.rows, words) for replay in replays]
    found: list[Match | None] = [None] * len(replays)
    for group, expected in _alike(replays, patterns, graphs):
        size = max((replays[at].size or 0 for at in group), default=0)
        large_enough = [graph for graph in graphs if graph.batch_size is None or graph.batch_size >= size]
        candidates = [expected, large_enough]
        for _ in range(_UNLIKE):
            reference, best, others = _best(core, [patterns[at] for at in group], candidates, words)
            places = _places([patterns[at] for at in group], reference)
            left = []
            for at, place in zip(group, places, strict=True):
                if place is None:
                    left.append(at)
                elif best is not None:
                    found[at] = _match(patterns[at], place, best, others)
            if not left:
                break
            # What is unlike the replays of a graph is of another one: of a draft model, or of none that was captured.
            group = left
            if best is not None:
                candidates = [[one for one in some if not one.says_the_same(best.graph)] for some in candidates]
    return found


def _alike(
    replays: Sequence[Replay], patterns: Sequence[Pattern], graphs: Sequence[CapturedGraph]
) -> Iterator[tuple[list[int], list[CapturedGraph]]]:
    """Positions of replays of one graph, and the captured graphs that they should be of, the likeliest first.

    A step of a server says the size of its batch, which is replayed with the least size that it fits into. If as many
    graphs were captured for that size as the step launches, they are replayed in the order in which they were captured.
    Where no step says a size, replays that run much the same are of one graph, and those that are equal in all that
    can be compared take turns.
    """
    sizes = sorted({graph.batch_size for graph in graphs if graph.batch_size is not None})
    steps: dict[int, list[int]] = {}
    for at, replay in enumerate(replays):
        steps.setdefault(replay.step, []).append(at)
    groups: dict[tuple[Any, ...], list[int]] = {}
    expected: dict[tuple[Any, ...], list[CapturedGraph]] = {}
    for step, members in steps.items():
        size = replays[members[0]].size
        captured = next((one for one in sizes if size is not None and one >= size), None)
        own = [graph for graph in graphs if graph.batch_size == captured] if captured is not None else []
        turns = {rank: [graph for graph in own if graph.rank == rank] for rank in {graph.rank for graph in own}}
        for turn, at in enumerate(members):
            placed = [one[turn] for one in turns.values() if step >= 0 and len(one) == len(members)]
            key = (captured, turn if placed else -1, () if step >= 0 and placed else patterns[at].key[:2])
            groups.setdefault(key, []).append(at)
            expected[key] = placed or own
    yield from ((members, expected[key]) for key, members in groups.items())


def _best(
    core: Core, group: Sequence[Pattern], candidates: Sequence[Sequence[CapturedGraph]], words: Vocabulary
) -> tuple[Reference, Fit | None, list[CapturedGraph]]:
    """A reference for replays, its best fit, and the other graphs that fit equally and say something else.

    What most replays ran counts, so that an odd one spoils no other. Where that is not the whole graph, all replays are
    put together, and the better of both is taken.
    """
    votes = Counter(one.key[:2] for one in group)
    different = sorted({one.key[:2]: one for one in group}.values(), key=lambda one: -votes[one.key[:2]])
    longest = max((len(graph) for some in candidates for graph in some), default=0)
    found = []
    for patterns in (different[:1], different):
        reference = reference_of(core, patterns, longest)
        found.append((reference, *_best_fit(reference, candidates, words, core.info.rank)))
        if len(different) == 1 or (found[0][1] is not None and found[0][1].is_whole):
            return found[0]
    return max(found[::-1], key=lambda one: (one[1] is not None, one[1].score if one[1] else 0))


def _best_fit(
    reference: Reference, candidates: Sequence[Sequence[CapturedGraph]], words: Vocabulary, rank: int | None
) -> tuple[Fit | None, list[CapturedGraph]]:
    """The best fit of a reference, and the other graphs that fit equally and say something else.

    Graphs that it is not expected to be of are tried where it fits none of those that it should be of.
    """
    for graphs in candidates:
        fits = [one for one in (fit(reference, graph, words) for graph in graphs) if one.fits]
        if fits:
            score = max(one.score for one in fits)
            best = [one for one in fits if one.score == score]
            best.sort(key=lambda one: one.graph.rank != rank)
            same = [one.graph for one in best if (one.graph.rank == rank) == (best[0].graph.rank == rank)]
            return best[0], [one for one in same[1:] if not one.says_the_same(best[0].graph)]
    return None, []


def _places(group: Sequence[Pattern], reference: Reference) -> list[tuple[Rows, Mask] | None]:
    """Of each replay the places of its events in the reference, and which are doubtful; None where it is unlike it."""
    votes = Counter(one.key[:2] for one in group)
    known: dict[tuple[bytes, ...], tuple[Rows, Mask] | None] = {}
    found = []
    for one in group:
        # Of replays that lack events times tell them apart, so each is looked at.
        if one.key not in known or len(one.rows) < len(reference):
            at, doubtful = replayed(one, reference)
            known[one.key] = (at, doubtful) if is_alike(at, len(reference), votes[one.key[:2]] > 1) else None
        found.append(known[one.key])
    return found


def _match(pattern: Pattern, place: tuple[Rows, Mask], best: Fit, others: list[CapturedGraph]) -> Match:
    at, doubtful = place
    call = np.append(best.call, -1)[at]
    unsure = (doubtful | np.append(best.doubtful, False)[at]) & (call >= 0)
    left_out = int(np.count_nonzero(np.append(best.implausible, False)[at]))
    return Match(best, call, int(np.count_nonzero(unsure)), left_out, others)


def _with_outcome(
    core: Core, replays: Sequence[Replay], found: Sequence[Match | None], graphs: Sequence[CapturedGraph]
) -> TraceInfo:
    """The facts of a trace, with what became of its replays: those of a captured graph and rule together."""
    groups: dict[tuple[int, str], list[tuple[Replay, Match | None]]] = {}
    for one, match in zip(replays, found, strict=True):
        key = (0, "") if match is None else (id(match.graph), match.fit.rule)
        groups.setdefault(key, []).append((one, match))
    order = sorted(groups.values(), key=lambda group: (group[0][1] is None, group[0][0].launch))
    return replace(core.info, replays=[_outcome(core, group, graphs) for group in order])


def _outcome(
    core: Core, group: Sequence[tuple[Replay, Match | None]], graphs: Sequence[CapturedGraph]
) -> ReplayedGraph:
    c = core.columns
    sizes = [one.size for one, _ in group if one.size is not None]
    found = ReplayedGraph(
        launches=[int(c.uid[one.launch]) for one, _ in group],
        sizes=[min(sizes), max(sizes)] if sizes else [],
        gpu_events=sum(len(one.rows) for one, _ in group),
    )
    best = group[0][1]
    if best is None:
        return replace(found, note=_too_small(graphs, found.sizes))
    graph, lost, extra = best.graph, Counter[str](), Counter[str]()
    for one, match in group:
        assert match is not None
        left = one.rows[match.call < 0]
        extra.update(core.names[code] for code in c.name[left].tolist())
        is_lost = np.ones(len(graph) + 1, bool)
        is_lost[match.call] = is_lost[-1] = False
        lost.update(graph.called(at) for at in np.flatnonzero(is_lost).tolist())
        found.joined += len(one.rows) - len(left)
        found.doubtful += match.doubtful
        found.implausible += match.implausible
    return replace(
        found, lost=lost.total(), extra=extra.total(), lost_names=dict(lost.most_common(_NAMED)),
        extra_names=dict(extra.most_common(_NAMED)), file=graph.file, graph=graph.number,
        batch_size=graph.batch_size, mode=graph.mode, calls=len(graph), rule=best.fit.rule, others=len(best.others),
        note=_of_other_rank(core, graph),
    )  # fmt: skip


def _too_small(graphs: Sequence[CapturedGraph], sizes: Sequence[int]) -> str:
    """That replays are of larger batches than any captured graph, whose shapes would be wrong of them."""
    captured = [graph.batch_size for graph in graphs if graph.batch_size is not None]
    if not captured or len(captured) < len(graphs) or not sizes or sizes[1] <= max(captured):
        return ""
    return f"captured for batches of up to {max(captured)}, replayed for up to {sizes[1]}"


def _of_other_rank(core: Core, graph: CapturedGraph) -> str:
    """That another rank captured what this one replays."""
    if graph.rank is None or core.info.rank is None or graph.rank == core.info.rank:
        return ""
    return f"captured by rank {graph.rank}, replayed by rank {core.info.rank}"


_UNLIKE = 4
"""Graphs of one size that are looked for: that of most replays, then those of what is unlike them."""
_NAMED = 20
"""Names of lost and of additional kernels that are kept."""
