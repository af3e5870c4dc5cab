"""What the inventory says of traces with and without each recording option."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from handmade import HOSTILE, small_trace, span

from corpus import CHECKOUT
from tracelens_graph.analyses.report.inventory import OPTIONS, inventory
from tracelens_graph.loading.one import load_core


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
        (["nn.Module: "], {"module frames"}),
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
    assert {(row["what"], row["count"]) for row in faults} == {("flagged", 1)}
    assert {row["fault"] for row in faults} >= {
        "the recorded duration is negative; counted as zero",
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


def test_a_profile_of_jax_is_told_in_its_own_words() -> None:
    core = load_core(CHECKOUT / "examples/traces/tiny-transformer-jax-cpu.xplane.pb.gz")
    tables = inventory(core)
    told = [text for table in tables.values() for row in table.records() for text in row.values()]
    for foreign in ("nn.Module", "aten::", "ProfilerStep", "record_function", "torch", "ProfilerActivity"):
        assert not [text for text in told if foreign in str(text)], foreign
    nodes = dict(zip(tables["nodes"]["kind"], tables["nodes"]["meaning"], strict=True))
    assert nodes["Step"] == "a step (`jax.profiler.StepTraceAnnotation`)"
    assert "instruction" in nodes["Op"]
