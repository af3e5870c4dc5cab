"""Attention written as two batched products with a softmax between them, which moves matrices of scores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.opportunities.launched import Does, Launched, beside, launched, modules_around, placed
from tracelens_graph.analyses.opportunities.opportunity import Opportunity
from tracelens_graph.analyses.opportunities.traffic import Traffic, traffic_of
from tracelens_graph.analyses.shared.gpu_work import fitting_names
from tracelens_graph.graph.arrays import expanded
from tracelens_graph.graph.traversals import climb
from tracelens_graph.graph.window import Window
from tracelens_graph.utils.arrays import Mask, Rows

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

_REACH = 16
"""Ops between a product and the softmax, at most: masks, scaling, casts, dropout."""
_BETWEEN = (Does.POINTWISE, Does.COPY, Does.REDUCE)
_SOFTMAX = re.compile(r"^(?!.*(?:log|loss|cross_entropy|topk|gating|router|moe)).*softmax", re.IGNORECASE)
_GRADIENT = re.compile(r"backward", re.IGNORECASE)
_COPIES = 4
"""Copies in front of the first product, at most: of queries and keys, and of what they are made of."""
_OF_MASKS = re.compile(r"aten::(?:index|index_select|embedding|arange|full|cumsum|gather|eye)$")
"""Ops by which masks and biases of positions are made."""
_BATCHED = re.compile(r"(?:^|:)(?:baddbmm_?|bmm|matmul|einsum)(?:_out|\.out)?$")
_MATH = re.compile(r"_scaled_dot_product_attention_math")


class _Blocks(NamedTuple):
    """Attention found: places of the softmax, of the product before and behind it, of a further product beside each."""

    softmax: Rows
    before: Rows
    behind: Rows
    first: Rows
    last: Rows


@dataclass
class _Found:
    """Attention of one class of modules, forward and backward passes added up."""

    place: int
    forward: int = 0
    backward: int = 0
    ns: int = 0
    won_ns: float = 0.0
    score_bytes: int = 0
    is_math: bool = False


def eager_attention(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
    """Attention of products and a softmax, by class of its module.

    That is a softmax, or its gradient, with a batched product before and one behind it on its stream, and nothing but
    elementwise ops and copies between them, all in one module. Sizes, where they are recorded, have to agree: the
    softmax is over what the first product makes, or the second one reads it. A fused kernel computes the same
    products and keeps the scores on the chip, so what it saves is the time in which the ops between them move scores,
    and copies that products need, which it does not.
    """
    work, blocks = launched(w), w.once(_blocks)
    least = limits.MUCH_PERCENT / 100 * int(w.core.columns.dur_ns[w.gpu_rows].sum())
    found: dict[str, _Found] = {}
    places, of = expanded(blocks.before, blocks.behind + 1)
    ends = np.cumsum(np.bincount(of, minlength=len(blocks.softmax)))
    names = modules_around(work, places, ends - (blocks.behind + 1 - blocks.before), ends)
    math = _in_math(work, blocks.softmax)
    shares: dict[tuple[int, ...], float] = {}
    for at, module in enumerate(names):
        softmax = int(blocks.softmax[at])
        one = found.setdefault(module, _Found(softmax))
        scores = traffic_of(work, softmax)
        is_gradient = bool(_GRADIENT.search(work.name(softmax)))
        one.backward += is_gradient
        one.forward += not is_gradient
        one.ns += int(work.ns[int(blocks.first[at]) : int(blocks.last[at]) + 1].sum())
        one.is_math |= bool(math[at])
        if scores.result and not is_gradient:
            one.score_bytes = max(one.score_bytes, scores.result.bytes)
        for place in range(int(blocks.first[at]), int(blocks.last[at]) + 1):
            key = (int(work.signature[place]), int(work.signature[softmax]))
            if key not in shares:
                shares[key] = _share(Does(int(work.does[place])), traffic_of(work, place), scores)
            one.won_ns += shares[key] * int(work.ns[place])
    for module, one in found.items():
        if one.won_ns >= least and one.won_ns > 0:
            yield _opportunity(work, module, one)


def in_attention(w: Window) -> Rows:
    """Places of the launched ops of such attention."""
    blocks = w.once(_blocks)
    return expanded(blocks.first, blocks.last + 1)[0]


def _opportunity(work: Launched, module: str, one: _Found) -> Opportunity:
    calls = f"{one.forward:,} times" if one.forward > 1 else "once"
    calls += f" and {one.backward:,} backward" if one.backward else ""
    scores = f", with scores of {one.score_bytes / 1e6:,.3g} MB each time" if one.score_bytes else ", with scores"
    how = "the math backend of scaled_dot_product_attention" if one.is_math else "products and a softmax"
    return Opportunity(
        "eager-attention", f"{placed(module)}attention as {how}, {calls}{scores}; a fused kernel writes none",
        one.ns, round(one.won_ns), "a fused kernel computes the two products as fast",
        ("attention_backend" if one.is_math else "flash_attention",), int(work.core.columns.uid[work.row[one.place]]),
        module, one.forward + one.backward, module,
        {"forward": one.forward, "backward": one.backward, "score_bytes": one.score_bytes},
    )  # fmt: skip


def _share(does: Does, one: Traffic, scores: Traffic) -> float:
    """The share of an op that a fused kernel saves.

    Of products nothing, all of copies to another layout, of other ops what they move of scores, by bytes; all of it
    where sizes are not recorded.
    """
    if does == Does.PRODUCT:
        return 0.0
    if does == Does.COPY and one.result and one.reads[0].bits == one.result.bits:
        return 1.0
    if not scores.result or not one.bytes:
        return 1.0
    size = scores.result.elements
    sides = (*one.reads, *([one.result] if one.result and not one.reduced else []))
    return sum(side.bytes for side in sides if side.elements == size) / one.bytes


def _blocks(w: Window) -> _Blocks:
    work = launched(w)
    is_softmax, is_batched, of_masks = (_named(work, pattern) for pattern in (_SOFTMAX, _BATCHED, _OF_MASKS))
    shown = np.flatnonzero((work.does != Does.FILL) & ~((work.does == Does.OTHER) & of_masks))
    product = (work.does == Does.PRODUCT) & is_batched
    softmax = np.flatnonzero((work.does[shown] == Does.SOFTMAX) & is_softmax[shown])
    before, behind = (_nearest(work, shown, softmax, product, way) for way in (-1, 1))
    there = np.flatnonzero((before >= 0) & (behind >= 0))
    softmax, before, behind = softmax[there], before[there], behind[there]
    further = _nearest(work, shown, before, product, -1)
    # The gradient has two products on each side, and products need tensors in another layout than those around them.
    gradient, copies = _named(work, _GRADIENT)[shown[softmax]], work.does == Does.COPY
    first, last = before, behind
    for of in (product, *[copies] * _COPIES):
        first = first - (_is(work, shown, first, -1, of) & (gradient | (of is copies)))
    for of in (product, copies):
        last = last + (_is(work, shown, last, 1, of) & (gradient | (of is copies)))
    found = _Blocks(*(shown[one] for one in (softmax, before, behind, first, last)))
    further = np.where(further >= 0, shown[further], -1) if len(further) else further
    fits: dict[tuple[int, ...], bool] = {}
    kept = [_fits(work, fits, *one) for one in zip(*(part.tolist() for part in (*found[:3], further)), strict=True)]
    return _Blocks(*(part[np.array(kept, bool)] for part in found))


def _is(work: Launched, shown: Rows, of: Rows, step: int, sort: Mask) -> Mask:
    """Whether what stands so many places beside each is of the same place in the program and of a sort."""
    at = np.clip(of + step, 0, max(len(shown) - 1, 0))
    return beside(work, shown, of, step) & sort[shown[at]]


def _named(work: Launched, pattern: re.Pattern[str]) -> Mask:
    """Which launched ops have names that fit."""
    names = fitting_names(work.core, pattern.search)
    return names[np.where(work.row >= 0, work.core.columns.name[work.row], -1)] if len(work) else np.zeros(0, bool)


def _nearest(work: Launched, shown: Rows, softmax: Rows, product: Mask, way: int) -> Rows:
    """Of each softmax the nearest product on one side of it, with elementwise ops and copies between; -1 for none."""
    found = np.full(len(softmax), -1, np.int64)
    going = np.arange(len(softmax))
    for step in range(way, way * (_REACH + 2), way):
        going = going[beside(work, shown, softmax[going], step)]
        at = softmax[going] + step
        is_product = product[shown[at]]
        found[going[is_product]] = at[is_product]
        going = going[np.isin(work.does[shown[at]], _BETWEEN)]
    return found


def _fits(
    work: Launched, known: dict[tuple[int, ...], bool], softmax: int, before: int, behind: int, further: int
) -> bool:
    """Whether sizes allow that the softmax is over what the product before makes, or that the one behind reads it.

    Scores that are sums of two products, such as those of relative positions, are of no attention that a fused kernel
    knows.
    """
    key = tuple(int(work.signature[place]) if place >= 0 else -1 for place in (softmax, before, behind, further))
    if key not in known:
        over, made, read = (traffic_of(work, place) for place in (softmax, before, behind))
        added = traffic_of(work, further).result if further >= 0 and not _GRADIENT.search(work.name(softmax)) else None
        if over.result and added and added.elements == over.result.elements:
            known[key] = False
            return False
        ends = {one.shape[-2:] for one in (made.result, *read.reads) if one}
        sizes = {one.elements for one in (made.result, *read.reads) if one}
        known[key] = not over.result or not sizes or over.result.elements in sizes or over.result.shape[-2:] in ends
    return known[key]


def _in_math(work: Launched, places: Rows) -> Mask:
    """Which launched ops are of the math backend of PyTorch's own attention."""
    c, named = work.core.columns, fitting_names(work.core, _MATH.search)
    if not len(places) or not named.any():
        return np.zeros(len(places), bool)
    return np.asarray(climb(c.parent, work.row[places], named[c.name]) >= 0)
