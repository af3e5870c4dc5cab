"""Autograd functions that communicate: the two of tensor parallel layers, and the exchange of tokens with experts."""

from __future__ import annotations

import random

from tracelens_graph.simulate import distributed, kernels
from tracelens_graph.simulate.autograd import record
from tracelens_graph.simulate.communicate import wait_stream
from tracelens_graph.simulate.groups import Group
from tracelens_graph.simulate.host import COMPUTE_STREAM, Thread
from tracelens_graph.simulate.options import Options
from tracelens_graph.simulate.tensors import Tensor


def copy_to_group(t: Thread, group: Group, x: Tensor) -> Tensor:
    """The same tensor, for ranks that each go on with a part of a matrix; the gradient is summed over them."""
    if len(group.ranks) == 1:
        return x

    def backward(b: Thread, grad: Tensor) -> tuple[Tensor]:
        wait_stream(b, COMPUTE_STREAM, distributed.all_reduce(b, group, grad))
        return (grad,)

    with t.grad_op("_CopyToModelParallelRegion", x) as op:
        out = x.view(x.shape)
        record(t, "_CopyToModelParallelRegionBackward", op, (x,), (out,), backward, saves=False)
        op.outputs = (out,)
    return out


def reduce_from_group(t: Thread, group: Group, x: Tensor) -> Tensor:
    """The sum over ranks that each have multiplied with a part of a matrix."""
    if len(group.ranks) == 1:
        return x
    with t.grad_op("_ReduceFromModelParallelRegion", x) as op:
        wait_stream(t, COMPUTE_STREAM, distributed.all_reduce(t, group, x))
        out = x.view(x.shape)
        name = "_ReduceFromModelParallelRegionBackward"
        record(t, name, op, (x,), (out,), lambda _, grad: (grad,), saves=False)
        op.outputs = (out,)
    return out


def to_experts(t: Thread, group: Group, x: Tensor, layer: int) -> tuple[Tensor, list[list[int]]]:
    """Choose an expert for each row and send it there; gives the rows of this rank's expert, and who sent how many."""
    rows, width = x.shape
    experts = len(group.ranks)
    with t.op("aten::mm", x, Tensor((width, experts), (experts, 1), x.dtype, x.storage)) as op:
        scores = t.new((rows, experts))
        t.launch(kernels.gemm(rows, experts, width, "nn"))
        op.outputs = (scores,)
    with t.op("aten::topk", scores, 1, -1, True, True) as op:
        t.launch(kernels.elementwise("sbtopk::gatherTopK<c10::BFloat16>", scores.numel, 2))
        op.outputs = (scores,)
    t.process.release(t, scores.storage)
    sent = rows_sent(t.process.options, group, t.process.step, t.process.micro_batch, layer, rows)
    return _exchange(t, group, x, sent, is_return=False), sent


def from_experts(t: Thread, group: Group, x: Tensor, sent: list[list[int]]) -> Tensor:
    """Send rows back to where they came from."""
    return _exchange(t, group, x, sent, is_return=True)


def _exchange(t: Thread, group: Group, x: Tensor, sent: list[list[int]], is_return: bool) -> Tensor:
    place = group.ranks.index(t.process.rank)
    there, back = tuple(sent[place]), tuple(row[place] for row in sent)

    def move(b: Thread, rows: Tensor, is_back: bool) -> Tensor:
        """Rows leave in the order of their experts, and are put in their old order when they are back."""
        if is_back:
            home = distributed.exchange_rows(b, group, rows, back, there)
            out = _reorder(b, home)
            b.process.release(b, home.storage)
            return out
        ordered = _reorder(b, rows)
        out = distributed.exchange_rows(b, group, ordered, there, back)
        b.process.release(b, ordered.storage)
        return out

    with t.grad_op("_AllToAll", x) as op:
        out = move(t, x, is_return)
        record(t, "_AllToAllBackward", op, (x,), (out,), lambda b, grad: (move(b, grad, not is_return),), saves=False)
        op.outputs = (out,)
    return out


def _reorder(t: Thread, x: Tensor) -> Tensor:
    with t.op("aten::index_select", x, 0) as op:
        out = t.new(x.shape)
        t.launch(kernels.embedding(*x.shape))
        op.outputs = (out,)
    return out


def rows_sent(
    options: Options, group: Group, step: int | None, micro_batch: int, layer: int, rows: int
) -> list[list[int]]:
    """Rows that each rank of a group (first index) sends to the expert of each (second).

    Some experts of a layer are more popular than others, on all ranks and in all steps nearly alike.
    """
    popular = random.Random(f"{options.seed}/experts/{layer}")
    weights = [1 + options.expert_skew * popular.uniform(-1, 1) for _ in group.ranks]
    found = []
    for place, rank in enumerate(group.ranks):
        tokens = rank // options.tensor_parallel  # tensor parallel ranks have the same ones
        rng = random.Random(f"{options.seed}/{step}/{micro_batch}/{layer}/{tokens}")
        own = [weight * (1 + 0.1 * options.expert_skew * rng.uniform(-1, 1)) for weight in weights]
        sent = [int(rows * weight / sum(own)) for weight in own]
        sent[place] += rows - sum(sent)
        found.append(sent)
    return found
