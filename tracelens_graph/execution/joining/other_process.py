"""Whether a graph and an execution trace are of two ranks of one job, whose names are the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tracelens_graph.execution.arguments import collective_arguments
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import GPU_KINDS

_DEVICE = re.compile(rb'"(?:cuda|xpu|hpu|mtia):([0-9]{1,4})"')
_DEFAULT = "default_pg"
_NODES = 2000
"""Nodes in which devices are looked for."""


def other_process(core: Core, execution: ExecutionTrace) -> str:
    """What tells that they are of two ranks; empty if nothing does.

    One process id on both sides is one process. Two may be two runs of a program; then ranks may not differ where both
    sides record them, nor devices where a side tells of a job without its rank.
    """
    if is_same_process(core, execution):
        return ""
    collectives = collective_arguments(execution)
    ranks = _rank_of_graph(core), _rank(collectives.values(), core.info.world_size)
    if None not in ranks:
        return f"of two ranks, {ranks[0]} and {ranks[1]}" if ranks[0] != ranks[1] else ""
    if not collectives and core.info.rank is None and not core.collective_args:
        return ""
    c = core.columns
    used = {int(one) for one in c.device[is_kind(c.kind, GPU_KINDS)].tolist()}
    named = _devices(execution)
    if used and named and not used & named:
        told = [", ".join(map(str, sorted(one))) for one in (used, named)]
        return f"of two ranks, on devices {told[0]} and {told[1]}"
    return ""


def is_same_process(core: Core, execution: ExecutionTrace) -> bool | None:
    """Whether both name one process; None if one of them names none."""
    pids = {str(pid) for pid, _ in core.threads}
    return None if execution.info.pid is None or not pids else str(execution.info.pid) in pids


def _rank_of_graph(core: Core) -> int | None:
    return core.info.rank if core.info.rank is not None else _rank(core.collective_args.values(), core.info.world_size)


def _rank(collectives: Iterable[Mapping[str, Any]], world_size: int | None) -> int | None:
    """The rank of a process in its job, from collectives of the group of all ranks; None if it is not recorded."""
    for one in collectives:
        rank = one.get("rank")
        is_all = world_size is not None and one.get("group_size") == world_size
        if type(rank) is int and (is_all or one.get("group_description") == _DEFAULT):
            return rank
    return None


def _devices(execution: ExecutionTrace) -> set[int]:
    found: set[int] = set()
    for side in (execution.inputs, execution.outputs):
        for arguments in side[:_NODES]:
            found |= {int(one) for one in _DEVICE.findall(bytes(arguments.values))}
    return found
