"""Which programs of a folder may run: those that are what is written for the plans in its index.

A folder can come from anywhere. Nothing in it is run because it says so.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from tracelens_graph.extensions.replayer import Replayer
from tracelens_graph.replay.check import ForeignProgramError, check
from tracelens_graph.replay.folder import Program
from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.replay.script import operation, script

_LARGEST = 16 << 20
"""Bytes of a program that is read."""


def examined(program: Program, folder: Path, replayers: Sequence[Replayer] = ()) -> bytes:
    """The source of a program that may run.

    That of one operation is, to the byte, what is written for its plan. One of several operations calls those of its
    plans and no others; which tensors they share, only the program says.

    Args:
        program: what the index says of it.
        folder: where it is.
        replayers: custom operations that it may call; it may import their modules.

    Raises:
        ForeignProgramError: it may not; says why.
        OSError: it cannot be read.
    """
    if program.fault:
        raise ForeignProgramError(program.fault)
    source = _read(folder / program.file)
    found = check(source, replayers)
    if found.kind != program.kind:
        raise ForeignProgramError(f"it is of the kind {found.kind}, and the index says {program.kind}")
    if program.kind in ("op", "sequence") and not program.plans:
        raise ForeignProgramError("the index has no plan of it")
    if program.kind == "op" and [source] != [script(plan).encode() for plan in program.plans]:
        raise ForeignProgramError("it is not what is written for its plan")
    if program.kind == "sequence" and found.calls != tuple(map(_call, program.plans)):
        raise ForeignProgramError("it calls other operations than those of its plans")
    return source


def _call(plan: ReplayPlan) -> str:
    return str(operation(plan)["call"])


def _read(path: Path) -> bytes:
    """The bytes of a file; nothing that is no file is waited for."""
    with os.fdopen(
        os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb"
    ) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ForeignProgramError("it is no file")
        source = file.read(_LARGEST + 1)
    if len(source) > _LARGEST:
        raise ForeignProgramError(f"it is larger than {_LARGEST:,} bytes")
    return source
