"""Progress on a terminal, for work that takes more than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

_PATIENCE = 1.0
"""Seconds of silence before the first line."""

_INTERVAL = 0.1
"""Seconds between two lines."""


class progress_on_terminal:  # noqa: N801 (used like a function)
    """A context that gives a callable (done, total), or None where nobody would see it.

    One line on standard error, rewritten in place, shown after a second, wiped at the end. No thread draws it:
    loading forks a second process, which is safe in a process of one thread only.

    >>> with progress_on_terminal("reading trace.json") as progress:
    ...     load_core("trace.json", progress=progress)
    """

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self._next = time.monotonic() + _PATIENCE
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
        self._stream.write("\r" + line.ljust(self._drawn))
        self._stream.flush()
        self._drawn = max(self._drawn, len(line))
