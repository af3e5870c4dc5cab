"""Why two sides may differ at a place."""

from __future__ import annotations

from typing import NamedTuple

from tracelens_graph.analyses.alignment.cause_words import Word


class Reason(Word):
    """Why two sides differ at a place."""

    same = "same", "nothing differs"
    moved = "moved", "the same calls at another place: before others that both sides make, or behind them"
    captured = "captured", "recorded into a graph on one side, so that it did not run there"
    recomputation = "recomputation", "only one side recomputes these activations in the backward pass"
    graph_launch = "graph_launch", "launched as a graph on one side"
    moves = "moves", "copies, casts or fills that the other side does not have"
    communication = (
        "communication",
        "collectives: only on one side, or the same ones for another time, waiting included",
    )
    module = "module", "a module with all below it that only one side has"
    only_one = "only_one", "work that only one side has, and none of the above"
    other_types = "other_types", "arguments or kernels of other dtypes"
    other_sizes = "other_sizes", "arguments of other sizes"
    other_strides = "other_strides", "arguments of the same sizes in another layout"
    copied_bytes = "copied_bytes", "the same copies or fills, of more or fewer bytes"
    copy_rate = "copy_rate", "the same copies or fills of as many bytes, at another rate in GB/s"
    contention = "contention", "the same kernels; how long communication runs beside them differs"
    outlier = "outlier", "the same kernels, slower or faster in one or few of many equal layers or calls"
    other_device = "other_device", "the same kernels on another device"
    clock = "clock", "the same kernels, as much slower or faster as all others: clock, power or bandwidth of the device"
    other_time = "other_time", "all or most of the change is the time of the same kernels; the traces do not show why"
    other_work = "other_work", "communication on one side, computation on the other, between the same neighbours"
    fused = "fused", "fewer kernels do the work of several: a compiler wrote them, or one op does what several did"
    unfused = "unfused", "the other way round"
    more_kernels = "more_kernels", "the same kernels more often, or others beside them"
    fewer_kernels = "fewer_kernels", "the same kernels less often, or only some of them"
    other_algorithm = ("other_algorithm", "kernels that do other things: attention that became a product and a softmax")
    other_op = "other_op", "another op does the work"
    other_library = "other_library", "kernels of another library for the same operation"
    other_tile = "other_tile", "kernels of the same family with another tile"
    other_kernel = (
        "other_kernel",
        "other kernels of the same library, or kernels whose names say no more; `why` names them",
    )


OTHER_CALLS = {
    Reason.other_types, Reason.other_sizes, Reason.other_strides, Reason.moved, Reason.graph_launch, Reason.captured,
    Reason.copied_bytes,
}  # fmt: skip
"""Reasons of places whose calls differ though their kernels are the same: no noise."""


class Why(NamedTuple):
    """A reason, and its evidence in words."""

    reason: Reason
    text: str
