"""`tracelens-graph roofline`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tracelens_graph.cli.common import CacheOption, Format, FormatOption, Trace, load, write_table
from tracelens_graph.cli.windows import WindowChoice, with_window_options

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.perf.devices import Architecture


@with_window_options
def roofline(
    trace: Trace,
    window: WindowChoice,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", show_default=False, help="Draw it: a page for a browser."),
    ] = None,
    arch: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE|auto", help="The device: a name such as h100-sxm, a file, or auto for that of the trace."
        ),
    ] = "auto",
    format: FormatOption = Format.table,
    cache: CacheOption = False,
) -> None:
    """Say what bounds the GPU's work, how much could be won, and which ops are far below the roof.

    Parts of the time: ops bound by computing and by memory, ops without a model, communication, and idle time, that
    which waits for launches apart. They add up to the durations of all GPU events and the idle time.

    Example: tracelens-graph roofline trace.json.gz -o roofline.html

    Example: tracelens-graph roofline trace.json.gz --arch h100-sxm --step 3 --format csv
    """
    device = None
    if arch != "auto":
        from tracelens_graph.perf.devices import architecture

        device = architecture(arch)
    if output is not None:
        from tracelens_graph.reports.roofline_html import drawing_library

        drawing_library()  # a missing package is to be known before a large trace is read
    core = load(trace, cache)
    device = device or _device_of(core)
    w = window.of(core)
    from tracelens_graph.analyses.performance.roofline_summary import roofline_summary

    summary = roofline_summary(w, device)
    if output is not None:
        from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
        from tracelens_graph.analyses.performance.roofline_summary import unmodelled
        from tracelens_graph.files import replacing
        from tracelens_graph.reports.roofline_html import roofline_html

        name = Path(core.info.source).name
        page = roofline_html(unified_perf_summary(w, arch=device), summary, unmodelled(w), device, name)
        with replacing(output) as file:
            file.write(page.encode())
    write_table(summary, format)
    if output is not None:
        from tracelens_graph.texts import printable

        print(f"roofline drawn in {printable(str(output))}", file=sys.stdout if format is Format.table else sys.stderr)


def _device_of(core: Core) -> Architecture:
    """The device that a trace was recorded on.

    Raises:
        AnalysisError: it is not known; the message says why.
    """
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.perf.devices import detect

    found = detect(core.info.metadata.get("deviceProperties"))
    if isinstance(found, str):
        raise AnalysisError(f"no roofline: {found}; name a device with --arch")
    return found
