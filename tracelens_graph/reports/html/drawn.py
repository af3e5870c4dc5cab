"""What the timeline of a page draws: calls of the host by thread, annotations, GPU work by stream, idle gaps by cause.

Times stay whole nanoseconds. Callers are not stored: rows of the host stand in pre-order, so depth tells them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tracelens_graph.analyses.idle.idle import CAUSE_MEANING, UNKNOWN, Cause, Idle, idle_parts, joined
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.forest import build_forest
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.html.names import Names, clean
from tracelens_graph.reports.html.shell import Packed, zigzag
from tracelens_graph.schema import GPU_KINDS, HOST_KINDS, KIND_MEANING, Kind

ANNOTATIONS = (Kind.Step, Kind.Annotation)
DRAWN_KINDS = (*HOST_KINDS, *ANNOTATIONS, *GPU_KINDS)

_LONGEST_ARGUMENTS = 160
_THREAD = re.compile(r"thread (?P<number>\d+) \((?P<name>.+)\)")
"""What PyTorch calls threads."""


@dataclass(frozen=True)
class Drawn:
    """The rows of a graph that are drawn.

    Attributes:
        host: calls of the host, ascending.
        depth: of each, the number of its callers that are drawn.
        notes: steps and annotations, by thread and start, callers first.
        note_depth: of each, the number of those around it.
        gpu: GPU events by device, stream, start.
        idle: the idle gaps.
        left_out: kind -> number of nodes of the window that are not drawn.
    """

    host: np.ndarray
    depth: np.ndarray
    notes: np.ndarray
    note_depth: np.ndarray
    gpu: np.ndarray
    idle: Idle
    left_out: dict[str, int]

    @property
    def events(self) -> int:
        """Number of events of host and GPU, annotations included."""
        return len(self.host) + len(self.notes) + len(self.gpu)


_NONE = np.zeros(0, np.int64)
NOTHING = Drawn(_NONE, _NONE, _NONE, _NONE, _NONE, joined(()), {})
"""What is drawn of no event."""


def drawn(w: Window) -> Drawn:
    """What is drawn of a window."""
    gpu = w.core.device_order
    others = w.rows_of_kind(*(kind for kind in Kind if kind not in DRAWN_KINDS))
    counts = np.bincount(w.core.columns.kind[others], minlength=len(Kind))
    left_out = {KIND_MEANING[kind]: int(counts[kind]) for kind in Kind if counts[kind]}
    host, notes = w.rows_of_kind(*HOST_KINDS), w.rows_of_kind(*ANNOTATIONS)
    return laid_out(w, host, notes, gpu[w.holds(gpu)], idle_parts(w), left_out)


def laid_out(
    w: Window, host: np.ndarray, notes: np.ndarray, gpu: np.ndarray, idle: Idle, left_out: dict[str, int]
) -> Drawn:
    """What is drawn of some rows; see `Drawn`. Depths are those among these rows."""
    c = w.core.columns
    change = np.zeros(len(c) + 1, np.int64)
    np.add.at(change, host, 1)
    np.add.at(change, c.last[host].astype(np.int64) + 1, -1)
    depth = np.cumsum(change)[host] - 1
    nested = build_forest(
        c.thread[notes].astype(np.int64),
        c.start_ns[notes],
        c.dur_ns[notes],
        (c.kind[notes] != Kind.Step).astype(np.uint8),
    )
    return Drawn(host, depth, notes[nested.order], nested.depth, gpu, idle, left_out)


def columns(w: Window, d: Drawn, names: Names) -> dict[str, Packed]:
    """The columns of a page's timeline.

    Moments are in ns from the trace's start. A GPU event's `launch` is one more than the number of the call among
    those of the host, 0 without one; `args` one more than that of the arguments in `argument_texts`.
    """
    c = w.core.columns
    place = np.full(len(c) + 1, 0, np.int64)
    place[d.host] = np.arange(1, len(d.host) + 1)
    launch = place[c.parent[d.gpu]]  # the last entry, that of no parent, is 0
    begin, end = c.start_ns[d.gpu], c.start_ns[d.gpu] + c.dur_ns[d.gpu]
    after = np.concatenate(([0], end[:-1]))
    return {
        "host.start": Packed(c.start_ns[d.host], True),
        "host.dur": Packed(c.dur_ns[d.host]),
        "host.depth": Packed(d.depth, True),
        "host.name": Packed(names.of_rows(d.host)),
        "host.uid": Packed(c.uid[d.host], True),
        "host.args": Packed(distinct_arguments(w, d)[1]),
        "note.start": Packed(c.start_ns[d.notes], True),
        "note.dur": Packed(c.dur_ns[d.notes]),
        "note.depth": Packed(d.note_depth),
        "note.name": Packed(names.of_rows(d.notes)),
        "note.uid": Packed(c.uid[d.notes], True),
        "gpu.gap": Packed(zigzag(begin - after)),
        "gpu.dur": Packed(c.dur_ns[d.gpu]),
        "gpu.name": Packed(names.of_rows(d.gpu)),
        "gpu.launch": Packed(launch, True),
        "gpu.uid": Packed(c.uid[d.gpu], True),
        "idle.start": Packed(d.idle.start, True),
        "idle.dur": Packed(d.idle.end - d.idle.start),
        "idle.cause": Packed(d.idle.parts.argmax(axis=0) if len(d.idle.row) else d.idle.row),
        "idle.uid": Packed(c.uid[d.idle.row], True),
    }


def distinct_arguments(w: Window, d: Drawn) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the argument sets of calls that are drawn, and for each call one more than its position, 0 for none."""
    codes = w.core.columns.argset[d.host]
    there, place = distinct(codes)
    none = int(len(there) > 0 and there[0] < 0)
    return there[none:], place + 1 - none


def argument_texts(w: Window, d: Drawn) -> list[str]:
    """Sizes and types of arguments, as `[8, 16] [16, 4]; float`."""
    return [_argument_text(*w.core.argsets[code][:2]) for code in distinct_arguments(w, d)[0].tolist()]


def _argument_text(dims: str, types: str) -> str:
    try:
        sizes = [size for size in json.loads(dims or "[]") if size]
        kinds = [str(kind).removeprefix("c10::") for kind in json.loads(types or "[]")]
    except (ValueError, TypeError, RecursionError):
        return clean(f"{dims[:_LONGEST_ARGUMENTS]} {types[:_LONGEST_ARGUMENTS]}", _LONGEST_ARGUMENTS)
    shown = [kind for kind in dict.fromkeys(kinds) if kind not in ("", "Scalar")]
    return clean("; ".join(filter(None, (" ".join(map(str, sizes)), ", ".join(shown)))), _LONGEST_ARGUMENTS)


def lanes(w: Window, d: Drawn) -> dict[str, list[dict[str, Any]]]:
    """Which rows of which columns stand together: threads, threads of annotations, streams, idle gaps of devices.

    Each has a `title`, the number `n` of its rows, which follow one another, and what a thread launched.
    """
    core, c = w.core, w.core.columns
    told = {(str(pid), str(tid)): str(name) for pid, tid, name in core.info.threads}
    launches = np.bincount(c.thread[c.parent[w.linked_gpu_rows]], minlength=len(core.threads))

    def thread(code: int) -> str:
        pid, tid = core.threads[code]
        name = told.get((str(pid), str(tid))) or f"thread {tid}"
        usual = _THREAD.fullmatch(name)
        bare = name.removeprefix("thread ")
        return clean(f"{usual['name']} {usual['number']}" if usual else name if _is_number(bare) else bare, 60)

    def runs(key: np.ndarray) -> list[tuple[int, int]]:
        edges = [0, *(np.flatnonzero(np.diff(key)) + 1).tolist(), len(key)] if len(key) else []
        return list(pairwise(edges))

    devices = len(np.unique(c.device[d.gpu]))
    streams, stream = np.unique(np.stack((c.device[d.gpu], c.stream[d.gpu])), axis=1, return_inverse=True)
    return {
        "host": [
            {"title": thread(code), "n": high - low, "launches": int(launches[code])}
            for low, high in runs(c.thread[d.host])
            for code in [int(c.thread[d.host[low]])]
        ],
        "notes": [
            {"title": thread(int(c.thread[d.notes[low]])), "n": high - low} for low, high in runs(c.thread[d.notes])
        ],
        "gpu": [
            {"title": (f"GPU {device} " if devices > 1 else "") + f"stream {number}", "n": high - low}
            for low, high in runs(stream.reshape(-1))
            for device, number in [streams[:, stream.reshape(-1)[low]].tolist()]
        ],
        "idle": [
            {"title": f"GPU {c.device[d.idle.row[low]]} idle" if devices > 1 else "idle", "n": high - low}
            for low, high in runs(c.device[d.idle.row])
        ],
    }


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdigit()


def cause_label(cause: Cause) -> str:
    """The name of a cause as people read it: `unknown (no launch)`."""
    name = cause.name.replace("_", " ")
    return f"unknown ({name.removeprefix('unknown ')})" if cause in UNKNOWN else name


def cause_class(cause: Cause) -> str:
    """What gives a cause its colour."""
    return "unknown" if cause in (*UNKNOWN, Cause.outside, Cause.profiler) else cause.name


def causes() -> list[dict[str, str]]:
    """What idle time is due to, by number: name and meaning."""
    return [
        {"name": cause_label(cause), "meaning": CAUSE_MEANING[cause],
         "class": cause_class(cause)}
        for cause in Cause
    ]  # fmt: skip
