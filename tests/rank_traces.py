"""Traces of the ranks of a job, made by hand: kernels of collectives and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from handmade import span

from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.loading.one import load_core

Json = dict[str, Any]

BASE_NS = 1_700_000_000_000_000_000
"""What times count from. A recording whose clock is at 0 when it starts would be taken for one that tells no time."""


def kernel(ts: float, dur: float, name: str = "ncclDevKernel_Generic", stream: int = 7, **args: Any) -> Json:
    """A kernel that says nothing of its collective, but for these arguments."""
    event = span("kernel", name, ts, dur, 0, stream, device=0, stream=stream)
    event["args"] |= args
    return event


def collective(
    ts: float,
    dur: float,
    kind: str = "allreduce",
    ranks: Sequence[int] = (0, 1),
    group: str = "0",
    dtype: str = "Float",
    elements: int = 2**18,
    out: int | None = None,
    split: Sequence[int] = (),
    sequence: int | None = None,
) -> Json:
    """A kernel of a collective with all arguments; by default an all-reduce of 1 MiB.

    Args:
        ts, dur: start and duration, us.
        kind, ranks, group, dtype, elements, split: what it says of the collective.
        out: elements that come out; None for as many as go in.
        sequence: its number in the group; None for none.
    """
    args = {
        "Collective name": kind, "Process Group Name": group, "Process Group Ranks": str(list(ranks)),
        "Group size": len(ranks), "dtype": dtype, "In msg nelems": elements,
        "Out msg nelems": elements if out is None else out, "In split size": str(list(split)),
        "Out split size": str(list(split)),
    }  # fmt: skip
    return kernel(ts, dur, **args, **({} if sequence is None else {"Seq": sequence}))


def job(
    events: Mapping[int, Sequence[Json]],
    world_size: int | None = None,
    devices: int = 8,
    hosts: Mapping[int, str] | None = None,
    **metadata: Any,
) -> TraceSet:
    """The traces of some ranks.

    Args:
        events: rank -> its events.
        world_size: ranks of the job; by default as many as there are.
        devices: devices that each recording sees.
        hosts: rank -> label of its host.
        metadata: further keys of all files, and others than by default.
    """
    size = world_size or len(events)
    return TraceSet(
        TraceMember(
            load_core(
                {
                    "baseTimeNanoseconds": BASE_NS,
                    "deviceProperties": [{"id": number} for number in range(devices)],
                    "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": size},
                    "traceEvents": list(listed),
                    **metadata,
                }
            ),
            f"rank{rank}",
            labels=(f"host={hosts[rank]}",) if hosts else (),
        )
        for rank, listed in events.items()
    )
