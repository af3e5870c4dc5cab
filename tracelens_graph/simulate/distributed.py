"""Collectives as training calls them: data, tensor, pipeline and expert parallel, and each kind on its own."""

from __future__ import annotations

import random

from tracelens_graph.simulate import kernels
from tracelens_graph.simulate.autograd import record
from tracelens_graph.simulate.communicate import Message, start, wait_stream
from tracelens_graph.simulate.events import ITEM_BYTES, Storage, Tensor
from tracelens_graph.simulate.host import COMPUTE_STREAM, Thread
from tracelens_graph.simulate.options import KINDS, Options
from tracelens_graph.simulate.places import Group
from tracelens_graph.simulate.waits import Waits, synchronize_stream


def copy_to_group(t: Thread, group: Group, x: Tensor) -> Tensor:
    """The same tensor, for ranks that each go on with a part of a matrix; the gradient is summed over them."""
    if len(group.ranks) == 1:
        return x

    def backward(b: Thread, grad: Tensor) -> tuple[Tensor]:
        wait_stream(b, COMPUTE_STREAM, all_reduce(b, group, grad))
        return (grad,)

    with t.grad_op("_CopyToModelParallelRegion", x) as op:
        out = x.view(x.shape)
        record(t, "_CopyToModelParallelRegionBackward", op, (x,), (out,), backward, saves=False)
        return op.gives(out)


def reduce_from_group(t: Thread, group: Group, x: Tensor) -> Tensor:
    """The sum over ranks that each have multiplied with a part of a matrix."""
    if len(group.ranks) == 1:
        return x
    with t.grad_op("_ReduceFromModelParallelRegion", x) as op:
        wait_stream(t, COMPUTE_STREAM, all_reduce(t, group, x))
        out = x.view(x.shape)
        name = "_ReduceFromModelParallelRegionBackward"
        record(t, name, op, (x,), (out,), lambda _, grad: (grad,), saves=False)
        return op.gives(out)


def to_experts(t: Thread, group: Group, x: Tensor, layer: int) -> tuple[Tensor, list[list[int]]]:
    """Choose an expert for each row and send it there; gives the rows of this rank's expert, and who sent how many."""
    rows, width = x.shape
    experts = len(group.ranks)
    weight = Tensor((width, experts), (experts, 1), x.dtype, x.storage)
    kernel = kernels.gemm(rows, experts, width, "nn")
    scores = t.compute("aten::mm", x, weight, kernel=kernel, out=(rows, experts))
    kernel = kernels.elementwise("sbtopk::gatherTopK<c10::BFloat16>", scores.numel, 2)
    t.compute("aten::topk", scores, 1, -1, True, True, kernel=kernel, out=scores)
    t.process.release(t, scores.storage)
    sent = rows_sent(t.process.options, group, t.process.step, t.process.micro_batch, layer, rows)
    return exchange(t, group, x, sent, is_return=False), sent


def exchange(t: Thread, group: Group, x: Tensor, sent: list[list[int]], is_return: bool) -> Tensor:
    """Send rows to their experts, or back to where they came from."""
    place = group.ranks.index(t.process.rank)
    there, back = tuple(sent[place]), tuple(row[place] for row in sent)

    def move(b: Thread, rows: Tensor, is_back: bool) -> Tensor:
        """Rows leave in the order of their experts, and are put in their old order when they are back."""
        if is_back:
            home = exchange_rows(b, group, rows, back, there)
            out = _reorder(b, home)
            b.process.release(b, home.storage)
            return out
        ordered = _reorder(b, rows)
        out = exchange_rows(b, group, ordered, there, back)
        b.process.release(b, ordered.storage)
        return out

    with t.grad_op("_AllToAll", x) as op:
        out = move(t, x, is_return)
        record(t, "_AllToAllBackward", op, (x,), (out,), lambda b, grad: (move(b, grad, not is_return),), saves=False)
        return op.gives(out)


def _reorder(t: Thread, x: Tensor) -> Tensor:
    return t.compute("aten::index_select", x, 0, kernel=kernels.embedding(*x.shape), out=x.shape)


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


_FILE = "torch/distributed/distributed_c10d.py"


class Reducer:
    """Sends each bucket of gradients as soon as its last one is there."""

    def __init__(self, buckets: list[tuple[list[Tensor], Group]]) -> None:
        self._buckets = [(bucket, group, _flat(bucket)) for bucket, group in buckets]
        self._left = [len(bucket) for bucket, _ in buckets]
        self._of = {p: index for index, (bucket, _) in enumerate(buckets) for p in bucket}
        self._streams: dict[int, None] = {}

    def __call__(self, t: Thread, parameter: Tensor, grad: Tensor) -> None:
        """Scale a gradient into its bucket; start the all-reduce of a full bucket."""
        if parameter not in self._of:  # a part of the model that no other rank has
            return
        index = self._of[parameter]
        bucket, group, flat = self._buckets[index]
        with t.op("torch::distributed::reducer::mul_out", grad), t.op("aten::mul", grad, 1 / len(group.ranks), grad):
            t.launch(kernels.elementwise("MulFunctor<float>", grad.numel, 2))
        self._left[index] -= 1
        if not self._left[index]:
            self._left[index] = len(bucket)
            self._streams[all_reduce(t, group, flat)] = None

    def finish(self, t: Thread) -> None:
        """Make the compute stream wait for the all-reduces."""
        for stream in self._streams:
            wait_stream(t, COMPUTE_STREAM, stream)
        self._streams.clear()


def _flat(bucket: list[Tensor]) -> Tensor:
    """One tensor with room for the gradients of a bucket."""
    elements, dtype = sum(p.numel for p in bucket), bucket[0].dtype
    return Tensor((elements,), (1,), dtype, Storage(elements * ITEM_BYTES[dtype]))


def all_reduce(t: Thread, group: Group, x: Tensor) -> int:
    """Start the sum of a tensor over a group, in place; gives the stream, which nobody waits for yet."""
    message = Message(KINDS["allreduce"], group, x, x)
    return start(t, message, [x], None, None, None, -1).stream


def all_gather(t: Thread, group: Group, x: Tensor) -> Tensor:
    """Gather a tensor of each rank; everybody waits for the result."""
    out = t.new((len(group.ranks), *x.shape), x.dtype)
    with t.frame(f"{_FILE}(4110): all_gather_into_tensor"):
        gpu = start(t, Message(KINDS["_allgather_base"], group, x, out), out, x, None, True, -1)
        wait_stream(t, COMPUTE_STREAM, gpu.stream)
    return out


def broadcast(t: Thread, group: Group, x: Tensor, source: int) -> None:
    """Send a tensor of one rank to all; everybody waits for it."""
    with t.frame(f"{_FILE}(2960): broadcast"):
        message = Message(KINDS["broadcast"], group, x, x, root=source)
        gpu = start(t, message, [x], None, group.ranks.index(source), 0, True, -1)
        wait_stream(t, COMPUTE_STREAM, gpu.stream)


def send(t: Thread, group: Group, x: Tensor, target: int) -> None:
    """Send a tensor to a rank; the compute stream does not wait."""
    with t.frame(f"{_FILE}(2540): send"):
        message = Message(KINDS["send"], group, x, x, peer=target)
        start(t, message, [x], None, group.ranks.index(target), 0)


def receive(t: Thread, group: Group, shape: tuple[int, ...], source: int) -> Tensor:
    """Receive a tensor from a rank, and wait for it."""
    out = t.new(shape)
    with t.frame(f"{_FILE}(2590): recv"):
        message = Message(KINDS["recv"], group, out, out, peer=source)
        gpu = start(t, message, [out], None, group.ranks.index(source), 0)
        wait_stream(t, COMPUTE_STREAM, gpu.stream)
    return out


def exchange_rows(t: Thread, group: Group, x: Tensor, split_in: tuple[int, ...], split_out: tuple[int, ...]) -> Tensor:
    """Send rows of a matrix to each rank of a group and get rows of theirs; the compute stream waits."""
    out = t.new((sum(split_out), *x.shape[1:]), x.dtype)
    with t.frame(f"{_FILE}(4680): all_to_all_single"):
        message = Message(KINDS["all_to_allv"], group, x, out, split_in=split_in, split_out=split_out)
        gpu = start(t, message, out, x, None, list(split_out), list(split_in), -1)
        wait_stream(t, COMPUTE_STREAM, gpu.stream)
    return out


def barrier(t: Thread, group: Group) -> Waits:
    """Wait on the host until all ranks have come."""
    with t.frame(f"{_FILE}(4890): barrier"):
        nothing = Tensor((0,), (1,), "unsigned char", Storage(0))
        gpu = start(t, Message(KINDS["barrier"], group, nothing, nothing), nothing, None, None, -1)
        wait_stream(t, COMPUTE_STREAM, gpu.stream)
        yield from synchronize_stream(t, gpu)


def call_each_kind(t: Thread) -> Waits:
    """The collectives that the options ask for at the end of each step, on all ranks."""
    process = t.process
    group, options = process.place.world, process.options
    for name in options.step_collectives:
        for size in options.collective_mb:
            numbers = len(group.ranks)
            each = max(1, round(size * 1e6 / ITEM_BYTES["c10::BFloat16"] / numbers))
            if name == "barrier":
                yield from barrier(t, group)
            elif name == "send":
                _ring(t, group, each * numbers)
            else:
                _one(t, name, group, each)


def _one(t: Thread, name: str, group: Group, each: int) -> None:
    """One collective that has `each` elements for every rank."""
    numbers, place = len(group.ranks), group.ranks.index(t.process.rank)
    part, whole = (each,), (numbers * each,)
    last = group.ranks[-1]
    if name in ("_allgather_base", "gather"):
        put, got = part, whole
    elif name in ("_reduce_scatter_base", "scatter"):
        put, got = whole, part
    else:
        put, got = whole, whole
    split_in: tuple[int, ...] = ()
    split_out: tuple[int, ...] = ()
    if name == "all_to_allv":  # the r-th rank gets r + 1 shares from everybody
        unit = max(1, 2 * each // (numbers + 1))
        split_in = tuple(unit * (r + 1) for r in range(numbers))
        split_out = (unit * (place + 1),) * numbers
        put, got = (sum(split_in),), (sum(split_out),)
    x = t.new(put)
    out = x if put == got and name in ("allreduce", "broadcast", "reduce") else t.new(got)
    kind = KINDS[name]
    root = last if kind.waiting in ("source", "target") else None
    gpu = start(t, Message(kind, group, x, out, root, None, split_in, split_out), out, x, None, -1)
    wait_stream(t, COMPUTE_STREAM, gpu.stream)
    for tensor in {x.storage: x, out.storage: out}.values():
        t.process.release(t, tensor.storage)


def _ring(t: Thread, group: Group, elements: int) -> None:
    """Send to the next rank and receive from the one before; even places send first."""
    place, numbers = group.ranks.index(t.process.rank), len(group.ranks)
    after, before = group.ranks[(place + 1) % numbers], group.ranks[(place - 1) % numbers]
    x = t.new((elements,))
    if place % 2 == 0:
        send(t, group, x, after)
    got = receive(t, group, x.shape, before)
    if place % 2:
        send(t, group, x, after)
    for tensor in (x, got):
        t.process.release(t, tensor.storage)
