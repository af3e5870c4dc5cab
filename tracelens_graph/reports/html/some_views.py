"""Pages of some of the views of a report: one in a notebook, a roofline with its tables in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.graph.window import Window
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.reports.html import drawn as timeline
from tracelens_graph.reports.html.fewer import used_names
from tracelens_graph.reports.html.names import CLASSES, Names, clean
from tracelens_graph.reports.html.roofline import roofline
from tracelens_graph.reports.html.shell import Code, Packed, page
from tracelens_graph.reports.html.tables import Texts, table_objects
from tracelens_graph.tables.table import Table

LONGEST_NAME = 200


def page_of_views(
    w: Window,
    views: Sequence[str],
    heading: str,
    body: Mapping[str, Any] | None = None,
    drawn: timeline.Drawn = timeline.NOTHING,
    names: Names | None = None,
    columns: Mapping[str, Packed] | None = None,
) -> str:
    """A page of some views. It has no worker: its events are few, and where it stands one may be forbidden.

    Args:
        w: what it is of.
        views: names of the views, the first one is shown; one alone is without tabs.
        heading: what stands above them.
        body: what they show.
        drawn: events of the timeline.
        names: of the events and frames; None for those of `drawn`.
        columns: frames of the flame graph.
    """
    if names is None:
        names = Names(w, timeline.DRAWN_KINDS if "timeline" in views else ())
    numbered, texts = used_names({**timeline.columns(w, drawn, names), **(columns or {})}, names, LONGEST_NAME)
    head = {"heading": heading, "lanes": timeline.lanes(w, drawn), "call": CLASSES.index("call")}
    told = {
        "causes": timeline.causes(), "arguments": timeline.argument_texts(w, drawn),
        "lead_ns": w.core.info.lead_ns, "classes": CLASSES, "texts": [], **texts, **(body or {}),
    }  # fmt: skip
    code = Code(f"page-{'-'.join(views)}.js", last_styles=("inline.css",) if len(views) == 1 else ())
    return page(heading, head, told, numbered, code)


def roofline_page(w: Window, ops: Table, tables: Mapping[str, Table], arch: Architecture, source: str) -> str:
    """A page with the roofline of a device, the operations of a trace under it, and tables.

    Args:
        w: what it is of.
        ops: its `unified_perf_summary`, made for the device.
        tables: `roofline_summary`, `below_roof` and `unmodelled`; operations with a model join them.
        arch: the device.
        source: name of the trace.
    """
    texts = Texts()
    modelled = ops.take(np.flatnonzero(np.asarray(ops["has_perf_model"], bool)))
    body: dict[str, Any] = {
        "roofline": roofline(ops, arch, texts),
        "tables": table_objects({**tables, ops.name: modelled}, texts),
    }
    heading = clean(w.titled(f"Roofline of {source} on {arch.name}"))
    return page_of_views(w, ["roofline", "tables"], heading, {**body, "texts": texts.listed})
