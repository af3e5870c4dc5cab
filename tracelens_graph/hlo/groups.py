"""Who takes part in collectives together, where a program writes that in short.

XLA writes groups of many devices as rows of the numbers from 0 on, in a shape whose dimensions change places. A few
bytes stand for any number of devices then, so groups are made when they are asked for, and no more of them than that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tracelens_graph.hlo.shapes import product

Groups = tuple[tuple[int, ...], ...]

_MOST_DEVICES = 1 << 17
"""Devices of a job that are listed; what names more is damaged."""


class ShortGroups(NamedTuple):
    """Groups that are written in short.

    Attributes:
        rows, width: number of groups, and of the members of each.
        shape: sizes of the dimensions that the numbers from 0 on are put into, row by row.
        order: these dimensions in the order in which they are read, row by row; empty for their own.
    """

    rows: int
    width: int
    shape: tuple[int, ...]
    order: tuple[int, ...] = ()

    def groups(self, most: int = _MOST_DEVICES) -> Groups:
        """The groups, so many at most, with as many members at most; none of what is damaged."""
        order = self.order or tuple(range(len(self.shape)))
        if min(self.rows, self.width, *self.shape) <= 0 or self.rows * self.width > _MOST_DEVICES:
            return ()
        if product(self.shape) != self.rows * self.width or sorted(order) != list(range(len(self.shape))):
            return ()
        # Dimensions of one move nothing, and numpy has no room for many.
        kept = [at for at, size in enumerate(self.shape) if size > 1]
        place = {at: i for i, at in enumerate(kept)}
        numbers = np.arange(self.rows * self.width).reshape([self.shape[at] for at in kept])
        moved = numbers.transpose([place[at] for at in order if at in place]).reshape(self.rows, self.width)
        return tuple(map(tuple, moved[:most, :most].tolist()))
