"""A program of few events: one matrix product and one all-reduce per layer, for jobs of many ranks."""

from __future__ import annotations

from tracelens_graph.simulate import distributed, kernels
from tracelens_graph.simulate.batches import next_batch, to_device
from tracelens_graph.simulate.communicate import wait_stream
from tracelens_graph.simulate.host import COMPUTE_STREAM, Process, Thread
from tracelens_graph.simulate.program import run_steps
from tracelens_graph.simulate.tensors import Storage, Tensor, contiguous
from tracelens_graph.simulate.troubles import lose_time
from tracelens_graph.simulate.waiting import Waits, synchronize_event


def loop(process: Process) -> Waits:
    """Run all steps of a rank; yields where the host waits for the device."""
    width = process.options.width
    weight = Tensor((width, width), contiguous((width, width)), "c10::BFloat16", Storage(0))
    yield from run_steps(process, lambda t: _step(t, weight))


def _step(t: Thread, weight: Tensor) -> Waits:
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
