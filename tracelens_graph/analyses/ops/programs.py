"""Compiled programs of a profile of JAX: which take the time, how often they ran, how many were compiled."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tracelens_graph.analyses.ops.compilations import compilations
from tracelens_graph.analyses.shared.executions import recorded_executions
from tracelens_graph.analyses.shared.gpu_work import percent
from tracelens_graph.analyses.shared.grouping import Cells, cell_order, group_by, picked
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import nearest_above, rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.schema.tables.ops import PROGRAMS
from tracelens_graph.tables.table import Table


def programs(g: Core | Window) -> Table:
    """Compiled programs that ran, the one with the most GPU time first, then the one with the most time on the host.

    A program that several devices run counts an execution for each. Executions are counted by the instructions that
    each of them runs once: what most of these were run, of several such numbers the largest; at least one. Where
    executions left no GPU events although others of their program did, a note tells how many. Time of compilation is
    told where calls of the function stand above it.

    Args:
        g: the graph, or a window of it.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    if core.programs is None:
        return Table("programs", {name: [] for name in PROGRAMS}, PROGRAMS, w.titled(_TITLE), [w.framework.no_programs])
    listed, place = core.programs.listed, core.programs.place
    every = rows_of_kind(c, (Kind.Op,))
    inside = w.holds(every) & (place >= 0)
    ops, of = every[inside], place[inside]
    gpu = w.gpu_rows[c.owner[w.gpu_rows] >= 0]
    charged = place[np.searchsorted(every, c.owner[gpu])]
    gpu, charged = gpu[charged >= 0], charged[charged >= 0]
    outer = nearest_above(c, ops, (Kind.Op,)) < 0
    size = len(listed)
    gpu_ns = sum_by_group(charged, c.dur_ns[gpu], size)
    host_ns = sum_by_group(of[outer], c.dur_ns[ops[outer]], size)
    ran = np.flatnonzero(np.bincount(of, minlength=size) + np.bincount(charged, minlength=size))
    once = core.programs.runs[inside] == 1
    executions = np.maximum(_executions(of[once], c.name[ops[once]], size), np.bincount(of, minlength=size) > 0)
    versions = Counter(one.name for one in listed)
    compiling = compilations(w).of_programs(listed)
    there = [listed[at] for at in ran.tolist()]
    columns: dict[str, Cells] = {
        "program": [one.name for one in there],
        "gpu_ms": gpu_ns[ran] / 1e6,
        "percent": percent(gpu_ns[ran], int(c.dur_ns[w.gpu_rows].sum())),
        "host_ms": host_ns[ran] / 1e6,
        "executions": executions[ran],
        "compiled": [len(one.numbers) for one in there],
        "compile_ms": [compiling[at] for at in ran.tolist()],
        "versions": [versions[one.name] for one in there],
        "instructions": [one.instructions for one in there],
        "devices": [one.replicas * one.partitions for one in there],
        "shapes": [one.shapes for one in there],
        "fingerprint": [one.fingerprint for one in there],
        "numbers": [list(map(str, one.numbers)) for one in there],
        "xla_flops": [one.xla_flops for one in there],
        "xla_transcendentals": [one.xla_transcendentals for one in there],
        "xla_bytes": [one.xla_bytes for one in there],
    }
    order = cell_order(gpu_ns[ran], (-host_ns[ran]).tolist(), columns["program"], columns["fingerprint"])
    columns = {name: picked(cells, order) for name, cells in columns.items()}
    told = recorded_executions(w).told
    notes = [f"{told}: runs and times are of the others"] if told else []
    return Table("programs", columns, PROGRAMS, w.titled(_TITLE), notes)


_TITLE = "Compiled programs"


def _executions(program: np.ndarray, name: np.ndarray, size: int) -> np.ndarray:
    """Per program the number of times that most of its instructions ran, of several numbers the largest.

    Args:
        program, name: of each run of an instruction its program, and the code of its name.
        size: number of programs.
    """
    group, first = group_by(program, name)
    times = np.bincount(group, minlength=len(first))
    pair, head = group_by(program[first], times)
    votes = np.bincount(pair, minlength=len(head))
    of, times = program[first][head], times[head]
    found = np.zeros(size, np.int64)
    order = np.lexsort((times, votes))  # what is written last stays
    found[of[order]] = times[order]
    return found
