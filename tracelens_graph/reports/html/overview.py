"""The first view of a page: the verdict, where the time went, the device and its software, what was not recorded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis.account import account_of
from tracelens_graph.analyses.diagnosis.finding import Finding
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.document import Facts, facts, peaks
from tracelens_graph.reports.html.names import LONGEST_LINE, clean
from tracelens_graph.reports.html.stacks import iteration_name
from tracelens_graph.reports.html.timeline import cause_class, cause_label
from tracelens_graph.reports.report_text import heading
from tracelens_graph.tables.table import Table

_BUSY = {
    "computation_time": ("computation", "computation"),
    "exposed_comm_time": ("exposed communication", "communication"),
    "exposed_memcpy_time": ("exposed copies", "copy"),
}
"""Rows of the timeline that are no idle time -> label and class."""

_OF_HOST = ("host_times", "host_lines", "host_modules")
"""Tables of the first view of a trace without GPU work."""
_MOST_LARGEST = 10
"""Rows of a table of the first view."""
_USUAL = ("histogram_bins", "models")
"""Options that are given where nobody asked for anything."""


def overview(
    w: Window, about: Facts, findings: Iterable[Finding], tables: Mapping[str, Table], complete: Callable[[str], str]
) -> dict[str, Any]:
    """What the first view shows.

    Args:
        about: facts of it.
        findings: the verdict; the first one is the headline.
        complete: makes commands of findings, in which TRACE stands for the file, complete.
    """
    held = inventory(w.core)
    narrowed = f"only {about.window}" if about.window else ""
    return {
        "title": clean(f"{narrowed}: {about.source}" if narrowed else about.source, LONGEST_LINE),
        "window": clean(about.window, LONGEST_LINE),
        "damage": clean(about.damage, LONGEST_LINE),
        "findings": [
            {
                "severity": finding.severity, "text": clean(finding.text, LONGEST_LINE),
                "uid": _uid(finding.evidence), "try": [clean(one) for one in finding.suggestions],
                "ask": clean(complete(finding.ask_next) if finding.ask_next else "", LONGEST_LINE),
            }
            for finding in findings
        ],
        "parts": parts(w),
        "base": account_of(w).base_text if len(w.gpu_rows) else "",
        "memory": [clean(one) for one in peaks(tables["memory_summary"])] if "memory_summary" in tables else [],
        "largest": [one for one in _largest(tables, w) if one["rows"]],
        "steps": (_steps(tables) or _iterations(w)) if len(w.gpu_rows) else [],
        "facts": [[label, clean(value)] for label, value in recorded(facts(w.core), held)],
        "of_window": [[label, clean(value)] for label, value in in_window(w)],
        "options": [[label, clean(value)] for label, value in chosen(about)],
        "missing": [
            {"what": clean(f"{row['what']} ({row['missing']})" if isinstance(row["missing"], str) and row["missing"]
                           else row["what"]), "poorer": clean(row["poorer"]), "how": clean(row["how"])}
            for row in held["recording"].records()
            if row["missing"] and row["recorded"] is False
        ],
        "absent": "",
    }  # fmt: skip


def heading_of(about: Facts) -> str:
    """What stands above a report: the window, if it is of one, and then what the whole is."""
    narrowed = f"only {about.window}" if about.window else ""
    return clean(": ".join(filter(None, (narrowed, heading(replace(about, window=""))))), LONGEST_LINE)


def parts(w: Window) -> list[dict[str, Any]]:
    """What the time that the verdict judges is made of: work, and idle time by cause; in ns, of all devices."""
    if not len(w.gpu_rows):
        return []
    account = account_of(w)
    idle = account.causes
    found = [{"label": label, "class": of, "ns": account.times[kind]} for kind, (label, of) in _BUSY.items()]
    found += [
        {"label": f"idle: {cause_label(cause)}", "class": f"idle-{cause_class(cause)}", "ns": int(idle[cause])}
        for cause in sorted(Cause, key=lambda cause: -int(idle[cause]))
        if cause is not Cause.outside
    ]
    return [part for part in found if part["ns"]]


def _largest(tables: Mapping[str, Table], w: Window) -> Iterator[dict[str, Any]]:
    """The operations with most GPU time, and where they are called; without GPU work what took most of the host's;
    where calls have no times, who holds memory."""
    has_gpu = len(w.gpu_rows) > 0
    if not w.framework.calls_take_time:
        if "memory_peak" in tables:
            yield _held(tables["memory_peak"])
        return
    for name in ("top_ops",) if has_gpu else _OF_HOST:
        if (table := tables.get(name)) is None:
            continue
        yield {
            "title": clean(table.title or "", LONGEST_LINE),
            "time": "GPU ms" if has_gpu else "self ms", "counted": "calls",
            "rows": [
                {
                    "name": clean(row["name"]), "mostly_in": clean(row.get("mostly_in") or ""),
                    "ms": row["total_ms" if has_gpu else "self_ms"], "percent": row["percent"],
                    "count": row["count" if has_gpu else "calls"], "uid": row["uid"],
                }
                for row in table.take(np.arange(min(len(table), _MOST_LARGEST))).records()
            ],
            "notes": [clean(note) for note in table.notes],
        }  # fmt: skip


def _held(table: Table) -> dict[str, Any]:
    """Who holds memory, as the tables of what took most time are given."""
    return {
        "title": clean(table.title or "", LONGEST_LINE), "time": "MiB", "counted": "blocks",
        "rows": [
            {
                "name": clean(row["op"] or row["module_path"]), "mostly_in": "", "ms": row["bytes"] / 2**20,
                "percent": row["percent"], "count": row["blocks"], "uid": row["uid"],
            }
            for row in table.take(np.arange(min(len(table), _MOST_LARGEST))).records()
        ],
        "notes": [clean(note) for note in table.notes],
    }  # fmt: skip


def _steps(tables: Mapping[str, Table]) -> list[dict[str, Any]]:
    """The first steps, each with the parts of its time on the device, ms."""
    table = tables.get("step_summary")
    if table is None or "total_time_ms" not in table.columns:
        return []
    return [
        {
            "name": clean(str(row["name"]), 60), "uid": row["uid"],
            "parts": [
                {"label": label, "class": of, "ns": round(ns * 1e6)}
                for kind, (label, of) in (*_BUSY.items(), ("idle_time", ("idle", "idle")))
                for ns in [row[f"{kind}_ms"]]
                if ns and ns == ns
            ],
        }
        for row in table.records()[:100]
    ]  # fmt: skip


def _iterations(w: Window) -> list[dict[str, Any]]:
    """The first iterations of a server, each with the time on the device in which the GPU was busy, and idle."""
    if not is_of_server(w.core):
        return []
    from tracelens_graph.analyses.serving.iterations import served_in

    served = served_in(w)
    length, busy = (times.tolist() for times in served.on_device_ns)
    uids = w.core.columns.uid[served.found.rows[served.numbers]].tolist()
    return [
        {
            "name": iteration_name(served.found, number), "uid": uids[at],
            "parts": [
                {"label": label, "class": of, "ns": ns}
                for label, of, ns in (("busy", "computation", busy[at]), ("idle", "idle", length[at] - busy[at]))
                if ns > 0
            ],
        }
        for at, number in enumerate(served.numbers.tolist()[:100])
    ]  # fmt: skip


def in_window(w: Window) -> Iterable[tuple[str, str]]:
    """What is in a window: label and value; nothing for the whole trace."""
    if not w.title:
        return
    yield "GPU events", f"{len(w.gpu_rows):,} of {len(w.core.gpu_rows):,}"
    yield "GPU span", f"{w.span_ns() / 1e6:,.3f} ms"
    yield "GPU time", f"{int(w.core.columns.dur_ns[w.gpu_rows].sum()) / 1e6:,.3f} ms"


def chosen(about: Facts) -> Iterable[tuple[str, str]]:
    """Options of a report that somebody chose, and the link with an execution trace: label and value."""
    for name, value in about.options.items():
        if value not in (None, False, "") and name not in _USUAL:
            yield name.replace("_", " "), str(value)
    if about.linked:
        yield "linked", about.linked


def recorded(about: Facts, held: Mapping[str, Table]) -> Iterable[tuple[str, str]]:
    """What was recorded: label and value. `about` and `held`, the inventory, are of the whole trace."""
    for device in dict.fromkeys(about.devices):
        count = about.devices.count(device)
        yield "GPU", device if count == 1 else f"{count} x {device}"
    if about.rank is not None:
        yield "rank", f"{about.rank} of {about.world_size}" if about.world_size else str(about.rank)
    for row in held["software"].records():
        yield str(row["software"]).replace("_", " "), str(row["version"])
    yield "entries of the file", f"{about.events:,}"
    yield "GPU events", f"{about.gpu_events:,}"
    for row in held["trace"].records():
        if (
            row["what"] in ("absolute start", "start on the timeline", "time covered", "GPU span")
            and row["value"] is not None
        ):
            value = row["value"]
            text = f"{value:,.3f}" if isinstance(value, float) else str(value)
            yield str(row["what"]), f"{text} {row['unit'] or ''}".strip()


def _uid(evidence: Mapping[str, Any]) -> int | None:
    """The node that a finding names."""
    for key, value in evidence.items():
        if re.fullmatch(r"(?:.*_)?uid", key) and isinstance(value, int):
            return value
    return None
