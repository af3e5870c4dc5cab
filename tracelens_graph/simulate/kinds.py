"""Kinds of collectives: how PyTorch and NCCL name them, what they move, and which ranks wait for which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Waiting = Literal["all", "source", "target", "partners", "pair"]
"""Whose arrival the end of a rank's kernel needs: everybody's; the source's; everybody's on the target and nobody's
elsewhere; that of all ranks that it exchanges data with; or that of the other end of a transfer."""
BUFFER_BYTES = 4 << 20
"""A sender of no more than this leaves without waiting for its receiver: NCCL's buffer takes the message."""


@dataclass(frozen=True)
class Kind:
    """One kind of collective.

    `name` is PyTorch's, as in `Collective name`; `label` that of the annotation around the launch; `kernel`
    belongs to `ncclDevKernel_`, with `{}` for the type. `wire` gives the bytes that a rank's link carries, from
    the size of the group and the bytes that the rank puts in and gets out.
    """

    name: str
    op: str
    label: str
    kernel: str
    waiting: Waiting
    wire: Callable[[int, int, int], float]

    @property
    def is_barrier(self) -> bool:
        """Whether no rank leaves before all have come, and all leave together."""
        return self.waiting == "all"

    @property
    def is_transfer(self) -> bool:
        """Whether it goes from one rank to one other."""
        return self.waiting == "pair"


def _sent(n: int, put: int, got: int) -> float:
    return put


def _got(n: int, put: int, got: int) -> float:
    return got


def _larger(n: int, put: int, got: int) -> float:
    return max(put, got)


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "allreduce",
            "c10d::allreduce_",
            "nccl:all_reduce",
            "AllReduce_Sum_{}_RING_LL",
            "all",
            lambda n, put, got: 2 * (n - 1) / n * put,
        ),
        Kind("_allgather_base", "c10d::_allgather_base_", "nccl:_all_gather_base", "AllGather_RING_LL", "all", _got),
        Kind(
            "_reduce_scatter_base",
            "c10d::_reduce_scatter_base_",
            "nccl:_reduce_scatter_base",
            "ReduceScatter_Sum_{}_RING_LL",
            "all",
            _sent,
        ),
        Kind("barrier", "c10d::barrier", "nccl:all_reduce_barrier", "AllReduce_Sum_{}_RING_LL", "all", _sent),
        Kind("broadcast", "c10d::broadcast_", "nccl:broadcast", "Broadcast_RING_LL", "source", _larger),
        Kind("scatter", "c10d::scatter_", "nccl:scatter", "SendRecv", "source", _larger),
        Kind("reduce", "c10d::reduce_", "nccl:reduce", "Reduce_Sum_{}_RING_LL", "target", _larger),
        Kind("gather", "c10d::gather_", "nccl:gather", "SendRecv", "target", _larger),
        Kind("all_to_all", "c10d::alltoall_base_", "nccl:all_to_all", "SendRecv", "partners", _larger),
        Kind("all_to_allv", "c10d::alltoall_base_", "nccl:all_to_all", "SendRecv", "partners", _larger),
        Kind("send", "c10d::send", "nccl:send {}->{}", "SendRecv", "pair", _sent),
        Kind("recv", "c10d::recv_", "nccl:recv {}<-{}", "SendRecv", "pair", _got),
    )
}
"""By PyTorch's name."""
CALLED_ALONE = tuple(name for name in KINDS if name != "recv")
"""Those that a program can call on all ranks; `send` stands for a ring of transfers."""


def awaited_ranks(
    kind: Kind, rank: int, ranks: tuple[int, ...], root: int | None, exchanged: tuple[int, ...], put_bytes: int
) -> tuple[int, ...] | None:
    """The ranks whose arrival the end of a rank's kernel needs, itself among them; None for all of the collective.

    `root` is the source or target, `exchanged` how much goes to and comes from each of `ranks`.
    """
    if kind.waiting == "all":
        return None
    if kind.waiting == "partners":
        return tuple(one for one, size in zip(ranks, exchanged, strict=True) if size or one == rank)
    if kind.waiting == "target":
        return None if rank == root else (rank,)
    if kind.waiting == "source":
        assert root is not None
        return (rank,) if rank == root else (rank, root)
    return (rank,) if kind.name == "send" and put_bytes <= BUFFER_BYTES else None
