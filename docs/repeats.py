"""What several tables of a page have in common is written once: later tables name the rows, and where they stand."""

from __future__ import annotations

from collections.abc import Sequence

Row = tuple[str, ...]
"""Cells of a row; the first is its name."""


class Repeats:
    """The rows that tables of a page show in full.

    Args:
        least: so many rows in common with one earlier table are worth a reference to it.
    """

    def __init__(self, least: int = 3) -> None:
        self._least = least
        self._shown: dict[str, list[Row]] = {}

    def split(self, heading: str, rows: Sequence[Row]) -> tuple[list[Row], str]:
        """The rows that the table below a heading has to show, and a sentence on those that an earlier one shows."""
        source, common = "", list[Row]()
        for earlier, shown in self._shown.items():
            found = [row for row in rows if row in shown]
            if len(found) >= max(self._least, len(common) + 1):
                source, common = earlier, found
        self._shown[heading] = own = [row for row in rows if row not in common]
        anchor = source.strip("`").lower().replace(" ", "-")
        return own, f"As in [{source}](#{anchor}): {', '.join(row[0] for row in common)}.\n" if common else ""
