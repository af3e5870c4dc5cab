"""Kernels that PyTorch's compiler wrote in Triton, as programs to fill: arguments and grid as traced, without source.

A trace has a kernel's name, its arguments, its grid and the name of the file that it was compiled from, and no source.
The program reads that from a file beside it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tracelens_graph.errors import AnalysisError, CannotReplay, NotAValueError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.perf.scalar_types import FLOATING, torch_dtype
from tracelens_graph.replay.calls import number, recorded_at, sizes
from tracelens_graph.replay.program_text import identifier
from tracelens_graph.replay.replay_plan import Argument, Fill, Launch, Recorded, ReplayPlan, TensorValue, Value
from tracelens_graph.schema import Kind

TRITON = "Triton kernel"

_PREFIX = "triton_"
_NAMESPACE = "inductor::"
"""What stands before a kernel's name, so that it is that of an operation."""
_GRID = re.compile(r"grid\(([0-9, ]+)\)")
_KERNEL_FILE = re.compile(r"[A-Za-z0-9_]{1,100}\.py")
_CONSTANT = re.compile(r"([A-Za-z_]\w{0,60})=(-?[0-9]{1,18}|True|False)", re.ASCII)
_OPTIONS = ("num_warps", "num_stages")
_MOST = 2**31
_LONGEST_NAME = 400
_RECORD = "record with record_shapes=True and a newer PyTorch"


def kernel_sources(plans: Iterable[ReplayPlan], files: Sequence[str | os.PathLike[str]]) -> dict[str, str]:
    """Files that go beside programs of Triton kernels, from files of the user's that define the kernels.

    Args:
        plans: plans; those of kernels count.
        files: Python files; each goes to the kernels that it has a function of, and to a single kernel in any case.

    Returns:
        Name of a file -> its text.

    Raises:
        AnalysisError: a file cannot be read, or has none of the kernels.
    """
    sources = {plan.launch.kernel: plan.launch.source for plan in plans if plan.launch is not None}
    found: dict[str, str] = {}
    for file in files:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = (getattr(error, "strerror", None) or "it is not text").lower()
            raise AnalysisError(f"{os.fspath(file)}: cannot be read: {why}") from None
        own = {one for one in sources if re.search(rf"\bdef {re.escape(one)}\(", text)} or set(
            sources if len(sources) == 1 else ()
        )
        if not own:
            listed = ", ".join(sorted(sources)) or "there is no Triton kernel among the operations"
            raise AnalysisError(f"{os.fspath(file)}: defines none of the kernels: {listed}")
        found |= {sources[one]: text for one in own}
    return found


def is_triton(core: Core, row: int) -> bool:
    """Whether the op at a row is the launch of a kernel of PyTorch's compiler."""
    c = core.columns
    return c.kind[row] == Kind.Op and core.names[c.name[row]].startswith(_PREFIX)


def triton_plan(core: Core, row: int) -> ReplayPlan:
    """The launch of a Triton kernel at a row; constants of the launch are keyword arguments.

    Raises:
        CannotReplay: its arguments or its grid are not recorded.
    """
    node, recorded = Node(core, row), recorded_at(core, row)
    if not recorded.types:
        raise CannotReplay("arguments are not recorded", _RECORD)
    args = node.args
    kernels = [one for one in node.kernels if one.kind is Kind.Kernel]
    positional = tuple(_argument(recorded, at) for at in range(len(recorded.types)))
    constants = tuple(_constants(args))
    options = {name: args[name] for name in _OPTIONS if type(args.get(name)) is int and 0 < args[name] < _MOST}
    # Temporary files have paths that say something of the machine; the name alone is the same everywhere.
    file = str(args.get("kernel_file") or "").replace("\\", "/").rpartition("/")[2]
    return ReplayPlan(
        op=_op(node.name),
        overload="",
        schema=_schema(node.name, positional, constants),
        positional=positional,
        keyword=constants,
        recorded=recorded,
        notes=("the source of the kernel is not in the trace; the program says where to put it",),
        launch=Launch(
            node.name,
            f"{identifier(node.name)}_source.py",
            _grid(args, kernels),
            options,
            file if _KERNEL_FILE.fullmatch(file) else "",
        ),
    )


def _argument(recorded: Recorded, at: int) -> Argument:
    name, written = f"arg{at}", recorded.types[at]
    text = recorded.values[at] if at < len(recorded.values) else ""
    if written == "Scalar":
        try:
            return Argument(name, "Scalar", number(text))
        except NotAValueError:
            raise CannotReplay("values of arguments are not recorded", _RECORD) from None
    dtype, shape = torch_dtype(written), sizes(recorded.dims[at]) if at < len(recorded.dims) else None
    if not dtype or shape is None:
        raise CannotReplay(f"an argument of type {written[:40] or 'none'} is not recorded", _RECORD)
    strides = sizes(recorded.strides[at]) if at < len(recorded.strides) else None
    fill, assumed = Fill(), ""
    if dtype == "bool":
        fill = Fill("mask")
    elif dtype not in FLOATING:
        fill, assumed = Fill("zeros"), "zeros, which are in bounds if they are indices"
    return Argument(name, "Tensor", TensorValue(shape, dtype, strides, fill), assumed)


def _schema(name: str, positional: tuple[Argument, ...], constants: tuple[Argument, ...]) -> str:
    """A schema as operations have one, so that the plan is like theirs; what a kernel writes is not marked."""
    parts = [f"{one.type} {one.name}" for one in positional]
    parts += ["*", *(f"int {one.name}" for one in constants)] if constants else []
    return f"{_op(name)}({', '.join(parts)}) -> ()"


def _op(name: str) -> str:
    """The name of a kernel as that of an operation."""
    return f"{_NAMESPACE}{re.sub('[^0-9A-Za-z_]', '_', name[:_LONGEST_NAME])}"


def _constants(args: Mapping[str, Any]) -> list[Argument]:
    """Constants that the kernel was compiled with, `XBLOCK=1024,R0_BLOCK=8`."""
    text = args.get("kernel_kwargs")
    found: list[Argument] = []
    for part in text[:4096].split(",") if isinstance(text, str) else ():
        if constant := _CONSTANT.fullmatch(part.strip()):
            value: Value = constant[2] == "True" if constant[2] in ("True", "False") else int(constant[2])
            found.append(Argument(constant[1], "int", value))
    return found


def _grid(args: Mapping[str, Any], kernels: list[Node]) -> tuple[int, int, int]:
    """The grid of the kernel, else that of the launch where it is a plain one."""
    grids = [sizes(one.args.get("grid")) for one in kernels]
    text = _GRID.fullmatch(str(args.get("grid") or "")[:100])
    if text and text[1].count(",") >= 2:
        grids.append(tuple(int(part) for part in text[1].split(",") if part.strip()))
    for grid in grids:
        if grid and len(grid) == 3 and all(0 < size < _MOST for size in grid):
            return grid[0], grid[1], grid[2]
    if kernels:
        raise CannotReplay("its grid is not recorded, as of kernels of replayed graphs", "record a run without graphs")
    raise CannotReplay("its grid is not recorded", "record GPU activities, too")
