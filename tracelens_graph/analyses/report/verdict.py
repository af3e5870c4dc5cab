"""The verdict: where the GPU's time went and what it waited for, in a few lines, each with its evidence in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from tracelens_graph.analyses.idle.host_states import copies_to_device, ends, pageable
from tracelens_graph.analyses.idle.idle import Cause, culprit, idle_parts
from tracelens_graph.analyses.shared.gpu_class import COMMUNICATION, COMMUNICATION_NAME, MEMCPY, gpu_classes
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import union_length_by_group
from tracelens_graph.graph.window import Window, narrow, step_number, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.texts import shorten

Severity = Literal["fact", "minor", "major"]
Times = Mapping[str, float]

WORTH_SAYING = 5.0
"""Percent of the total time from which a wait is a finding."""
MUCH_OF_IDLE = 20.0
"""Percent of the idle time from which a cause is a finding too, where the idle time itself is worth saying."""
MAJOR = 20.0
"""Percent of the total time from which a finding is major."""
SHORT_NS = 5_000
"""Shorter GPU events are over before the host can launch the next."""
LONG_STEP = 1.2
"""A step that takes so many times the median is worth a look."""
_NAME_WIDTH = 69


@dataclass(frozen=True)
class Finding:
    """One line of a verdict.

    Attributes:
        topic: what it is about, one of TOPICS.
        text: the line, for people; long names are cut.
        evidence: the numbers behind it, with names in full; keys end in the unit.
        severity: "fact", or for what costs time "minor", and "major" from MAJOR percent of the total time on.
        ask_next: the command line that shows more; TRACE stands for the trace.
    """

    topic: str
    text: str
    evidence: Mapping[str, int | float | str] = field(default_factory=dict)
    severity: Severity = "fact"
    ask_next: str = ""


TOPICS: Mapping[str, str] = {
    "busy": "how long the GPU was busy and how long idle",
    "time": "computation, exposed communication, exposed copies, idle",
    "data_loader": "idle: the host waited for the next batch, or made it",
    "synchronization": "idle: calls that wait for the GPU kept the host from launching ahead",
    "host_to_device_copy": "copies to the device with nothing beside them, and idle time because of them",
    "other_copies": "other copies with nothing beside them",
    "launches": "idle: the host was launching, or the GPU went from one piece of queued work to the next",
    "python": "idle: the host was in Python, in no op and no call",
    "allocation": "idle: the host had the driver allocate or release memory",
    "profiler": "idle: the host was in the profiler's own code",
    "outside": "the GPU ran work that is not in the window",
    "exposed_communication": "communication with no computation beside it",
    "unknown": "idle for no known cause",
    "unlinked": "GPU time whose launch is not in the trace",
    "largest_op": "the op with most GPU time",
    "outside_ops": "the call outside of ops with most GPU time, such as a graph launch",
    "largest_kernel": "the kernel or copy with most GPU time",
    "long_step": "a step that takes longer than the others",
}
"""Topics of findings, and what each is about."""

_WAITS = {
    Cause.data_loader: "Waited for the data loader",
    Cause.synchronization: "Waited because synchronising calls kept the host from launching ahead",
    Cause.allocation: "Waited for the driver to allocate or release memory",
    Cause.profiler: "Waited for the profiler's own code",
    Cause.python: "Waited for Python outside of ops",
    Cause.outside: "Ran work that is not in the window",
}
_UNKNOWN = {
    Cause.unknown_no_launch: "the launch of what came next is not in the trace",
    Cause.unknown_not_recorded: "the thread that launched next had recorded nothing",
    Cause.unknown_late_start: "what came next had been launched long before",
}


def verdict(g: Core | Window) -> list[Finding]:
    """Where the GPU's time went and what it waited for.

    First the facts: how busy the GPU was, and with what. Then what it waited for, the greatest loss first, if that is
    WORTH_SAYING; a healthy run has no such line. Then what the verdict cannot see, and what is largest. Times are
    those of `gpu_timeline`, causes of idle time those of `idle_causes`; times of several devices are added up.

    Args:
        g: the graph, or a window of it.
    """
    w = window_of(g)
    if not len(w.gpu_rows):
        text = f"The {'window' if w.title else 'trace'} has no GPU events: nothing can be said about a GPU"
        return [Finding("busy", text, {"gpu_events": 0}, ask_next="tracelens-graph tree TRACE")]
    times = _times_ms(w)
    waits = [
        *(finding for cause, text in _WAITS.items() for finding in _idle(w, times, cause.name, [cause], text)),
        *_launches(w, times),
        *_unknown(w, times),
        *_copies(w, times),
        *_communication(w, times),
    ]
    waits.sort(key=lambda finding: -float(finding.evidence["percent"]))
    return [_busy(w, times), _spent(times), *waits, *_unlinked(w), *_largest(w), *_long_step(w)]


def _times_ms(w: Window) -> Times:
    """The timeline, added up over devices, and the number of devices."""
    devices = np.unique(w.core.columns.device[w.gpu_rows]).tolist()
    times: dict[str, float] = {"devices": len(devices)}
    for device in devices:
        table = gpu_timeline(w if len(devices) == 1 else narrow(w, device=device))
        for name, time in zip(table["type"], np.asarray(table["time ms"]).tolist(), strict=True):
            times[name] = times.get(name, 0.0) + time
    return times


def _busy(w: Window, times: Times) -> Finding:
    total, busy, idle = (times[f"{name}_time"] for name in ("total", "busy", "idle"))
    who = "The GPU was" if times["devices"] == 1 else f"{times['devices']} GPUs, taken together, were"
    text = (
        f"{who} busy for {_percent(busy, total):.1f} % of {_ms(total)}{f' ({w.title})' if w.title else ''}"
        f" and idle for {_percent(idle, total):.1f} % ({_ms(idle)})"
    )
    evidence = {
        "total_ms": total, "busy_ms": busy, "busy_percent": _percent(busy, total), "idle_ms": idle,
        "idle_percent": _percent(idle, total), "devices": times["devices"], "gpu_events": len(w.gpu_rows),
    }  # fmt: skip
    return Finding("busy", text, evidence, ask_next="tracelens-graph timeline TRACE")


def _spent(times: Times) -> Finding:
    total = times["total_time"]
    parts = {
        "computation": times["computation_time"],
        "exposed communication": times["exposed_comm_time"],
        "exposed copies": times["exposed_memcpy_time"],
        "idle": times["idle_time"],
    }
    text = "Of its time: " + ", ".join(f"{what} {_percent(time, total):.1f} %" for what, time in parts.items())
    keys = {what: what.replace(" ", "_") for what in parts}
    evidence = {f"{keys[what]}_ms": time for what, time in parts.items()}
    evidence |= {f"{keys[what]}_percent": _percent(time, total) for what, time in parts.items()}
    return Finding("time", text, evidence, ask_next="tracelens-graph attribution TRACE")


# --- what the GPU waited for ---------------------------------------------------------------------------------


def _idle(
    w: Window, times: Times, topic: str, causes: Sequence[Cause], text: str, more: str = "", **evidence: float
) -> Iterator[Finding]:
    """A finding about the idle time of some causes, with its longest example, if it is worth saying."""
    idle, c = idle_parts(w), w.core.columns
    part = idle.parts[list(causes)].sum(axis=0)
    time = int(part.sum()) / 1e6
    if not _worth_saying(times, time, time):
        return
    share, of_idle = _percent(time, times["total_time"]), _percent(time, times["idle_time"])
    longest, gaps = int(part.argmax()), int((part > 0).sum())
    row = culprit(w.core, idle, longest, causes[int(idle.parts[list(causes), longest].argmax())])
    because = w.core.names[c.name[row]] if row >= 0 else ""
    uid = int(c.uid[row if row >= 0 else idle.row[longest]])
    found = {
        "ms": time, "percent": share, "percent_of_idle": of_idle, "gaps": gaps, "longest_ms": int(part[longest]) / 1e6,
        "gap_start_ms": int(idle.start[longest]) / 1e6, "uid": uid, "because": because,
    }  # fmt: skip
    most = _gaps_for_most(part)
    found["gaps_for_90_percent"] = most
    where = f" in {_brief(because)}" if because else ""
    few = f", nine tenths of it in {most:,}" if 10 * most <= gaps else ""
    example = f"{gaps:,} gaps{few}, up to {_ms(int(part[longest]) / 1e6)}{where}" if gaps > 1 else f"one gap{where}"
    text = f"{text}: {share:.1f} % ({_ms(time)} in {example}){more}"
    yield _loss(topic, text, {**found, **evidence}, f"tracelens-graph tree TRACE --uid {uid} --up")


def _worth_saying(times: Times, lost: float, idle: float) -> bool:
    """Whether lost time is, `idle` of it idle: by its share of all time, or of much idle time."""
    idle_matters = _percent(times["idle_time"], times["total_time"]) >= WORTH_SAYING
    much_of_idle = _percent(idle, times["idle_time"]) >= MUCH_OF_IDLE
    return _percent(lost, times["total_time"]) >= WORTH_SAYING or (idle_matters and much_of_idle)


def _launches(w: Window, times: Times) -> Iterator[Finding]:
    parts = idle_parts(w).parts
    host, between = (int(parts[cause].sum()) / 1e6 for cause in (Cause.launches, Cause.queued))
    short, every = int((w.core.columns.dur_ns[w.gpu_rows] < SHORT_NS).sum()), len(w.gpu_rows)
    text, other = "Waited for ops and launch calls of the host", f"between queued work {_ms(between)}"
    if host < between:
        text, other = "Idle between small pieces of queued work", f"for ops and launch calls of the host {_ms(host)}"
    more = f", {other} of it; {short:,} of {every:,} GPU events are shorter than {SHORT_NS // 1000} us"
    evidence = {"host_ms": host, "between_queued_ms": between, "short_gpu_events": short, "gpu_events": every}
    return _idle(w, times, "launches", (Cause.launches, Cause.queued), text, more, **evidence)


def _unknown(w: Window, times: Times) -> Iterator[Finding]:
    spent = {cause: int(idle_parts(w).parts[cause].sum()) / 1e6 for cause in _UNKNOWN}
    reasons = sorted((cause for cause in spent if spent[cause]), key=lambda cause: -spent[cause])
    more = "; " + ", ".join(f"{_UNKNOWN[cause]} ({_ms(spent[cause])})" for cause in reasons)
    if Cause.unknown_not_recorded in reasons and not (w.core.columns.kind == Kind.PythonFunction).any():
        more += "; the trace has no Python stacks, which may tell"
    evidence = {f"{cause.name.removeprefix('unknown_')}_ms": time for cause, time in spent.items()}
    for finding in _idle(w, times, "unknown", tuple(_UNKNOWN), "Idle for no known cause", more, **evidence):
        # What was not recorded no tree shows; `info` says what is missing, and what is poorer for it.
        late = reasons[0] == Cause.unknown_late_start
        yield finding if late else replace(finding, ask_next="tracelens-graph info TRACE")


def _copies(w: Window, times: Times) -> Iterator[Finding]:
    """Copies that nothing runs beside; those to the device together with the idle time because of them."""
    total, exposed = times["total_time"], times["exposed_memcpy_time"]
    idle = int(idle_parts(w).parts[Cause.host_to_device_copy].sum()) / 1e6
    if not _worth_saying(times, exposed + idle, idle):
        return
    what = gpu_classes(w.core, w.gpu_rows)
    copies = w.gpu_rows[what == MEMCPY]
    up = copies_to_device(w.core, copies)
    other_work = w.gpu_rows[what != MEMCPY]
    exposed_up = _busy_ns(w.core, np.union1d(other_work, copies[up])) - _busy_ns(w.core, other_work)
    exposed_else = round(exposed * 1e6) - exposed_up
    groups = (
        (
            "host_to_device_copy",
            "Copied from host to device with nothing beside it",
            copies[up],
            exposed_up / 1e6,
            idle,
        ),
        ("other_copies", "Copied otherwise with nothing beside it", copies[~up], exposed_else / 1e6, 0.0),
    )
    for topic, text, rows, alone, waited in groups:
        if not _worth_saying(times, alone + waited, waited):
            continue
        if not len(rows):  # the copies lie outside of the window
            yield from _idle(w, times, topic, (Cause.host_to_device_copy,), "Waited for copies to the device")
            continue
        share = _percent(alone + waited, total)
        evidence = _volume(w.core, rows)
        text += f": {share:.1f} % ({_ms(alone)}" + (f", and {_ms(waited)} idle for it)" if waited else ")")
        text += f" in {len(rows):,} cop{'y' if len(rows) == 1 else 'ies'}"
        if "bytes" in evidence:
            text += f", {evidence['bytes'] / 1e6:,.1f} MB at {evidence['gb_per_s']:.1f} GB/s"
        if share_pageable := evidence["pageable_percent"]:
            text += f", {'all' if share_pageable == 100 else f'{share_pageable:.0f} % of their time'} pageable"
        evidence |= {"ms": alone + waited, "percent": share, "exposed_ms": alone, "idle_ms": waited}
        yield _loss(topic, text, evidence, f"tracelens-graph tree TRACE --uid {evidence['uid']} --up")


def _volume(core: Core, rows: np.ndarray) -> dict[str, Any]:
    """Number, bytes and bandwidth of copies, and the longest of them."""
    c = core.columns
    dur, size = c.dur_ns[rows], c.bytes[rows]
    known = size >= 0
    moved, took = int(size[known].sum()), int(dur[known].sum())
    found: dict[str, Any] = {"copies": len(rows), "uid": int(c.uid[rows[dur.argmax()]])}
    if moved and took:
        found |= {"bytes": moved, "gb_per_s": moved / took}
    found["pageable_percent"] = _percent(int(dur[pageable(core, rows)].sum()), int(dur.sum()))
    return found


def _communication(w: Window, times: Times) -> Iterator[Finding]:
    total, exposed, every = times["total_time"], times["exposed_comm_time"], times["total_comm_time"]
    share = _percent(exposed, total)
    if share < WORTH_SAYING:
        return
    core, c = w.core, w.core.columns
    rows = w.gpu_rows[gpu_classes(core, w.gpu_rows) == COMMUNICATION]
    longest = int(rows[c.dur_ns[rows].argmax()])
    name, took = core.names[c.name[longest]], int(c.dur_ns[longest]) / 1e6
    text = (
        f"Communicated with no computation beside it: {share:.1f} % ({_ms(exposed)} of {_ms(every)} communication"
        f" in {len(rows):,} GPU events, up to {_ms(took)} in {_brief(name)}); whether the network is slow or another"
        " rank late, one rank does not tell"
    )
    evidence = {
        "ms": exposed, "percent": share, "communication_ms": every, "gpu_events": len(rows), "longest_ms": took,
        "uid": int(c.uid[longest]), "name": name,
    }  # fmt: skip
    pattern = f"(?i){COMMUNICATION_NAME.pattern}"
    yield _loss(
        "exposed_communication",
        text,
        evidence,
        f"tracelens-graph attribution TRACE --level kernel --name '/{pattern}/'",
    )


def _busy_ns(core: Core, rows: np.ndarray) -> int:
    """Length of the union of GPU events, added up over devices."""
    c = core.columns
    devices, device = np.unique(c.device[rows], return_inverse=True)
    return int(union_length_by_group(device, c.start_ns[rows], ends(core, rows), len(devices)).sum())


# --- what else there is to know ------------------------------------------------------------------------------


def _unlinked(w: Window) -> Iterator[Finding]:
    c, every = w.core.columns, w.gpu_rows
    lone = every[c.parent[every] < 0]
    if not len(lone):
        return
    share = _percent(int(c.dur_ns[lone].sum()), int(c.dur_ns[every].sum()))
    text = (
        f"Without a launch in the trace, so charged to nobody: {share:.1f} % of the GPU time"
        f" ({len(lone):,} of {len(every):,} GPU events)"
    )
    evidence = {"percent_of_gpu_time": share, "unlinked": len(lone), "gpu_events": len(every)}
    yield Finding("unlinked", text, evidence, ask_next="tracelens-graph info TRACE")


def _largest(w: Window) -> Iterator[Finding]:
    """The op and the kernel with most GPU time, as sums of durations, each with its longest instance.

    Also the runtime call that launches most work outside of any op, if that is worth saying: whole models are replayed
    by graph launches.
    """
    core, c, rows = w.core, w.core.columns, w.gpu_rows
    owned = rows[c.owner[rows] >= 0]
    bare = rows[(c.owner[rows] < 0) & (c.parent[rows] >= 0)]
    whole = int(c.dur_ns[rows].sum())
    for topic, what, once, gpu, node, option in (
        ("largest_op", "op", "call", owned, c.owner[owned], "--gpu-time"),
        ("outside_ops", "launch outside of ops", "call", bare, c.parent[bare], "--gpu-time"),
        ("largest_kernel", "kernel", "run", rows, rows, "--up"),
    ):
        if not len(gpu):
            continue
        dur, code = c.dur_ns[gpu], c.name[node]
        time = np.bincount(code, weights=dur)  # exact: sums of whole numbers below 2**53
        largest = int(code[time[code].argmax()])
        own = np.flatnonzero(code == largest)
        ms, share, count = float(time[largest]) / 1e6, _percent(float(time[largest]), whole), len(np.unique(node[own]))
        if topic == "outside_ops" and share < WORTH_SAYING:
            continue
        name, uid = core.names[largest], int(c.uid[node[own[dur[own].argmax()]]])
        times = once if count == 1 else f"{once}s"
        evidence: dict[str, Any] = {"name": name, "ms": ms, "percent_of_gpu_time": share, "count": count, "uid": uid}
        text = f"Largest {what}: {_brief(name)}, {share:.1f} % of the GPU time ({_ms(ms)} in {count:,} {times})"
        yield Finding(topic, text, evidence, ask_next=f"tracelens-graph tree TRACE --uid {uid} {option}")


def _long_step(w: Window) -> Iterator[Finding]:
    core, c = w.core, w.core.columns
    rows = w.rows_of_kind(Kind.Step)
    if len(rows) < 3:
        return
    dur = c.dur_ns[rows]
    median, longest = float(np.median(dur)), int(dur.argmax())
    name, number = core.names[c.name[rows[longest]]], step_number(core.names[c.name[rows[longest]]])
    if dur[longest] < LONG_STEP * median or number is None:
        return
    took = int(dur[longest]) / 1e6
    text = f"{_brief(name)} took {_ms(took)}, the median of {len(rows):,} steps {_ms(median / 1e6)}"
    evidence = {"step": number, "ms": took, "median_ms": median / 1e6, "steps": len(rows)}
    yield Finding("long_step", text, evidence, ask_next=f"tracelens-graph report TRACE --step {number}")


def _loss(topic: str, text: str, evidence: dict[str, Any], ask_next: str) -> Finding:
    return Finding(topic, text, evidence, "major" if evidence["percent"] >= MAJOR else "minor", ask_next)


def _gaps_for_most(part: np.ndarray) -> int:
    """How few gaps make up nine tenths of some idle time."""
    longest_first = np.cumsum(np.sort(part)[::-1])
    return int(np.searchsorted(longest_first, 0.9 * longest_first[-1])) + 1


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _ms(time: float) -> str:
    """A time for reading: three digits or more, in s, ms or us."""
    for unit, size in (("s", 1000.0), ("ms", 1.0)):
        if time >= size:
            return f"{time / size:,.{max(0, 2 - len(str(int(time / size))) + 1)}f} {unit}"
    return f"{1000 * time:.3g} us"


def _brief(name: str) -> str:
    return shorten(name, _NAME_WIDTH)
