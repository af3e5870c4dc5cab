"""Which ops have a performance model, what it says of each call, and the one op that each GPU event is given to."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.arguments import instructions_of
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.classes import mixed
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.thread_blocks import grids_in_blocks
from tracelens_graph.graph.traversals import climb, outermost_above, rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.op_table.hlo import INSTRUCTION
from tracelens_graph.op_table.pseudo import PARTS
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import CallContext, Estimate, OpModel
from tracelens_graph.perf.registry import model_named
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Rows

_NOTHING = Arguments("", "")


@dataclass
class Modelled:
    """Ops that have a model and GPU work.

    Attributes:
        core: the graph.
        rows: their rows, ascending; also those whose model does not apply.
        claims: per row whether its model claims the events below the op.
        code: per row what was estimated: a position in `costs`, or -1 - position in `reasons`.
        costs: different estimates.
        reasons: why models did not apply.
        models: code of each name of an op -> its model; None if it has none.
    """

    core: Core
    rows: np.ndarray
    claims: np.ndarray
    code: np.ndarray
    costs: list[Cost]
    reasons: list[str]
    models: dict[int, OpModel | None]

    @cached_property
    def applies(self) -> np.ndarray:
        """Per row whether its model applies."""
        return self.code >= 0


def modelled(g: Core | Window) -> Modelled:
    """Estimate every call of an op that has a model and GPU work below it; found once per graph and extension.

    Estimates are made once per op name, argument set and, where a model looks at them, names of the GPU events,
    annotation, and forward op.

    Args:
        g: the graph, or a window of it: the whole graph is looked at, by the models of the window's extension.
    """
    return window_of(g).whole.once(_modelled)


def _modelled(w: Window) -> Modelled:
    core, c, models = w.core, w.core.columns, extension_of(w).all_models
    ops = rows_of_kind(c, (Kind.Op,))
    named = {code: model_named(core.names[code], models) for code in distinct(c.name[ops])[0].tolist()}
    if instructions := list(instructions_of(core)):
        is_instruction = np.isin(c.argset[ops], instructions)
        named |= dict.fromkeys(distinct(c.name[ops[is_instruction]])[0].tolist(), models.get(INSTRUCTION))
    known, looking, claiming = np.zeros((3, len(core.names) + 1), bool)
    for code, model in named.items():
        if model is not None:
            known[code], looking[code], claiming[code] = True, model.uses_context, model.claims
    low, high = np.searchsorted(core.gpu_rows, ops), np.searchsorted(core.gpu_rows, c.last[ops], "right")
    picked = known[c.name[ops]] & (high > low)
    rows, low, high = ops[picked], low[picked], high[picked]
    contextual = looking[c.name[rows]]
    code, first = group_by(
        c.name[rows],
        c.argset[rows],
        np.where(contextual, _kernels_code(core, low, high), 0),
        np.where(contextual, _annotation_code(core, rows), 0),
        _inside_code(core, rows, named),
        _forward_code(core, rows, contextual),
    )
    costs: list[Cost] = []
    reasons: dict[str, int] = {}
    numbers = np.zeros(len(first), np.int64)
    for i, at in enumerate(first.tolist()):
        model = named[int(c.name[rows[at]])]
        assert model is not None
        context = context_of(core, int(rows[at]), model) if contextual[at] else CallContext()
        try:
            costs.append(model.estimate(arguments_of(core, int(rows[at])), context))
            numbers[i] = len(costs) - 1
        except CannotModel as reason:
            numbers[i] = -1 - reasons.setdefault(str(reason), len(reasons))
    return Modelled(core, rows, claiming[c.name[rows]], numbers[code], costs, list(reasons), named)


_NEAREST = 16
"""Annotations around a call that models see, at most: programs may nest as many as there are calls."""


def arguments_of(core: Core, row: int) -> Arguments:
    """The recorded arguments of an op."""
    code = int(core.columns.argset[row])
    return Arguments(*core.argsets[code], instructions_of(core).get(code)) if code >= 0 else _NOTHING


def context_of(core: Core, row: int, model: OpModel) -> CallContext:
    """What a model may know of a call."""
    c = core.columns
    kernels = tuple(core.names[code] for code in c.name[_gpu_below(core, row)].tolist())
    over = int(core.annotation[row])
    texts: list[str] = []
    while over >= 0 and len(texts) < _NEAREST:
        texts.append(core.names[c.name[over]])
        over = int(core.annotation[over])
    forward = autograd_of(core).forward_of(row) if "Backward" in core.names[c.name[row]] else []
    first = {name: int(_inside(core, np.array([row]), name)[0]) for name in model.inside}
    return CallContext(
        kernels,
        "\n".join(texts),
        arguments_of(core, forward[0]) if forward else None,
        {name: arguments_of(core, below) for name, below in first.items() if below >= 0},
        _grids(core, int(_whole(core, np.array([row]))[0])) if model.grids else (),
    )


def _gpu_below(core: Core, row: int) -> np.ndarray:
    low, high = np.searchsorted(core.gpu_rows, (row, core.columns.last[row] + 1))
    return core.gpu_rows[low:high]


def _grids(core: Core, row: int) -> tuple[tuple[str, tuple[int, ...] | None], ...]:
    """Names and grids of the kernels below a call."""
    c, gpu = core.columns, _gpu_below(core, row)
    grids = grids_in_blocks(core, gpu)
    return tuple(
        (core.names[code], None if grid is None else tuple(grid))
        for code, grid in zip(c.name[gpu].tolist(), grids, strict=True)
    )


def _whole(core: Core, rows: np.ndarray) -> np.ndarray:
    """The fused op that each op made for a part of one belongs to; of others the op itself."""
    c = core.columns
    part = core.once(_ops_called, PARTS)
    if not len(part):
        return rows
    above = climb(c.parent, np.where(np.isin(rows, part), c.parent[rows], -1), c.kind == Kind.Op)
    return np.where(above >= 0, above, rows)


def _inside(core: Core, rows: np.ndarray, name: str) -> np.ndarray:
    """The first op of a name below each call, -1 for none."""
    wanted = core.once(_ops_called, (name,))
    if not len(wanted) or not len(rows):
        return np.full(len(rows), -1)
    whole = _whole(core, rows)
    first = np.append(wanted, len(core.columns))[np.searchsorted(wanted, whole)]
    return np.where(first <= core.columns.last[whole], first, -1)


def _ops_called(core: Core, names: Collection[str]) -> Rows:
    """Rows of the ops of some names, ascending."""
    c, codes = core.columns, [code for code, name in enumerate(core.names) if name in names]
    return np.flatnonzero(np.isin(c.name, codes) & (c.kind == Kind.Op)) if codes else np.empty(0, np.int64)


def _inside_code(core: Core, rows: np.ndarray, models: dict[int, OpModel | None]) -> np.ndarray:
    """Of calls whose model looks at ops below, a number for the arguments of these."""
    c = core.columns
    codes = np.zeros(len(rows), np.int64)
    for code, model in models.items():
        if model is not None and model.inside:
            at = np.flatnonzero(c.name[rows] == code)
            for name in model.inside:
                first = _inside(core, rows[at], name)
                codes[at], _ = group_by(codes[at], np.where(first >= 0, c.argset[first] + 2, 0))
    return codes


def _kernels_code(core: Core, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A number for the names of the GPU events from `low` to `high`, whatever their order."""
    # Sums of well mixed numbers: equal sums of different names are as unlikely as equal hashes.
    of_name = mixed(np.arange(1, len(core.names) + 2, dtype=np.uint64))
    running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(of_name[core.columns.name[core.gpu_rows]])))
    return (running[high] - running[low]).view(np.int64)


def _forward_code(core: Core, rows: np.ndarray, contextual: np.ndarray) -> np.ndarray:
    """Of backward ops whose model looks at their forward op, a number for its name and arguments."""
    c = core.columns
    codes = np.zeros(len(rows), np.int64)
    backward = [code for code, name in enumerate(core.names) if "Backward" in name]
    for at in np.flatnonzero(contextual & np.isin(c.name[rows], backward)).tolist():
        for forward in autograd_of(core).forward_of(int(rows[at]))[:1]:
            codes[at] = int(c.name[forward]) * (len(core.argsets) + 1) + int(c.argset[forward]) + 2
    return codes


def _annotation_code(core: Core, rows: np.ndarray) -> np.ndarray:
    over = core.annotation[rows]
    return np.where(over >= 0, core.columns.name[over].astype(np.int64) + 1, 0) if len(over) else over


_WRAPPER = "autograd::engine::evaluate_function: "
_LEVELS = 5
"""How far above a backward op the call of the autograd engine is looked for."""


@dataclass
class Unified:
    """Which op each GPU event is given to. Arrays over GPU events are in the order of `core.gpu_rows`.

    Attributes:
        owner: the row of the op; -1 for communication in no modelled op, launches outside of ops, no launch.
        alone: whether the event stands for itself: launched outside of ops, or by an op above one that claims events.
        codes: per row of the graph that is an op with a model: a position in `costs`, or -1 - position in `reasons`.
        costs: different estimates.
        reasons: why there is none.
        backward: rows of ops whose estimate is that of the backward pass of their forward op.
    """

    owner: np.ndarray
    alone: np.ndarray
    codes: dict[int, int]
    costs: list[Cost]
    reasons: list[str]
    backward: frozenset[int]


def unified(g: Core | Window) -> Unified:
    """Give every GPU event of a graph to one op; found once per graph and extension.

    From the outermost op inwards, the first of these that covers the event: an op whose model applies and claims what
    is below; an op that launches work itself and has no such op below it, unless that work is communication. The cost
    is what the op's own model says, whether it claims or not; of a backward op without one, that is the only op its
    autograd call launches work by, what the model of its forward op says of the backward pass.

    Args:
        g: the graph, or a window of it: the whole graph is looked at, by the models of the window's extension.
    """
    return window_of(g).whole.once(_unified)


def _unified(w: Window) -> Unified:
    core, c, found = w.core, w.core.columns, modelled(w)
    ops = rows_of_kind(c, (Kind.Op,))
    place = np.full(len(c) + 1, -1, np.int64)
    place[ops] = np.arange(len(ops))
    claims, priced = np.zeros((2, len(ops)), bool)
    claims[place[found.rows[found.applies & found.claims]]] = True
    priced[place[found.rows[found.applies]]] = True
    running = np.concatenate(([0], np.cumsum(claims)))
    # In pre-order the ops below one follow it, up to its last row; it does not count for itself.
    below = running[np.searchsorted(ops, c.last[ops], "right")] - running[np.arange(1, len(ops) + 1)] > 0

    gpu = core.gpu_rows
    launched = c.owner[gpu] >= 0
    communicates = gpu_classes(core, gpu) == COMMUNICATION
    direct = np.zeros(len(ops), bool)
    direct[place[c.owner[gpu[launched]]]] = True
    # Taken before communication is excluded, as `_sole_backward` counts every op that launches work.
    launching = ops[direct]
    direct[place[c.owner[gpu[launched & communicates]]]] = False
    leaves = direct & ~below & ~claims
    owner = np.where(launched, outermost_above(c.last, ops[claims | leaves], gpu), -1)
    alone = (owner < 0) & (c.parent[gpu] >= 0) & ~communicates
    codes = dict(zip(found.rows.tolist(), found.code.tolist(), strict=True))
    costs, reasons = list(found.costs), list(found.reasons)
    backward = _sole_backward(w, ops[leaves & ~priced], launching)
    for row, estimate in backward.items():
        if isinstance(estimate, Cost):
            codes[row] = len(costs)
            costs.append(estimate)
        else:
            codes[row] = -1 - len(reasons)
            reasons.append(estimate)
    return Unified(owner, alone, codes, costs, reasons, frozenset(backward))


def _sole_backward(w: Window, candidates: np.ndarray, launching: np.ndarray) -> dict[int, Cost | str]:
    """Backward ops whose cost follows from their forward op, with the estimate or why there is none.

    Args:
        candidates: rows of ops that launch work and have no model of their own.
        launching: rows of all ops that launch work, ascending.
    """
    core, c, names, models = w.core, w.core.columns, w.core.names, extension_of(w).all_models
    wrappers = {code: name.removeprefix(_WRAPPER) for code, name in enumerate(names) if name.startswith(_WRAPPER)}
    if not wrappers:
        return {}
    above = climb(c.parent, c.parent[candidates], c.kind == Kind.Op)
    named = np.array([wrappers.get(code, "") for code in range(len(names))], object)[c.name[above]]
    own = np.array(names, object)[c.name[candidates]]
    low, high = np.searchsorted(launching, above), np.searchsorted(launching, c.last[above], "right")
    found: dict[int, Cost | str] = {}
    made: dict[tuple[int, int], Cost | str] = {}
    for row in candidates[(above >= 0) & (named == own) & (high - low == 1)].tolist():
        for forward in autograd_of(core).forward_of(row)[:1]:
            model = model_named(names[c.name[forward]], models)
            if model is not None and model.backward is not None:
                key = (int(c.name[forward]), int(c.argset[forward]))
                if key not in made:
                    made[key] = _estimate(model.backward, arguments_of(core, forward))
                found[row] = made[key]
    return found


def _estimate(formula: Estimate, arguments: Arguments) -> Cost | str:
    try:
        return formula(arguments, CallContext())
    except CannotModel as reason:
        return str(reason)
