"""Losses: cross entropy, negative log likelihood, squares and absolute values of differences."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.elementwise import broadcast
from tracelens_graph.perf.families.vector import dense, vector_cost
from tracelens_graph.perf.model import CallContext


def cross_entropy(logits: Tensor, targets: Tensor) -> Cost:
    """Softmax and negative log likelihood in one pass: exponential, sum, logarithm, difference, choice.

    FLOPs = 5 · rows · V; bytes = logits + targets + one fp32 loss per row. V is the last dimension.

    Raises:
        CannotModel: the logits have no dimension.
    """
    if not logits.shape:
        raise CannotModel("the logits have no dimension of classes")
    rows = prod(logits.shape[:-1])
    params = {"batch": rows, "vocab_size": logits.shape[-1], "logits_shape": list(logits.shape)}
    return vector_cost(5 * logits.elements, (logits, targets, Tensor((rows,), "float")), logits, params)


def negative_log_likelihood(source: Tensor, targets: Tensor, *, reduced: bool = True) -> Cost:
    """The log probability of each target, summed if reduced.

    FLOPs = rows; bytes = one element of the source per target + targets + result.
    """
    chosen = Tensor((targets.elements,), source.dtype)
    result = Tensor((), source.dtype) if reduced else chosen
    return vector_cost(targets.elements, (chosen, targets, result), source, {"op_shape": source.shape})


def difference_loss(source: Tensor, target: Tensor, *, reduced: bool = True) -> Cost:
    """A square or absolute value of differences, summed if reduced.

    FLOPs = 2E, 3E if reduced; bytes = source + target + result.

    Raises:
        CannotModel: the shapes do not broadcast.
    """
    shape = broadcast(source.shape, target.shape)
    result = Tensor(() if reduced else shape, source.dtype)
    flops = (3 if reduced else 2) * prod(shape)
    return vector_cost(flops, (source, target, result), source, {"op_shape": shape})


def cross_entropy_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(logits, targets, …)`."""
    return cross_entropy(arguments.tensor(0), arguments.tensor(1))


@dataclass(frozen=True)
class Loss:
    """Reads the arguments of PyTorch's losses.

    Attributes:
        reduction: position of how losses are reduced: 0 not at all, 1 mean, 2 sum.
        likelihood: whether targets are classes.
    """

    reduction: int
    likelihood: bool = False

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        formula = negative_log_likelihood if self.likelihood else difference_loss
        return formula(arguments.tensor(0), arguments.tensor(1), reduced=arguments.integer(self.reduction) != 0)


def likelihood_backward_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(gradient, source, target, …)`: zeros everywhere but at the targets."""
    source, target = arguments.tensor(1), arguments.tensor(2)
    return vector_cost(
        target.elements, (arguments.tensor(0), target, dense(source)), source, {"op_shape": source.shape}
    )


def difference_backward_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(gradient, source, target, …)`: difference, factor, gradient: 3E."""
    gradient, source, target = (arguments.tensor(index) for index in range(3))
    touched = (gradient, source, target, dense(source))
    return vector_cost(3 * source.elements, touched, source, {"op_shape": source.shape})
