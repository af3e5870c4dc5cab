"""Windows: what they hold, that they neither share nor lack anything, and what is asked for in vain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import call, gpu, small_trace, span
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from corpus import kineto_traces, loaded, parametrize
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, columns_read, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind


def two_steps() -> Core:
    """Two steps on one thread, a backward thread, two devices, and a kernel without a launch."""
    events = [
        span("user_annotation", "ProfilerStep#4", 0, 100, tid=1),
        span("user_annotation", "ProfilerStep#5", 100, 100, tid=1),
        span("user_annotation", "copy", 110, 20, tid=1),
        span("cpu_op", "aten::mm", 10, 20, tid=1),
        span("cuda_runtime", "cudaLaunchKernel", 12, 5, tid=1, correlation=1),
        span("kernel", "gemm", 150, 10, pid=0, tid=7, device=0, stream=7, correlation=1),
        span("cpu_op", "aten::add", 115, 10, tid=1),
        span("cuda_runtime", "cudaLaunchKernel", 117, 5, tid=1, correlation=2),
        span("kernel", "add", 170, 10, pid=1, tid=9, device=1, stream=9, correlation=2),
        span("cpu_op", "aten::mul", 116, 10, tid=2),
        span("cuda_runtime", "cudaLaunchKernel", 118, 5, tid=2, correlation=3),
        span("kernel", "mul", 190, 10, pid=0, tid=7, device=0, stream=7, correlation=3),
        span("kernel", "lone", 5, 1, pid=0, tid=7, device=0, stream=7),
    ]
    return load_core(events)


def gpu_names(w: Window) -> list[str]:
    return sorted(w.core.names[code] for code in w.core.columns.name[w.gpu_rows])


def host_names(w: Window) -> list[str]:
    return sorted(w.core.names[code] for code in w.core.columns.name[w.rows_of_kind(Kind.Op)])


def test_the_whole_trace() -> None:
    core = two_steps()
    w = window_of(core)
    assert w is core.everything
    assert window_of(w) is w
    assert gpu_names(w) == ["add", "gemm", "lone", "mul"]
    assert w.titled("Table") == "Table"
    assert np.array_equal(w.gpu_rows, core.gpu_rows)
    assert len(w.linked_gpu_rows) == 3


def test_a_step_holds_what_was_launched_in_it_on_every_thread() -> None:
    core = two_steps()
    assert gpu_names(core.window(step=4)) == ["gemm"]
    assert gpu_names(core.window(step=5)) == ["add", "mul"]
    assert host_names(core.window(step=5)) == ["aten::add", "aten::mul"]
    both = core.window(step=[4, 5])
    assert gpu_names(both) == ["add", "gemm", "mul"]
    assert both.titled("Table") == "Table (steps 4-5)"


def test_an_annotation_holds_its_thread_or_its_process() -> None:
    core = two_steps()
    assert gpu_names(core.window(annotation="copy")) == ["add"]
    assert gpu_names(core.window(annotation="copy", threads="all")) == ["add", "mul"]
    assert gpu_names(core.window(annotation=re.compile("^co"))) == ["add"]
    assert len(core.window(annotation="copy").rows_of_kind(Kind.Annotation)) == 1


def test_times_subtrees_devices_streams_and_combinations() -> None:
    core = two_steps()
    assert gpu_names(core.window(after_ns=160_000)) == ["add", "mul"]
    assert gpu_names(core.window(after_ns=150_000, before_ns=170_000)) == ["gemm"]
    assert gpu_names(core.window(under="aten::mul")) == ["mul"]
    assert gpu_names(core.window(under=3)) == ["gemm"]
    assert gpu_names(core.window(device=1)) == ["add"]
    assert host_names(core.window(device=1)) == ["aten::add"]
    assert gpu_names(core.window(stream=[7, 9])) == ["add", "gemm", "lone", "mul"]
    combined = core.window(step=5, device=0, after_ns=100_000)
    assert gpu_names(combined) == ["mul"]
    assert combined.title == "step 5; from 0.100 ms; device 0"


def test_modules_may_be_named_without_their_prefix() -> None:
    core = load_core(small_trace())
    assert gpu_names(core.window(under="Linear_0")) == gpu_names(core.window(under="nn.Module: Linear_0"))
    assert len(core.window(under="Linear_0").gpu_rows) == 2


def test_modules_may_be_named_by_class_and_by_path() -> None:
    module = "nn.Module: "
    events = [
        span("python_function", f"{module}Net_0", 0, 500), span("python_function", f"{module}Layer_0", 10, 100),
        span("python_function", f"{module}Linear_0", 20, 50), call(30, 1), gpu(40, 5, 1, "first"),
        span("python_function", f"{module}Layer_1", 200, 100), span("python_function", f"{module}Linear_1", 210, 50),
        call(220, 2), gpu(230, 5, 2, "second"), call(400, 3), gpu(410, 5, 3, "rest"),
    ]  # fmt: skip
    core = load_core(events)
    for under in ("Layer", "Linear", "Layer/Linear", "Net_0/Layer", "Net/Layer/Linear"):
        assert gpu_names(core.window(under=under)) == ["first", "second"], under
    assert gpu_names(core.window(under="Layer_1/Linear")) == ["second"]
    assert gpu_names(core.window(under="Net")) == ["first", "rest", "second"]
    assert core.window(under="Linear").around is core.everything
    for wrong, meant in (("Layr", "Layer"), ("Net/Linear", "Linear"), ("layer", "Layer")):
        with pytest.raises(AnalysisError, match=f"{re.escape(repr(wrong))}; .*{re.escape(meant)}"):
            core.window(under=wrong)


def test_nodes_may_be_named_by_a_pattern() -> None:
    core = two_steps()
    window = core.window(under=re.compile("::mul$"))
    assert (gpu_names(window), window.title) == (["mul"], "under /::mul$/")


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({"step": 7}, "no step 7; steps in it: 4-5"),
        ({"step": [4, 9, 11]}, "no step 9, 11"),
        ({"annotation": "nothing"}, "no annotation 'nothing'"),
        ({"annotation": "copy", "threads": "some"}, "threads is"),
        ({"under": "aten::bmm"}, "no module, function, op or runtime call 'aten::bmm'"),
        ({"device": 3}, "on device 3; there are devices 0, 1"),
        ({"stream": [7, 8]}, "on stream 8; there are streams 7, 9"),
    ],
)
def test_what_is_not_there_is_said(conditions: dict[str, object], message: str) -> None:
    with pytest.raises(AnalysisError, match=re.escape(message)):
        two_steps().window(**conditions)  # type: ignore[arg-type]


def check_partitions(core: Core) -> None:
    """Steps and no step, ranges of time, devices: each node is in exactly one of the windows."""
    every = np.arange(len(core.columns))
    cut = int(np.median(core.columns.start_ns)) if len(every) else 0
    earlier, later = core.window(before_ns=cut), core.window(after_ns=cut)
    assert np.array_equal(earlier.holds(every), ~later.holds(every))
    numbers = {int(core.names[code].rpartition("#")[2]) for code in core.columns.name[core.columns.kind == Kind.Step]}
    held = np.zeros(len(every), int)
    for number in numbers:
        held += core.window(step=number).holds(every)
    assert held.max(initial=0) <= 1
    steps = core.columns.kind == Kind.Step
    assert np.array_equal(held[~steps] == 1, core.step[~steps] >= 0)
    devices = np.unique(core.columns.device[core.gpu_rows]).tolist()
    assert sum(len(core.window(device=device).gpu_rows) for device in devices) == len(core.gpu_rows)


@given(traces())
def test_windows_partition_made_traces(trace: dict[str, object]) -> None:
    check_partitions(load_core(trace))


@parametrize("path", kineto_traces())
def test_windows_partition_real_traces(path: Path) -> None:
    check_partitions(loaded(path))


@given(traces(), st.integers(0, 60), st.integers(0, 60))
def test_windows_narrow_in_any_order(trace: dict[str, object], low: int, high: int) -> None:
    core = load_core(trace)
    both = core.window(after_ns=low, before_ns=high)
    one = core.window(after_ns=low)
    other = core.window(before_ns=high)
    every = np.arange(len(core.columns))
    assert np.array_equal(both.holds(every), one.holds(every) & other.holds(every))


def test_results_are_kept_per_window_function_and_key() -> None:
    core, calls = two_steps(), []

    def events_on(w: Window, device: int) -> int:
        calls.append(device)
        return int((w.core.columns.device[w.gpu_rows] == device).sum())

    w = core.window(step=5)
    assert [w.once(events_on, device) for device in (0, 1, 0)] == [w.once(events_on, device) for device in (0, 1, 0)]
    assert calls == [0, 1]
    core.everything.once(events_on, 0)
    assert calls == [0, 1, 0]
    w.remember(99, events_on, 7)
    assert w.once(events_on, 7) == 99
    assert calls == [0, 1, 0]


def test_windows_of_one_extension_share_the_whole_trace() -> None:
    core, extension = two_steps(), object()
    step, under = core.window(step=4).extended(extension), core.window(under="aten::mm").extended(extension)
    assert step.whole is under.whole
    assert step.whole.extension is extension
    assert len(step.whole.gpu_rows) == len(core.gpu_rows)
    assert core.window(step=4).whole is core.everything
    assert core.window(step=4).extended(object()).whole is not step.whole


@pytest.mark.parametrize(
    "conditions",
    [
        {"step": 4},
        {"annotation": "copy", "threads": "all"},
        {"after_ns": 100_000, "before_ns": 160_000},
        {"under": 3},
        {"under": "aten::mm"},
        {"device": 1},
        {"stream": [7, 9]},
        {"step": 5, "stream": 7, "device": None},
    ],
    ids=str,
)
def test_a_lean_graph_has_the_columns_that_its_windows_read(conditions: dict[str, Any]) -> None:
    core = two_steps()
    found = core.lean(columns_read(conditions))
    assert np.array_equal(found.window(**conditions).gpu_rows, core.window(**conditions).gpu_rows)
    assert len(list(found.columns)) < len(list(core.columns))
