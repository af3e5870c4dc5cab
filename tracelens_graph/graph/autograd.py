"""Forward ops and their backward ops; recomputation of activations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core


@dataclass(frozen=True)
class Autograd:
    """Links between the passes of a training step.

    Attributes:
        forward, backward: rows of linked pairs, many to many.
        recompute: per row of the graph whether it belongs to a recomputation of activations.
    """

    forward: np.ndarray
    backward: np.ndarray
    recompute: np.ndarray

    def backward_of(self, row: int) -> list[int]:
        """Rows of the backward ops of a forward op."""
        return sorted(self.backward[self.forward == row].tolist())

    def forward_of(self, row: int) -> list[int]:
        """Rows of the forward ops of a backward op."""
        return sorted(self.forward[self.backward == row].tolist())


def link_autograd(core: Core) -> Autograd:
    """TO BE WRITTEN by its owner."""
    none = np.zeros(0, np.int64)
    return Autograd(none, none, np.zeros(len(core.columns), bool))
