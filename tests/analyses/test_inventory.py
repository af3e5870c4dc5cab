"""What a trace holds: with and without each recording option; calls without times; knowledge in the full graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import HOSTILE, small_trace, span
from hypothesis import given
from made_execution import Op, tensor, trace
from made_traces import traces

import tracelens_graph as tlg
from corpus import CHECKOUT, chosen_traces, parametrize
from tracelens_graph.analyses.report.inventory import OPTIONS, inventory
from tracelens_graph.analyses.structure.calls import calls_by_arguments, calls_by_category, calls_by_op
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import CONTEXT_EDGES, CONTEXT_KINDS


def without(*what: str) -> dict[str, Any]:
    """The small trace without events of some categories or names."""
    trace = small_trace()
    trace["traceEvents"] = [
        event
        for event in trace["traceEvents"]
        if event.get("cat") not in what and not event["name"].startswith(tuple(what))
    ]
    return trace


def recorded(trace: dict[str, Any]) -> dict[str, bool | None]:
    table = inventory(load_core(trace))["recording"]
    return dict(zip(table["what"], table["recorded"], strict=True))


def test_every_table_is_there_and_says_what_its_columns_mean() -> None:
    tables = inventory(load_core(small_trace()))
    assert list(tables) == ["trace", "software", "devices", "nodes", "left_out", "launches", "faults", "recording"]
    for name, table in tables.items():
        assert table.name == name
        assert list(table.about) == list(table.columns)


def test_recorded_all() -> None:
    everything = recorded(without(HOSTILE))
    assert everything.pop("collective arguments") is None
    assert set(everything.values()) == {True}
    assert len(everything) == len(OPTIONS) - 1


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [
        (["nn.Module: "], set()),
        (["python_function"], {"module frames", "Python stacks"}),
        (["user_annotation"], {"steps"}),
        (["cpu_instant_event"], {"memory events"}),
        (["aten::linear"], {"shapes"}),
        (["cudaLaunchKernel"], {"launches of GPU work"}),
        (["kernel", "gpu_memcpy"], {"GPU work"}),
        (["cpu_op"], {"ops"}),
    ],
)
def test_missing_option_is_noticed(left_out: list[str], missing: set[str]) -> None:
    found = recorded(without(HOSTILE, *left_out))
    assert {what for what, there in found.items() if there is False} == missing


def test_collectives_without_their_arguments() -> None:
    trace = without(HOSTILE)
    kernel = span("kernel", "ncclDevKernel_AllReduce", 1300, 5, 0, 7, device=0, stream=7, correlation=79)
    trace["traceEvents"] += [span("cuda_runtime", "cudaLaunchKernel", 1250.0, 5.0, correlation=79), kernel]
    assert recorded(trace)["collective arguments"] is False
    kernel["args"]["Collective name"] = "allreduce"
    assert recorded(trace)["collective arguments"] is True


def test_launches() -> None:
    table = inventory(load_core(small_trace()))["launches"]
    assert dict(zip(table["rule"], table["gpu_events"], strict=True)) == {"nearest_op": 2, "no_op": 0, "unlinked": 1}
    assert np.sum(table["percent"]) == pytest.approx(100)
    assert np.sum(table["gpu_sum_ms"]) == pytest.approx(0.10025)


def test_device_of_a_vendor_who_numbers_differently() -> None:
    trace = small_trace()
    for event in trace["traceEvents"]:
        if "device" in event.get("args", {}):
            event["args"]["device"] = event["pid"] = 2
    table = inventory(load_core(trace))["devices"]
    assert table.records()[1] | {"memory_gib": None} == {
        "device": 2, "name": "GPU of tests", "memory_gib": None, "compute": None, "sms": None, "gpu_events": 3,
        "gpu_sum_ms": 0.10025, "gpu_busy_ms": 0.09,
    }  # fmt: skip
    assert table.records()[0]["gpu_events"] == 0


@pytest.mark.parametrize(
    ("key", "raw", "decoded"),
    [
        ("cuda_driver_version", 12090, "12.9"),
        ("hip_runtime_version", 70051831, "7.0.51831"),
        ("roctracer_version", 4.1, "4.1"),
        ("cupti_version", 22, "22"),
    ],
)
def test_versions_are_decoded(key: str, raw: object, decoded: str) -> None:
    trace = small_trace()
    del trace["cuda_runtime_version"]
    trace[key] = raw
    table = inventory(load_core(trace))["software"]
    assert table.records() == [{"software": key.removesuffix("_version"), "version": decoded}]


def test_faults_are_counted_and_told() -> None:
    trace = small_trace()
    trace["traceEvents"][11]["dur"] = -5
    trace["traceEvents"].append(span("cpu_op", "late", 1035.0, 500.0))  # ends after aten::linear
    del trace["traceEvents"][12]["dur"]
    faults = inventory(load_core(trace))["faults"].records()
    assert {(row["what"], row["count"]) for row in faults} == {("flagged", 1), ("repaired", 1)}
    assert {row["fault"] for row in faults} >= {
        "negative durations counted as zero",
        "no duration was recorded (an unfinished call); counted as zero",
    }


def test_relative_times_without_a_base_have_no_absolute_start() -> None:
    trace = small_trace()
    del trace["baseTimeNanoseconds"]
    facts = inventory(load_core(trace))["trace"].records()
    assert [row["value"] for row in facts if row["what"] == "absolute start"] == [None]


def test_empty_trace() -> None:
    tables = inventory(load_core({"traceEvents": []}))
    assert len(tables["nodes"]) == len(tables["devices"]) == len(tables["faults"]) == 0
    assert np.sum(tables["launches"]["percent"]) == 0


def test_what_may_be_lost_with_the_end_of_the_file_is_not_called_unrecorded() -> None:
    text = json.dumps(small_trace()).encode()
    table = inventory(load_core(text[: text.index(b'"cat": "kernel"')]))["recording"]
    found = {row["what"]: (row["recorded"], row["missing"]) for row in table.records()}
    assert found["GPU work"] == (None, "none")
    assert found["memory events"] == (None, "none")
    assert found["ops"] == found["shapes"] == (True, "")
    unshaped = json.dumps(without("aten::linear")).encode()
    found = {row["what"]: row["recorded"] for row in inventory(load_core(unshaped[:-40]))["recording"].records()}
    assert found["shapes"] is False, "ops are there, and have no shapes"


def test_lost_entries_are_the_same_in_the_warning_and_the_table() -> None:
    trace = small_trace()
    trace["traceEvents"][11]["ts"] = "soon"
    core = load_core(trace)
    assert core.info.damage.startswith("entries lost: 1, bytes lost: 0")
    tables = inventory(core)
    lost = [(row["fault"], row["count"]) for row in tables["faults"].records() if row["what"] == "lost"]
    assert lost == [("entries that no repair could save (unreadable: 1)", 1)]
    assert "unreadable" not in tables["left_out"]["why"]
    assert sum(tables["nodes"]["count"]) + sum(tables["left_out"]["count"]) + 1 == core.info.events


def test_losses_that_nobody_counted_have_no_number() -> None:
    text = json.dumps(small_trace()).encode()
    core = load_core(text[: text.rindex(b"}")].rstrip(b"]"))
    assert core.info.damage.startswith("the end of the file is missing; entries may be lost; ")
    core.info.repairs, core.info.doubtful_from = {}, 9
    assert core.info.damage == "entries may be lost; uids from 9 on may be smaller than the positions in the file"
    core.info.lost_bytes = 3
    assert core.info.damage.startswith("entries may be lost, bytes lost: 3; ")
    faults = [row["fault"] for row in inventory(core)["faults"].records()]
    assert "nodes behind a place where entries may be lost: uids from 9 on" in faults


EXAMPLE = CHECKOUT / "examples/traces/tiny-transformer-cpu"

TRACE = trace(
    [
        Op(4, "aten::mm", 3, [tensor(20), tensor(21)]),
        Op(3, "aten::matmul", inputs=[tensor(20), tensor(21)]),
        Op(5, "aten::mm", inputs=[tensor(22), tensor(23)]),
        Op(6, "aten::mm", inputs=[tensor(22, (4, 4)), tensor(23)]),
        Op(7, "my op"),
        Op(8, "a range", facts={"scope": 7}),
    ]
)


def test_calls_of_a_small_trace() -> None:
    g = load_core(TRACE)
    assert calls_by_op(g).records()[0] == {
        "op": "aten::mm", "category": "GEMM", "calls": 3, "percent": 60.0, "outermost": 2, "argument_sets": 2,
        "threads": 1, "uid": 1,
    }  # fmt: skip
    assert [(row["op"], row["calls"], row["argument_sets"]) for row in calls_by_op(g).records()] == [
        ("aten::mm", 3, 2), ("aten::matmul", 1, 1), ("my op", 1, 0),
    ]  # fmt: skip
    by_category = {row["category"]: row for row in calls_by_category(g).records()}
    assert (by_category["GEMM"]["calls"], by_category["GEMM"]["outermost"]) == (4, 3)
    assert sum(row["calls"] for row in by_category.values()) == 5
    first, *others = calls_by_arguments(g).records()
    assert first == {
        "op": "aten::mm", "input_dims": "[[2,3],[2,3]]", "input_types": '["float","float"]',
        "input_strides": "[[3,1],[3,1]]", "concrete_inputs": '["",""]', "calls": 2, "percent": 50.0, "uid": 1,
    }  # fmt: skip
    assert [row["op"] for row in others] == ["aten::matmul", "aten::mm"]


def test_windows_and_other_traces() -> None:
    """A profile has the same calls of ops as the execution trace of its run, but for the ends of the recording."""
    alone, profile = (load_core(f"{EXAMPLE}{end}.json.gz") for end in (".execution-trace", ""))
    one, other = ({row["op"]: row["calls"] for row in calls_by_op(g).records()} for g in (alone, profile))
    assert one == other
    inside = calls_by_op(alone.window(under="aten::linear"))
    assert 0 < np.sum(inside["calls"]) < sum(one.values())


def test_a_trace_without_ops_has_empty_tables() -> None:
    g = load_core(trace([]))
    assert [len(make(g)) for make in (calls_by_op, calls_by_category, calls_by_arguments)] == [0, 0, 0]


NVJET = "nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT"


@pytest.fixture(scope="module")
def full() -> Any:
    shapes = {"Input_Dims": [[8, 16], [16, 4]], "Input_type": ["c10::BFloat16", "c10::BFloat16"]}
    return tlg.load(
        [
            span("cpu_op", "aten::linear", 0, 20),
            span("cpu_op", "aten::mm", 1, 10, **shapes),
            span("cuda_runtime", "cudaLaunchKernel", 2, 1, correlation=1),
            span("kernel", NVJET, 50, 5, pid=0, tid=7, device=0, stream=7, correlation=1),
            span("cpu_op", "aten::mm", 30, 10),
            span("cuda_runtime", "cudaLaunchKernel", 31, 1, correlation=2),
            span("kernel", "gemm", 60, 5, pid=0, tid=7, device=0, stream=7, correlation=2),
        ]
    ).full


def test_categories(full: Any) -> None:
    assert full.has_edge(1, "category:op:GEMM", "IN_CATEGORY")
    assert not full.has_edge(0, "category:op:GEMM", "IN_CATEGORY")
    (name,) = [end for _, end, kind in full.out_edges(3, keys=True) if kind == "NAMED"]
    assert full.has_edge(name, "category:kernel:GEMM", "IN_CATEGORY")
    assert full.nodes[name]["tile_m"] == 320


def test_costs_stand_on_signatures(full: Any) -> None:
    of = {op: end for op in (1, 4) for _, end, kind in full.out_edges(op, keys=True) if kind == "HAS_SIGNATURE"}
    known, unknown = full.nodes[of[1]], full.nodes[of[4]]
    assert (known["flops"], known["moved_bytes"], known["compute_spec"]) == (
        2 * 8 * 16 * 4,
        2 * (128 + 64 + 32),
        "matrix_bf16",
    )
    assert "flops" not in unknown
    assert "not recorded" in unknown["no_model"]


def test_each_event_is_modelled_by_one_op(full: Any) -> None:
    pairs = {(event, op) for event, op, kind in full.edges(keys=True) if kind == "MODELLED_BY"}
    assert pairs == {(3, 1), (6, 4)}


def check(graph: Any) -> None:
    full = graph.full
    ends = {edge.name: edge for edge in CONTEXT_EDGES}
    modelled = [event for event, _, kind in full.edges(keys=True) if kind == "MODELLED_BY"]
    assert len(modelled) == len(set(modelled))
    for _, end, kind in full.edges(keys=True):
        if kind in ("IN_CATEGORY", "MODELLED_BY"):
            assert full.nodes[end]["kind"] == ends[kind].target
    assert {data["kind"] for node, data in full.nodes(data=True) if isinstance(node, str)} <= CONTEXT_KINDS.keys()


@given(traces())
def test_made_traces(trace: dict[str, object]) -> None:
    check(tlg.TraceGraph(load_core(trace)))


@parametrize("path", chosen_traces())
def test_real_traces(path: Path) -> None:
    check(tlg.load(path))
