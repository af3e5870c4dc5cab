"""Two traces side by side, signature by signature.

Of the traces of a set `b` is the last and `a` the one before it, unless the path (`run/name`), name or id of another
is given. Of a window, only GPU events in it count, and the calls that led to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.analyses.shared.call_columns import SIGNATURE, argument_texts
from tracelens_graph.analyses.shared.grouping import first_rows
from tracelens_graph.graph.arguments import argset_text
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.context import content_key
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.trace_set import TraceMember, TraceSet, titled
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import About, Column
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_NAME: About = {"name": Column.key("name of the op")}

_SIGNATURE: About = {**_NAME, **SIGNATURE}

_COUNTS: About = {
    "count_a": Column.count("calls in a that led to GPU work"),
    "count_b": Column.count("calls in b that led to GPU work"),
}

COMMON_SIGNATURES = TableSchema(
    "common_signatures",
    "Ops with the same arguments in two traces: how often, and how long the GPU worked for them.",
    {
        **_SIGNATURE,
        **_COUNTS,
        "gpu_time_a_us": Column.total(
            "sum of the durations of the GPU events that are charged to the calls in a", "us"
        ),
        "gpu_time_b_us": Column.total("the same in b", "us"),
        "ratio": Column("GPU time of b over that of a; absent where a has none"),
        "difference_us": Column.total("GPU time of b less that of a", "us"),
    },
    reads=("argset", "owner", "thread"),
)

KERNEL_CHOICES = TableSchema(
    "kernel_choices",
    "Where two traces run different kernels for the same op and arguments.",
    {
        **_SIGNATURE,
        "kernels_a": Column(
            "kernels, copies and fills charged to the calls in a, those with the most time first; "
            "short names, or whole ones where the short names of a and b are the same",
            cells="list",
        ),
        "kernels_b": Column("the same in b", cells="list"),
        **_COUNTS,
        "call_time_a_us": Column("GPU time charged to a call in a, on average", "us"),
        "call_time_b_us": Column("the same in b", "us"),
        "cost_us": Column.total(
            "GPU time of the calls in b beyond what as many took in a; negative where b gained", "us"
        ),
    },
    reads=("argset", "owner", "thread"),
)

OPS_ONLY_IN_ONE = TableSchema(
    "ops_only_in_one",
    "Which ops only one of two traces has.",
    {
        "only_in": Column.key("the trace that has the op, `run/name`"),
        **_NAME,
        "count": Column.count("calls"),
        "gpu_time_us": Column.total("sum of the durations of the GPU events that are charged to the calls", "us"),
    },
    reads=("argset", "owner", "thread"),
)


@dataclass
class Signatures:
    """The signatures of a window, names of ops with their argument sets, as far as they led to GPU work in it.

    Attributes:
        window: the window.
        rows: rows of the ops with GPU work of the window below.
        of: number of the signature of each.
        codes: what separates the signatures of this trace.
    """

    window: Window
    rows: np.ndarray
    of: np.ndarray
    codes: np.ndarray

    @staticmethod
    def of_window(window: Window) -> Signatures:
        """Those of a window."""
        core, c = window.core, window.core.columns
        rows, gpu = rows_of_kind(c, (Kind.Op,)), window.gpu_rows
        rows = rows[np.searchsorted(gpu, rows) < np.searchsorted(gpu, c.last[rows], "right")]
        codes, of = distinct(c.name[rows].astype(np.int64) * (len(core.argsets) + 1) + c.argset[rows] + 1)
        return Signatures(window, rows, of, codes)

    @property
    def core(self) -> Core:
        """The graph."""
        return self.window.core

    @cached_property
    def calls(self) -> np.ndarray:
        """Number of calls of each."""
        return np.bincount(self.of, minlength=len(self.codes))

    @cached_property
    def charged(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the GPU events that are charged to an op, and the number of its signature for each."""
        gpu = self.window.gpu_rows
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
        texts = argument_texts(self.core, np.array([self.argset(one)]))
        return {"name": self.names[one], **{key: text for key, (text,) in texts.items()}}


@dataclass
class _Pair:
    """Two traces and the signatures that both ran."""

    a: TraceMember
    b: TraceMember

    def __post_init__(self) -> None:
        self.in_a, self.in_b = Signatures.of_window(self.a.window), Signatures.of_window(self.b.window)

    def common(self) -> list[tuple[str, int, int]]:
        """Key of each common signature, and its number in either trace."""
        return [(key, one, self.in_b.keys[key]) for key, one in self.in_a.keys.items() if key in self.in_b.keys]

    def title(self, what: str) -> str:
        """`what`, and which traces it is about."""
        return titled(f"{what}: {self.b.path} (b) against {self.a.path} (a)", (self.a, self.b))


def common_signatures(traces: TraceSet, a: str | None = None, b: str | None = None, top: int = 100) -> Table:
    """Ops with the same arguments that two traces ran: how often, and how long the GPU worked for them.

    Signatures that led to GPU work in both traces, and are charged with some of it in one at least; the greatest
    differences first.

    Args:
        traces: the traces, in order.
        a: path, name or id of one trace; by default the one before the other.
        b: path, name or id of the other; by default the last.
        top: number of signatures; 0 for all.

    Raises:
        AnalysisError: there are not two such traces, or `top` is negative.
    """
    two = _Pair(*traces.pair(a, b))
    rows = []
    for key, one, other in two.common():
        ns_a, ns_b = int(two.in_a.gpu_ns[one]), int(two.in_b.gpu_ns[other])
        if ns_a or ns_b:
            row = {
                **two.in_a.described(one), "count_a": int(two.in_a.calls[one]),
                "count_b": int(two.in_b.calls[other]), "gpu_time_a_us": ns_a / 1e3, "gpu_time_b_us": ns_b / 1e3,
                "ratio": ns_b / ns_a if ns_a else None, "difference_us": (ns_b - ns_a) / 1e3,
            }  # fmt: skip
            rows.append(((-abs(ns_b - ns_a), row["name"], key), row))
    return _table(COMMON_SIGNATURES, two.title("GPU time by signature"), rows, top)


def kernel_choices(traces: TraceSet, a: str | None = None, b: str | None = None, top: int = 100) -> Table:
    """Where two traces launched different kernels for an op with the same arguments, and what that cost.

    Signatures that both charge with GPU work, but not of the same names; the greatest costs and gains first.

    Args:
        traces: the traces, in order.
        a: path, name or id of one trace; by default the one before the other.
        b: path, name or id of the other; by default the last.
        top: number of signatures; 0 for all.

    Raises:
        AnalysisError: there are not two such traces, or `top` is negative.
    """
    two = _Pair(*traces.pair(a, b))
    rows = []
    for key, one, other in two.common():
        names_a, names_b = two.in_a.kernels.get(one, []), two.in_b.kernels.get(other, [])
        if not names_a or not names_b or set(names_a) == set(names_b):
            continue
        short_a, short_b = [[short_name(name) for name in names] for names in (names_a, names_b)]
        calls_a, calls_b = int(two.in_a.calls[one]), int(two.in_b.calls[other])
        time_a, time_b = int(two.in_a.gpu_ns[one]) / calls_a / 1e3, int(two.in_b.gpu_ns[other]) / calls_b / 1e3
        cost = (time_b - time_a) * calls_b
        row = {
            **two.in_a.described(one), "kernels_a": names_a if short_a == short_b else short_a,
            "kernels_b": names_b if short_a == short_b else short_b, "count_a": calls_a, "count_b": calls_b,
            "call_time_a_us": time_a, "call_time_b_us": time_b, "cost_us": cost,
        }  # fmt: skip
        rows.append(((-abs(cost), row["name"], key), row))
    return _table(KERNEL_CHOICES, two.title("Different kernels for the same signature"), rows, top)


def ops_only_in_one(traces: TraceSet, a: str | None = None, b: str | None = None) -> Table:
    """Names of ops that only one of two traces has, the greatest GPU time first.

    Args:
        traces: the traces, in order.
        a: path, name or id of one trace; by default the one before the other.
        b: path, name or id of the other; by default the last.

    Raises:
        AnalysisError: there are not two such traces.
    """
    rows = []
    one, other = traces.pair(a, b)
    ops = {placed.path: _ops(placed.window) for placed in (one, other)}
    for path, there in ((one.path, other.path), (other.path, one.path)):
        for name, (calls, ns) in ops[path].items():
            if name not in ops[there]:
                rows.append(
                    ((-ns, -calls, name), {"only_in": path, "name": name, "count": calls, "gpu_time_us": ns / 1e3})
                )
    title = titled(f"Ops that only {one.path} or only {other.path} has", (one, other))
    return _table(OPS_ONLY_IN_ONE, title, rows)


def _ops(w: Window) -> dict[str, tuple[int, int]]:
    """Name of each op -> number of its calls, and ns of the GPU events charged to them.

    Of a window, its calls and GPU events; a call counts, too, where only a GPU event of it is in the window.
    """
    core, c, gpu = w.core, w.core.columns, w.gpu_rows
    gpu = gpu[c.owner[gpu] >= 0]
    rows = np.union1d(w.rows_of_kind(Kind.Op), c.owner[gpu])
    calls = np.bincount(c.name[rows], minlength=len(core.names))
    ns = sum_by_group(c.name[c.owner[gpu]], c.dur_ns[gpu], len(core.names))
    return {core.names[code]: (int(calls[code]), int(ns[code])) for code in np.flatnonzero(calls).tolist()}


def _table(schema: TableSchema, title: str, rows: list[tuple[tuple[Any, ...], dict[str, Any]]], top: int = 0) -> Table:
    """The table of the first rows in the order of their keys; `top` 0 for all."""
    shown, notes = first_rows(sorted(rows, key=lambda row: row[0]), top)
    return schema.of_records([row for _, row in shown], title, notes)
