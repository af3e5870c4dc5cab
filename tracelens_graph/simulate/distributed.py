"""Data parallel training: gradient buckets, all-reduces on their own stream, a gather of the losses."""

from __future__ import annotations

import random
from typing import Any

from . import kernels
from .events import Collective, GpuEvent, SyncEvent
from .host import COMM_STREAM, COMPUTE_STREAM, Thread
from .tensors import COMM_DTYPE, ITEM_BYTES, Storage, Tensor

GROUP, GROUP_DESCRIPTION = "0", "default_pg"
COMMS_ID = 0xC0FF_EE00_0000_0001
"""Above 2**63, as NCCL's communicator ids often are."""


class Reducer:
    """Sends each bucket of gradients as soon as its last one is there."""

    def __init__(self, buckets: list[list[Tensor]]) -> None:
        self._buckets = buckets
        self._left = [len(bucket) for bucket in buckets]
        self._flat = [_flat(bucket) for bucket in buckets]

    def __call__(self, t: Thread, parameter: Tensor, grad: Tensor) -> None:
        """Scale a gradient into its bucket; start the all-reduce of a full bucket."""
        with (
            t.op("torch::distributed::reducer::mul_out", grad),
            t.op("aten::mul", grad, 1 / t.process.options.ranks, grad),
        ):
            t.launch(kernels.elementwise("MulFunctor<float>", grad.numel, 2))
        index = next(i for i, bucket in enumerate(self._buckets) if any(p is parameter for p in bucket))
        self._left[index] -= 1
        if not self._left[index]:
            self._left[index] = len(self._buckets[index])
            all_reduce(t, self._flat[index])

    @staticmethod
    def finish(t: Thread) -> None:
        """Make the compute stream wait for the last all-reduce."""
        wait_stream(t, COMPUTE_STREAM, COMM_STREAM)


def _flat(bucket: list[Tensor]) -> Tensor:
    """One tensor with room for the gradients of a bucket."""
    elements, dtype = sum(p.numel for p in bucket), bucket[0].dtype
    return Tensor((elements,), (1,), dtype, Storage(elements * ITEM_BYTES[dtype]))


def wait_stream(t: Thread, waiting: int, awaited: int) -> None:
    """Record an event on one stream and let another wait for it."""
    with t.runtime("cudaEventRecord") as mark:
        work = t.process.last_on(awaited)
    with t.runtime("cudaStreamWaitEvent") as wait:
        t.process.wait_for(waiting, work)
    t.process.syncs.append(SyncEvent("Stream Wait Event", wait, waiting, awaited, mark))


def all_reduce(t: Thread, bucket: Tensor) -> None:
    """Start the sum of a bucket over all ranks; nobody waits for it yet."""
    ranks = t.process.options.ranks
    wire = 2 * (ranks - 1) / ranks * bucket.bytes
    with t.op("c10d::allreduce_", [bucket], None, None, None, -1) as op:
        _communicate(t, "allreduce", "nccl:all_reduce", bucket, bucket, wire)
        op.outputs = (bucket,)


def all_gather(t: Thread, x: Tensor) -> Tensor:
    """Gather one value of each rank; everybody waits for the result."""
    out = t.new((t.process.options.ranks, *x.shape), x.dtype)
    with t.frame("torch/distributed/distributed_c10d.py(4110): all_gather_into_tensor"):
        with t.op("c10d::_allgather_base_", out, x, None, True, -1) as op:
            _communicate(t, "_allgather_base", "nccl:_all_gather_base", x, out, out.bytes)
            op.outputs = (out,)
        wait_stream(t, COMPUTE_STREAM, COMM_STREAM)
    return out


def _communicate(t: Thread, kind: str, label: str, x: Tensor, out: Tensor, wire: float) -> GpuEvent:
    process, options = t.process, t.process.options
    sequence = process.next_comm()
    key = (GROUP, sequence)
    if key not in process.collectives:
        latency = random.Random(f"{options.seed}/{key}").randint(9_000, 14_000)
        transfer = latency + round(wire / options.bus_gb_per_s)
        dtype = COMM_DTYPE[x.dtype]
        process.collectives[key] = Collective(GROUP, sequence, kind, dtype, x.numel, out.numel, transfer)
    collective = process.collectives[key]
    shared = {
        "Collective name": kind,
        "In msg nelems": x.numel,
        "Out msg nelems": out.numel,
        "Group size": options.ranks,
        "dtype": collective.dtype,
        "In split size": "[]",
        "Out split size": "[]",
        "Process Group Name": GROUP,
        "Process Group Description": GROUP_DESCRIPTION,
        "Process Group Ranks": str(list(range(options.ranks))),
        "Seq": sequence,
        "Comms Id": COMMS_ID,
    }
    inputs: tuple[Any, ...] = (
        [x],
        (sequence, False),
        (GROUP, GROUP_DESCRIPTION),
        process.rank,
        kind,
        [],
        [],
        0,
        1,
        options.ranks,
    )
    with t.op("record_param_comms", *inputs) as op:
        op.outputs = (out,)
        op.args.update(shared)
        op.args.update({"Rank": process.rank, "Global rank start": 0, "Global rank stride": 1})
        with t.annotation(label) as note:
            note.inputs = (x,)
            with t.runtime("cudaStreamIsCapturing"):
                pass
            wait_stream(t, COMM_STREAM, COMPUTE_STREAM)
            kernel = kernels.nccl(kind, collective.dtype, shared)
            return t.launch(kernel, COMM_STREAM, collective)


def message_bytes(collective: Collective) -> int:
    """Bytes that each rank puts in."""
    names = {short: ITEM_BYTES[dtype] for dtype, short in COMM_DTYPE.items()}
    return collective.elements_in * names[collective.dtype]
