"""Where the layers of a forward pass begin and end.

Each attention is a layer's. The norm before the products that lead to it begins the layer. Most layers are then equal,
kernel for kernel; what is not, because kernels were lost or stand in another order, is cut anew so that it is as few
departures as possible from the layers that are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tracelens_graph.analyses.identification.families import Family
from tracelens_graph.analyses.identification.grammar import Slot, roles

FEWEST = 3
"""Layers that a pass must have: fewer repeats could be anything."""

_LOST, _EXTRA, _OTHER_NAME, _OUTSIDE = 2, 3, 1, 1
"""What departures from a layer cost: a kernel that is missing, an additional one, one of the same family but another
name; and a kernel that is left before the first layer, or behind the last."""

_OTHER_NORM = 3
"""The same of layers that begin with another norm than that behind the last layer."""

_MOST_CELLS = 1_500_000
"""Comparisons of kernels with kernels of layers that are made at most."""


@dataclass(frozen=True)
class Layer:
    """A layer of a pass.

    Attributes:
        first, last: its kernels are those from the first up to the last, which is not its own.
        slots: the place of each of them.
        cost: of its departures from layers that there are several of.
    """

    first: int
    last: int
    slots: Sequence[Slot]
    cost: float


def segments(names: Sequence[str], families: Sequence[Family]) -> list[Layer]:
    """The layers of a pass; [] where it has none."""
    anchors = _anchors(families)
    if len(anchors) < FEWEST:
        return []
    options = _options(families, anchors)
    products = _products(families, options, anchors)
    ways = [
        _cut_anew(names, families, _layers(families, anchors, options, count)) for count in (products, products + 1)
        if count == products or 2 * sum(count in way for way in options) >= len(options)
    ]  # fmt: skip
    last_norm = next(
        (name for name, family in zip(names[::-1], families[::-1], strict=True) if family == Family.norm), ""
    )

    def departures(layers: list[Layer]) -> float:
        outside = len(names) - sum(len(one.slots) for one in layers)
        # The norm behind the last layer is the one that begins the others.
        begins = Counter(names[one.first] for one in layers).most_common(1)[0][0]
        return sum(one.cost for one in layers) + outside + (_OTHER_NORM if begins != last_norm else 0)

    # A wrong norm at the beginning makes layers that are equal, too, but leaves more kernels before and behind them.
    best = min(ways, key=departures)
    # Norms are what parts a layer; where they are chains of elementwise kernels, the grammar cannot read it.
    begun = sum(families[one.first] == Family.norm for one in best)
    return best if 2 * begun >= len(best) else []


def _layers(
    families: Sequence[Family], anchors: Sequence[int], options: Sequence[dict[int, int]], products: int
) -> list[Layer]:
    """A layer around each attention, from the norm behind which this many products lead to it."""
    starts = []
    for before, anchor, ways in zip([-1, *anchors[:-1]], anchors, options, strict=True):
        nearest = min(ways, key=lambda count: (abs(count - products), count), default=None)
        starts.append(ways[nearest] if nearest is not None else max(before + 1, anchor - 1))
    bounds = [*starts, _end(families, anchors, starts)]
    return [
        Layer(first, last, roles(families[first:last], anchor - first), last - first)
        for (first, last), anchor in zip(pairwise(bounds), anchors, strict=True)
    ]


def _anchors(families: Sequence[Family]) -> list[int]:
    """Positions of the attention of each layer: the first of those that no product parts."""
    found: list[int] = []
    parted = True
    for at, family in enumerate(families):
        if family == Family.attention:
            if parted:
                found.append(at)
            parted = False
        elif family == Family.product:
            parted = True
    return found


def _options(families: Sequence[Family], anchors: Sequence[int]) -> list[dict[int, int]]:
    """Where each layer may begin: number of products between a norm and attention -> the last norm with as many."""
    options = []
    for before, anchor in zip([-1, *anchors[:-1]], anchors, strict=True):
        products = 0
        ways: dict[int, int] = {}
        for at in range(anchor - 1, before, -1):
            products += families[at] == Family.product
            if families[at] == Family.norm and products:
                ways.setdefault(products, at)
        options.append(ways)
    return options


def _products(families: Sequence[Family], options: Sequence[dict[int, int]], anchors: Sequence[int]) -> int:
    """How many products lead to attention in most layers.

    No other layer stands before the first one, so that the norm farthest from its attention is its own. It may be one
    less, if that norm or a product behind it is lost; if attention is, products of a whole layer stand between.
    """
    period = Counter(families[a:b].count(Family.product) for a, b in pairwise(anchors)).most_common(1)[0][0]
    first = max(options[0], default=0)
    return (first % period or first if period else first) or 1


def _end(families: Sequence[Family], anchors: Sequence[int], starts: Sequence[int]) -> int:
    """Behind the last layer: at the norm that would begin another one."""
    norms = [sum(f == Family.norm for f in families[a:b]) for a, b in zip(anchors, starts[1:], strict=False)]
    usual = Counter(norms).most_common(1)[0][0]
    for at in range(anchors[-1], len(families)):
        if families[at] == Family.norm:
            if not usual:
                return at
            usual -= 1
    return len(families)


def _cut_anew(names: Sequence[str], families: Sequence[Family], layers: list[Layer]) -> list[Layer]:
    """The layers, those that are like no other ones cut anew by those that are."""
    ways = [tuple(names[one.first : one.last]) for one in layers]
    counts = Counter(ways)
    usual = {way: replace(layers[ways.index(way)], cost=0) for way in _usual(counts)}
    if not usual:
        return layers
    shortest = min(len(way) for way in usual)
    clean = [replace(one, cost=0) for one, way in zip(layers, ways, strict=True) if way in usual]
    result: list[Layer] = []
    at = 0
    for one in [*clean, None]:
        until = one.first if one else len(names)
        odd = [
            other
            for other in layers
            if at <= other.first and other.last <= until and (not one or other.first != one.first)
        ]
        # A layer whose attention is lost stands at the beginning or the end and is no layer yet.
        if odd or ((not at or not one) and until - at > shortest / 2):
            stretch = _Stretch(names, families, at, until, not at, not one)
            result += stretch.cut(list(usual.values())) or odd
        if one:
            result.append(one)
            at = one.last
    return result


def _usual(counts: Counter[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Sequences of kernels of layers that are whole: not the pieces of more frequent ones that losses leave."""
    found: list[tuple[str, ...]] = []
    for way, count in counts.most_common():
        if count < 2:
            break
        if not any(4 * count <= counts[other] and _is_piece(way, other) for other in found):
            found.append(way)
    return found


def _is_piece(way: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether nearly all of a sequence stands, in its order, in three layers behind one another."""
    row = [0] * (3 * len(whole) + 1)
    for name in way:
        above = row
        row = [0]
        for at, other in enumerate((*whole, *whole, *whole)):
            row.append(max(above[at] + 1 if name == other else 0, above[at + 1], row[at]))
    return row[-1] > 0.9 * len(way)


@dataclass(frozen=True)
class _Stretch:
    """Kernels that are to be cut into layers.

    Attributes:
        names, families: of all kernels of the pass.
        first, last: the stretch is from the first up to the last.
        leads, trails: whether kernels may stand before the first layer, and behind the last.
    """

    names: Sequence[str]
    families: Sequence[Family]
    first: int
    last: int
    leads: bool
    trails: bool

    def cut(self, usual: Sequence[Layer]) -> list[Layer]:
        """The cheapest row of layers, each like one of the usual ones; [] if there is none, or it is too long."""
        n = self.last - self.first
        if sum(n * len(one.slots) * (len(one.slots) + _SLACK) for one in usual) > _MOST_CELLS:
            return []
        best: list[float] = [_OUTSIDE * at if self.leads or not at else float("inf") for at in range(n + 1)]
        came: list[tuple[int, Layer] | None] = [None] * (n + 1)
        for at in range(n):
            for one in usual if best[at] < float("inf") else ():
                for length, cost in enumerate(self._costs(at, one)[-1]):
                    if length and cost <= len(one.slots) and best[at] + cost < best[at + length]:
                        best[at + length], came[at + length] = best[at] + cost, (at, one)
        ends = range(n + 1) if self.trails else [n]
        end = min(ends, key=lambda at: best[at] + _OUTSIDE * (n - at))
        found: list[Layer] = []
        while (step := came[end]) is not None:
            found.append(self._like(step[1], step[0], end))
            end = step[0]
        return found[::-1]

    def _costs(self, at: int, like: Layer) -> list[list[float]]:
        """Cost of making the first kernels of a usual layer of the first ones from here on: a row for each of its."""
        names, families = self.names[like.first : like.last], self.families[like.first : like.last]
        width = min(self.last - self.first - at, len(names) + _SLACK)
        rows: list[list[float]] = [[_EXTRA * k for k in range(width + 1)]]
        here = self.first + at
        for name, family in zip(names, families, strict=True):
            above, row = rows[-1], [rows[-1][0] + _LOST]
            for k in range(width):
                same = 0 if self.names[here + k] == name else _OTHER_NAME if self.families[here + k] == family else 99
                row.append(min(above[k] + same, above[k + 1] + _LOST, row[k] + _EXTRA))
            rows.append(row)
        return rows

    def _like(self, like: Layer, at: int, end: int) -> Layer:
        """A layer of the kernels from `at` to `end`, whose places are those of a usual one."""
        rows = self._costs(at, like)
        here, k = self.first + at, end - at
        slots: list[Slot | None] = [None] * k
        row = len(like.slots)
        while row or k:
            cost = rows[row][k]
            if row and cost == rows[row - 1][k] + _LOST:
                row -= 1
                continue
            if k and cost == rows[row][k - 1] + _EXTRA:
                k -= 1
                continue
            row, k = row - 1, k - 1
            slots[k] = like.slots[row]
        block = "attention"
        placed = []
        for slot, family in zip(slots, self.families[here : self.first + end], strict=True):
            block = slot.block if slot else block
            placed.append(slot or Slot(block, f"additional {family}"))
        return Layer(here, self.first + end, placed, rows[-1][end - at])


_SLACK = 4
"""Additional kernels that a layer may have."""
