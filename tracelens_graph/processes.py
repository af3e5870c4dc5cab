"""Work on many things in as many processes as there are cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_processes(
    function: Callable[[_Item], _Result], items: Sequence[_Item], processes: int | None = None
) -> Iterator[_Result]:
    """`function` of each item, in their order, each as soon as it and those before it are done.

    Args:
        function: a function of a module, so that it can be sent to a process; errors that it raises are raised here.
        items: what it is called with; can be sent to a process, too.
        processes: how many at most; by default one per core. With one, or for one item, all is done in this process.
    """
    workers = min(len(items), cores() if processes is None else processes)
    if workers < 2:
        yield from map(function, items)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(workers) as pool:
        try:
            yield from pool.map(function, items)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
