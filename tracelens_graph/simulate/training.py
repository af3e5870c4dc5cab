"""The training loop of one rank."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack

from . import aten, distributed, kernels
from .autograd import Accumulated, Gradients, run_backward
from .events import GpuEvent, SyncEvent
from .host import COMPUTE_STREAM, Process, Thread
from .model import Model
from .tensors import Storage, Tensor, contiguous, host_tensor

USUAL_WAIT_US = 60.0
PINNED, PAGEABLE = "HtoD (Pinned -> Device)", "HtoD (Pageable -> Device)"
CHUNK_ELEMENTS = 320 * 65536
"""What one multi-tensor kernel takes on at most."""


def train(process: Process) -> Iterator[None]:
    """Run all steps of a rank, and yield where the host waits for a device.

    Whoever drives this runs the devices of all ranks before going on.
    """
    t, options = process.main, process.options
    model = Model(process)
    buckets = model.buckets()
    process.parameters = {p for bucket in buckets for p in bucket}
    states = [_State(p) for bucket in reversed(buckets) for p in bucket]
    reducer = distributed.Reducer(buckets) if options.ranks > 1 else None
    first = 3  # wait and warm-up steps came before

    def accumulated(thread: Thread, parameter: Tensor, grad: Tensor) -> None:
        if reducer is not None:
            reducer(thread, parameter, grad)

    with t.frame("train.py(88): <module>"), t.frame("train.py(61): main"):
        with (
            t.frame("torch/profiler/profiler.py(821): step"),
            t.frame("torch/profiler/profiler.py(199): start_trace"),
        ):
            t.spend(60_000, 90_000)
            _begin_step(t, first)
        for step in range(first, first + options.steps):
            with t.frame("train.py(70): train_step"):
                batch = _next_batch(t)
                inputs = []
                for tensor in batch:
                    inputs.append((yield from _to_device(t, tensor)))
                indices, target = inputs[:2]
                with (
                    t.frame("torch/optim/optimizer.py(1065): zero_grad"),
                    t.annotation("Optimizer.zero_grad#AdamW.zero_grad"),
                ):
                    for grad in process.gradients.values():
                        process.release(t, grad.storage)
                    process.gradients.clear()
                t.tape = []
                with ExitStack() as ddp:
                    if options.ranks > 1:
                        forward = "torch/nn/parallel/distributed.py(1655): forward"
                        ddp.enter_context(t.module("DistributedDataParallel_0", forward))
                        ddp.enter_context(t.annotation("DistributedDataParallel.forward"))
                    logits = model(t, indices, accumulated)
                flat = aten.view(t, logits, (-1, options.vocabulary))
                loss = aten.cross_entropy(t, flat, aten.view(t, target, (-1,)))
                if options.sync_every_step:
                    yield from _log(t, loss)
                _backward(t, loss, reducer, accumulated)
                if options.sync_every_step:
                    with t.frame("torch/cuda/__init__.py(1085): synchronize"):
                        yield from _synchronize(t)
                _tiny_kernels(t)
                _optimize(t, states)
                if options.read_loss:
                    with t.frame("train.py(79): track_loss"):
                        yield from _item(t, loss)
                if options.ranks > 1:
                    inputs.append(distributed.all_gather(t, loss))
                for tensor in (*inputs, loss):
                    process.release(t, tensor.storage)
            with t.frame("torch/profiler/profiler.py(821): step"):
                t.spend(3_000, 6_000)
                t.end_annotation()
                process.step = None
                if step + 1 < first + options.steps:
                    _begin_step(t, step + 1)
        with t.frame("torch/profiler/profiler.py(271): stop_trace"):
            yield from _synchronize(t)


def _begin_step(t: Thread, number: int) -> None:
    with t.frame("torch/autograd/profiler.py(941): __enter__"):
        t.process.step = number
        # the range outlives the frames that open it, as in real traces
        t.begin_annotation(f"ProfilerStep#{number}")


def _synchronize(t: Thread) -> Iterator[None]:
    with t.runtime("cudaDeviceSynchronize") as call:
        yield
        t.wait_until(max(gpu.end for gpu in t.process.gpus))
    t.process.syncs.append(SyncEvent("Context Sync", call, -1))


def _log(t: Thread, loss: Tensor) -> Iterator[None]:
    """Read the loss and write it somewhere, while the device has nothing to do."""
    with t.frame("train.py(24): log_metrics"):
        yield from _item(t, loss)
        t.spend(1_200_000, 1_800_000)


def _item(t: Thread, scalar: Tensor) -> Iterator[None]:
    """Wait for a number and copy it to the host."""
    with (
        t.frame("<built-in method item of Tensor object at 0x7f3f0c64f5c0>"),
        t.op("aten::item", scalar),
        t.op("aten::_local_scalar_dense", scalar),
    ):
        copy = t.memcpy("DtoH (Device -> Pageable)", 2)
        yield from _synchronize_stream(t, copy)


def _synchronize_stream(t: Thread, work: GpuEvent) -> Iterator[None]:
    with t.runtime("cudaStreamSynchronize") as call:
        yield
        t.wait_until(work.end)
    t.process.syncs.append(SyncEvent("Stream Sync", call, COMPUTE_STREAM))


def _next_batch(t: Thread) -> list[Tensor]:
    options = t.process.options
    late = options.dataloader_rank in (None, t.process.rank)
    wait_us = options.dataloader_us if late else USUAL_WAIT_US
    with (
        t.frame("torch/utils/data/dataloader.py(733): __next__"),
        t.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
        t.frame("torch/utils/data/dataloader.py(1482): _next_data"),
        t.frame("multiprocessing/queues.py(113): get"),
    ):
        t.now += round(1000 * wait_us)
        t.spend(1_000, 9_000)
    batch = [host_tensor((options.batch, options.tokens), "long int") for _ in range(2)]
    if options.copy_mb:
        batch.append(host_tensor((round(options.copy_mb * 1e6 / 8),), "long int"))
    return batch


def _to_device(t: Thread, x: Tensor) -> Generator[None, None, Tensor]:
    options = t.process.options
    with (
        t.frame("<built-in method to of Tensor object at 0x7f3f0c64f5c0>"),
        t.op("aten::to", x, 4, 0, "cuda:0", False, not options.pageable, False, None) as op,
    ):
        with t.op("aten::_to_copy", x, 4, 0, "cuda:0", False, not options.pageable, None) as inner:
            with t.op("aten::empty_strided", list(x.shape), list(x.strides), 4, 0, "cuda:0", False) as made:
                out = t.new(x.shape, x.dtype)
                made.outputs = (out,)
            with t.op("aten::copy_", out, x, not options.pageable) as copied:
                copy = t.memcpy(PAGEABLE if options.pageable else PINNED, x.bytes)
                if options.pageable:
                    yield from _synchronize_stream(t, copy)
                copied.outputs = (out,)
            inner.outputs = (out,)
        op.outputs = (out,)
    return out


def _backward(t: Thread, loss: Tensor, reducer: distributed.Reducer | None, accumulated: Accumulated) -> None:
    tape, t.tape = t.tape, None
    assert tape is not None
    with t.frame("torch/_tensor.py(594): backward"), t.frame("torch/autograd/__init__.py(285): backward"):
        grads: Gradients = {loss: aten.ones_like(t, loss)}
        with (
            t.frame("torch/autograd/graph.py(850): _engine_run_backward"),
            t.frame("<built-in method run_backward of torch._C._EngineBase object at 0x7f484c7a53a0>"),
        ):
            b = t.process.autograd
            b.now = max(b.now, t.now)
            b.spend(4_000, 12_000)
            run_backward(b, tape, grads, accumulated)
            if reducer is not None:
                reducer.finish(b)
            t.wait_until(b.now)


def _tiny_kernels(t: Thread) -> None:
    count = t.process.options.tiny_kernels
    if not count:
        return
    with t.frame("train.py(31): update_counters"):
        counter = t.new((1,), "float")
        for _ in range(count):
            with t.op("aten::add_", counter, 1, 1) as op:
                t.launch(kernels.elementwise("CUDAFunctorOnSelf_add<float>", 1, 2, 4))
                op.outputs = (counter,)
        t.process.release(t, counter.storage)


class _State:
    """A parameter and what the optimizer keeps about it."""

    def __init__(self, parameter: Tensor) -> None:
        self.parameter = parameter
        self.average, self.square, self.scratch = (
            Tensor(parameter.shape, contiguous(parameter.shape), parameter.dtype, Storage(0)) for _ in range(3)
        )


def _optimize(t: Thread, states: list[_State]) -> None:
    """One step of AdamW, one operator over all parameters after the other."""
    parameters = [s.parameter for s in states]
    averages, squares = [s.average for s in states], [s.square for s in states]
    scratch = [s.scratch for s in states]
    grads = [t.process.gradients[p] for p in parameters]
    rates = [1e-3] * len(states)
    steps = (
        ("aten::_foreach_mul_", (parameters, 0.99999), "BinaryOpScalarFunctor", 2),
        ("aten::_foreach_lerp_", (averages, grads, 0.1), "TernaryOpScalarFunctor", 3),
        ("aten::_foreach_mul_", (squares, 0.999), "BinaryOpScalarFunctor", 2),
        ("aten::_foreach_addcmul_", (squares, grads, grads, 0.001), "PointwiseOpScalarFunctor", 4),
        ("aten::_foreach_sqrt", (squares,), "UnaryOpFunctor", 2),
        ("aten::_foreach_div_", (scratch, rates), "BinaryOpScalarListFunctor", 2),
        ("aten::_foreach_add_", (scratch, 1e-8), "BinaryOpScalarFunctor", 2),
        (
            "aten::_foreach_addcdiv_",
            (parameters, averages, scratch, rates),
            "PointwiseOpScalarListFunctor",
            4,
        ),
    )
    total = sum(p.numel for p in parameters)
    with (
        t.frame("torch/optim/optimizer.py(517): wrapper"),
        t.annotation("Optimizer.step#AdamW.step"),
        t.frame("torch/optim/optimizer.py(79): _use_grad"),
        t.frame("torch/optim/adamw.py(153): step"),
        t.frame("torch/optim/adam.py(590): _multi_tensor_adam"),
    ):
        for name, inputs, functor, tensors in steps:
            with t.op(name, *inputs):
                for done in range(0, total, CHUNK_ELEMENTS):
                    part = min(CHUNK_ELEMENTS, total - done)
                    t.launch(kernels.multi_tensor_apply(functor, part, tensors))
