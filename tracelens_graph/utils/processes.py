"""Work on many things in as many processes as there are cores.

The processes end with the one that started them, however it ends, and none is left behind when something fails.
"""

from __future__ import annotations

import os
import pickle
import signal
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

from tracelens_graph.errors import EndedBySignal, KilledProcessError, TraceError, TraceLensGraphError

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_PATIENCE_S = 1.0
"""How long a process may take to clean up when it is asked to end."""


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_processes(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    processes: int | None = None,
    name: Callable[[_Item], str] = str,
) -> Iterator[_Result]:
    """`function` of each item, in their order, each as soon as it and those before it are done.

    Where the system allows no further processes, all is done in this one. What a process that was killed worked on is
    done again, once.

    Args:
        function: a function of a module, so that it can be sent to a process; errors that it raises are raised here.
        items: what it is called with; can be sent to a process, too.
        processes: how many at most; by default one per core. With one, or for one item, all is done in this process.
        name: what an item is called, for the message if its process is killed.

    Raises:
        TraceError: a process was killed again and again; the message names what was worked on.
    """
    done, killed_at = 0, -1
    wanted = min(len(items), cores() if processes is None else processes)
    while done < len(items):
        try:
            with closing(_mapped(function, items[done:], wanted)) as results:
                for found in results:
                    done += 1
                    yield found
        except KilledProcessError as killed:
            if killed_at == done:
                what = f"the process that worked on {'it' if len(killed.args[0]) == 1 else 'one of them'}"
                named = ", ".join(map(name, killed.args[0]))
                raise TraceError(f"{named}: {what} was killed, or ran out of memory") from None
            killed_at = done


def _mapped(
    function: Callable[[_Item], _Result], items: Sequence[_Item], wanted: int
) -> Generator[_Result, None, None]:
    if wanted < 2:
        yield from map(function, items)
        return
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children

    others = set(active_children())
    pool: ProcessPoolExecutor | None = None
    work: deque[tuple[_Item, Future[_Result | _Failure]]] = deque()
    try:
        try:
            pool = _started(wanted)
        except (OSError, MemoryError, RuntimeError):  # no processes, no descriptors, no memory, no threads
            yield from map(function, items)
            return
        left = deque(items)
        while left or work:
            # No more than there are processes, so that a process that is killed worked on one of them.
            while left and sum(not future.done() for _, future in work) < wanted:
                item = left.popleft()
                work.append((item, pool.submit(_outcome, function, item)))
            found = work[0][1].result()
            work.popleft()
            if isinstance(found, _Failure):
                raise found.error
            yield found
    except BrokenProcessPool:
        raise KilledProcessError([item for item, future in work if not future.done() or future.exception()]) from None
    finally:
        for child in set(active_children()) - others:
            child.terminate()
            child.join(_PATIENCE_S)
            child.kill()
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _started(wanted: int) -> ProcessPoolExecutor:
    """A pool whose processes run.

    Raises:
        OSError, MemoryError, RuntimeError: the system does not allow it.
    """
    from concurrent.futures import ProcessPoolExecutor

    _start_threads(4)
    pool = ProcessPoolExecutor(wanted, initializer=_prepare)
    with warnings.catch_warnings():
        # Python warns of any thread when it forks. The new process uses nothing that a thread may hold.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        pool.submit(cores)
    return pool


def _start_threads(count: int) -> None:
    """Start and end threads, more than a pool has: one that lacks a thread of its own waits without an end.

    Raises:
        RuntimeError: there is no memory for them.
    """
    from threading import Event, Thread

    done, threads = Event(), []
    try:
        for _ in range(count):
            thread = Thread(target=done.wait, daemon=True)
            thread.start()
            threads.append(thread)
    finally:
        done.set()
        for thread in threads:
            thread.join()


# --- in a process --------------------------------------------------------------------------------------------------


class _Failure:
    """An error on its way to the process that asked."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _outcome(function: Callable[[_Item], _Result], item: _Item) -> _Result | _Failure:
    signal.signal(signal.SIGTERM, _unwind)
    try:
        return function(item)
    except EndedBySignal:
        os._exit(1)
    except Exception as error:
        return _Failure(portable(error))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def portable(error: Exception) -> Exception:
    """The error as it comes out of a pipe; another one with its text if it does not."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return TraceLensGraphError(f"{type(error).__name__}: {error}")
    return error


def _prepare() -> None:
    """End this process with its parent, and only then where a terminal interrupts both."""
    import multiprocessing
    from multiprocessing.connection import wait
    from threading import Event, Thread

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        Event().wait(_PATIENCE_S)
        os._exit(1)

    try:
        Thread(target=watch, daemon=True).start()
    except RuntimeError:  # no memory for a thread: this process ends with its next result, which nobody takes
        return


def _unwind(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise EndedBySignal(number)
