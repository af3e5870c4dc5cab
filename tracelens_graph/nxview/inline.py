"""Graphs and windows show the first screen of their report, and draw the views of its page in notebooks."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from tracelens_graph.analyses.diagnosis.finding import Verdict
from tracelens_graph.reports.document import Facts, facts
from tracelens_graph.reports.report_text import first_screen, heading

if TYPE_CHECKING:
    import pandas as pd

    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.reports.html.inline import Inline, InlineRoofline
    from tracelens_graph.tables.table import Table

By = Literal["module", "op", "line", "kernel", "host"]


@dataclass(frozen=True, repr=False)
class FirstScreen:
    """What `tracelens-graph report` begins with: it shows itself, as text and in notebooks.

    Attributes:
        about: the trace and the part of it.
        verdict: what kind of run it is, what its time went to, and what to try.
        spent: what the time went to: the parts that the verdict goes by.
        largest: the table `top_ops`: the operations that take most of the GPU time; without any, `host_times`.
        source: path of the trace, for the commands below findings.
    """

    about: Facts
    verdict: Verdict
    spent: Table
    largest: Table
    source: str

    def __repr__(self) -> str:
        width = shutil.get_terminal_size((100, 0)).columns
        return first_screen(self.about, self.verdict, self.spent, [self.largest], (), self._complete, (), width, False)

    def _repr_html_(self) -> str:
        tables = self.spent._repr_html_() + self.largest._repr_html_()
        return f"<p><b>{escape(heading(self.about))}</b></p>{self.verdict._repr_html_()}{tables}"

    def _complete(self, command: str) -> str:
        return _completed(command, self.source)


def _completed(command: str, source: str) -> str:
    """A command with the path of the trace, where it was read from a file."""
    return command if source.startswith("<") else command.replace("TRACE", shlex.quote(source or "TRACE"))


class Drawing:
    """What a graph, and a window of it, show of themselves. The code of pages is imported when one is asked for."""

    def verdict(self, arch: Architecture | None = None) -> Verdict:
        """What kind of run this is, what its time went to, and what to try; see `analyses.diagnosis.verdict.verdict`.

        Args:
            arch: the device that rates are compared with (`architecture`); None for the one that the trace describes.
        """
        from tracelens_graph.analyses.diagnosis.verdict import verdict
        from tracelens_graph.graph.window import window_of

        w = window_of(self)  # type: ignore[arg-type]
        source = w.core.info.source
        return Verdict(replace(one, ask_next=_completed(one.ask_next, source)) for one in verdict(w, arch))

    def report(self, arch: Architecture | None = None, *, top: int = 5) -> FirstScreen:
        """The first screen of a report: verdict, where the time went, and the operations with most GPU time.

        Where the file begins with GPU work of the step before, it is of the steps alone.

        `tables` has all tables of a report, `report_tables` those with other options.

        Args:
            arch: as `verdict` takes it.
            top: operations that are listed.
        """
        from tracelens_graph.analyses.diagnosis.account import time_spent
        from tracelens_graph.analyses.diagnosis.outside_steps import steps_alone
        from tracelens_graph.analyses.diagnosis.verdict import verdict
        from tracelens_graph.analyses.ops.top_ops import top_ops
        from tracelens_graph.analyses.places.host_times import host_times
        from tracelens_graph.graph.window import narrow, window_of
        from tracelens_graph.reports import views

        w, outside = window_of(self), Verdict()  # type: ignore[arg-type]
        if alone := steps_alone(w):
            w, outside = narrow(w, step=alone[0]), Verdict([alone[1]])
        largest = top_ops(w, False, top) if len(w.gpu_rows) else views.view(views.top(host_times(w), top))
        return FirstScreen(facts(w), Verdict([*verdict(w, arch), *outside]), time_spent(w), largest, w.core.info.source)

    def flame(self, by: By = "module", *, step: int | Iterable[int] | None = None, height: int = 420) -> Inline:
        """GPU time as a flame graph that a notebook shows inline.

        Frames are merged by name, from the outside inwards; every GPU event is in one of them.

        Args:
            by: "module" (forward and backward apart, then op and kernel), "op", "line" of Python, "kernel" (by
                category), or "host": host time instead, with the part during which the GPU was idle.
            step: number of a step, or several; of other parts of the trace, draw a `window`.
            height: of the frame that it is drawn in, pixels.

        Returns:
            What shows itself; `save(path)` writes it as a page.

        Raises:
            AnalysisError: there is nothing to go by, or no such step, or the graph has no times.
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
            AnalysisError: there is no such step, or the graph has no times.
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
            AnalysisError: the device is not known, or there is no such step, or the graph has no times.
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
            AnalysisError: there is no such table or step, or the graph has no times.
        """
        from tracelens_graph.reports.html import inline

        return inline.grid(self, *wanted, step=step, height=height)  # type: ignore[arg-type]
