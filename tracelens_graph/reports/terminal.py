"""What the terminal behind a stream can show."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

WIDTH_OF_PIPES = 100
"""Characters per line where no terminal tells."""

_NARROWEST = 40


def terminal_width(stream: TextIO) -> int:
    """Characters per line of the terminal behind a stream, or as COLUMNS says."""
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size().columns, _NARROWEST)
    return WIDTH_OF_PIPES


def wants_color(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose user has not asked for plain text (NO_COLOR, TERM=dumb)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
