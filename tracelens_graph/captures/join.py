"""Joins the launches of graphs of a trace with the graphs that were captured: which one each replays, and how well."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph.captures.fitting import Fit, fit
from tracelens_graph.captures.matching import (
    Pattern,
    Reference,
    Vocabulary,
    is_alike,
    pattern_of,
    reference_of,
    replayed,
)
from tracelens_graph.captures.recording import CapturedGraph, arguments_of
from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.batches import batch_of
from tracelens_graph.graph.classes import launches_graphs
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.graph.info import ReplayedGraph, TraceInfo
from tracelens_graph.graph.instances import Instance, with_instances
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.schema import GPU_KINDS, Flag, Kind, OwnerRule
from tracelens_graph.utils.arrays import Mask, Rows

_FIRST_DIM = re.compile(r"\[\[(\d{1,9})[,\]]")
_NEAR = 4
"""Ops behind a launch that are looked at for the size of its batch."""
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Replay:
    """One launch of a graph.

    Attributes:
        launch: its row.
        rows: GPU events that it ran, in the order in which they began.
        step: row of the annotation of its server's step, -1 for none.
        size: what that says of the batch; None for nothing.
        likely_size: what ops behind the launch say of it where no annotation does; None for nothing.
    """

    launch: int
    rows: Rows
    step: int = -1
    size: int | None = None
    likely_size: int | None = None


def replays_in(core: Core) -> list[Replay]:
    """Launches of graphs that ran GPU work, in row order."""
    c = core.columns
    gpu = rows_of_kind(c, GPU_KINDS)
    gpu = gpu[c.parent[gpu] >= 0]
    launch = c.parent[gpu].astype(np.int64)
    of_graph = launches_graphs(core, launch)
    gpu, launch = gpu[of_graph], launch[of_graph]
    if not len(gpu):
        return []
    first = np.flatnonzero(np.diff(launch, prepend=-1))
    launch = launch[first]
    own = [_step(core, row) for row in launch.tolist()]
    steps = [one if one[0] >= 0 else other for one, other in zip(own, _steps_around(core, launch), strict=True)]
    likely = _sizes_behind(core, launch, [size is None for _, size in steps])
    return [Replay(row, rows, *step, behind) for row, rows, step, behind in
            zip(launch.tolist(), np.split(gpu, first[1:]), steps, likely, strict=True)]  # fmt: skip


def _size_in(name: str) -> int | None:
    """The size that the name of an annotation gives for the graph that its step replays."""
    batch = batch_of(name)
    return batch.graph_size if batch is not None and batch.graph_size else None


def _step(core: Core, row: int) -> tuple[int, int | None]:
    """Row of the outermost annotation above a launch that gives the size of a batch, and the size."""
    found: tuple[int, int | None] = (-1, None)
    while (row := int(core.annotation[row])) >= 0:
        if (size := _size_in(core.names[core.columns.name[row]])) is not None:
            found = row, size
    return found


def _steps_around(core: Core, launch: Rows) -> list[tuple[int, int | None]]:
    """The same of annotations of other threads during which graphs were launched: the one that began last."""
    c = core.columns
    rows = rows_of_kind(c, (Kind.Annotation,))
    rows = rows[fitting(core.names, c.name[rows], lambda name: _size_in(name) is not None)]
    if not len(rows):
        return [(-1, None)] * len(launch)
    rows = rows[np.argsort(c.start_ns[rows], kind="stable")]
    last = rows[np.maximum(np.searchsorted(c.start_ns[rows], c.start_ns[launch], "right") - 1, 0)]
    inside = (c.start_ns[last] <= c.start_ns[launch]) & (c.start_ns[launch] < c.end_ns[last])
    return [(row, _size_in(core.names[c.name[row]])) if is_in else (-1, None)
            for row, is_in in zip(last.tolist(), inside.tolist(), strict=True)]  # fmt: skip


def _sizes_behind(core: Core, launch: Rows, wanted: Sequence[bool]) -> list[int | None]:
    """The most frequent first dimension of what the next ops behind each wanted launch on its thread are given."""
    c = core.columns
    ops = rows_of_kind(c, (Kind.Op,))
    found: list[int | None] = [None] * len(launch)
    # Rows of one thread stand by start, so the next launch ends the stretch.
    until = np.append(np.where(np.diff(c.thread[launch]) == 0, c.start_ns[launch[1:]], _NEVER), _NEVER)
    for at in np.flatnonzero(wanted).tolist():
        row, end = int(launch[at]), until[at]
        near = ops[np.searchsorted(ops, row) :][:_NEAR]
        near = near[(c.thread[near] == c.thread[row]) & (c.start_ns[near] < end) & (c.argset[near] >= 0)]
        dims = (_FIRST_DIM.match(core.argsets[argset][0].replace(" ", "")) for argset in c.argset[near].tolist())
        sizes = Counter(int(match[1]) for match in dims if match)
        found[at] = sizes.most_common(1)[0][0] if sizes else None
    return found


@dataclass(frozen=True, eq=False)
class Match:
    """How one replay fits the captured graph that it fits best.

    Attributes:
        fit: how all replays of the graph fit it, put together.
        call: of each GPU event, in row order, the position of its captured call, -1 for none.
        doubtful: how many of them fit another call as well.
        implausible: how many cannot be the work of the op that they stand for.
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
            reference, fits = _best(core, [patterns[at] for at in group], candidates, words)
            places = _places([patterns[at] for at in group], reference)
            left = []
            for at, place in zip(group, places, strict=True):
                if place is None:
                    left.append(at)
                elif fits:
                    found[at] = _match(core, patterns[at], place, fits)
            if not left:
                break
            # What is unlike the replays of a graph is of another one: of a draft model, or of none that was captured.
            group = left
            if fits:
                candidates = [[one for one in some if not one.says_the_same(fits[0].graph)] for some in candidates]
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
        steps.setdefault(replay.step if replay.step >= 0 else ~at, []).append(at)
    groups: dict[tuple[Any, ...], list[int]] = {}
    expected: dict[tuple[Any, ...], list[CapturedGraph]] = {}
    for step, members in steps.items():
        first = replays[members[0]]
        size = first.size if first.size is not None else first.likely_size
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
) -> tuple[Reference, list[Fit]]:
    """A reference for replays, and its best fits: more than one where graphs fit equally that say different things.

    What most replays ran counts, so that an odd one spoils no other. Where that is not the whole graph, all replays are
    put together, and the better of both is taken.
    """
    votes = Counter(one.key[:2] for one in group)
    different = sorted({one.key[:2]: one for one in group}.values(), key=lambda one: -votes[one.key[:2]])
    longest = max((len(graph) for some in candidates for graph in some), default=0)
    found = []
    for patterns in (different[:1], different):
        reference = reference_of(core, patterns, longest)
        found.append((reference, _best_fits(reference, candidates, words, core.info.rank)))
        if len(different) == 1 or any(one.is_whole for one in found[0][1]):
            return found[0]
    return max(found[::-1], key=lambda one: (len(one[1]) > 0, one[1][0].score if one[1] else 0))


def _best_fits(
    reference: Reference, candidates: Sequence[Sequence[CapturedGraph]], words: Vocabulary, rank: int | None
) -> list[Fit]:
    """The best fits of a reference, each unlike the first.

    Graphs that it is not expected to be of are tried where it fits none of those that it should be of.
    """
    for graphs in candidates:
        fits = [one for one in (fit(reference, graph, words) for graph in graphs) if one.fits]
        if fits:
            score = max(one.score for one in fits)
            best = [one for one in fits if one.score == score]
            best.sort(key=lambda one: (one.graph.rank != rank, one.graph.batch_size or 0))
            same = [one for one in best[1:] if (one.graph.rank == rank) == (best[0].graph.rank == rank)]
            return best[:1] + [one for one in same if not one.graph.says_the_same(best[0].graph)]
    return []


def _places(group: Sequence[Pattern], reference: Reference) -> list[tuple[Rows, Mask] | None]:
    """Of each replay the places of its events in the reference, and which are doubtful; None where it is unlike it."""
    votes = Counter(one.key[:2] for one in group)
    known: dict[tuple[bytes, ...], tuple[Rows, Mask] | None] = {}
    found = []
    for one in group:
        # Where a replay lacks events, only times separate them, so each replay is looked at.
        if one.key not in known or len(one.rows) < len(reference):
            at, doubtful = replayed(one, reference)
            known[one.key] = (at, doubtful) if is_alike(at, len(reference), votes[one.key[:2]] > 1) else None
        found.append(known[one.key])
    return found


def _match(core: Core, pattern: Pattern, place: tuple[Rows, Mask], fits: Sequence[Fit]) -> Match:
    at, doubtful = place
    best, *others = _of_its_grids(core, pattern, at, fits) if len(fits) > 1 else fits
    call = np.append(best.call, -1)[at]
    unsure = (doubtful | np.append(best.doubtful, False)[at]) & (call >= 0)
    left_out = int(np.count_nonzero(np.append(best.implausible, False)[at]))
    return Match(best, call, int(np.count_nonzero(unsure)), left_out, [one.graph for one in others])


def _of_its_grids(core: Core, pattern: Pattern, at: Rows, fits: Sequence[Fit]) -> Sequence[Fit]:
    """Those of equal fits whose calls have the grids with which a replay ran; all where grids are not known."""
    grids = [
        [one.graph.grids[call] if call >= 0 else None for call in np.append(one.call, -1)[at].tolist()] for one in fits
    ]
    known = (event for event, few in enumerate(zip(*grids, strict=True)) if None not in few)
    differ = [event for event in known if any(one[event] != grids[0][event] for one in grids)][:_COMPARED]
    if not differ:
        return fits
    ran = [one.get("grid") for one in arguments_of(core, pattern.rows[differ])]
    equal = [one for one, own in zip(fits, grids, strict=True) if [own[event] for event in differ] == ran]
    return equal or fits


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
    other_sizes: set[int] = set()
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
        other_sizes |= {other.batch_size for other in match.others if other.batch_size is not None}
    return replace(
        found, lost=lost.total(), extra=extra.total(), lost_names=dict(lost.most_common(_NAMED)),
        extra_names=dict(extra.most_common(_NAMED)), file=graph.file, graph=graph.number,
        batch_size=graph.batch_size, mode=graph.mode, calls=len(graph), rule=best.fit.rule,
        others=max(len(match.others) for _, match in group if match is not None),
        other_sizes=sorted(other_sizes - {graph.batch_size}), note=_note(core, group, graph, graphs),
    )  # fmt: skip


def _too_small(graphs: Sequence[CapturedGraph], sizes: Sequence[int]) -> str:
    """That replays are of larger batches than any captured graph, whose shapes would be wrong of them."""
    captured = [graph.batch_size for graph in graphs if graph.batch_size is not None]
    if not captured or len(captured) < len(graphs) or not sizes or sizes[1] <= max(captured):
        return ""
    return f"captured for batches of up to {max(captured)}, replayed for up to {sizes[1]}"


def _note(
    core: Core, group: Sequence[tuple[Replay, Match | None]], graph: CapturedGraph, graphs: Sequence[CapturedGraph]
) -> str:
    """That another rank captured what this one replays, and that only ops say which size was replayed."""
    notes = [_CUT[graph.cut]] if graph.cut else []
    if graph.rank is not None and core.info.rank is not None and graph.rank != core.info.rank:
        notes.append(f"captured by rank {graph.rank}, replayed by rank {core.info.rank}")
    if len({one.batch_size for one in graphs}) > 1 and any(one.likely_size is not None for one, _ in group):
        notes.append("no annotation gives the batch size; ops after the launches do")
    return "; ".join(notes)


_CUT = {
    "begin": "the recording began within the capture, so that the calls before it are missing",
    "end": "the recording ended within the capture, so that the calls after it are missing",
    "both": "the start and the end of the capture were not recorded",
}
_UNLIKE = 4
"""Graphs of one size that are looked for: that of most replays, then those of what is unlike them."""
_COMPARED = 4
"""Kernels of a replay whose grids are looked up to separate graphs that fit equally."""
_NAMED = 20
"""Names of lost and of additional kernels that are kept."""
