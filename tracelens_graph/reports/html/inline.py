"""Views of the page for a notebook: a static table, then the view alone in a frame of its own, with fewer events.

The frame holds its page as text (`srcdoc`), in a sandbox, so that neither can reach the other. Where scripts are
forbidden the table is what stays. Notebooks keep what they show, so each view is small; `save` writes all of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from html import escape
from typing import Any

from tracelens_graph.analyses.performance.roofline_points import MOST_POINTS, RooflinePoints
from tracelens_graph.errors import AnalysisError
from tracelens_graph.output.files import replacing
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import printable

LONGEST_PAGE = 300_000
"""Characters of a page in a notebook. Quoting them for the frame adds a tenth at most."""
_LEAST = 50
"""Events, frames or points of a view that is still one."""

_CLASS = "tracelens-graph-view"
_STYLE = "".join(
    f'[data-jp-theme-light="{is_light}"] .{_CLASS} {{ color-scheme: {scheme} }}'
    for is_light, scheme in (("true", "light"), ("false", "dark"))
)
"""A page in a frame is light or dark as JupyterLab is, whatever the system is."""

Write = Callable[[int], tuple[str, list[str]]]
"""Makes a page of at most so many events, frames, points or rows, and what is to be said of those that are left out."""


class Inline:
    """A view of a trace that shows itself in a notebook.

    Attributes:
        heading: what it shows.
        table: the same as a table.
        height: of the frame, pixels.
        page: the page in the frame.
        notes: what is not drawn in the notebook.
    """

    def __init__(self, heading: str, table: Table, height: int, write: Write, most: int, whole: int) -> None:
        """A view with as much as there is room for: `most` at first, `whole` where it has a file of its own."""
        if not isinstance(height, int) or height < 1:
            raise AnalysisError(f"height is a number of pixels above 0, not {height!r}")
        self.heading = heading
        self.table = table
        self.height = height
        self.page, self.notes = write(most)
        while len(self.page) > LONGEST_PAGE and most > _LEAST:
            most //= 2
            self.page, self.notes = write(most)
        self._write, self._whole = write, whole

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the view as a page of its own, with all events, which any browser opens.

        Raises:
            OutputError: it cannot be written.
        """
        with replacing(path) as file:
            file.write(self._write(self._whole)[0].encode())

    def __repr__(self) -> str:
        return "\n".join((self.heading, repr(self.table), *self.notes))

    def _repr_html_(self) -> str:
        """The table, what is not drawn, and the frame. Nothing in them is markup but their own."""
        notes = "".join(f"<p>{escape(printable(note))}</p>" for note in self.notes)
        heading = escape(printable(self.heading))
        return (
            f"<div><style>{_STYLE}</style>"
            f"<details open><summary>{heading}</summary>{self.table._repr_html_()}</details>{notes}"
            f'<iframe class="{_CLASS}" title="{heading}" sandbox="allow-scripts" allow="clipboard-write" width="100%" '
            f'height="{self.height}" style="border: 0" srcdoc="{escape(self.page)}"></iframe></div>'
        )


class InlineRoofline(Inline):
    """The roofline of a trace, which matplotlib can draw, too."""

    def __init__(
        self, heading: str, table: Table, height: int, write: Write, most: int, points: Callable[[], RooflinePoints]
    ) -> None:
        super().__init__(heading, table, height, write, most, MOST_POINTS)
        self._points = points

    def figure(self) -> Any:
        """The roofline as a `matplotlib.figure.Figure`, to be changed like any other.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        from tracelens_graph.reports.roofline_picture import roofline_picture

        return roofline_picture(self._points(), self.heading)
