"""What is known of GPU work as tracks for Perfetto UI, beside the events of the trace itself.

Tracks are threads of a process of their own: the critical path, idle gaps by cause, collectives, and for each stream
passes, modules and ops around its GPU events. Slices of a track nest and never overlap otherwise, as viewers ask: one
that would reach into the next ends where that begins. Counters of that process are the queue of each stream and the
bandwidth of copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw

from tracelens_graph.analyses.critical_path.critical_path import CriticalPath, critical_path
from tracelens_graph.analyses.critical_path.path import Path
from tracelens_graph.analyses.critical_path.walk import Class
from tracelens_graph.analyses.idle.idle import Cause, idle_parts
from tracelens_graph.analyses.launches.queues import queues_of
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.places.attribution import NO_MODULE, OPTIMIZER, charged, of_optimizer
from tracelens_graph.analyses.places.modules import PlaceTree, place_tree
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.shared.levels import Levels
from tracelens_graph.analyses.timeline.copy_bandwidth import bandwidths_of
from tracelens_graph.graph.arrays import positions_by
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.ranks import rank_titles
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.window import Window
from tracelens_graph.output.files import TOOL
from tracelens_graph.reports.html.names import clean
from tracelens_graph.utils.texts import microseconds

KNOWN = "what is known of the GPU's work"
"""What the process of the tracks is called, behind the name of the tool."""

CATEGORY = TOOL
"""Category of the slices. No profiler has it, so a graph of the file leaves them out."""

DEEPEST = 64
"""Levels of modules that are drawn."""

_MOST_UIDS = 16
"""Kernels of a collective that are named."""

_FIRST_PID = 1_000_000
"""Numbers of processes from which on the first free one is that of the tracks."""


@dataclass(frozen=True)
class Slice:
    """A slice of a track.

    Attributes:
        name: what it is.
        start_ns, dur_ns: when, from the trace's start, and how long.
        args: what a viewer shows of it.
    """

    name: str
    start_ns: int
    dur_ns: int
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Track:
    """A track: slices by start, outer ones before those in them."""

    title: str
    slices: Sequence[Slice]


@dataclass(frozen=True, eq=False)
class Counter:
    """A quantity over time.

    Attributes:
        title: what it is.
        unit: of its level.
        course: the moments at which it changes, ns from the trace's start, and the level from each on.
    """

    title: str
    unit: str
    course: Levels


@dataclass(frozen=True)
class RankPart:
    """A rank's part in a collective, as it took it together with others.

    Attributes:
        stretches: what it did from its start on, one behind the other, and for how long, ns.
        args: what a viewer shows of the collective beside what the rank itself knows.
    """

    stretches: Sequence[tuple[str, int]]
    args: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Others:
    """What the other ranks of a job show about one of them.

    Attributes:
        parts: row of the first kernel, or span on the host, of a collective -> the part in it.
        path: the critical path of the job, on the clock of the rank's trace.
    """

    parts: Mapping[int, RankPart]
    path: Track


def tracks(w: Window, others: Others | None = None) -> list[Track]:
    """The tracks of a window, those that have slices.

    `uid` in arguments is that of the trace; times there are in us.

    Args:
        others: what other ranks show: how long collectives waited, and the path of the job in the place of that of the
            rank alone.
    """
    path = list(_path(w)) if others is None else [others.path]
    found = [*path, *_idle(w), *_collectives(w, {} if others is None else others.parts), *_streams(w)]
    return [track for track in found if track.slices]


def counters(w: Window) -> Iterator[Counter]:
    """The queue of each stream, and the bandwidth of copies and fills by direction."""
    for queue in queues_of(w):
        if len(queue.waited):
            yield Counter(f"GPU {queue.device} stream {queue.stream} queue", "launched", queue.course)
    for copies in bandwidths_of(w):
        yield Counter(f"GPU {copies.device} {copies.direction} bandwidth", "GB/s", copies.rate)


def track_entries(w: Window, found: Iterable[Track | Counter], origin_ns: int) -> list[bytes]:
    """Tracks as entries of a Chrome trace's event list.

    Args:
        origin_ns: what the trace's start is in the times of the file, ns.
    """
    # With the pid of a process of the trace, viewers would show the tracks among its threads.
    taken = {pid for pid, _ in w.core.threads} | {pid for pid, *_ in w.core.info.processes}
    pid = next(number for number in count(_FIRST_PID) if number not in taken)
    return process_entries(found, pid, f"{TOOL}: {KNOWN}", -1, lambda times_ns: times_ns + origin_ns)


def process_entries(
    found: Iterable[Track | Counter], pid: int, title: str, place: int, clock: Callable[[np.ndarray], np.ndarray]
) -> list[bytes]:
    """Tracks as a process in a Chrome trace's event list.

    Args:
        pid: number of the process.
        title: what it is called.
        place: where it stands among the processes, which viewers order by this.
        clock: puts times of the tracks, ns, on the clock of the file; the later one may not be put before the earlier.
    """
    encode = msgspec.json.encode
    entries = [_named("process_name", pid, 0, name=title), _named("process_sort_index", pid, 0, sort_index=place)]
    for tid, track in enumerate(found, 1):
        if isinstance(track, Counter):
            entries += _counter_entries(track, pid, clock)
            continue
        entries += [_named("thread_name", pid, tid, name=track.title)]
        entries += [_named("thread_sort_index", pid, tid, sort_index=tid)]
        where = {"ph": "X", "cat": CATEGORY, "pid": pid, "tid": tid}
        begins = np.array([one.start_ns for one in track.slices], np.int64)
        ends = begins + np.array([one.dur_ns for one in track.slices], np.int64)
        for one, begin, end in zip(track.slices, clock(begins).tolist(), clock(ends).tolist(), strict=True):
            times = {"ts": Raw(microseconds(begin)), "dur": Raw(microseconds(end - begin))}
            entries.append(encode({**where, "name": one.name, **times, "args": one.args}))
    return entries


def _counter_entries(counter: Counter, pid: int, clock: Callable[[np.ndarray], np.ndarray]) -> Iterator[bytes]:
    where = {"ph": "C", "cat": CATEGORY, "pid": pid, "name": counter.title}
    for at, level in zip(clock(counter.course.at).tolist(), counter.course.level.tolist(), strict=True):
        yield msgspec.json.encode({**where, "ts": Raw(microseconds(at)), "args": {counter.unit: level}})


def _named(what: str, pid: int, tid: int, **args: Any) -> bytes:
    return msgspec.json.encode({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args})


def _until_next(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Ends of slices that are ordered by start, cut where the next one begins."""
    return np.minimum(end, np.append(start[1:], np.iinfo(np.int64).max))


def _path(w: Window) -> Iterator[Track]:
    """The critical path of all there is: segments that follow one another."""
    if len(w.gpu_rows):
        path = critical_path(w)
        yield Track("critical path", path_slices(path, path.start_ns, path.end_ns))


def path_slices(path: Path, start_ns: np.ndarray, end_ns: np.ndarray) -> list[Slice]:
    """The segments of a critical path that last; those of several ranks say which one they are of."""
    nodes, slices = path.nodes, []
    has_ranks = len(path.traces) > 1
    for at, (kind, start, end) in enumerate(zip(path.kind.tolist(), start_ns.tolist(), end_ns.tolist(), strict=True)):
        if end > start:
            facts = {"op": clean(nodes.op[at]), "module": clean(nodes.module[at]), "uid": nodes.uid[at]}
            if has_ranks:
                facts |= {"rank": path.rank[at]}
            args = {"class": Class(kind).name} | {
                name: value for name, value in facts.items() if value not in ("", None)
            }
            slices.append(Slice(clean(nodes.name[at]) or Class(kind).name, start, end - start, args))
    return slices


def _idle(w: Window) -> Iterator[Track]:
    """The idle gaps of each device, called by the cause that most of them is due to."""
    c, idle = w.core.columns, idle_parts(w)
    for device, gaps in positions_by(c.device[idle.row]):
        slices = []
        for gap in gaps.tolist():
            parts = {Cause(cause).name: int(ns) for cause, ns in enumerate(idle.parts[:, gap].tolist()) if ns}
            most = max(parts, key=lambda name: parts[name], default=Cause.outside.name)
            args: dict[str, Any] = {f"{name}_us": ns / 1e3 for name, ns in parts.items()}
            args |= {"uid_behind": int(c.uid[idle.row[gap]])}
            start, end = int(idle.start[gap]), int(idle.end[gap])
            slices.append(Slice(most.replace("_", " "), start, end - start, args))
        yield Track(f"GPU {device} idle, by cause", slices)


def _collectives(w: Window, parts: Mapping[int, RankPart]) -> Iterator[Track]:
    """The collectives by stream, those on the host by thread; within each what its rank did in it, where known."""
    core, c = w.core, w.core.columns
    lanes: dict[tuple[int, int, bool], list[tuple[Slice, RankPart | None]]] = {}
    for one in collectives_of(core).nodes:
        row = one.rows[0]
        if not w.holds(np.array([row]))[0]:
            continue
        lane = (int(c.thread[row]), -1, True) if one.on_host else (int(c.device[row]), int(c.stream[row]), False)
        facts = {
            "key": one.key, "group": one.group, "group_size": one.group_size, "sequence": one.sequence,
            "dtype": one.dtype, "in_bytes": one.in_bytes, "out_bytes": one.out_bytes, "rank": one.rank,
        }  # fmt: skip
        part = parts.get(row)
        known = {name: value for name, value in (facts | dict(part.args if part else {})).items() if value is not None}
        args: dict[str, Any] = {
            name: clean(value) if isinstance(value, str) else value for name, value in known.items()
        }
        args["uids"] = list(one.uids[:_MOST_UIDS])
        whole = Slice(clean(one.kind), one.start_ns, one.end_ns - one.start_ns, args)
        lanes.setdefault(lane, []).append((whole, part))
    for (place, stream, on_host), of_lane in sorted(lanes.items(), key=lambda item: item[0]):
        of_lane.sort(key=lambda one: one[0].start_ns)
        starts = np.array([one.start_ns for one, _ in of_lane])
        ends = _until_next(starts, np.array([one.start_ns + one.dur_ns for one, _ in of_lane]))
        slices: list[Slice] = []
        for (whole, part), end in zip(of_lane, ends.tolist(), strict=True):
            slices.append(Slice(whole.name, whole.start_ns, end - whole.start_ns, whole.args))
            slices += _stretches(whole.start_ns, end, part.stretches if part else ())
        where = f"thread {core.threads[place][1]}" if on_host else f"GPU {place} stream {stream}"
        yield Track(f"collectives, {clean(where)}", slices)


def _stretches(start: int, end: int, stretches: Iterable[tuple[str, int]]) -> Iterator[Slice]:
    """What a rank did in a collective, as far as its slice reaches; times in arguments are uncut."""
    for name, ns in stretches:
        stop = min(start + ns, end)
        if stop > start:
            yield Slice(clean(name), start, stop - start, {"us": ns / 1e3})
        start = stop


def _streams(w: Window) -> Iterator[Track]:
    """Around the GPU events of each stream the pass, the modules and the op that they are charged to."""
    core, c = w.core, w.core.columns
    gpu = core.device_order
    gpu = gpu[w.holds(gpu)]
    if not len(gpu):
        return
    tree = place_tree(w)
    call, is_backward = charged(core, tree.frames, gpu)
    linked, owner = c.parent[gpu] >= 0, c.owner[gpu].astype(np.int64)
    texts = ["forward", "backward", NO_MODULE, OPTIMIZER, NO_LAUNCH]
    outer = np.where(call >= 0, is_backward.astype(np.int64), 2)
    outer[(call < 0) & linked & of_optimizer(core, gpu)] = 3
    outer[~linked] = 4
    levels, uids = _levels(tree, c.uid, call)
    none = np.full(len(gpu), -1)
    columns = [
        (outer, none, texts),
        *((level, uid, tree.name) for level, uid in zip(levels, uids, strict=True)),
        (owner, np.where(owner >= 0, c.uid[owner], -1), None),
    ]
    step = core.step[gpu]
    lane = np.stack((c.device[gpu], c.stream[gpu]))
    lane_changes = np.append(True, (lane[:, 1:] != lane[:, :-1]).any(axis=0))
    for rows in np.split(np.arange(len(gpu)), np.flatnonzero(lane_changes)[1:]):
        start = c.start_ns[gpu[rows]]
        dur = c.dur_ns[gpu[rows]]
        end = _until_next(start, start + dur)
        breaks = np.append(True, step[rows][1:] != step[rows][:-1])
        slices = []
        for depth, (code, uid, names) in enumerate(columns):
            of = code[rows]
            # Where an outer slice ends all inner ones end, so that viewers nest them.
            breaks = breaks | np.append(True, of[1:] != of[:-1])
            first = np.flatnonzero(breaks)
            last = np.append(first[1:], len(rows)) - 1
            spent = np.add.reduceat(dur, first)
            for low, high, ns in zip(first.tolist(), last.tolist(), spent.tolist(), strict=True):
                if of[low] < 0:
                    continue
                name = core.names[c.name[of[low]]] if names is None else names[of[low]]
                args = {"gpu_events": high - low + 1, "gpu_us": ns / 1e3}
                args |= {"uid": int(uid[rows[low]])} if uid[rows[low]] >= 0 else {}
                begin = int(start[low])
                slices.append((begin, depth, Slice(clean(name), begin, int(end[high]) - begin, args)))
        slices.sort(key=lambda one: one[:2])
        device, stream = lane[:, rows[0]].tolist()
        yield Track(f"GPU {device} stream {stream} by module and op", [one for _, _, one in slices])


def _levels(tree: PlaceTree, uids: np.ndarray, call: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each level of modules, from the top, the place around each GPU event, -1 for none, and a uid of it."""
    upper = np.arange(len(tree.above))
    for place in np.flatnonzero(tree.depth > DEEPEST).tolist():
        upper[place] = upper[tree.above[place]]
    levels = min(int(tree.depth.max(initial=0)), DEEPEST)
    places = np.full((levels, len(call)), -1, np.int64)
    at = np.flatnonzero(call >= 0)
    place = upper[tree.place[call[at]]]
    while len(at):
        places[tree.depth[place] - 1, at] = place
        above = tree.above[place]
        at, place = at[above >= 0], above[above >= 0]
    uid = np.append(uids[tree.first], -1)
    return places, np.where(places >= 0, uid[places], -1)


# --- of the ranks of a job ------------------------------------------------------------------------------------------


PATH = "critical path of the job"


class JobTracks:
    """The ranks of a job, for the tracks of each.

    Args:
        matched: which of their collectives are one, and on which clock they are; its ranks in the same order.

    Attributes:
        titles: what people call each rank.
    """

    def __init__(self, traces: TraceSet, matched: MatchedCollectives) -> None:
        self._traces, self._matched = traces, matched
        self.titles: Sequence[str] = rank_titles(traces)

    def of(self, place: int, is_alone: bool) -> Others:
        """What the others show about a rank.

        Args:
            place: its place in the set.
            is_alone: its tracks are those of no other rank beside it, so that the path is shown on all of them; else
                its part of the path.
        """
        return Others(self._parts(place), Track(PATH, self._path_of(place, is_alone)))

    def path(self) -> Track:
        """The critical path of the job on the common clock; each segment says which rank it is of."""
        path = self._path
        if path is None:
            return Track(PATH, [])
        return Track(PATH, self._with_ranks(path_slices(path, path.start_ns, path.end_ns), ""))

    @cached_property
    def _path(self) -> CriticalPath | None:
        if not any(len(one.core.gpu_rows) for one in self._traces):
            return None
        return critical_path(self._traces, matched=self._matched)

    def _path_of(self, place: int, is_alone: bool) -> list[Slice]:
        path = self._path
        if path is None:
            return []
        times = (self._matched.own_ns(place, times) for times in (path.start_ns, path.end_ns))
        slices = path_slices(path, *times)
        if is_alone:
            return self._with_ranks(slices, self.titles[place])
        own = self._number(place)
        return [one for one in slices if one.args.get("rank") == own]

    def _with_ranks(self, slices: Sequence[Slice], but: str) -> list[Slice]:
        """Slices of a path, each with the rank before its name, but for those of one rank."""
        of_rank = {self._number(place): title for place, title in enumerate(self.titles) if title != but}
        named = []
        for one in slices:
            title = of_rank.get(one.args.get("rank", -1), "")
            named.append(Slice(f"{title}: {one.name}" if title else one.name, one.start_ns, one.dur_ns, one.args))
        return named

    def _number(self, place: int) -> int:
        number = self._traces[place].rank
        return place if number is None else number

    def _parts(self, place: int) -> dict[int, RankPart]:
        """By the row of its first kernel what a rank did in each collective."""
        m = self._matched
        alone = dict(m.unmatched)
        found = {}
        for part in np.flatnonzero(m.trace == place).tolist():
            row = m.parts.collective(part).rows[0]
            number = int(m.number[part])
            if number < 0:
                found[row] = RankPart((), {"not_matched": alone[part]})
                continue
            wait, moving, after = (int(ns[part]) for ns in (m.wait_ns, m.transfer_ns, m.end_skew_ns))
            last = self.titles[int(m.trace[m.last_part[number]])]
            stretches = [(f"waiting for {last}", wait), ("communicating", moving), ("others are done", after)]
            about = {
                "collective": number, "came_last": last, "wait_us": wait / 1e3, "communication_us": moving / 1e3,
                "after_others_us": after / 1e3, "ranks": int(m.count[number]),
            }  # fmt: skip
            found[row] = RankPart(stretches, about)
        return found
