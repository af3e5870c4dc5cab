"""Two traces side by side, signature by signature, and the history of many.

Traces come as `Placed`, in the order in which they were pushed. Where two are compared, `b` is the one that was pushed
last and `a` the one pushed before it, unless path (`run/name`), name or id of another is given.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.analyses.questions import across_ranks
from tracelens_graph.analyses.questions.placed import Placed, pair
from tracelens_graph.analyses.timeline import gpu_timeline
from tracelens_graph.categories.short_names import short_name
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.classes import argset_text
from tracelens_graph.graph.context import ARGSET_PARTS, content_key
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.schema import Kind
from tracelens_graph.table import Column, Table

_NAME = {"name": Column("name of the op")}
_SIGNATURE = {
    **_NAME,
    "input_dims": Column("dims of the inputs, JSON"),
    "input_types": Column("types of the inputs, JSON"),
    "input_strides": Column("strides of the inputs, JSON"),
    "concrete_inputs": Column("values of the inputs that are no tensors, JSON"),
}
_COUNTS = {
    "count_a": Column("calls in a that led to GPU work"),
    "count_b": Column("calls in b that led to GPU work"),
}

ABOUT: Mapping[str, Mapping[str, Column]] = {
    "common_signatures": {
        **_SIGNATURE,
        **_COUNTS,
        "gpu_time_a_us": Column("sum of the durations of the GPU events that are charged to the calls in a", "us"),
        "gpu_time_b_us": Column("the same in b", "us"),
        "ratio": Column("GPU time of b over that of a; absent where a has none"),
        "difference_us": Column("GPU time of b less that of a", "us"),
    },
    "kernel_choices": {
        **_SIGNATURE,
        "kernels_a": Column("kernels, copies and fills charged to the calls in a, those with the most time first; short"
                            " names, or whole ones where the short names of a and b are the same"),
        "kernels_b": Column("the same in b"),
        **_COUNTS,
        "call_time_a_us": Column("GPU time charged to a call in a, on average", "us"),
        "call_time_b_us": Column("the same in b", "us"),
        "cost_us": Column("GPU time of the calls in b beyond what as many took in a; negative where b gained", "us"),
    },
    "ops_only_in_one": {
        "only_in": Column("the trace that has the op, `run/name`"),
        **_NAME,
        "count": Column("calls"),
        "gpu_time_us": Column("sum of the durations of the GPU events that are charged to the calls", "us"),
    },
    "run_history": {
        "label_value": Column("value of the label asked for"),
        "run": Column("name of the run"),
        "trace": Column("name of the trace"),
        "gpu_total_ms": Column("from the first start to the last end of a GPU event", "ms"),
        "gpu_busy_ms": Column("any GPU event runs", "ms"),
        "computation_ms": Column("a computation kernel or a fill runs", "ms"),
        "exposed_comm_ms": Column("communication runs and no computation", "ms"),
        "idle_percent": Column("share of the total in which nothing runs", "%"),
        "total_change_percent": Column("change of the total against the trace before", "%"),
        "busy_change_percent": Column("change of the busy time against the trace before", "%"),
    },
    **across_ranks.ABOUT,
}  # fmt: skip
"""Name of a question -> columns of its table."""

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_HISTORY = {
    "gpu_total_ms": "total_time",
    "gpu_busy_ms": "busy_time",
    "computation_ms": "computation_time",
    "exposed_comm_ms": "exposed_comm_time",
}
"""Column of the history -> row of the timeline."""


@dataclass
class Signatures:
    """The signatures of a trace, names of ops with their argument sets, as far as they led to GPU work.

    Attributes:
        core: the graph.
        rows: rows of the ops with GPU work below.
        of: number of the signature of each.
        codes: what tells the signatures of this trace apart.
    """

    core: Core
    rows: np.ndarray
    of: np.ndarray
    codes: np.ndarray

    @staticmethod
    def of_core(core: Core) -> Signatures:
        """Those of a graph."""
        c = core.columns
        rows, gpu = rows_of_kind(c, (Kind.Op,)), core.gpu_rows
        rows = rows[np.searchsorted(gpu, rows) < np.searchsorted(gpu, c.last[rows], "right")]
        codes, of = distinct(c.name[rows].astype(np.int64) * (len(core.argsets) + 1) + c.argset[rows] + 1)
        return Signatures(core, rows, of, codes)

    @cached_property
    def calls(self) -> np.ndarray:
        """Number of calls of each."""
        return np.bincount(self.of, minlength=len(self.codes))

    @cached_property
    def charged(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the GPU events that are charged to an op, and the number of its signature for each."""
        gpu = self.core.gpu_rows
        owner = self.core.columns.owner[gpu]
        gpu, owner = gpu[owner >= 0], owner[owner >= 0]
        return gpu, self.of[np.searchsorted(self.rows, owner)]

    @cached_property
    def gpu_ns(self) -> np.ndarray:
        """Sum of the durations of the GPU events charged to each signature."""
        gpu, of = self.charged
        return sum_by_group(of, self.core.columns.dur_ns[gpu], len(self.codes))

    @cached_property
    def kernels(self) -> dict[int, list[str]]:
        """Number of a signature -> names of the GPU events charged to it, those with the most time first."""
        gpu, of = self.charged
        c, width = self.core.columns, max(len(self.core.names), 1)
        pairs, number = distinct(of * width + c.name[gpu])
        times = sum_by_group(number, c.dur_ns[gpu], len(pairs)).tolist()
        found: dict[int, list[tuple[int, str]]] = {}
        for one, time in zip(pairs.tolist(), times, strict=True):
            found.setdefault(one // width, []).append((-time, self.core.names[one % width]))
        return {one: [name for _, name in sorted(names)] for one, names in found.items()}

    @cached_property
    def names(self) -> list[str]:
        """Name of the op of each."""
        return [self.core.names[code] for code in (self.codes // (len(self.core.argsets) + 1)).tolist()]

    def argset(self, one: int) -> int:
        """Number of the argument set of a signature, -1 for none."""
        return int(self.codes[one]) % (len(self.core.argsets) + 1) - 1

    @cached_property
    def keys(self) -> dict[str, int]:
        """Key that a signature has in every trace -> its number."""
        numbered = ((one, self.argset(one)) for one in range(len(self.codes)))
        texts = ((one, [] if code < 0 else [argset_text(self.core, code)]) for one, code in numbered)
        return {content_key("sig", self.names[one], *text): one for one, text in texts}

    def described(self, one: int) -> dict[str, str | None]:
        """Name and arguments of a signature."""
        code = self.argset(one)
        parts = self.core.argsets[code] if code >= 0 else ("",) * len(ARGSET_PARTS)
        return {"name": self.names[one], **{key: part or None for key, part in zip(ARGSET_PARTS, parts, strict=True)}}


@dataclass
class _Pair:
    """Two traces and the signatures that both ran."""

    a: Placed
    b: Placed

    def __post_init__(self) -> None:
        self.in_a, self.in_b = Signatures.of_core(self.a.core), Signatures.of_core(self.b.core)

    def common(self) -> list[tuple[str, int, int]]:
        """Key of each common signature, and its number in either trace."""
        return [(key, one, self.in_b.keys[key]) for key, one in self.in_a.keys.items() if key in self.in_b.keys]

    def title(self, what: str) -> str:
        """`what`, and which traces it is about."""
        return f"{what}: {self.b.path} (b) against {self.a.path} (a)"


def common_signatures(traces: Sequence[Placed], a: str | None = None, b: str | None = None, top: int = 100) -> Table:
    """Ops with the same arguments that two traces ran: how often, and how long the GPU worked for them.

    Signatures that led to GPU work in both traces, and are charged with some of it in one at least; the greatest
    differences first.

    Args:
        traces: in the order of pushing.
        a: path, name or id of one trace; by default the one pushed before the other.
        b: path, name or id of the other; by default the one pushed last.
        top: number of signatures.

    Raises:
        AnalysisError: there are not two such traces.
    """
    two = _Pair(*pair(traces, a, b))
    rows = []
    for key, one, other in two.common():
        ns_a, ns_b = int(two.in_a.gpu_ns[one]), int(two.in_b.gpu_ns[other])
        if ns_a or ns_b:
            said = {
                **two.in_a.described(one),
                "count_a": int(two.in_a.calls[one]),
                "count_b": int(two.in_b.calls[other]),
                "gpu_time_a_us": ns_a / 1e3,
                "gpu_time_b_us": ns_b / 1e3,
                "ratio": ns_b / ns_a if ns_a else None,
                "difference_us": (ns_b - ns_a) / 1e3,
            }
            rows.append(((-abs(ns_b - ns_a), said["name"], key), said))
    return _table("common_signatures", two.title("GPU time by signature"), _first(rows, top))


def kernel_choices(traces: Sequence[Placed], a: str | None = None, b: str | None = None, top: int = 100) -> Table:
    """Where two traces launched different kernels for an op with the same arguments, and what that cost.

    Signatures that both charge with GPU work, but not of the same names; the greatest costs and gains first.

    Args:
        traces: in the order of pushing.
        a: path, name or id of one trace; by default the one pushed before the other.
        b: path, name or id of the other; by default the one pushed last.
        top: number of signatures.

    Raises:
        AnalysisError: there are not two such traces.
    """
    two = _Pair(*pair(traces, a, b))
    rows = []
    for key, one, other in two.common():
        names_a, names_b = two.in_a.kernels.get(one, []), two.in_b.kernels.get(other, [])
        if not names_a or not names_b or set(names_a) == set(names_b):
            continue
        short_a, short_b = [[short_name(name) for name in names] for names in (names_a, names_b)]
        calls_a, calls_b = int(two.in_a.calls[one]), int(two.in_b.calls[other])
        time_a, time_b = int(two.in_a.gpu_ns[one]) / calls_a / 1e3, int(two.in_b.gpu_ns[other]) / calls_b / 1e3
        cost = (time_b - time_a) * calls_b
        said = {
            **two.in_a.described(one),
            "kernels_a": names_a if short_a == short_b else short_a,
            "kernels_b": names_b if short_a == short_b else short_b,
            "count_a": calls_a,
            "count_b": calls_b,
            "call_time_a_us": time_a,
            "call_time_b_us": time_b,
            "cost_us": cost,
        }
        rows.append(((-abs(cost), said["name"], key), said))
    return _table("kernel_choices", two.title("Different kernels for the same signature"), _first(rows, top))


def ops_only_in_one(traces: Sequence[Placed], a: str | None = None, b: str | None = None) -> Table:
    """Names of ops that only one of two traces has, those with the most GPU time first.

    Args:
        traces: in the order of pushing.
        a: path, name or id of one trace; by default the one pushed before the other.
        b: path, name or id of the other; by default the one pushed last.

    Raises:
        AnalysisError: there are not two such traces.
    """
    rows = []
    one, other = pair(traces, a, b)
    ops = {placed.path: _ops(placed.core) for placed in (one, other)}
    for path, there in ((one.path, other.path), (other.path, one.path)):
        for name, (calls, ns) in ops[path].items():
            if name not in ops[there]:
                rows.append(
                    ((-ns, -calls, name), {"only_in": path, "name": name, "count": calls, "gpu_time_us": ns / 1e3})
                )
    return _table("ops_only_in_one", f"Ops that only {one.path} or only {other.path} has", _first(rows))


def _ops(core: Core) -> dict[str, tuple[int, int]]:
    """Name of each op -> number of its calls, and ns of the GPU events charged to them."""
    c, gpu = core.columns, core.gpu_rows
    calls = np.bincount(c.name[rows_of_kind(c, (Kind.Op,))], minlength=len(core.names))
    gpu = gpu[c.owner[gpu] >= 0]
    ns = sum_by_group(c.name[c.owner[gpu]], c.dur_ns[gpu], len(core.names))
    return {core.names[code]: (int(calls[code]), int(ns[code])) for code in np.flatnonzero(calls).tolist()}


def run_history(
    traces: Sequence[Placed], label: str | None = None, run: str | None = None, named: str | None = None
) -> Table:
    """How long the GPU took in each of many traces, in the order of a label's values or of pushing.

    Values that are numbers come first, in their order, then the others in that of texts. Changes are against the row
    above, so give a name (`rank0`) where runs hold several traces. Times are those of the GPU timeline.

    Args:
        traces: in the order of pushing.
        label: key of a label, such as `commit`; traces without it are left out. By default the order is that of
            pushing.
        run: only traces of this run.
        named: only traces of this name.
    """
    chosen = []
    for place, trace in enumerate(traces):
        value = trace.value_of(label) if label is not None else None
        wanted = run in (None, trace.run) and named in (None, trace.name)
        if wanted and (label is None or value is not None):
            number = float(value) if value is not None and _NUMBER.fullmatch(value) else float("inf")
            chosen.append((number, value or "", place, value, trace))
    rows: list[dict[str, Any]] = []
    before: dict[str, float] = {}
    for _, _, _, value, trace in sorted(chosen, key=lambda one: one[:3]):
        table = gpu_timeline(trace.core)
        rows_of = dict(zip(table["type"], table["time ms"], strict=True))
        times = {column: float(rows_of.get(row, 0.0)) for column, row in _HISTORY.items()}
        total, idle = times["gpu_total_ms"], float(rows_of.get("idle_time", 0.0))
        rows.append(
            {
                "label_value": value,
                "run": trace.run,
                "trace": trace.name,
                **times,
                "idle_percent": 100 * idle / total if total else None,
                "total_change_percent": _change("gpu_total_ms", times, before),
                "busy_change_percent": _change("gpu_busy_ms", times, before),
            }
        )
        before = times
    return _table("run_history", "GPU time, trace after trace", rows)


def _change(column: str, times: Mapping[str, float], before: Mapping[str, float]) -> float | None:
    """Change in percent of what was before; None if there was nothing."""
    base = before.get(column)
    return 100 * (times[column] - base) / base if base else None


def _first(rows: list[tuple[tuple[Any, ...], dict[str, Any]]], top: int | None = None) -> list[dict[str, Any]]:
    """The first rows in the order of their keys."""
    return [said for _, said in sorted(rows, key=lambda row: row[0])[:top]]


def _table(name: str, title: str, rows: list[dict[str, Any]]) -> Table:
    return Table(name, {column: [row[column] for row in rows] for column in ABOUT[name]}, ABOUT[name], title)


QUESTIONS: Mapping[str, Callable[..., Table]] = {
    "common_signatures": common_signatures,
    "kernel_choices": kernel_choices,
    "ops_only_in_one": ops_only_in_one,
    "run_history": run_history,
    **across_ranks.QUESTIONS,
}
"""Name of a query -> what answers it in Python."""
