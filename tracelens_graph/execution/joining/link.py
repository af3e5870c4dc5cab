"""What joins a graph with the execution trace of the same run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.utils.texts import file_name

if TYPE_CHECKING:
    from tracelens_graph.execution.lineage import Lineage


@dataclass(eq=False, repr=False)
class Link:
    """Nodes of a graph and those of an execution trace that stand for the same operator or range.

    Attributes:
        execution: the execution trace.
        node_of_row: for each row of the graph the row of its node in the execution trace, -1 for none.
        row_of_node: for each row of the execution trace the row of its node in the graph, -1 for none.
        method: how they were joined, for people.
        equal_names_percent: share of the pairs whose names are equal.
        unjoined: why -> number of ops and annotations of the graph, and nodes of the execution trace, without partner.
        is_same_process: whether both name one process; False for two runs of a program, None if one names none.
    """

    execution: ExecutionTrace
    node_of_row: np.ndarray
    row_of_node: np.ndarray
    method: str
    equal_names_percent: float
    unjoined: Mapping[str, int]
    is_same_process: bool | None = None

    def __repr__(self) -> str:
        return f"<Link: {self.summary}>"

    @property
    def summary(self) -> str:
        """One line: how many nodes are joined and how, and why others are not."""
        joined, nodes = int((self.row_of_node >= 0).sum()), int(self.execution.is_op.sum())
        alone = "; ".join(f"{why} ({count:,})" for why, count in self.unjoined.items())
        return (
            f"linked with {file_name(self.execution.info.source)}: {joined:,} of {nodes:,} nodes by {self.method}, "
            f"{self.equal_names_percent:.1f} % of the names are equal"
            + ("; two runs of one program: their process ids differ" if self.is_same_process is False else "")
            + (f"; not joined: {alone}" if alone else "")
        )

    @cached_property
    def lineage(self) -> Lineage:
        """The tensors and storages of the execution trace: who made, read and wrote each."""
        from tracelens_graph.execution.lineage import lineage

        return lineage(self.execution)
