"""The steps of a server summed up: by phase, and in its steady state."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from tracelens_graph.analyses.serving.iterations import BETWEEN, TOKENS_PER_S, Served, no_iterations, served_in
from tracelens_graph.analyses.shared.gpu_work import gpu_categories
from tracelens_graph.analyses.timeline.timeline import times_by_group
from tracelens_graph.graph.batches import PHASES
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.iterations import WINDOW
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

PHASE_TABLE = TableSchema(
    "phases",
    "What a server's time went to: prompts, answers, both at once.",
    {
        "phase": Column.key(
            "prefill, mixed, decode, denoise, empty, unknown; (between) for GPU work in no iteration", "phase"
        ),
        "iterations": Column.count("iterations", "iterations"),
        "requests": Column("mean number of requests computed together", heading="requests"),
        "context_tokens": Column.count("tokens of prompts read", "context tokens", drop_priority=2),
        "generation_tokens": Column.count(
            "tokens of answers written, guessed ones included", "generation tokens", drop_priority=2
        ),
        "device_ms": Column.total("sum of the iterations' lengths on the device", "ms", "device ms", drop_priority=1),
        "percent_of_device": Column.share("share of that sum over all phases", "% of device time"),
        "step_ms": Column(
            "median length of an iteration on the device", "ms", heading="median step ms", drop_priority=0
        ),
        "host_ms": Column("median length of an iteration on the host", "ms", drop_priority=2),
        "token_us": Column("device_ms by the tokens of prompts and answers", "us", heading="us/token", drop_priority=0),
        "tokens_per_s": TOKENS_PER_S,
        "gpu_sum_ms": Column.total("sum of the durations of its GPU events", "ms", drop_priority=2),
        "busy_ms": Column.total("time in which any of its GPU events runs", "ms", drop_priority=2),
        "idle_percent": Column("part of device_ms in which no GPU event runs", "%", heading="idle %", drop_priority=-1),
        "gap_ms": Column.total(
            "idle time of the GPU between work of another iteration, or of none, and that of this phase; absent where "
            "there is one iteration alone", "ms", "gaps ms", drop_priority=1,
        ),
        "padding_percent": Column(
            "places of captured batches that are empty, where they are known", "%", heading="padding %",
            drop_priority=-1,
        ),
        "attention_percent": Column("share of attention in gpu_sum_ms, by names of kernels", "%"),
        "top_categories": Column(
            "categories of kernels with most GPU time: name, ms, percent of gpu_sum_ms", heading="most GPU time",
            cells="list",
        ),
    },
    counts="iteration",
)  # fmt: skip

STEADY_STATE = TableSchema(
    "steady_state",
    "Which steps of a server are its steady state, and which stretches of that stand for it.",
    {
        "stretch": Column.key(
            "region: all of it; mixed, decode, prefill: stretches of it, as TraceLens chooses them", "stretch"
        ),
        "first": Column("number of its first iteration", heading="first"),
        "last": Column("number of its last iteration", heading="last"),
        "iterations": Column.count("iterations in it", "iterations"),
        "prefill": Column("iterations of it that read prompts alone", heading="prefill", drop_priority=0),
        "mixed": Column("iterations that read prompts and write answers", heading="mixed", drop_priority=0),
        "decode": Column("iterations that write answers alone", heading="decode", drop_priority=0),
        "unknown": Column("iterations of other phases, or of none that is known", heading="other", drop_priority=0),
        "requests": Column("mean number of requests computed together", heading="requests", drop_priority=0),
        "step_ms": Column(
            "median length of an iteration on the device", "ms", heading="median step ms", drop_priority=0
        ),
        "device_ms": Column.total("sum of their lengths on the device", "ms", "device ms", drop_priority=2),
        "tokens_per_s": TOKENS_PER_S,
    },
    ordered=True,
    counts="iteration",
)

_NAMED = 3
"""How many categories of kernels a phase names."""


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan


def _median(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def _sum(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.sum()) if len(known) else np.nan


def _count(values: np.ndarray) -> int | None:
    """The sum of numbers of things, None where none is known."""
    return int(_sum(values)) if np.isfinite(values).any() else None


def _rate(part: float, whole: float) -> float:
    """A quotient, NaN where it has no meaning."""
    return part / whole if whole > 0 and np.isfinite(part) else np.nan


# --- by phase --------------------------------------------------------------------------------------------------------


def phases(g: Core | Window) -> Table:
    """One row per phase of a server's iterations, and one for GPU work launched outside of iterations.

    Rows add up to the window: every GPU event is in one. Time per token is time of the phase by all tokens in it, so of
    decode it is the time per output token of the whole batch, not of one request.
    """
    w = window_of(g)
    served = served_in(w)
    title = w.titled("Phases of a server")
    if not len(served):
        return PHASE_TABLE.empty(title, no_iterations(w))
    names = [phase for phase in PHASES if (served.phases == phase).any()]
    place = {phase: at for at, phase in enumerate(names)}
    of = np.array([*(place[phase] for phase in served.phases.tolist()), len(names)])[served.group]
    core, c, gpu, count = w.core, w.core.columns, w.gpu_rows, len(names) + 1
    length, busy = served.on_device_ns
    sums = sum_by_group(of, c.dur_ns[gpu], count) / 1e6
    tops = _top_categories(w, of, count)
    busy_ms = times_by_group(core, gpu, of, count)["busy_time"] / 1e6
    whole = max(int(length[:-1].sum()), 1)
    records = []
    for at, phase in enumerate([*names, BETWEEN]):
        mine = np.append(served.phases == phase, phase == BETWEEN)
        inside = mine[:-1]
        device = float(length[:-1][inside].sum())
        tokens = _sum(served.tokens[inside])
        padding, captured = served.padding[inside], served.captured[inside]
        records.append({
            "phase": phase, "iterations": int(inside.sum()), "requests": _mean(served.requests[inside]),
            "context_tokens": _count(served.context_tokens[inside]),
            "generation_tokens": _count(served.generation_tokens[inside]), "device_ms": device / 1e6,
            "percent_of_device": 100 * device / whole, "step_ms": _median(served.device_ms[inside]),
            "host_ms": _median(served.found.dur_ns[served.numbers][inside] / 1e6),
            "token_us": _rate(device / 1e3, tokens), "tokens_per_s": _rate(tokens * 1e9, device),
            "gpu_sum_ms": sums[at], "busy_ms": busy_ms[at],
            "idle_percent": 100 * _rate(device - float(busy[:-1][inside].sum()), device),
            "gap_ms": float(served.gap_ns[mine].sum()) / 1e6 if len(served) > 1 or phase == BETWEEN else None,
            "padding_percent": 100 * _rate(_sum(padding), _sum(captured[np.isfinite(padding)])),
            "attention_percent": sum((one["percent"] for one in tops[at] if "ttention" in one["name"]), 0.0),
            "top_categories": tops[at][:_NAMED],
        })  # fmt: skip
    if not sums[-1]:
        records.pop()
    notes = served.notes
    if len(served) == 1:
        notes.append("there is one iteration, so nothing is known of what lies between iterations")
    return PHASE_TABLE.of_records(records, title, notes)


def _top_categories(w: Window, of: np.ndarray, groups: int) -> list[list[dict[str, Any]]]:
    """The categories of the kernels of each group, the greatest first."""
    (labels, category), gpu = gpu_categories(w), w.gpu_rows
    time = np.zeros((groups, len(labels)), np.int64)
    np.add.at(time, (of, category[gpu]), w.core.columns.dur_ns[gpu])
    return [
        [
            {"name": labels[i], "ms": int(row[i]) / 1e6, "percent": 100 * int(row[i]) / max(int(row.sum()), 1)}
            for i in np.argsort(-row, kind="stable").tolist()
            if row[i]
        ]
        for row in time
    ]


# --- the steady state ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stretch:
    """A run of iterations: the first, and the one behind the last."""

    name: str
    first: int
    behind: int


def stretches(served: Served, num_steps: int = WINDOW, mixed_share: float | None = None) -> list[Stretch]:
    """The steady state, and the stretches of it that TraceLens's splitter would choose.

    `mixed` has as large a share of steps with prompts as all of the steady state has, `decode` and `prefill` are the
    longest runs of steps without and with prompts. A stretch has `num_steps` steps at most; `mixed` needs more where
    the share is so small that it would hold none.

    Args:
        num_steps: length that one would like to have.
        mixed_share: share of steps with prompts that is wanted; None for that of the steady state.
    """
    found = served.found
    if not len(found):
        return []
    first, behind = found.steady
    has_context = np.isin(found.phases, ("prefill", "mixed"))
    decodes = found.phases == "decode"
    result = [Stretch("region", first, behind)]
    if mixed_share:
        num_steps = max(num_steps, min(ceil(1 / mixed_share), behind - first))
    wanted = float(has_context[first:behind].mean()) if mixed_share is None else mixed_share
    size = min(num_steps, behind - first)
    stride = max(1, num_steps // max(1, min(num_steps // 2, 10)))
    starts = np.arange(first, behind - size + 1, stride)
    counted = np.concatenate(([0], np.cumsum(has_context)))
    prompts = counted[starts + size] - counted[starts]
    if prompts.any():
        starts, prompts = starts[prompts > 0], prompts[prompts > 0]
    requests = np.concatenate(([0], np.cumsum([batch.size or 1 for batch in found.batches])))
    mean = (requests[starts + size] - requests[starts]) / size
    best = int(starts[np.lexsort((-mean, np.abs(prompts / size - wanted)))[0]])
    result.append(Stretch("mixed", best, best + size))
    for name, fits in (("decode", decodes), ("prefill", has_context)):
        edges = np.flatnonzero(np.diff(np.concatenate(([False], fits[first:behind], [False])).astype(np.int8))) + first
        if len(edges):
            longest = int(np.argmax(edges[1::2] - edges[::2]))
            begin, end = int(edges[2 * longest]), int(edges[2 * longest + 1])
            result.append(Stretch(name, begin, min(end, begin + num_steps)))
    return result


def steady_state(g: Core | Window, num_steps: int = WINDOW) -> Table:
    """The steady state of a server: the longest run of steps with about as many requests as it ever has.

    A step is near if it has no less than 90 % of the greatest number of requests (80 % where there are fewer steps than
    `num_steps`), or one less. The run begins with the sixth such step, counted back by six, and ends when as many steps
    lay outside. Without one, it is the middle of the trace.

    Args:
        num_steps: greatest length of a stretch that stands for it.
    """
    w = window_of(g)
    served = served_in(w)
    title = w.titled("Steady state of a server")
    records: list[dict[str, Any]] = []
    for one in stretches(served, num_steps) if len(served) else ():
        inside = (served.numbers >= one.first) & (served.numbers < one.behind)
        device = float(served.on_device_ns[0][:-1][inside].sum())
        counted = {phase: int((served.phases[inside] == phase).sum()) for phase in ("prefill", "mixed", "decode")}
        records.append({
            "stretch": one.name, "first": one.first, "last": one.behind - 1, "iterations": int(inside.sum()),
            **counted, "unknown": int(inside.sum()) - sum(counted.values()),
            "requests": _mean(served.requests[inside]), "step_ms": _median(served.device_ms[inside]),
            "device_ms": device / 1e6, "tokens_per_s": _rate(_sum(served.tokens[inside]) * 1e9, device),
        })  # fmt: skip
    return STEADY_STATE.of_records(records, title, [] if records else no_iterations(w))
