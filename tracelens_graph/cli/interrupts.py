"""What Ctrl-C does: it ends the program at once while it imports itself, and unwinds the stack when it works.

This module is the first that the program imports, so it imports next to nothing.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 130
"""Exit code, as a shell reports it."""


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
