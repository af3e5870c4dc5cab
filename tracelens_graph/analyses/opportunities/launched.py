"""Ops in the order in which their kernels ran on a stream, with what each does and the place it belongs to.

Rules over several ops go by this order: kernels of a stream run one after another, in the order of their launches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import COMPUTATION, fitting_names, gpu_categories, gpu_classes, modules_of
from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb, launcher, nearest_above, rows_of_kind
from tracelens_graph.graph.window import Window, class_of
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows


class Does(IntEnum):
    """What an op does, as far as rules over several ops ask."""

    OTHER = 0
    POINTWISE = 1
    REDUCE = 2
    NORM = 3
    SOFTMAX = 4
    COPY = 5
    FILL = 6
    PRODUCT = 7
    CONVOLUTION = 8
    ATTENTION = 9


_BY_CATEGORY = {
    "Elementwise": Does.POINTWISE, "Reduction": Does.REDUCE, "Normalization": Does.NORM, "Softmax": Does.SOFTMAX,
    "GEMM": Does.PRODUCT, "Convolution": Does.CONVOLUTION, "Flash Attention Forward": Does.ATTENTION,
    "Flash Attention Backward": Does.ATTENTION,
}  # fmt: skip
"""Category of a kernel -> what its op does. A product with a fill or a sum of its parts is a product."""

_COPIES = ("aten::copy_", "aten::clone", "aten::contiguous", "aten::_to_copy", "aten::to")
_FILLS = ("aten::fill_", "aten::zero_")
_CONCATENATES = ("aten::cat", "aten::stack", "aten::where", "aten::masked_fill", "aten::masked_fill_", "aten::tril",
                 "aten::triu", "aten::native_dropout", "aten::native_dropout_backward", "aten::bernoulli_")  # fmt: skip
"""Ops that read and write in step with elementwise ones, whatever the category of their kernels."""

_REDUCES = re.compile(
    r"aten::(?:sum|mean|amax|amin|max|min|var|std|var_mean|std_mean|norm|linalg_vector_norm|any|all|prod)(?:_out)?$"
)
_OUT_OF_STEP = re.compile(
    r"upsample|pool|interp|grid_|embedding|gather|scatter|index|sort|rand|uniform|normal_|arange|multinomial|conv|fft"
)
"""Elementwise by their kernels, though an element of the result depends on others than one of each input."""

_ACCUMULATES = re.compile(r"AccumulateGrad")

_LEADING = (Does.ATTENTION, Does.CONVOLUTION, Does.PRODUCT)
"""What an op does that has kernels of several categories, the first of these that it has."""


@dataclass(frozen=True)
class Launched:
    """GPU work of a window, op by op; arrays are by stream, then by the start of the op's first kernel on it.

    Attributes:
        core: the graph.
        row: the op, or call, that launched; -1 where the launch is not in the trace.
        kernel: the first kernel of it.
        kernels: how many kernels.
        ns: sum of their durations.
        stream: number of the device and stream.
        does: what it does.
        signature: number of its name and arguments.
        module: module call that it belongs to, -1 for none; of backward work that of the forward op.
        backward: whether it is backward work of the module.
        scope: the module call around what `module` is made of: itself, or the one above where it calls no module; -1
            for none, -2 for what accumulates gradients of parameters.
    """

    core: Core
    row: Rows
    kernel: Rows
    kernels: Codes
    ns: Ns
    stream: Codes
    does: Codes
    signature: Codes
    module: Rows
    backward: Mask
    scope: Rows

    def __len__(self) -> int:
        return len(self.row)

    def name(self, at: int) -> str:
        """Name of the op of a place; empty for none."""
        row = int(self.row[at])
        return self.core.names[self.core.columns.name[row]] if row >= 0 else ""


def launched(w: Window) -> Launched:
    """The GPU work of a window op by op; found once per window."""
    return w.once(_launched)


def module_classes(core: Core, modules: Rows) -> list[str]:
    """Classes of module calls; empty for -1."""
    codes, of = distinct(np.where(modules >= 0, core.columns.name[modules], -1) if len(modules) else modules)
    names = [class_of(core.names[code].removeprefix("nn.Module: ")) if code >= 0 else "" for code in codes.tolist()]
    return [names[i] for i in of.tolist()]


def placed(module: str, backward: bool = False) -> str:
    """What a place is called in front of what is found there: `Block: `, `Block.backward: `; empty for no module."""
    return f"{module}{'.backward' * backward}: " if module else "backward: " * backward


def modules_around(work: Launched, places: Rows, starts: Rows, ends: Rows) -> list[str]:
    """Class of the module of each run of launched ops: the one they share, else the one around them.

    Args:
        places: places of ops, run by run.
        starts, ends: where in `places` each run starts and ends.
    """
    module = work.module[places]
    changes = np.cumsum(np.append(False, module[1:] != module[:-1]))
    alike = changes[ends - 1] == changes[starts] if len(starts) else starts
    return module_classes(work.core, np.where(alike, module[starts], work.scope[places][starts]))


def beside(work: Launched, shown: Rows, of: Rows, step: int) -> Mask:
    """Which ops have another one of their stream, scope and pass so many places away.

    Args:
        shown: places of those that count.
        of: positions in `shown` of the ops in question.
        step: how many places away, negative for before.
    """
    at = of + step
    inside = (at >= 0) & (at < len(shown))
    one, other = shown[np.where(inside, at, 0)], shown[of]
    keys = (work.stream, work.scope, work.backward)
    return np.logical_and.reduce([inside, *(key[one] == key[other] for key in keys)])


def _launched(w: Window) -> Launched:
    core, c = w.core, w.core.columns
    gpu = w.gpu_rows
    gpu = gpu[np.lexsort((gpu, c.start_ns[gpu], c.stream[gpu], c.device[gpu]))]
    owner = np.asarray(launcher(c, gpu), np.int64)
    stream = group_by(c.device[gpu], c.stream[gpu])[0] if len(gpu) else gpu
    begins = np.ones(len(gpu), bool)
    begins[1:] = (owner[1:] != owner[:-1]) | (owner[1:] < 0) | (stream[1:] != stream[:-1])
    first = np.flatnonzero(begins)
    item = np.cumsum(begins) - 1
    row, kernel = owner[first], gpu[first]
    module, backward = modules_of(core, kernel)
    has_row = row >= 0
    name = np.where(has_row, c.name[row], -1) if len(row) else row
    argset = np.where(has_row, c.argset[row], -1) if len(row) else row
    ns = np.add.reduceat(c.dur_ns[gpu], first) if len(first) else np.zeros(0, np.int64)
    return Launched(
        core, row, kernel, np.bincount(item, minlength=len(first)), ns, stream[first], _does(w, gpu, owner, item),
        group_by(name, argset)[0] if len(row) else row, module, backward, _scopes(core, row, module),
    )  # fmt: skip


def _does(w: Window, gpu: Rows, owner: Rows, item: Codes) -> Codes:
    core, c = w.core, w.core.columns
    if not len(gpu):
        return np.zeros(0, np.int8)
    labels, category = gpu_categories(w)
    pair, at = group_by(np.where(owner >= 0, c.name[owner], -1), category[gpu])
    ops = [core.names[c.name[row]] if row >= 0 else "" for row in owner[at].tolist()]
    kinds = [labels[code] for code in category[gpu[at]].tolist()]
    found = np.array([_of_kernel(op, kind) for op, kind in zip(ops, kinds, strict=True)], np.int8)[pair]
    found[(gpu_classes(core, gpu) != COMPUTATION) & (found != Does.COPY)] = Does.OTHER
    found[(c.kind[gpu] == Kind.Memcpy) & (found == Does.COPY)] = Does.OTHER
    items = int(item[-1]) + 1
    # An op with kernels of several sorts is what leads among them, else no sort that rules know.
    least, most = np.full(items, 127, np.int8), np.zeros(items, np.int8)
    counted = found != Does.FILL
    np.minimum.at(least, item[counted], found[counted])
    np.maximum.at(most, item[counted], found[counted])
    does = np.where(least == 127, Does.FILL, np.where(least == most, least, Does.OTHER)).astype(np.int8)
    for one in reversed(_LEADING):
        does[item[found == one]] = one
    norms = np.zeros(items, bool)
    norms[item[found == Does.NORM]] = True
    does[norms & (does == Does.OTHER) & (least > 0) & (most <= Does.SOFTMAX)] = Does.NORM
    return does


def _of_kernel(op: str, category: str) -> Does:
    """What a kernel does for an op. Of PyTorch's own ops alone: kernels of other libraries are fused already."""
    found = _BY_CATEGORY.get(category, Does.OTHER)
    if found in _LEADING or (found == Does.SOFTMAX):
        return found
    if not op.startswith("aten::") or category == "Triton-fused":
        return Does.OTHER
    if op in _COPIES:
        return Does.COPY
    if op in _FILLS or (category == "Memory Ops" and found == Does.OTHER and op not in _CONCATENATES):
        return Does.FILL if op in _FILLS else Does.OTHER
    if op in _CONCATENATES:
        return Does.POINTWISE
    if found == Does.REDUCE:
        return found if _REDUCES.match(op) else Does.OTHER
    return Does.OTHER if _OUT_OF_STEP.search(op) else found


def _scopes(core: Core, rows: Rows, module: Rows) -> Rows:
    """For each op the scope of its module call; -1 for none, -2 for what accumulates gradients of parameters."""
    c, modules = core.columns, rows_of_kind(core.columns, (Kind.Module,))
    above = nearest_above(c, modules, (Kind.Module,))
    calls = np.zeros(len(c) + 1, bool)
    calls[above] = True
    found = np.full(len(c) + 1, -1, np.int64)
    found[modules] = np.where(calls[modules] | (above < 0), modules, above)
    accumulates = fitting_names(core, _ACCUMULATES.search)
    if not accumulates.any():
        return found[module]
    return np.where((module < 0) & (climb(c.parent, rows, accumulates[c.name]) >= 0), -2, found[module])
