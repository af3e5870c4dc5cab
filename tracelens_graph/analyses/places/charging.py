"""Which module a GPU event belongs to, and whether as forward or backward work; and what is an optimizer's.

One rule for every table of modules: a GPU event belongs to what is nearest above its launch,

* a module call: forward work of that module. This includes a forward pass that checkpointing runs again: it belongs to
  the modules whose frames surround it, and these take the place of the calls that they repeat.
* a backward op whose forward op was called in a module: backward work of the innermost module around that forward op.
  Of several forward ops in modules the first counts: the original one, not its recomputation.

What has neither above it is in no module. There, what `Optimizer.step` launches is told from the rest: PyTorch marks
every step of an optimizer, whose fused kernels work on parameters of many modules at once.
"""

from __future__ import annotations

import numpy as np

from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import climb, innermost_at, nearest_above, rows_of_kind
from tracelens_graph.schema import Kind

OPTIMIZER = "(optimizer)"
NO_MODULE = "(no module)"

_STEP = "Optimizer.step#"
"""How PyTorch's range over the step of an optimizer begins; old versions write it as an op."""


def module_calls(core: Core) -> np.ndarray:
    """Rows of module calls, ascending."""
    return rows_of_kind(core.columns, (Kind.Module,))


def of_optimizer(core: Core, rows: np.ndarray) -> np.ndarray:
    """For each row whether it is work of the step of an optimizer."""
    return optimizer_step(core, rows) >= 0


def optimizer_step(core: Core, rows: np.ndarray) -> np.ndarray:
    """For each row that of the optimizer's step whose work it is, -1 for none: a range, or in old versions an op."""
    c = core.columns
    named = np.fromiter((name.startswith(_STEP) for name in (*core.names, "")), bool, len(core.names) + 1)
    if not named.any():
        return np.full(len(rows), -1, np.int64)
    step = named[c.name]
    ranges = climb(core.annotation, core.annotation[rows], step)
    return np.where(ranges >= 0, ranges, climb(c.parent, c.parent[rows], step & (c.kind == Kind.Op)))


def frames_above(core: Core, frames: np.ndarray) -> np.ndarray:
    """For each module call the position of the one it stands under, -1 at the top.

    A recomputed call stands where the last call of the same name before it stood, in its forward pass.
    """
    c = core.columns
    above = _position(frames, nearest_above(c, frames, (Kind.Module,)))
    if not len(frames):
        return above
    again = autograd_of(core).recompute[frames]
    tops = np.flatnonzero(again & ~((above >= 0) & again[above]))
    once = np.flatnonzero(~again)
    moments, moment = np.unique(c.start_ns[frames], return_inverse=True)
    key = c.name[frames].astype(np.int64) * len(moments) + moment
    once = once[np.argsort(key[once], kind="stable")]
    # Strictly before, so that going up always leads back in time and ends.
    at = np.searchsorted(key[once], key[tops], "left") - 1
    tops, origin = tops[at >= 0], once[at[at >= 0]]
    same = c.name[frames[tops]] == c.name[frames[origin]]
    above[tops[same]] = above[origin[same]]
    return above


def _position(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Positions of wanted rows among ascending rows; -1 stays -1."""
    return np.where(wanted >= 0, np.searchsorted(rows, wanted), -1)


def charged(core: Core, frames: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row the position of the module call it is charged to, -1 for none, and whether as backward work.

    Rows are GPU events or ops. They are charged to the nearest "stop" above them. Stops are module calls, which are
    charged themselves, and backward ops whose forward op was called in a module, which is charged:

        Linear_0 { aten::linear { launch { k1 } } }           k1: Linear_0, forward
        autograd thread: AddmmBackward0 { launch { k2 } }     k2: Linear_0, backward, if its forward op is that linear
        optimizer: aten::add_ { launch { k3 } }               k3: -1
    """
    if not len(frames):
        return np.full(len(rows), -1, np.int64), np.zeros(len(rows), bool)
    c = core.columns
    backward, called_in = _backward_ops(core)
    stops = np.concatenate((frames, backward))
    charge = np.concatenate((np.arange(len(frames)), np.searchsorted(frames, called_in)))
    order = np.argsort(stops)
    stops, charge, is_backward = stops[order], charge[order], order >= len(frames)
    is_stop = np.zeros(len(c), bool)
    is_stop[stops] = True
    enclosing = _position(stops, climb(c.parent, c.parent[stops], is_stop))
    nearest = innermost_at(stops, c.last[stops].astype(np.int64) + 1, enclosing, rows)
    return np.where(nearest >= 0, charge[nearest], -1), (nearest >= 0) & is_backward[nearest]


def _backward_ops(core: Core) -> tuple[np.ndarray, np.ndarray]:
    """Rows of backward ops with a forward op in a module, and the row of that module's call."""
    c, forward, backward = core.columns, autograd_of(core).forward, autograd_of(core).backward
    module = nearest_above(c, forward, (Kind.Module,))
    inside = np.flatnonzero(module >= 0)
    f = forward[inside]
    inside = inside[np.lexsort((f, c.start_ns[f], backward[inside]))]
    ops, first = np.unique(backward[inside], return_index=True)
    return ops, module[inside[first]]
