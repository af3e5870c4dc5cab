"""Facts of a trace in its image: they say what the questions say that they come from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from handmade import hostile_trace, small_trace
from hypothesis import given
from made_traces import traces
from neo4j_server import rows

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.db.database import image
from tracelens_graph.db.image import Image, Options, Placement
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema.facts import CAUSES, SOURCES

FACTS = Options(kinds=())


def facts_image(core: Core) -> Image:
    return image(core, Placement("run", "name"), FACTS)


REAL = traces_named(
    "tracelens/mi300/resnet-ddp-checkpointing",
    "tracelens/h100/qwen1.5-0.5b",
    "tracelens/inference/vllm-decode/graph-replay",
    "dlrm-8-ranks/kineto/rank0",
    "tracelens/inference/sglang-decode/graph-replay",
)


def nodes_of(found: Image, label: str) -> list[dict[str, Any]]:
    return [node for nodes in found.nodes if nodes.labels[0] == label for node in rows(nodes)]


def edges_of(found: Image, type: str, target: str) -> dict[str, dict[str, Any]]:
    """Key of the target -> properties of the edge that leads there."""
    return {
        key: dict(zip((prop.name for prop in edges.properties), values, strict=True))
        for edges in found.edges
        if (edges.type, edges.target) == (type, target)
        for _, key, *values in edges.rows(0, len(edges))
    }


def assert_as_asked(core: Core) -> None:
    found = facts_image(core)
    trace = found.properties
    timeline = dict(zip(*(list(QUESTIONS["gpu_timeline"](core)[name]) for name in ("type", "time ms")), strict=True))
    for name, row in (("gpu_total_ns", "total_time"), ("gpu_busy_ns", "busy_time"), ("idle_ns", "idle_time")):
        assert trace.get(name, 0) == round(timeline.get(row, 0) * 1e6)
    for row in QUESTIONS["idle_causes"](core).records():
        assert trace[f"idle_{row['cause']}_ns"] == round(row["idle_ms"] * 1e6)
    steps = [row["device_step_ms"] for row in QUESTIONS["step_summary"](core).records() if row["uid"] is not None]
    assert Counter(node.get("device_ns") for node in nodes_of(found, "StepTime")) == Counter(
        None if ms is None or ms != ms else round(ms * 1e6) for ms in steps
    )

    names = {node["key"]: node["name"] for node in nodes_of(found, "KernelName")}
    spent = {names[key]: one for key, one in edges_of(found, "SPENT", "KernelName").items()}
    asked = {row["name"]: row for row in QUESTIONS["attribution"](core, level="kernel").records()}
    assert spent.keys() == asked.keys()
    for name, row in asked.items():
        assert (spent[name]["ns"], spent[name]["n"]) == (round(row["exclusive_sum_us"] * 1e3), row["count"])
        assert spent[name]["max_ns"] == round(row["max_us"] * 1e3)

    ops = {node["key"]: node["name"] for node in nodes_of(found, "Signature")}
    of_ops: Counter[str] = Counter()
    for key, one in edges_of(found, "SPENT", "Signature").items():
        of_ops[ops[key]] += one["ns"]
    for op, ns in of_ops.items():
        assert ns == sum(round(us * 1e3) for us in QUESTIONS["op_signatures"](core, op=op)["gpu_time_us"])

    kinds = {node["key"]: node["name"] for node in nodes_of(found, "Category")}
    by_kind = {kinds[key]: one for key, one in edges_of(found, "SPENT", "Category").items()}
    for row in QUESTIONS["category_shares"](core).records():
        assert by_kind[row["category"]]["ns"] == round(row["gpu_time_us"] * 1e3)
        assert by_kind[row["category"]]["median_ns"] == round(row["median_us"] * 1e3)

    places = edges_of(found, "SPENT", "ModulePlace").values()
    assert sum(one["own_ns"] for one in places) == trace.get("gpu_sum_ns", 0) or not places
    collectives = sum(one["ns"] for one in edges_of(found, "SPENT", "CollectiveKind").values())
    assert collectives == sum(round(us * 1e3) for us in QUESTIONS["exposed_communication"](core)["total_us"])

    shown = edges_of(found, "SHOWS", "Finding")
    names = {node["key"]: node["name"] for node in nodes_of(found, "Finding")}
    assert sorted((one["place"], names[key]) for key, one in shown.items()) == [
        *((place, one.id) for place, one in enumerate(verdict(core)))
    ]
    assert not found.properties["nodes"]


@given(traces())
def test_of_made_traces(events: list[dict[str, Any]]) -> None:
    assert_as_asked(load_core(events))


@pytest.mark.parametrize("make", [small_trace, hostile_trace])
def test_of_traces_by_hand(make: Any) -> None:
    assert_as_asked(load_core(make()))


@parametrize("path", REAL)
def test_of_real_traces(path: Path) -> None:
    assert_as_asked(loaded(path))


def test_causes_are_those_of_idle_time() -> None:
    assert set(CAUSES) == {cause.name for cause in Cause}


def test_each_fact_has_one_source() -> None:
    facts = Counter((source.of, fact.name) for source in SOURCES for fact in source.facts)
    assert set(facts.values()) == {1}
