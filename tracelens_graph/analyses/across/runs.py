"""What many traces have in common: findings of their verdicts, signatures far from the roof, kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tracelens_graph.analyses.across.spending import in_order
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.report.facts import Values, spent_by
from tracelens_graph.graph.arguments import ARGSET_PARTS
from tracelens_graph.graph.trace_set import TraceMember, TraceSet, titled
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_RUN, _TRACE = Column.text("name of the run"), Column.text("name of the trace")
_SIGNATURE = {
    "op": Column.key("name of the op", "op", drop_priority=-1),
    "input_dims": Column.key("sizes of the inputs, JSON", "input_dims"),
    "input_types": Column.key("types of the inputs, JSON"),
    "input_strides": Column.key("strides of the inputs, JSON"),
    "concrete_inputs": Column.key("values of the inputs that are not tensors, JSON"),
    "signature": Column.text("its key, by which `signature_history` is asked for it"),
}
"""Columns that say which signature a row is about."""

FINDINGS_ACROSS = TableSchema(
    "findings_across",
    "What the verdicts on many traces say, and in how many of them.",
    {
        "finding": Column.key("its id"),
        "topic": Column.text("what it is about"),
        "traces": Column("number of traces whose verdicts say it"),
        "percent_of_traces": Column("share of all traces", "%"),
        "mean_percent": Column("mean of its share, of those that have one", "%"),
        "max_percent": Column("greatest share", "%"),
        "percent_of": Column.text("what that is a share of"),
        "worst_run": Column.text("run of the trace with the greatest share"),
        "worst_trace": Column.text("name of that trace"),
        "text": Column.text("what the verdict on it says"),
    },
    ordered=True,
)

WORST_OF_ROOF = TableSchema(
    "worst_of_roof",
    "Which ops and arguments could win most time over many traces, if they ran at the device's rates.",
    {
        **_SIGNATURE,
        "traces": Column("number of traces with it", heading="traces"),
        "calls": Column("calls in all of them", heading="calls", drop_priority=2),
        "gpu_time_ms": Column("GPU time of these calls", "ms", heading="gpu_time_ms"),
        "percent_of_roof": Column(
            "least time at the devices' rates as share of the GPU time, weighted by it", "%", heading="percent_of_roof"
        ),
        "could_be_won_ms": Column("GPU time beyond that least time", "ms", heading="could_be_won_ms"),
        "worst_run": Column.text("run of the trace with the least percent_of_roof", "worst_run", drop_priority=2),
        "worst_trace": Column.text("name of that trace", "worst_trace", drop_priority=2),
    },
    ordered=True,
)

SIGNATURE_HISTORY = TableSchema(
    "signature_history",
    "How long the calls of an op with one set of arguments took, trace after trace.",
    {
        "label_value": Column.text("value of the label asked for", drop_priority=-1),
        "run": _RUN,
        "trace": _TRACE,
        **{name: replace(one, heading=None, drop_priority=None) for name, one in _SIGNATURE.items()},
        "calls": Column("calls with GPU work"),
        "gpu_time_us": Column("their GPU time", "us", drop_priority=3),
        "mean_us": Column("the same of a call", "us"),
        "min_us": Column("least time of a call", "us", drop_priority=2),
        "median_us": Column("median time of a call", "us", drop_priority=3),
        "max_us": Column("greatest time of a call", "us", drop_priority=2),
        "percent_of_roof": Column("least time at the device's rates as share of the GPU time, mean over calls", "%"),
        "change_percent": Column("change of mean_us against the trace before", "%"),
    },
    ordered=True,
)

RUNS_LIKE = TableSchema(
    "runs_like",
    "Which traces spent their GPU time on the same kernels as one trace.",
    {
        "run": _RUN,
        "trace": _TRACE,
        "overlap_percent": Column("what both spent on the same", "%"),
        "same_names": Column("names that both have"),
        "names": Column("names that the other trace has"),
        "gpu_time_ms": Column("sum of the durations of its GPU events", "ms"),
        "time_percent": Column("the same as share of that of the trace asked about", "%"),
    },
    ordered=True,
)


def findings_across(traces: TraceSet, run: str | None = None, named: str | None = None) -> Table:
    """Findings of the verdicts on many traces: how many traces have each, and where it costs most.

    Args:
        traces: the traces, in order.
        run: only traces of this run.
        named: only traces of this name.
    """
    chosen = _chosen(traces, run, named)
    found: dict[str, list[tuple[TraceMember, Any]]] = {}
    for one in chosen:
        for finding in verdict(one.window):
            found.setdefault(finding.id, []).append((one, finding))
    rows = []
    for name, shown in found.items():
        shares = [finding.evidence.get("percent") for _, finding in shown]
        known = [share for share in shares if share is not None]
        worst = max(range(len(shown)), key=lambda at: (-1 if shares[at] is None else shares[at], -at))
        trace, finding = shown[worst]
        rows.append({
            "finding": name, "topic": finding.topic, "traces": len(shown),
            "percent_of_traces": 100 * len(shown) / len(chosen),
            "mean_percent": sum(known) / len(known) if known else None, "max_percent": max(known, default=None),
            "percent_of": finding.evidence.get("percent_of"), "worst_run": trace.run, "worst_trace": trace.name,
            "text": finding.text,
        })  # fmt: skip
    rows.sort(key=lambda row: (-row["traces"], row["finding"]))
    return FINDINGS_ACROSS.of_records(rows, titled("Findings", chosen))


def worst_of_roof(traces: TraceSet, run: str | None = None, named: str | None = None, top: int = 20) -> Table:
    """The signatures that would save most time over many traces if they ran at the device's rates.

    Args:
        traces: the traces, in order.
        run: only traces of this run.
        named: only traces of this name.
        top: how many are shown; 0 for all.
    """
    chosen = _chosen(traces, run, named)
    found = _spent_on(chosen, lambda spent: spent.get("percent_of_roof") is not None)
    rows = []
    for key, (node, spent) in found.items():
        ns = sum(one["ns"] for _, one in spent)
        weighted = sum(one["ns"] * one["percent_of_roof"] for _, one in spent)
        worst = min(range(len(spent)), key=lambda at: (spent[at][1]["percent_of_roof"], at))
        row = {
            **_signature(key, node), "traces": len(spent), "calls": sum(one["n"] for _, one in spent),
            "gpu_time_ms": ns / 1e6, "percent_of_roof": weighted / ns if ns else None,
            "could_be_won_ms": (100 * ns - weighted) / 100 / 1e6, "worst_run": spent[worst][0].run,
            "worst_trace": spent[worst][0].name,
        }  # fmt: skip
        rows.append((-row["could_be_won_ms"], key, row))
    rows.sort(key=lambda row: row[:2])
    return WORST_OF_ROOF.of_records([row for *_, row in rows[: top or None]], titled("Furthest from the roof", chosen))


def signature_history(
    traces: TraceSet,
    op: str | None = None,
    input_dims: str | None = None,
    signature: str | None = None,
    label: str | None = None,
    named: str | None = None,
) -> Table:
    """Times of the calls of an op with one set of arguments, in the order of a label's values or of pushing.

    Args:
        traces: the traces, in order.
        op: name of the op; None for the signature with the most GPU time over all traces.
        input_dims: sizes of its inputs as JSON; None for those with the most GPU time over all traces.
        signature: key of the signature; None for the one with the most GPU time over all traces that fits.
        label: key of a label, such as `commit`; traces without it are left out. By default the order is that of
            pushing.
        named: only traces of this name.
    """
    chosen = [one for one in _chosen(traces, None, named) if label is None or one.value_of(label) is not None]
    found = _spent_on(chosen, lambda spent: True)
    fitting = {
        key: one
        for key, one in found.items()
        if op in (None, one[0]["name"])
        and signature in (None, key)
        and (input_dims is None or _plain(one[0].get("input_dims")) == _plain(input_dims))
    }
    if not fitting:
        return SIGNATURE_HISTORY.empty(titled("Signature, trace after trace", chosen))
    key = min(fitting, key=lambda key: (-sum(spent["ns"] for _, spent in fitting[key][1]), key))
    node, spent = fitting[key]
    rows: list[dict[str, Any]] = []
    before = None
    for trace, one in in_order(spent, lambda one: one[0].value_of(label or ""), traces, label):
        mean = one["ns"] / one["n"]
        times = {f"{name}_us": one[f"{name}_ns"] / 1e3 if f"{name}_ns" in one else None
                 for name in ("min", "median", "max")}  # fmt: skip
        rows.append({
            "label_value": trace.value_of(label) if label is not None else None, "run": trace.run,
            "trace": trace.name, **_signature(key, node), "calls": one["n"], "gpu_time_us": one["ns"] / 1e3,
            "mean_us": mean / 1e3, **times, "percent_of_roof": one.get("percent_of_roof"),
            "change_percent": 100 * (mean - before) / before if before else None,
        })  # fmt: skip
        before = mean
    return SIGNATURE_HISTORY.of_records(rows, titled("Signature, trace after trace", chosen))


def runs_like(traces: TraceSet, b: str | None = None, top: int = 20) -> Table:
    """Traces that spent their GPU time on the same kernels as a given trace, the most similar first.

    The overlap adds up, over all names of GPU work, the smaller one of their shares of the GPU time of both traces.

    Args:
        traces: the traces, in order.
        b: path, name or id of the trace asked about; None for the last.
        top: how many are shown; 0 for all.

    Raises:
        AnalysisError: no trace is called so, or several are.
    """
    asked = traces.named(b)
    here = _times(asked)
    rows = []
    for place, one in enumerate(traces):
        there = _times(one)
        if one is asked or not sum(there.values()) or not sum(here.values()):
            continue
        both = sorted(here.keys() & there.keys())
        wholes = sum(here.values()), sum(there.values())
        overlap = sum(min(100 * here[key] / wholes[0], 100 * there[key] / wholes[1]) for key in both)
        row = {
            "run": one.run, "trace": one.name, "overlap_percent": overlap, "same_names": len(both),
            "names": len(there), "gpu_time_ms": wholes[1] / 1e6, "time_percent": 100 * wholes[1] / wholes[0],
        }  # fmt: skip
        rows.append((-overlap, -place, row))
    rows.sort(key=lambda row: row[:2])
    return RUNS_LIKE.of_records([row for *_, row in rows[: top or None]], titled(f"Traces like {asked.path}", traces))


def _chosen(traces: TraceSet, run: str | None, named: str | None) -> list[TraceMember]:
    return [one for one in traces if run in (None, one.run) and named in (None, one.name)]


def _spent_on(
    traces: list[TraceMember], counts: Callable[[Values], bool]
) -> dict[str, tuple[Values, list[tuple[TraceMember, Values]]]]:
    """Signatures by key: properties, and what each trace spent on them."""
    found: dict[str, tuple[Values, list[tuple[TraceMember, Values]]]] = {}
    for one in traces:
        for key, node, spent in one.window.once(spent_by, "Signature"):
            if counts(spent):
                found.setdefault(key, (node, []))[1].append((one, spent))
    return found


def _signature(key: str, node: Values) -> Values:
    return {"op": node["name"], **{name: node.get(name) or None for name in ARGSET_PARTS}, "signature": key}


def _times(trace: TraceMember) -> dict[str, int]:
    """GPU time by key of the name of GPU work."""
    return {key: spent["ns"] for key, _, spent in trace.window.once(spent_by, "KernelName")}


def _plain(dims: str | None) -> str:
    return (dims or "").replace(" ", "")
