"""A place of a program in which two traces are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracelens_graph.analyses.alignment.contexts import kernels_of
from tracelens_graph.analyses.alignment.divergence_points import Point
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.layers import Among


@dataclass(frozen=True)
class Place:
    """Points at the same place of the program, such as one op of all equal layers.

    Attributes:
        modules: the classes of the modules around all of it, the outermost first; of the side that knows more of them.
        is_backward: whether it is backward work of the innermost of these.
        names: what is called there, on both sides; ops, or short names of what was launched without one.
        points: the points.
        ns: sums of the durations of GPU events on both sides.
        kernels: on both sides the names of GPU events, with how many and how long.
        whole_modules: how many of each class, at least, one side has and the other has not; 0 where it is other work.
        among: which of many equal layers the points stand in where they stand in few, or which of them take another
            time; None for all alike.
    """

    modules: tuple[str, ...]
    is_backward: bool
    names: tuple[str, str]
    points: Sequence[Point]
    ns: tuple[int, int]
    kernels: tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]
    whole_modules: int = 0
    among: Among | None = None

    def with_points(self, points: Sequence[Point], sides: tuple[Forest, Forest]) -> Place:
        """The same with other points, and what follows from them."""
        ns = sum(point.ns[0] for point in points), sum(point.ns[1] for point in points)
        first, second = (
            kernels_of(side, [leaf for point in points for leaf in point.leaves[k]]) for k, side in enumerate(sides)
        )
        return replace(self, points=points, ns=ns, kernels=(first, second))

    @property
    def times(self) -> int:
        """How often the program comes there: neighbours that one side alone has are one point."""
        return self.whole_modules or len(self.points)

    @property
    def change_ns(self) -> int:
        """How much more time the second side takes."""
        return self.ns[1] - self.ns[0]

    @property
    def is_alike(self) -> bool:
        """Whether both sides run kernels of the same names, in the same calls, there."""
        return (
            not self.points[0].is_moved and self.names[0] == self.names[1] and {*self.kernels[0]} == {*self.kernels[1]}
        )

    def leaves(self, side: int) -> list[int]:
        """Leaves of all points on one side, point after point."""
        return [leaf for point in self.points for leaf in point.leaves[side]]

    def events(self, side: int) -> int:
        """Number of GPU events of one side."""
        return sum(count for count, _ in self.kernels[side].values())
