"""Text of a trace made fit to be shown: safe to print, and not too long."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text without anything a terminal would obey: control and invisible characters become visible escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(text: str, width: int) -> str:
    """The first `width` characters, and `...` if there are more."""
    return text if len(text) <= width else text[:width] + "..."
