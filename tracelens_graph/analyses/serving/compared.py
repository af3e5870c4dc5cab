"""Two servers by equal phases: what a step of each takes on the GPU and waits before it, of steps of equal sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from tracelens_graph.analyses.idle.blame import blame
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.analyses.serving.iterations import BETWEEN, Served, served_in
from tracelens_graph.graph.batches import PHASES
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.user_code import line_names, shown_name
from tracelens_graph.graph.window import Window, narrow
from tracelens_graph.tables.column import About, Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Mask, Rows

_MOST = 16
"""Steps of each side that are aligned with those of the other."""
_BIN = log(1.25)
"""Steps count as of about equal size within a factor of 1.25."""
_CAUSES = 2
_LEAST_OF_CHANGE = 0.1
"""Causes of gaps that are named, and what share of the change of a step each has at least."""


def _both(name: str, meaning: str, unit: str = "ms", heading: str = "", drop_priority: int = 1) -> About:
    """The same column of both sides."""
    return {
        f"{name}_{side}": Column(
            text, unit, heading=f"{side.upper()} {heading}" if heading else "", drop_priority=drop_priority
        )
        for side, text in (("a", f"{meaning}, in a"), ("b", "the same in b"))
    }


DIFF_PHASES = TableSchema(
    "diff_phases",
    "What a step of two servers takes, by phase: means over steps of equal sizes.",
    {
        "phase": Column.key("phase; (between) for GPU work launched in no step, for each step of any phase", "phase"),
        **_both("iterations", "iterations that are compared: those of sizes that the other side has, too", "", "steps"),
        **_both("requests", "mean number of requests", "", drop_priority=2),
        **_both("tokens", "mean number of tokens of prompts and answers", "", drop_priority=2),
        **_both("keys", "mean number of tokens that are attended to", "", drop_priority=2),
        **_both("gpu_ms", "time in which its GPU events run", heading="GPU ms", drop_priority=0),
        **_both("idle_ms", "idle time of the GPU between these", drop_priority=2),
        **_both("gap_ms", "idle time of the GPU before its work", heading="gap ms", drop_priority=0),
        **_both("step_ms", "the sum of these three", heading="ms"),
        "change_ms": Column("step_ms of b less that of a", "ms", heading="change ms"),
        "change_percent": Column("that as share of the first; absent where the first is 0", "%"),
        **_both("tokens_per_s", "tokens by step_ms", "1/s", "tokens/s"),
        "why": Column.text("what the host did in the gaps that changed most, and what it is due to"),
    },
    ordered=True,
    counts="iteration",
)


@dataclass(frozen=True)
class _Pair:
    """Iterations of a phase on both sides that are of equal sizes.

    Attributes:
        phase: the phase.
        chosen: of both sides the places of the iterations.
        weights: what each counts, so that each size counts as much on both sides; both add up to the same.
        alike: of both sides the places of those of the size that most are of.
        is_close: whether sizes are equal, or nearly; else the phase has other sizes on both sides.
    """

    phase: str
    chosen: tuple[Rows, Rows]
    weights: tuple[np.ndarray, np.ndarray]
    alike: tuple[Rows, Rows]
    is_close: bool


def _pairs(a: Served, b: Served) -> Iterator[_Pair]:
    """The phases that both have, with the iterations of each that can be held against those of the other."""
    sides = a, b
    for phase in PHASES:
        of = [_with_step_before(side, (side.phases == phase) & (side.busy_ns[:-1] > 0)) for side in sides]
        if phase == "empty" or not all(map(len, of)):
            continue
        for rounded in (False, True, None):
            keys = [_sizes(side, rows, rounded) for side, rows in zip(sides, of, strict=True)]
            counts = [Counter(one) for one in keys]
            shared = counts[0] & counts[1]
            if 4 * shared.total() >= min(map(len, of)):
                break
        kept = [np.array([key in shared for key in one], bool) for one in keys]
        weights = [
            np.array([shared[key] / count[key] for key in one if key in shared], float)
            for one, count in zip(keys, counts, strict=True)
        ]
        most = max(shared, key=lambda key: (shared[key], key))
        alike = [rows[[key == most for key in one]] for rows, one in zip(of, keys, strict=True)]
        yield _Pair(
            phase, (of[0][kept[0]], of[1][kept[1]]), (weights[0], weights[1]), (alike[0], alike[1]), rounded is not None
        )


def _with_step_before(side: Served, wanted: Mask) -> Rows:
    """The places of the wanted iterations, without the first of a process that the GPU was idle before, unless there is
    no other: that gap holds whatever came before the program served, and is none between two steps."""
    follows = wanted & ~(np.isnan(side.host_gap_ms) & (side.gap_ns[:-1] > 0))
    return np.flatnonzero(follows if follows.any() else wanted)


def _sizes(side: Served, rows: Rows, rounded: bool | None) -> list[tuple[int, ...]]:
    """Tokens of prompts and requests of iterations, exactly, rounded, or all alike."""
    if rounded is None:
        return [()] * len(rows)
    figures = np.nan_to_num([side.context_tokens[rows], side.requests[rows]], nan=-1)
    if rounded:
        figures = np.round(np.log(np.maximum(figures, 0) + 1) / _BIN)
    return list(map(tuple, figures.T.astype(np.int64).tolist()))


def equal_iterations(a: Window, b: Window) -> tuple[Window, Window]:
    """As many iterations of each of two servers, of the phase that both have most time of, and of equal sizes.

    The windows as they are where no phase is common. Titles show how many these are, and of how many.
    """
    sides = served_in(a), served_in(b)
    pairs = [pair for pair in _pairs(*sides) if pair.phase != "unknown"]
    if not pairs or max(map(len, sides)) < 2:
        return a, b

    def least(pair: _Pair) -> tuple[int, str]:
        took = [side.busy_ns[:-1] + side.inside_ns[:-1] + side.gap_ns[:-1] for side in sides]
        return min(int(ns[rows].sum()) for ns, rows in zip(took, pair.chosen, strict=True)), pair.phase

    pair = max(pairs, key=least)
    count = min(_MOST, *map(len, pair.alike))
    left, right = (
        _some(w, side, rows, count, pair.phase) for w, side, rows in zip((a, b), sides, pair.alike, strict=True)
    )
    return left, right


def _some(w: Window, side: Served, rows: Rows, count: int, phase: str) -> Window:
    """`count` of some iterations, spread over all of them."""
    chosen = rows[np.linspace(0, len(rows) - 1, count).round().astype(np.int64)]
    numbers, requests = side.numbers[chosen], side.requests[chosen]
    text = f"iteration {numbers[0]}, {phase}" if count == 1 else f"{count} iterations, {phase}"
    if np.isfinite(requests).all():
        low, high = int(requests.min()), int(requests.max())
        text += f" of {low:,}{f' to {high:,}' if high > low else ''} requests"
    of = int((side.phases == phase).sum())
    return narrow(w, iteration=numbers.tolist()).retitled(f"{text}, {'one ' * (count == 1)}of {of:,}")


def phases_table(a: Window, b: Window, names: tuple[str, str]) -> Table | None:
    """What a step of two servers takes, by phase; None if one of the windows shows no server.

    Iterations of one phase are held against each other where they have equal numbers of requests and tokens of
    prompts, else such within a factor of 1.25; each size counts as much on both sides. Where hardly any are alike, all
    of both phases are, and a note says so. Of a step the GPU time, the idle time in it and the gap before it add up.
    """
    if not all(is_of_server(w.core) and len(served_in(w)) for w in (a, b)):
        return None
    sides = served_in(a), served_in(b)
    records, notes = [], []
    for pair in _pairs(*sides):
        means = [_means(side, rows, weight) for side, rows, weight in
                 zip(sides, pair.chosen, pair.weights, strict=True)]  # fmt: skip
        records.append(_record(pair.phase, means, _why(sides, pair, means)))
        if not pair.is_close:
            notes.append(f"{pair.phase}: steps of {names[0]} and {names[1]} are of other sizes: all are compared")
        keys = [one["keys"] for one in means]
        if all(np.isfinite(keys)) and min(keys) > 0 and max(keys) > 1.25 * min(keys):
            notes.append(f"{pair.phase}: requests attend to {keys[0]:,.0f} -> {keys[1]:,.0f} tokens in a step")
    lone = [{phase for phase in side.phases.tolist() if phase != "empty"} for side in sides]
    for name, phases in zip(names, (lone[0] - lone[1], lone[1] - lone[0]), strict=True):
        notes += [f"only {name} has {phase} steps" for phase in sorted(phases)]
    between = [_between(side) for side in sides]
    if any(one["step_ms"] for one in between):
        records.append(_record(BETWEEN, between, ""))
    return DIFF_PHASES.of_records(records, f"Steps of {names[1]} (B) against {names[0]} (A)", notes)


def _means(side: Served, rows: Rows, weight: np.ndarray) -> dict[str, float]:
    def mean(values: np.ndarray) -> float:
        return float((values[rows] * weight).sum() / weight.sum())

    found = {name: mean(getattr(side, name)) for name in ("requests", "tokens", "keys")}
    found |= {
        "gpu_ms": mean(side.busy_ns) / 1e6, "idle_ms": mean(side.inside_ns) / 1e6, "gap_ms": mean(side.gap_ns) / 1e6,
    }  # fmt: skip
    found["step_ms"] = found["gpu_ms"] + found["idle_ms"] + found["gap_ms"]
    found["tokens_per_s"] = found["tokens"] / found["step_ms"] * 1e3 if found["tokens"] and found["step_ms"] else np.nan
    return found | {"iterations": len(rows)}


def _between(side: Served) -> dict[str, float]:
    """What lies in no iteration, for each iteration."""
    each = 1e6 * max(len(side), 1)
    found = {"gpu_ms": side.busy_ns[-1] / each, "idle_ms": side.inside_ns[-1] / each, "gap_ms": side.gap_ns[-1] / each}
    unknown = dict.fromkeys(("requests", "tokens", "keys", "tokens_per_s"), np.nan)
    return found | unknown | {"step_ms": sum(found.values()), "iterations": len(side)}


def _record(phase: str, means: list[dict[str, float]], why: str) -> dict[str, Any]:
    first, second = means
    change = second["step_ms"] - first["step_ms"]
    record: dict[str, Any] = {"phase": phase, "change_ms": float(change), "why": why}
    record["change_percent"] = float(100 * change / first["step_ms"]) if first["step_ms"] else None
    for name in first:
        values = first[name], second[name]
        if name == "iterations":
            record |= {"iterations_a": int(values[0]), "iterations_b": int(values[1])}
            continue
        shown = [None if np.isnan(value) else float(value) for value in values]
        record |= dict(zip((f"{name}_a", f"{name}_b"), shown, strict=True))
    return record


def _why(sides: tuple[Served, Served], pair: _Pair, means: list[dict[str, float]]) -> str:
    """What the host did in gaps before the steps: causes that changed most, and what the slower side's is due to."""
    ms = [_gap_causes(side, rows, weight) for side, rows, weight in
          zip(sides, pair.chosen, pair.weights, strict=True)]  # fmt: skip
    change = ms[1] - ms[0]
    least = _LEAST_OF_CHANGE * max(abs(means[1]["step_ms"] - means[0]["step_ms"]), 1e-6)
    least = max(least, 0.01 * means[0]["step_ms"])
    texts = []
    for cause in map(Cause, np.argsort(-np.abs(change), kind="stable")[:_CAUSES].tolist()):
        if abs(change[cause]) < least:
            continue
        slower = int(change[cause] > 0)
        text = f"{cause.name.replace('_', ' ')} {ms[0][cause]:,.3f} -> {ms[1][cause]:,.3f} ms"
        texts.append(text + _due(sides[slower], pair.chosen[slower], cause))
    return "; ".join(texts)


def _gaps_of(side: Served, rows: Rows) -> tuple[Rows, Rows]:
    """The gaps before the work of some iterations: their places among all gaps, and the iteration of each."""
    place = np.full(len(side.found) + 1, -1)
    place[side.numbers[rows]] = np.arange(len(rows))
    at = np.flatnonzero(side.between)
    of = place[side.found.of[side.idle.row[at]]]
    return at[of >= 0], of[of >= 0]


def _gap_causes(side: Served, rows: Rows, weight: np.ndarray) -> np.ndarray:
    """Mean time by cause of the gap before an iteration, ms."""
    at, of = _gaps_of(side, rows)
    return (side.idle.parts[:, at] * weight[of]).sum(axis=1) / weight.sum() / 1e6


def _due(side: Served, rows: Rows, cause: Cause) -> str:
    core = side.window.core
    found = blame(core, side.idle, _gaps_of(side, rows)[0], (cause,))
    if found.row < 0:
        return ""
    name, line = shown_name(core, found.row), line_names(side.window, np.array([found.row]))[0]
    return f", due to {line or name}"
