"""One account of a window's time: what the GPU did, what of the rest the host explains, and what nothing explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.finding import percent, shown_ms
from tracelens_graph.analyses.idle.idle import (
    Cause,
    Idle,
    behind_cut_off_work,
    edge_parts,
    ended_by,
    idle_parts,
    joined,
)
from tracelens_graph.analyses.timeline.timeline import times_on_devices
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.iterations import left_out_of
from tracelens_graph.graph.window import Window, narrow, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.table import Table

UNEXPLAINED = (Cause.unknown_no_launch, Cause.unknown_late_start)
"""Idle time that a trace gives no reason for."""
HOST = tuple(cause for cause in Cause if cause not in (*UNEXPLAINED, Cause.outside))
"""Idle time in which the GPU waited for the host, or for its next piece of work to begin."""

Whole = Literal["steps", "gpu_span", "judged_span", "own_time"]
WHOLES: Mapping[Whole, str] = {
    "gpu_span": "GPU span", "judged_span": "last part of the GPU span", "steps": "steps",
    "own_time": "time of its own work",
}  # fmt: skip
"""What a share is of, as evidence has it -> in words. The judged span is the GPU span without what is left out; what is
below some calls alone (`Window.around`), or of some iterations of a server, is judged by its own time, so that parts
add up to no more than the whole."""

PARTS: Mapping[str, str] = {
    "computation": "computation", "communication": "exposed communication", "copies": "exposed copies",
    "host": "waiting for the host", "unexplained": "idle without a known reason",
}  # fmt: skip
"""What a window's time is divided into, and how that is called; communication and copies as far as they are exposed."""

QUEUED = "between queued kernels"
"""What idle time is called before work that had been launched already; a part of `host` none of the host's doing."""

TIME_SPENT = {
    "part": Column.key("what the time went to; the parts add up to the whole", "part"),
    "ms": Column.total("time of it, over all devices", "ms", "ms"),
    "percent": Column.share("share of the whole, which the title names", "%"),
}
"""Columns of `time_spent`."""


@dataclass(frozen=True)
class Account:
    """Where the time of a window went; times in ns, those of several devices added up.

    The *GPU span* reaches from the first start to the last end of a GPU event. The *span* is that, or its last part
    where the recording cut off the work before; the *window* also holds what of the steps lies before and behind it,
    in which the host works and the GPU waits. Of what is below some calls alone, or of some iterations, both are its
    GPU work and the gaps that end with it.

    Attributes:
        window: the part of the trace that is judged.
        cut_off_ns: time at the start that is left out, in which the GPU ran work that the recording cut off.
        devices: number of devices.
        gpu_span_ns: length of the GPU span.
        span_ns: length of the span.
        times: rows of the timeline -> ns, within the span.
        idle: the gaps in the span, and those before and behind it; each split by cause.
        at_edges: which of these gaps lie outside of the span.
    """

    window: Window
    cut_off_ns: int
    devices: int
    gpu_span_ns: int
    span_ns: int
    times: Mapping[str, int]
    idle: Idle
    at_edges: np.ndarray

    @cached_property
    def causes(self) -> np.ndarray:
        """Idle time of the window by cause."""
        return self.idle.parts.sum(axis=1)

    @cached_property
    def causes_in_span(self) -> np.ndarray:
        """The same within the span."""
        return self.causes - self.idle.parts[:, self.at_edges].sum(axis=1)

    @property
    def has_stacks(self) -> bool:
        """Whether functions of Python are recorded."""
        return bool((self.window.core.columns.kind == Kind.PythonFunction).any())

    @property
    def before_ns(self) -> int:
        """Time of the window before the span."""
        idle, gpu = self.idle, self.window.gpu_rows
        before = self.at_edges & (idle.start < self.window.core.columns.start_ns[gpu].min())
        return int((idle.end - idle.start - idle.parts[Cause.outside])[before].sum())

    @property
    def window_ns(self) -> int:
        """Length of the window, without time in which the GPU ran what is not in it."""
        idle = self.idle
        edges = int((idle.end - idle.start)[self.at_edges].sum())
        return self.span_ns + edges - int(idle.parts[Cause.outside].sum())

    @property
    def whole(self) -> Whole:
        """What shares of the window are shares of: the steps where these reach beyond the span, else the span."""
        return "steps" if self.at_edges.any() else self.span

    @property
    def span(self) -> Whole:
        """What shares of the span are shares of."""
        w = self.window
        if w.around is not None or w.all_iterations is not None or left_out_of(w.core):
            return "own_time"
        return "judged_span" if self.cut_off_ns else "gpu_span"

    @cached_property
    def whole_text(self) -> str:
        """`GPU span`, `steps`, and of several devices `GPU spans of 2 GPUs`: what shares of the window are of.

        GPU work that no step launched is named where there is much: it lies in the window, too.
        """
        text = self._of_devices(WHOLES[self.whole])
        return f"{text} and other GPU work" if self.whole == "steps" and self._has_strays else text

    @property
    def _has_strays(self) -> bool:
        w = self.window
        took = w.core.columns.dur_ns[w.gpu_rows]
        strays = int(took[w.core.gpu_step[w.gpu_rows] < 0].sum())
        return strays * 100 >= limits.WORTH_REPORTING_PERCENT * int(took.sum()) > 0

    @property
    def base_text(self) -> str:
        """What every share is of; of several devices their times together.

        Such as `the 4.42 ms of the steps`, `the GPU span of 661 ms`, `the last 10.5 ms of the GPU span of 474 ms`.
        """
        length, all_of_it = shown_ms(self.window_ns), shown_ms(self.gpu_span_ns)
        if self.whole == "own_time":
            return f"its own {length} (GPU work and the gaps before it)"
        if self.whole == "steps":
            until = " up to its last event" if self.window.core.info.gpu_ends_early else ""
            together = " together" if self.devices > 1 else ""
            return f"the {length} of the {self.whole_text}{together}{until}"
        if self.devices > 1:
            of_all = f" of {all_of_it}" if self.cut_off_ns else ""
            return f"the {self.whole_text} ({length}{of_all} together)"
        return f"the last {length} of the GPU span of {all_of_it}" if self.cut_off_ns else f"the GPU span of {length}"

    def _of_devices(self, whole: str) -> str:
        return (
            whole
            if self.devices < 2 or self.whole == "own_time"
            else f"{whole.removesuffix('s')}s of {self.devices:,} GPUs"
        )

    @cached_property
    def shown_parts(self) -> dict[str, int]:
        """The parts in words -> ns; gaps before work that had been launched already are apart."""
        queued = int(self.causes[Cause.queued])
        found = {PARTS[part]: ns - queued * (part == "host") for part, ns in self.parts().items()}
        return found | {QUEUED: queued}

    def parts(self, in_span: bool = False) -> dict[str, int]:
        """Names of PARTS -> ns of the window, or of the span."""
        causes = self.causes_in_span if in_span else self.causes
        times = (self.times[name] for name in ("computation_time", "exposed_comm_time", "exposed_memcpy_time"))
        host = int(causes[[*HOST]].sum())
        return dict(zip(PARTS, (*times, host, int(causes[[*UNEXPLAINED]].sum())), strict=True))


def account_of(w: Window) -> Account:
    """The account of a window with GPU events; computed once."""
    return w.once(_account)


def time_spent(g: Core | Window) -> Table:
    """What the time of a trace, or of a part of it, went to: the parts that the verdict goes by, the largest first."""
    w = window_of(g)
    if not len(w.gpu_rows):
        return Table("time_spent", {name: [] for name in TIME_SPENT}, TIME_SPENT, "Where the time went")
    account = account_of(w)
    parts = sorted(((ns, part) for part, ns in account.shown_parts.items() if ns), reverse=True)
    columns: dict[str, Sequence[Any]] = {
        "part": [part for _, part in parts], "ms": [ns / 1e6 for ns, _ in parts],
        "percent": [percent(ns, account.window_ns) for ns, _ in parts],
    }  # fmt: skip
    return Table("time_spent", columns, TIME_SPENT, w.titled(f"Where {account.base_text} went"))


def _account(w: Window) -> Account:
    if w.around is not None:
        return _own_account(w, w.around)
    start = behind_cut_off_work(w)
    judged = narrow(w, after_ns=start) if start is not None else w
    c = w.core.columns
    cut_off = 0 if start is None else start - int(c.start_ns[w.gpu_rows].min())
    times, devices = times_on_devices(judged.core, judged.gpu_rows)
    inner = idle_parts(judged)
    edges = joined([]) if start is not None or judged.all_iterations or left_out_of(w.core) else edge_parts(judged)
    at_edges = np.arange(len(inner.row) + len(edges.row)) >= len(inner.row)
    idle = joined([inner, edges])
    return Account(judged, cut_off, devices, idle_parts(w).total_ns, inner.total_ns, times, idle, at_edges)


def _own_account(w: Window, around: Window) -> Account:
    """What is below some calls: its GPU work, and of the gaps around it those that end with it."""
    times, devices = times_on_devices(w.core, w.gpu_rows)
    gaps = ended_by(w, idle_parts(around))
    return Account(w, 0, devices, gaps.total_ns, gaps.total_ns, times, gaps, np.zeros(len(gaps.row), bool))
