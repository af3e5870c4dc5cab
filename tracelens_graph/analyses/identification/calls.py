"""Identified kernels as calls in the graph: a module for each layer and block, and an op for each role."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tracelens_graph.analyses.identification.alike import KnownModel, Way, known_model, way_of
from tracelens_graph.analyses.identification.grammar import order_of
from tracelens_graph.analyses.identification.kernels import nothing_found, passes
from tracelens_graph.analyses.identification.layers import Place
from tracelens_graph.analyses.identification.sizes import ArgumentSet, product_arguments
from tracelens_graph.captures.join import replays_in
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.graph.instances import CallTree, Instance, with_instances
from tracelens_graph.graph.traversals import nearest_above
from tracelens_graph.schema import Flag, Kind, OwnerRule
from tracelens_graph.utils.arrays import Rows
from tracelens_graph.utils.texts import file_name

PREFIX = "inferred::"
"""What names of ops begin with that no trace recorded."""


def with_identified(core: Core, tell: Callable[[str], None], like: Core | None = None) -> Graph:
    """The graph with what replayed kernels were identified as: modules and ops below the launches of their graphs.

    Kernels that were not identified stay as they are, and so do those without a launch in the trace.

    Args:
        tell: called with a line where nothing was identified.
        like: another trace of the model, which knows ops: eager, with captures, or of a capture. Kernels whose places
            it has get its modules, ops and shapes.

    Raises:
        LinkError: the other trace has no layers, or no ops in them.
    """
    c = core.columns
    if core.info.inferred:
        tell(f"{core.info.source}: its replayed kernels were identified before it was saved")
        return changed(core)
    if not passes(core):
        tell(f"{core.info.source}: {nothing_found(core)}, so nothing was identified")
        return changed(core)
    known = None if like is None else known_model(like, {place for one in passes(core) for place in one.places})
    sizes = {replay.launch: replay.size for replay in replays_in(core)}
    # Replays of one graph share the list of their places, so that its calls are laid out once.
    trees: dict[tuple[int, bytes, int | None], tuple[CallTree, Rows]] = {}
    instances: dict[int, Instance] = {}
    for one in passes(core):
        launches = nearest_above(c, one.rows, (Kind.RuntimeCall,))
        for launch in dict.fromkeys(launches[launches >= 0].tolist()):
            which = np.flatnonzero(launches == launch)
            key = id(one.places), which.tobytes(), sizes.get(launch)
            if key not in trees:
                places = [one.places[at] for at in which.tolist()]
                trees[key] = _tree(places, known, product_arguments(core, one.rows[which], places, sizes.get(launch)))
            tree, call = trees[key]
            below = core.gpu_rows[slice(*np.searchsorted(core.gpu_rows, (launch + 1, c.last[launch] + 1)))]
            below = below[c.parent[below] == launch]
            at = np.full(len(below), -1, np.int64)
            at[np.searchsorted(below, one.rows[which])] = call
            instances.setdefault(launch, Instance(launch, tree, at))
    if not instances:
        tell(f"{core.info.source}: no launch of what repeats is in it, so nothing was identified")
        return changed(core)
    found = with_instances(core, instances.values(), OwnerRule.inferred, Flag.inferred)
    return changed(found, info=replace(core.info, inferred=_in_words(core, known)))


def _in_words(core: Core, known: KnownModel | None) -> str:
    """How much is inferred, and how sure that is: the mean over the GPU time."""
    c = core.columns
    parts = [
        (np.where(nearest_above(c, one.rows, (Kind.RuntimeCall,)) >= 0, c.dur_ns[one.rows], 0.0), one.places)
        for one in passes(core)
    ]
    whole = max(sum(ns.sum() for ns, _ in parts), 1)
    percent = 100 * whole / max(int(c.dur_ns[core.gpu_rows].sum()), 1)
    sure = sum(ns @ [place.confidence for place in places] for ns, places in parts) / whole
    shown = f"{percent:.1f}" if percent >= 1 else f"{percent:.2g}"
    words = f"ops and modules of {shown} % of the GPU time are inferred, confidence {sure:.2f}"
    if odd := sum(place.out_of_order for _, places in parts for place in places):
        words += f", {odd:,} kernels recorded out of order"
    if known is None:
        return words
    share = sum(ns @ [float(way_of(place) in known.calls) for place in places] for ns, places in parts)
    return f"{words}, {100 * share / whole:.1f} % of their time like {file_name(known.source)}"


def _tree(
    places: Sequence[Place], known: KnownModel | None, arguments: Mapping[str, ArgumentSet]
) -> tuple[CallTree, Rows]:
    """The calls that these places are of, and which of them each place is; those of another trace where it has them."""
    if known is None:
        return _made(places, arguments)
    call = np.full(len(places), -1, np.int64)
    turns: Counter[Way] = Counter()
    for at, place in enumerate(places):
        # What is several kernels here may be fewer calls there.
        if calls := known.calls.get(way_of(place)):
            call[at] = calls[min(turns[way_of(place)], len(calls) - 1)]
            turns[way_of(place)] += 1
    rest = np.flatnonzero(call < 0)
    made, of_rest = _made([places[at] for at in rest.tolist()], {})
    tree, size, names = known.tree, len(known.tree), len(known.tree.names)
    call[rest] = size + of_rest
    both = CallTree(
        np.concatenate((tree.kind, made.kind)),
        np.concatenate((tree.parent, np.where(made.parent < 0, -1, size + made.parent))),
        np.concatenate((tree.name, names + made.name)), np.concatenate((tree.argset, made.argset)),
        [*tree.names, *made.names], tree.argsets, tree.collectives,
    )  # fmt: skip
    return both, call


def _made(places: Sequence[Place], arguments: Mapping[str, ArgumentSet]) -> tuple[CallTree, Rows]:
    """Calls of our own for these places: a module for each layer and block, and an op for each role."""
    last = max((place.layer for place in places), default=0) + 1
    layers: dict[int, dict[str, dict[str, list[int]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for at, place in enumerate(places):
        layer = last if place.slot.block == "after" else place.layer
        layers[layer][place.slot.block][place.slot.role].append(at)
    is_mixed = any(place.out_of_order for place in places)
    kinds: list[int] = []
    parents: list[int] = []
    names: list[str] = []
    call = np.empty(len(places), np.int64)

    def add(kind: Kind, parent: int, name: str) -> int:
        kinds.append(kind)
        parents.append(parent)
        names.append(name)
        return len(names) - 1

    for layer, blocks in sorted(layers.items()):
        beside = layer in (-1, last)
        above = -1 if beside else add(Kind.Module, -1, f"nn.Module: layer_{layer}")
        for block, roles in sorted(blocks.items()):
            inside = above if beside else add(Kind.Module, above, f"nn.Module: {block}_{layer}")
            # Profilers of ROCm record kernels of graphs out of order; calls stand as the model makes them.
            for role, ats in sorted(roles.items(), key=lambda one: is_mixed and order_of(one[0])):
                call[ats] = add(Kind.Op, inside, PREFIX + role)
    texts = sorted(set(names))
    code = {text: at for at, text in enumerate(texts)}
    of_name = {PREFIX + role: at for at, role in enumerate(arguments)}
    tree = CallTree(
        np.array(kinds, np.int64), np.array(parents, np.int64), np.array([code[name] for name in names], np.int64),
        np.array([of_name.get(name, -1) for name in names], np.int64), texts, [*arguments.values()],
    )  # fmt: skip
    return tree, call
