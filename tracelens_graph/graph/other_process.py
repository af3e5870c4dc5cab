"""Whether a graph and an execution trace are of two ranks of one job, whose names are the same."""

from __future__ import annotations

import re

from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.execution_arguments import collective_arguments
from tracelens_graph.graph.execution_trace import ExecutionTrace
from tracelens_graph.schema import GPU_KINDS

_DEVICE = re.compile(rb'"(?:cuda|xpu|hpu|mtia):([0-9]{1,4})"')
_DEFAULT = "default_pg"
_NODES = 2000
"""Nodes in which devices are looked for."""


def other_process(core: Core, execution: ExecutionTrace) -> str:
    """What tells that they are of two ranks; empty if nothing does.

    One process id on both sides is one process. Two may be two runs of a program; then neither ranks nor devices may
    differ where both sides record them.
    """
    if execution.info.pid is not None and str(execution.info.pid) in {str(pid) for pid, _ in core.threads}:
        return ""
    ranks = core.info.rank, rank_of(execution, core.info.world_size)
    if None not in ranks and ranks[0] != ranks[1]:
        return f"of two ranks, {ranks[0]} and {ranks[1]}"
    c = core.columns
    used = {int(one) for one in c.device[is_kind(c.kind, GPU_KINDS)].tolist()}
    named = _devices(execution)
    if used and named and not used & named:
        told = [", ".join(map(str, sorted(one))) for one in (used, named)]
        return f"of two ranks, on devices {told[0]} and {told[1]}"
    return ""


def rank_of(execution: ExecutionTrace, world_size: int | None) -> int | None:
    """The rank of the process in its job, from collectives of the group of all ranks; None if it is not recorded."""
    for one in collective_arguments(execution).values():
        rank, is_all = one.get("rank"), one.get("group_description") == _DEFAULT
        if type(rank) is int and (is_all or one.get("group_size", 0) == world_size):
            return rank
    return None


def _devices(execution: ExecutionTrace) -> set[int]:
    found: set[int] = set()
    for side in (execution.inputs, execution.outputs):
        for arguments in side[:_NODES]:
            found |= {int(one) for one in _DEVICE.findall(bytes(arguments.values))}
    return found
