"""The order in which TraceLens shows the sizes that the cost of an op follows from."""

from __future__ import annotations

from collections.abc import Iterable

_GEMM = ("M", "N", "K", "bias", "stride_A", "stride_B", "dtype_A_B", "B", "transpose")
_CONVOLUTION = ("convNd", "input_shape", "filter_shape", "dtype_input_weight", "input_stride", "weight_stride")


def in_order(names: Iterable[str], op: str) -> list[str]:
    """Names of sizes in TraceLens's order; those that it does not have keep theirs, after the others.

    Args:
        names: the names, each with the same prefix or none.
        op: the op; products of batches show the batch first.
    """
    known = list(names)
    plain = {name: name.removeprefix("param: ") for name in known}
    first: tuple[str, ...] = _CONVOLUTION if "convNd" in plain.values() else _GEMM if "M" in plain.values() else ()
    if "bmm" in op:
        first = ("B", *(name for name in first if name != "B"))
    rank = {name: place for place, name in enumerate(first)}
    return sorted(known, key=lambda name: rank.get(plain[name], len(rank)))
