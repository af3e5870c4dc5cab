"""Collectives that engines bring along as operations of their own, and hyper-connections.

Of a collective only the traffic of the device's own memory is counted; what goes between devices is none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tracelens_graph.perf.arguments import Arguments, Tensor
from tracelens_graph.perf.cost import CannotModel, Cost, Unit
from tracelens_graph.perf.families.normalization import Norm, rms_norm
from tracelens_graph.perf.families.vector import dense, precision, traffic, vector_cost
from tracelens_graph.perf.model import Context, Estimate, OpModel


def collective(sent: Tensor, received: Tensor) -> Cost:
    """A collective: what is sent is read, what is received is written.

    FLOPs = 0; bytes = sent + received.
    """
    params = {"op_shape": sent.shape, "dtype_in": sent.dtype, "stride_input": sent.strides}
    return replace(vector_cost(0, (sent, received), sent, params), precision="")


def all_reduce_rms_norm(sent: Tensor, weight: Tensor) -> Cost:
    """All-reduce, addition of a residual and RMS norm in one kernel.

    FLOPs = E + those of the norm; bytes = input, residual, new residual, result + weight.

    Raises:
        CannotModel: channels do not divide the input.
    """
    cost = rms_norm(Norm(sent, weight.elements, weight), adds=True)
    params = {**collective(sent, sent).params, "num_channels": weight.elements}
    return replace(cost, params=params)


@dataclass(frozen=True)
class Collective:
    """Reads positions of what is sent and received; the latter is like the former if it is None or absent."""

    sent: int = 1
    received: int | None = None

    def __call__(self, arguments: Arguments, context: Context) -> Cost:
        """The cost of a call."""
        sent = arguments.tensor(self.sent)
        if self.received is None:
            return collective(sent, dense(sent))
        received = arguments.tensor(self.received)
        cost = collective(sent, received)
        return replace(cost, params={**cost.params, "out_shape": received.shape})


@dataclass(frozen=True)
class ReducedAndNormalized:
    """Reads positions of what is sent and of the weight of the norm."""

    sent: int
    weight: int

    def __call__(self, arguments: Arguments, context: Context) -> Cost:
        """The cost of a call."""
        return all_reduce_rms_norm(arguments.tensor(self.sent), arguments.tensor(self.weight))


@dataclass(frozen=True)
class HyperConnection:
    """Reads the arguments of manifold-constrained hyper-connections (https://arxiv.org/abs/2512.24880).

    M tokens have n residual streams of C channels. Mixing them back takes 2MnC(n + 1) FLOPs; projecting them on `rows`
    outputs 2M·rows·nC, as a matrix product; folding them into the input of a layer, with its norm, 2MnC + 5MC.

    Attributes:
        streams: position of a tensor (M, n, C).
        touched: positions of what is read or written, with repeats.
        projection: position of the projection (rows, nC); None if there is none.
        mixes, folds: whether streams are mixed back, or folded.
    """

    streams: int
    touched: tuple[int, ...]
    projection: int | None = None
    mixes: bool = False
    folds: bool = False

    def __call__(self, arguments: Arguments, context: Context) -> Cost:
        """The cost of a call."""
        streams = arguments.tensor(self.streams)
        if len(streams.shape) != 3:
            raise CannotModel("the residual is not (tokens, streams, channels)")
        tokens, n, channels = streams.shape
        params: dict[str, Any] = {"M": tokens, "n": n, "C": channels, "dtype_in": streams.dtype}
        flops = 2 * streams.elements * (n + 1) if self.mixes else 0
        flops += 2 * streams.elements + 5 * tokens * channels if self.folds else 0
        if self.projection is not None:
            projection = arguments.tensor(self.projection)
            params["K"] = n * channels
            params["hc3"] = projection.elements // max(n * channels, 1)
            flops += 2 * tokens * projection.elements
        moved = traffic(arguments.tensor(index) for index in self.touched)
        unit: Unit = "vector" if self.projection is None else "matrix"
        return Cost(flops, moved, unit, precision(streams), params)


_SAME = Collective()
_COLLECTIVES: dict[str, Estimate] = {
    "_C_custom_ar::all_reduce": _SAME,
    "_C_custom_ar::qr_all_reduce": _SAME,
    "sgl_kernel::all_reduce_reg": _SAME,
    "sgl_kernel::qr_all_reduce": _SAME,
    "aiter::reduce_scatter": Collective(1, 2),
    "aiter::all_gather_reg": Collective(1, 2),
    "sglang::reg_all_gather_into_tensor": Collective(1, 0),
    "aiter::fused_allreduce_rmsnorm": ReducedAndNormalized(2, 6),
    "aiter::fused_allreduce_rmsnorm_": ReducedAndNormalized(0, 2),
    "vllm::rocm_aiter_fused_allreduce_rmsnorm": ReducedAndNormalized(0, 2),
}
_HYPER_CONNECTIONS = {
    "aiter::mhc_post": HyperConnection(2, (0, 1, 2, 3, 4), mixes=True),
    "aiter::mhc_pre_gemm_sqrsum": HyperConnection(2, (0, 1, 2, 3), projection=3),
    "aiter::mhc_pre_big_fuse_rmsnorm": HyperConnection(7, (0, 1, 2, 3, 7, 8), folds=True),
    "aiter::mhc_fused_post_pre_gemm_sqrsum": HyperConnection(4, (0, 1, 2, 2, 3, 4, 5, 6, 7), projection=7, mixes=True),
}

OPS: Mapping[str, OpModel] = {
    **{name: OpModel(reader, "CustomCollective_fwd") for name, reader in _COLLECTIVES.items()},
    **{name: OpModel(reader, "mHC_fwd") for name, reader in _HYPER_CONNECTIONS.items()},
}
"""Operations that TraceLens has a model for."""

EXTRA_OPS: Mapping[str, OpModel] = {
    "symm_mem::multimem_all_reduce_": OpModel(Collective(0), "CustomCollective_fwd"),
    "symm_mem::one_shot_all_reduce": OpModel(Collective(0), "CustomCollective_fwd"),
    "symm_mem::two_shot_all_reduce_": OpModel(Collective(0), "CustomCollective_fwd"),
}
"""Operations of the same formulas that TraceLens has no model for."""
