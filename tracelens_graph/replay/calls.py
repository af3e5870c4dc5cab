"""Calls to plan: what the profiler recorded of them, what an execution trace adds, and what stands around them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.errors import CannotReplay, NotAValueError
from tracelens_graph.execution.link import link_of
from tracelens_graph.execution.sides import Argument as Observed
from tracelens_graph.perf.arguments import in_brackets, recorded_list, recorded_text
from tracelens_graph.perf.scalar_types import FLOATING, torch_dtype
from tracelens_graph.replay.replay_plan import Recorded
from tracelens_graph.schema import Kind

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.replay.schemas import Schema
    from tracelens_graph.utils.arrays import Rows

_NEAR = 200
"""Rows before and behind a call that are searched for tensors of some sizes."""
_MAKES_SPARSE = "aten::_sparse_coo_tensor_with_dims_and_tensors"
"""Makes every sparse tensor with coordinates, of sparse and dense dimensions, sizes, indices and values."""

UNREADABLE = "its recorded sizes or strides cannot be read"
"""Why a call whose sizes or strides are not numbers, or do not belong together, is not planned."""
LARGEST = 1 << 62
"""Elements and bytes of a tensor, and any one size or stride."""
_DEEPEST = 8
"""Lists in lists, in what is recorded."""

_INTEGER = re.compile(r"-?[0-9]{1,20}\Z")
_FLOAT = r"[-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|inf|nan)"
_IS_FLOAT = re.compile(f"{_FLOAT}\\Z")
_COMPLEX = re.compile(f"(?P<real>{_FLOAT})(?P<imaginary>[-+](?:{_FLOAT[5:]}))j\\Z")
_LONGEST = 400
"""Characters of one number that are looked at."""

Number = bool | int | float | complex


def number(text: str) -> Number:
    """A number or truth value from the text that the profiler wrote: `-1`, `1.`, `1.-2.5j`.

    Raises:
        NotAValueError: it is none.
    """
    text = text.strip()
    if text in ("True", "False"):
        return text == "True"
    if len(text) <= _LONGEST:
        if _INTEGER.match(text):
            return int(text)
        if _IS_FLOAT.match(text):
            return float(text)
        if found := _COMPLEX.match(text):
            return complex(float(found["real"]), float(found["imaginary"]))
    raise NotAValueError(f"no number: {text[:40]!r}")


def numbers(text: str) -> tuple[Number, ...]:
    """A list of numbers: `[1, 2]`.

    Raises:
        NotAValueError: it is none.
    """
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        raise NotAValueError(f"no list: {text[:40]!r}")
    inner = text[1:-1].strip()
    return tuple(number(part) for part in inner.split(",")) if inner else ()


def sizes(value: object) -> tuple[int, ...] | None:
    """A list of whole numbers that are not negative; None for anything else."""
    if isinstance(value, (list, tuple)) and all(type(one) is int and one >= 0 for one in value):
        return tuple(value)
    return None


class Surroundings:
    """What stands around the call at a row of a graph; around a call by itself, nothing."""

    _core: Core | None = None
    _row = -1

    def __init__(self, core: Core | None = None, row: int = -1) -> None:
        self._core, self._row = core, row

    @property
    def is_traced(self) -> bool:
        """Whether there is a trace, so that what is not below a call was not called by it."""
        return self._core is not None

    @cached_property
    def _ops(self) -> list[int]:
        """Rows of the ops below."""
        if self._core is None:
            return []
        c = self._core.columns
        below = np.arange(self._row + 1, int(c.last[self._row]) + 1)
        found: list[int] = below[c.kind[below] == Kind.Op].tolist()
        return found

    @cached_property
    def children(self) -> Sequence[str]:
        """Names of the ops below the call, in order, at all depths."""
        return _names(self._core, self._ops) if self._core is not None else ()

    @cached_property
    def kernels(self) -> Sequence[str]:
        """Names of the GPU work below it, in order of launch."""
        return _names(self._core, gpu_below(self._core, self._row)) if self._core is not None else ()

    def recorded_of(self, child: str) -> Recorded | None:
        """What was recorded of the first op of a name below the call."""
        if self._core is None:
            return None
        rows = (row for row, name in zip(self._ops, self.children, strict=True) if name == child)
        return next((found for row in rows if (found := recorded_at(self._core, row)).types), None)

    def calls_below(self, under: str = "") -> Sequence[tuple[str, Recorded]]:
        """Names and arguments of the ops that the call itself calls, or the first op of a name below it does."""
        if self._core is None:
            return ()
        named, parent = list(zip(self._ops, self.children, strict=True)), self._core.columns.parent
        above = next((row for row, name in named if name == under), -1) if under else self._row
        return [(name, recorded_at(self._core, row)) for row, name in named if parent[row] == above]

    def dtype_near(self, shape: tuple[int, ...]) -> str:
        """The dtype of tensors of some sizes among the arguments of ops nearby, the nearest first; empty for none."""
        if self._core is None:
            return ""
        c, at = self._core.columns, self._row
        rows = np.arange(max(at - _NEAR, 0), min(at + _NEAR, len(c)))
        rows = rows[(c.argset[rows] >= 0) & (c.thread[rows] == c.thread[at]) & (rows != at)]
        rows = rows[np.argsort(np.abs(rows - at), kind="stable")]
        near = (_dtypes(*self._core.argsets[code]).get(shape) for code in dict.fromkeys(c.argset[rows].tolist()))
        return next(filter(None, near), "")

    def sparse_made(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Sparse dimensions and entries of the last sparse tensor of some sizes that was made before the call."""
        known = self._core.once(_sparse_made).get(shape, ()) if self._core is not None else ()
        return next((form for row, form in reversed(known) if row < self._row), None)

    @property
    def is_followed(self) -> bool:
        """Whether autograd followed the call: some argument needed a gradient, and gradients were on.

        The profiler notes the number that autograd's next node will have, on ops that run with gradients. It has grown
        by the time of the next such op of the thread if a node was made.
        """
        if self._core is None:
            return False
        c, at = self._core.columns, self._row
        rows = np.arange(int(c.last[at]) + 1, min(int(c.last[at]) + 1 + _NEAR, len(c)))
        rows = rows[(c.sequence[rows] >= 0) & (c.thread[rows] == c.thread[at]) & (c.kind[rows] == Kind.Op)]
        return 0 <= int(c.sequence[at]) < (int(c.sequence[rows[0]]) if len(rows) else 0)

    @property
    def is_without_gradients(self) -> bool:
        """Whether gradients were off: others of its thread have a number of autograd, and it has none."""
        if self._core is None:
            return False
        c, at = self._core.columns, self._row
        rows = slice(max(at - _NEAR, 0), at + _NEAR)
        return bool(c.sequence[at] < 0 and ((c.sequence[rows] >= 0) & (c.thread[rows] == c.thread[at])).any())

    @property
    def common_dtype(self) -> str:
        """The floating dtype that most calls of the trace have."""
        return "float32" if self._core is None else self._core.once(_common_dtype)


@dataclass(frozen=True)
class Call:
    """A call to plan.

    Attributes:
        op: name with the namespace.
        recorded: its arguments as the profiler wrote them.
        schema: its schema as an execution trace has it; empty without one.
        observed: its arguments as the execution trace has them; empty without one.
        around: what stands around it.
        schemas: schemas that it may have been made by; empty for those of PyTorch.
        has_gpu: whether the trace has GPU work, so that a tensor on the host is one that stays there.
    """

    op: str
    recorded: Recorded
    schema: str = ""
    observed: Sequence[Observed] = ()
    around: Surroundings = field(default_factory=Surroundings)
    has_gpu: bool = False
    schemas: Sequence[Schema] = ()

    def __len__(self) -> int:
        return len(self.recorded.types)

    @property
    def name(self) -> str:
        """Name of the op without its namespace."""
        return self.op.partition("::")[2]


def traced_call(core: Core, row: int) -> Call:
    """What a graph knows of the call at a row.

    Raises:
        CannotReplay: it is not an op.
    """
    c = core.columns
    if c.kind[row] != Kind.Op:
        raise CannotReplay("not an operator")
    name, recorded, around = core.names[c.name[row]], recorded_at(core, row), Surroundings(core, row)
    link = link_of(core)
    node = int(link.node_of_row[row]) if link is not None else -1
    if link is None or node < 0:
        return Call(name, recorded, around=around, has_gpu=bool(len(core.gpu_rows)))
    execution = link.execution
    observed = execution.inputs[node].decoded()
    return Call(name, recorded, execution.schemas[execution.schema[node]], observed, around, bool(len(core.gpu_rows)))


def recorded_at(core: Core, row: int) -> Recorded:
    """The arguments of the call of a row, as the profiler wrote them."""
    code = int(core.columns.argset[row])
    return decoded(*core.argsets[code]) if code >= 0 else Recorded()


@lru_cache(maxsize=20_000)
def decoded(dims: str, types: str, strides: str, values: str) -> Recorded:
    """An argument set from its JSON texts."""
    entries = [recorded_list(text) for text in (dims, types, strides, values)]
    types_ = tuple(one if isinstance(one, str) else "" for one in entries[1])
    values_ = tuple(in_brackets(recorded_text(one)) for one in entries[3])
    return Recorded(_frozen(entries[0]), types_, _frozen(entries[2]), values_)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _names(core: Core, rows: Rows | list[int]) -> list[str]:
    return [core.names[code] for code in core.columns.name[rows].tolist()] if len(rows) else []


def gpu_below(core: Core, row: int) -> Rows:
    """Rows of the GPU work below a call, in order of launch."""
    low, high = np.searchsorted(core.gpu_rows, (row + 1, int(core.columns.last[row]) + 1))
    found: Rows = core.gpu_rows[low:high]
    return found


def _common_dtype(core: Core) -> str:
    codes, calls = np.unique(core.columns.argset[core.columns.argset >= 0], return_counts=True)
    count: Counter[str] = Counter()
    for code, calls_of in zip(codes.tolist(), calls.tolist(), strict=True):
        for dtype in _dtypes(*core.argsets[code]).values():
            count[dtype] += calls_of * (dtype in FLOATING)
    return max(count, key=count.__getitem__, default="float32")


def _sparse_made(core: Core) -> dict[tuple[int, ...], list[tuple[int, tuple[int, int]]]]:
    """Sizes -> row, sparse dimensions and entries of each sparse tensor with coordinates that was made."""
    found: dict[tuple[int, ...], list[tuple[int, tuple[int, int]]]] = {}
    c, codes = core.columns, [at for at, name in enumerate(core.names) if name == _MAKES_SPARSE]
    for row in np.flatnonzero(np.isin(c.name, codes) & (c.kind == Kind.Op) & (c.argset >= 0)).tolist():
        recorded = recorded_at(core, row)
        indices = sizes(recorded.dims[3]) if len(recorded.dims) > 3 else None
        try:
            shape = sizes(numbers(recorded.values[2])) if len(recorded.values) > 2 else None
        except NotAValueError:
            continue
        if shape and indices is not None and len(indices) == 2:
            found.setdefault(shape, []).append((row, (indices[0], indices[1])))
    return found


@lru_cache(maxsize=20_000)
def _dtypes(dims: str, types: str, strides: str, values: str) -> dict[tuple[int, ...], str]:
    """Sizes -> dtype of the tensors in an argument set."""
    recorded = decoded(dims, types, strides, values)
    found: dict[tuple[int, ...], str] = {}
    for shape, written in zip(map(sizes, recorded.dims), recorded.types, strict=False):
        if (dtype := torch_dtype(written)) and shape is not None:
            found.setdefault(shape, dtype)
    return found


def check_recorded(recorded: Recorded) -> None:
    """Make sure that sizes and strides are lists of numbers, one for each argument.

    Raises:
        CannotReplay: they are not.
    """
    for part in (recorded.dims, recorded.strides):
        if (part and len(part) != len(recorded.types)) or not all(_is_readable(one) for one in part):
            raise CannotReplay(UNREADABLE)


def _is_readable(entry: Any, depth: int = 0) -> bool:
    if isinstance(entry, (list, tuple)):
        return depth < _DEEPEST and all(_is_readable(one, depth + 1) for one in entry)
    return entry is None or entry == "" or (type(entry) is int and abs(entry) <= LARGEST)
