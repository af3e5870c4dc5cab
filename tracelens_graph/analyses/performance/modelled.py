"""Which ops of a graph have a performance model, and what it says of each call."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.arguments import instructions_of
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.op_table.hlo import INSTRUCTION
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import CallContext, OpModel
from tracelens_graph.perf.registry import model_named
from tracelens_graph.schema import Kind

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

    def cost(self, position: int) -> Cost | None:
        """The estimate for a row, by its position in `rows`."""
        code = int(self.code[position])
        return self.costs[code] if code >= 0 else None

    def reason(self, position: int) -> str:
        """Why the model of a row does not apply; empty if it does."""
        code = int(self.code[position])
        return "" if code >= 0 else self.reasons[-1 - code]


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
        told = np.isin(c.argset[ops], instructions)
        named |= dict.fromkeys(distinct(c.name[ops[told]])[0].tolist(), models.get(INSTRUCTION))
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
        _forward_code(core, rows, contextual),
    )
    costs: list[Cost] = []
    reasons: dict[str, int] = {}
    numbers = np.zeros(len(first), np.int64)
    for i, at in enumerate(first.tolist()):
        model = named[int(c.name[rows[at]])]
        assert model is not None
        context = context_of(core, int(rows[at]), int(low[at]), int(high[at])) if contextual[at] else CallContext()
        try:
            costs.append(model.estimate(arguments_of(core, int(rows[at])), context))
            numbers[i] = len(costs) - 1
        except CannotModel as reason:
            numbers[i] = -1 - reasons.setdefault(str(reason), len(reasons))
    return Modelled(core, rows, claiming[c.name[rows]], numbers[code], costs, list(reasons), named)


def arguments_of(core: Core, row: int) -> Arguments:
    """The recorded arguments of an op."""
    code = int(core.columns.argset[row])
    return Arguments(*core.argsets[code], instructions_of(core).get(code)) if code >= 0 else _NOTHING


def context_of(core: Core, row: int, low: int, high: int) -> CallContext:
    """What a model may know of a call; its GPU events are those from `low` to `high` in the graph's order."""
    c = core.columns
    kernels = tuple(core.names[code] for code in c.name[core.gpu_rows[low:high]].tolist())
    over, texts = int(core.annotation[row]), []
    while over >= 0:
        texts.append(core.names[c.name[over]])
        over = int(core.annotation[over])
    forward = autograd_of(core).forward_of(row) if "Backward" in core.names[c.name[row]] else []
    return CallContext(kernels, "\n".join(texts), arguments_of(core, forward[0]) if forward else None)


def _kernels_code(core: Core, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A number for the names of the GPU events from `low` to `high`, whatever their order."""
    # Sums of well mixed numbers: equal sums of different names are as unlikely as equal hashes.
    mixed = (np.arange(1, len(core.names) + 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) ^ np.uint64(2**63 - 25)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mixed[core.columns.name[core.gpu_rows]])))
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
    found: np.ndarray = np.where(over >= 0, core.columns.name[over].astype(np.int64) + 1, 0) if len(over) else over
    return found
