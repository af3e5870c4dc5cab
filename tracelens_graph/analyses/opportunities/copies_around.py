"""Copies that change the layout or type of what one product, convolution or attention reads or makes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.opportunities.attention import in_attention
from tracelens_graph.analyses.opportunities.launched import Does, Launched, beside, launched, module_classes, placed
from tracelens_graph.analyses.opportunities.opportunity import Opportunity
from tracelens_graph.analyses.opportunities.traffic import traffic_of
from tracelens_graph.analyses.performance.unified import arguments_of
from tracelens_graph.analyses.shared.gpu_work import modules_of
from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.errors import CannotModel
from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.window import Window
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.utils.arrays import Rows

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

_REACH = 6
"""Copies before an op that are looked at."""
_ANCHORS = (Does.PRODUCT, Does.CONVOLUTION, Does.ATTENTION)
_LAYOUT = re.compile(
    r"nchw_?(?:to|2)_?nhwc|nhwc_?(?:to|2)_?nchw|batched_transpose|(?:NCHW2CNHW|CNHW2NCHW)", re.IGNORECASE
)
"""Kernels by which a library changes the order of the dimensions around a convolution of its own."""
_MIOPEN = re.compile(r"batched_transpose|CNHW")


class _Kind(NamedTuple):
    """What copies do, for which condition, and what to try."""

    says: str
    assumption: str
    advice: tuple[str, ...]


_KINDS = {
    "cast": _Kind(
        "change the type of what is read or made by", "its tensors are kept in the type that it computes in",
        ("keep_dtype",),
    ),
    "repeat": _Kind(
        "write out repetitions of what is read by", "it reads repeated heads in place", ("grouped_queries",)
    ),
    "layout": _Kind(
        "change the layout of what is read or made by", "the op before writes the layout that is read", ("keep_layout",)
    ),
    "transpose": _Kind(
        "change the order of dimensions inside", "weights and activations are channels_last throughout",
        ("channels_last",),
    ),
}  # fmt: skip


@dataclass
class _Copies:
    """Copies of one kind around the calls of one op in one class of modules, added up."""

    first: int
    calls: int = 0
    ns: int = 0
    by_miopen: bool = False


def copies_around(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
    """Copies right before an op that read as many elements of the type it reads, right behind it of what it makes; and
    kernels of its own that change layouts."""
    work, c = launched(w), w.core.columns
    least = limits.MUCH_PERCENT / 100 * int(c.dur_ns[w.gpu_rows].sum())
    found: dict[tuple[str, bool, str, str], _Copies] = {}
    places, anchors, kinds = w.once(_around)
    classes = module_classes(work.core, work.module[anchors])
    for place, anchor, kind, module in zip(places.tolist(), anchors.tolist(), kinds, classes, strict=True):
        key = (module, bool(work.backward[anchor]), work.name(anchor), kind)
        one = found.setdefault(key, _Copies(int(work.row[place])))
        one.calls += 1
        one.ns += int(work.ns[place])
    for key, one in (found | _inside(w)).items():
        if one.ns >= least:
            yield _opportunity(w, *key, one)


def _opportunity(w: Window, module: str, backward: bool, op: str, kind: str, one: _Copies) -> Opportunity:
    where = placed(module, backward)
    about, plain = _KINDS[kind], op.removeprefix("aten::")
    advice = about.advice + (("miopen_nhwc",) if one.by_miopen else ())
    what = f"{where}{one.calls:,} {'kernels' if kind == 'transpose' else 'copies'} {about.says} {plain}"
    return Opportunity(
        "copies-around", what, one.ns, one.ns, about.assumption, advice, int(w.core.columns.uid[one.first]),
        f"{where.replace(': ', ':')}{plain}.{kind}", one.calls,
        module,
        {"op": op, "kind": kind},
    )  # fmt: skip


def copied_for(w: Window) -> Rows:
    """Places of the launched copies that are of one op."""
    places, _, _ = w.once(_around)
    return places


def _around(w: Window) -> tuple[Rows, Rows, list[str]]:
    """Places of copies right before or behind an op, the place of that op, and what the copy does."""
    work = launched(w)
    does = work.does.copy()
    does[in_attention(w)] = Does.OTHER
    shown = np.flatnonzero(does != Does.FILL)
    anchors = np.flatnonzero(np.isin(work.does[shown], _ANCHORS))
    is_copy = np.append(does[shown] == Does.COPY, [False] * _REACH)
    found: dict[int, tuple[int, str]] = {}
    reached = anchors
    for step in range(-1, -_REACH - 1, -1):
        reached = reached[beside(work, shown, reached, step) & is_copy[reached + step]]
        found = _of_pairs(work, shown[reached + step], shown[reached], True) | found
    behind = anchors[beside(work, shown, anchors, 1) & is_copy[anchors + 1]]
    found = _of_pairs(work, shown[behind + 1], shown[behind], False) | found
    places = np.array(sorted(found), np.int64)
    kept = [found[place] for place in places.tolist()]
    return places, np.array([anchor for anchor, _ in kept], np.int64), [kind for _, kind in kept]


def _of_pairs(work: Launched, copies: Rows, anchors: Rows, before: bool) -> dict[int, tuple[int, str]]:
    """Of pairs of a copy and an op those that fit by sizes and types: place of the copy, of the op, and the kind."""
    pair, first = group_by(work.signature[copies], work.signature[anchors])
    kinds = [_kind(work, int(copies[at]), int(anchors[at]), before) for at in first.tolist()]
    return {
        copy: (anchor, kinds[one])
        for copy, anchor, one in zip(copies.tolist(), anchors.tolist(), pair.tolist(), strict=True)
        if kinds[one]
    }


def _kind(work: Launched, copy: int, anchor: int, before: bool) -> str:
    """What a copy does for an op, by sizes; empty where the op neither reads nor makes what is copied."""
    copied, of = traffic_of(work, copy), traffic_of(work, anchor)
    if not copied.reads or not copied.result:
        return ""
    source, result = copied.reads[0], copied.result
    near = {(one.elements, one.bits) for one in (of.reads if before else (of.result,) if of.result else ())}
    one = result if before else source
    if (one.elements, one.bits) not in near or one.elements < 2:
        return ""
    if source.bits != result.bits:
        return "cast"
    return "repeat" if source.elements < result.elements else "layout"


def _inside(w: Window) -> dict[tuple[str, bool, str, str], _Copies]:
    """Kernels of convolutions that change layouts, unless what is convolved is channels_last already.

    One change ends them all, those of the backward pass included.
    """
    core, c = w.core, w.core.columns
    kernels = w.gpu_rows[fitting(core.names, c.name[w.gpu_rows], _LAYOUT.search) & (c.owner[w.gpu_rows] >= 0)]
    owner = c.owner[kernels]
    convolves = fitting(core.names, c.name[owner], lambda name: "conv" in name) if len(kernels) else kernels
    kernels, owner = kernels[convolves], owner[convolves]
    found: dict[tuple[str, bool, str, str], _Copies] = {}
    last: dict[int, bool] = {}
    classes = module_classes(core, modules_of(core, kernels)[0])
    for kernel, op, name in zip(kernels.tolist(), owner.tolist(), classes, strict=True):
        argset = int(c.argset[op])
        if argset not in last:
            last[argset] = _is_channels_last(arguments_of(core, op))
        if not last[argset]:
            one = found.setdefault((name, False, "convolution", "transpose"), _Copies(op))
            one.calls += 1
            one.ns += int(c.dur_ns[kernel])
            one.by_miopen |= bool(_MIOPEN.search(core.names[c.name[kernel]]))
    return found


def _is_channels_last(arguments: Arguments) -> bool:
    """Whether the first input has its channels side by side, by its strides, and more than one pixel."""
    try:
        one = arguments.optional(0)
    except CannotModel:
        return False
    return bool(one and one.strides and len(one.shape) > 3 and one.shape[1] > 1 and one.strides[1] == 1
                and one.elements > one.shape[0] * one.shape[1])  # fmt: skip
