"""How the program ends when it is told to, and what it does where a standard stream is closed."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tracelens_graph.cli.interrupts import INTERRUPTED
from tracelens_graph.errors import EndedBySignal

_SIGNALS = ("SIGTERM", "SIGHUP")


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP unwind the stack, so that processes end and temporary files vanish.

    The exit code is 128 and the signal's number, as a shell reports it. A second signal ends the program at once. One
    that is ignored, as under nohup, stays so.
    """

    told: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        told.append(number)
        raise EndedBySignal(number)

    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)
    try:
        yield
    except EndedBySignal as ended:
        sys.exit(128 + ended.args[0])
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except SystemExit:
        if told:  # in a place that swallows exceptions, such as the end of an object
            sys.exit(128 + told[0])
        raise


class _Closed(io.RawIOBase):
    """In the place of standard output where that is closed.

    Attributes:
        has_lost: whether something was written that somebody may have wanted to read.
    """

    def __init__(self) -> None:
        self._null = open(os.devnull, "wb")  # noqa: SIM115
        self.has_lost = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._null.fileno()

    def write(self, data: Any) -> int:
        self.has_lost = True
        return len(data)


@contextmanager
def standard_streams() -> Iterator[None]:
    """Put something in the place of standard streams that were closed when the program started.

    Without standard error, messages go nowhere; without standard input it is empty. Without standard output the work is
    done, too; the exit code is 1 if an answer was lost.
    """
    # In this order, so that each takes the lowest descriptor, which is its own.
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Closed()), "utf-8", line_buffering=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        yield
    except SystemExit as end:
        if not end.code:
            _tell_what_is_lost()
        raise
    _tell_what_is_lost()


def _tell_what_is_lost() -> None:
    if (closed := _closed_stdout()) is not None and closed.has_lost:
        print("error: standard output is closed", file=sys.stderr)
        sys.exit(1)


def printed_messages_only() -> None:
    """Say that all that was printed so far were messages, which nobody has to read: the work is done elsewhere."""
    if (closed := _closed_stdout()) is not None:
        closed.has_lost = False


def _closed_stdout() -> _Closed | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, _Closed):
        return None
    sys.stdout.flush()
    return raw
