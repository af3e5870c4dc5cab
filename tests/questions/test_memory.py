"""Allocations: the database's answers beside ours."""

from __future__ import annotations

from functools import cache

import pytest
from handmade import span
from memory_traces import instant, training
from same_tables import Ask, twins, with_queries

from corpus import traces_named
from tracelens_graph.db.database import Database
from tracelens_graph.db.image import Options
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

QUERIES = with_queries("allocations_by_module memory_peak")
UNSEEN = [
    instant(1, 100, 1, 1100, reserved=2000), instant(2, 50, 1, 1050), instant(2, -50, 1, 1000), instant(2, 70, 2, 1070),
    instant(3, -30, 9, 1040), instant(4, 60, 2, 1100), instant(4, -1000, 8, 100), instant(5, 5, 3, kind=0, device=-1),
    instant(6, 5, 4, kind=0, device=-1), instant(9, 8, 1, 8, device=2), instant(9, 8, 2, 16, device=10),
    instant(9, 10**9, 0, 8, name="[OutOfMemory]"),
]  # fmt: skip
"""Releases that are not recorded, several changes of one moment, totals that are missing, several devices."""


@cache
def simulated() -> Core:
    return load_core(simulate(ranks=1, steps=2, layers=1).ranks[0].trace)


test_both_say_the_same, test_both_say_the_same_of_real_traces = twins(
    QUERIES,
    {"training": lambda: load_core(training()), "unseen": lambda: load_core(UNSEEN), "simulated": simulated},
    also=[("simulated", name, {"step": 4}) for name in QUERIES],
    files=traces_named("tracelens/h100/bert-small", "tracelens/mi300/normalization-layers"),
    rows=1,
)


@pytest.mark.parametrize("name", QUERIES)
def test_a_database_without_allocations_says_what_to_record(database: Database, ask: Ask, name: str) -> None:
    core = load_core([one for one in training() if one["name"] != "[memory]"])
    query, twin = ask(core, name)
    assert len(query) == len(twin) == 0
    assert query.notes == twin.notes == ["no allocation is recorded: record with profile_memory=True"]
    ops_only = load_core([*training(), span("cpu_op", "another", 995, 1)])
    database.push(ops_only, run="memory", name="ops-only", options=Options(("Op",)))
    assert database.ask(name, trace="memory/ops-only").notes == [
        "allocations were left out when the trace was pushed: push it with --replace, and MemoryEvent in --only"
    ]
