"""What GPU events the calls of a group consist of, and which others ran beside them, as list cells of the op tables."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from tracelens_graph.analyses.ops.launchers import OpCalls, busy_by_group
from tracelens_graph.analyses.shared.grouping import Cells, Groups, group_by, text_codes
from tracelens_graph.graph.arrays import distinct_pairs, expanded
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import union_length_by_group

_NAME_CHARACTERS = 64

Details = list[dict[str, Any]]


def details_of_groups(
    found: OpCalls, group: np.ndarray, first: np.ndarray, as_recorded: bool = False
) -> tuple[list[Details], list[str]]:
    """For each group of launchers its GPU events, by their place in the call, the shortest in total first.

    The first call of a group sets the pattern; calls with another number of GPU events are not in the statistics.

    Args:
        group: group of each launcher.
        first: first launcher of each group.
        as_recorded: give durations as the file spells them, whole numbers or with digits below the nanosecond, their
            sums in floating point in the order of calls, and no stream where the file has none.

    Returns:
        A list per group, and notes on calls that are left out.
    """
    size = found.count[first]
    begin = np.concatenate(([0], np.cumsum(size)))
    fits = found.count == size[group]
    kept = fits[found.of]
    owner = found.of[kept]
    place = np.flatnonzero(kept) - found.first[owner]
    detail = begin[group[owner]] + place
    pattern = found.gpu[expanded(found.first[first], found.first[first] + size)[0]]
    if as_recorded:
        entries = _entries_as_recorded(found.core, pattern, detail, found.gpu[kept])
    else:
        times = Groups(detail, found.core.columns.dur_ns[found.gpu[kept]], int(begin[-1]))
        entries = _entries(found.core, pattern, times)
    lists = [
        sorted(entries[low:high], key=lambda entry: entry["total_duration_us"])
        for low, high in zip(begin[:-1].tolist(), begin[1:].tolist(), strict=True)
    ]
    odd = int(np.count_nonzero(~fits))
    notes = [f"{odd:,} calls with another number of GPU events than the first of their row are not in kernel details"]
    return lists, notes if odd else []


def detail_columns(
    found: OpCalls,
    group: np.ndarray,
    first: np.ndarray,
    name: str = "kernel_details_summary",
    *,
    as_recorded: bool = False,
) -> tuple[dict[str, Cells], list[str]]:
    """What the calls of each group consist of, also in short, and notes on what that leaves out."""
    details, notes = details_of_groups(found, group, first, as_recorded)
    return {name: details, "trunc_kernel_details": [truncated(entry, as_recorded) for entry in details]}, notes


def details_of_unlinked(found: OpCalls) -> Details:
    """GPU events without a launch by name and stream, the shortest in total first."""
    c, rows = found.core.columns, found.unlinked
    group, first = group_by(c.name[rows], c.stream[rows])
    entries = _entries(found.core, rows[first], Groups(group, c.dur_ns[rows], len(first)))
    return sorted(entries, key=lambda entry: entry["total_duration_us"])


def truncated(details: Details, as_recorded: bool = False) -> Details:
    """Short names, streams and rounded means of a list of details; means `as_recorded` are rounded as floats."""
    return [
        {
            "name": _shortened(entry["name"]),
            "stream": entry["stream"],
            "mean_duration_us": float(np.round(entry["mean_duration_us"], 2))
            if as_recorded
            else _hundredths(entry["total_duration_us"], entry["count"]),
        }
        for entry in details
    ]


def _hundredths(total_us: float, count: int) -> float:
    """The mean to two places, half a hundredth to the even one: of the exact quotient, which floats seldom hold."""
    return round(Fraction(round(1000 * total_us), 10 * count)) / 100


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else name[:_NAME_CHARACTERS] + "..."


def _entries(core: Core, pattern: np.ndarray, times: Groups) -> Details:
    """An entry per group of durations; `pattern` is a GPU row of each."""
    c = core.columns
    columns = {
        "name": [core.names[i] for i in c.name[pattern].tolist()],
        "stream": [stream if stream >= 0 else None for stream in c.stream[pattern].tolist()],
        "count": times.count.tolist(),
        "total_duration_us": (times.sum / 1e3).tolist(),
        "mean_duration_us": (times.mean / 1e3).tolist(),
        "median_duration_us": (times.median / 1e3).tolist(),
        "std_dev_duration_us": (times.std(ddof=0) / 1e3).tolist(),
        "min_duration_us": (times.min / 1e3).tolist(),
        "max_duration_us": (times.max / 1e3).tolist(),
    }
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _entries_as_recorded(core: Core, pattern: np.ndarray, detail: np.ndarray, gpu: np.ndarray) -> Details:
    """As `_entries`, of GPU rows `gpu` in the entries `detail`."""
    c, (us, has_streams) = core.columns, core.once(_as_recorded)
    place = np.argsort(detail, kind="stable")
    us = us[np.searchsorted(core.gpu_rows, gpu[place])]
    ends = np.cumsum(np.bincount(detail, minlength=len(pattern))).tolist()
    parts = (us[begin:end] for begin, end in pairwise([0, *ends]))
    return [
        {
            "name": core.names[c.name[row]],
            "stream": int(c.stream[row]) if has_streams else None,
            "count": len(part),
            "total_duration_us": part.sum().item(),
            "mean_duration_us": part.mean().item(),
            "median_duration_us": float(np.median(part)),
            "std_dev_duration_us": part.std().item(),
            "min_duration_us": part.min().item(),
            "max_duration_us": part.max().item(),
        }
        for row, part in zip(pattern.tolist(), parts, strict=True)
    ]


_LOOKED_AT = 64
"""GPU events that show how a file spells durations, and whether it has streams."""


def has_streams(core: Core) -> bool:
    """Whether GPU events say which stream they ran on; else the number of their thread stands for it."""
    return core.once(_as_recorded)[1]


def _as_recorded(core: Core) -> tuple[np.ndarray, bool]:
    """Durations of all GPU events in us, in the order of `gpu_rows`, and whether the file has streams."""
    c, rows = core.columns, core.gpu_rows
    looked_at = list(core.details.events(c.uid[rows[:_LOOKED_AT]].tolist()).values())
    streams = not looked_at or any("stream" in (event.get("args") or {}) for event in looked_at)
    spelled = [event["dur"] for event in looked_at if "dur" in event]
    us = c.dur_ns[rows] / 1e3
    if spelled and all(isinstance(dur, int) for dur in spelled) and not (c.dur_ns[rows] % 1000).any():
        return c.dur_ns[rows] // 1000, streams
    if any(isinstance(dur, float) and round(dur, 3) != dur for dur in spelled):
        events = core.details.events(c.uid[rows].tolist())
        us = np.array(
            [
                _number(events.get(uid, {}).get("dur"), at)
                for uid, at in zip(c.uid[rows].tolist(), us.tolist(), strict=True)
            ]
        )
    return us, streams


def _number(dur: Any, otherwise: float) -> float:
    return float(dur) if isinstance(dur, int | float) else otherwise


SHORTEST_NS = 1000
"""Shorter overlaps are chance."""

MOST_AT_ONCE = 128
"""Kernels that a GPU runs at one time; where a trace has more, those that start last are not compared."""

_PAIRS = 4_000_000


@dataclass
class Overlap:
    """What ran beside each launcher.

    Attributes:
        found: the launchers.
        beside: pairs (launcher, GPU row that ran beside it), each once, by launcher.
        share: per launcher the share (0 to 1) of its busy time during which one of them ran.
        names: per launcher the names of what ran beside it, one for each GPU event, in the order of the file.
    """

    found: OpCalls
    beside: np.ndarray
    share: np.ndarray

    def __post_init__(self) -> None:
        core, (number, event) = self.found.core, self.beside.T
        order = np.lexsort((core.columns.uid[event], number))
        names: list[list[str]] = [[] for _ in range(len(self.found))]
        for one, name in zip(number[order].tolist(), core.columns.name[event[order]].tolist(), strict=True):
            names[one].append(core.names[name])
        self.names: list[list[str]] = names
        self.names_code = text_codes([tuple(each) for each in names])

    def details(self, group: np.ndarray, groups: int) -> dict[str, Cells]:
        """List cells per group of launchers: the kernels that ran beside, by name and stream, the shortest first."""
        c = self.found.core.columns
        event = self.beside[:, 1]
        of = group[self.beside[:, 0]]
        key, first = group_by(of, c.name[event], c.stream[event])
        times = Groups(key, c.dur_ns[event], len(first))
        lists: list[list[dict[str, Any]]] = [[] for _ in range(groups)]
        for i, at in enumerate(first.tolist()):
            lists[int(of[at])].append(
                {
                    "name": self.found.core.names[c.name[event[at]]],
                    "stream": int(c.stream[event[at]]),
                    "count": int(times.count[i]),
                    "total_duration_us": float(times.sum[i] / 1e3),
                    "mean_duration_us": float(times.mean[i] / 1e3),
                }
            )
        for entries in lists:
            entries.sort(key=lambda entry: entry["total_duration_us"])
        return {
            "overlapping_kernels_details_summary": lists,
            "trunc_overlapping_kernels_details": [truncated(entries) for entries in lists],
        }


def overlap(found: OpCalls) -> Overlap:
    """Find what ran beside the GPU events of launchers: events of others on other streams, for 1 us or more.

    Of events that all run at one time MOST_AT_ONCE are looked at, so that the pairs stay few.
    """
    c = found.core.columns
    by_start = np.argsort(c.start_ns[found.gpu], kind="stable")
    gpu, of = found.gpu[by_start], found.of[by_start]
    compared = _first_to_run(c.start_ns[gpu], c.end_ns[gpu])
    gpu, of = gpu[compared], of[compared]
    start, end = c.start_ns[gpu], c.end_ns[gpu]
    # Streams begin at -1, so there are two more of them than the greatest number says.
    lane = c.device[gpu].astype(np.int64) * (int(c.stream.max(initial=0)) + 2) + c.stream[gpu]
    # The later of two overlapping events starts before the earlier one ends.
    last = np.searchsorted(start, end - SHORTEST_NS, "right")
    count = np.maximum(last - np.arange(len(gpu)) - 1, 0)
    found_pairs = []
    for block in _blocks(count):
        later, of_block = expanded(block + 1, block + 1 + count[block])
        earlier = block[of_block]
        shared = np.minimum(end[earlier], end[later]) - start[later]
        fits = (shared >= SHORTEST_NS) & (lane[earlier] != lane[later]) & (of[earlier] != of[later])
        found_pairs.append(np.stack((earlier[fits], later[fits]), axis=1))
    pairs = np.concatenate([*found_pairs, np.zeros((0, 2), np.int64)])
    both = np.concatenate((pairs, pairs[:, ::-1]))
    beside = np.stack(distinct_pairs(of[both[:, 0]], gpu[both[:, 1]]), axis=1)
    # What is covered of an op: the unions of the overlaps of its events.
    low = np.maximum(start[both[:, 0]], start[both[:, 1]])
    high = np.minimum(end[both[:, 0]], end[both[:, 1]])
    covered = union_length_by_group(of[both[:, 0]], low, high, len(found))
    busy = busy_by_group(found.core, found.gpu, found.of, len(found))
    return Overlap(found, beside, np.divide(covered, busy, out=np.zeros(len(found)), where=busy > 0))


def _first_to_run(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Positions of events (by start) without those that start while MOST_AT_ONCE of the others run."""
    running = np.arange(1, len(start) + 1) - np.searchsorted(np.sort(end), start, "right")
    # The heap below goes event by event; counting who runs at each start shows whether it is needed at all.
    if not len(start) or int(running.max()) <= MOST_AT_ONCE:
        return np.arange(len(start))
    kept, until = [], [int(start[0])] * MOST_AT_ONCE  # a heap of when the places become free
    for position, (begins, ends) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if until[0] <= begins:
            heapq.heapreplace(until, ends)
            kept.append(position)
    return np.array(kept, np.int64)


def _blocks(count: np.ndarray) -> list[np.ndarray]:
    """Positions in blocks that make a bounded number of pairs each."""
    number = np.cumsum(count) // _PAIRS
    edges = np.flatnonzero(np.diff(number)) + 1
    return np.split(np.arange(len(count)), edges)
