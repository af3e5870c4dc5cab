"""Why a question about several traces has no rows, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.utils.suggest import hint

_NOTHING = {
    "common_signatures": "no op with the same arguments has GPU time in both traces",
    "kernel_choices": "where both traces ran an op with the same arguments, they ran kernels of the same names",
    "diff_places": "one of the traces has no GPU work",
    "kernel_replacements": "no other kernel took the place of one",
    "layer_differences": "no layer differs, or the traces have none",
    "ops_only_in_one": "both traces have ops of the same names",
}
"""What it means that one of the questions about two traces has no rows."""


def why_empty(question: str, traces: TraceSet, given: Mapping[str, Any]) -> str:
    """Why a question has no rows; empty if there is nothing to say.

    Args:
        question: its name.
        traces: what it was asked of.
        given: its parameters, as far as they were given.
    """
    if question == "run_history":
        return _no_history(traces, given)
    if question == "incomplete_traces":
        run = given.get("run")
        asked = [one for one in traces if run in (None, one.run)]
        return f"no file of {len(asked):,} was damaged" if asked else _no_run(traces, str(run))
    return _NOTHING.get(question, "")


def _no_history(traces: TraceSet, given: Mapping[str, Any]) -> str:
    label, run, named = given.get("label"), given.get("run"), given.get("named")
    keys = sorted({text.partition("=")[0] for one in traces for text in one.labels})
    if label is not None and label not in keys:
        there = f"{hint(label, keys)}" if keys else "the traces have no labels"
        return f"no trace has a label {label!r}; {there}"
    if run is not None and all(one.run != run for one in traces):
        return _no_run(traces, run)
    if named is not None and all(one.name != named for one in traces):
        return f"no trace is called {named!r}; {hint(named, dict.fromkeys(one.name for one in traces))}"
    return "no trace meets all of these conditions"


def _no_run(traces: TraceSet, run: str) -> str:
    runs = [one for one in dict.fromkeys(one.run for one in traces) if one]
    return f"no run is called {run!r}; {hint(run, runs) if runs else 'the traces are of no named run'}"


def pair_note(traces: TraceSet, given: Mapping[str, Any]) -> str:
    """Which two of more traces are compared where the choice was left open, and how to choose."""
    if len(traces) < 3 or (given.get("a") is not None and given.get("b") is not None):
        return ""
    one, other = traces.pair(given.get("a"), given.get("b"))
    compared = f"of {len(traces):,} traces {other.path} (b) is compared with {one.path} (a)"
    return f"{compared}; the parameters a and b name others"
