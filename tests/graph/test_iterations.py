"""Iterations of servers: where they are found, what belongs to them, which are the steady state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import call, gpu, span
from hypothesis import given
from hypothesis import strategies as st

from corpus import loaded, parametrize, traces_named
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.iterations import iterations_of, steady_region
from tracelens_graph.loading.one import load_core


def serving(names: list[str], *, category: str = "user_annotation", every: float = 100) -> list[dict[str, Any]]:
    """A range of each name, in each an op that launches a kernel, which runs after the range has ended."""
    events: list[dict[str, Any]] = []
    for number, name in enumerate(names):
        at = number * every
        events += [
            *([span(category, name, at, 80)] if name else []),
            span("cpu_op", "aten::mm", at + 10, 20),
            call(at + 12, number + 1),
            gpu(at + 85, 30, number + 1),
            span("cpu_op", "aten::add", at + 20, 5, tid=200),
        ]
    return events


def kernels_of(core: Core, **conditions: Any) -> list[int]:
    w = core.window(**conditions)
    return sorted((core.columns.start_ns[w.gpu_rows] // 100_000).tolist())


NAMES = ["execute_context_1(50)_generation_0(0)", "step[DECODE bs=4]", "step[MIXED bs=5]", "step[DECODE bs=4]"]


def test_windows_of_iterations() -> None:
    core = load_core(serving(NAMES))
    found = iterations_of(core)
    assert found.phases.tolist() == ["prefill", "decode", "mixed", "decode"]
    assert kernels_of(core, iteration=2) == [2]
    assert kernels_of(core, iteration=[0, 3]) == [0, 3]
    assert kernels_of(core, phase="decode") == [1, 3]
    assert kernels_of(core, phase="decode", iteration=range(2, 4)) == [3]
    w = core.window(iteration=2)
    assert w.titled("Table") == "Table (iteration 2)"
    # What other threads of the process do meanwhile is in it, too, and so is the annotation.
    assert w.holds(core.rows_of([10, 14, 15])).tolist() == [True, True, False]


def test_what_is_asked_for_in_vain() -> None:
    core = load_core(serving(NAMES))
    with pytest.raises(AnalysisError, match="no iteration 9; it has 0-3"):
        core.window(iteration=9)
    with pytest.raises(AnalysisError, match="2 decode, 1 mixed, 1 prefill"):
        core.window(phase="denoise")
    with pytest.raises(AnalysisError, match="did you mean decode"):
        core.window(phase="decod")
    with pytest.raises(AnalysisError, match="no iterations"):
        load_core(serving([""])).window(iteration=0)
    with pytest.raises(AnalysisError, match="--step"):
        load_core(serving(["ProfilerStep#1", "ProfilerStep#2"])).window(iteration=0)


def test_profiler_steps_stay_beside_annotations_of_an_engine() -> None:
    core = load_core([span("user_annotation", "ProfilerStep#7", 0, 1000), *serving(NAMES)])
    assert len(iterations_of(core)) == 4
    assert kernels_of(core, step=7) == [0, 1, 2, 3]


def test_an_annotation_inside_another_is_one_iteration() -> None:
    inner = span("user_annotation", "decode[bs=3/8 tok=3 d=3]", 105, 50)
    core = load_core([*serving(["execute_context_0(0)_generation_3(3)"] * 3), inner])
    assert [batch.captured for batch in iterations_of(core).batches] == [0, 8, 0]


def test_each_thread_has_its_own_where_several_have_some() -> None:
    events = [span("user_annotation", "step[DECODE bs=1]", 0, 80, tid=tid) for tid in (1, 2)]
    events += [span("cpu_op", "aten::mm", 10, 20, tid=tid) for tid in (1, 2, 3)]
    core = load_core(events)
    assert iterations_of(core).of[core.rows_of([2, 3, 4])].tolist() == [0, 1, -1]


def test_annotations_on_the_device_alone() -> None:
    def ranged(name: str, at: float, dur: float, stream: int = 7) -> dict[str, Any]:
        return span("gpu_user_annotation", name, at, dur, 0, stream, device=0, stream=stream)

    events = [
        ranged("step[EXTEND bs=1 toks=9]", 0, 50), ranged("step[EXTEND bs=1 toks=9]", 10, 60, 9),
        ranged("step[DECODE bs=2]", 65, 40), ranged("step[DECODE bs=2]", 110, 40),
        *(gpu(at, 5, 0) for at in (20, 66, 120, 400)),
    ]  # fmt: skip
    found = iterations_of(load_core(events))
    assert found.phases.tolist() == ["prefill", "decode", "decode"]
    assert sorted(found.of[found.core.gpu_rows].tolist()) == [-1, 0, 1, 2]


def test_plain_ranges_that_repeat() -> None:
    found = iterations_of(load_core(serving([f"forward {n}" for n in range(4)])))
    assert (found.phases.tolist(), found.source) == (["unknown"] * 4, "ranges named forward 0")
    found = iterations_of(load_core(serving(["prefill", "decode 1", "decode 2"])))
    assert found.phases.tolist() == ["prefill", "decode", "decode"]
    assert not len(iterations_of(load_core(serving(["forward"] * 2))))


def test_calls_that_repeat() -> None:
    events: list[dict[str, Any]] = [span("python_function", "generate", 0, 10_000)]
    for number in range(8):
        at = 1000 * number + 10
        for part, name in enumerate(["embed" if number else "load", "layers", "sample"]):
            begin, id_ = at + 100 * part, 10 * number + part + 1
            events += [span("python_function", name, begin, 90), call(begin + 5, id_), gpu(begin + 10, 40, id_)]
    core = load_core(events)
    found = iterations_of(core)
    assert "calls that repeat, from layers" in found.source
    assert len(found) == 7
    assert np.bincount(found.of[core.gpu_rows] + 1).tolist() == [3, *[3] * 7]


def test_steady_state() -> None:
    ramp = np.array([*range(1, 11), *[32] * 50, *range(30, 0, -1)])
    first, behind = steady_region(ramp)
    assert first == 10
    assert 60 < behind <= len(ramp)
    assert steady_region(np.array([4] * 9)) == (0, 9)
    assert steady_region(np.array([1, 40, 1])) == (1, 2)
    assert steady_region(np.array([], np.int64)) == (0, 0)


@given(st.lists(st.integers(0, 10**12), max_size=80))
def test_the_steady_state_is_a_stretch_of_the_trace(requests: list[int]) -> None:
    first, behind = steady_region(np.array(requests, np.int64))
    assert 0 <= first <= behind <= len(requests)
    assert (behind > first) == bool(requests)


@parametrize(
    "path", traces_named(*(f"tracelens/inference/{engine}-decode/graph-replay" for engine in ("vllm", "sglang")))
)
def test_real_servers(path: Path) -> None:
    found = iterations_of(loaded(path))
    assert found.phases.tolist() == ["decode"]
    assert found.batches[0].size == 32
    assert (found.of[found.core.gpu_rows] == 0).all()
