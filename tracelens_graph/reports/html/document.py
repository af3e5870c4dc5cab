"""The page of a report: one file with data and code, which needs nothing else and asks nothing of a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tracelens_graph.analyses.idle.idle import idle_causes
from tracelens_graph.analyses.idle.idle_gaps import idle_gaps
from tracelens_graph.analyses.memory.instants import instants_of
from tracelens_graph.analyses.memory.peak import allocations_by_module, memory_over_time, memory_peak, memory_summary
from tracelens_graph.analyses.ops.top_ops import top_ops
from tracelens_graph.analyses.places.modules import module_times
from tracelens_graph.analyses.places.python_lines import python_lines
from tracelens_graph.graph.window import Window
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.reports.document import Facts, Finding
from tracelens_graph.reports.html import drawn as timeline
from tracelens_graph.reports.html import stacks
from tracelens_graph.reports.html.memory import Memory, memory
from tracelens_graph.reports.html.names import CLASSES, Names
from tracelens_graph.reports.html.overview import heading_of, overview
from tracelens_graph.reports.html.roofline import roofline
from tracelens_graph.reports.html.shell import Code, Packed, page
from tracelens_graph.reports.html.tables import Texts, table_objects
from tracelens_graph.schema import KIND_MEANING, Kind
from tracelens_graph.tables.table import Table

CODE = Code("page-report.js", worker="worker.js")
WITH_MEMORY = Code(
    "page-report-memory.js", ("memory.css",), worker="worker.js",
    vendored=("vendor/uPlot.LICENSE", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css"),
)  # fmt: skip
"""What others wrote draws memory over time; only in pages of traces that record it."""


def report_page(
    w: Window,
    findings: Iterable[Finding],
    tables: Mapping[str, Table],
    about: Facts,
    complete: Callable[[str], str],
    arch: Architecture | None = None,
) -> str:
    """A report as a page.

    Args:
        w: what the report is on.
        findings: the verdict.
        tables: tables of the report; some that tell of places and of idle time join them.
        about: facts of the trace.
        complete: makes commands of findings, in which TRACE stands for the file, complete.
        arch: the device that models were asked for; None for no roofline.
    """
    every = {**tables, **_further(w)}
    largest = top_ops(w, linked_only=bool(about.options.get("linked_only")))
    first = overview(w, about, findings, {**every, "top_ops": largest}, complete)
    layout, body, columns = _data(w, every, arch)
    head = {"heading": heading_of(about), "overview": first, **layout}
    return page(first["title"], head, body, columns, WITH_MEMORY if "memory" in layout else CODE)


def _drawn(d: timeline.Drawn, held: Memory | None) -> dict[str, Any]:
    """How many events are on the page, how many allocations and releases, and of which kinds how many are not."""
    instants = sum(one["n"] for one in held.devices) if held else 0
    left_out = Counter(d.left_out)
    left_out[KIND_MEANING[Kind.MemoryEvent]] -= instants
    return {"events": d.events, "instants": instants, "left_out": dict(+left_out)}


def _further(w: Window) -> dict[str, Table]:
    """Tables of single questions whose answers the page draws; of memory only where the trace tells of it."""
    if memory_over_time(w):
        of_memory: tuple[Callable[[Window], Table], ...] = (memory_summary, memory_peak, allocations_by_module)
    else:  # where allocations are recorded, but none can be read, the table says so
        of_memory = (memory_summary,) if len(instants_of(w.core).unreadable) else ()
    return {
        "modules": module_times(w), "python_lines": python_lines(w), "idle_causes": idle_causes(w),
        "idle_gaps": idle_gaps(w), **{question.__name__: question(w) for question in of_memory},
    }  # fmt: skip


def _data(
    w: Window, tables: Mapping[str, Table], arch: Architecture | None
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Packed]]:
    """How columns are to be read; and what is unpacked while the first view stands: a body, and columns."""
    d, names, texts = timeline.drawn(w), Names(w, timeline.DRAWN_KINDS), Texts()
    merged = stacks.stacks(w, names)
    columns = timeline.columns(w, d, names)
    for view, one in merged.items():
        columns |= one.columns(view)
    columns["name.class"] = Packed(np.array(names.classes, np.int64))
    held = memory(w, d)
    if held:
        columns |= held.columns
    layout: dict[str, Any] = {"lanes": timeline.lanes(w, d), "call": CLASSES.index("call")}
    if held:
        layout["memory"] = held.devices
    body: dict[str, Any] = {
        "causes": timeline.causes(),
        "arguments": timeline.argument_texts(w, d),
        "flame": stacks.facts() | {"steps": stacks.steps(w)[0]},
        "tables": table_objects(tables, texts),
        "roofline": roofline(tables.get("unified_perf_summary"), arch, texts),
        "drawn": _drawn(d, held),
        "gpu_ns": int(w.core.columns.dur_ns[w.gpu_rows].sum()),
        "lead_ns": w.core.info.lead_ns,
        "classes": CLASSES,
        "names": names.texts,
        "shorts": [
            None if short == name else short for name, short in zip(names.texts, names.shorts, strict=True)
        ],
    }  # fmt: skip
    body["texts"] = texts.listed
    return layout, body, columns
