"""Calls of a trace: what was recorded of them, what an execution trace adds, and what stands around them."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from tracelens_graph.execution.link import link_of
from tracelens_graph.perf.scalar_types import FLOATING, torch_dtype
from tracelens_graph.replay.call import Call, Surroundings
from tracelens_graph.replay.recorded_values import sizes
from tracelens_graph.replay.replay_plan import CannotReplay, Recorded
from tracelens_graph.schema import Kind

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core

_NEAR = 200
"""Rows before and behind a call that are searched for tensors of some sizes."""

_MAKES_SPARSE = "aten::_sparse_coo_tensor_with_dims_and_tensors"
"""Makes every sparse tensor with coordinates, of sparse and dense dimensions, sizes, indices and values."""
_SIZES = re.compile(r"\[\d{1,18}(, ?\d{1,18})*\]", re.ASCII)

_SPARSE: WeakKeyDictionary[Core, dict[tuple[int, ...], list[tuple[int, tuple[int, int]]]]] = WeakKeyDictionary()
_COMMON: WeakKeyDictionary[Core, str] = WeakKeyDictionary()


def traced_call(core: Core, row: int) -> Call:
    """What a graph knows of the call at a row.

    Raises:
        CannotReplay: it is no op.
    """
    c = core.columns
    if c.kind[row] != Kind.Op:
        raise CannotReplay("not an operator")
    code = int(c.argset[row])
    recorded = decoded(*core.argsets[code]) if code >= 0 else Recorded()
    link = link_of(core)
    node = int(link.node_of_row[row]) if link is not None else -1
    name = core.names[c.name[row]]
    if link is None or node < 0:
        return Call(name, recorded, around=TracedSurroundings(core, row), has_gpu=bool(len(core.gpu_rows)))
    execution = link.execution
    observed = execution.inputs[node].decoded()
    schema = execution.schemas[execution.schema[node]]
    return Call(name, recorded, schema, observed, TracedSurroundings(core, row), bool(len(core.gpu_rows)))


@lru_cache(maxsize=20_000)
def decoded(dims: str, types: str, strides: str, values: str) -> Recorded:
    """An argument set from its JSON texts."""
    of_dims, of_types, of_strides, of_values = (_entries(text) for text in (dims, types, strides, values))
    return Recorded(
        _frozen(of_dims), tuple(one if isinstance(one, str) else "" for one in of_types), _frozen(of_strides),
        tuple(one if isinstance(one, str) else "" for one in of_values),
    )  # fmt: skip


def _entries(text: str) -> list[Any]:
    try:
        found = json.loads(text) if text else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


class TracedSurroundings(Surroundings):
    """What stands around the call at a row of a graph."""

    is_traced = True

    def __init__(self, core: Core, row: int) -> None:
        self._core, self._row = core, row

    @cached_property
    def _ops(self) -> np.ndarray:
        """Rows of the ops below."""
        c = self._core.columns
        below = np.arange(self._row + 1, int(c.last[self._row]) + 1)
        found: np.ndarray = below[c.kind[below] == Kind.Op]
        return found

    @cached_property
    def children(self) -> list[str]:  # type: ignore[override]
        """Names of the ops below, at all depths, in order."""
        return [self._core.names[code] for code in self._core.columns.name[self._ops].tolist()]

    @cached_property
    def kernels(self) -> list[str]:  # type: ignore[override]
        """Names of the GPU work below."""
        core, gpu = self._core, self._core.gpu_rows
        low, high = np.searchsorted(gpu, (self._row, int(core.columns.last[self._row]) + 1))
        return [core.names[code] for code in core.columns.name[gpu[low:high]].tolist()]

    def recorded_of(self, child: str) -> Recorded | None:
        """What was recorded of the first op of a name below the call."""
        c = self._core.columns
        for row, name in zip(self._ops.tolist(), self.children, strict=True):
            if name == child and c.argset[row] >= 0:
                return decoded(*self._core.argsets[c.argset[row]])
        return None

    def calls_below(self, under: str = "") -> list[tuple[str, Recorded]]:
        """Names and arguments of the ops that the call itself calls, or the first op of a name below it does."""
        c, above = self._core.columns, self._row
        if under:
            above = next(
                (row for row, name in zip(self._ops.tolist(), self.children, strict=True) if name == under), -1
            )
        found = []
        for row, name in zip(self._ops.tolist(), self.children, strict=True):
            if c.parent[row] == above:
                code = int(c.argset[row])
                found.append((name, decoded(*self._core.argsets[code]) if code >= 0 else Recorded()))
        return found

    def dtype_near(self, shape: tuple[int, ...]) -> str:
        """The dtype of tensors of some sizes among the arguments of ops nearby, the nearest first."""
        c, at = self._core.columns, self._row
        rows = np.arange(max(at - _NEAR, 0), min(at + _NEAR, len(c)))
        rows = rows[(c.argset[rows] >= 0) & (c.thread[rows] == c.thread[at]) & (rows != at)]
        rows = rows[np.argsort(np.abs(rows - at), kind="stable")]
        for code in dict.fromkeys(c.argset[rows].tolist()):
            if dtype := _dtypes(*self._core.argsets[code]).get(shape):
                return dtype
        return ""

    def sparse_made(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Sparse dimensions and entries of the last sparse tensor of some sizes that was made before the call."""
        known = _sparse_made(self._core).get(shape, ())
        return next((form for row, form in reversed(known) if row < self._row), None)

    @property
    def is_followed(self) -> bool:
        """Whether autograd followed the call.

        The profiler notes the number that autograd's next node will have, on ops that run with gradients. It has grown
        by the time of the next such op of the thread if a node was made.
        """
        c, at = self._core.columns, self._row
        number = int(c.sequence[at])
        if number < 0:
            return False
        rows = np.arange(int(c.last[at]) + 1, min(int(c.last[at]) + 1 + _NEAR, len(c)))
        rows = rows[(c.sequence[rows] >= 0) & (c.thread[rows] == c.thread[at]) & (c.kind[rows] == Kind.Op)]
        return len(rows) > 0 and int(c.sequence[rows[0]]) > number

    @property
    def is_without_gradients(self) -> bool:
        """Whether gradients were off: others of its thread have a number of autograd, and it has none."""
        c, at = self._core.columns, self._row
        if int(c.sequence[at]) >= 0:
            return False
        rows = slice(max(at - _NEAR, 0), at + _NEAR)
        return bool(((c.sequence[rows] >= 0) & (c.thread[rows] == c.thread[at])).any())

    @property
    def common_dtype(self) -> str:
        """The floating dtype that most calls of the trace have."""
        core = self._core
        if core not in _COMMON:
            codes, calls = np.unique(core.columns.argset[core.columns.argset >= 0], return_counts=True)
            count: Counter[str] = Counter()
            for code, number in zip(codes.tolist(), calls.tolist(), strict=True):
                for dtype in _dtypes(*core.argsets[code]).values():
                    count[dtype] += number * (dtype in FLOATING)
            _COMMON[core] = max(count, key=count.__getitem__, default="float32")
        return _COMMON[core]


def _sparse_made(core: Core) -> dict[tuple[int, ...], list[tuple[int, tuple[int, int]]]]:
    """Sizes -> row, sparse dimensions and entries of each sparse tensor with coordinates that was made."""
    if core not in _SPARSE:
        found: dict[tuple[int, ...], list[tuple[int, tuple[int, int]]]] = {}
        c, codes = core.columns, [at for at, name in enumerate(core.names) if name == _MAKES_SPARSE]
        for row in np.flatnonzero(np.isin(c.name, codes) & (c.kind == Kind.Op) & (c.argset >= 0)).tolist():
            recorded = decoded(*core.argsets[c.argset[row]])
            indices = sizes(recorded.dims[3]) if len(recorded.dims) > 3 else None
            shape = recorded.values[2] if len(recorded.values) > 2 else ""
            if indices is not None and len(indices) == 2 and _SIZES.fullmatch(shape):
                found.setdefault(tuple(map(int, shape[1:-1].split(","))), []).append((row, (indices[0], indices[1])))
        _SPARSE[core] = found
    return _SPARSE[core]


@lru_cache(maxsize=20_000)
def _dtypes(dims: str, types: str, strides: str, values: str) -> dict[tuple[int, ...], str]:
    """Sizes -> dtype of the tensors in an argument set."""
    recorded = decoded(dims, types, strides, values)
    found: dict[tuple[int, ...], str] = {}
    for shape, written in zip(recorded.dims, recorded.types, strict=False):
        dtype, known = torch_dtype(written), sizes(shape)
        if dtype and known is not None:
            found.setdefault(known, dtype)
    return found
