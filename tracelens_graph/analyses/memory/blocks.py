"""Blocks of memory: allocations with their releases, and whose work it was to allocate them.

An allocation belongs to the innermost call of its thread that is going on then. From there its op, its module and its
pass follow as they do for GPU work (`analyses.places.attribution`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.analyses.memory.instants import NO_VALUE, instants_of, releases
from tracelens_graph.analyses.places.attribution import NO_MODULE, OPTIMIZER, charged, optimizer_step
from tracelens_graph.analyses.places.modules import PASSES, paths_of, place_tree
from tracelens_graph.analyses.shared.gpu_work import fitting_names
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.membership import calls_at
from tracelens_graph.graph.recompute import ENGINE
from tracelens_graph.graph.traversals import climb
from tracelens_graph.graph.window import Window, whole_window
from tracelens_graph.schema import Kind

_FORWARD, _BACKWARD, _OPTIMIZER = range(len(PASSES))


@dataclass(frozen=True)
class Blocks:
    """Blocks that were allocated in the recording at a known address, device by device in the order of time.

    All numbers but `before` are positions among the instants of the trace, which are in the same order: a block is
    alive from `begin` on, and no longer at `end`.

    Attributes:
        begin: its allocation.
        end: the next change at its address; -1 without one.
        is_released: whether that is its release. Else its release was not recorded, and the address given out again.
        bytes: its size.
        before: positions of releases of blocks that were allocated before the recording.
    """

    begin: np.ndarray
    end: np.ndarray
    is_released: np.ndarray
    bytes: np.ndarray
    before: np.ndarray

    def __len__(self) -> int:
        return len(self.begin)

    def alive_at(self, position: int, device: slice) -> np.ndarray:
        """Which blocks are alive from a position on, ascending.

        Args:
            position: position of an instant.
            device: where the instants of its device stand.
        """
        low, high = np.searchsorted(self.begin, (device.start, position + 1)).tolist()
        end = self.end[low:high]
        return np.asarray(low + np.flatnonzero((end < 0) | (end > position)))


def blocks_of(core: Core) -> Blocks:
    """The blocks of a trace, found the first time only."""
    return whole_window(core).once(_blocks)


def _blocks(w: Window) -> Blocks:
    found = instants_of(w.core)
    begins, ends, before = [], [], []
    for _, here in found.of_devices():
        change = found.change[here]
        allocation, following = releases(found.address[here], change)
        known = found.address[here] != NO_VALUE
        begin = np.flatnonzero(known & (change > 0))
        begins.append(begin + here.start)
        end = following[begin]
        ends.append(np.where(end >= 0, end + here.start, -1))
        before.append(np.flatnonzero(known & (change < 0) & (allocation < 0)) + here.start)
    none = [np.zeros(0, np.int64)]
    begin, end = np.concatenate(none + begins), np.concatenate(none + ends)
    # Without instants there is none that index -1 could read.
    is_released = (end >= 0) & (found.change[end] < 0) if len(found) else end >= 0
    return Blocks(begin, end, is_released, found.change[begin], np.concatenate(none + before))


@dataclass(frozen=True)
class Whose:
    """Whose work each instant of a trace is, in the order of `Instants`.

    Attributes:
        call: row of the innermost call around it, -1 for none.
        op: row of the outermost of the ops around each other and it, -1 for none.
        module: row of the module call whose work it is, or of the step of an optimizer; -1 for neither.
        passes: 0 for forward, 1 for backward, 2 for the optimizer; see `analyses.places.modules.PASSES`.
        path: place of its module path in `paths`.
        paths: paths of modules, then `(no module)` and `(optimizer)`.
    """

    call: np.ndarray
    op: np.ndarray
    module: np.ndarray
    passes: np.ndarray
    path: np.ndarray
    paths: list[str]


def whose_work(core: Core) -> Whose:
    """Whose work the instants of a trace are, found the first time only."""
    return whole_window(core).once(_whose)


def _whose(w: Window) -> Whose:
    core, c = w.core, w.core.columns
    rows = instants_of(core).rows
    call = calls_at(c, rows)
    work = np.where(call >= 0, call, rows)
    tree = place_tree(w)
    frame, backward = charged(core, tree.frames, work)
    step = np.where(frame >= 0, -1, optimizer_step(core, work))
    module = np.where(frame >= 0, np.append(tree.frames, -1)[frame], step)
    paths = [*paths_of(tree), NO_MODULE, OPTIMIZER]
    path = np.where(frame >= 0, np.append(tree.place, -1)[frame], len(paths) - 1 - (step < 0))
    backward = backward | ((module < 0) & _of_autograd(core, call))
    passes = np.where(step >= 0, _OPTIMIZER, np.where(backward, _BACKWARD, _FORWARD))
    return Whose(call, outermost_op(core, call), module, passes, path, paths)


def outermost_op(core: Core, calls: np.ndarray) -> np.ndarray:
    """For each call the outermost of the ops that are right around each other and it, itself included; -1 for none."""
    c = core.columns
    is_op = np.append(c.kind == Kind.Op, False)
    # The last entries are those of row -1, which is not an op: an op without a parent is an outermost one.
    return climb(c.parent, calls, is_op & ~np.append(is_op[c.parent], True))


def _of_autograd(core: Core, calls: np.ndarray) -> np.ndarray:
    """Which calls a backward op, or autograd itself, makes, and not for a recomputation."""
    c = core.columns
    is_backward = np.zeros(len(c) + 1, bool)
    is_backward[autograd_of(core).backward] = True
    evaluates = fitting_names(core, lambda name: name.startswith(ENGINE))
    if len(c):
        is_backward[:-1] |= (c.kind == Kind.Op) & evaluates[c.name]
    again = np.append(autograd_of(core).recompute, False)
    return np.asarray((climb(c.parent, calls, is_backward) >= 0) & ~again[calls])
