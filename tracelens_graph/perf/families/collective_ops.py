"""Collectives that engines bring along as operations of their own, and hyper-connections.

Of a collective only the traffic of the device's own memory is counted; what goes between devices is none of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost, Unit
from tracelens_graph.perf.families.normalization import Norm, rms_norm
from tracelens_graph.perf.families.shared import dense, traffic, vector_cost
from tracelens_graph.perf.model import CallContext
from tracelens_graph.perf.scalar_types import known


def collective(sent: Tensor, received: Tensor | None = None) -> Cost:
    """A collective: what is sent is read; what is received is written, which is like it if not given.

    FLOPs = 0; bytes = sent + received.
    """
    params = {"op_shape": sent.shape, "dtype_in": sent.dtype, "stride_input": sent.strides}
    params |= {"out_shape": received.shape} if received else {}
    return replace(vector_cost(0, (sent, received or dense(sent)), sent, params), precision="")


def all_reduce_rms_norm(sent: Tensor, weight: Tensor) -> Cost:
    """All-reduce, addition of a residual and RMS norm in one kernel.

    FLOPs = E + those of the norm; bytes = input, residual, new residual, result + weight.
    """
    cost = rms_norm(Norm(sent, weight.elements, weight), adds=True)
    params = {**collective(sent).params, "num_channels": weight.elements}
    return replace(cost, params=params)


def hyper_connection_call(
    arguments: Arguments,
    context: CallContext,
    *,
    streams: int,
    touched: tuple[int, ...],
    projection: int | None = None,
    mixes: bool = False,
    folds: bool = False,
) -> Cost:
    """Reads the arguments of manifold-constrained hyper-connections (https://arxiv.org/abs/2512.24880).

    M tokens have n residual streams of C channels. Mixing them back takes 2MnC(n + 1) FLOPs; projecting them on `rows`
    outputs 2M·rows·nC, as a matrix product; folding them into the input of a layer, with its norm, 2MnC + 5MC.

    Args:
        streams: position of a tensor (M, n, C).
        touched: positions of what is read or written, with repeats.
        projection: position of the projection (rows, nC); None if there is none.
        mixes, folds: whether streams are mixed back, or folded.
    """
    residual = arguments.tensor(streams)
    if len(residual.shape) != 3:
        raise CannotModel("the residual is not (tokens, streams, channels)")
    tokens, n, channels = residual.shape
    params: dict[str, Any] = {"M": tokens, "n": n, "C": channels, "dtype_in": residual.dtype}
    flops = 2 * residual.elements * (n + 1) if mixes else 0
    flops += 2 * residual.elements + 5 * tokens * channels if folds else 0
    if projection is not None:
        projected = arguments.tensor(projection).elements
        params["K"] = n * channels
        params["hc3"] = projected // max(n * channels, 1)
        flops += 2 * tokens * projected
    moved = traffic(arguments.tensor(index) for index in touched)
    unit: Unit = "vector" if projection is None else "matrix"
    return Cost(flops, moved, unit, known(residual.dtype).precision, params)
