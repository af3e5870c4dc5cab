"""What analyses add to the graph as nodes and edges: signatures, modules, gaps, allocations, layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tracelens_graph.analyses.idle.idle import Cause, Idle, idle_parts, leading_causes
from tracelens_graph.analyses.idle.idle_gaps import HOST_PARTS, culprits, gap_order, host_parts
from tracelens_graph.analyses.memory.blocks import blocks_of, whose_work
from tracelens_graph.analyses.memory.instants import NO_VALUE, Instants, instants_of
from tracelens_graph.analyses.ops.launchers import NO_LAUNCH, launchers
from tracelens_graph.analyses.performance.perf_tables import attributed_calls
from tracelens_graph.analyses.performance.unified import Modelled, modelled, unified
from tracelens_graph.analyses.places.attribution import OPTIMIZER, charged, optimizer_step
from tracelens_graph.analyses.places.modules import PASSES, PlaceTree, paths_of, place_tree
from tracelens_graph.analyses.shared.gpu_work import CLASS_NAMES, gpu_categories, gpu_classes
from tracelens_graph.analyses.structure.layers import Departure, departures, layer_groups
from tracelens_graph.categories.kernel_names import properties
from tracelens_graph.categories.kernels import kernel_category
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.context import Context, EdgeTexts, EventProperty, content_key
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import nearest_above, rows_of_kind
from tracelens_graph.graph.user_code import Code, codes_of, user_lines
from tracelens_graph.graph.window import Window, class_of, window_of
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.devices import Architecture, detect
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.schema.database import RATES
from tracelens_graph.tables.names import LONGEST, frame_caption, short_name
from tracelens_graph.utils.texts import cut_end

_BLAMED = 100
"""Gaps of a device for which is looked up what they are due to."""

_CAPTIONS = (
    ((Kind.Module,), lambda name: cut_end(name.removeprefix("nn.Module: "), LONGEST)),
    ((Kind.PythonFunction,), frame_caption),
    ((Kind.Op,), lambda name: cut_end(name, LONGEST)),
    (GPU_KINDS, short_name),
)
"""Kinds of events -> the short form of their names."""


def add_knowledge(
    context: Context,
    g: Core | Window,
    arch: Architecture | None = None,
) -> None:
    """Add to the context of a graph what analyses know of it.

    Categories of ops and of kernel names (IN_CATEGORY); operations, bytes and units on signatures and on ops, or why
    no model applies; what the name of a kernel says, on its node; the op that each GPU event is modelled by
    (MODELLED_BY); what each GPU event does; the rates of devices; names for captions. Further the module tree, to whose
    work each op and GPU event belongs, allocations with their releases, layers and odd ones among them, and idle time
    with its causes.

    Args:
        context: what `build_context` made.
        g: the graph; of a window the extension counts, and the whole graph is looked at.
        arch: the device; None for the one that the trace names, if it is known.
    """
    w = window_of(g).whole
    core, chosen = w.core, unified(w)
    gpu = core.gpu_rows
    context.of_events["gpu_class"] = EventProperty(gpu, gpu_classes(core, gpu), CLASS_NAMES)
    codes, asked = codes_of(core), np.union1d(gpu, whose_work(core).call)
    line = user_lines(core, asked)
    frames, known = np.flatnonzero(codes > Code.no_line), line >= 0
    context.of_events["code"] = EventProperty(frames, codes[frames].astype(np.int64), [code.name for code in Code])
    context.of_events["line_pre"] = EventProperty(asked[known], line[known])
    _kernel_names(context, w)
    _signatures(context, modelled(w))
    _categories(context, w)
    given = chosen.owner >= 0
    context.between_events["MODELLED_BY"] = gpu[given], chosen.owner[given]
    _costs(context, chosen.codes, chosen.costs, chosen.reasons)
    _short_names(context, core)
    add_modules(context, core)
    add_memory(context, core)
    add_layers(context, core)
    add_gaps(context, core)
    found = arch or detect(core.info.metadata.get("deviceProperties"))
    if isinstance(found, Architecture):
        _devices(context, found)


def _short_names(context: Context, core: Core) -> None:
    """Captions of what a path is made of: an index can hold them, whatever the length of names."""
    c = core.columns
    texts: list[str] = []
    rows, codes = [], []
    for kinds, shorten in _CAPTIONS:
        of = rows_of_kind(c, kinds)
        names, back = np.unique(c.name[of], return_inverse=True)
        rows.append(of)
        codes.append(back + len(texts))
        texts += [shorten(core.names[name]) for name in names.tolist()]
    every = np.concatenate(rows)
    order = np.argsort(every)
    context.of_events["short_name"] = EventProperty(every[order], np.concatenate(codes)[order], texts)


def _categories(context: Context, w: Window) -> None:
    """Of ops and calls that launch GPU work or whose model covers it, and of GPU events.

    A GPU event that stands for itself has the category of its own launch, too.
    """
    core, found = w.core, launchers(w)
    given, alone = attributed_calls(w)

    def category_of(code: int) -> int:
        return _category(context, "op", found.categories[code])

    is_op = found.is_op
    context.join_events("IN_CATEGORY", found.rows[is_op], found.category[is_op], category_of)
    labels, kind = gpu_categories(w)
    texts = [*found.categories, *given.categories, *labels]
    # Of an op in several places the first counts: that of the launcher.
    rows, first = np.unique(np.concatenate((found.rows, given.rows[~alone], core.gpu_rows)), return_index=True)
    beyond = len(texts) - len(labels)
    codes = (found.category, given.category[~alone] + len(found.categories), kind[core.gpu_rows] + beyond)
    context.of_events["category"] = EventProperty(rows, np.concatenate(codes)[first], texts)
    events, kinds = given.gpu[given.first[alone]], given.category[alone]
    order = np.argsort(events)
    context.of_events["op_category"] = EventProperty(events[order], kinds[order], given.categories)


def _category(context: Context, of: str, name: str) -> int:
    return context.add(f"category:{of}:{name}", "Category", name=name, of=of)


def _kernel_names(context: Context, w: Window) -> None:
    core, c, rows, rules = w.core, w.core.columns, w.core.gpu_rows, extension_of(w).all_kernel_rules
    for code in np.unique(c.name[rows[c.kind[rows] == Kind.Kernel]]).tolist():
        name = core.names[code]
        key = content_key("kname", name)
        category = kernel_category(name, rules=rules)
        context.nodes[key] |= {"short_name": short_name(name), "category": category, **properties(name)}
        number = context.add(key, "KernelName")
        context.join("IN_CATEGORY", number, _category(context, "kernel", category))


def _signatures(context: Context, found: Modelled) -> None:
    """Costs stand on signatures as far as all calls agree: models may look at more than arguments."""
    rows, numbers = context.from_events["HAS_SIGNATURE"]
    number, code = numbers[np.searchsorted(rows, found.rows)], found.code
    pairs = np.unique(np.stack((number, code), axis=1), axis=0)
    keys = list(context.nodes)
    for at, one in zip(*(part.tolist() for part in np.unique(pairs[:, 0], return_index=True)[::-1]), strict=True):
        calls = pairs[at : np.searchsorted(pairs[:, 0], one, "right"), 1].tolist()
        known = [_cost(found.costs[c]) if c >= 0 else {"no_model": found.reasons[-1 - c]} for c in calls]
        context.nodes[keys[one]] |= {
            name: value for name, value in known[0].items() if all(other.get(name) == value for other in known)
        }


def _cost(cost: Cost) -> dict[str, Any]:
    known = {"flops": cost.flops, "moved_bytes": cost.bytes, "compute_spec": cost.compute_spec}
    if set("MNK") <= cost.params.keys():
        known |= {name: cost.params.get(of) for name, of in (*zip("MNK", "MNK", strict=True), ("batch", "B"))}
    return {name: value for name, value in known.items() if value not in (None, "")}


def _costs(context: Context, codes: Mapping[int, int], costs: list[Cost], reasons: list[str]) -> None:
    """Costs of ops, those of backward passes included, that follow from the forward op."""
    rows, code = (np.fromiter(part, np.int64, len(codes)) for part in (codes.keys(), codes.values()))
    order = np.argsort(rows)
    rows, code = rows[order], code[order]
    applies = code >= 0
    context.of_events["no_model"] = EventProperty(rows[~applies], -1 - code[~applies], reasons)
    rows, code = rows[applies], code[applies]
    specs = [cost.compute_spec for cost in costs]
    has_unit = np.array([bool(spec) for spec in specs], bool)[code] if len(code) else applies[:0]
    context.of_events["compute_spec"] = EventProperty(rows[has_unit], code[has_unit], specs)
    context.of_events["flops"] = EventProperty(rows, np.array([float(cost.flops) for cost in costs])[code])
    for name, sizes in (("moved_bytes", [c.bytes for c in costs]), ("link_bytes", [c.link_bytes for c in costs])):
        moved = np.array([np.nan if size is None else float(size) for size in sizes])[code]
        known = ~np.isnan(moved)
        context.of_events[name] = EventProperty(rows[known], moved[known])


def _devices(context: Context, arch: Architecture) -> None:
    rates = {f"{figure}_tflops": found.tflops for figure in RATES if (found := arch.rate(figure))}
    bandwidths = {figure: arch.value(figure) for figure in ("memory_bandwidth_gbps", "host_link_gbps")}
    for node in context.nodes.values():
        if node["kind"] == "Device":
            node |= {"architecture": arch.key, **bandwidths, **rates}
        elif node["kind"] == "Trace":
            node["architecture"] = arch.key


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


def add_gaps(context: Context, core: Core) -> None:
    """Add a node for each stretch of time in which a device did nothing, the longest first.

    BEFORE and AFTER lead there from the GPU events around it. CAUSED_BY leads to what the launching thread was in for
    most of it: a call, an op and a frame. Where the work that ended the gap had been queued before, the host was not
    what the device waited for.
    """
    w = window_of(core).whole
    idle, c = idle_parts(w), core.columns
    order = gap_order(idle)
    start, end, row, ended = idle.start[order], idle.end[order], idle.row[order], idle.ended[order]
    device = c.device[row]
    on_device = np.zeros(len(row), np.int64)
    for one in np.unique(device).tolist():
        of_device = device == one
        on_device[of_device] = np.arange(1, of_device.sum() + 1)
    causes = leading_causes(idle)[order]
    found = host_parts(core, row, start, end)
    blamed = _blamed(w, idle, order[on_device <= _BLAMED])
    numbers = np.arange(len(row))
    first = len(context.nodes)
    for number in numbers.tolist():
        length = int(end[number] - start[number])
        host = {f"{what}_ns": found[what][1][number] for what in HOST_PARTS if found[what][0][number] >= 0}
        context.add(
            f"gap:{number + 1}", "Gap", name=f"{length / 1e3:g} us", number=number + 1,
            number_on_device=int(on_device[number]), device=int(device[number]) if device[number] != -1 else None,
            start_ns=int(start[number]), end_ns=int(end[number]), dur_ns=length, cause=Cause(causes[number]).name,
            **{name: int(ns) for name, ns in host.items()}, **blamed.get(int(order[number]), {}),
        )  # fmt: skip
    for name, rows in (("BEFORE", ended), ("AFTER", row)):
        by_row = np.argsort(rows, kind="stable")
        context.from_events[name] = rows[by_row], first + numbers[by_row]
    ends = [(numbers[rows >= 0], rows[rows >= 0]) for rows, _ in found.values()]
    context.to_events["CAUSED_BY"] = (
        first + np.concatenate([gaps for gaps, _ in ends]),
        np.concatenate([rows for _, rows in ends]),
    )


def _blamed(w: Window, idle: Idle, gaps: np.ndarray) -> dict[int, dict[str, Any]]:
    """What some gaps are due to, by gap."""
    because, ns, lines = culprits(w, idle, gaps)
    facts = zip(gaps.tolist(), because, ns, lines, strict=True)
    return {gap: {"because": name, "because_ns": time, "line": line} for gap, name, time, line in facts if name}


Pairs = tuple[np.ndarray, np.ndarray]


def add_memory(context: Context, core: Core) -> None:
    """Add to the context of a graph what is known of its allocations and releases; modules have to be there already.

    ALLOCATED_IN leads from an allocation to the innermost call around it, IN_MODULE to the module whose work it is, and
    RELEASES to it from what ends it. Instants have their device (`on`), the address, and the totals of the allocator.
    """
    found = instants_of(core)
    if not len(found):
        return
    whose, blocks, rows = whose_work(core), blocks_of(core), found.rows
    allocations = np.flatnonzero(found.change > 0)
    inside = allocations[whose.call[allocations] >= 0]
    context.between_events["ALLOCATED_IN"] = rows[inside], whose.call[inside]
    ended = blocks.end >= 0
    context.between_events["RELEASES"] = rows[blocks.end[ended]], rows[blocks.begin[ended]]
    inside = allocations[whose.module[allocations] >= 0]
    _more(context, "IN_MODULE", (rows[inside], whose.module[inside]), whose.passes[inside])
    _properties(context, found)
    recorded = allocations[~found.is_before[allocations]]
    _property(context, "pass", rows[recorded], whose.passes[recorded], PASSES)


def _more(context: Context, name: str, pairs: Pairs, codes: np.ndarray) -> None:
    """Further edges of a type that has a text for each."""
    (source, target), texts = context.between_events[name], context.of_edges[name]
    context.between_events[name] = np.concatenate((source, pairs[0])), np.concatenate((target, pairs[1]))
    context.of_edges[name] = EdgeTexts(texts.name, np.concatenate((texts.codes, codes)), texts.texts)


def _properties(context: Context, found: Instants) -> None:
    _property(context, "on", found.rows, found.device, found.devices)
    for name, values in (("address", found.address), ("allocated", found.allocated), ("reserved", found.reserved)):
        known = values != NO_VALUE
        _property(context, name, found.rows[known], values[known])


def _property(
    context: Context, name: str, rows: np.ndarray, values: np.ndarray, texts: tuple[str, ...] | None = None
) -> None:
    order = np.argsort(rows)
    context.of_events[name] = EventProperty(rows[order], values[order], texts)


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
