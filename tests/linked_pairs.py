"""Pairs of a profiler's trace and an execution trace of one made run, as parsed JSON, with what was done to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracelens_graph.execution.joining import join
from tracelens_graph.execution.link import Link
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
from tracelens_graph.loaders.kineto.details import record_ids
from tracelens_graph.loaders.sources import open_source
from tracelens_graph.loading.one import load_core

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """A call of an op: its number in the order of all beginnings, its thread and its name."""

    number: int
    thread: int
    name: str


def calls(*threads: Sequence[str]) -> list[Call]:
    """Calls of threads that take turns, from number 1 on."""
    longest = max(map(len, threads), default=0)
    turns = [
        (thread, names[turn]) for turn in range(longest) for thread, names in enumerate(threads, 1) if turn < len(names)
    ]
    return [Call(number, thread, name) for number, (thread, name) in enumerate(turns, 1)]


def kineto(made: Sequence[Call], ids: bool = True, pid: int = 500, external: bool = False, **metadata: Any) -> Json:
    """What the profiler writes of some calls, one after the other."""
    events = []
    for one in made:
        args: Json = {"External id": one.number if external else 7}
        if ids:
            args["Record function id"] = one.number
        category = "user_annotation" if one.name.startswith("ProfilerStep") else "cpu_op"
        place = {"pid": pid, "tid": pid + one.thread}
        events.append(
            {"ph": "X", "cat": category, "name": one.name, **place, "ts": 10 * one.number, "dur": 5, "args": args}
        )
    return {"schemaVersion": 1, **metadata, "traceEvents": events}


def execution_trace(
    made: Sequence[Call], offset: int = 0, pid: int = 500, threads: dict[int, int] | None = None
) -> Json:
    """What the observer writes of them.

    Args:
        made: the calls.
        offset: what to take from their numbers for `rf_id`.
        pid: process.
        threads: thread -> the number that it has here; by default its own.
    """
    threads = threads or {}
    numbers = sorted({threads.get(one.thread, one.thread) for one in made})
    head = "[pytorch|profiler|execution_trace|"
    nodes = [_node(1, f"{head}process]", 1, 0, 0)]
    nodes += [_node(1 + thread, f"{head}thread]", 1, 0, thread) for thread in numbers]
    for one in made:
        thread = threads.get(one.thread, one.thread)
        nodes.append(_node(100 + 3 * one.number, one.name, 1 + thread, one.number - offset, thread))
    return {"schema": "1.1.1-chakra.0.0.4", "pid": pid, "time": "2024-01-01 00:00:00", "nodes": nodes[::-1]}


def _node(node: int, name: str, parent: int, record: int, thread: int) -> Json:
    told = {"rf_id": record, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": thread, "fw_tid": 0, "op_schema": "x"}
    arguments = {"values": [], "shapes": [], "types": [], "strides": []}
    attributes = [{"name": key, "type": "uint64", "value": value} for key, value in told.items()]
    return {
        "id": node,
        "name": name,
        "ctrl_deps": parent,
        "inputs": arguments,
        "outputs": arguments,
        "attrs": attributes,
    }


def joined(trace: Json, et: Json) -> tuple[Core, Link]:
    """The graph of a trace and its link with an execution trace.

    Raises:
        LinkError: they do not belong together.
    """
    core = load_core(trace)
    execution: ExecutionTrace = load_execution_trace(open_source(et))
    return core, join(core, execution, record_ids(core))


def pairs_of(core: Core, link: Link) -> set[tuple[int, int]]:
    """Numbers of the calls that are joined: of the trace, by its times, and of the execution trace, by its ids."""
    rows = [row for row, node in enumerate(link.node_of_row.tolist()) if node >= 0]
    first = int(core.columns.start_ns.min()) if len(core.columns) else 0
    nodes = link.execution.id[link.node_of_row[rows]]
    starts = core.columns.start_ns[rows] - first
    return set(zip((starts // 10_000).tolist(), ((nodes - 100) // 3).tolist(), strict=True))


def renamed(made: Sequence[Call], numbers: set[int], name: str = "renamed") -> list[Call]:
    """The calls, some of them under another name."""
    return [replace(one, name=name) if one.number in numbers else one for one in made]
