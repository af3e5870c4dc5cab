"""What several tables of a page have in common is written once: later tables name the rows, and where they stand."""

from __future__ import annotations

from collections.abc import Sequence

Row = tuple[str, ...]
"""Cells of a row; the first is its name."""


class Repeats:
    """The rows that tables of a page show in full.

    Args:
        least: rows in common with one earlier table are worth a reference to it from so many words on.
    """

    def __init__(self, least: int = 10) -> None:
        self._least = least
        self._shown: dict[str, list[Row]] = {}

    def split(self, heading: str, rows: Sequence[Row]) -> tuple[list[Row], str]:
        """The rows that the table below a heading has to show, and sentences on those that earlier ones show."""
        own, said = [*rows], []
        while own:
            found = {earlier: [row for row in own if row in shown] for earlier, shown in self._shown.items()}
            words = {earlier: sum(len(cell.split()) for row in rows for cell in row) for earlier, rows in found.items()}
            source = max(words, key=lambda earlier: words[earlier], default="")
            if not source or words[source] < self._least:
                break
            names = ", ".join(row[0] for row in found[source])
            said.append(f"As in [{source}](#{source.lower().replace(' ', '-')}): {names}.")
            own = [row for row in own if row not in found[source]]
        self._shown[heading] = own
        return own, "\\\n".join(said) + "\n" if said else ""
