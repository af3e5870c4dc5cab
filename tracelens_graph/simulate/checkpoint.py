"""Activation checkpointing, in the two ways PyTorch has.

Non-reentrant: the forward pass makes the autograd graph but keeps no tensors; the first backward operator
that asks for one runs the forward pass again, inside itself, on the backward thread. Reentrant: the forward
pass runs without autograd inside one CheckpointFunction; its backward operator runs the forward pass again
with autograd, and then that graph's backward pass.
"""

from __future__ import annotations

from collections.abc import Callable

from tracelens_graph.simulate.autograd import Accumulated, Gradients, detach, record, run_backward
from tracelens_graph.simulate.host import AutogradNode, Thread
from tracelens_graph.simulate.tensors import Tensor

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
        op.outputs = (out,)
    return out
