"""Work on many files on the workers of a Dask scheduler, which may run on other machines.

Workers need to see the files under the same paths and to run the same version of this package. A worker that dies
takes its results with it: those that were not fetched yet are computed again by another one. Dask gives up a task after
several workers died with it, whichever task of theirs was to blame. So such a task gets a second try, alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from tracelens_graph._version import __version__
from tracelens_graph.errors import ClusterError, MissingExtraError, TraceError
from tracelens_graph.utils.processes import portable

if TYPE_CHECKING:
    from distributed import Client
    from tornado.ioloop import IOLoop

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

CONNECT_S = 10.0
"""How long a scheduler may take to answer."""

WORKERS_S = 30.0
"""How long a scheduler may be without workers. One that died is back within seconds if it has a nanny."""

_POLL_S = 0.05
"""Seconds between two looks for results."""

_ASK_S = 1.0
"""Seconds without a result after which the scheduler is asked whether it has workers."""

_NAMED = 3
"""How many workers a message names."""


def map_on_workers(
    function: Callable[[_Item], _Result], items: Mapping[str, _Item], scheduler: str
) -> Iterator[tuple[str, _Result | TraceError]]:
    """`function` of each item, computed by the workers of a Dask scheduler, each as soon as it is there.

    Args:
        function: a function of a module, so that it can be sent to a worker; errors that it raises are raised here.
        items: path of a file -> the item that stands for it; can be sent to a worker, too.
        scheduler: address of the scheduler, such as `tcp://node1:8786`.

    Returns:
        Path and result. The result is an error if the worker does not see the file, or if workers die of it.

    Raises:
        ClusterError: the scheduler cannot be reached or was lost, has no workers, or they have another version.
        MissingExtraError: the extra `dask` is not installed.
    """
    if not items:
        return
    with _connected(scheduler) as client:
        from distributed.scheduler import KilledWorker

        _check_workers(client, scheduler)
        deadly = []
        for file, result in _computed(client, scheduler, function, items):
            if isinstance(result, KilledWorker):
                deadly.append(file)
            else:
                yield file, result
        for again in deadly:
            for file, result in _computed(client, scheduler, function, {again: items[again]}):
                if isinstance(result, KilledWorker):
                    result = TraceError(f"{file}: workers die of it, over and over; they may lack memory")
                yield file, result


@contextmanager
def _connected(scheduler: str) -> Iterator[Client]:
    """A client of a scheduler, with the loggers of Dask silenced: they print a traceback per lost connection."""
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtraError("distributed", "dask") from None
    with _silenced("distributed", "tornado"):
        try:
            client = Client(scheduler, timeout=CONNECT_S, set_as_default=False, loop=_event_loop())
        except (OSError, ValueError, ImportError, TypeError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ClusterError(f"{scheduler}: no Dask scheduler answers: {reason}") from None
        try:
            yield client
        finally:
            with suppress(OSError):  # also one that was lost already
                client.close()


@cache
def _event_loop() -> IOLoop:
    """The event loop of all clients, in a thread of its own.

    A client would start one itself, but it gives up on a machine too busy to start a thread within ten seconds, and
    leaves the loop running where no scheduler answers.
    """
    from tornado.ioloop import IOLoop

    running: Future[IOLoop] = Future()

    async def forever() -> None:
        running.set_result(IOLoop.current())
        await asyncio.Event().wait()

    def run() -> None:
        try:
            asyncio.run(forever())
        except OSError as error:  # no file descriptor is left
            running.set_exception(error)

    threading.Thread(target=run, name="Dask client", daemon=True).start()
    return running.result()


@contextmanager
def _silenced(*packages: str) -> Iterator[None]:
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in packages]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in levels:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _check_workers(client: Client, scheduler: str) -> None:
    """Wait for workers, and refuse those with another version of this package."""

    def version() -> str:  # sent as code: a worker may lack this module
        try:
            from tracelens_graph._version import __version__
        except ImportError:
            return "none"
        return __version__

    try:
        client.wait_for_workers(1, timeout=WORKERS_S)
        found = client.run(version, on_error="return")
    except TimeoutError:
        raise ClusterError(f"{scheduler}: the scheduler has no workers") from None
    except OSError:
        raise _lost(scheduler) from None
    others = [f"{worker} has {there}" for worker, there in found.items() if there != __version__]
    if others:
        raise _other_version(scheduler, __version__, others)


def _other_version(scheduler: str, wanted: str, others: Sequence[str]) -> ClusterError:
    more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
    return ClusterError(
        f"{scheduler}: workers need tracelens_graph {wanted}, as here: {', '.join(others[:_NAMED])}{more}"
    )


def _lost(scheduler: str) -> ClusterError:
    return ClusterError(f"{scheduler}: the connection to the Dask scheduler was lost")


def _computed(
    client: Client, scheduler: str, function: Callable[[_Item], _Result], items: Mapping[str, _Item]
) -> Iterator[tuple[str, Any]]:
    """File and result, as they are computed; `KilledWorker` for a file that Dask gave up."""
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    count = len(items)
    paths = [os.path.abspath(file) for file in items]
    futures = client.map(_call, [__version__] * count, [function] * count, paths, list(items.values()), pure=False)
    file_of = dict(zip((future.key for future in futures), items, strict=True))
    done = as_completed(futures, loop=client.loop, with_results=True, raise_errors=False)
    del futures  # a future that someone holds keeps its result on the worker
    while not done.is_empty():
        for future, answer in _next_batch(client, scheduler, done):
            file = file_of[future.key]
            future.release()
            if isinstance(answer, _Answer):
                if answer.error is not None:
                    raise answer.error
                yield file, answer.result
                continue
            # Not known by the state of the future: that is "lost" when its worker dies, even if the result is here.
            if not isinstance(answer, tuple):  # cancelled
                raise _lost(scheduler)
            _, error, _ = answer
            if not isinstance(error, KilledWorker):
                raise _explained(error, scheduler) from None
            yield file, error


def _next_batch(client: Client, scheduler: str, done: Any) -> list[tuple[Any, Any]]:
    """Results that are there; waits for one as long as there are workers."""
    asked = seen = time.monotonic()
    while not (batch := done.next_batch(block=False)):
        time.sleep(_POLL_S)
        now = time.monotonic()
        if now - asked < _ASK_S:
            continue
        asked = now
        try:
            seen = now if client.nthreads() else seen
        except OSError:
            raise _lost(scheduler) from None
        if now - seen > WORKERS_S:
            raise ClusterError(f"{scheduler}: the scheduler has no workers any more")
    found: list[tuple[Any, Any]] = batch
    return found


def _explained(error: BaseException, scheduler: str) -> BaseException:
    """What a task raised, or an error on the version where a worker lacks modules of this package."""
    if isinstance(error, ImportError) and (error.name or "").startswith("tracelens_graph"):
        return _other_version(scheduler, __version__, [f"on one of them: {error}"])
    return error


# --- on a worker ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Answer:
    """What a task gives, separated by its type from what Dask gives instead.

    Attributes:
        result: of the function.
        error: what it raised instead.
    """

    result: Any = None
    error: Exception | None = None


def _call(version: str, function: Callable[[_Item], _Result], path: str, item: _Item) -> _Answer:
    """Body of a task."""
    from distributed import get_worker

    worker = get_worker()
    if version != __version__:  # it joined after the others were asked
        return _Answer(error=_other_version(worker.scheduler.address, version, [f"{worker.address} has {__version__}"]))
    if not os.path.exists(path):
        return _Answer(TraceError(f"{path}: the worker {worker.address} does not see it"))
    try:
        return _Answer(function(item))
    except Exception as error:
        return _Answer(error=portable(error))
