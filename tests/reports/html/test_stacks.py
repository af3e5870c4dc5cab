"""Merged stacks: who is in whom, and that every nanosecond of GPU time is in one frame."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from growth import assert_growth, elements, metered
from handmade import small_trace, span
from shapes import trace

from corpus import chosen_traces, loaded, parametrize, traces_named
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.places.modules import modules
from tracelens_graph.analyses.serving.iterations import iterations
from tracelens_graph.analyses.timeline.steps import step_summary
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.iterations import iterations_of
from tracelens_graph.graph.window import Window
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.names import Names
from tracelens_graph.reports.html.stacks import HOST, OTHERS, VIEWS, Stacks, stacks, steps
from tracelens_graph.reports.html.timeline import DRAWN_KINDS
from tracelens_graph.simulate.serving import simulate as simulate_server


def made(g: Core | Window) -> tuple[dict[str, Stacks], Names]:
    w = g if isinstance(g, Window) else g.everything
    names = Names(w, DRAWN_KINDS)
    return stacks(w, names), names


def told(found: Stacks, names: Names) -> dict[tuple[str, ...], int]:
    """Path of each frame with time of its own -> ns, all steps."""
    paths: Counter[tuple[str, ...]] = Counter()
    for frame, ns in zip(found.frame.tolist(), found.ns.tolist(), strict=True):
        path = []
        while frame >= 0:
            path.append(names.texts[found.name[frame]])
            frame = int(found.parent[frame])
        paths[tuple(reversed(path))] += ns
    return dict(paths)


@pytest.mark.parametrize("shape", ["modules", "nested_frames", "nested_ops"])
def test_work_grows_with_the_depth(shape: str) -> None:
    """Whatever is in what, twice the levels are about twice the work: steps, and elements of arrays."""

    def prepare(n: int) -> Callable[[], object]:
        core = load_core(trace(shape, n))
        return lambda: made(core)

    assert_growth(prepare, 100)

    def counted(n: int) -> int:
        core = load_core(trace(shape, n))
        return elements(lambda: made(metered(core)))

    once, twice = counted(200), counted(400)
    assert twice <= 2.2 * once + 10_000


def test_paths_of_a_small_trace() -> None:
    found, names = made(load_core(small_trace()))
    evil = "evil\\x1b[31m|`<b>\\n=1+1"
    lost = {(NO_LAUNCH, evil): 30_000}
    assert told(found["modules"], names) == lost | {
        ("forward", "Linear_0", "aten::addmm", "gemm"): 50_250,
        ("forward", "Linear_0", "aten::addmm", "Memcpy DtoH"): 20_000,
    }
    assert told(found["ops"], names) == lost | {
        ("aten::linear", "aten::addmm", "gemm"): 50_250,
        ("aten::linear", "aten::addmm", "Memcpy DtoH"): 20_000,
    }
    assert told(found["python"], names) == lost | {
        ("train.py(3): step", "aten::addmm", "gemm"): 50_250,
        ("train.py(3): step", "aten::addmm", "Memcpy DtoH"): 20_000,
    }
    assert told(found["kernels"], names) == {
        ("GEMM", "gemm", "aten::addmm"): 50_250,
        ("Copies", "Memcpy DtoH", "aten::addmm"): 20_000,
        ("Other", evil, NO_LAUNCH): 30_000,
    }


def test_a_part_names_its_step_and_its_longest_event() -> None:
    found, names = made(load_core(small_trace()))
    by_name = {names.texts[found["ops"].name[f]]: k for k, f in enumerate(found["ops"].frame.tolist())}
    parts = found["ops"]
    assert steps(load_core(small_trace()).everything)[0] == ["ProfilerStep#5"]
    assert (parts.step[by_name["gemm"]], parts.uid[by_name["gemm"]], parts.count[by_name["gemm"]]) == (1, 9, 1)
    assert parts.step[by_name["evil\\x1b[31m|`<b>\\n=1+1"]] == 0  # what has no launch is in no step here


@parametrize("path", chosen_traces())
def test_every_view_adds_up_to_the_gpu_time(path: Path) -> None:
    core = loaded(path)
    found, _ = made(core)
    whole = int(core.columns.dur_ns[core.gpu_rows].sum())
    for view, one in found.items():
        if view != HOST:
            assert int(one.ns.sum()) == whole
            assert int(one.count.sum()) == len(core.gpu_rows)
        else:
            assert (one.idle <= one.ns[: len(one.idle)]).all()
        assert (one.parent < np.arange(len(one.parent))).all()
        pairs = list(zip(one.parent.tolist(), one.name.tolist(), strict=True))
        assert len(pairs) == len(set(pairs))  # a name once in a frame


@parametrize("path", chosen_traces())
def test_modules_have_the_time_of_the_module_tree(path: Path) -> None:
    core = loaded(path)
    if not len(core.gpu_rows):
        return
    found, names = made(core)
    whole: Counter[str] = Counter()
    for (first, *_), ns in told(found["modules"], names).items():
        whole[first] += ns
    tree = modules(core)
    passes = ("forward", "backward")
    of_places = {name: np.asarray(tree[f"{name}_us"]) for name in passes}
    top = [
        row
        for row, (depth, uid) in enumerate(zip(tree["depth"], tree["uid"], strict=True))
        if depth == 1 and uid is not None
    ]
    for name in passes:
        assert whole[name] == pytest.approx(1e3 * float(of_places[name][top].sum()), abs=0.5)


def test_frames_beyond_number_go_to_what_they_are_in() -> None:
    gpu = {"device": 0, "stream": 7}
    events = []
    for number in range(1, 21):
        at = 100.0 * number
        events += [
            span("cpu_op", f"op{number % 4}", at, 50),
            span("cuda_runtime", "cudaLaunchKernel", at + 1, 5, correlation=number),
            span("kernel", f"kernel{number}", at + 10, 10 + number, 0, 7, correlation=number, **gpu),
        ]
    core = load_core(events)
    names = Names(core.everything, DRAWN_KINDS)
    whole = sum(1000 * (10 + number) for number in range(1, 21))
    found = stacks(core.everything, names, ["ops"], 6)
    paths = told(found["ops"], names)
    assert found.keys() == {"ops"}
    assert (len(found["ops"].parent), found["ops"].left_out) == (6, 24 - 6)
    assert sum(paths.values()) == whole
    assert ("op0", "kernel20") in paths
    assert ("op1",) in paths
    fewest = stacks(core.everything, names, ["ops"], 3)["ops"]
    assert fewest.left_out == 24 - 3
    assert told(fewest, names).keys() == {("op0",), ("op2",), ("op3",), (OTHERS,)}
    assert sum(told(fewest, names).values()) == whole


@parametrize("path", traces_named("tracelens/h100/qwen1.5-0.5b", "tracelens/mi300/resnet-ddp-checkpointing"))
def test_a_window_has_its_own_time(path: Path) -> None:
    core = loaded(path)
    c = core.columns
    middle = int(np.median(c.start_ns[core.gpu_rows]))
    w = core.window(after_ns=middle)
    found, _ = made(w)
    for view in VIEWS:
        assert int(found[view].ns.sum()) == int(c.dur_ns[w.gpu_rows].sum())


@parametrize("path", chosen_traces())
def test_steps_have_the_time_of_the_step_summary(path: Path) -> None:
    core = loaded(path)
    found, _ = made(core)
    names, _ = steps(core.everything)
    table = step_summary(core)
    told = dict(zip(table["name"], table["gpu_sum_ms"], strict=True))
    if len(set(told)) < len(table["name"]):
        return  # steps of several processes with one name
    for view, one in found.items():
        if view == HOST:
            continue
        for number, name in enumerate(names, 1):
            assert int(one.ns[one.step == number].sum()) == pytest.approx(1e6 * float(told[name]), abs=0.5)


def test_host_time_with_the_part_during_which_the_gpu_was_idle() -> None:
    core = load_core([
        span("user_annotation", "ProfilerStep#1", 0, 100), span("python_function", "train.py(1): main", 0, 100),
        span("python_function", "torch/nn/modules/module.py(1): _call_impl", 5, 60),
        span("python_function", "nn.Module: Linear_0", 10, 20), span("cpu_op", "aten::mm", 12, 10),
        span("cuda_runtime", "cudaLaunchKernel", 14, 2, correlation=1),
        span("kernel", "gemm", 18, 12, 0, 7, device=0, stream=7, correlation=1),
        span("python_function", "nn.Module: Linear_1", 40, 20),
    ])  # fmt: skip
    found, names = made(core)
    one = found[HOST]
    line, module = "train.py(1): main", "nn.Module: Linear"
    assert told(one, names) == {
        (line,): 60_000, (line, module): 30_000, (line, module, "aten::mm"): 8_000,
        (line, module, "aten::mm", "cudaLaunchKernel"): 2_000,
    }  # fmt: skip
    # The kernel runs from 18 to 30 us: 4 us of the op, 8 us of the first module.
    idle = dict(zip(one.frame.tolist(), one.idle.tolist(), strict=True))
    assert sorted(idle.values()) == [2_000, 4_000, 22_000, 60_000]


def test_callers_from_outside_of_a_window_have_no_time() -> None:
    core = load_core([
        span("user_annotation", "ProfilerStep#1", 10, 40), span("python_function", "train.py(1): main", 0, 100),
        span("cpu_op", "aten::mm", 20, 10), span("cpu_op", "aten::t", 60, 10),
    ])  # fmt: skip
    w = core.window(step=1)
    names = Names(w, DRAWN_KINDS)
    assert told(stacks(w, names)[HOST], names) == {("train.py(1): main", "aten::mm"): 10_000}


def test_iterations_of_a_server_are_steps() -> None:
    core = load_core(simulate_server(steps=30).ranks[0].trace)
    names, _ = steps(core.everything)
    found = iterations_of(core)
    assert len(names) == 30
    assert names[3].startswith(f"3: {found.phases[3]}, ")
    stacked, _ = made(core)
    times = iterations(core)["gpu_sum_ms"]
    for number in (1, 17, 30):
        assert int(stacked["ops"].ns[stacked["ops"].step == number].sum()) == round(1e6 * times[number - 1])
    many, place = steps(load_core(simulate_server(steps=110).ranks[0].trace).everything)
    assert many == ["all decode iterations", "all mixed iterations"]
    assert set(place.tolist()) == {0, 1, 2}
