"""What is planted to make one rank late on the host."""

from __future__ import annotations

from tracelens_graph.simulate.host import Process, Thread
from tracelens_graph.simulate.options import LateReason
from tracelens_graph.simulate.tensors import Storage, Tensor

FIRST_STEP = 3
"""Number of the first recorded step: wait and warm-up steps came before."""


def late_steps(process: Process) -> list[int]:
    """The steps in which the rank is late."""
    options = process.options
    if options.late_rank != process.rank:
        return []
    return list(range(FIRST_STEP, FIRST_STEP + options.steps, options.late_every))


def late_us(process: Process, reason: LateReason) -> float:
    """How much time the rank loses in this step for a reason."""
    options = process.options
    is_late = options.late_reason == reason and process.step in late_steps(process)
    return options.late_us if is_late else 0.0


def lose_time(t: Thread) -> None:
    """The reasons other than the data loader, right before the forward pass."""
    with t.process.aside():
        if python := late_us(t.process, "python"):
            with t.frame("train.py(52): augment"):
                t.now += round(1000 * python)
        if op := late_us(t.process, "op"):
            x = Tensor((1 << 20,), (1,), "float", Storage(4 << 20), device="cpu")
            with t.frame("train.py(56): rank_samples"), t.op("aten::sort", x, -1, True) as event:
                t.now += round(1000 * op)
                event.outputs = (x,)
        if allocation := late_us(t.process, "allocation"):
            with (
                t.frame("train.py(48): make_buffer"),
                t.op("aten::empty", [1 << 30], 0, 0, None, False, None),
                t.runtime("cudaMalloc"),
            ):
                t.now += round(1000 * allocation)
