"""Whose work everything is, as nodes and edges of a graph: modules, their places in the module tree, the optimizer.

`charging` says what belongs to which module call. Here that becomes edges IN_MODULE, the module tree a node for each
place of it, and PART_OF leads from calls up to the top of the tree.
"""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.ops.launchers import NO_LAUNCH
from tracelens_graph.analyses.places.charging import OPTIMIZER, charged, optimizer_step
from tracelens_graph.analyses.places.modules import PASSES, PlaceTree, class_of, paths_of, place_tree
from tracelens_graph.graph.context import Context, EdgeTexts
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import window_of
from tracelens_graph.schema import Kind


def add_modules(context: Context, core: Core) -> None:
    """Add the module tree to the context of a graph, and to which call of a module each op and GPU event belongs.

    Each GPU event is led to exactly one place of the tree by IN_MODULE, if there is one, and the first PART_OF.
    """
    tree = place_tree(window_of(core).whole)
    gpu, ops = core.gpu_rows, rows_of_kind(core.columns, (Kind.Op,))
    ops = ops[core.gpu_sum_ns[ops] > 0]
    rows = np.sort(np.concatenate((gpu, ops)))
    frame, backward = charged(core, tree.frames, rows)
    step = np.where(frame >= 0, -1, optimizer_step(core, rows))
    call = np.where(frame >= 0, tree.frames[frame] if len(tree.frames) else -1, step)
    of = np.where(step >= 0, PASSES.index("optimizer"), backward)
    inside = (call >= 0) & (call != rows)
    context.between_events["IN_MODULE"] = rows[inside], call[inside]
    context.of_edges["IN_MODULE"] = EdgeTexts("pass", of[inside], PASSES)

    is_gpu = np.isin(rows, gpu)
    alone = rows[is_gpu & (call < 0)]
    # What work of no module is, in the order in which tables list it behind the modules.
    of_none = (tree.outside, OPTIMIZER, NO_LAUNCH)
    outside = np.where(core.columns.parent[alone] >= 0, of_none.index(tree.outside), of_none.index(NO_LAUNCH))
    steps = np.unique(step[is_gpu & (step >= 0)])
    _add_places(context, tree)
    places = len(tree.name)
    members = np.concatenate((tree.frames, alone, steps))
    at = np.concatenate((tree.place, places + outside, np.full(len(steps), places + of_none.index(OPTIMIZER)))).astype(
        np.int64
    )
    order = np.argsort(members)

    def node(place: int) -> int:
        if place < places:
            return context.add(_key(place), "ModulePath")
        name = of_none[place - places]
        return context.add(
            _key(place), "ModulePath", name=name, path=name, depth=1, number=place, is_module=False, **{"class": name}
        )

    context.join_events("PART_OF", members[order], at[order], node)


def _key(place: int) -> str:
    return f"module:{place}"


def _add_places(context: Context, tree: PlaceTree) -> None:
    """A node for each place of the tree, joined to the one above it."""
    number = _preorder(tree)
    nodes: list[int] = []
    places = zip(paths_of(tree), tree.name, tree.above.tolist(), tree.depth.tolist(), strict=True)
    for place, (path, name, above, depth) in enumerate(places):
        nodes.append(
            context.add(
                _key(place), "ModulePath", name=name, path=path, depth=depth, number=int(number[place]), is_module=True,
                **{"class": class_of(name)},
            )
        )  # fmt: skip
        if above >= 0:
            context.join("PART_OF", nodes[place], nodes[above])


def _preorder(tree: PlaceTree) -> np.ndarray:
    """Per place its number in the tree as it is drawn: beside each other by first calls, each before what is in it."""
    inside: dict[int, list[int]] = {}
    for place in np.lexsort((tree.first, tree.start)).tolist():
        inside.setdefault(int(tree.above[place]), []).append(place)
    number = np.zeros(len(tree.above), np.int64)
    waiting, count = inside.get(-1, [])[::-1], 0
    while waiting:
        place = waiting.pop()
        number[place] = count
        count += 1
        waiting += inside.get(place, [])[::-1]
    return number
