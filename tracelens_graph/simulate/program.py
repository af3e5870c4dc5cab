"""The steps of a training loop under the profiler, which all programs share; and a program of few events."""

from __future__ import annotations

from collections.abc import Callable

from tracelens_graph.simulate import distributed, kernels
from tracelens_graph.simulate.communicate import wait_stream
from tracelens_graph.simulate.distributed import barrier, call_each_kind
from tracelens_graph.simulate.events import Storage, Tensor, contiguous
from tracelens_graph.simulate.host import COMPUTE_STREAM, Process, Thread
from tracelens_graph.simulate.waits import (
    FIRST_STEP,
    Waits,
    lose_time,
    next_batch,
    synchronize,
    synchronize_event,
    to_device,
)


def run_steps(process: Process, step: Callable[[Thread], Waits]) -> Waits:
    """Run `step` as often as the options say, each time under a range of the profiler."""
    t, options = process.main, process.options
    with t.frame("train.py(88): <module>"), t.frame("train.py(61): main"):
        with t.frame("torch/profiler/profiler.py(821): step"), t.frame("torch/profiler/profiler.py(199): start_trace"):
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


def loop(process: Process) -> Waits:
    """Run all steps of a rank; yields where the host waits for the device."""
    width = process.options.width
    weight = Tensor((width, width), contiguous((width, width)), "c10::BFloat16", Storage(0))
    yield from run_steps(process, lambda t: _loop_step(t, weight))


def _loop_step(t: Thread, weight: Tensor) -> Waits:
    options, group = t.process.options, t.process.place.data
    indices = yield from to_device(t, next_batch(t)[0])
    lose_time(t)
    x = t.new((options.batch * options.tokens, options.width))
    for _ in range(options.layers):
        with t.op("aten::mm", x, weight) as op:
            out = t.new(x.shape)
            t.launch(kernels.gemm(x.shape[0], options.width, options.width, "nn"))
            op.outputs = (out,)
        if len(group.ranks) > 1:
            wait_stream(t, COMPUTE_STREAM, distributed.all_reduce(t, group, out))
        t.process.release(t, x.storage)
        x = out
    yield from synchronize_event(t)
    for tensor in (x, indices):
        t.process.release(t, tensor.storage)
