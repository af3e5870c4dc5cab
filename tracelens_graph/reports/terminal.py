"""What the terminal behind a stream can show."""

from __future__ import annotations

import os
import shutil
from typing import TextIO


def terminal_width(stream: TextIO) -> int | None:
    """Characters per line of the terminal behind a stream, or as COLUMNS says; None where lines have no limit."""
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
    return None


def wants_color(stream: TextIO) -> bool:
    """Whether a stream is a terminal whose user has not asked for plain text (NO_COLOR, TERM=dumb)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
