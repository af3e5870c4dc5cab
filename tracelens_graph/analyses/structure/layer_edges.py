"""Layers as edges of a graph: which follows which, and which is not as the others beside it."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.structure.layers import Departure, departures, layer_groups
from tracelens_graph.graph.context import Context, content_key
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.graph.window import window_of
from tracelens_graph.schema import Kind


def add_layers(context: Context, core: Core) -> None:
    """Add NEXT_LAYER between layers, and a node for each way in which layers are odd among those beside them."""
    w = window_of(core).whole
    rows, group, _ = layer_groups(w)
    order = np.lexsort((rows, group))
    follows = group[order][1:] == group[order][:-1]
    context.between_events["NEXT_LAYER"] = rows[order][:-1][follows], rows[order][1:][follows]
    found = [(kernels, one) for kernels in (True, False) for one in departures(w, kernels)]
    found.sort(key=lambda way: (way[1].row, not way[0]))
    ends: dict[str, list[tuple[int, int]]] = {"OF_LAYER": [], "UNLIKE": [], "DEPARTS_AT": [], "INSTEAD_OF": []}
    for number, (kernels, one) in enumerate(found):
        node = _add(context, core, number, kernels, one)
        targets = (one.row, int(one.usual[0]), one.here, one.there)
        for name, row in zip(ends, targets, strict=True):
            if row is not None:
                ends[name].append((node, row))
    for name, pairs in ends.items():
        joined = np.array(pairs, np.int64).reshape(-1, 2)
        context.to_events[name] = joined[:, 0], joined[:, 1]


def _add(context: Context, core: Core, number: int, kernels: bool, one: Departure) -> int:
    c = core.columns
    around = int(nearest_above(c, np.array([one.row]), (Kind.Module,))[0])
    return context.add(
        f"odd:{number}", "OddLayer", number=number, kernels=kernels, times=one.times, layers=one.layers,
        oddity=content_key("odd", *(f"{lane:x}" for lane in one.key)), alike=len(one.usual),
        name=core.names[c.name[one.row]], inside=core.names[c.name[around]] if around >= 0 else None,
        differs=one.differs, way=one.way, usual_gpu_ns=int(core.gpu_sum_ns[one.usual].sum()) / len(one.usual),
    )  # fmt: skip
