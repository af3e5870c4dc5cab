"""Identified kernels as calls in the graph: a module for each layer and block, and an op for each role."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracelens_graph.analyses.identification.grammar import order_of
from tracelens_graph.analyses.identification.kernels import all_passes, nameless, nothing_found, passes
from tracelens_graph.analyses.identification.layers import Place, places
from tracelens_graph.captures.join import replays_in
from tracelens_graph.captures.recording import arguments_of, calls_above, captured_calls
from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.errors import LinkError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.graph.instances import CallTree, Instance, with_instances
from tracelens_graph.graph.thread_blocks import thread_blocks
from tracelens_graph.graph.traversals import climb, nearest_above
from tracelens_graph.schema import Flag, Kind, OwnerRule
from tracelens_graph.utils.arrays import Mask, Rows
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


_SAME_MODEL = 0.5
"""Share of the places of a model that another trace has to have."""

Way = tuple[int, str, str]
"""Layer, block and role of a place."""


@dataclass(frozen=True, eq=False)
class KnownModel:
    """A model as another trace recorded it.

    Attributes:
        source: the trace.
        tree: modules, frames of the user and ops of one forward pass.
        calls: place -> positions in the tree of the calls whose kernels are there, in order of time.
    """

    source: str
    tree: CallTree
    calls: Mapping[Way, Sequence[int]]


def way_of(place: Place) -> Way:
    """What a place is looked up by."""
    return place.layer, place.slot.block, place.slot.role


def known_model(other: Core, wanted: Iterable[Place]) -> KnownModel:
    """The pass of another trace that has most of the wanted places.

    Args:
        other: a trace whose kernels have ops, or of a capture that recorded names of kernels.
        wanted: places of the trace that is to be explained.

    Raises:
        LinkError: no pass of it has layers with ops.
    """
    ways = {way_of(place) for place in wanted}
    found: list[tuple[int, Rows, Sequence[Place]]] = []
    alike = 0
    for rows, read, has_ops in _passes(other):
        known = {way_of(place) for place, has_op in zip(read, has_ops.tolist(), strict=True) if has_op}
        found += [(len(ways & known), rows, read)] if read else []
        alike = max(alike, len(ways & {way_of(place) for place in read}))
    shared, rows, places_ = max(found, key=lambda one: one[0], default=(-1, other.gpu_rows, []))
    if shared < _SAME_MODEL * len(ways):
        lacks = "no layers were found in it" if not found else "its layers are those of another model"
        if alike >= _SAME_MODEL * len(ways):
            lacks = "its layers are replays, which have no ops"
        raise LinkError(
            f"{other.info.source}: {lacks}, so it explains no kernels of another trace; --identify needs no other, and "
            "`ask identified_labels` of both none with ops"
        )
    tree, call = calls_above(other, rows, _begin(other, rows))
    calls: dict[Way, list[int]] = defaultdict(list)
    is_known = climb(tree.parent, call, tree.kind == Kind.Op) >= 0 if len(tree) else call >= 0
    for place, position, known in zip(places_, call.tolist(), is_known.tolist(), strict=True):
        if known and position not in calls[way_of(place)][-1:]:
            calls[way_of(place)].append(position)
    return KnownModel(other.info.source, tree, {way: positions for way, positions in calls.items() if positions})


def _passes(core: Core) -> Iterator[tuple[Rows, Sequence[Place], Mask]]:
    """The forward passes of a trace, and those that it captured.

    Of each the rows of kernels, or of captured calls, their places, and which have an op.
    """
    c, unknown = core.columns, nameless(core)
    for one in all_passes(core):
        yield one.rows, one.places, ~unknown[one.rows] & (c.owner[one.rows] >= 0)
    for rows in (capture.rows for capture in captured_calls(core)):
        kernels = [one.get("kernel") for one in arguments_of(core, rows)]
        if all(isinstance(one, str) for one in kernels):
            read = places([str(one) for one in kernels])
            yield rows[: len(read)], read, (nearest_above(c, rows, (Kind.Op,)) >= 0)[: len(read)]


def _begin(core: Core, rows: Rows) -> int:
    """When the outermost modules above some rows began; the frames around these are of the other program."""
    c = core.columns
    is_top = (c.kind == Kind.Module) & (climb(c.parent, c.parent, c.kind == Kind.Module) < 0)
    top = climb(c.parent, rows, is_top)
    return int(c.start_ns[top[top >= 0]].min(initial=np.iinfo(np.int64).max))


ArgumentSet = tuple[str, str, str, str]
"""Dims, types, strides and concrete inputs as JSON."""

_OF_WIDTH = ("qkv product", "gate/up product", "router product", "head product")
"""Products whose depth is the width of the model."""

_TYPES = {"bf16": "c10::BFloat16", "fp16": "c10::Half"}


def product_arguments(core: Core, rows: Rows, places: Sequence[Place], batch: int | None) -> Mapping[str, ArgumentSet]:
    """Role -> arguments of its product, of those whose sizes can be found.

    A block makes a tile of the result, so that blocks times the tile's width are the columns, where the batch is known
    and the depth is not split. The width of the model is what leads out of attention; what goes in has that depth, what
    comes after a gate half of the gate's columns. The depth of what leads out of attention shows nowhere.

    Args:
        batch: rows of the products; None where that is not known.
    """
    if not batch:
        return {}
    middle = max(place.layer for place in places) // 2
    found: dict[str, tuple[int, str]] = {}
    at = _at(places, middle)
    blocks = thread_blocks(core, rows[at])
    for place, row, count in zip([places[one] for one in at], rows[at].tolist(), blocks.tolist(), strict=True):
        parsed = parse_name(core.names[core.columns.name[row]])
        if parsed is None or not parsed.tile or not count or parsed.split_k or parsed.dtype not in _TYPES:
            continue
        down = -(-batch // parsed.tile[1])
        found[place.slot.role] = count // down * parsed.tile[0], _TYPES[parsed.dtype]
    width = found.get("out product", (0, ""))[0]
    if not width or width % 64 or found.get("down product", (width, ""))[0] != width:
        return {}
    sizes = {role: (width, *found[role]) for role in _OF_WIDTH if role in found}
    if "gate/up product" in found and "activation" in {places[one].slot.role for one in at}:
        sizes["down product"] = (found["gate/up product"][0] // 2, width, found["gate/up product"][1])
    return {role: _arguments(batch, *size) for role, size in sizes.items()}


def _at(places: Sequence[Place], layer: int) -> list[int]:
    """Positions of the kernels of a layer, and of the product behind all layers."""
    wanted = {(layer, 0), (-1, 0)}
    return [
        at for at, place in enumerate(places)
        if (place.layer, place.slot.part) in wanted and (place.layer >= 0 or place.slot.role == "head product")
    ]  # fmt: skip


def _arguments(rows: int, depth: int, columns: int, kind: str) -> ArgumentSet:
    dims = [[rows, depth], [depth, columns]]
    strides = [[depth, 1], [1, depth]]
    return json.dumps(dims), json.dumps([kind, kind]), json.dumps(strides), json.dumps(["", ""])
