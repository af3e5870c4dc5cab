"""Losses, look-ups, and steps of optimizers.

Of lists of tensors, which optimizers work on, the profiler records sizes, up to a length, but no types: kernels name
those.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.elementwise import broadcast
from tracelens_graph.perf.families.shared import dense, kernel_element, traffic, vector_cost
from tracelens_graph.perf.model import CallContext, looks_at_context


def cross_entropy(logits: Tensor, targets: Tensor) -> Cost:
    """Softmax and negative log likelihood in one pass: exponential, sum, logarithm, difference, choice.

    FLOPs = 5 · rows · V; bytes = logits + targets + one fp32 loss per row. V is the last dimension.
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
    """
    shape = broadcast(source.shape, target.shape)
    result = Tensor(() if reduced else shape, source.dtype)
    flops = (3 if reduced else 2) * prod(shape)
    return vector_cost(flops, (source, target, result), source, {"op_shape": shape})


def loss_call(arguments: Arguments, context: CallContext, *, reduction: int, likelihood: bool = False) -> Cost:
    """Reads the arguments of PyTorch's losses.

    Args:
        reduction: position of how losses are reduced: 0 not at all, 1 mean, 2 sum.
        likelihood: whether targets are classes.
    """
    formula = negative_log_likelihood if likelihood else difference_loss
    return formula(arguments.tensor(0), arguments.tensor(1), reduced=arguments.integer(reduction) != 0)


def likelihood_backward(gradient: Tensor, source: Tensor, target: Tensor) -> Cost:
    """Gradient of a log likelihood: zeros everywhere but at the targets."""
    return vector_cost(target.elements, (gradient, target, dense(source)), source, {"op_shape": source.shape})


def difference_backward(gradient: Tensor, source: Tensor, target: Tensor) -> Cost:
    """Gradient of a loss of differences: difference, factor, gradient: 3E."""
    touched = (gradient, source, target, dense(source))
    return vector_cost(3 * source.elements, touched, source, {"op_shape": source.shape})


# --- look-ups --------------------------------------------------------------------------------------------------------


def rows_by_index(table: Tensor, indices: Tensor, dim: int = 0) -> Cost:
    """Slices of a table along a dimension, one per index: an embedding.

    FLOPs = 0; bytes = indices + result + as many slices of the table, but never more than all of it. How often an index
    repeats is not recorded: the range of bytes begins where all are the same.
    """
    rank = len(table.shape)
    if not -rank <= dim < rank:
        raise CannotModel(f"no dimension {dim} in shape {table.shape}")
    length = table.shape[dim]
    slice_ = table.elements // length if length else 0
    return _looked_up(table, indices, slice_, min(indices.elements, length))


def elements_by_index(source: Tensor, indices: Tensor) -> Cost:
    """One element of the source per index.

    FLOPs = 0; bytes = indices + result + as many elements of the source, but never more than all.
    """
    return _looked_up(source, indices, 1, min(indices.elements, source.elements))


def _looked_up(source: Tensor, indices: Tensor, slice_: int, distinct: int) -> Cost:
    result = Tensor((indices.elements, slice_), source.dtype)
    read = Tensor((distinct, slice_), source.dtype)
    params = {"table_shape": source.shape, "num_indices": indices.elements}
    cost = vector_cost(0, (indices, read, result), source, params)
    least = traffic((indices, Tensor((min(distinct, 1), slice_), source.dtype), result))
    return cost if cost.bytes is None or least is None else replace(cost, bytes_range=(least, cost.bytes))


def rows_put_back(gradient: Tensor, indices: Tensor, table_rows: int) -> Cost:
    """Gradient of an embedding, dense: every row of the table is written, those that were looked up are sums.

    FLOPs = E of the gradient; bytes = gradient + indices + table.
    """
    width = gradient.shape[-1] if gradient.shape else 1
    params = {"table_shape": (table_rows, width), "num_indices": indices.elements}
    table = Tensor((table_rows, width), gradient.dtype)
    return vector_cost(gradient.elements, (gradient, indices, table), gradient, params)


def rows_call(arguments: Arguments, context: CallContext, *, indices: int, dim: int | None = None) -> Cost:
    """Reads the positions of indices and of the dimension; None: the first one."""
    dim = 0 if dim is None else arguments.integer(dim)
    if dim is None:
        raise CannotModel("the dimension is not recorded")
    return rows_by_index(arguments.tensor(0), arguments.tensor(indices), dim)


def scattered_add(target: Tensor, indices: Tensor) -> Cost:
    """Values added to elements of a target: these are read and written.

    FLOPs = E of the indices; bytes = indices + values + elements read and written.
    """
    values = Tensor(indices.shape, target.dtype)
    params = {"table_shape": target.shape, "num_indices": indices.elements}
    return vector_cost(indices.elements, (indices, values, values, values), target, params)


def rows_put_back_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(gradient, indices, rows of the table, …)`."""
    rows = arguments.integer(2)
    if rows is None or rows < 0:
        raise CannotModel("the size of the table is not recorded")
    return rows_put_back(arguments.tensor(0), arguments.tensor(1), rows)


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
def fused_adam_call(arguments: Arguments, context: CallContext, *, decoupled: bool = False) -> Cost:
    """Reads `(parameters, gradients, means, squares, greatest squares, steps, lr, 2 betas, decay, eps, amsgrad)`."""
    return adam(
        arguments.tensors(0, kernel_element(context)),
        decay=arguments.number(9) not in (None, 0.0),
        decoupled=decoupled,
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
def for_each_call(
    arguments: Arguments, context: CallContext, *, flops: int = 1, reads: bool = True, writes: bool = True
) -> Cost:
    """Reads the arguments of an operation on lists of tensors.

    Args:
        flops: per element of the first list.
        reads: whether the first list is read; else only written.
        writes: whether as much as the first list is written.
    """
    dtype = kernel_element(context)
    lists = [arguments.tensors(index, dtype) for index in range(len(arguments))]
    first = lists[0] if lists else []
    if not first:
        raise CannotModel("sizes in the list of tensors are not recorded")
    elements = sum(tensor.elements for tensor in first)
    touched = [tensor for others in lists[1:] for tensor in others]
    touched += first * (reads + writes)
    params = {"num_tensors": len(first), "num_elements": elements}
    return vector_cost(flops * elements, touched, first[0], params)
