"""Plans of the signatures of a trace that is in a database as facts alone: they are those of the trace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from handmade import small_trace
from hypothesis import given
from hypothesis import strategies as st
from neo4j_server import Home

from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.db.database import Database
from tracelens_graph.db.image import Options
from tracelens_graph.db.signatures import durations
from tracelens_graph.errors import DatabaseError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.planned import Planned, planned
from tracelens_graph.replay.signatures import Signatures, charge_all, signatures
from tracelens_graph.simulate import simulate

FACTS = Options(kinds=())


@pytest.fixture(scope="module")
def trace() -> Core:
    return load_core(simulate(1, steps=2, layers=2, seed=36).ranks[0].trace)


@pytest.fixture(scope="module")
def database(home: Home, trace: Core) -> Iterator[Database]:
    with Database(home.connection) as found:
        found.push(trace, run="night", name="rank0", options=FACTS)
        host = [event for event in small_trace()["traceEvents"] if event.get("cat") in ("cpu_op", "python_function")]
        found.push(load_core({"traceEvents": host}), run="night", name="host", options=FACTS)
        yield found


def signature(core: Core, row: int) -> tuple[str, ...]:
    c = core.columns
    code = int(c.argset[row])
    return core.names[c.name[row]], *(core.argsets[code] if code >= 0 else ())


def without_place(one: Planned) -> Any:
    return (one.reason, one.plan and one.plan.json() | {"traced": None, "work": None})


def test_plans_and_times_are_those_of_the_trace(database: Database, trace: Core) -> None:
    graph = database.signature_core("night/rank0")
    found: Signatures = signatures(charge_all(window_of(graph)))
    keys = ("op", "input_dims", "input_types", "input_strides", "concrete_inputs")
    table = QUESTIONS["op_signatures"](trace, op="*").records()
    asked = {tuple(row[key] for key in keys): row for row in table}
    assert len(found) == len(asked)
    equal = 0
    for place, row in enumerate(found.rows.tolist()):
        one = asked[tuple(part or None for part in (*signature(graph, row), "", "", "", "")[:5])]
        assert found.calls[place] == one["calls"]
        assert found.charged_ns[place] == round(one["gpu_time_us"] * 1e3)
        assert found.median_ns[place] == pytest.approx(one["median_us"] * 1e3, abs=2)
        here, there = planned(graph, row), planned(trace, trace.row(one["uid"]))
        assert here.state == there.state
        if "nearby" not in there.why:  # dtypes in lists, which stand for those of neighbours
            assert without_place(here) == without_place(there)
            equal += int(here.plan is not None)
    assert equal > 10
    assert int(graph.columns.dur_ns[graph.gpu_rows].sum()) == int(trace.columns.dur_ns[trace.gpu_rows].sum())


def test_traces_without_gpu_work_have_none(database: Database) -> None:
    with pytest.raises(DatabaseError, match="night/host has no signature with GPU time"):
        database.signature_core("night/host")


def test_what_somebody_changed_is_said(database: Database) -> None:
    database.ask("MATCH (:Trace {name: 'rank0'})-[e:SPENT]->(:Signature) SET e.was = e.n, e.n = 'some'", write=True)
    try:
        with pytest.raises(DatabaseError, match="night/rank0 was changed in the database"):
            database.signature_core("night/rank0")
    finally:
        database.ask("MATCH (:Trace)-[e:SPENT]->(:Signature) SET e.n = coalesce(e.was, e.n) REMOVE e.was", write=True)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
def test_number_sum_and_median_of_calls_are_kept(calls: list[int]) -> None:
    middle = round(float(np.median(calls)))
    found = durations({"n": len(calls), "ns": sum(calls), "median_ns": middle})
    assert len(found) == len(calls)
    assert abs(found.sum() - sum(calls)) <= 1
    assert abs(np.median(found) - middle) <= 1
    assert (found >= 0).all()
