"""Compiled programs of JAX: which take the time, how often they ran, were compiled, and left no GPU events."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.idle.host_states import COMPILATION, row_states
from tracelens_graph.analyses.shared.gpu_work import calls_named, fitting_names, percent
from tracelens_graph.analyses.shared.grouping import Cells, cell_order, group_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.device_graphs import DeviceDetails
from tracelens_graph.graph.intervals import merge, sum_by_group
from tracelens_graph.graph.programs import CompiledProgram
from tracelens_graph.graph.traversals import climb, in_no_other, nearest_above, rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_EXECUTION = ":XLA GPU module"
"""How XLA calls the range in which it launches a program's work for one device, behind the program's name (a `TraceMe`
of `GpuExecutable::ExecuteThunks`)."""


@dataclass(frozen=True)
class Executions:
    """Executions of programs in a window, each device's for itself.

    Attributes:
        row: their calls, ascending.
        lost: which of them left no GPU events although others of the program of that name did: the profiler lost
            their work.
    """

    row: np.ndarray
    lost: np.ndarray

    @property
    def lost_in_all(self) -> int:
        """Number of those whose GPU events are missing."""
        return int(np.count_nonzero(self.lost))

    @property
    def text(self) -> str:
        """`75 of 80 executions left no GPU events`; "" where none is known to be missing."""
        lost = self.lost_in_all
        return f"{lost:,} of {len(self.row):,} executions of programs left no GPU events" if lost else ""


def recorded_executions(w: Window) -> Executions:
    """The executions whose calls are in a window; computed once."""
    every, lost = w.whole.once(_executions)
    inside = w.holds(every)
    return Executions(every[inside], lost[inside])


def _executions(whole: Window) -> tuple[np.ndarray, np.ndarray]:
    core, c = whole.core, whole.core.columns
    calls = calls_named(whole, lambda name: name.endswith(_EXECUTION))
    gpu = core.gpu_rows
    events = np.searchsorted(gpu, c.last[calls], "right") - np.searchsorted(gpu, calls, "right")
    empty = events == 0
    lost = empty & np.isin(c.name[calls], c.name[calls[~empty]])
    unlinked = int(np.count_nonzero(c.parent[gpu] < 0))
    # Theirs may be events whose launch is unknown, in a graph of one device events of the others, and in a piece of a
    # profile those that lie outside.
    is_part = isinstance(core.details, DeviceDetails) or "generator" in core.info.metadata
    if is_part or unlinked >= max(int(np.count_nonzero(lost)), 1):
        lost[:] = False
    return calls, lost


_CALL = re.compile(r"PjitFunction\((.*)\)", re.DOTALL)
"""How JAX names the call of a function that it compiles, `f` for a program `jit_f`."""
_COMPILED = "backend_compile"
"""How the call begins in which JAX has the compiler make a program."""


@dataclass(frozen=True)
class Compilations:
    """Compilations in a window.

    Attributes:
        count: how many programs the compiler made.
        ns: how long programs were traced, lowered or compiled, on any thread; what overlaps counts once.
        of_call: name of the function -> of each of its calls that had a program compiled, in their order, how long
            that took, in ns. Compilations that no call of a function asked for are in none.
    """

    count: int
    ns: int
    of_call: dict[str, list[int]]

    def of_programs(self, listed: tuple[CompiledProgram, ...]) -> list[float]:
        """For each program how long it was compiled, in ms; NaN where it was compiled before, or it is not known.

        JAX numbers programs as it compiles them, so the last numbers of a name are those that were recorded.
        """
        found = [np.nan] * len(listed)
        numbers: dict[str, list[tuple[int, int]]] = {}
        for at, one in enumerate(listed):
            numbers.setdefault(_key(one.name.removeprefix("jit_")), []).extend((number, at) for number in one.numbers)
        for name, took in self.of_call.items():
            known = sorted(numbers.get(_key(name), ()))
            if len(took) > len(known):
                continue
            for (_, at), ns in zip(known[len(known) - len(took) :], took, strict=True):
                found[at] = ns / 1e6 + (0 if np.isnan(found[at]) else found[at])
        return found


def _key(name: str) -> str:
    """A function's name as it stands in a program's: `<lambda>` is `_lambda_` or `_lambda` there."""
    return "".join(sign for sign in name if sign.isalnum())


def compilations(w: Window) -> Compilations:
    """What was compiled in a window."""
    core, c = w.core, w.core.columns
    compiling, calls, made = w.whole.once(_compiling_calls)
    inside = w.holds(compiling)
    start, end = merge(c.start_ns[compiling[inside]], c.start_ns[compiling[inside]] + c.dur_ns[compiling[inside]])
    took: dict[int, int] = {}
    for call, ns in zip(calls[inside].tolist(), c.dur_ns[compiling[inside]].tolist(), strict=True):
        took[call] = took.get(call, 0) + ns
    compiled = w.holds(made)
    of_call: dict[str, list[int]] = {}
    for call in sorted({*_calls_above(core, made[compiled]).tolist()} - {-1}, key=lambda row: int(c.start_ns[row])):
        if call in took and (named := _CALL.fullmatch(core.names[c.name[call]])):
            of_call.setdefault(named[1], []).append(took[call])
    return Compilations(int(np.count_nonzero(compiled)), int((end - start).sum()), of_call)


def _compiling_calls(whole: Window) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the outermost calls in which programs are traced, lowered or compiled, and the call of a function that
    each is part of, -1 for none; and rows of the calls in which the compiler makes a program."""
    core, c = whole.core, whole.core.columns
    rows = np.flatnonzero(row_states(core) == COMPILATION)
    rows = rows[in_no_other(c.last, rows)]
    made = calls_named(whole, lambda name: name.startswith(_COMPILED))
    return rows, _calls_above(core, rows), made[in_no_other(c.last, made)]


def _calls_above(core: Core, rows: np.ndarray) -> np.ndarray:
    """For each row the call of a compiled function that it is part of, -1 for none; of nested ones the innermost."""
    c = core.columns
    return climb(c.parent, c.parent[rows], fitting_names(core, _CALL.fullmatch)[c.name] & (c.kind == Kind.RuntimeCall))


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
            "sum of the durations of its outermost instructions on the host: launching, or on a CPU computing",
            "ms",
            "host ms",
            drop_priority=1,
        ),
        "executions": Column.count("executions, each device's for itself", "runs", drop_priority=-1),
        "compiled": Column(
            "how often it was compiled, by its numbers in the profile", heading="compiled", drop_priority=-1
        ),
        "compile_ms": Column(
            "time in which its function was traced, lowered and compiled during the recording; absent where that was "
            "before, or no call shows it",
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
            "operations of an execution without transcendental ones, as XLA's own analysis counts them: what "
            "`Compiled.cost_analysis()` says, a loop's body once and -1 for each custom call; absent where not known",
            drop_priority=9,
        ),
        "xla_transcendentals": Column("transcendental operations of an execution, by XLA's analysis", drop_priority=9),
        "xla_bytes": Column("traffic of an execution to and from memory, by XLA's analysis", "B", drop_priority=9),
    },
    counts="execution",
)


def programs(g: Core | Window) -> Table:
    """Compiled programs that ran, by GPU time, then by host time, the greatest first.

    A program that several devices run counts an execution for each. Executions are counted by the instructions that
    each of them runs once: what most of these were run, of several such numbers the largest; at least one. Where
    executions left no GPU events although others of their program did, a note says how many. Time of compilation is
    shown where calls of the function stand above it.
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
    executions = np.maximum(_times_run(of[once], c.name[ops[once]], size), np.bincount(of, minlength=size) > 0)
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
    lost = recorded_executions(w).text
    notes = [f"{lost}: runs and times are of the others"] if lost else []
    return PROGRAMS.table(columns, w.titled(_TITLE), notes).take(order)


_TITLE = "Compiled programs"


def _times_run(program: np.ndarray, name: np.ndarray, size: int) -> np.ndarray:
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
