"""Two traces side by side by structure: where their call trees part, and what each difference costs."""

from __future__ import annotations

from functools import cached_property

from tracelens_graph.analyses.alignment.align import Alignment, align
from tracelens_graph.analyses.alignment.grouped_points import places_of
from tracelens_graph.analyses.alignment.host_work import comparable
from tracelens_graph.analyses.alignment.matches import Matches, matches_of
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.window import Window, window_of


class Diff:
    """Two windows, aligned.

    Attributes:
        a, b: the windows.
        names: what to call them.
    """

    def __init__(self, a: Window, b: Window, names: tuple[str, str] = ("A", "B")) -> None:
        self.a, self.b, self.names = a, b, names

    def called(self, names: tuple[str, str]) -> Diff:
        """The same under other names."""
        found = Diff(self.a, self.b, names)
        found.__dict__ |= {name: getattr(self, name) for name in ("alignment", "places", "matches")}
        return found

    @cached_property
    def alignment(self) -> Alignment:
        """Which GPU work of one is which of the other."""
        return align(self.a, self.b)

    @property
    def ns(self) -> tuple[int, int]:
        """Sums of the durations of all GPU events, of both."""
        first, second = (int(side.ns.sum()) for side in self.alignment.sides)
        return first, second

    @property
    def change_ns(self) -> int:
        """How much more GPU time the second side takes."""
        return self.ns[1] - self.ns[0]

    @cached_property
    def places(self) -> list[Place]:
        """Where they differ, the largest change first."""
        return places_of(self.alignment)

    @cached_property
    def matches(self) -> Matches:
        """Which rows of the two graphs belong together."""
        found = self.alignment
        return matches_of(found.sides, (found.nodes[0], found.node_kinds[0]), (found.leaves[0], found.leaf_kinds[0]))

    def match(self, node: Node) -> Node | None:
        """The node of the other side that a node of either belongs to, the first of several; None without one.

        Raises:
            AnalysisError: it is a node of neither graph.
        """
        windows = self.a, self.b
        sides = [side for side, window in enumerate(windows) if getattr(node, "graph", None) is window.core]
        if not sides:
            raise AnalysisError(f"{node!r} is a node of neither graph")
        for side in sides:
            if (row := self.matches.partner(side, node.row)) >= 0:
                return Node(windows[1 - side].core, row)
        return None


def diff(a: Core | Window, b: Core | Window, names: tuple[str, str] = ("A", "B")) -> Diff:
    """Compare two graphs, or windows of them, by structure.

    Raises:
        AnalysisError: one of them holds neither GPU work nor ops.
    """
    first, second = comparable(window_of(a), window_of(b))
    return Diff(first, second, names)
