"""Graphs and windows draw the views of a report's page in notebooks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.reports.html.inline import Inline, InlineRoofline
    from tracelens_graph.tables.table import Table

By = Literal["module", "op", "line", "kernel"]


class Drawing:
    """What a graph, and a window of it, draw of themselves. The code of pages is imported when one is asked for."""

    def flame(self, by: By = "module", *, step: int | Iterable[int] | None = None, height: int = 420) -> Inline:
        """GPU time as a flame graph that a notebook shows inline.

        Frames are merged by name, from the outside inwards; every GPU event is in one of them.

        Args:
            by: "module" (forward and backward apart, then op and kernel), "op", "line" of Python, or "kernel" (by
                category).
            step: number of a step, or several; of other parts of the trace, draw a `window`.
            height: of the frame that it is drawn in, pixels.

        Returns:
            What shows itself; `save(path)` writes it as a page.

        Raises:
            AnalysisError: there is nothing to go by, or no such step, or the graph tells no times.
        """
        from tracelens_graph.reports.html import inline

        return inline.flame(self, by, step=step, height=height)  # type: ignore[arg-type]

    def timeline(
        self, *, step: int | Iterable[int] | None = None, height: int = 480, events: int | None = None
    ) -> Inline:
        """Threads, launches, streams and idle gaps over time, which a notebook shows inline.

        Args:
            step: number of a step, or several; of other parts of the trace, draw a `window`.
            height: of the frame that it is drawn in, pixels.
            events: the most events that are drawn, the longest; None for `inline.MOST_EVENTS`.

        Returns:
            What shows itself; `save(path)` writes it as a page, with all events.

        Raises:
            AnalysisError: there is no such step, or the graph tells no times.
        """
        from tracelens_graph.reports.html import inline

        most = inline.MOST_EVENTS if events is None else events
        return inline.timeline(self, step=step, height=height, events=most)  # type: ignore[arg-type]

    def roofline(
        self,
        *,
        step: int | Iterable[int] | None = None,
        arch: Architecture | str | os.PathLike[str] | Mapping[str, Any] | None = None,
        height: int = 700,
    ) -> InlineRoofline:
        """Operations by their arguments under the roofs of a device, which a notebook shows inline.

        Args:
            step: number of a step, or several; of other parts of the trace, draw a `window`.
            arch: the device, or what `architecture` takes; None for that of the trace.
            height: of the frame that it is drawn in, pixels.

        Returns:
            What shows itself; `save(path)` writes it as a page, `figure()` gives it as a figure of matplotlib.

        Raises:
            AnalysisError: the device is not known, or there is no such step, or the graph tells no times.
        """
        from tracelens_graph.reports.html import inline

        return inline.roofline(self, step=step, arch=arch, height=height)  # type: ignore[arg-type]

    def grid(
        self, *wanted: str | Table | pd.DataFrame, step: int | Iterable[int] | None = None, height: int = 420
    ) -> Inline:
        """Tables that a notebook shows inline, to sort, filter and copy.

        Args:
            wanted: names of tables of a report (`report_tables`), tables that functions gave, or DataFrames; none
                for all that the report has.
            step: number of a step, or several, for tables that are named; of other parts of the trace, draw a
                `window`.
            height: of the frame that it is drawn in, pixels.

        Returns:
            What shows itself; `save(path)` writes it as a page.

        Raises:
            AnalysisError: there is no such table or step, or the graph tells no times.
        """
        from tracelens_graph.reports.html import inline

        return inline.grid(self, *wanted, step=step, height=height)  # type: ignore[arg-type]
