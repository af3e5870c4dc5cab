"""`tracelens-graph roofline`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any

from tracelens_graph.cli.hints import Call
from tracelens_graph.cli.options import (
    NO_ARCH,
    Arch,
    Extensions,
    TableName,
    Top,
    Trace,
    architecture_named,
    architecture_of,
    check_name,
    refuse,
)
from tracelens_graph.cli.outputs import PICTURES, Forms, Outputs, Writes
from tracelens_graph.cli.shown import TABLE, Shown, no_hints, of_table, print_table, put
from tracelens_graph.cli.traces import extension_of, load, say
from tracelens_graph.cli.windows import Window
from tracelens_graph.utils.texts import file_name

if TYPE_CHECKING:
    from tracelens_graph.graph.window import Window as Part
    from tracelens_graph.perf.devices import Architecture
    from tracelens_graph.tables.table import Table

_ROWS_FOR_PEOPLE = 10
TABLES = ("roofline_summary", "below_roof", "unmodelled")


def roofline(
    trace: Trace,
    *,
    arch: Arch = None,
    extension: Extensions = None,
    table: TableName = None,
    top: Top = None,
    outputs: Annotated[Outputs, Writes("html", *sorted(PICTURES), *TABLE)],
    window: Window,
) -> None:
    """Show what bounds the GPU's work, how much could be won, and which ops are far below the roof.

    The parts of the time are ops bound by computing and by memory, ops without a model, communication, and idle time,
    with the time spent waiting for launches on its own. They add up to the durations of all GPU events and the idle
    time.

    Tables are roofline_summary, below_roof and unmodelled. csv, json and xlsx hold one of them: roofline_summary unless
    --table names another.

    Example: tracelens-graph roofline trace.json.gz -o roofline.html

    Example: tracelens-graph roofline trace.json.gz --arch h100-sxm --step 3 --table below_roof --format csv
    """
    if table is not None:
        check_name("--table", table, TABLES)
        outputs.check(TABLE, "a table")
    from tracelens_graph.perf.devices import taken_for

    refuse((arch == NO_ARCH, "--arch: a roofline needs a device"))
    device, added = architecture_named(arch), extension_of(extension)
    core = load(trace, wants_gpu=True)
    if device is None and (line := taken_for(core.info.metadata.get("deviceProperties"))):
        say([line])
    device = architecture_of(core, device)
    found = _Roofline(window.of(core, added), device, Call(trace, window, extension or [], arch=arch), top)
    if table:
        print_table(found.shown(table), outputs)
        return
    if outputs.to_screen:
        put(found.text())
    outputs.write(found, FORMS)


@dataclass(frozen=True)
class _Roofline:
    """What is known of the roofline of a part of a trace."""

    part: Part
    device: Architecture
    call: Call
    top: int | None

    @cached_property
    def ops(self) -> Table:
        """All operations with a model."""
        from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary

        return unified_perf_summary(self.part, arch=self.device)

    def table(self, name: str) -> Table:
        """A table by its name."""
        from tracelens_graph.analyses.performance.roofline_points import below_roof
        from tracelens_graph.analyses.performance.roofline_summary import roofline_summary, unmodelled

        if name == "below_roof":
            return below_roof(self.ops)
        return roofline_summary(self.part, self.device) if name == "roofline_summary" else unmodelled(self.part)

    def shown(self, name: str) -> Shown:
        """A table as it is shown."""
        from tracelens_graph.reports.views import view

        is_summary = name == "roofline_summary"
        rows = (0, 0) if is_summary else (self.top, _ROWS_FOR_PEOPLE)
        hints = self._to_replay if name == "below_roof" else no_hints
        way_out = f"--table {name} -f csv"
        return Shown(self.table(name), *rows, lambda table: view(table, self.part.core), hints, way_out=way_out)

    def text(self) -> str:
        """The two tables that people see first."""
        return "\n".join(self._two(Shown.text))

    def markdown(self) -> str:
        """The same as Markdown."""
        return "\n".join(self._two(TABLE["md"]))

    def _two(self, form: Callable[[Shown], Any]) -> list[str]:
        below = self.shown("below_roof")
        return [form(one) for one in (self.shown("roofline_summary"), below) if one is not below or len(below.table)]

    def _to_replay(self, below: Table) -> list[str]:
        """The command that calls the operations of `below_roof` again."""
        return self.call.to_replay(self.part.core, below["uid"], f"--by below-roof --top {len(below)}")

    def page(self) -> str:
        """The page for a browser."""
        from tracelens_graph.reports.html.report import roofline_page

        tables = {name: self.table(name) for name in TABLES}
        return roofline_page(self.part, self.ops, tables, self.device, file_name(self.part.core.info.source))

    def picture(self, form: str) -> bytes:
        """The picture."""
        from tracelens_graph.analyses.performance.roofline_points import RooflinePoints
        from tracelens_graph.reports.picture import roofline_picture, saved

        title = f"Roofline of {file_name(self.part.core.info.source)} on {self.device.name}"
        return saved(roofline_picture(RooflinePoints.of(self.ops, self.device), title), form, "roofline")


def _summary(found: _Roofline) -> Shown:
    return found.shown("roofline_summary")


FORMS: Forms = {
    **{name: of_table(name, _summary) for name in TABLE},
    **{name: partial(_Roofline.picture, form=name) for name in PICTURES},
    "html": _Roofline.page, "md": _Roofline.markdown,
}  # fmt: skip
