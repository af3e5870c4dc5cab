"""Work on many things in as many processes as there are cores.

The processes end with the one that started them, however it ends, and none is left behind when something fails. No
thread is needed to serve them, so where memory is short there is an error, never a standstill.
"""

from __future__ import annotations

import os
import pickle
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tracelens_graph.errors import EndedBySignal, TraceError, TraceLensGraphError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_PATIENCE_S = 1.0
"""How long a process may take to clean up when it is told to end."""


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

    Where the system allows no further processes, all is done in this one.

    Args:
        function: a function of a module, so that it can be sent to a process; errors that it raises are raised here.
        items: what it is called with; can be sent to a process, too.
        processes: how many at most; by default one per core. With one, or for one item, all is done in this process.
        name: what an item is called, for the message if its process is killed.

    Raises:
        TraceError: a process was killed; the message names what it worked on.
    """
    wanted = min(len(items), cores() if processes is None else processes)
    workers: list[_Worker] = []
    try:
        if wanted > 1:
            _start(workers, function, wanted)
        yield from _results(workers, items, name) if workers else map(function, items)
    finally:
        _end(workers)


@dataclass
class _Worker:
    """A process, and the pipe by which it gets items and gives results."""

    process: BaseProcess
    pipe: Connection


def _start(workers: list[_Worker], function: Callable[[Any], Any], wanted: int) -> None:
    """Start as many processes as are wanted, or as the system allows."""
    import multiprocessing

    try:
        while len(workers) < wanted:
            ours, theirs = multiprocessing.Pipe()
            process = multiprocessing.Process(target=_serve, args=(function, theirs))
            try:
                with warnings.catch_warnings():
                    # Python warns of any thread when it forks. The new process uses nothing that a thread may hold.
                    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
                    process.start()
            finally:
                theirs.close()
            workers.append(_Worker(process, ours))
    except (OSError, MemoryError):  # no processes, no descriptors, no memory
        return


def _results(workers: Sequence[_Worker], items: Sequence[_Item], name: Callable[[_Item], str]) -> Iterator[Any]:
    from multiprocessing.connection import wait

    left = deque(range(len(items)))
    idle = [worker.pipe for worker in workers]
    busy: dict[Any, int] = {}
    found: dict[int, tuple[bool, Any]] = {}
    for place in range(len(items)):
        while place not in found:
            try:
                while idle and left:
                    pipe = idle.pop()
                    busy[pipe] = left.popleft()
                    pipe.send(items[busy[pipe]])
                for ready in wait(list(busy)):
                    pipe = cast("Connection", ready)
                    found[busy[pipe]] = pipe.recv()
                    del busy[pipe]
                    idle.append(pipe)
            except (EOFError, ConnectionError):
                what = name(items[busy[pipe]])
                raise TraceError(f"{what}: the process that worked on it was killed, or ran out of memory") from None
        is_result, value = found.pop(place)
        if not is_result:
            raise value
        yield value


def _end(workers: Sequence[_Worker]) -> None:
    """End processes, whatever they do."""
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join(_PATIENCE_S)
        worker.process.kill()
        worker.process.join()
        worker.process.close()
        worker.pipe.close()


# --- in a process --------------------------------------------------------------------------------------------------


def _serve(function: Callable[[Any], Any], pipe: Connection) -> None:
    """Body of a process: a result, or the error, for each item that comes."""
    try:
        signal.signal(signal.SIGTERM, _unwind)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the parent gets it too, and ends this process
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        _watch_the_parent()
        while True:
            item = pipe.recv()
            try:
                outcome = True, function(item)
            except Exception as error:
                outcome = False, portable(error)
            pipe.send(outcome)
    except (EndedBySignal, EOFError, ConnectionError):
        return


def _unwind(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)
    raise EndedBySignal(number)


def portable(error: Exception) -> Exception:
    """The error as it comes out of a pipe; another one with its text if it does not."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return TraceLensGraphError(f"{type(error).__name__}: {error}")
    return error


def _watch_the_parent() -> None:
    """End this process when its parent does."""
    import multiprocessing
    from multiprocessing.connection import wait
    from threading import Event, Thread

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
