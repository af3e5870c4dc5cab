"""GPU time by what was computed, not by what it is called: families of operations, and sizes of the largest of them.

Names of operations differ between frameworks and their releases; what a model is made of does not. So this is what a
profile of JAX and a trace of PyTorch are compared by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.categories.kernel_rules import OTHER
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

WORK_SUMMARY = TableSchema(
    "work_summary",
    "GPU time by family of operations and sizes, whatever operations are called.",
    {
        "family": Column.key(
            "family of the operations: `matrix product`, `convolution`, `attention`, `reduce`, ...", "family"
        ),
        "sizes": Column.key(
            "of a product `batch x M x N x K`, M and N in descending order; of a convolution those "
            "of input and filters, channels behind the batch; of attention `batch x heads x queries "
            "x keys x width`; else empty",
            "sizes",
        ),
        "total_ms": Column.total(
            "sum of the durations of their GPU events", "ms", "GPU ms", compared="main", figure="ms"
        ),
        "calls": Column.count("calls", "calls"),
        "tflops_s": Column("operations of their models over that time", "TFLOP/s", heading="TFLOP/s", compared="diff"),
        "op": Column.text("the operation with most of the time"),
    },
    counts="call",
)


_BOTH_WAYS = ("Convolution", "Normalization")
"""Categories of forward and backward pass alike."""


def work_summary(g: Core | Window) -> Table:
    """GPU time by family of operations, and among products, convolutions and attention by their sizes.

    Two rows of different traces are about the same work if families and sizes are equal. Sizes of a product are
    `batch x M x N x K`, M and N in descending order, because a product is also the transpose of another; of a
    convolution those of input and filters, channels behind the batch; of attention `batch x heads x queries x keys x
    width`. Precision does not separate rows.

    Args:
        g: the graph, or a window of it; every GPU event is in one row, as in `unified_perf_summary`.
    """
    w = window_of(g)
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for one in unified_perf_summary(w).records():
        family = _family(str(one.get("op category") or OTHER), str(one["name"]))
        row = rows.setdefault(
            (family, sizes_of(one.get("perf_params"))),
            {"total_ms": 0.0, "calls": 0, "gflop": 0.0, "ops": {}},
        )
        ms = float(one["Kernel Time (µs)_sum"]) / 1e3
        row["total_ms"] += ms
        row["calls"] += int(one["operation_count"])
        row["gflop"] += float(one["GFLOPS"] or 0) * int(one["operation_count"])
        row["ops"][one["name"]] = row["ops"].get(one["name"], 0.0) + ms
    order = sorted(rows.items(), key=lambda item: (-item[1]["total_ms"], item[0]))
    time = np.array([row["total_ms"] for _, row in order], float)
    gflop = np.array([row["gflop"] for _, row in order], float)
    columns: dict[str, Any] = {
        "family": [family for (family, _), _ in order], "sizes": [sizes for (_, sizes), _ in order], "total_ms": time,
        "calls": np.array([row["calls"] for _, row in order], np.int64),
        "tflops_s": np.where((gflop > 0) & (time > 0), gflop / np.where(time > 0, time, np.nan), np.nan),
        "op": [max(row["ops"], key=lambda name: row["ops"][name]) for _, row in order],
    }  # fmt: skip
    return WORK_SUMMARY.table(columns, w.titled("GPU time by family and sizes"))


def _family(category: str, op: str) -> str:
    """The category; of gradients of convolutions and of normalization another one than of the forward pass."""
    return f"{category} backward" if category in _BOTH_WAYS and "backward" in op.lower() else category


def sizes_of(params: Any) -> str:
    """The sizes of a call, by the parameters of its model; empty where they do not separate work.

    >>> sizes_of({"M": 4096, "N": 6144, "K": 2048, "bias": False})
    '6144 x 4096 x 2048'
    """
    if not isinstance(params, Mapping):
        return ""
    for keys, text in _SIZES:
        if keys <= params.keys() and all(_is_size(params[key]) for key in keys):
            return text(params)
    return ""


def _is_size(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, list | tuple) and all(isinstance(one, int) for one in value))


def _product(params: Mapping[str, Any]) -> str:
    batch = params.get("B")
    large, small = sorted((params["M"], params["N"]), reverse=True)
    return _joined([*([batch] if isinstance(batch, int) and batch > 1 else []), large, small, params["K"]])


def _attention(params: Mapping[str, Any]) -> str:
    causal = ", causal" if params.get("causal") else ""
    return _joined([params["B"], params["H_Q"], params["N_Q"], params["N_KV"], params["d_h_qk"]]) + causal


def _convolution(params: Mapping[str, Any]) -> str:
    return f"{_joined(params['input_shape'])}, {_joined(params['filter_shape'])}"


def _joined(sizes: Any) -> str:
    return " x ".join(map(str, sizes))


_SIZES: tuple[tuple[frozenset[str], Callable[[Mapping[str, Any]], str]], ...] = (
    (frozenset(("M", "N", "K")), _product),
    (frozenset(("B", "N_Q", "H_Q", "N_KV", "d_h_qk")), _attention),
    (frozenset(("input_shape", "filter_shape")), _convolution),
)
"""Parameters that a family's models give -> their text."""
