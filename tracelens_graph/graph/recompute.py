"""Activation checkpointing: which events recompute a forward pass, and which forward op each one repeats.

PyTorch checkpoints in two ways. Non-reentrant: the first backward op that asks for a saved tensor runs the
forward pass of its region again, inside itself. Reentrant: the forward pass runs without autograd in one op
`CheckpointFunction`; `CheckpointFunctionBackward` runs it again with autograd, and then its backward pass.
Regions are known by the Python frame that recomputes, by the name of the reentrant op, or, without Python
stacks, by the op `_NoopSaveInputs` that begins every non-reentrant region.

Example of a non-reentrant region with one linear layer. Numbers are sequence numbers of autograd:

    forward   linear #7                                                     keeps nothing
    backward  AddmmBackward0 #7 { recompute_fn { linear #9 } }              linear #9 is recomputed
              AccumulateGrad ...

`linear #9` is the twin of `linear #7`. Both lead to `AddmmBackward0`: the first by its number, its twin because the op
names of the two runs of the region agree from first to last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.schema import PYTHON_KINDS, Kind
from tracelens_graph.utils.arrays import Mask, Rows

_REENTRANT = "CheckpointFunctionBackward"
ENGINE = "autograd::engine::evaluate_function"
"""How the ops begin in which PyTorch's engine runs a backward op, and what goes with it: `...: AddmmBackward0`."""

_REGION_START = "_NoopSaveInputs"


@dataclass(frozen=True)
class Passes:
    """What is known of the two passes before recomputation is looked at.

    Attributes:
        makers: rows of forward ops that made an autograd node, by thread and sequence number.
        runners: rows of backward ops that ran one, ascending.
        forward, backward: rows of linked pairs.
    """

    makers: Rows
    runners: Rows
    forward: Rows
    backward: Rows


@dataclass(frozen=True)
class Recomputation:
    """Recomputed events, and the links that follow from them.

    Attributes:
        mask: per row of the graph whether it is recomputed.
        forward, backward: rows of further pairs: the op that was run twice, in the pass that had none of its own.
    """

    mask: Mask
    forward: Rows
    backward: Rows


def recomputation(core: Core, passes: Passes) -> Recomputation:
    """Mark what is recomputed, and give each op of a checkpointed region the backward op of its twin.

    Twins are linked only where the op names of the two runs of the region agree from first to last.
    """
    return _Finder(core, passes).result()


class _Finder:
    """Goes over the regions of one trace."""

    def __init__(self, core: Core, passes: Passes) -> None:
        self._columns = core.columns
        self._names = core.names
        self._passes = passes
        self._regions: list[tuple[int, int]] = []
        self._twins: list[tuple[int, int]] = []
        self._backward_of: dict[int, list[int]] = {}
        self._forward_of: dict[int, int] = {}

    def result(self) -> Recomputation:
        """Marks and links of all regions."""
        c = self._columns
        frames = self._rows_named("torch/utils/checkpoint.py", "recompute_fn", kinds=PYTHON_KINDS)
        reentrant = self._rows_named(_REENTRANT, kinds=(Kind.Op,))
        reentrant = reentrant[[not self._name(row).startswith(ENGINE) for row in reentrant.tolist()]]
        holders = self._holders(frames, reentrant)
        pairs: list[tuple[int, int]] = []
        if len(frames) or len(reentrant) or len(holders):
            makers = self._passes.makers
            by_row = np.argsort(makers)
            self._makers_by_row = makers[by_row], by_row
            self._maker_name, self._maker_thread = c.name[makers], c.thread[makers]
            self._ops = np.flatnonzero(c.kind == Kind.Op)
            for forward, backward in zip(self._passes.forward.tolist(), self._passes.backward.tolist(), strict=True):
                self._backward_of.setdefault(forward, []).append(backward)
                self._forward_of[backward] = forward
            for frame, op in zip(frames.tolist(), nearest_above(c, frames, (Kind.Op,)).tolist(), strict=True):
                self._regions.append((frame, int(c.last[frame])))
                self._match_nodes(op, frame, int(c.last[frame]))
            for op in holders.tolist():
                self._without_frames(op)
            # Inner regions first: what they add to an outer region's recomputed ops goes on to the originals.
            for op in reentrant[::-1].tolist():
                self._reentrant(op)
            pairs = [(op, back) for op, twin in self._twins for back in self._backward_of.get(twin, ())]
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        return Recomputation(self._mask(), ends[:, 0], ends[:, 1])

    def _name(self, row: int) -> str:
        return self._names[self._columns.name[row]]

    def _rows_named(self, *parts: str, kinds: tuple[Kind, ...]) -> np.ndarray:
        codes = [code for code, name in enumerate(self._names) if all(part in name for part in parts)]
        if not codes:
            return np.zeros(0, np.int64)
        return np.flatnonzero(np.isin(self._columns.name, codes) & np.isin(self._columns.kind, kinds))

    def _mask(self) -> Mask:
        change = np.zeros(len(self._columns) + 1, np.int64)
        for first, last in self._regions:
            change[first] += 1
            change[last + 1] -= 1
        return np.cumsum(change)[:-1] > 0

    def _holders(self, frames: Rows, reentrant: Rows) -> np.ndarray:
        """Backward ops with forward ops inside that made nodes, and no other sign of recomputation."""
        runners = self._passes.runners
        if _REGION_START not in self._names:
            return runners[:0]

        def holds(rows: Rows) -> Mask:
            rows = np.sort(rows)
            return np.searchsorted(rows, self._columns.last[runners], "right") > np.searchsorted(rows, runners, "right")

        return runners[holds(self._passes.makers) & ~holds(frames) & ~np.isin(runners, reentrant)]

    def _match_nodes(self, op: int, first: int, last: int, region_start: bool = False) -> bool:
        """Pair the nodes made in the rows first..last with those of the region that `op` is the backward of.

        The original region is the run of nodes around the forward op of `op` whose ops have the same names. Where
        there are several, it is the one that begins right after `_NoopSaveInputs`; `region_start` insists on it.

        Returns:
            Whether there is exactly one such run.
        """
        makers = self._passes.makers
        around = self._places(forward := self._forward_of.get(op, -1), forward)
        again = self._places(first, last)
        # Makers are by thread and number: a gap means that something outside of the region made a node, too.
        if not len(again) or not len(around) or again[-1] - again[0] != len(again) - 1:
            return False
        begin, length = int(again[0]), len(again)
        runs = self._equal_runs(begin, length, int(around[0]), region_start)
        thread, end = self._maker_thread, begin + length
        if not runs and length > 1 and (end == len(makers) or thread[end] != thread[end - 1]):
            # The last number of a thread was perhaps never given to a node: it may be missing from the original.
            length -= 1
            runs = self._equal_runs(begin, length, int(around[0]), region_start)
        if len(runs) != 1:
            return False
        original = makers[runs[0] : runs[0] + length]
        self._twins += zip(makers[begin : begin + length].tolist(), original.tolist(), strict=True)
        return True

    def _places(self, first: int, last: int) -> np.ndarray:
        """Positions in `makers` of those in the rows first..last, ascending."""
        low, high = np.searchsorted(self._makers_by_row[0], (first, last + 1))
        return np.sort(self._makers_by_row[1][low:high])

    def _equal_runs(self, first: int, length: int, around: int, region_start: bool) -> list[int]:
        """Where runs of makers begin that hold the maker `around` and are named as `length` makers from `first` on."""
        name, thread = self._maker_name, self._maker_thread
        again = name[first : first + length]
        runs = []
        for begin in (around - np.flatnonzero(again == name[around])).tolist():
            end = begin + length
            inside = begin >= 0 and end <= len(name) and thread[begin] == thread[end - 1] == thread[around]
            # The run at `first` is equal to itself, and no original.
            if inside and begin != first and np.array_equal(name[begin:end], again):
                runs.append(begin)
        start = self._names.index(_REGION_START) if _REGION_START in self._names else -1
        at_start = [begin for begin in runs if begin and name[begin - 1] == start]
        return at_start if at_start or region_start else runs

    def _without_frames(self, op: int) -> None:
        """A non-reentrant region without a Python frame."""
        outer, _ = self._outer_ops(op)
        numbered = np.flatnonzero(self._columns.sequence[outer] >= 0)
        if len(numbered):
            first, last = int(outer[numbered[0]]), int(self._columns.last[outer[numbered[-1]]])
            if self._match_nodes(op, first, last, region_start=True):
                self._add_region(op, first, last)

    def _reentrant(self, op: int) -> None:
        """The region that a `CheckpointFunctionBackward` runs again, up to its nested backward pass."""
        c = self._columns
        again, nested = self._outer_ops(op)
        again = again[again < nested]
        forward = self._forward_of.get(op, -1)
        original = self._outer_ops(forward)[0] if forward >= 0 else again[:0]
        count = len(original)
        if 0 < count <= len(again) and np.array_equal(c.name[original], c.name[again[-count:]]):
            again = again[-count:]
            for once, twice in zip(original.tolist(), again.tolist(), strict=True):
                self._match_subtrees(once, twice)
        else:
            again = again[np.maximum.accumulate(c.sequence[again] >= 0)]
        if len(again):
            self._add_region(op, int(again[0]), int(c.last[again[-1]]))

    def _match_subtrees(self, once: int, twice: int) -> None:
        """Give the ops in `once` the backward ops of those in `twice`, if both call the same ops."""
        name, last = self._columns.name, self._columns.last
        before, after = (self._ops[slice(*np.searchsorted(self._ops, (row, last[row] + 1)))] for row in (once, twice))
        if not np.array_equal(name[before], name[after]):
            before, after = before[:1], after[:1]
        for op, twin in zip(before.tolist(), after.tolist(), strict=True):
            if twin in self._backward_of:
                self._twins.append((op, twin))
                self._backward_of.setdefault(op, []).extend(self._backward_of[twin])

    def _outer_ops(self, op: int) -> tuple[np.ndarray, int]:
        """Rows of the ops that an op calls without another op in between; row of the backward pass in it, if any."""
        c = self._columns
        low, high = np.searchsorted(self._ops, (op + 1, c.last[op] + 1))
        inside = self._ops[low:high]
        backward = inside[c.forward_thread[inside] != -1]
        outer = inside[nearest_above(c, inside, (Kind.Op,)) == op]
        return outer, int(backward[0]) if len(backward) else len(c)

    def _add_region(self, op: int, first: int, last: int) -> None:
        """Mark the rows first..last, and the frames below `op` that hold no other ops than these."""
        c = self._columns
        low, high = np.searchsorted(self._ops, (first, last + 1))

        def outermost(row: int) -> int:
            while (above := int(c.parent[row])) > op:
                a, b = np.searchsorted(self._ops, (above, c.last[above] + 1))
                if a < low or b > high:
                    break
                row = above
            return row

        end = int(self._ops[high - 1])
        self._regions.append((outermost(first), max(last, int(c.last[outermost(end)]))))
