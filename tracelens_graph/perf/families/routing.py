"""Routing of tokens to experts: choice of the best experts, and sorting tokens by expert."""

from __future__ import annotations

from dataclasses import dataclass

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.vector import given, vector_cost
from tracelens_graph.perf.model import CallContext


def scored_experts(gating: Tensor, topk: int, *, flops: int = 6) -> Cost:
    """Scores of all experts for each token, and the best of them.

    FLOPs = flops · M · E; bytes = gating + an fp32 bias per expert + weights and numbers of the chosen, 4 bytes each.

    Args:
        gating: logits, (tokens, experts).
        topk: experts per token.
        flops: FLOPs per logit.

    Raises:
        CannotModel: the logits are no matrix.
    """
    if len(gating.shape) != 2:
        raise CannotModel("the logits are no matrix")
    tokens, experts = gating.shape
    params = {"M": tokens, "n": 1, "C": experts, "E": experts, "topk": topk, "dtype_in": gating.dtype}
    chosen = Tensor((2, tokens, topk), "float")
    return vector_cost(flops * gating.elements, (gating, Tensor((experts,), "float"), chosen), gating, params)


def operands_call(arguments: Arguments, context: CallContext) -> Cost:
    """One FLOP per element of the largest operand; every operand once."""
    operands = [operand for operand in given(arguments) if operand.shape]
    if not operands:
        raise CannotModel("no argument is a tensor" if arguments.recorded else "shapes are not recorded")
    largest = max(operands, key=lambda operand: operand.elements)
    params = {"operands": [(operand.shape, operand.dtype) for operand in operands]}
    return vector_cost(largest.elements, operands, largest, params)


@dataclass(frozen=True)
class Chosen:
    """Reads weights of the chosen experts at 0, and logits at a position."""

    gating: int
    flops: int

    def __call__(self, arguments: Arguments, context: CallContext) -> Cost:
        """The cost of a call."""
        weights = arguments.tensor(0)
        if not weights.shape:
            raise CannotModel("how many experts are chosen is not recorded")
        return scored_experts(arguments.tensor(self.gating), weights.shape[-1], flops=self.flops)


def shared_experts_call(arguments: Arguments, context: CallContext) -> Cost:
    """`(numbers, weights, …)` of chosen experts: both are read, and written with the shared experts behind."""
    numbers, weights = arguments.tensor(0), arguments.tensor(1)
    params = {
        "shape_in1": numbers.shape,
        "shape_in2": weights.shape,
        "dtype_in1_in2_out": (numbers.dtype, weights.dtype, weights.dtype),
    }
    return vector_cost(numbers.elements, (numbers, weights) * 2, weights, params)
