"""What the terminal behind a stream can show, and progress on it, for work that takes more than a second."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

WIDTH_OF_PIPES = 100
"""Characters per line where no terminal tells."""

_NARROWEST = 40

_PATIENCE = 1.0
"""Seconds of silence before the first line."""

_INTERVAL = 0.1
"""Seconds between two lines."""


def terminal_width(stream: TextIO) -> int:
    """Characters per line of the terminal behind a stream, or as COLUMNS says."""
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size().columns, _NARROWEST)
    return WIDTH_OF_PIPES


def wants_color(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose user has not asked for plain text (NO_COLOR, TERM=dumb)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class progress_on_terminal:  # noqa: N801 (used like a function)
    """A context that gives a callable (done, total), or None where nobody would see it.

    One line on standard error, rewritten in place, shown after a second, wiped at the end. No thread draws it:
    loading forks a second process, which is safe in a process of one thread only.

    >>> with progress_on_terminal("reading trace.json") as progress:
    ...     load_core("trace.json", progress=progress)

    Args:
        what: what is being done.
        stream: where the line is drawn, by default standard error.
        unit: what is counted; if given, the line tells the rate and the time that is left.
    """

    def __init__(self, what: str, stream: TextIO | None = None, unit: str = "") -> None:
        self._what = what
        self._unit = unit
        self._start = time.monotonic()
        self._stream = stream or sys.stderr
        self._next = self._start + _PATIENCE
        self._drawn = 0

    def __enter__(self) -> Callable[[int, int], None] | None:
        return self._show if self._stream.isatty() else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()

    def _show(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        line = f"{self._what}: {100 * done // max(total, 1)} %"
        if self._unit and done:
            seconds = now - self._start
            left_s = round(seconds * (total - done) / done)
            line += f", {done / seconds:,.0f} {self._unit}/s, {left_s // 60}:{left_s % 60:02} left"
        self._stream.write("\r" + line.ljust(self._drawn))
        self._stream.flush()
        self._drawn = max(self._drawn, len(line))
