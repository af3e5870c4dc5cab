"""The iterations of a server: steps of an engine that marks them otherwise than PyTorch's profiler does.

They are the annotations that engines write around a step (`graph.batches`), else equal `record_function` ranges, else
calls that repeat. An event belongs to an iteration as it belongs to a `ProfilerStep` (`graph.membership`): by its
start, on every thread of the process; GPU work by its launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.graph import membership, traversals
from tracelens_graph.graph.batches import Batch, batch_of, phase_named, richer
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import LEFT_OUT_ITERATIONS
from tracelens_graph.schema import HOST_KINDS, Kind
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

WINDOW = 32
"""Number of steps that one would like a stretch of the steady state to have."""

_LEAST = 3
"""How often something has to repeat to be an iteration."""


@dataclass(frozen=True, eq=False)
class Iterations:
    """The iterations of a graph, numbered from 0 by process and start.

    Attributes:
        core: the graph.
        rows: row at which each begins: its annotation, or the first of its calls.
        dur_ns: how long each lasts on the host; on the device where only device annotations show them.
        batches: what each computes.
        source: where they come from, in words; empty without any.
        of: for every row of the graph the number of its iteration, -1 for none.
    """

    core: Core
    rows: Rows
    dur_ns: Ns
    batches: Sequence[Batch]
    source: str
    of: Rows

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def phases(self) -> np.ndarray:
        """The phase of each."""
        return np.array([batch.phase for batch in self.batches], np.str_)

    @cached_property
    def steady(self) -> tuple[int, int]:
        """First iteration of the steady state, and the one behind its last."""
        return steady_region(np.array([batch.size or 1 for batch in self.batches], np.int64))


def iterations_of(core: Core) -> Iterations:
    """The iterations of a graph, found once. Traces whose `ProfilerStep`s are all that marks steps have none."""
    return core.once(_find)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What the file of some iterations says of those that were left out.

    Attributes:
        count: iterations that lay between those in it.
        behind: for each iteration in it whether some were left out right before it.
        device_ns: length of each on the device in the whole trace, 0 for none.
    """

    count: int
    behind: Mask
    device_ns: Ns

    def as_json(self) -> dict[str, object]:
        """What stands in the file."""
        return {
            "count": self.count, "behind": np.flatnonzero(self.behind).tolist(), "device_ns": self.device_ns.tolist(),
        }  # fmt: skip


def left_out_of(core: Core) -> LeftOut | None:
    """What the file of some iterations says of those left out; None of a whole trace, or where it does not fit."""
    return core.once(_left_out) if LEFT_OUT_ITERATIONS in core.info.metadata else None


def _left_out(core: Core) -> LeftOut | None:
    given, most = core.info.metadata[LEFT_OUT_ITERATIONS], len(iterations_of(core))
    try:
        count, behind, device_ns = (given[key] for key in ("count", "behind", "device_ns"))
        whole = all(type(one) is int and 0 <= one < 2**62 for one in (count, *behind, *device_ns))
    except (KeyError, TypeError):
        return None
    if not whole or len(device_ns) != most or any(one >= most for one in behind):
        return None
    return LeftOut(count, np.isin(np.arange(most), behind), np.array(device_ns, np.int64))


def left_out_between(core: Core, numbers: Sequence[int], device_ns: Ns) -> LeftOut:
    """What is left out where only some iterations are taken.

    Args:
        numbers: the iterations, ascending.
        device_ns: length of each on the device.
    """
    before = left_out_of(core)
    apart = np.diff(np.asarray(numbers), prepend=numbers[0] - 1) - 1
    behind = (apart > 0) | (before.behind[numbers] if before else False)
    return LeftOut(int(apart.sum()) + (before.count if before else 0), behind, device_ns)


def is_of_server(core: Core) -> bool:
    """Whether annotations of an engine mark the steps of a server."""
    return core.once(_has_engine_ranges)


def _has_engine_ranges(core: Core) -> bool:
    return bool(len(_read(core, Kind.Annotation, Kind.DeviceAnnotation)[0]))


def steady_region(requests: np.ndarray) -> tuple[int, int]:
    """The longest stretch in which a server has about as many requests as it ever has.

    A step is near the greatest number of requests if it is within 10 % of it (20 % where there are fewer steps than
    `WINDOW`), or one. A stretch begins with the sixth such step, counted back by six, and ends when as many steps
    lay outside. Where there is none it is the middle of the trace. These are the rules by which TraceLens splits.

    Args:
        requests: of each step.
    """
    count = len(requests)
    if not count:
        return 0, 0
    most = int(requests.max())
    near = most - requests <= max(1.0, (0.1 if count >= WINDOW else 0.2) * most)
    regions: list[tuple[int, int]] = []
    seen, begin = 0, -1
    for at, is_near in enumerate(near.tolist()):
        if begin < 0:
            seen += is_near
            if seen > 5:
                begin = at - seen + 1
        elif not is_near:
            seen -= 1
            if not seen:
                regions.append((begin, at))
                begin = -1
    if begin >= 0:
        regions.append((begin, count))
    if not regions:
        beside = min(count, max(8, WINDOW - count)) // 2
        return (beside, count - beside) if beside * 2 < count else (0, count)
    return max(regions, key=lambda region: region[1] - region[0])


def _find(core: Core) -> Iterations:
    has_steps = bool(len(traversals.rows_of_kind(core.columns, (Kind.Step,))))
    ways = (_annotated, _annotated_on_device) if has_steps else (_annotated, _annotated_on_device, _named, _repeated)
    for way in ways:
        if (found := way(core)) is not None:
            return found
    none = np.empty(0, np.int64)
    return Iterations(core, none, none, (), "", np.full(len(core.columns), -1, np.int64))


def _made(core: Core, rows: Rows, dur_ns: Ns, batches: Sequence[Batch], source: str, of: Rows) -> Iterations:
    """Iterations in their order.

    Args:
        of: for every row of the graph the row of its iteration, -1 for none.
    """
    c = core.columns
    process = membership.process_of_thread(core.threads)[np.maximum(c.thread[rows], 0)]
    order = np.lexsort((c.uid[rows], c.start_ns[rows], process))
    place = np.full(len(c) + 1, -1, np.int64)
    place[rows[order]] = np.arange(len(rows))
    return Iterations(core, rows[order], dur_ns[order], [batches[i] for i in order.tolist()], source, place[of])


def _on_host(core: Core, rows: Rows, dur_ns: Ns, batches: Sequence[Batch], source: str) -> Iterations:
    """Iterations that begin at host events: of all threads of a process, but where several threads have some."""
    c, process = core.columns, membership.process_of_thread(core.threads)
    own = np.unique(c.thread[rows])
    several = np.isin(process[own], np.flatnonzero(np.bincount(process[own]) > 1))
    group = process.copy()
    group[own[several]] = int(process.max()) + 1 + own[several]
    of = membership.within(c, rows, group[c.thread], dur_ns)
    of[rows] = rows
    return _made(core, rows, dur_ns, batches, source, of)


# --- annotations of engines ------------------------------------------------------------------------------------------


def _annotated(core: Core) -> Iterations | None:
    c = core.columns
    ranges, read = _read(core, Kind.Annotation)
    if not len(ranges):
        return None
    is_read = np.zeros(len(c) + 1, bool)
    is_read[ranges] = True
    batches = {row: read[int(c.name[row])] for row in ranges.tolist()}
    above = traversals.climb(core.annotation, core.annotation[ranges], is_read)
    # Rows of one thread stand by start, so what encloses comes first.
    outermost = {row: row for row in ranges.tolist()}
    for row, over in zip(ranges.tolist(), above.tolist(), strict=True):
        if over >= 0:
            outer = outermost[row] = outermost[over]
            batches[outer] = richer(batches[outer], batches[row])
    rows = np.array([row for row in ranges.tolist() if outermost[row] == row], np.int64)
    return _on_host(core, rows, c.dur_ns[rows], [batches[row] for row in rows.tolist()], "annotations of the engine")


def _annotated_on_device(core: Core) -> Iterations | None:
    """Of traces without the host: annotations as the device saw them, the streams of one as one range."""
    c = core.columns
    ranges, read = _read(core, Kind.DeviceAnnotation)
    if not len(ranges):
        return None
    ranges = ranges[np.lexsort((c.start_ns[ranges], c.device[ranges]))]
    first: list[int] = []
    end: list[int] = []
    for row in ranges.tolist():
        begin, until = int(c.start_ns[row]), int(c.end_ns[row])
        if first and c.device[first[-1]] == c.device[row] and begin < end[-1]:
            # Another stream of the same step, or a range inside it; the next step overlaps by less than half of itself.
            if c.name[first[-1]] == c.name[row] or 2 * (end[-1] - begin) >= until - begin:
                end[-1] = max(end[-1], until)
                continue
            end[-1] = begin
        first.append(row)
        end.append(until)
    rows = np.array(first, np.int64)
    dur = np.array(end, np.int64) - c.start_ns[rows]
    of = membership.on_device(c, rows, dur)
    of[rows] = rows
    return _made(core, rows, dur, [read[int(c.name[row])] for row in first], "annotations on the device", of)


def _read(core: Core, *kinds: Kind) -> tuple[Rows, dict[int, Batch]]:
    """Rows of annotations that describe a batch; codes of their names -> the batch."""
    rows = traversals.rows_of_kind(core.columns, kinds)
    codes = core.columns.name[rows]
    read = {code: batch for code in np.unique(codes).tolist() if (batch := batch_of(core.names[code]))}
    return rows[np.isin(codes, list(read))], read


# --- plain ranges that repeat ----------------------------------------------------------------------------------------

_DIGITS = re.compile(r"\d+")
_OF_FRAMEWORKS = re.compile(
    r"nccl:|gloo:|## Call Compiled|Optimizer\.|enumerate\(DataLoader\)|DistributedDataParallel\."
)


def _named(core: Core) -> Iterations | None:
    """Ranges of one name but for numbers, or of a phase's name, that launch more than half of the GPU work."""
    c = core.columns
    ranges = traversals.rows_of_kind(c, (Kind.Annotation,))
    families: dict[tuple[int, str], list[int]] = {}
    shapes: dict[int, str] = {}
    for row in ranges.tolist():
        code = int(c.name[row])
        if code not in shapes:
            name = core.names[code][:1000]
            is_phase = phase_named(name) != "unknown"
            shapes[code] = "" if _OF_FRAMEWORKS.match(name) else "phase" if is_phase else _DIGITS.sub("#", name)
        if shapes[code]:
            families.setdefault((int(c.thread[row]), shapes[code]), []).append(row)
    best, most = None, core.gpu_sum_ns[core.gpu_rows].sum() / 2
    for rows in (np.array(rows, np.int64) for rows in families.values() if len(rows) >= _LEAST):
        if (c.start_ns[rows[1:]] < c.end_ns[rows[:-1]]).any():
            continue  # they nest
        inside = membership.within(c, rows, c.thread.astype(np.int64))
        time = int(c.dur_ns[core.gpu_rows][inside[core.gpu_rows] >= 0].sum())
        if time > most:
            best, most = rows, time
    if best is None:
        return None
    names = [core.names[code] for code in c.name[best].tolist()]
    batches = [Batch(phase=phase_named(name)) for name in names]
    return _on_host(core, best, c.dur_ns[best], batches, f"ranges named {names[0]:.60}")


# --- calls that repeat -----------------------------------------------------------------------------------------------

_MOST_PERIODS = 8
_DEEPEST = 24


def _repeated(core: Core) -> Iterations | None:
    """From the roots down, the first list of callees that is for more than half a repeated sequence of names."""
    c = core.columns
    most = int(core.gpu_sum_ns[core.gpu_rows].sum())
    for callees in _heavy_lists(core, most / 2):
        found = _period(c.name[callees])
        if found is None:
            continue
        first, period, times = found
        rows = callees[first : first + period * times]
        if 2 * int(core.gpu_sum_ns[rows].sum()) <= most:
            continue
        begin, last = rows[::period], rows[period - 1 :: period]
        dur = np.maximum(c.end_ns[last], c.end_ns[begin]) - c.start_ns[begin]
        name = core.names[int(c.name[begin[0]])]
        return _on_host(core, begin, dur, [Batch()] * len(begin), f"calls that repeat, from {name:.60} on")
    return None


def _heavy_lists(core: Core, least: float) -> Iterator[Rows]:
    """Callees with GPU work of one thread or call that has more than `least` of it, from the roots down."""
    c, weight = core.columns, core.gpu_sum_ns
    host = traversals.rows_of_kind(c, HOST_KINDS)
    host = host[weight[host] > 0]
    roots = host[c.parent[host] < 0]
    roots = roots[np.argsort(c.thread[roots], kind="stable")]
    lists = np.split(roots, np.flatnonzero(np.diff(c.thread[roots])) + 1)
    # By callers, once: looking through all that lies below a call on each level would be quadratic in deep stacks.
    host = host[np.argsort(c.parent[host], kind="stable")]
    callers = c.parent[host]
    for _ in range(_DEEPEST):
        heavy = [rows for rows in lists if weight[rows].sum() > least]
        yield from heavy
        nodes = [row for rows in heavy for row in rows[weight[rows] > least].tolist()]
        lists = [host[slice(*np.searchsorted(callers, (row, row + 1)))] for row in nodes]
        if not any(map(len, lists)):
            return


def _period(names: Codes) -> tuple[int, int, int] | None:
    """Where a sequence of names begins to repeat, its length, and how often: at least thrice, over more than half.

    Periods are tried from the shortest up, those at which equal names follow each other most often.
    """
    count = len(names)
    if count < _LEAST:
        return None
    order = np.argsort(names, kind="stable")
    gaps = np.diff(order)[np.diff(names[order]) == 0]
    periods, often = np.unique(gaps[gaps <= count // _LEAST], return_counts=True)
    periods = np.sort(periods[np.argsort(-often, kind="stable")[:_MOST_PERIODS]])
    for period in periods.tolist():
        equal = np.concatenate(([False], names[period:] == names[:-period], [False]))
        edges = np.flatnonzero(np.diff(equal.astype(np.int8)))
        begin, length = edges[::2], edges[1::2] - edges[::2]
        longest = int(np.argmax(length)) if len(length) else -1
        if longest < 0:
            continue
        times = int(length[longest]) // period + 1
        if times >= _LEAST and 2 * times * period > count:
            return int(begin[longest]), period, times
    return None
