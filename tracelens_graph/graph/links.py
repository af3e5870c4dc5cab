"""GPU events and their launches: by correlation id, and by flow arrows only where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracelens_graph.graph.flows import Flow
from tracelens_graph.utils.arrays import Ns

DEPENDENCY_ID = 2**40
"""Flow ids from here on are dependencies between GPU events, never launches."""


def link_by_correlation(
    call_correlation: np.ndarray, call_start: Ns, gpu_correlation: np.ndarray, gpu_start: Ns
) -> np.ndarray:
    """For each GPU event the position of the runtime call with its correlation id, -1 without one.

    Where several calls share an id (several processes in one file, ids used again), the latest call that began
    before the GPU event is taken, else the earliest.
    """
    found = np.full(len(gpu_correlation), -1, np.int64)
    calls = np.flatnonzero(call_correlation != -1)
    wanted = np.flatnonzero(gpu_correlation != -1)
    if not len(calls) or not len(wanted):
        return found
    calls = calls[np.lexsort((call_start[calls], call_correlation[calls]))]
    ids = call_correlation[calls]
    lo = np.searchsorted(ids, gpu_correlation[wanted], "left")
    hi = np.searchsorted(ids, gpu_correlation[wanted], "right")
    known = hi > lo
    wanted, pick, several = wanted[known], lo[known], (hi - lo > 1)[known]
    if several.any():
        asked = wanted[several]
        pick[several] = np.maximum(
            pick[several], _begun(ids, call_start[calls], gpu_correlation[asked], gpu_start[asked]) - 1
        )
    found[wanted] = calls[pick]
    return found


def _begun(ids: np.ndarray, start: Ns, id_asked: np.ndarray, at: Ns) -> np.ndarray:
    """For each id and instant how many calls stand before it, of calls by id and start; one at the instant does."""
    is_asked = np.repeat((False, True), (len(ids), len(id_asked)))
    order = np.lexsort((is_asked, np.concatenate((start, at)), np.concatenate((ids, id_asked))))
    begun = np.empty(len(order), np.int64)
    begun[order] = np.cumsum(~is_asked[order])
    return begun[len(ids) :]


def link_by_flow(
    flows: Sequence[Flow],
    call_at: dict[tuple[int, int], int],
    gpu_at: dict[tuple[int, int], list[int]],
) -> dict[int, int]:
    """GPU event -> runtime call, for events that only an arrow joins.

    Args:
        flows: both ends of the arrows.
        call_at: (thread, start in ns) -> position of a runtime call without a usable correlation id.
        gpu_at: (thread, start in ns) -> positions of GPU events without one.
    """
    starts: dict[Any, int] = {}
    for phase, key, thread, time in flows:
        if phase == "s" and not _is_dependency(key) and (thread, time) in call_at:
            starts[key] = call_at[thread, time]
    linked: dict[int, int] = {}
    for phase, key, thread, time in flows:
        if phase == "f" and key in starts:
            for position in gpu_at.get((thread, time), ()):
                linked.setdefault(position, starts[key])
    return linked


def dependencies(
    flows: Sequence[Flow], gpu_thread: np.ndarray, gpu_start: Ns, device_threads: set[int]
) -> list[tuple[int, int]]:
    """(successor, predecessor) positions of GPU events joined by arrows from device to device.

    An arrow starts at the end of the predecessor and finishes at the start of its successor.
    """
    starts = {key: (thread, time) for phase, key, thread, time in flows if phase == "s" and thread in device_threads}
    if not starts:
        return []
    order = np.lexsort((gpu_start, gpu_thread))
    threads, begin = gpu_thread[order], gpu_start[order]

    def latest(thread: int, time: int, inclusive: bool) -> int:
        lo, hi = np.searchsorted(threads, (thread, thread + 1))
        at = lo + np.searchsorted(begin[lo:hi], time, "right" if inclusive else "left") - 1
        return int(order[at]) if at >= lo else -1

    pairs = set()
    for phase, key, thread, time in flows:
        if phase == "f" and key in starts and thread in device_threads:
            before = latest(*starts[key], inclusive=False)
            after = latest(thread, time, inclusive=True)
            if before >= 0 and after >= 0 and before != after:
                pairs.add((after, before))
    return sorted(pairs)


def _is_dependency(key: Any) -> bool:
    try:
        return int(key) >= DEPENDENCY_ID
    except (TypeError, ValueError):
        return False
