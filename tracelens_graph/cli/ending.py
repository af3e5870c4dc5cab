"""How the program ends when it is told to, and what it does where a standard stream is closed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = ("SIGTERM", "SIGHUP")


class _Ended(BaseException):
    """A signal told the program to end; nothing but the outermost caller catches it."""


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
        raise _Ended(number)

    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)
    try:
        yield
    except _Ended as ended:
        sys.exit(128 + ended.args[0])
    except SystemExit:
        if told:  # in a place that swallows exceptions, such as the end of an object
            sys.exit(128 + told[0])
        raise


def with_open_streams() -> None:
    """Put something in the place of standard streams that were closed when the program started.

    Without standard error, messages go nowhere; without standard input it is empty; without standard output there is
    nothing to do, and the program ends with exit code 1.
    """
    # In this order, so that each takes the lowest descriptor, which is its own.
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        if sys.stderr is not None:
            print("error: standard output is closed", file=sys.stderr)
        sys.exit(1)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
