"""Training of one rank: of the whole model or all of its layers, or of one stage of a pipeline; with AdamW.

In a pipeline, micro-batches go through all stages, then back (GPipe)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from tracelens_graph.simulate import aten, distributed, kernels
from tracelens_graph.simulate.autograd import Gradients, run_backward
from tracelens_graph.simulate.communicate import wait_stream
from tracelens_graph.simulate.distributed import barrier, call_each_kind
from tracelens_graph.simulate.events import Storage, Tensor, contiguous
from tracelens_graph.simulate.host import COMPUTE_STREAM, Process, Thread
from tracelens_graph.simulate.model import Model
from tracelens_graph.simulate.waits import (
    FIRST_STEP,
    Waits,
    lose_time,
    next_batch,
    read,
    synchronize,
    synchronize_event,
    to_device,
)


def _run_steps(process: Process, step: Callable[[Thread], Waits]) -> Waits:
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


def run_program(process: Process) -> Waits:
    """Run all steps of a rank; yields where the host waits for the device."""
    if process.options.program == "loop":
        width = process.options.width
        weight = Tensor((width, width), contiguous((width, width)), "c10::BFloat16", Storage(0))
        yield from _run_steps(process, lambda t: _loop_step(t, weight))
        return
    trainer, step = Trainer(process), _step_of_stage if process.options.pipeline_parallel > 1 else _step
    yield from _run_steps(process, lambda t: step(t, trainer))


def _loop_step(t: Thread, weight: Tensor) -> Waits:
    options, group = t.process.options, t.process.place.data
    indices = yield from to_device(t, next_batch(t)[0])
    lose_time(t)
    x = t.new((options.batch * options.tokens, options.width))
    for _ in range(options.layers):
        kernel = kernels.gemm(x.shape[0], options.width, options.width, "nn")
        out = t.compute("aten::mm", x, weight, kernel=kernel, out=x.shape)
        if len(group.ranks) > 1:
            wait_stream(t, COMPUTE_STREAM, distributed.all_reduce(t, group, out))
        t.process.release(t, x.storage)
        x = out
    yield from synchronize_event(t)
    for tensor in (x, indices):
        t.process.release(t, tensor.storage)


CHUNK_ELEMENTS = 320 * 65536
"""What one multi-tensor kernel takes on at most."""


class Optimizer:
    """The parameters, and what AdamW keeps about each."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self._parameters = parameters
        self._averages, self._squares, self._scratch = ([_like(p) for p in parameters] for _ in range(3))

    def zero_grad(self, t: Thread) -> None:
        """Give back the gradients of the last step."""
        with t.frame("torch/optim/optimizer.py(1065): zero_grad"), t.annotation("Optimizer.zero_grad#AdamW.zero_grad"):
            for grad in t.process.gradients.values():
                t.process.release(t, grad.storage)
            t.process.gradients.clear()

    def step(self, t: Thread) -> None:
        """One step, one operator over all parameters after the other."""
        parameters, averages, squares, scratch = self._parameters, self._averages, self._squares, self._scratch
        grads = [t.process.gradients[p] for p in parameters]
        rates = [1e-3] * len(parameters)
        steps = (
            ("aten::_foreach_mul_", (parameters, 0.99999), "BinaryOpScalarFunctor", 2),
            ("aten::_foreach_lerp_", (averages, grads, 0.1), "TernaryOpScalarFunctor", 3),
            ("aten::_foreach_mul_", (squares, 0.999), "BinaryOpScalarFunctor", 2),
            ("aten::_foreach_addcmul_", (squares, grads, grads, 0.001), "PointwiseOpScalarFunctor", 4),
            ("aten::_foreach_sqrt", (squares,), "UnaryOpFunctor", 2),
            ("aten::_foreach_div_", (scratch, rates), "BinaryOpScalarListFunctor", 2),
            ("aten::_foreach_add_", (scratch, 1e-8), "BinaryOpScalarFunctor", 2),
            ("aten::_foreach_addcdiv_", (parameters, averages, scratch, rates), "PointwiseOpScalarListFunctor", 4),
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


def _like(parameter: Tensor) -> Tensor:
    return Tensor(parameter.shape, contiguous(parameter.shape), parameter.dtype, Storage(0))


class Trainer:
    """The model of one rank with its optimizer, and the reducer of its gradients."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.model = Model(process)
        buckets = self.model.buckets()
        process.parameters = {p for bucket, _ in buckets for p in bucket}
        self.optimizer = Optimizer([p for bucket, _ in reversed(buckets) for p in bucket])
        shared = [(bucket, group) for bucket, group in buckets if len(group.ranks) > 1]
        self._reducer = distributed.Reducer(shared) if shared else None
        self.reduces = True
        """Whether gradients are reduced: not before the last part of a batch."""

    @property
    def is_shared(self) -> bool:
        """Whether other ranks have the same parameters."""
        return self._reducer is not None

    def accumulated(self, thread: Thread, parameter: Tensor, grad: Tensor) -> None:
        """A parameter has its gradient."""
        if self._reducer is not None and self.reduces:
            self._reducer(thread, parameter, grad)

    def forward(self, t: Thread, x: Tensor) -> Tensor:
        """Run the model with autograd, inside its data parallel wrapper if there is one."""
        t.tape = []
        with ExitStack() as ddp:
            if self.is_shared:
                forward = "torch/nn/parallel/distributed.py(1655): forward"
                ddp.enter_context(t.module("DistributedDataParallel_0", forward))
                ddp.enter_context(t.annotation("DistributedDataParallel.forward"))
            return self.model(t, x, self.accumulated)

    def loss(self, t: Thread, logits: Tensor, target: Tensor) -> Tensor:
        """The loss of the logits."""
        flat = aten.view(t, logits, (-1, t.process.options.vocabulary))
        return aten.cross_entropy(t, flat, aten.view(t, target, (-1,)))

    def backward(self, t: Thread, out: Tensor, grad: Tensor | None = None) -> Gradients:
        """Run the tape of the forward pass in reverse on the autograd thread; gives the gradients of its inputs."""
        tape, t.tape = t.tape, None
        assert tape is not None
        with t.frame("torch/_tensor.py(594): backward"), t.frame("torch/autograd/__init__.py(285): backward"):
            grads: Gradients = {out: aten.ones_like(t, out) if grad is None else grad}
            with (
                t.frame("torch/autograd/graph.py(850): _engine_run_backward"),
                t.frame("<built-in method run_backward of torch._C._EngineBase object at 0x7f484c7a53a0>"),
            ):
                b = t.process.autograd
                b.now = max(b.now, t.now)
                b.spend(4_000, 12_000)
                run_backward(b, tape, grads, self.accumulated)
                if self._reducer is not None and self.reduces:
                    self._reducer.finish(b)
                t.wait_until(b.now)
        return grads

    def finish_step(self, t: Thread, loss: Tensor, done: list[Tensor]) -> Waits:
        """All that follows the backward pass; then `done` and the loss are given back."""
        process, options = t.process, t.process.options
        if options.sync_every_step:
            with t.frame("torch/cuda/__init__.py(1085): synchronize"):
                yield from synchronize(t)
        _tiny_kernels(t)
        self.optimizer.step(t)
        if options.read_loss:
            with t.frame("train.py(79): track_loss"):
                yield from read(t, loss)
        if options.ranks > 1:
            done = [*done, distributed.all_gather(t, process.place.world, loss)]
        for tensor in (*done, loss):
            process.release(t, tensor.storage)


def _step(t: Thread, trainer: Trainer) -> Waits:
    options = t.process.options
    batch = next_batch(t)
    inputs = []
    for tensor in batch:
        inputs.append((yield from to_device(t, tensor)))
    indices, target = inputs[:2]
    trainer.optimizer.zero_grad(t)
    lose_time(t)
    loss = trainer.loss(t, trainer.forward(t, indices), target)
    if options.sync_every_step:
        with t.frame("train.py(24): log_metrics"):
            yield from read(t, loss)
            t.spend(1_200_000, 1_800_000)
    trainer.backward(t, loss)
    yield from trainer.finish_step(t, loss, inputs)


def _tiny_kernels(t: Thread) -> None:
    count = t.process.options.tiny_kernels
    if not count:
        return
    with t.frame("train.py(31): update_counters"):
        counter = t.new((1,), "float")
        for _ in range(count):
            kernel = kernels.elementwise("CUDAFunctorOnSelf_add<float>", 1, 2, 4)
            t.compute("aten::add_", counter, 1, 1, kernel=kernel, out=counter)
        t.process.release(t, counter.storage)


def _step_of_stage(t: Thread, trainer: Trainer) -> Waits:
    process, options, place = t.process, t.process.options, t.process.place
    group = place.pipeline
    before = group.ranks[place.stage - 1] if place.stage else None
    after = group.ranks[place.stage + 1] if place.stage + 1 < len(group.ranks) else None
    batch = []
    for tensor in next_batch(t):
        batch.append((yield from to_device(t, tensor)))
    trainer.optimizer.zero_grad(t)
    lose_time(t)
    size = options.batch // options.micro_batches
    passing, done = [], list(batch)  # of each micro-batch what came in, what went out, and the tape between
    for number in range(options.micro_batches):
        process.micro_batch = number
        with t.frame("pipeline.py(34): forward_step"):
            if before is None:
                x = _part(t, batch[0], number, size)
            else:
                x = distributed.receive(t, group, (size, options.tokens, options.width), before)
            out = trainer.forward(t, x)
            if after is None:
                out = trainer.loss(t, out, _part(t, batch[1], number, size))
            else:
                distributed.send(t, group, out, after)
            tape, t.tape = t.tape, None
            assert tape is not None
            passing.append((x, out, tape))
    for number, (x, out, tape) in enumerate(passing):
        process.micro_batch = number
        with t.frame("pipeline.py(61): backward_step"):
            grad = None if after is None else distributed.receive(t, group, out.shape, after)
            t.tape = tape
            trainer.reduces = number + 1 == len(passing)
            grads = trainer.backward(t, out, grad)
            done.append(out)
            if before is not None:
                distributed.send(t, group, grads[x], before)
                done += [x, grads[x]]
    loss = passing[-1][1] if after is None else t.new(())
    distributed.broadcast(t, group, loss, group.ranks[-1])
    yield from trainer.finish_step(t, loss, done)


def _part(t: Thread, x: Tensor, number: int, size: int) -> Tensor:
    with t.op("aten::slice", x, 0, number * size, (number + 1) * size, 1) as op:
        return op.gives(x.narrow(0, number * size, size))
