"""The layers of one forward pass: where each begins, and which place of the model each of its kernels is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from tracelens_graph.analyses.identification.families import Family, family_of
from tracelens_graph.analyses.identification.grammar import Slot, beside, roles

FEWEST = 3
"""Layers that a pass must have: fewer repeats could be anything."""


class Place(NamedTuple):
    """A place of the model.

    Attributes:
        layer: number of the layer from 0; -1 beside the layers.
        slot: the place in it.
        confidence: how sure it is, from 0 to 1.
    """

    layer: int
    slot: Slot
    confidence: float

    @property
    def label(self) -> str:
        """The place in words, as `layer 12 / moe / up product`; kernels of one operation share it."""
        where = f"layer {self.layer} / {self.slot.block}" if self.layer >= 0 else f"{self.slot.block} the layers"
        return f"{where} / {self.slot.role}"


def places(names: Sequence[str]) -> list[Place]:
    """The place of each kernel of a forward pass; [] where it has no layers.

    Args:
        names: of its kernels, in order of time.
    """
    families = [family_of(name) for name in names]
    anchors = _anchors(families)
    if len(anchors) < FEWEST:
        return []
    starts = _starts(families, anchors)
    end = _end(families, anchors, starts)
    found: list[tuple[int, Slot]] = [(-1, slot) for slot in beside(families[: starts[0]], "before")]
    for layer, (first, last, anchor) in enumerate(zip(starts, [*starts[1:], end], anchors, strict=True)):
        found += [(layer, slot) for slot in roles(families[first:last], anchor - first)]
    found += [(-1, slot) for slot in beside(families[end:], "after")]
    found = _by_rank(names, found, len(anchors))
    return [Place(layer, slot, 1.0) for layer, slot in found]


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


def _starts(families: Sequence[Family], anchors: Sequence[int]) -> list[int]:
    """First kernel of each layer: the norm behind which as many products lead to attention as in most layers."""
    options = []
    for before, anchor in zip([-1, *anchors[:-1]], anchors, strict=True):
        products, ways = 0, {}
        for at in range(anchor - 1, before, -1):
            products += families[at] == Family.product
            if families[at] == Family.norm and products:
                ways.setdefault(products, at)
        options.append(ways)
    # Before the first layer there is no other one, so the norm that stands first is its own.
    usual = max(options[0], default=0) or Counter(min(ways) for ways in options if ways).most_common(1)[0][0]
    starts = []
    for before, anchor, ways in zip([-1, *anchors[:-1]], anchors, options, strict=True):
        nearest = min(ways, key=lambda count: (abs(count - usual), count), default=None)
        starts.append(ways[nearest] if nearest is not None else max(before + 1, anchor - 1))
    return starts


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


def _by_rank(names: Sequence[str], found: list[tuple[int, Slot]], layers: int) -> list[tuple[int, Slot]]:
    """Mend what was recorded out of order: of kernels that fill the same places, the n-th is at the n-th place.

    A profiler of ROCm gives the kernels of a graph names in another order than that in which they ran, and streams
    side by side overtake each other; the kernels of one kind keep their order. It only counts where there are exactly
    as many as places, so that a lost kernel moves nobody.
    """
    positions: dict[Slot, list[int]] = defaultdict(list)
    fills: dict[str, Counter[Slot]] = defaultdict(Counter)
    last_start = 0
    for at, (name, (layer, slot)) in enumerate(zip(names, found, strict=True)):
        if layer >= 0:
            if at == 0 or found[at - 1][0] != layer:
                last_start = at
            positions[slot].append(at - last_start)
            fills[name][slot] += 1
    groups = [([at for at, name in enumerate(names) if name in group], slots) for group, slots in _groups(fills)]
    # Where two attentions overtook what is between them, one layer too few was seen.
    attention = next(((rows, slots) for rows, slots in groups if Slot("attention", "attention") in slots), None)
    if attention and len(attention[0]) % len(attention[1]) == 0:
        layers = len(attention[0]) // len(attention[1])
    result = list(found)
    for rows, slots in groups:
        order = sorted(slots, key=lambda slot: median(positions[slot]))
        places = [(layer, slot) for layer in range(layers) for slot in order]
        extra = len(rows) - len(places)
        now = [found[at] for at in rows]
        if not 0 <= extra <= 1 or now[: len(places)] == places:
            continue
        for at, place in zip(rows, places, strict=False):
            result[at] = place
    return result


def _groups(fills: dict[str, Counter[Slot]]) -> list[tuple[set[str], set[Slot]]]:
    """Names that fill the same places, and these places; a place counts where a name fills it often."""
    groups: list[tuple[set[str], set[Slot]]] = []
    for name, counts in fills.items():
        slots = {slot for slot, count in counts.items() if count >= 0.3 * max(counts.values())}
        joined, rest = [g for g in groups if g[1] & slots], [g for g in groups if not g[1] & slots]
        groups = [*rest, ({name}.union(*[g[0] for g in joined]), slots.union(*[g[1] for g in joined]))]
    return groups
