"""Time under the roofline: known answers, idle time by the nanosecond, sums; points that are drawn, rates reached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extended import TOY as DRAWN_TOY
from extended import calls_of, with_models
from handmade import span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.idle.idle_causes import idle_causes
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.ops.signatures import op_signatures
from tracelens_graph.analyses.performance.perf_tables import COMMUNICATION_LINE, unified_perf_summary
from tracelens_graph.analyses.performance.roofline_points import Reached, RooflinePoints, below_roof, positive, reached
from tracelens_graph.analyses.performance.roofline_summary import (
    PART_MEANING,
    Part,
    roofline_summary,
    unmodelled,
    unmodelled_note,
)
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.devices import Architecture, Figure, Source, architecture
from tracelens_graph.perf.model import CallContext, OpModel
from tracelens_graph.perf.registry import MODELS as ALL_MODELS
from tracelens_graph.reports.html.names import Texts
from tracelens_graph.reports.html.report import roofline
from tracelens_graph.tables.table import Table

TOY = Architecture(
    "toy",
    "Toy",
    "",
    {name: Figure(value, Source()) for name, value in (("matrix_bf16", 1.0), ("memory_bandwidth_gbps", 1000.0))},
)
"""Does 10^6 operations, and moves 10^6 bytes, in a microsecond."""


def always(flops: int, moved: int | None, precision: str = "bf16") -> OpModel:
    return OpModel(lambda arguments, context: Cost(flops, moved, "matrix", precision), "GEMM")


def refuses(arguments: Arguments, context: CallContext) -> Cost:
    raise CannotModel("sizes are odd")


MODELS: Mapping[str, OpModel] = {
    "computes": always(4_000_000, 1_000_000),
    "moves": always(1_000_000, 5_000_000),
    "only moves": always(0, 2_000_000),
    "odd type": always(1_000_000, 1_000_000, ""),
    "refuses": OpModel(refuses, "GEMM"),
}


def op(name: str, start: float, dur: float) -> dict[str, Any]:
    return span("cpu_op", name, start, dur)


def launched(launch: float, returned: float, start: float, end: float, name: str = "k", stream: int = 7) -> list[Any]:
    """A launch call and its kernel; the launch says which kernel it is."""
    number = int(launch * 1000)
    return [
        span("cuda_runtime", "cudaLaunchKernel", launch, returned - launch, correlation=number),
        span("kernel", name, start, end - start, 0, stream, device=0, stream=stream, correlation=number),
    ]


def parts(table: Table, column: str = "time_ms") -> dict[str, float]:
    """The parts that are there, in µs."""
    times = np.round(np.asarray(table[column], float) * 1000, 9).tolist()
    return {part: time for part, time in zip(table["part"], times, strict=True) if time}


def every_part() -> Core:
    return load_core(
        [
            op("computes", 0, 5), *launched(1, 3, 10, 20),
            op("moves", 5, 4), *launched(6, 8, 30, 50),  # queued while the GPU is idle from 20 on
            op("only moves", 54, 10), *launched(55, 62, 65, 70),  # the GPU is idle from 50 on, and waits for this
            op("unheard of", 65, 2), *launched(65.5, 66, 70, 72),
            op("refuses", 67, 1), *launched(67.1, 67.2, 72, 73),
            op("odd type", 68, 1), *launched(68.1, 68.2, 73, 77),
            op("c10d::allreduce_", 69, 1), *launched(69.1, 69.2, 75, 85, "ncclDevKernel_AllReduce", 9),
            span("kernel", "lone", 90, 1, 0, 7, device=0, stream=7, correlation=1),
            *launched(71, 72, 91, 93),
            op("around", 73, 4), *launched(73.1, 73.2, 96, 97), op("moves", 74, 1), *launched(74.1, 74.2, 93, 96),
        ]
    )  # fmt: skip


def test_known_answer() -> None:
    table = roofline_summary(with_models(every_part(), MODELS), TOY)
    assert parts(table) == {
        "compute_bound": 10, "memory_bound": 23, "memory_only": 5, "no_roof": 4, "unmodelled": 7, "communication": 10,
        "launch_bound": 11, "other_idle": 19,
    }  # fmt: skip
    assert dict(zip(table["part"], np.asarray(table["count"]).tolist(), strict=True)) == {
        "compute_bound": 1, "memory_bound": 2, "memory_only": 1, "no_roof": 1, "unmodelled": 5, "communication": 1,
        "launch_bound": 1, "host_bound": 0, "other_idle": 3,
    }  # fmt: skip
    at_roof = {row["part"]: row["at_roof_ms"] * 1000 for row in table.records()}
    # The second call of "moves" took 3 µs, less than the 5 µs at the roof: nothing could be won there.
    assert at_roof == pytest.approx(
        {"compute_bound": 4, "memory_bound": 8, "memory_only": 2, "launch_bound": 0, "host_bound": 0}
        | dict.fromkeys(("no_roof", "unmodelled", "communication", "other_idle"), np.nan),
        nan_ok=True,
    )
    assert parts(table, "could_be_won_ms") == pytest.approx(
        {"compute_bound": 6, "memory_bound": 15, "memory_only": 3, "launch_bound": 11}
        | dict.fromkeys(("no_roof", "unmodelled", "communication", "other_idle"), np.nan),
        nan_ok=True,
    )
    assert sum(np.asarray(table["percent"]).tolist()) == pytest.approx(100)
    assert table.title == "Time under the roofline of Toy"
    said = list(table.notes)
    assert said[2].startswith("1 of 4 calls took less time than at the roof (0.003 ms): ")
    assert said[:2] + said[3:] == [
        "1 GPU events (1.7 % of GPU time) have no launch in the trace: included",
        "durations are added up: 0.002 ms of work ran beside other work",
        "no_roof: no device has a rate for this element type",
        "idle time by cause: launches 0.011 ms, queued 0.010 ms, unknown_no_launch 0.005 ms,"
        " unknown_not_recorded 0.004 ms",
        "11.9 % of GPU time has no performance model",
        "without a model: cudaLaunchKernel (3.4 %): launched outside of operations",
        "without a model: unheard of (3.4 %): no model for this operation",
        "without a model: (no launch in trace) (1.7 %): its launch is not in the trace",
        "without a model: around (1.7 %): launched by itself, beside operations with a model that it calls",
        "without a model: refuses (1.7 %): sizes are odd",
    ]


def copied(name: str, start: float, dur: float, number: int) -> list[Any]:
    """A copy of 2,500,000 floats."""
    args = {"Input_Dims": [[2_500_000], [2_500_000], []], "Input_type": ["float", "float", "Scalar"]}
    return [
        span("cpu_op", "aten::copy_", start, 20, **args),
        span("cuda_runtime", "cudaMemcpyAsync", start + 1, 2, correlation=number),
        span("gpu_memcpy", name, start + 5, dur, 0, 7, device=0, stream=7, correlation=number, bytes=10_000_000),
    ]


def test_a_copy_between_host_and_device_is_rated_against_the_link() -> None:
    """10 MB over 63.015 GB/s, not twice 10 MB over 3,352 GB/s; a copy on the device stays with its memory."""
    core = load_core([
        *copied("Memcpy DtoH (Device -> Pageable)", 0, 1600, 1),
        *copied("Memcpy HtoD (Pinned -> Device)", 2000, 200, 2),
        *copied("Memcpy DtoD (Device -> Device)", 4000, 10, 3),
    ])  # fmt: skip
    h100 = architecture("h100-sxm")
    table = roofline_summary(core, h100)
    assert {name: parts(table)[name] for name in ("link_bound", "memory_bound")} == {
        "link_bound": 1800,
        "memory_bound": 10,
    }
    (link,) = (row for row in table.records() if row["part"] == "link_bound")
    assert (link["count"], link["time_ms"]) == (2, 1.8)
    assert link["at_roof_ms"] == pytest.approx(2 * 10e6 / 63.015e9 * 1e3, abs=1e-6)
    assert link["could_be_won_ms"] == pytest.approx(1.8 - link["at_roof_ms"])
    (memory,) = (row for row in table.records() if row["part"] == "memory_bound")
    assert memory["at_roof_ms"] == pytest.approx(20e6 / 3352e9 * 1e3, abs=1e-6)
    one = load_core(copied("Memcpy DtoH (Device -> Pageable)", 0, 1600, 1))
    (row,) = unified_perf_summary(one, arch=h100).records()
    assert (row["Roofline Bound"], row["Data Moved (MB)"]) == ("LINK_BOUND", 20e6 / 2**20)
    assert row["Pct Roofline_mean"] == pytest.approx(100 * 10e6 / 63.015e9 / 1.6e-3)
    (signature,) = op_signatures(one).records()
    assert signature["bound"] is None


def test_the_bound_of_calls_is_that_of_most_of_their_time() -> None:
    here, there = "Memcpy DtoD (Device -> Device)", "Memcpy HtoD (Pinned -> Device)"
    for first, second, bound in ((here, there, "LINK_BOUND"), (there, here, "MEMORY_BOUND")):
        core = load_core([*copied(first, 0, 200, 1), *copied(second, 2000, 900, 2), *copied(first, 4000, 200, 3)])
        (row,) = unified_perf_summary(core, arch=architecture("h100-sxm")).records()
        assert (row["operation_count"], row["Roofline Bound"]) == (3, bound)


def test_without_a_rate_of_the_link_there_is_no_roof() -> None:
    table = roofline_summary(load_core(copied("CopyHostToDevice", 0, 100, 1)), TOY)
    assert parts(table) == {"no_roof": 100}
    assert "no_roof: the rate of the link between toy and its host is not known" in table.notes


def test_what_has_no_model() -> None:
    table = unmodelled(with_models(every_part(), MODELS))
    found = {
        row["op"]: (row["reason"], row["gpu_events"], round(row["gpu_sum_ms"] * 1000, 6)) for row in table.records()
    }
    assert found == {
        "unheard of": ("no model for this operation", 1, 2),
        "cudaLaunchKernel": ("launched outside of operations", 1, 2),
        "refuses": ("sizes are odd", 1, 1),
        NO_LAUNCH: ("its launch is not in the trace", 1, 1),
        "around": ("launched by itself, beside operations with a model that it calls", 1, 1),
    }
    assert np.asarray(table["percent"]) == pytest.approx(np.asarray(table["gpu_sum_ms"]) * 1000 / 59 * 100)
    assert "communication is left out: 16.9 % of GPU time" in table.notes
    note = unmodelled_note(with_models(every_part(), MODELS))
    assert note.startswith("11.9 % of GPU time has no performance model: cudaLaunchKernel (3.4 %): launched")
    assert note.endswith("refuses (1.7 %): sizes are odd")
    assert "\n" not in note


def test_a_stream_is_not_launch_bound_while_another_works() -> None:
    core = load_core(
        [
            *launched(1, 2, 10, 20), *launched(3, 4, 15, 60, stream=8),
            *launched(40, 50, 55, 70),  # its stream was idle from 20 on, the device was not
            *launched(60, 71, 75, 80, stream=8),  # the device waits from 70 on
        ]
    )  # fmt: skip
    assert parts(roofline_summary(with_models(core, MODELS), TOY)) == {"unmodelled": 75, "launch_bound": 5}


def test_of_what_starts_together_the_first_launched_counts() -> None:
    core = load_core([*launched(1, 2, 10, 20), *launched(3, 4, 30, 31), *launched(25, 26, 30, 32, stream=8)])
    assert parts(roofline_summary(with_models(core, MODELS), TOY)) == {"unmodelled": 13, "other_idle": 10}


def test_other_work_in_the_idle_time_of_a_window() -> None:
    core = load_core(
        [
            *launched(1, 2, 10, 20), *launched(12, 14, 25, 35, stream=8), *launched(15, 50, 60, 70),
            span("kernel", "on another device", 0, 100, 1, 7, device=1, stream=7, correlation=1),
        ]
    )  # fmt: skip
    window = core.window(device=0, stream=7)
    table = roofline_summary(with_models(window, MODELS), TOY)
    assert parts(table) == {"unmodelled": 20, "launch_bound": 30, "outside_window": 10}
    assert "device 0; stream 7" in table.title


def test_part_of_a_call_in_a_window_is_at_most_at_the_roof() -> None:
    core = load_core([op("computes", 0, 5), *launched(1, 2, 10, 13), *launched(3, 4, 20, 30, stream=8)])
    table = roofline_summary(with_models(core.window(stream=7), MODELS), TOY)
    assert parts(table) == {"compute_bound": 3}
    assert parts(table, "could_be_won_ms").get("compute_bound", 0) == 0


def check_sums(g: Core | Window, arch: Architecture = TOY, models: Mapping[str, OpModel] = ALL_MODELS) -> None:
    """All parts make up GPU durations and the idle time of `idle_causes`, in whole nanoseconds."""
    w = with_models(g, models)
    core = w.core
    table = roofline_summary(w, arch)
    found = {part: round(ns * 1e6) for part, ns in zip(table["part"], np.asarray(table["time_ms"]), strict=True)}
    idle = sum(found.get(part.name, 0) for part in Part if part >= Part.launch_bound)
    assert idle == sum(round(ms * 1e6) for ms in idle_causes(w)["idle_ms"])
    assert sum(found.values()) - idle == int(core.columns.dur_ns[w.gpu_rows].sum())
    assert min(found.values()) >= 0
    for row in table.records():
        if row["part"] in ("compute_bound", "memory_bound", "memory_only", "launch_bound", "host_bound"):
            assert 0 <= row["at_roof_ms"] <= row["time_ms"]
            assert row["at_roof_ms"] + row["could_be_won_ms"] == pytest.approx(row["time_ms"])
    missing = unmodelled(w)
    assert sum(round(ms * 1e6) for ms in np.asarray(missing["gpu_sum_ms"]).tolist()) == found["unmodelled"]
    counts = dict(zip(table["part"], np.asarray(table["count"]).tolist(), strict=True))
    assert sum(np.asarray(missing["gpu_events"]).tolist()) == counts["unmodelled"]
    assert (np.diff(np.asarray(missing["gpu_sum_ms"])) <= 0).all()


CALLS = st.lists(
    st.tuples(
        st.sampled_from([*MODELS, "unheard of", None]),
        st.sampled_from(["k", "k", "ncclKernel"]),
        st.integers(1, 15),  # ns that the launch lasts
        st.integers(-10, 40),  # ns from its return to the kernel
        st.integers(0, 25),  # ns that the kernel lasts
        st.integers(7, 9),
        st.integers(0, 1),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@st.composite
def work(draw: st.DrawFn) -> Core:
    """Launches one after the other, in ops and outside; kernels on several streams and devices, some without launch."""
    events, now = [], 1000
    for number, (name, kernel, lasts, delay, dur, stream, device, linked) in enumerate(draw(CALLS), 1):
        if name is not None:
            events.append(op(name, now / 1000, (lasts + 2) / 1000))
        if linked:
            events.append(span("cuda_runtime", "cudaLaunchKernel", (now + 1) / 1000, lasts / 1000, correlation=number))
        start, place = now + 1 + lasts + delay, {"device": device, "stream": stream}
        events.append(span("kernel", kernel, start / 1000, dur / 1000, device, stream, correlation=number, **place))
        now += lasts + draw(st.integers(3, 20))
    return load_core(events)


@given(work(), st.integers(1000, 1200), st.integers(1000, 1200))
def test_parts_make_up_the_whole(core: Core, one: int, other: int) -> None:
    windows = [core.everything, core.window(after_ns=min(one, other) - 1000, before_ns=max(one, other) - 1000)]
    windows += [core.window(stream=stream) for stream in sorted(set(core.columns.stream[core.gpu_rows].tolist()))]
    for window in windows:
        check_sums(window, models=MODELS)


@given(traces())
def test_parts_of_any_trace_make_up_the_whole(trace: dict[str, Any]) -> None:
    check_sums(load_core(trace))


@parametrize("path", chosen_traces())
def test_real_traces(path: Path) -> None:
    core = loaded(path)
    check_sums(core, architecture("h100-sxm"))
    unified = unified_perf_summary(core)
    without = {row["name"].partition("->")[0] for row in unified.records() if not row["has_perf_model"]}
    assert set(unmodelled(core)["op"]) == without - {COMMUNICATION_LINE}


def test_every_part_has_a_meaning() -> None:
    assert list(PART_MEANING) == list(Part)


def ops_of(*names: str, arch: Architecture = DRAWN_TOY) -> Table:
    return unified_perf_summary(calls_of(names), arch=arch)


def test_points_stand_where_they_should() -> None:
    found = RooflinePoints.of(ops_of("product", "half product", "half product", "sum", "no rate"), DRAWN_TOY)
    points = {one.name: one for one in found.points}
    assert {name: (one.x, one.y) for name, one in points.items()} == {
        "product": pytest.approx((100, 4)),
        "half product": pytest.approx((10, 4)),
        "sum": pytest.approx((0.25, 0.01)),
        "no rate": pytest.approx((0.25, 0.01)),
    }
    half = points["half product"]
    assert (half.shapes, half.types) == ("[8, 16]", "BFloat16, matrix_fp16")
    assert (half.calls, half.us, half.percent) == (2, pytest.approx(2000), pytest.approx(40))
    assert (half.roof, half.bound, half.won_us) == (pytest.approx(40), "compute", pytest.approx(1200))
    assert (points["no rate"].roof, points["no rate"].won_us) == (None, None)
    assert (points["sum"].bound, points["sum"].won_us) == ("memory", pytest.approx(1000 - 40))


def test_roofs_are_those_of_the_precisions_that_occur() -> None:
    found = RooflinePoints.of(ops_of("product", "half product", "sum"), DRAWN_TOY)
    assert (found.device, found.bandwidth) == ("Toy <b>", 1000.0)
    # Equal rates share a roof.
    assert [(one.label, one.tflops, one.ridge) for one in found.roofs] == [
        ("matrix_bf16, matrix_fp16", 10.0, 10.0), ("vector_fp32", 8.0, 8.0),
    ]  # fmt: skip
    assert [one.label for one in RooflinePoints.of(ops_of("sum"), DRAWN_TOY).roofs] == ["vector_fp32"]
    bare = Architecture("bare", "Bare", "", {})
    found = RooflinePoints.of(ops_of("sum", "copy", arch=bare), bare)
    assert (found.roofs, len(found.points)) == ([], 1)


def test_what_is_not_drawn_is_counted() -> None:
    found = RooflinePoints.of(ops_of("sum", "product", "copy", "bytes unknown", "unheard of"), DRAWN_TOY, most=1)
    assert (len(found.points), found.more, found.unplaced) == (1, 1, 2)
    assert found.notes == [
        "1 more operations are not drawn",
        "2 operations with a model compute nothing, or their bytes or time are not known",
    ]
    assert RooflinePoints.of(ops_of("unheard of"), DRAWN_TOY).notes == ["no operation with a model computes anything"]


def test_a_page_has_texts_by_number() -> None:
    texts = Texts()
    found = roofline(ops_of("product", "sum"), DRAWN_TOY, texts)
    assert found is not None
    product = next(one for one in found["points"] if texts.listed[one["name"]] == "product")
    assert {key: texts.listed[product[key]] for key in ("category", "shapes", "types")} == {
        "category": "Other", "shapes": "[8, 16]", "types": "BFloat16, matrix_bf16"
    }  # fmt: skip
    assert (product["class"], product["uid"], product["roof"]) == ("other", 0, pytest.approx(40))
    assert found["roofs"][0] == {"label": "matrix_bf16", "tflops": 10.0, "ridge": 10.0}


def test_without_a_device_there_is_none() -> None:
    """No points, and why."""
    for found in (roofline(ops_of("product"), None, Texts()), roofline(None, DRAWN_TOY, Texts())):
        assert found is not None
        assert found["points"] == []
        assert found["why"]


def row(**cells: object) -> dict[str, object]:
    known = {"GFLOPS": 2.0, "Data Moved (MB)": 1.0, "Roofline Time (µs)_first": 10.0}
    return {**known, "Kernel Time (µs)_sum": 100.0, "operation_count": 4, **cells}


def test_known_rates() -> None:
    found = reached(row())
    assert found.tflops_s == pytest.approx(4 * 2e9 / 100e-6 / 1e12)
    assert found.tb_s == pytest.approx(4 * 2**20 / 100e-6 / 1e12)
    assert found.percent_of_roof == pytest.approx(40)
    assert found.won_us == pytest.approx(60)


def attention_steps(*steps: tuple[int, float]) -> Core:
    """Steps of two answers by keys of both and time of attention; 2 heads of 8 numbers, keys and values of 2 bytes."""
    shapes = {"Input Dims": [[2, 2, 8]] * 3, "Input type": ["c10::BFloat16"] * 3}
    events = []
    for number, (keys, us) in enumerate(steps):
        at = 100 * number
        sums = f"sq2sk{keys}sqsq2sqsk{keys}"
        events += [
            span("user_annotation", f"execute_{number}_context_0(sq0sk0sqsq0sqsk0)_generation_2({sums})", at, 90),
            span("cpu_op", "vllm::unified_attention_with_output", at + 1, 10, **shapes),
            *launched(at + 2, at + 3, at + 10, at + 10 + us, "kernel_unified_attention_2d"),
        ]
    return load_core(events)


def test_attention_over_other_lengths_in_each_step() -> None:
    """The first step reads two and a half times the keys of the second: it is no measure of both."""
    slow = replace(TOY, figures={"matrix_bf16": Figure(1.0, Source()), "memory_bandwidth_gbps": Figure(1.0, Source())})
    core = attention_steps((1000, 80), (400, 80))
    table = unified_perf_summary(core, arch=slow)
    (one,) = table.records()
    at_roof = one["Roofline Time (µs)_mean"] * 2
    assert one["Roofline Time (µs)_first"] > at_roof / 2
    found = below_roof(table).records()[0]
    assert found["could_be_won_ms"] == pytest.approx((160 - at_roof) / 1000)
    assert found["percent_of_roof"] == pytest.approx(100 * at_roof / 160)
    parts = {row["part"]: row for row in roofline_summary(core, slow).records()}
    assert parts["memory_bound"]["could_be_won_ms"] == pytest.approx(found["could_be_won_ms"], abs=2e-6)


def test_attention_beyond_its_roof_may_have_a_window() -> None:
    slow = replace(TOY, figures={"matrix_bf16": Figure(1.0, Source()), "memory_bandwidth_gbps": Figure(1.0, Source())})
    notes = roofline_summary(attention_steps((1000, 80), (1000, 20)), slow).notes
    assert any("attention (1 of them) may see only a part of the keys" in note for note in notes)


def test_each_call_has_its_own_roof() -> None:
    """The first of four calls takes 10 us at its roof, all together 48 us: as much work as of 4.8 such calls."""
    found = reached(row(**{"Roofline Time (µs)_mean": 12.0}))
    assert (found.percent_of_roof, found.won_us) == (pytest.approx(48), pytest.approx(52))
    assert found.tb_s == pytest.approx(4.8 * 2**20 / 100e-6 / 1e12)


def test_what_is_not_known() -> None:
    assert reached(row(**{"Kernel Time (µs)_sum": 0.0})) == Reached(None, None, None, None)
    found = reached({"Kernel Time (µs)_sum": 5.0, "operation_count": 1, "GFLOPS": 0.0, "Data Moved (MB)": None})
    assert found == Reached(None, None, None, None)
    assert [positive(value) for value in (None, 0, -1, float("nan"), float("inf"), 2)] == [None] * 5 + [2]


def test_faster_than_the_roof_wins_nothing() -> None:
    assert reached(row(**{"Kernel Time (µs)_sum": 20.0})).won_us == 0


@parametrize("path", chosen_traces())
def test_share_and_time_of_a_row_agree(path: Path) -> None:
    ops = unified_perf_summary(loaded(path), arch=architecture("h100-sxm"))
    for found in below_roof(ops).records():
        left = found["time_ms"] - found["could_be_won_ms"]
        assert 100 * left / found["time_ms"] == pytest.approx(found["percent_of_roof"])
        assert 0 < found["percent_of_roof"] < 100
