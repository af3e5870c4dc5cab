"""What a profile of JAX tells of programs that were compiled while it was recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.idle.host_states import COMPILATION, row_states
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import merge
from tracelens_graph.graph.programs import CompiledProgram
from tracelens_graph.graph.traversals import climb
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind

_CALL = re.compile(r"PjitFunction\((.*)\)", re.DOTALL)
"""How JAX marks the call of a function that it compiles, `f` for a program `jit_f`."""
_COMPILED = "backend_compile"
"""How the mark begins in which JAX has the compiler make a program."""


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
        """For each program how long it was compiled, in ms; NaN where it was compiled before, or nobody can tell.

        JAX numbers programs as it compiles them, so the last numbers of a name are those that were recorded.

        Args:
            listed: all programs that ran.
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
    """What was compiled in a window.

    Args:
        w: the window.
    """
    core, c = w.core, w.core.columns
    marks, calls, made = w.whole.once(_marks)
    inside = w.holds(marks)
    start, end = merge(c.start_ns[marks[inside]], c.start_ns[marks[inside]] + c.dur_ns[marks[inside]])
    took: dict[int, int] = {}
    for call, ns in zip(calls[inside].tolist(), c.dur_ns[marks[inside]].tolist(), strict=True):
        took[call] = took.get(call, 0) + ns
    compiled = w.holds(made)
    of_call: dict[str, list[int]] = {}
    for call in sorted({*_calls_above(core, made[compiled]).tolist()} - {-1}, key=lambda row: int(c.start_ns[row])):
        if call in took and (named := _CALL.fullmatch(core.names[c.name[call]])):
            of_call.setdefault(named[1], []).append(took[call])
    return Compilations(int(np.count_nonzero(compiled)), int((end - start).sum()), of_call)


def _marks(whole: Window) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the outermost calls in which programs are traced, lowered or compiled, and the call of a function that
    each is part of, -1 for none; and rows of the calls in which the compiler makes a program."""
    core, c = whole.core, whole.core.columns
    rows = np.flatnonzero(row_states(core) == COMPILATION)
    rows = rows[_outer(core, rows)]
    runtime = whole.rows_of_kind(Kind.RuntimeCall)
    named = np.array([name.startswith(_COMPILED) for name in core.names] or [False])
    made = runtime[named[c.name[runtime]]]
    return rows, _calls_above(core, rows), made[_outer(core, made)]


def _outer(core: Core, rows: np.ndarray) -> np.ndarray:
    """Which of ascending rows lie in no other of them."""
    reach = np.maximum.accumulate(np.concatenate(([-1], core.columns.last[rows[:-1]]))) if len(rows) else rows
    found: np.ndarray = rows > reach
    return found


def _calls_above(core: Core, rows: np.ndarray) -> np.ndarray:
    """For each row the call of a compiled function that it is part of, -1 for none; of nested ones the innermost."""
    c = core.columns
    named = np.array([_CALL.fullmatch(name) is not None for name in core.names] or [False])
    return climb(c.parent, c.parent[rows], named[c.name] & (c.kind == Kind.RuntimeCall))
