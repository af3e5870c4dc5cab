"""How many elements of arrays a call makes, told by counting: the work of vectorised code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import changed


class Metered(np.ndarray):
    """An array that counts itself, and all that is cut from it or computed with it."""

    made = 0

    def __array_finalize__(self, source: object) -> None:
        Metered.made += self.size


def elements(call: Callable[[], object]) -> int:
    """How many elements the arrays have that a call makes of metered ones."""
    Metered.made = 0
    call()
    return Metered.made


def metered(core: Core) -> Core:
    """A graph of its own with the same columns, all of them metered; nothing is known yet of what can be derived."""
    return changed(core, columns=Columns({name: array.view(Metered) for name, array in core.columns}))
