"""Training of one rank that has one stage of the model: micro-batches go through all stages, then back (GPipe)."""

from __future__ import annotations

from tracelens_graph.simulate import distributed
from tracelens_graph.simulate.batches import next_batch, to_device
from tracelens_graph.simulate.host import AutogradNode, Process, Thread
from tracelens_graph.simulate.program import run_steps
from tracelens_graph.simulate.tensors import Tensor
from tracelens_graph.simulate.training import Trainer
from tracelens_graph.simulate.troubles import lose_time
from tracelens_graph.simulate.waiting import Waits


def train_stage(process: Process) -> Waits:
    """Run all steps of a rank; yields where the host waits for the device."""
    trainer = Trainer(process)
    yield from run_steps(process, lambda t: _step(t, trainer))


class _Passing:
    """A micro-batch on its way through this stage: what came in, what went out, and the tape between."""

    def __init__(self, x: Tensor, out: Tensor, tape: list[AutogradNode]) -> None:
        self.x, self.out, self.tape = x, out, tape


def _step(t: Thread, trainer: Trainer) -> Waits:
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
    passing, done = [], list(batch)
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
            passing.append(_Passing(x, out, tape))
    for number, one in enumerate(passing):
        process.micro_batch = number
        with t.frame("pipeline.py(61): backward_step"):
            grad = None if after is None else distributed.receive(t, group, one.out.shape, after)
            t.tape = one.tape
            trainer.reduces = number + 1 == len(passing)
            grads = trainer.backward(t, one.out, grad)
            done.append(one.out)
            if before is not None:
                distributed.send(t, group, grads[one.x], before)
                done += [one.x, grads[one.x]]
    loss = passing[-1].out if after is None else t.new(())
    distributed.broadcast(t, group, loss, group.ranks[-1])
    yield from trainer.finish_step(t, loss, done)


def _part(t: Thread, x: Tensor, number: int, size: int) -> Tensor:
    with t.op("aten::slice", x, 0, number * size, (number + 1) * size, 1) as op:
        out = x.narrow(0, number * size, size)
        op.outputs = (out,)
    return out
