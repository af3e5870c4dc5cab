"""Steps of optimizers over lists of tensors: fused Adam, AdamW, SGD, and `_foreach_` operations.

The profiler records sizes of the tensors in a list, up to a length, but not their types: those come from the kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.vector import kernel_element, vector_cost
from tracelens_graph.perf.model import CallContext, looks_at_context


def adam(parameters: Iterable[Tensor], *, decay: bool = False, decoupled: bool = False, amsgrad: bool = False) -> Cost:
    """A step of Adam (https://arxiv.org/abs/1412.6980) or AdamW (decoupled decay, https://arxiv.org/abs/1711.05101).

    FLOPs per element = 13: mean 3, mean square 4, denominator (root, correction, epsilon) 3, step 3; + 2 with weight
    decay, 1 if it is decoupled; + 1 with amsgrad. Elements moved = 7: gradient in, parameter and both means in and out;
    + 2 with amsgrad.

    Args:
        parameters: tensors of parameters; gradient and state have their sizes and types.
        decay: whether weights decay.
        decoupled: whether they do so apart from the gradient.
        amsgrad: whether the greatest mean square is kept.
    """
    flops = 13 + ((1 if decoupled else 2) if decay else 0) + (1 if amsgrad else 0)
    return _step(parameters, flops, 9 if amsgrad else 7)


def sgd(parameters: Iterable[Tensor], *, decay: bool = False, momentum: bool = False, nesterov: bool = False) -> Cost:
    """A step of stochastic gradient descent.

    FLOPs per element = 2, + 2 each for weight decay, momentum, Nesterov's correction. Elements moved = 3: gradient in,
    parameter in and out; + 2 with momentum.
    """
    return _step(parameters, 2 + 2 * (decay + momentum + nesterov), 5 if momentum else 3)


def _step(parameters: Iterable[Tensor], flops: int, moved: int) -> Cost:
    tensors = list(parameters)
    if not tensors:
        raise CannotModel("sizes in the list of tensors are not recorded")
    elements = sum(tensor.elements for tensor in tensors)
    every = Tensor((moved, elements), tensors[0].dtype)
    return vector_cost(flops * elements, [every], every, {"num_tensors": len(tensors), "num_elements": elements})


@looks_at_context
@dataclass(frozen=True)
class FusedAdam:
    """Reads `(parameters, gradients, means, squares, greatest squares, steps, lr, 2 betas, decay, eps, amsgrad)`."""

    decoupled: bool = False

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        return adam(
            arguments.tensors(0, kernel_element(context)),
            decay=arguments.number(9) not in (None, 0.0),
            decoupled=self.decoupled,
            amsgrad=bool(arguments.boolean(11)),
        )


@looks_at_context
def fused_sgd_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(parameters, gradients, momenta, weight_decay, momentum, lr, dampening, nesterov, …)`."""
    return sgd(
        arguments.tensors(0, kernel_element(context)),
        decay=arguments.number(3) not in (None, 0.0),
        momentum=arguments.number(4) not in (None, 0.0),
        nesterov=bool(arguments.boolean(7)),
    )


@looks_at_context
@dataclass(frozen=True)
class ForEach:
    """Reads the arguments of an operation on lists of tensors.

    Attributes:
        flops: per element of the first list.
        reads: whether the first list is read; else only written.
        writes: whether as much as the first list is written.
    """

    flops: int = 1
    reads: bool = True
    writes: bool = True

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        dtype = kernel_element(context)
        lists = [arguments.tensors(index, dtype) for index in range(len(arguments))]
        first = lists[0] if lists else []
        if not first:
            raise CannotModel("sizes in the list of tensors are not recorded")
        elements = sum(tensor.elements for tensor in first)
        touched = [tensor for others in lists[1:] for tensor in others]
        touched += first * (self.reads + self.writes)
        params = {"num_tensors": len(first), "num_elements": elements}
        return vector_cost(self.flops * elements, touched, first[0], params)
