"""Questions about the facts of many runs, which are pushed without their events."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from math import exp
from typing import Any

import pytest
from placed_traces import marked
from same_tables import assert_same

from corpus import needs_corpus, traces_named
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.categories.kernels import kernel_category
from tracelens_graph.db.database import Database
from tracelens_graph.db.image import Options
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

BUILDS = 9


@cache
def recorded() -> dict[str, Any]:
    """A run of a model; kernels lie so far apart that longer ones do not meet."""
    trace = simulate(1, steps=2, layers=2, seed=41).ranks[0].trace
    events = [{**event, "ts": event["ts"] * 3} if "ts" in event else event for event in trace["traceEvents"]]
    return {**trace, "traceEvents": events}


def build_of(number: int, slower: set[str], factor: float, draw: random.Random) -> Any:
    """The trace of a build: every name of a kernel takes a little more or less, some of them longer."""
    scatter: dict[str, float] = {}
    events = []
    for event in recorded()["traceEvents"]:
        if event.get("cat") == "kernel":
            name = event["name"]
            scatter.setdefault(name, exp(draw.gauss(0, 0.02)) * (factor if name in slower else 1))
            event = {**event, "dur": event["dur"] * scatter[name]}
        events.append(event)
    return load_core({**recorded(), "traceEvents": events, "build": number})


@cache
def made(seed: int) -> tuple[TraceSet, int, set[str], float]:
    """Builds, the first of them that is slower, which kernels that are, and how much."""
    draw = random.Random(seed)
    kinds: dict[str, set[str]] = {}
    for event in recorded()["traceEvents"]:
        if event.get("cat") == "kernel":
            kinds.setdefault(kernel_category(event["name"]), set()).add(event["name"])
    since, factor = draw.randrange(3, BUILDS - 1), draw.uniform(1.2, 1.5)
    slower = kinds[draw.choice(sorted(set(kinds) - {"Communication"}))]
    members = []
    for number in range(BUILDS):
        core = build_of(number, slower if number >= since else set(), factor, draw)
        labels = (f"facts{seed}={number}",)
        members.append(TraceMember(core, "rank0", f"facts {seed} {number}", labels))
    return TraceSet(members), since, slower, factor


def push(database: Database, traces: TraceSet) -> None:
    """Push facts; what is there already is left."""
    for one in traces:
        database.push(one.core, run=one.run, name=one.name, labels=one.labels, options=Options(kinds=()))


def other_choices() -> Any:
    """A trace of the model in which each kernel has the name of another: they run for other ops and modules."""
    events = recorded()["traceEvents"]
    names = sorted({event["name"] for event in events if event.get("cat") == "kernel"})
    other = dict(zip(names, [*names[1:], names[0]], strict=True))
    renamed = [{**one, "name": other[one["name"]]} if one.get("cat") == "kernel" else one for one in events]
    return load_core({**recorded(), "traceEvents": renamed})


@pytest.fixture
def answers(database: Database) -> Callable[..., Any]:
    def both(seed: int, name: str, **parameters: Any) -> Any:
        traces, *_ = made(seed)
        push(database, TraceSet([TraceMember(other_choices(), "rank0", "facts other", ())]))
        push(database, traces)
        query, twin = database.ask(name, **parameters), QUESTIONS[name](traces, **parameters)
        assert_same(query, twin)
        return query

    return both


@pytest.mark.parametrize("seed", [1, 2])
def test_slower_kernels_are_named_with_the_build_and_the_modules(answers: Callable[..., Any], seed: int) -> None:
    found = answers(seed, "regressions", label=f"facts{seed}")
    _, since, slower, factor = made(seed)
    assert set(found["name"]) == slower
    for row in found.records():
        assert row["since"] == str(since)
        assert row["factor"] == pytest.approx(factor, rel=0.08)
        assert row["modules"]
        assert row["builds_before"] == since


@pytest.mark.parametrize("of", ["signature", "module"])
def test_what_they_run_for_is_slower_too(answers: Callable[..., Any], of: str) -> None:
    answers(1, "regressions", label="facts1", of=of)


REAL = traces_named(
    "tracelens/h100/qwen1.5-0.5b",
    "tracelens/mi300/qwen1.5-0.5b",
    "dlrm-8-ranks/kineto/rank0",
    "dlrm-8-ranks/kineto/rank1",
    "tracelens/inference/vllm-decode/graph-replay",
)


@cache
def real() -> TraceSet:
    return TraceSet(
        TraceMember(marked(path, "facts"), f"real{place}", "facts real", (f"place={place}",))
        for place, path in enumerate(REAL)
    )


@needs_corpus
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("findings_across", {"run": "facts real"}),
        ("worst_of_roof", {"run": "facts real"}),
        ("signature_history", {"label": "place"}),
        ("signature_history", {"label": "place", "op": "aten::addmm"}),
        ("regressions", {"label": "place"}),
    ],
    ids=str,
)
def test_of_real_traces(database: Database, name: str, given: dict[str, Any]) -> None:
    push(database, real())
    assert_same(database.ask(name, **given), QUESTIONS[name](real(), **given))


@needs_corpus
def test_traces_like_one(database: Database) -> None:
    push(database, real())
    found = [
        row for row in database.ask("runs_like", b="facts real/real0", top=0).records() if row["run"] == "facts real"
    ]
    assert found[0]["trace"] == "real1"  # the same model on another device
    expected = QUESTIONS["runs_like"](real(), b="facts real/real0").records()
    assert [(row["trace"], row["same_names"], row["names"]) for row in found] == [
        (row["trace"], row["same_names"], row["names"]) for row in expected
    ]
    for row, twin in zip(found, expected, strict=True):
        assert row["overlap_percent"] == pytest.approx(twin["overlap_percent"])
