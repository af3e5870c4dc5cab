"""Which op a call is: that of its name, but where its arguments, or the program of an instruction, make it another."""

from __future__ import annotations

import numpy as np

from tracelens_graph.graph.arguments import instructions_of
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.core import Core
from tracelens_graph.op_table import WITH_TWO_TENSORS
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Rows


class OpNames:
    """Names that give calls their categories: their own, but where arguments make them another op.

    Attributes:
        names: those of the graph, and of the ops that calls may be.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self.names = [*core.names, *WITH_TWO_TENSORS.values()]
        self._instructions = {code: facts.table_name for code, facts in instructions_of(core).items()}
        kinds = dict.fromkeys(self._instructions.values())
        self._kinds = dict(zip(kinds, range(len(self.names), len(self.names) + len(kinds)), strict=True))
        self.names += kinds

    def codes(self, rows: Rows) -> Codes:
        """For each call a position in `names`; instructions have that of their kind."""
        c, found = self._core.columns, self.called(rows)
        if self._instructions:
            kind = np.full(len(self._core.argsets) + 1, -1, np.int32)
            for code, name in self._instructions.items():
                kind[code] = self._kinds[name]
            kinds = kind[c.argset[rows]]
            found = np.where((kinds >= 0) & (c.kind[rows] == Kind.Op), kinds, found)
        return found

    def called(self, rows: Rows) -> Codes:
        """The same with the names of instructions."""
        core, c = self._core, self._core.columns
        found = c.name[rows].copy()
        for further, op in enumerate(WITH_TWO_TENSORS):
            if op not in core.names:
                continue
            called = np.flatnonzero(c.name[rows] == core.names.index(op))
            sets, which = distinct(c.argset[rows[called]])
            pairs = [code >= 0 and Arguments(*core.argsets[code]).tensors_at(0, 1) for code in sets.tolist()]
            found[called[np.array(pairs, bool)[which]]] = len(core.names) + further
        return found
