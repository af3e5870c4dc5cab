"""Views for notebooks, of a graph or of a window of it: a static table, then the view alone in a frame of its own.

The frame holds its page as text (`srcdoc`), in a sandbox, so that neither can reach the other. Where scripts are
forbidden the table is what stays. Notebooks keep what they show, so each view is small; `save` writes all of it. What
a view takes, gives and raises is described where people meet it: at the method of its name (`nxview.inline.Drawing`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.kernels.kernels import kernel_summary
from tracelens_graph.analyses.ops.ops import ops_summary
from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.roofline_points import BELOW_ROOF, RooflinePoints, reached
from tracelens_graph.analyses.performance.roofline_points import MOST_POINTS as MOST_IN_ROOFLINE
from tracelens_graph.analyses.performance.work_summary import WORK_SUMMARY
from tracelens_graph.analyses.places.host_times import host_lines
from tracelens_graph.analyses.places.modules import modules
from tracelens_graph.analyses.places.python_lines import python_lines
from tracelens_graph.analyses.report.report_tables import Tables, report_tables
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, narrow, window_of
from tracelens_graph.output.files import replacing
from tracelens_graph.perf.devices import Architecture, architecture, detect
from tracelens_graph.registry import REPORT
from tracelens_graph.reports.html import timeline as page_timeline
from tracelens_graph.reports.html.names import MOST_ROWS, Names, Texts, clean, table_objects
from tracelens_graph.reports.html.report import flame_body, views_page
from tracelens_graph.reports.html.report import roofline as roofline_body
from tracelens_graph.reports.html.stacks import HOST, stacks
from tracelens_graph.reports.html.stacks import MOST_FRAMES as MOST_IN_PAGE
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import file_name, printable, shorten

if TYPE_CHECKING:
    import pandas as pd

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
"""Makes a page of at most so many events, frames, points or rows, and notes on those that are left out."""


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
        super().__init__(heading, table, height, write, most, MOST_IN_ROOFLINE)
        self._points = points

    def figure(self) -> Any:
        """The roofline as a `matplotlib.figure.Figure`, to be changed like any other.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        from tracelens_graph.reports.picture import roofline_picture

        return roofline_picture(self._points(), self.heading)


MOST_EVENTS, MOST_FRAMES, MOST_POINTS, MOST_LINES = 16_000, 4_000, 500, 2_000
"""What the views have of events, of frames, of operations, and of rows of a table, where a notebook keeps them."""
_LONGEST_KERNEL = 48

Steps = int | Iterable[int] | None


def _modules(w: Window) -> Table:
    """Modules of one class at one place together, without the line for all of them."""
    found = modules(w, by="class")
    return found.take(np.flatnonzero(np.asarray(found["depth"]) > 0))


def _kernels(w: Window) -> Table:
    """Kernels by names that leave room for figures."""
    found = kernel_summary(w)
    names = [shorten(short_name(str(name)), _LONGEST_KERNEL) for name in found["Kernel name"]]
    return replace(found, columns={**found.columns, "Kernel name": names})


FLAMES: Mapping[str, tuple[str, Callable[[Window], Table], str, tuple[str, ...]]] = {
    "module": ("modules", _modules, "total_us",
               ("path", "calls", "forward_us", "backward_us", "total_us", "percent", "uid")),
    "op": ("ops", ops_summary, "total_direct_kernel_time_ms",
           ("name", "Count", "total_direct_kernel_time_ms", "Percentage (%)")),
    "line": ("python", python_lines, "gpu_sum_us", ("name", "frames", "gpu_events", "gpu_sum_us", "percent", "uid")),
    "kernel": ("kernels", _kernels, "Kernel duration (µs)_sum",
               ("Kernel name", "Parent cpu_op", "Kernel duration (µs)_count", "Kernel duration (µs)_sum",
                "Percent of kernels time (%)", "ex_UID")),
    "host": (HOST, host_lines, "self_ms", ("name", "calls", "self_ms", "total_ms", "percent", "idle_ms", "uid")),
}  # fmt: skip
"""What `flame` goes by -> view of the page, the table that says the same, the column it is sorted by, what is shown."""


def flame(g: Core | Window, by: str = "module", *, step: Steps = None, height: int = 420) -> Inline:
    """GPU time, or host time, as merged stacks."""
    if by not in FLAMES:
        raise AnalysisError(f"a flame graph goes by module, op, line, kernel or host, not {by!r}; {hint(by, FLAMES)}")
    w = narrow(window_of(g), step=step)
    (view, question, order, columns), what = FLAMES[by], "line of Python" if by == "line" else by
    title = "Host time" if view == HOST else f"GPU time by {what}"
    heading, table = _heading(w, title), _by_time(question(w), order, columns)

    def write(most: int) -> tuple[str, list[str]]:
        names = Names(w, page_timeline.DRAWN_KINDS)
        found = stacks(w, names, (view,), most)[view]
        body = {"flame": flame_body(w, (view,))}
        notes = [] if len(w.gpu_rows) or view == HOST else ["There are no GPU events to draw."]
        if found.left_out:
            notes.append(
                f"The {len(found.parent):,} frames with most time are drawn; that of {found.left_out:,} others is in "
                "the frames around them."
            )
        return views_page(w, ["flame"], heading, body, names=names, columns=found.columns(view)), notes

    return Inline(heading, table, height, write, MOST_FRAMES, MOST_IN_PAGE)


def timeline(g: Core | Window, *, step: Steps = None, height: int = 480, events: int = MOST_EVENTS) -> Inline:
    """Threads, launches, streams and idle gaps over time."""
    if events < 1:
        raise AnalysisError(f"events is a number above 0, not {events}")
    w = narrow(window_of(g), step=step)
    everything, heading = page_timeline.drawn(w), _heading(w, "Timeline")

    def write(most: int) -> tuple[str, list[str]]:
        d, left_out = page_timeline.longest_events(w, everything, most)
        notes = [
            f"The longest events are drawn, and what launched them. Left out: {'; '.join(map(str, left_out))}. A "
            "window has room for more of its part."
        ]
        return views_page(w, ["timeline"], heading, drawn=d), notes if left_out else []

    whole = everything.events + len(everything.idle.row)
    return Inline(heading, page_timeline.lane_table(w, everything), height, write, events, whole)


def roofline(
    g: Core | Window,
    *,
    step: Steps = None,
    arch: Architecture | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    height: int = 700,
) -> InlineRoofline:
    """Operations by their arguments under the roofs of a device."""
    w = narrow(window_of(g), step=step)
    device = _device(w.core, arch)
    ops = unified_perf_summary(w, arch=device)
    heading = _heading(w, f"Roofline of {device.name}")
    table = _by_time(_with_rates(ops), "Kernel Time (µs)_sum", (
        "name", "Input Dims", "operation_count", "Kernel Time (µs)_sum", "Percentage (%)", "FLOPS/Byte",
        "tflops_s", "percent_of_roof", "Roofline Bound", "ex_UID",
    ))  # fmt: skip

    def write(most: int) -> tuple[str, list[str]]:
        texts = Texts()
        found = roofline_body(ops, device, texts, most)
        more = found.get("more", 0)
        notes = [f"{more:,} operations with less time are not drawn."] if more else []
        return views_page(w, ["roofline"], heading, {"roofline": found, "texts": texts.listed}), notes

    return InlineRoofline(heading, table, height, write, MOST_POINTS, lambda: RooflinePoints.of(ops, device))


def _with_rates(ops: Table) -> Table:
    """Operations that have a model, with what their calls reach together."""
    modelled = ops.take(np.flatnonzero(np.asarray(ops["has_perf_model"], bool)))
    rates = [reached(row) for row in modelled.records()]
    columns = {"tflops_s": [one.tflops_s for one in rates], "percent_of_roof": [one.percent_of_roof for one in rates]}
    about = {"tflops_s": WORK_SUMMARY["tflops_s"], "percent_of_roof": BELOW_ROOF["percent_of_roof"]}
    return replace(modelled, columns={**modelled.columns, **columns}, about={**modelled.about, **about})


def grid(g: Core | Window, *wanted: str | Table | pd.DataFrame, step: Steps = None, height: int = 420) -> Inline:
    """Tables to sort, filter and copy."""
    w = narrow(window_of(g), step=step)
    shown = _wanted(w, wanted)
    (only,) = shown.values() if len(shown) == 1 else (None,)
    heading = _heading(w, only.name if only else "Tables")

    def write(most: int) -> tuple[str, list[str]]:
        texts = Texts()
        found = table_objects(shown, texts, most, "to_pandas() has them")
        longer = [name for name, table in shown.items() if len(table) > most]
        notes = [f"The first {most:,} rows are shown of {', '.join(longer)}."] if longer else []
        return views_page(w, ["tables"], heading, {"tables": found, "texts": texts.listed}), notes

    return Inline(heading, only or _index(shown), height, write, MOST_LINES, MOST_ROWS)


def _wanted(w: Window, wanted: Iterable[str | Table | pd.DataFrame]) -> dict[str, Table]:
    """Tables by names of their own."""
    every = report_tables(w)
    shown: dict[str, Table] = {}
    for one in wanted or every:
        table = one if isinstance(one, Table) else _named(every, one) if isinstance(one, str) else _of_frame(every, one)
        name, same = table.name, 1
        while name in shown:
            same += 1
            name = f"{table.name} {same}"
        shown[name] = table
    return shown


def _named(every: Tables, name: str) -> Table:
    if name not in REPORT and name not in every:
        raise AnalysisError(f"there is no table {name!r}; {hint(name, dict.fromkeys((*every, *REPORT)))}")
    return every[name]


def _of_frame(every: Tables, frame: pd.DataFrame) -> Table:
    """A DataFrame as a table; where it comes from one of the report, its columns are called as there."""
    if not hasattr(frame, "attrs"):
        raise AnalysisError(f"a grid has tables, their names, and DataFrames: this is of type {type(frame).__name__}")
    try:
        found = Table.from_pandas(frame, str(frame.attrs.get("name", "table")))
    except ValueError as error:
        raise AnalysisError(str(error)) from None
    known = every[found.name].about if found.name in REPORT or found.name in every else {}
    return replace(found, about={name: known.get(name, about) for name, about in found.about.items()})


def _index(shown: Mapping[str, Table]) -> Table:
    """What tables there are."""
    return Table("tables", {
        "table": list(shown),
        "rows": np.array([len(table) for table in shown.values()], np.int64),
        "title": [table.title for table in shown.values()],
    })  # fmt: skip


def _device(core: Core, arch: Any) -> Architecture:
    if arch is not None:
        return arch if isinstance(arch, Architecture) else architecture(arch)
    found = detect(core.info.metadata.get("deviceProperties"))
    if isinstance(found, str):
        raise AnalysisError(f"no roofline: {found}; name a device with arch=")
    return found


def _heading(w: Window, what: str) -> str:
    return clean(w.titled(f"{what}: {file_name(w.core.info.source)}"))


def _by_time(table: Table, order: str, columns: tuple[str, ...]) -> Table:
    """A table sorted by a column, the greatest first, with some of its columns."""
    values = np.array([0 if value is None else value for value in table[order]], float)
    found = table.take(np.argsort(-np.nan_to_num(values), kind="stable"))
    kept = [name for name in columns if name in found.columns]
    about = {name: found.about[name] for name in kept if name in found.about}
    return replace(found, columns={name: found.columns[name] for name in kept}, about=about)
