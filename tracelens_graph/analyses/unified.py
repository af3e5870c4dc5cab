"""One op per GPU event: the outermost op that a performance model covers, else the op that launched it.

Models overlap: a model of `aten::linear` would cover the work of the `aten::addmm` inside it. Here every GPU event is
given to one op, so that the time of all rows adds up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.gpu_class import COMMUNICATION, gpu_classes
from tracelens_graph.analyses.modelled import arguments_of, modelled
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb, rows_of_kind
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import Context, Estimate, OpModel
from tracelens_graph.schema import Kind

_WRAPPER = "autograd::engine::evaluate_function: "
_LEVELS = 5
"""How far above a backward op the call of the autograd engine is looked for."""


@dataclass
class Unified:
    """Which op each GPU event is given to.

    Attributes:
        owner: per GPU event of the graph, in the order of `core.gpu_rows`, the row of the op; -1 for communication that
            is in no modelled op, for launches outside of ops, and for events without a launch.
        rows: the ops that GPU events are given to, ascending.
        costs: per such op its estimate, None without a model that applies.
        reasons: per such op why it has none; empty if it has one.
        from_forward: per such op whether the estimate is that of a forward op's backward pass.
    """

    owner: np.ndarray
    rows: np.ndarray
    costs: list[Cost | None]
    reasons: list[str]
    from_forward: np.ndarray


def unified(core: Core, models: Mapping[str, OpModel]) -> Unified:
    """Give every GPU event to one op.

    From the outermost op inwards, the first of these that covers the event: an op whose model applies; a backward op
    that is the only one its autograd call launches work by, if the model of its forward op knows the backward pass;
    an op that launches work itself and has no op with a model below it, unless that work is communication.
    """
    c, found = core.columns, modelled(core, models)
    ops = rows_of_kind(c, (Kind.Op,))
    place = np.full(len(c) + 1, -1, np.int64)
    place[ops] = np.arange(len(ops))
    applies = np.zeros(len(ops), bool)
    applies[place[found.rows[found.applies]]] = True
    running = np.concatenate(([0], np.cumsum(applies)))
    below = running[np.searchsorted(ops, c.last[ops], "right")] - running[np.arange(1, len(ops) + 1)] > 0

    gpu = core.gpu_rows
    launched = c.owner[gpu] >= 0
    communicates = gpu_classes(core, gpu) == COMMUNICATION
    direct = np.zeros(len(ops), bool)
    direct[place[c.owner[gpu[launched]]]] = True
    direct[place[c.owner[gpu[launched & communicates]]]] = False
    backward = _sole_backward(core, models, ops[direct & ~below & ~applies], ops[direct])
    chosen = applies | (direct & ~below)
    owner = _outermost(c.last, ops[chosen], gpu)
    owner = np.where(launched, owner, -1)
    # What lies beside the ops that were found: launched by an op that has models below it.
    rest = (owner < 0) & launched & ~communicates
    owner[rest] = c.owner[gpu[rest]]
    rows = np.unique(owner[owner >= 0])
    at = np.searchsorted(found.rows, rows)
    costs: list[Cost | None] = []
    reasons: list[str] = []
    for row, position in zip(rows.tolist(), at.tolist(), strict=True):
        has_model = position < len(found.rows) and found.rows[position] == row
        if row in backward:
            cost, reason = backward[row]
        elif has_model:
            cost, reason = found.cost(position), found.reason(position)
        else:
            cost, reason = None, "no model for this operation"
        costs.append(cost)
        reasons.append(reason)
    return Unified(owner, rows, costs, reasons, np.isin(rows, list(backward)))


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


def _sole_backward(
    core: Core, models: Mapping[str, OpModel], candidates: np.ndarray, launching: np.ndarray
) -> dict[int, tuple[Cost | None, str]]:
    """Backward ops whose cost follows from their forward op, with the estimate or why there is none.

    Args:
        core: the graph.
        models: op name -> model.
        candidates: rows of ops that launch work and have no model of their own.
        launching: rows of all ops that launch work, ascending.
    """
    c, names = core.columns, core.names
    wrappers = {code: name.removeprefix(_WRAPPER) for code, name in enumerate(names) if name.startswith(_WRAPPER)}
    if not wrappers:
        return {}
    above = climb(c.parent, c.parent[candidates], c.kind == Kind.Op)
    named = np.array([wrappers.get(code, "") for code in range(len(names))], object)[c.name[above]]
    own = np.array(names, object)[c.name[candidates]]
    low, high = np.searchsorted(launching, above), np.searchsorted(launching, c.last[above], "right")
    found: dict[int, tuple[Cost | None, str]] = {}
    made: dict[tuple[int, int], tuple[Cost | None, str]] = {}
    for row in candidates[(above >= 0) & (named == own) & (high - low == 1)].tolist():
        for forward in core.autograd.forward_of(row)[:1]:
            model = models.get(names[c.name[forward]])
            if model is not None and model.backward is not None:
                key = (int(c.name[forward]), int(c.argset[forward]))
                if key not in made:
                    made[key] = _estimate(model.backward, arguments_of(core, forward))
                found[row] = made[key]
    return found


def _estimate(formula: Estimate, arguments: Arguments) -> tuple[Cost | None, str]:
    try:
        return formula(arguments, Context()), ""
    except CannotModel as reason:
        return None, str(reason)
