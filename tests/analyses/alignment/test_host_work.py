"""Host time in the place of GPU time: own times of ops, whole, and compared like GPU work."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span

import tracelens_graph as tlg
from corpus import needs_corpus
from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.analyses.alignment.host_work import comparable
from tracelens_graph.analyses.alignment.tables import diff_tables
from tracelens_graph.analyses.places.host_times import host_times
from tracelens_graph.cli import gate
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "ac2g", "gpu_user_annotation", "cuda_runtime", "cuda_driver"}


def events(scale: float = 1.0, more: int = 0) -> list[dict[str, Any]]:
    """Four calls of linear: 10 us, of which addmm takes 6 and in it empty 2; further ones of add, 4 us each."""
    found = []
    for number in range(4):
        begin = 20.0 * scale * number
        found += [
            span("cpu_op", "aten::linear", begin, 4 + 6 * scale), span("cpu_op", "aten::addmm", begin + 2, 6 * scale),
            span("cpu_op", "aten::empty", begin + 3, 2),
        ]  # fmt: skip
    return found + [span("cpu_op", "aten::add", 500.0 + 5 * number, 4) for number in range(more)]


def test_own_times_are_the_work_and_changes_add_up() -> None:
    a, b = load_core({"traceEvents": events()}), load_core({"traceEvents": events(2.0, more=3)})
    found = diff(a, b)
    assert found.ns == (40_000, 4 * 16_000 + 12_000)
    changes = {place.names[1]: place.change_ns for place in found.places}
    assert changes == {"aten::addmm": 4 * 6_000, "aten::add": 12_000, "aten::linear": 0, "aten::empty": 0}
    side = found.b.core.columns
    gpu = found.b.gpu_rows
    assert (side.start_ns[gpu] >= side.start_ns[side.parent[gpu]]).all()
    busy = sum(length for length in np.diff(np.sort(np.concatenate((side.start_ns[gpu], side.end_ns[gpu])))))
    assert busy == side.end_ns[gpu].max() - side.start_ns[gpu].min()


@needs_corpus
@pytest.mark.parametrize("is_cut", [(True, True), (False, True)])
def test_own_times_of_a_recorded_trace(corpus: Path, is_cut: tuple[bool, bool]) -> None:
    text = gzip.decompress((corpus / "tracelens/h100/bert-small.json.gz").read_bytes())
    graphs = []
    for cut in is_cut:
        trace = json.loads(text)
        if cut:
            trace["traceEvents"] = [event for event in trace["traceEvents"] if event.get("cat") not in DEVICE]
        graphs.append(load_core(trace))
    a, b = (window.core for window in comparable(*(graph.window() for graph in graphs)))
    found = tlg.diff(a.window(), b.window())
    assert found.ns[0] == found.ns[1] == int(b.columns.dur_ns[b.gpu_rows].sum())
    assert not any(place.change_ns for place in found.places)
    table = host_times(graphs[1])
    own: dict[str, float] = {}
    for name, kind, ms in zip(table["name"], table["kind"], table["self_ms"], strict=True):
        own[name] = own.get(name, 0.0) + (ms if kind == Kind.Op.name else 0.0)
    mine: dict[str, float] = {}
    for row in b.gpu_rows.tolist():
        name = b.names[b.columns.name[row]]
        mine[name] = mine.get(name, 0.0) + int(b.columns.dur_ns[row]) / 1e6
    assert mine == pytest.approx({name: own[name] for name in mine})


def test_reasons_speak_of_calls_and_wrappers_are_part_of_what_they_run() -> None:
    wrapper = "autograd::engine::evaluate_function: AddBackward0"

    def trace(scale: float) -> dict[str, Any]:
        more = [span("cpu_op", wrapper, 500.0, 9 * scale), span("cpu_op", "AddBackward0", 501.0, 5 * scale)]
        return {"traceEvents": events(scale) + more}

    tables = diff_tables(diff(load_core(trace(1)), load_core(trace(2))), with_noise=False)
    places = tables["diff_places"].records()
    assert any("the same calls, 2.00x as long" in row["why"] for row in places)
    assert not any("kernel" in row["why"] for row in places)
    figures = [
        gate.read(condition.figure, tables)
        for condition in gate.parse([f"place:{wrapper}:ms > 0", "place:AddBackward0:ms > 0"], of=gate.figures_of_diff())
    ]
    assert figures[0].value == figures[1].value == pytest.approx(0.009)
    assert "part of place 'AddBackward0'" in figures[0].remark
