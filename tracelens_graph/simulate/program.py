"""What all programs share: the steps of a training loop under the profiler."""

from __future__ import annotations

from collections.abc import Callable

from tracelens_graph.simulate.distributed import barrier, call_each_kind
from tracelens_graph.simulate.host import Process, Thread
from tracelens_graph.simulate.troubles import FIRST_STEP
from tracelens_graph.simulate.waiting import Waits, synchronize


def run_steps(process: Process, step: Callable[[Thread], Waits]) -> Waits:
    """Run `step` as often as the options say, each time under a range of the profiler."""
    t, options = process.main, process.options
    with t.frame("train.py(88): <module>"), t.frame("train.py(61): main"):
        with (
            t.frame("torch/profiler/profiler.py(821): step"),
            t.frame("torch/profiler/profiler.py(199): start_trace"),
        ):
            t.spend(60_000, 90_000)
            _begin_step(t, FIRST_STEP)
        for number in range(FIRST_STEP, FIRST_STEP + options.steps):
            with t.frame("train.py(70): train_step"):
                yield from step(t)
                yield from call_each_kind(t)
                if options.host_barrier:
                    yield from barrier(t, process.place.world)
            with t.frame("torch/profiler/profiler.py(821): step"):
                t.spend(3_000, 6_000)
                t.end_annotation()
                process.step = None
                if number + 1 < FIRST_STEP + options.steps:
                    _begin_step(t, number + 1)
        with t.frame("torch/profiler/profiler.py(271): stop_trace"):
            yield from synchronize(t)


def _begin_step(t: Thread, number: int) -> None:
    with t.frame("torch/autograd/profiler.py(941): __enter__"):
        t.process.step = number
        # the range outlives the frames that open it, as in real traces
        t.begin_annotation(f"ProfilerStep#{number}")
