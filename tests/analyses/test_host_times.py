"""Host time by op, function, line, module and thread: against what PyTorch shows of its recording, and by hand."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import call, gpu, span
from hypothesis import given
from made_traces import traces

from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.ops.op_times import op_times
from tracelens_graph.analyses.places.host_times import LEVELS, By, calls_among, host_lines, host_times
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core

RECORDED = Path(__file__).with_name("host_only.zip")
"""Two steps of a small model on a CPU, with PyTorch 2.15: without and with stacks and modules; and `key_averages()`."""
US = 1e3


def recorded(name: str) -> tuple[Core, dict[str, list[float]]]:
    with zipfile.ZipFile(RECORDED) as files:
        truth = json.loads(files.read(f"{name}.key_averages.json"))
        return load_core(json.loads(files.read(f"{name}.json"))), {row[0]: row[1:] for row in truth["rows"]}


def figures(core: Core | Window, by: By = "op") -> dict[str, list[Any]]:
    """Name -> calls, self us, total us."""
    return {
        row["name"]: [row["calls"], *(round(US * row[name], 3) for name in ("self_ms", "total_ms"))]
        for row in host_times(core, by).records()
    }


def averages(core: Core) -> dict[str, list[float]]:
    """Name -> calls, self CPU us, CPU total us."""
    rows = host_times(core).records()
    return {row["name"]: [row["calls"], *(round(US * row[name], 3) for name in ("self_ms", "sum_ms"))] for row in rows}


def test_ops_are_those_of_key_averages() -> None:
    core, truth = recorded("plain")
    assert len(truth) > 50
    assert averages(core) == truth


def test_with_stacks_only_what_holds_frames_of_python_differs() -> None:
    """PyTorch 2.15 takes frames for calls inside ranges, and shows no row for them: its own times do not add up."""
    core, truth = recorded("stacks")
    ours = averages(core)
    assert {name: [row[0], row[2]] for name, row in ours.items()} == {n: [row[0], row[2]] for n, row in truth.items()}
    differ = {name for name, row in ours.items() if row != truth[name]}
    assert differ == {
        "ProfilerStep*", "inner block", "Twice", "TwiceBackward", "Optimizer.step#SGD.step",
        "Optimizer.zero_grad#SGD.zero_grad", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    }  # fmt: skip
    assert all(ours[name][1] > truth[name][1] for name in differ)


def work() -> Core:
    """A step with a loop that calls itself, a model, an op in an op of its name, and a kernel; a thread beside it."""
    return load_core([
        span("user_annotation", "ProfilerStep#1", 0, 100),
        span("python_function", "train.py(1): main", 0, 120),
        span("python_function", "train.py(9): loop", 10, 80),
        span("python_function", "torch/nn/modules/module.py(1): _call_impl", 20, 60),
        span("python_function", "train.py(9): loop", 30, 40),
        span("python_function", "<built-in method f of T object at 0x7f>", 31, 4),
        span("python_function", "<built-in method f of T object at 0x8f>", 36, 4),
        span("python_function", "nn.Module: Net_0", 45, 20),
        span("cpu_op", "aten::to", 50, 10),
        span("cpu_op", "aten::to", 51, 8),
        call(52, 1, dur=4),
        gpu(55, 30, 1),
        span("cpu_op", "aten::mul", 40, 30, tid=2),
    ])  # fmt: skip


def test_own_time_and_total() -> None:
    core = work()
    assert figures(core) == {
        "ProfilerStep*": [1, 90, 100], "aten::mul": [1, 30, 30], "aten::to": [1, 6, 10], "cudaLaunchKernel": [1, 4, 4],
    }  # fmt: skip
    assert figures(core, "function")["train.py(9): loop"] == [2, 20 + 32, 80]  # nested calls count once
    assert figures(core, "function")["<built-in method f of T object>"] == [2, 8, 8]
    assert figures(core, "line") == {"train.py(1): main": [1, 40, 120], "train.py(9): loop": [2, 80, 80]}
    assert figures(core, "module") == {"nn.Module: Net_0": [1, 20, 20]}
    assert list(figures(core, "thread").values()) == [[2, 120, 120], [1, 30, 30]]


def test_no_gpu_is_idle_before_its_first_work_and_behind_the_last() -> None:
    events = [
        span("python_function", "profiler.py(1): start_trace", 0, 900),
        span("python_function", "run.py(1): f", 900, 90),
        call(905, 1), gpu(910, 10, 1), call(930, 2), gpu(950, 10, 2),
    ]  # fmt: skip
    rows = {row["name"]: US * row["idle_ms"] for row in host_times(load_core(events), "function").records()}
    assert rows == pytest.approx({"profiler.py(1): start_trace": 0, "run.py(1): f": 30})


def test_every_frame_is_a_line_where_all_are_asked_for() -> None:
    every = Window(work()).with_all_frames()
    assert figures(every, "line")["torch/nn/modules/module.py(1): _call_impl"] == [1, 20, 60]


def test_shares_are_of_the_whole_time_as_the_times_are_and_idle_time_is_that_of_the_gpu() -> None:
    rows = {row["name"]: row for row in host_times(work(), "line").records()}
    main, loop = rows["train.py(1): main"], rows["train.py(9): loop"]
    assert (main["percent"], loop["percent"]) == (pytest.approx(100 * 40 / 120), pytest.approx(100 * 80 / 120))
    assert US * main["idle_ms"] == pytest.approx(20)  # of 40 without GPU work, 20 lie between GPU events
    assert US * loop["idle_ms"] == pytest.approx(80 - 30)  # the kernel runs from 55 to 85
    assert (main["uid"], loop["uid"]) == (1, 2)


def test_windows_keep_to_their_calls() -> None:
    core = load_core([
        span("user_annotation", "ProfilerStep#1", 0, 100), span("user_annotation", "ProfilerStep#2", 100, 50),
        span("cpu_op", "aten::mm", 10, 40), span("cpu_op", "aten::mm", 110, 10), span("cpu_op", "aten::t", 111, 5),
    ])  # fmt: skip
    assert figures(core.window(step=2)) == {"ProfilerStep*": [1, 40, 50], "aten::mm": [1, 5, 10], "aten::t": [1, 5, 5]}
    (inside,) = host_times(core.window(under="aten::t")).records()
    assert inside["percent"] == 100


@given(trace=traces())
def test_own_times_add_up(trace: list[dict[str, Any]]) -> None:
    """At each level to the time of its outermost calls, and no call has more than its duration."""
    core = load_core(trace)
    for by, level in LEVELS.items():
        found = calls_among(core, level(core.everything))
        own = int(found.own().sum())
        assert own >= core.columns.dur_ns[found.rows[found.parent < 0]].sum()  # more, where ends cross
        table = host_times(core, by)
        assert round(1e6 * np.sum(table["self_ms"])) == own
        if (found.end == core.columns.end_ns[found.rows]).all():
            assert (np.asarray(table["self_ms"]) <= np.asarray(table["sum_ms"]) + 1e-9).all()


def test_ops_have_the_times_that_the_plugin_shows() -> None:
    """In a call of Python that stands between two ops the inner one is not the outer one's own time, either."""
    core = load_core([
        span("cpu_op", "Twice", 0, 100), span("python_function", "a.py(1): forward", 10, 80),
        span("cpu_op", "aten::mul", 20, 50),
    ])  # fmt: skip
    assert dict(zip(*(op_times(core)[name] for name in ("name", "host_self_us")), strict=True)) == {
        "Twice": 50, "aten::mul": 50,
    }  # fmt: skip


@pytest.mark.parametrize("shown", [1, 2])
def test_threads_in_the_background_come_last(shown: int) -> None:
    """Whether it is recorded that they wait or not."""
    monitor, wait = (
        span("python_function", name, 0, 100, tid=2)
        for name in ("tqdm/_monitor.py(60): run", "threading.py(359): wait")
    )
    work = [
        span("python_function", "vllm/loop.py(1): go", 0, 90), span("python_function", "train.py(3): step", 60, 20),
        span("python_function", "socket.py(154): recv", 10, 5), span("cpu_op", "aten::mul", 62, 5),
    ]  # fmt: skip
    core = load_core([*[monitor, wait][:shown], *work])
    assert host_times(core, "line")["name"] == ["vllm/loop.py(1): go", "train.py(3): step", monitor["name"]]
    assert host_times(core, "function")["name"][-shown] == (wait if shown > 1 else monitor)["name"]
    assert "train.py(3): step" in verdict(core)[0].text
    assert "_monitor" not in verdict(core)[0].text


def test_frames_of_frameworks_are_shown_where_there_are_no_others() -> None:
    frame = span("python_function", "torch/nn/modules/linear.py(134): forward", 0, 90)
    assert host_times(load_core([frame]), "line")["name"] == [frame["name"]]
    table = host_times(load_core([frame | {"name": "<built-in method mm>"}]), "line")
    assert (len(table), table.notes) == (
        0, ["the trace has no frames of users or models of the host; --frames all shows every frame"]
    )  # fmt: skip


# -- a trace without GPU events ---------------------------------------------------------------------------------


def test_the_headline_names_where_the_time_went() -> None:
    core, _ = recorded("stacks")
    (headline,) = verdict(core)
    assert headline.evidence["kind"] == "no_gpu"
    assert headline.evidence["host_ms_of"] == "time from the first to the last call"
    assert headline.evidence["most_expensive"] in headline.text
    assert host_lines(core)["name"][0] in headline.text


def test_a_call_alone_in_one_of_its_name_is_one_with_it() -> None:
    """As in PyTorch's averages, whatever kind it is of."""
    core = load_core([span("user_annotation", "step", 0, 50), span("cpu_op", "step", 10, 20)])
    (row,) = host_times(core).records()
    assert (row["kind"], row["calls"], US * row["self_ms"], US * row["sum_ms"]) == ("Annotation", 1, 50, 50)


def test_calls_without_length_at_one_moment_all_count() -> None:
    core = load_core([span("cuda_runtime", "cudaPeekAtLastError", 5, 0) for _ in range(3)])
    (row,) = host_times(core).records()
    assert row["calls"] == 3


def test_the_headline_counts_calls_and_threads() -> None:
    core = load_core([
        span("user_annotation", "ProfilerStep#1", 0, 100), span("cpu_op", "aten::empty", 10, 1),
        *(span("user_annotation", "gloo:all_reduce", ts, 300, tid=tid) for ts, tid in ((10, 2), (400, 2), (20, 3))),
    ])  # fmt: skip
    (headline,) = verdict(core)
    assert headline.evidence["most_expensive_ms"] == 0.9
    assert "(3 calls in 2 threads side by side, up to 300 us)" in headline.text
    assert "ProfilerActivity.CUDA" in headline.text
