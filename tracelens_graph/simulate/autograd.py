"""Autograd: forward operators leave nodes on a tape, the engine runs them in reverse on its own thread.

Activations are checkpointed in the two ways PyTorch has. Non-reentrant: the forward pass makes the autograd graph but
keeps no tensors; the first backward operator that asks for one runs the forward pass again, inside itself, on the
backward thread. Reentrant: the forward pass runs without autograd inside one CheckpointFunction; its backward operator
runs the forward pass again with autograd, and then that graph's backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tracelens_graph.simulate.events import HostEvent, Tensor
from tracelens_graph.simulate.host import AutogradNode, Thread
from tracelens_graph.simulate.kernels import elementwise, reduce_sum

Gradients = dict[Tensor, Tensor]
Accumulated = Callable[[Thread, Tensor, Tensor], None]
"""Called with a parameter and its gradient where the gradient has just been accumulated."""


def record(
    t: Thread,
    name: str,
    op: HostEvent,
    inputs: tuple[Tensor | None, ...],
    outputs: tuple[Tensor, ...],
    run: Callable[..., Sequence[Tensor | None]],
    saved: tuple[Tensor, ...] = (),
    saves: bool = True,
) -> None:
    """Put the node that `op` makes on the thread's tape; `saves` says whether it keeps tensors at all."""
    if all(x is None or x.dtype == "long int" for x in inputs):  # integers have no gradient
        return
    t.made.append(op)
    if t.tape is None:
        return
    assert op.sequence is not None
    node = AutogradNode(name, op, op.sequence, t.enclosing(op), run, inputs, outputs, saved)
    if saves and t.unpack is not None:
        node.unpack = t.unpack
        pack_hook(t, outputs[0])
    t.tape.append(node)
    t.process.nodes.append(node)
    t.sequence += 1


def pack_hook(t: Thread, tensor: Tensor) -> None:
    """A saved tensor goes through the hook of checkpointing, which detaches it when recomputing."""
    with t.frame("torch/utils/checkpoint.py(1105): pack_hook"):
        if t.recomputing:
            detach(t, tensor)


def detach(t: Thread, x: Tensor) -> None:
    """`aten::detach`, which dispatches to itself once."""
    with t.op("aten::detach", x) as op:
        op.outputs = (x,)
        with t.op("detach", x) as inner:
            inner.outputs = (x,)


def run_backward(t: Thread, tape: list[AutogradNode], grads: Gradients, accumulated: Accumulated) -> None:
    """Run a tape in reverse on thread `t`.

    `grads` holds the first gradients and receives those of the inputs.
    """
    for node in reversed(tape):
        given = [grads.pop(out) for out in node.outputs if out in grads]
        number = node.forward.thread.number
        leaves: list[tuple[Tensor, Tensor]] = []
        with t.op(
            f"autograd::engine::evaluate_function: {node.name}", sequence=node.sequence, forward_thread=number, scope=1
        ) as node.evaluate:
            with t.op(node.name, *given, sequence=node.sequence, forward_thread=number, scope=1) as node.backward:
                if node.unpack is not None:
                    node.unpack(t)
                produced = node.run(t, *given)
            for x, grad in zip(node.inputs, produced, strict=True):
                if x is None or grad is None:
                    continue
                grad = _sum_to_size(t, grad, x.shape)
                if x in t.process.parameters:
                    leaves.append((x, grad))
                elif x in grads:
                    _add_into(t, grads[x], grad)
                else:
                    grads[x] = grad
        for leaf, grad in leaves:
            _accumulate(t, leaf, grad, accumulated)
        kept = {x.storage for x in (*grads.values(), *node.inputs) if x is not None}
        kept |= {grad.storage for _, grad in leaves}
        for tensor in (*given, *node.outputs, *node.saved):
            if tensor.storage not in kept:
                t.process.release(t, tensor.storage)


def _sum_to_size(t: Thread, grad: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The gradient of a broadcast input is the sum over the dimensions that were broadcast."""
    extra = len(grad.shape) - len(shape)
    if extra <= 0:
        return grad
    kernel = reduce_sum(grad.numel, math.prod(shape))
    out = t.compute("aten::sum", grad, list(range(extra)), True, None, kernel=kernel, out=(1,) * extra + shape)
    with t.op("aten::view", out, list(shape)) as op:
        return op.gives(out.view(shape))


def _add_into(t: Thread, into: Tensor, grad: Tensor) -> None:
    kernel = elementwise("CUDAFunctor_add<c10::BFloat16>", into.numel, 3)
    t.compute("aten::add_", into, grad, 1, kernel=kernel, out=into)
    t.process.release(t, grad.storage)


def _accumulate(t: Thread, parameter: Tensor, grad: Tensor, accumulated: Accumulated) -> None:
    with t.op("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", scope=1):
        with t.op("torch::autograd::AccumulateGrad", grad, scope=1):
            before = t.process.gradients.get(parameter)
            if before is None:
                detach(t, grad)
            else:
                _add_into(t, before, grad)
        kept = t.process.gradients.setdefault(parameter, grad)
        accumulated(t, parameter, kept)


Forward = Callable[[Thread, Tensor], Tensor]
FILE = "torch/utils/checkpoint.py"


def non_reentrant(t: Thread, forward: Forward, x: Tensor) -> Tensor:
    """Call `forward` and keep none of its tensors for the backward pass."""
    assert t.tape is not None
    region = _Region(forward, x)
    with t.frame(f"{FILE}(352): checkpoint"):
        with t.grad_op("_NoopSaveInputs", x):
            t.sequence += 1
        begin = len(t.tape)
        t.unpack = region.unpack
        out = forward(t, x)
        t.unpack = None
        region.nodes = t.tape[begin:]
        for node in region.nodes:
            for tensor in (*node.outputs, *node.saved):
                if tensor.storage not in (x.storage, out.storage):
                    t.process.release(t, tensor.storage)
    return out


class _Region:
    """One checkpointed call: what to run again, and whether that has happened."""

    def __init__(self, forward: Forward, x: Tensor) -> None:
        self._forward = forward
        self._x = x
        self._done = False
        self.nodes: list[AutogradNode] = []

    def unpack(self, t: Thread) -> None:
        """Called by every backward operator of the region that needs a saved tensor."""
        with t.frame(f"{FILE}(1119): unpack_hook"):
            if self._done:
                return
            self._done = True
            outer, t.tape, t.recomputing = t.tape, [], True
            with t.frame(f"{FILE}(1508): recompute_fn"):
                t.unpack = lambda _: None
                self._forward(t, self._x)
                t.unpack = None
            for node, again in zip(self.nodes, t.tape, strict=True):
                node.twin = again.forward
                # the recomputed tensors live as long as those they stand for would have
                node.saved = (*again.outputs, *again.saved)
            again_nodes = {id(node) for node in t.tape}
            t.process.nodes = [node for node in t.process.nodes if id(node) not in again_nodes]
            t.tape, t.recomputing = outer, False


def reentrant(t: Thread, forward: Forward, x: Tensor, accumulated: Accumulated) -> Tensor:
    """Call `forward` without autograd, as one autograd function."""
    first_pass = len(t.made)

    def backward(b: Thread, grad: Tensor) -> tuple[Tensor]:
        with b.frame("torch/autograd/function.py(440): apply"), b.frame(f"{FILE}(281): backward"):
            outer, b.tape = b.tape, []
            detach(b, x)
            leaf = x.view(x.shape)
            b.recomputing = True
            again = forward(b, leaf)
            b.recomputing = False
            tape, b.tape = b.tape, outer
            for node, original in zip(tape, originals, strict=True):
                node.twin = original
            grads: Gradients = {again: grad}
            with (
                b.frame("torch/autograd/__init__.py(285): backward"),
                b.frame("torch/autograd/graph.py(850): _engine_run_backward"),
            ):
                run_backward(b, tape, grads, accumulated)
        return (grads[leaf],)

    with t.frame(f"{FILE}(352): checkpoint"), t.grad_op("CheckpointFunction", True, x) as op:
        with t.frame(f"{FILE}(239): forward"):
            tape, t.tape = t.tape, None
            result = forward(t, x)
            originals = t.made[first_pass:]
            t.tape = tape
        out = result.view(result.shape)
        record(t, "CheckpointFunctionBackward", op, (x,), (out,), backward, saves=False)
        return op.gives(out)
