"""The data of a step: waiting for a batch, and copying it to the device."""

from __future__ import annotations

from collections.abc import Generator

from tracelens_graph.simulate.events import GpuEvent
from tracelens_graph.simulate.host import Thread
from tracelens_graph.simulate.tensors import Tensor, host_tensor
from tracelens_graph.simulate.troubles import late_us
from tracelens_graph.simulate.waiting import synchronize_stream

USUAL_WAIT_US = 60.0
PINNED, PAGEABLE = "HtoD (Pinned -> Device)", "HtoD (Pageable -> Device)"


def next_batch(t: Thread) -> list[Tensor]:
    """Wait for the data loader; gives tokens, targets and what else is to be copied."""
    options = t.process.options
    late = options.dataloader_rank in (None, t.process.rank)
    wait_us = options.dataloader_us if late else USUAL_WAIT_US
    with (
        t.frame("torch/utils/data/dataloader.py(733): __next__"),
        t.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
        t.frame("torch/utils/data/dataloader.py(1482): _next_data"),
        t.frame("multiprocessing/queues.py(113): get"),
    ):
        t.now += round(1000 * (wait_us + late_us(t.process, "data_loader")))
        t.spend(1_000, 9_000)
    batch = [host_tensor((options.batch, options.tokens), "long int") for _ in range(2)]
    if options.copy_mb:
        batch.append(host_tensor((round(options.copy_mb * 1e6 / 8),), "long int"))
    return batch


def to_device(t: Thread, x: Tensor) -> Generator[tuple[GpuEvent, ...], None, Tensor]:
    """`x.to("cuda")`."""
    options = t.process.options
    with (
        t.frame("<built-in method to of Tensor object at 0x7f3f0c64f5c0>"),
        t.op("aten::to", x, 4, 0, "cuda:0", False, not options.pageable, False, None) as op,
    ):
        with t.op("aten::_to_copy", x, 4, 0, "cuda:0", False, not options.pageable, None) as inner:
            with t.op("aten::empty_strided", list(x.shape), list(x.strides), 4, 0, "cuda:0", False) as made:
                out = t.new(x.shape, x.dtype)
                made.outputs = (out,)
            with t.op("aten::copy_", out, x, not options.pageable) as copied:
                copy = t.memcpy(PAGEABLE if options.pageable else PINNED, x.bytes)
                if options.pageable:
                    yield from synchronize_stream(t, copy)
                copied.outputs = (out,)
            inner.outputs = (out,)
        op.outputs = (out,)
    return out
