"""Which programs of a folder may run: those that are what is written for the plans in its index.

A folder can come from anywhere. Nothing in it is run because it says so.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from tracelens_graph.errors import TraceLensGraphError
from tracelens_graph.extensions.replayer import Replayer
from tracelens_graph.replay.allowed import why_not
from tracelens_graph.replay.folder import Program
from tracelens_graph.replay.replay_plan import ReplayPlan


class ForeignProgramError(TraceLensGraphError):
    """A program is not as it was written, or does what none may."""


def trusted(program: Program, folder: Path, replayers: Sequence[Replayer] = ()) -> tuple[ReplayPlan, ...]:
    """The plans of a program that may run.

    Such a program is, to the byte, what is written for its plan, and calls and imports nothing but what it may.

    Args:
        program: what the index says of it.
        folder: where it is.
        replayers: custom operations that it may call; it may import their modules.

    Raises:
        ForeignProgramError: it may not; says why.
        NotAPlanError: the index has no plan of it.
        OSError: it cannot be read.
    """
    plans = program.plans
    modules = {module for one in replayers for module in one.imports}
    for plan in plans if program.kind != "triton" else ():
        if foreign := [module for module in plan.imports if module not in modules]:
            told = f"it imports {', '.join(foreign)}; give the extension that says so: --extension FILE"
            raise ForeignProgramError(told)
        if refused := why_not(plan.op, plan.overload, replayers):
            raise ForeignProgramError(refused)
    if _read(folder / program.file, source := program.source.encode()) != source:
        raise ForeignProgramError("it is not what is written for its plan")
    return plans


def _read(path: Path, expected: bytes) -> bytes:
    """The bytes of a file, up to one more than are expected; nothing that is no file is waited for."""
    with os.fdopen(
        os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb"
    ) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ForeignProgramError("it is no file")
        return file.read(len(expected) + 1)
