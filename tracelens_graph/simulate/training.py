"""Training of one rank that has the whole model, or all of its layers: data, tensor and expert parallel."""

from __future__ import annotations

from contextlib import ExitStack

from tracelens_graph.simulate import aten, distributed, kernels
from tracelens_graph.simulate.autograd import Gradients, run_backward
from tracelens_graph.simulate.batches import next_batch, to_device
from tracelens_graph.simulate.host import Process, Thread
from tracelens_graph.simulate.model import Model
from tracelens_graph.simulate.optimizer import Optimizer
from tracelens_graph.simulate.program import run_steps
from tracelens_graph.simulate.tensors import Tensor
from tracelens_graph.simulate.troubles import lose_time
from tracelens_graph.simulate.waiting import Waits, read, synchronize


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


def train(process: Process) -> Waits:
    """Run all steps of a rank; yields where the host waits for the device."""
    trainer = Trainer(process)
    yield from run_steps(process, lambda t: _step(t, trainer))


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
            with t.op("aten::add_", counter, 1, 1) as op:
                t.launch(kernels.elementwise("CUDAFunctorOnSelf_add<float>", 1, 2, 4))
                op.outputs = (counter,)
        t.process.release(t, counter.storage)
