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
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

PROGRAMS = TableSchema(
    "programs",
    "Which compiled programs of JAX ran, how often they were compiled, and what they take.",
    {
        "program": Column.key("name of the program", "program"),
        "gpu_ms": Column.total(
            "sum of the durations of the GPU events that are charged to its instructions",
            "ms",
            "GPU ms",
            compared="main",
        ),
        "percent": Column("share of the sum over all GPU events", "%", Role.share, "% of GPU", drop_priority=2),
        "host_ms": Column.total(
            "sum of the durations of its instructions on the host, without those in others: launching, on a CPU "
            "computing",
            "ms",
            "host ms",
            drop_priority=1,
        ),
        "executions": Column.count("executions, each device's for itself", "runs", drop_priority=-1),
        "compiled": Column(
            "how often it was compiled: numbers by which the profile names it", heading="compiled", drop_priority=-1
        ),
        "compile_ms": Column(
            "time in which its function was traced, lowered and compiled during the recording; absent where that was "
            "before, or no call tells",
            "ms",
            heading="compile ms",
            drop_priority=0,
        ),
        "versions": Column(
            "programs of this name that ran; several where it was compiled for other shapes or constants",
            heading="versions",
            drop_priority=-1,
        ),
        "instructions": Column(
            "number of its instructions, those in bodies of fusions and loops included",
            heading="instructions",
            drop_priority=2,
        ),
        "devices": Column("devices that it was compiled for", heading="devices", drop_priority=2),
        "shapes": Column(
            "types and dims of its parameters and results, equal ones once with their number",
            role=Role.text,
            heading="shapes",
            drop_priority=0,
        ),
        "fingerprint": Column(
            "hash of its instructions, their shapes and configuration; equal in all profiles",
            role=Role.key,
            heading="fingerprint",
            drop_priority=3,
        ),
        "numbers": Column.listed("by which the profile names it"),
        "xla_flops": Column(
            "operations of an execution but for transcendental ones, as XLA's own analysis counts them: what "
            "`Compiled.cost_analysis()` says, a loop's body once and -1 for each custom call; absent where not known",
            drop_priority=9,
        ),
        "xla_transcendentals": Column("transcendental operations of an execution, by XLA's analysis", drop_priority=9),
        "xla_bytes": Column("traffic of an execution to and from memory, by XLA's analysis", "B", drop_priority=9),
    },
    counts="execution",
)


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
        return PROGRAMS.empty(w.titled(_TITLE), [w.framework.no_programs])
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
    return PROGRAMS.table(columns, w.titled(_TITLE), notes)


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
