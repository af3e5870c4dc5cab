"""The page of a report, and of some of its views: one in a notebook, a roofline with its tables in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import Finding
from tracelens_graph.analyses.idle.idle_causes import idle_causes
from tracelens_graph.analyses.idle.idle_gaps import idle_gaps
from tracelens_graph.analyses.launches.queues import queues
from tracelens_graph.analyses.memory.holders import memory_peak
from tracelens_graph.analyses.memory.instants import instants_of
from tracelens_graph.analyses.memory.peak import DeviceMemory, allocations_by_module, memory_over_time, memory_summary
from tracelens_graph.analyses.ops.top_ops import top_ops
from tracelens_graph.analyses.performance.roofline_points import MOST_POINTS, Point, RooflinePoints
from tracelens_graph.analyses.places.modules import module_times
from tracelens_graph.analyses.places.python_lines import python_lines
from tracelens_graph.analyses.timeline.copy_bandwidth import copy_bandwidth
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.membership import calls_at
from tracelens_graph.graph.window import Window
from tracelens_graph.perf.devices import Architecture
from tracelens_graph.reports.document import Facts
from tracelens_graph.reports.html import timeline
from tracelens_graph.reports.html.names import (
    CLASSES,
    LONGEST,
    Names,
    Texts,
    categories_by_class,
    category_class,
    clean,
    table_objects,
    used_names,
)
from tracelens_graph.reports.html.overview import heading_of, overview
from tracelens_graph.reports.html.shell import Code, Packed, page, zigzag
from tracelens_graph.reports.html.stacks import ALL_VIEWS, MEASURES, stacks, steps
from tracelens_graph.reports.html.timeline import Drawn
from tracelens_graph.schema import KIND_MEANING, Kind
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Ns, Rows

_CODE = Code("page-report.js", worker="worker.js")
_WITH_MEMORY = Code(
    "page-report-memory.js", ("memory.css",), worker="worker.js",
    vendored=("vendor/uPlot.LICENSE", "vendor/uPlot.iife.min.js", "vendor/uPlot.min.css"),
)  # fmt: skip
"""What others wrote draws memory over time; only in pages of traces that record it."""

_LONGEST_INLINE = 200
"""Characters of a name on a page of some views."""

_TEXTS = ("name", "category", "shapes", "types")


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
        tables: tables of the report; some on places and on idle time join them.
        about: facts of the trace.
        complete: makes commands of findings, in which TRACE stands for the file, complete.
        arch: the device that models were asked for; None for no roofline.
    """
    every = {**tables, **_further(w)}
    largest = top_ops(w, linked_only=bool(about.options.get("linked_only")))
    first = overview(w, about, findings, {**every, "top_ops": largest}, complete)
    d, names, texts = timeline.drawn(w), Names(w, timeline.DRAWN_KINDS), Texts()
    flames = stacks(w, names)
    frames = {name: value for view, one in flames.items() for name, value in one.columns(view).items()}
    devices, moments = memory(w, d)
    counters, copies = timeline.counters(w, d)
    points = roofline(every.get("unified_perf_summary"), arch, texts)
    body = {
        "flame": flame_body(w, flames),
        "tables": table_objects(every, texts),
        "roofline": points,
        "counters": counters,
        "drawn": _drawn(d, sum(one["n"] for one in devices)),
        "texts": texts.listed,
    }
    holds = {
        "overview": True, "timeline": d.events, "flame": flames, "tables": any(map(len, every.values())),
        "roofline": points["points"], "memory": devices,
    }  # fmt: skip
    if len(w.gpu_rows) and points["why"]:
        first["absent"] = f"No roofline: {points['why']}"
    views = [view for view, held in holds.items() if held]
    head = {"heading": heading_of(about), "overview": first, "memory": devices, "views": views}
    code = _WITH_MEMORY if devices else _CODE
    return _page(w, first["title"], code, head, body, d, names, {**frames, **moments, **copies}, LONGEST)


def views_page(
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
        views: names of the views, the first one is shown; one alone is without tabs. A module is named after them.
        heading: what stands above them.
        body: what they show.
        drawn: events of the timeline.
        names: of the events and frames; None for those of `drawn`.
        columns: frames of the flame graph.
    """
    if names is None:
        names = Names(w, timeline.DRAWN_KINDS if "timeline" in views else ())
    code = Code(f"page-{'-'.join(views)}.js", last_styles=("inline.css",) if len(views) == 1 else ())
    return _page(w, heading, code, {"heading": heading}, body or {}, drawn, names, columns or {}, _LONGEST_INLINE)


def _page(
    w: Window, title: str, code: Code, head: Mapping[str, Any], body: Mapping[str, Any],
    d: timeline.Drawn, names: Names, columns: Mapping[str, Packed], longest: int,
) -> str:  # fmt: skip
    """A page with events, and what else it shows; names are cut where they are longer than `longest`."""
    numbered, named = used_names({**timeline.columns(w, d, names), **columns}, names, longest)
    layout = {"lanes": timeline.lanes(w, d), "call": CLASSES.index("call")}
    events = {
        "causes": timeline.causes(), "arguments": timeline.argument_texts(w, d), "lead_ns": w.core.info.lead_ns,
        "classes": CLASSES, "categories": categories_by_class(w), "texts": [], "seen_first": timeline.seen_first(w),
    }  # fmt: skip
    return page(title, {**head, **layout}, {**events, **named, **body}, numbered, code)


def roofline_page(w: Window, ops: Table, tables: Mapping[str, Table], arch: Architecture, source: str) -> str:
    """A page with the roofline of a device, the operations of a trace under it, and tables.

    Args:
        ops: its `unified_perf_summary`, made for the device.
        tables: `roofline_summary`, `below_roof` and `unmodelled`; operations with a model join them.
        source: name of the trace.
    """
    texts = Texts()
    modelled = ops.take(np.flatnonzero(np.asarray(ops["has_perf_model"], bool)))
    body = {
        "roofline": roofline(ops, arch, texts),
        "tables": table_objects({**tables, ops.name: modelled}, texts),
        "texts": texts.listed,
    }
    return views_page(w, ["roofline", "tables"], clean(w.titled(f"Roofline of {source} on {arch.name}")), body)


def flame_body(w: Window, views: Iterable[str]) -> dict[str, Any]:
    """What a page knows of views of merged stacks: what their frames are, which time they show, and names of steps."""
    return {"views": {view: ALL_VIEWS[view] for view in views}, "measures": MEASURES, "steps": steps(w)[0]}


def roofline(ops: Table | None, arch: Architecture | None, texts: Texts, most: int = MOST_POINTS) -> dict[str, Any]:
    """Roofs of the device, and a point for each operation by its arguments; without any, `why`.

    Args:
        ops: `unified_perf_summary`, made for the device.
        texts: takes the names.
        most: points, those with most time.
    """
    if ops is None or arch is None or "Pct Roofline_mean" not in ops.columns:
        why = "the device's rates are not known. report --arch NAME names a device."
        return {"points": [], "why": why}
    found = RooflinePoints.of(ops, arch, most)
    return {
        "device": clean(found.device), "bandwidth": found.bandwidth, "roofs": [vars(roof) for roof in found.roofs],
        "points": [_point(point, texts) for point in found.points], "more": found.more, "unplaced": found.unplaced,
        "why": "" if found.points else "no operation with a model computes anything. Models need shapes "
        "(record_shapes=True).",
    }  # fmt: skip


def _point(point: Point, texts: Texts) -> dict[str, Any]:
    """A point as JSON, with texts as places in the texts of the page."""
    numbers = {key: texts.number(getattr(point, key)) for key in _TEXTS}
    return {**vars(point), **numbers, "class": category_class(point.category)}


def _drawn(d: timeline.Drawn, instants: int) -> dict[str, Any]:
    """How many events are on the page, how many allocations and releases, and how many of each kind are not."""
    left_out = Counter(d.left_out)
    left_out[KIND_MEANING[Kind.MemoryEvent]] -= instants
    return {"events": d.events, "instants": instants, "left_out": dict(+left_out)}


def _further(w: Window) -> dict[str, Table]:
    """Tables of single questions whose answers the page draws; of memory and of a server only where there is one."""
    if memory_over_time(w):
        of_memory: tuple[Callable[[Window], Table], ...] = (memory_summary, memory_peak, allocations_by_module)
    else:  # where allocations are recorded, but none can be read, the table says so
        of_memory = (memory_summary,) if len(instants_of(w.core).unreadable) else ()
    of_server: tuple[Callable[[Window], Table], ...] = ()
    if is_of_server(w.core):
        from tracelens_graph.analyses.serving.costs import step_costs
        from tracelens_graph.analyses.serving.iterations import iterations
        from tracelens_graph.analyses.serving.phases import phases, steady_state

        of_server = (phases, iterations, steady_state, step_costs)
    return {
        "modules": module_times(w), "python_lines": python_lines(w), "idle_causes": idle_causes(w),
        "idle_gaps": idle_gaps(w), "queues": queues(w), "copy_bandwidth": copy_bandwidth(w),
        **{question.__name__: question(w) for question in (*of_server, *of_memory)},
    }  # fmt: skip


# --- memory over time -----------------------------------------------------------------------------------------------


MOST_POINTS = 100_000
"""Moments of a device on a page. Of more, runs of neighbours are given by their ends, extremes, and largest change."""

_KEPT_OF_A_RUN = 6


def memory(w: Window, d: Drawn) -> tuple[list[dict[str, Any]], dict[str, Packed]]:
    """The memory of a window over time.

    Returns:
        Of each device `title`, number `n` of its moments, the number of `all` of them, and whether reserved memory is
        known (`reserved`); no device where no allocation is in the window. And columns of all devices, one behind the
        other: moments in ns from the trace's start; `memory.rest`, what a total differs by from the one before and the
        change; `memory.call`, one more than the number of the call in which the change was, 0 without one.
    """
    devices = [(one, kept(one)) for one in memory_over_time(w)]
    if not devices:
        return [], {}

    def every(values: Callable[[DeviceMemory], Ns]) -> Ns:
        return np.concatenate([values(one)[points] for one, points in devices])

    rest = np.concatenate([_rest(one, points) for one, points in devices])
    return [
        {"title": clean(one.device, 60), "n": len(points), "all": len(one.rows),
         "reserved": one.reserved_bytes is not None}
        for one, points in devices
    ], {
        "memory.time": Packed(every(lambda one: one.time_ns), True),
        "memory.change": Packed(zigzag(every(lambda one: one.change_bytes))),
        "memory.rest": Packed(zigzag(rest)),
        "memory.reserved": Packed(every(_reserved), True),
        "memory.call": Packed(_calls(w, d, every(lambda one: one.rows)), True),
    }  # fmt: skip


def kept(one: DeviceMemory) -> Rows:
    """Positions of the moments of a device that are on the page, ascending: all, or of many those that show its shape.

    Of each run of neighbours stay the ends, the highest and the lowest total, the highest reserved one and the largest
    change. So both peaks of the device stay.
    """
    n = len(one.rows)
    if n <= MOST_POINTS:
        return np.arange(n)
    begins = np.linspace(0, n, MOST_POINTS // _KEPT_OF_A_RUN, endpoint=False).astype(np.int64)
    ends = np.append(begins[1:], n) - 1
    high, low = _first_greatest(one.allocated_bytes, begins), _first_greatest(-one.allocated_bytes, begins)
    taken = _first_greatest(_reserved(one), begins)
    changed = _first_greatest(np.abs(one.change_bytes), begins)
    return np.unique(np.concatenate((begins, ends, high, low, taken, changed)))


def _first_greatest(values: Ns, begins: Rows) -> Rows:
    """Position of the first of the greatest values of each run."""
    lengths = np.diff(np.append(begins, len(values)))
    found = np.flatnonzero(values == np.repeat(np.maximum.reduceat(values, begins), lengths))
    run = np.repeat(np.arange(len(begins)), lengths)[found]
    return np.asarray(found[np.diff(run, prepend=-1) > 0])


def _rest(one: DeviceMemory, points: Rows) -> Ns:
    total = one.allocated_bytes[points]
    return np.asarray(np.diff(total, prepend=0) - one.change_bytes[points])


def _reserved(one: DeviceMemory) -> Ns:
    return np.zeros(len(one.rows), np.int64) if one.reserved_bytes is None else one.reserved_bytes


def _calls(w: Window, d: Drawn, rows: Rows) -> Rows:
    """For each allocation one more than the position of the innermost call around it, 0 without one on the page."""
    place = np.zeros(len(w.core.columns) + 1, np.int64)  # the last entry is that of no call
    place[d.host] = np.arange(1, len(d.host) + 1)
    return np.asarray(place[calls_at(w.core.columns, rows)])
