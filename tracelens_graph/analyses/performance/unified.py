"""One op per GPU event: the outermost op whose performance model claims it, else the op that launched it.

Models overlap: a model of `aten::linear` would cover the work of the `aten::addmm` inside it. Here every GPU event is
given to one op, so that the time of all rows adds up. Models of operations that TraceLens has none for claim nothing
(`OpModel.claims`): which op an event is given to does not depend on them, only what is known of its cost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.performance.modelled import arguments_of, modelled
from tracelens_graph.analyses.shared.gpu_class import COMMUNICATION, gpu_classes
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb, rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import CallContext, Estimate
from tracelens_graph.perf.registry import model_named
from tracelens_graph.schema import Kind

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
    below = running[np.searchsorted(ops, c.last[ops], "right")] - running[np.arange(1, len(ops) + 1)] > 0

    gpu = core.gpu_rows
    launched = c.owner[gpu] >= 0
    communicates = gpu_classes(core, gpu) == COMMUNICATION
    direct = np.zeros(len(ops), bool)
    direct[place[c.owner[gpu[launched]]]] = True
    launching = ops[direct]
    direct[place[c.owner[gpu[launched & communicates]]]] = False
    leaves = direct & ~below & ~claims
    owner = np.where(launched, _outermost(c.last, ops[claims | leaves], gpu), -1)
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


def _outermost(last: np.ndarray, ops: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """For each row the outermost of the ops (ascending) that it lies below, -1 for none."""
    if not len(ops):
        return np.full(len(rows), -1, np.int64)
    reach = np.maximum.accumulate(np.concatenate(([-1], last[ops[:-1]])))
    outer = ops[ops > reach]
    at = np.searchsorted(outer, rows, "right") - 1
    over = outer[np.maximum(at, 0)]
    found: np.ndarray = np.where((at >= 0) & (rows <= last[over]), over, -1)
    return found


def _sole_backward(w: Window, candidates: np.ndarray, launching: np.ndarray) -> dict[int, Cost | str]:
    """Backward ops whose cost follows from their forward op, with the estimate or why there is none.

    Args:
        w: the whole trace.
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
