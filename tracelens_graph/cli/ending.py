"""How the program ends when it is interrupted or asked to; and standard streams that are closed.

This module is the first that the program imports, so it imports next to nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tracelens_graph.errors import EndedBySignal

INTERRUPTED = 130
"""Exit code, as a shell reports it."""

_SIGNALS = ("SIGTERM", "SIGHUP")


def quitting_on_interrupts() -> None:
    """Have Ctrl-C end the program at once and without a word, while there is nothing to clean up."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _quit)


def unwinding_on_interrupts() -> None:
    """Have Ctrl-C raise KeyboardInterrupt from now on."""
    if signal.getsignal(signal.SIGINT) is _quit:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _quit(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


@contextmanager
def ending_on_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP unwind the stack, so that processes end and temporary files vanish.

    The exit code is 128 and the signal's number, as a shell reports it. A second SIGTERM ends the program at once, a
    second SIGHUP does nothing: a terminal that closes sends one, and its shell another. One that is ignored, as under
    nohup, stays so.
    """

    signals: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
        signals.append(number)
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
        if signals:  # in a place that swallows exceptions, such as the end of an object
            sys.exit(128 + signals[0])
        raise


def open_standard_streams() -> None:
    """Have standard streams that were closed when the program started be empty ones, as `/dev/null` is."""
    # In this order, so that each takes the lowest descriptor, which is its own, and no file gets it.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
