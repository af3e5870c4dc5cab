"""The places of the model that GPU events of two traces are, in labels that both share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tracelens_graph.analyses.identification.kernels import all_passes, place_of
from tracelens_graph.analyses.identification.pairs import Labels, common_labels
from tracelens_graph.analyses.identification.tables import notes_on
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.trace_set import TraceMember, TraceSet, titled
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

IDENTIFIED_LABELS = TableSchema(
    "identified_labels",
    "Which place of the model each GPU event of two traces is, in labels that they share.",
    {
        "source": Column.text("trace1 or trace2, in the order in which they were given", "source"),
        "trace": Column.text("name of the trace", "trace"),
        "uid": Column.uid("the kernel"),
        "label": Column.text("layer, block and role; equal labels are equal places of the model", "label"),
        "confidence": Column(
            "how sure it is, from 0 to 1; absent for kernels that are in no pass of layers", heading="confidence"
        ),
        "gpu_time_us": Column("its duration", "us", heading="GPU us"),
        "kernel": Column.text("its name", "kernel"),
    },
    reads=("device", "external_id", "owner", "owner_rule", "stream", "thread"),
)


def identified_labels(traces: TraceSet, a: str | None = None, b: str | None = None) -> Table:
    """The labels of all GPU events of two traces, such as of two platforms or batch sizes, in order of time.

    Kernels in layers are paired by their places, the others in the order in which they were launched. What one trace
    does differently in a block of a layer shares a label.

    Args:
        traces: the two traces; several, if `a` and `b` name two of them.
        a: path, name or id of one trace; by default the first of two.
        b: path, name or id of the other; by default the second.

    Raises:
        AnalysisError: these are not two traces.
    """
    if len(traces) != 2 and None in (a, b):
        there = "there is 1" if len(traces) == 1 else f"there are {len(traces):,}"
        raise AnalysisError(f"identified_labels: expected two traces, {there}")
    pair = traces.pair(a, b)
    both = zip(("trace1", "trace2"), pair, common_labels(pair[0].core, pair[1].core), strict=True)
    rows = [row for source, one, labels in both for row in _labelled(source, one, labels)]
    notes = [f"{one.name}: {note}" for one in pair for note in notes_on(one.core)]
    return IDENTIFIED_LABELS.of_records(rows, titled("Labels of kernels", pair), notes)


def _labelled(source: str, one: TraceMember, labels: Labels) -> Iterable[dict[str, Any]]:
    core, c, places = one.core, one.core.columns, place_of(all_passes(one.core))
    rows = np.array([*labels], np.int64)
    rows = rows[one.window.holds(rows)]
    for row in rows[np.lexsort((c.uid[rows], c.start_ns[rows]))].tolist():
        yield {
            "source": source, "trace": one.name, "uid": int(c.uid[row]), "label": labels[row],
            "confidence": places[row].confidence if row in places else None,
            "gpu_time_us": int(c.dur_ns[row]) / 1e3, "kernel": core.names[c.name[row]],
        }  # fmt: skip
