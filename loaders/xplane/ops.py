"""Instances of HLO instructions on the host: recorded ones, and those that launches name.

XLA's CPU runtime records every instruction that it runs. On GPUs an instruction is a range on the thread that launches
its kernels, or nothing but a name in the statistics of kernels; then the launches that follow one another for one
instruction are an instance of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.graph.arrays import distinct, positions_by
from tracelens_graph.graph.flows import link_by_id
from tracelens_graph.graph.forest import build_forest
from tracelens_graph.loaders.xplane.collect import ABSENT, Events
from tracelens_graph.loaders.xplane.command_buffers import NO_NODES, Made, Nodes, nodes
from tracelens_graph.utils.arrays import Codes, Mask, Rows


@dataclass
class Instructions:
    """Which events are about which instruction.

    Attributes:
        program, hlo: per event the number of the program, and the code of the instruction's name; `ABSENT` and -1 for
            events of none.
        is_op: per event whether it is an instance of its instruction.
        is_launch: per event whether it launched GPU work.
        made: instances that no event stands for, those of `nodes` at the end.
        nodes: parts of launches of command buffers.
    """

    program: Codes
    hlo: Codes
    is_op: Mask
    is_launch: Mask
    made: Made
    nodes: Nodes


def instructions(events: Events) -> Instructions:
    """Instances of instructions; launches on a line of their own are moved to the thread that they belong to.

    Args:
        events: the events; `thread` is changed.
    """
    count = len(events)
    program = events.numbers.get("program_id", np.full(count, ABSENT, np.int64))
    hlo = events.texts.get("hlo_op", np.full(count, -1, np.int32))
    correlation = events.numbers.get("correlation_id", np.full(count, ABSENT, np.int64))
    has_id = (correlation != ABSENT) & (correlation > 0)
    gpu = np.flatnonzero(events.on_gpu)
    calls = np.flatnonzero(has_id & ~events.on_gpu)
    is_op = (hlo >= 0) & ~events.on_gpu & ~has_id
    is_launch = np.zeros(count, bool)
    is_launch[calls] = True
    if not len(calls):
        return Instructions(program, hlo, is_op, is_launch, NO_NODES.instances, NO_NODES)
    with_id = gpu[has_id[gpu]]
    found = link_by_id(correlation[calls], events.start_ns[calls], correlation[with_id], events.start_ns[with_id])
    free = int(correlation.max()) + 1
    del correlation, has_id
    linked = (found >= 0) & (hlo[with_id] >= 0)
    kernels, launch = with_id[linked], found[linked]
    # The launch of a command buffer runs kernels of many instructions, and is of none of them.
    least, most = np.full(len(calls), np.iinfo(np.int32).max), np.full(len(calls), -1)
    np.minimum.at(least, launch, hlo[kernels])
    np.maximum.at(most, launch, hlo[kernels])
    taken = (hlo[calls[launch]] < 0) & (least == most)[launch]
    hlo[calls[launch[taken]]] = hlo[kernels[taken]]
    program[calls[launch[taken]]] = program[kernels[taken]]
    named = calls[hlo[calls] >= 0]
    around = _ranges_around(events, named, hlo[named])
    inside = around >= 0
    events.thread[named[inside]] = events.thread[around[inside]]
    is_op[around[inside]] = True
    hlo[around[inside]] = hlo[named[inside]]
    program[around[inside]] = program[named[inside]]
    made = _made(events, named[~inside], program, hlo)
    parts = nodes(events, free, kernels, calls[launch], program, hlo)
    if len(parts.kernels):
        made = _joined(made, parts.instances)
    return Instructions(program, hlo, is_op, is_launch, made, parts)


def _joined(first: Made, second: Made) -> Made:
    start, dur, thread, program, hlo = (np.concatenate(both) for both in zip(first, second, strict=True))
    return start, dur, thread, program, hlo


def _ranges_around(events: Events, launches: Rows, wanted: np.ndarray) -> np.ndarray:
    """For each launch the latest event named like its instruction that holds the launch's start, -1 without one.

    Launches may stand on a line of their own. Several devices run one program at nearly the same time, so for each line
    of launches the thread counts whose ranges hold most of them; others only where that has none.
    """
    names = np.zeros(len(events.names) + 1, bool)
    names[wanted] = True
    is_range = names[events.name] & ~events.on_gpu
    is_range[launches] = False
    ranges = np.flatnonzero(is_range)
    around = np.full(len(launches), -1, np.int64)
    threads = distinct(events.thread[ranges])[0].tolist() if len(ranges) else []
    for line, at in positions_by(events.thread[launches]) if threads else ():
        found = [_holding(events, ranges[events.thread[ranges] == one], launches[at], wanted[at]) for one in threads]
        near = [(one == line, _number(events, one) == _number(events, line)) for one in threads]
        order = sorted(range(len(threads)), key=lambda i: (np.count_nonzero(found[i] >= 0), near[i]), reverse=True)
        for i in order:
            around[at] = np.where(around[at] < 0, found[i], around[at])
    return around


def _number(events: Events, thread: int) -> str:
    """The digits at the end of the name of a thread, which identify it on all of its lines."""
    name = str(events.threads[thread][1])
    return name[len(name.rstrip("0123456789")) :]


def _holding(events: Events, ranges: Rows, launches: Rows, wanted: np.ndarray) -> Rows:
    """For each launch the latest of some ranges that is named as wanted and holds its start, -1 without one."""
    start = events.start_ns
    ranges = ranges[np.lexsort((start[ranges], events.name[ranges]))]
    moments, place = np.unique(np.concatenate((start[ranges], start[launches])), return_inverse=True)
    width = len(moments)
    keys = events.name[ranges].astype(np.int64) * width + place[: len(ranges)]
    at = np.searchsorted(keys, wanted.astype(np.int64) * width + place[len(ranges) :], "right") - 1
    found = ranges[np.maximum(at, 0)]
    holds = (at >= 0) & (events.name[found] == wanted) & (start[launches] < start[found] + events.dur_ns[found])
    return np.where(holds, found, -1)


def _made(events: Events, launches: Rows, program: Codes, hlo: Codes) -> Made:
    """Instances for launches that lie in none: one for those of one instruction that follow one another."""
    if not len(launches):
        return NO_NODES.instances
    launches = launches[np.lexsort((events.start_ns[launches], events.thread[launches]))]
    same = np.ones((4, len(launches)), bool)
    same[:, 0] = False
    for i, key in enumerate((events.thread, program, hlo)):
        same[i, 1:] = key[launches][1:] == key[launches][:-1]
    follows = same.all(axis=0)
    if follows.any():
        caller = _callers(events, launches, np.unique(events.thread[launches[follows]]))
        same[3, 1:] = caller[1:] == caller[:-1]
    first = np.flatnonzero(~same.all(axis=0))
    end = np.maximum.reduceat(events.start_ns[launches] + events.dur_ns[launches], first)
    head = launches[first]
    begin = events.start_ns[head]
    return begin, end - begin, events.thread[head].astype(np.int64), program[head], hlo[head].astype(np.int64)


def _callers(events: Events, launches: Rows, threads: np.ndarray) -> Rows:
    """For each launch on one of some threads a number for what called it; -1 for all others, and for no caller."""
    is_there = np.zeros(len(events.threads), bool)
    is_there[threads] = True
    host = np.flatnonzero(~events.on_gpu & is_there[events.thread]).astype(np.int32)
    rank = np.zeros(len(events), np.uint8)
    forest = build_forest(events.thread, events.start_ns, events.dur_ns, rank, host)
    caller = np.full(len(events), -1, np.int32)
    caller[host[forest.order]] = forest.parent
    return caller[launches]
