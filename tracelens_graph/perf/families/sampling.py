"""Sampling: tokens drawn from logits, and random numbers."""

from __future__ import annotations

from math import prod

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.vector import vector_cost
from tracelens_graph.perf.model import CallContext


def sampled_by_noise(logits: Tensor, noise: Tensor) -> Cost:
    """The token of the largest logit after division by exponential noise, for each row.

    FLOPs = 2 · T · V: quotient and comparison; bytes = logits + noise + 4 · T.

    Raises:
        CannotModel: the logits have no dimension.
    """
    if not logits.shape:
        raise CannotModel("the logits have no dimension of tokens")
    rows = prod(logits.shape[:-1])
    params = {"T": rows, "V": logits.shape[-1], "dtype_logits": logits.dtype, "dtype_noise": noise.dtype}
    return vector_cost(2 * logits.elements, (logits, noise, Tensor((rows,), "int")), logits, params)


def random_numbers(result: Tensor) -> Cost:
    """A tensor filled with random numbers; the rounds of the generator are integer work and not counted.

    FLOPs = E; bytes = result.
    """
    return vector_cost(result.elements, [result], result, {"op_shape": result.shape})


def sampled_by_noise_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(tokens, logits, noise, …)`."""
    return sampled_by_noise(arguments.tensor(1), arguments.tensor(2))


def random_numbers_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(result, …)`, which is overwritten."""
    return random_numbers(arguments.tensor(0))
