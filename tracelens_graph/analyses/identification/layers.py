"""The layers of one forward pass: where each begins, and which place of the model each of its kernels is."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from tracelens_graph.analyses.identification.families import family_of
from tracelens_graph.analyses.identification.grammar import Slot, beside, certainty
from tracelens_graph.analyses.identification.segments import segments

_Found = tuple[int, Slot]


class Place(NamedTuple):
    """A place of the model.

    Attributes:
        layer: number of the layer from 0; -1 beside the layers.
        slot: the place in it.
        confidence: how sure it is, from 0 to 1: how much the role follows from the family alone, times the share of
            layers of this kind that have it; less where the kernel is out of order.
        out_of_order: whether it was recorded at another time than its place in the model; the time that is recorded
            for it may then be another kernel's.
    """

    layer: int
    slot: Slot
    confidence: float
    out_of_order: bool = False

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
    layers = segments(names, families)
    if not layers:
        return []
    found: list[_Found] = [(-1, slot) for slot in beside(families[: layers[0].first], "before")]
    for number, layer in enumerate(layers):
        found += [(number, slot) for slot in layer.slots]
    found += [(-1, slot) for slot in beside(families[layers[-1].last :], "after")]
    settled = _by_rank(names, found, len(layers))
    regular, odd = _regularity(settled), _out_of_order(settled)
    # Without a place to which its rank brings it, what departs from the order of its layer stands beside a lost kernel.
    is_mended = settled != found
    departs = {number for number, layer in enumerate(layers) if layer.cost} if not is_mended else set()
    return [
        Place(
            layer, slot, round(
                certainty(family, slot) * regular.get(slot[:2], 1) * (_DEPARTS if out or layer in departs else 1), 3
            ), out and is_mended,
        )
        for family, (layer, slot), out in zip(families, settled, odd, strict=True)
    ]  # fmt: skip


_DEPARTS = 0.8
"""Share of its confidence that a kernel keeps that is out of order, or in a layer that is like no other."""


def _regularity(found: Sequence[_Found]) -> dict[tuple[str, str], float]:
    """Of each block and role the share of the layers with the block that have the role."""
    ways = Counter((slot.block, slot.role) for slot in {(layer, slot[:2]): slot for layer, slot in found}.values())
    blocks = Counter(block for _, block in {(layer, slot.block) for layer, slot in found if layer >= 0})
    return {way: count / blocks[way[0]] for way, count in ways.items() if way[0] in blocks}


def _out_of_order(found: Sequence[_Found]) -> list[bool]:
    """Which kernels stand outside of the longest sequence in which layers, and places in them, only ascend."""
    order = {slot: at for at, slot in enumerate(_in_order(found))}
    # Before the layers come kernels of no layer, behind them others: their blocks say which.
    last = max((layer for layer, _ in found), default=0) + 1
    keys = [(last if slot.block == "after" else layer, order.get(slot, 0)) for layer, slot in found]
    tails: list[tuple[int, int]] = []
    ends: list[int] = []
    before: list[int] = []
    for at, key in enumerate(keys):
        place = bisect_right(tails, key)
        before.append(ends[place - 1] if place else -1)
        tails[place:], ends[place:] = [key, *tails[place + 1 :]], [at, *ends[place + 1 :]]
    out, at = [True] * len(found), ends[-1] if ends else -1
    while at >= 0:
        out[at], at = False, before[at]
    return out


def _in_order(found: Sequence[_Found]) -> list[Slot]:
    """The places in layers, by where in a layer they mostly are."""
    positions: dict[Slot, list[int]] = defaultdict(list)
    begin = 0
    for at, (layer, slot) in enumerate(found):
        if at and found[at - 1][0] != layer:
            begin = at
        if layer >= 0:
            positions[slot].append(at - begin)
    return sorted(positions, key=lambda slot: median(positions[slot]))


def _by_rank(names: Sequence[str], found: list[_Found], layers: int) -> list[_Found]:
    """Mend what was recorded out of order: of kernels that fill the same places, the n-th is at the n-th place.

    A profiler of ROCm gives the kernels of a graph names in another order than that in which they ran, and streams
    side by side overtake each other; the kernels of one kind keep their order. It only counts where there are exactly
    as many as places, so that a lost kernel moves nobody.
    """
    order = {slot: at for at, slot in enumerate(_in_order(found))}
    fills: dict[str, Counter[Slot]] = defaultdict(Counter)
    for name, (layer, slot) in zip(names, found, strict=True):
        if layer >= 0:
            fills[name][slot] += 1
    groups = [
        ([at for at, name in enumerate(names) if name in group], slots) for group, slots in _groups(fills, layers)
    ]
    # Where two attentions overtook what is between them, one layer too few was seen.
    attention = next(((rows, slots) for rows, slots in groups if Slot("attention", "attention") in slots), None)
    if attention and len(attention[0]) % len(attention[1]) == 0:
        layers = max(layers, len(attention[0]) // len(attention[1]))
    result = list(found)
    for rows, slots in groups:
        places = [(layer, slot) for layer in range(layers) for slot in sorted(slots, key=order.__getitem__)]
        outside = sum(found[at][0] < 0 for at in rows)
        now = [found[at] for at in rows]
        if len(rows) != len(places) + outside or now[: len(places)] == places:
            continue
        for at, place in zip(rows, places, strict=False):
            result[at] = place
    return result


def _groups(fills: dict[str, Counter[Slot]], layers: int) -> list[tuple[set[str], set[Slot]]]:
    """Names that fill the same places, and these places: of each name as many as it has kernels in a layer."""
    groups: list[tuple[set[str], set[Slot]]] = []
    for name, counts in fills.items():
        slots = {slot for slot, _ in counts.most_common(max(1, round(counts.total() / layers)))}
        joined, rest = [g for g in groups if g[1] & slots], [g for g in groups if not g[1] & slots]
        groups = [*rest, ({name}.union(*[g[0] for g in joined]), slots.union(*[g[1] for g in joined]))]
    return groups
