"""What a gap is due to: stacks with a planted culprit, made by hand, at random, and by the simulator."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from handmade import call, gpu, span
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from tracelens_graph.analyses.diagnosis.finding import Finding
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.idle.blame import blame, blamed, line_below, spent_in
from tracelens_graph.analyses.idle.idle import Cause, idle_parts
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import whole_window
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

Events = list[dict[str, Any]]
RUN = "train.py(9): main"
LOADER = "torch/utils/data/dataloader.py(733): __next__"
GET = "queue.py(154): get"
PINNED = "torch/utils/data/_utils/pin_memory.py(18): _pin_memory_loop"
FETCH = "torch/utils/data/_utils/fetch.py(47): fetch"


def frame(name: str, ts: float, dur: float, **where: Any) -> dict[str, Any]:
    return span("python_function", name, ts, dur, **where)


def gap(*events: dict[str, Any], length: float = 1000) -> Core:
    """A gap of that many us, from 1000 on, in which the host does something."""
    return load_core([
        frame(RUN, 0, 3000 + length), call(1, 1), gpu(100, 900, 1), *events, call(1000 + length - 4, 2),
        gpu(1000 + length, 1500, 2),
    ])  # fmt: skip


def named(core: Core, *causes: Cause) -> tuple[str, float]:
    """The call to which all gaps are due most, and its time in them, us."""
    idle = idle_parts(core)
    found = blame(core, idle, np.arange(len(idle.row)), causes)
    return core.names[core.columns.name[found.row]] if found.row >= 0 else "", found.ns / 1e3


def below(core: Core) -> tuple[str, float]:
    """The line below the function that gaps in Python are due to, and what it took itself, us."""
    idle = idle_parts(core)
    spent = spent_in(core, idle, np.arange(len(idle.row)), [Cause.python])
    row, ns = line_below(whole_window(core), spent, blamed(core, spent))
    return core.names[core.columns.name[row]] if row >= 0 else "", ns / 1e3


def test_calls_of_one_function_count_together_against_a_longer_one() -> None:
    often = [frame("train.py(30): often", 1010 + 60 * n, 55) for n in range(10)]
    assert named(gap(*often, frame("train.py(20): long", 1650, 300)), Cause.python) == ("train.py(30): often", 550)
    longer = gap(*often[:4], frame("train.py(20): long", 1300, 550))
    assert named(longer, Cause.python) == ("train.py(20): long", 550)


def test_no_call_is_named_below_the_one_that_holds_more_than_half() -> None:
    outer = frame("train.py(40): outer", 1010, 900)
    parts = [frame(f"train.py({n}): part", 1020 + 290 * n, 280) for n in range(3)]
    assert named(gap(outer, *parts), Cause.python) == ("train.py(40): outer", 900)


def test_below_a_function_that_only_calls_others_the_line_with_most_is_named() -> None:
    forward = frame("model.py(40): forward", 1010, 900)
    parts = [frame(f"model.py({n}): part", 1020 + 290 * n, 280) for n in range(3)]
    inner = [frame("torch/nn/functional.py(7): linear", 1030, 200), frame("model.py(9): slow", 1310, 279)]
    # Frames of the framework count for the line that calls them; what a line's callees take does not.
    assert below(gap(forward, *parts, *inner)) == ("model.py(0): part", 280)


def test_a_call_that_begins_before_the_gap_is_told_by_its_time_in_it() -> None:
    assert named(gap(frame("train.py(40): work", 500, 1200)), Cause.python) == ("train.py(40): work", 700)
    wait = call(900, 7, "cudaDeviceSynchronize", dur=110)
    core = gap(span("cpu_op", "aten::item", 890, 125), wait, length=80)
    assert named(core, Cause.synchronization) == ("cudaDeviceSynchronize", 10)


def test_frames_that_pass_a_call_on_are_not_named() -> None:
    wrapped = [frame("train.py(40): work", 1010, 900), frame("torch/nn/modules/module.py(3): _call_impl", 1011, 898)]
    parts = [frame(f"train.py({n}): part", 1020 + 290 * n, 280) for n in range(3)]
    assert named(gap(*wrapped, *parts), Cause.python) == ("train.py(40): work", 900)
    assert named(gap(*wrapped), Cause.python) == ("torch/nn/modules/module.py(3): _call_impl", 898)


def test_a_function_with_most_time_of_its_own_is_named_wherever_it_is_called() -> None:
    callers = [frame(f"train.py({n}): caller", 1010 + 300 * n, 280) for n in range(3)]
    called = [frame("train.py(77): slow", 1050 + 300 * n, 200) for n in range(3)]
    assert named(gap(*callers, *called), Cause.python) == ("train.py(77): slow", 600)


def loading(*workers: dict[str, Any]) -> Core:
    return gap(frame(LOADER, 1005, 950), frame(GET, 1006, 948), *workers)


def test_a_data_loader_is_followed_into_the_function_that_takes_the_time() -> None:
    decode = [
        frame(FETCH, 1006, 940),
        frame("data.py(12): __getitem__", 1010, 930),
        frame("PIL/Image.py(9): load", 1020, 700),
    ]
    assert named(gap(frame(LOADER, 1005, 950), *decode), Cause.data_loader) == ("PIL/Image.py(9): load", 700)


@pytest.mark.parametrize("where", [{"tid": 300}, {"pid": 400, "tid": 400}])
def test_a_data_loader_is_followed_into_other_threads(where: dict[str, Any]) -> None:
    work = [frame(PINNED, 0, 4000, **where), frame("data.py(12): decode", 1010, 800, **where)]
    assert named(loading(*work), Cause.data_loader) == ("data.py(12): decode", 800)


def test_threads_that_wait_themselves_are_no_culprits() -> None:
    idle = [frame(PINNED, 0, 4000, tid=300), frame("threading.py(355): wait", 1, 3900, tid=300)]
    assert named(loading(*idle), Cause.data_loader) == (GET, 948)


@st.composite
def stacks(draw: st.DrawFn) -> tuple[Events, str, int]:
    """A gap of 1,000 us filled by functions below chains of callers; one of them holds more than half in many calls."""
    planted = draw(st.integers(510, 900))
    calls = draw(st.integers(1, 12))
    others = draw(st.lists(st.integers(1, 60), max_size=8))
    pieces = [(planted // calls, "train.py(77): culprit")] * calls
    for n, size in enumerate(others):
        if sum(took for took, _ in pieces) + size < 985:
            pieces.append((size, f"other{n}.py(1): f"))
    callers = [f"lib{n}.py(3): passes" for n in range(draw(st.integers(0, 80)))]
    events = [frame(name, 900, 1200) for name in callers]
    at = 1002.0
    for took, name in draw(st.permutations(pieces)):
        events.append(frame(name, at, took))
        if took > 4:
            events += [frame(f"inner{n}.py(2): g", at + n * took / 4, took / 4) for n in range(3)]
        at += took
    return events, "train.py(77): culprit", planted // calls * calls


@examples(150)
@given(stacks())
def test_the_planted_culprit_is_named_with_its_own_time(made: tuple[Events, str, int]) -> None:
    events, name, us = made
    if 2 * us > 1000:
        assert named(gap(*events), Cause.python) == (name, pytest.approx(us))


def finding(core: Core, topic: str) -> Finding:
    return next(one for one in verdict(core) if one.topic == topic)


@pytest.mark.parametrize(
    ("problem", "topic", "because", "line"),
    [
        ("data_loader", "data_loader", "multiprocessing/queues.py(113): get", "train.py"),
        ("synchronization", "synchronization", "cudaStreamSynchronize", "train.py(24): log_metrics"),
    ],
)
def test_the_simulators_culprit_is_named_with_the_users_line(problem: str, topic: str, because: str, line: str) -> None:
    for seed in range(3):
        (rank,) = simulate(problem=problem, seed=seed, python_stacks=True).ranks
        found = finding(load_core(rank.trace), topic)
        assert found.evidence["because"] == because
        assert str(found.evidence["python"]).startswith(line)
        assert 0 < float(found.evidence["because_ms"]) <= float(found.evidence["ms"])


@pytest.mark.parametrize(
    ("reason", "because"), [("python", "train.py(52): augment"), ("op", "aten::sort"), ("allocation", "cudaMalloc")]
)
def test_planted_delays_of_the_simulator_are_named_for_their_gap(reason: str, because: str) -> None:
    named_in: Counter[str] = Counter()
    for seed in range(3):
        run = simulate(late_rank=0, late_reason=reason, late_us=30_000.0, python_stacks=True, seed=seed)
        core = load_core(run.ranks[0].trace)
        idle = idle_parts(core)
        longest = int((idle.end - idle.start).argmax())
        cause = Cause(int(idle.parts[:, longest].argmax()))
        found = blame(core, idle, np.array([longest]), [cause])
        named_in[core.names[core.columns.name[found.row]]] += 1
        assert 25e6 < found.ns <= idle.end[longest] - idle.start[longest]
    assert named_in == {because: 3}
