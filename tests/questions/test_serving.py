"""Questions about the steps of servers: the database's answers beside ours."""

from __future__ import annotations

from functools import cache
from typing import Any

from handmade import call, gpu, span
from same_tables import twins, with_queries

from corpus import traces_named
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate.serving import simulate

QUERIES = with_queries("iterations phases")


@cache
def server() -> Core:
    return load_core(simulate(steps=12).ranks[0].trace)


@cache
def short_forms() -> Core:
    """Iterations with and without sizes, work between two of them, and work of one that overlaps that of the next."""
    names = ["step[EXTEND bs=1 toks=90]", "", "step[MIXED bs=4]", "step[IDLE bs=0]", "step[DECODE bs=4]"]
    events: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        at = 100 * number
        events += [span("user_annotation", name, at, 80)] if name else []
        events += [span("cpu_op", "aten::mm", at + 5, 9), call(at + 8, number + 1), gpu(at + 60, 70, number + 1)]
    return load_core(events)


test_the_database_says_the_same, test_the_database_says_the_same_of_real_traces = twins(
    QUERIES,
    {"server": server, "short forms": short_forms},
    files=traces_named("tracelens/inference/vllm-decode/graph-replay"),
)
