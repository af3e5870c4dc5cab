"""Since which build something takes longer."""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any, Literal, NamedTuple

from tracelens_graph.analyses.across.spending import Build, Of, Spending, beside, builds_of, spending
from tracelens_graph.analyses.report.facts import facts_of_trace
from tracelens_graph.graph.trace_set import TraceSet, titled
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

STANDARD_ERRORS = 5
"""How far both sides are apart at least: of some hundred kernels and as many places to part them, noise parts none."""

PRIOR_BUILDS, PRIOR_NOISE = 4, 0.02
"""Scatter that counts in, as by so many builds: the scatter of few builds may be small by chance."""

REGRESSIONS = TableSchema(
    "regressions",
    "The build since which kernels, ops or modules take longer, beyond the noise of earlier builds.",
    {
        "since": Column.text("value of the label, or name of the run, from which on it takes longer", drop_priority=-1),
        "name": Column.key("whole name of the kernel, name of the op, or path of the module"),
        "input_dims": Column.key("of a signature, sizes of the inputs, JSON", drop_priority=1),
        "factor": Column("time since then as multiple of that before"),
        "before_us": Column("time of one before, geometric mean over the builds", "us", drop_priority=3),
        "since_us": Column("the same since then", "us", drop_priority=3),
        "noise_percent": Column("standard deviation of the builds before around their mean", "%", drop_priority=2),
        "cost_ms": Column("what it adds to a trace since then", "ms"),
        "percent": Column("the same as share of the GPU time of these traces", "%"),
        "builds_before": Column("builds before, in which it ran", drop_priority=2),
        "builds_since": Column("builds since then, in which it ran", drop_priority=2),
        "kernels": Column.text("of a signature or module, kernels that ran for it, most time first; of the last of its "
                               "traces", drop_priority=2),
        "signatures": Column.text("of a kernel, ops and sizes of inputs that it ran for, most time first; of the last "
                                  "of its traces", drop_priority=2),
        "modules": Column.text("of a kernel, places of modules that it ran for, most own time first; of the last of "
                            "its traces", drop_priority=2),
    },
    ordered=True,
)  # fmt: skip


class Parted(NamedTuple):
    """Values in two sides; those of the second are higher.

    Attributes:
        at: number of values on the first side.
        before: their mean.
        rise: how much higher the mean of the second side is.
        error: standard error of that.
        noise: standard deviation of the first side.
    """

    at: int
    before: float
    rise: float
    error: float
    noise: float


def parted(values: list[float]) -> Parted | None:
    """The split of values that separates them best, with the higher ones second; None where none is."""
    many, total, squares = len(values), sum(values), sum(value * value for value in values)
    best, at, begun = 0.0, 0, 0.0
    for count, value in enumerate(values[:-1], 1):
        begun += value
        rise = total * count / many - begun
        if count > 1 and rise > 0 and (gain := rise * rise * many / (count * (many - count))) > best:
            best, at = gain, count
    if not at:
        return None
    share = many / (at * (many - at))
    scatter = abs(squares - total * total / many - best) + PRIOR_BUILDS * PRIOR_NOISE**2
    before = sum(values[:at]) / at
    noise = sqrt(sum((value - before) ** 2 for value in values[:at]) / (at - 1))
    return Parted(at, before, sqrt(best * share), sqrt(scatter / (many - 2 + PRIOR_BUILDS) * share), noise)


def regressions(
    traces: TraceSet,
    of: Literal["kernel", "signature", "module"] = "kernel",
    label: str | None = None,
    named: str | None = None,
    min_percent: float = 5,
    top: int = 20,
) -> Table:
    """The build since which kernels, ops or modules take longer, beyond the noise of earlier builds.

    A build is a value of a label, or else a run; traces of one build count together. Of each kernel, signature or place
    of a module the logarithm of the mean time of one is followed over the builds. The build since which it takes longer
    parts them best into a faster and a slower side: the sum of squares around both means is the least. At least two
    builds are before it.

    Args:
        traces: the traces, in order.
        of: kernel, signature (an op with its arguments) or module.
        label: key of a label, such as `commit`; None for runs, in their order.
        named: only traces of this name.
        min_percent: smaller increases are left out, %.
        top: how many are shown, the most expensive first; 0 for all.
    """
    builds = builds_of(traces, label, named)
    found = []
    for key, one in spending(builds, of).items():
        if len(one.builds) > 2:
            sides = parted([log(ns / n) for ns, n in zip(one.ns, one.n, strict=True)])
            if sides and sides.rise > STANDARD_ERRORS * sides.error and sides.rise >= log(1 + min_percent / 100):
                found.append((-_cost(builds, one, sides), key, one, sides))
    found.sort(key=lambda row: row[:2])
    asked = [trace for build in builds for trace in build.traces]
    rows = [_row(builds, of, *row) for row in found[: top or None]]
    return REGRESSIONS.of_records(rows, titled("What takes longer, since which build", asked))


def _since(builds: list[Build], one: Spending, sides: Parted) -> list[Build]:
    return [builds[number] for number in one.builds[sides.at :]]


def _cost(builds: list[Build], one: Spending, sides: Parted) -> float:
    """What it adds to a trace, ns."""
    traces = sum(len(build.traces) for build in _since(builds, one, sides))
    return (1 - exp(-sides.rise)) * sum(one.ns[sides.at :]) / traces


def _row(builds: list[Build], of: Of, less: float, key: str, one: Spending, sides: Parted) -> dict[str, Any]:
    since = _since(builds, one, sides)
    traces = [trace for build in since for trace in build.traces]
    gpu_ns = sum(facts_of_trace(trace.window).get("gpu_sum_ns", 0) for trace in traces)
    return {
        "since": since[0].name, "name": one.node.get("path") or one.node["name"],
        "input_dims": one.node.get("input_dims") or None, "factor": exp(sides.rise),
        "before_us": exp(sides.before) / 1e3, "since_us": exp(sides.before + sides.rise) / 1e3,
        "noise_percent": 100 * sides.noise, "cost_ms": -less / 1e6,
        "percent": 100 * -less * len(traces) / gpu_ns if gpu_ns else None, "builds_before": sides.at,
        "builds_since": len(one.builds) - sides.at, **beside(traces[-1], of, key),
    }  # fmt: skip
