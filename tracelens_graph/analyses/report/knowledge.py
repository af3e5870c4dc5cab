"""What analyses know of a graph, as nodes, edges and properties of it: categories, costs, parsed names, the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tracelens_graph.analyses.idle.gap_nodes import add_gaps
from tracelens_graph.analyses.memory.memory_edges import add_memory
from tracelens_graph.analyses.ops.launchers import launchers
from tracelens_graph.analyses.performance.modelled import Modelled, modelled
from tracelens_graph.analyses.performance.perf_tables import attributed_calls
from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.analyses.places.module_edges import add_modules
from tracelens_graph.analyses.shared.gpu_class import CLASS_NAMES, gpu_classes
from tracelens_graph.analyses.structure.layer_edges import add_layers
from tracelens_graph.categories.kernel_names import properties
from tracelens_graph.categories.kernels import kernel_category
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.context import Context, EventProperty, content_key
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.devices import Architecture, detect
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.schema.database import RATES
from tracelens_graph.tables.names import LONGEST, frame_caption, short_name
from tracelens_graph.utils.texts import cut_end

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
    no model applies; what the name of a kernel tells, on its node; the op that each GPU event is modelled by
    (MODELLED_BY); what each GPU event does; the rates of devices; names for captions. Further the module tree, to whose
    work each op and GPU event belongs, allocations with their releases, layers and odd ones among them, and idle time
    with its causes.

    Args:
        context: what `build_context` made.
        g: the graph; of a window the extension counts, and the whole graph is looked at.
        arch: the device; None for the one that the trace tells of, if it is known.
    """
    w = window_of(g).whole
    core, chosen = w.core, unified(w)
    _gpu_classes(context, core)
    _kernel_names(context, w)
    _signatures(context, core, modelled(w))
    _categories(context, w)
    given = chosen.owner >= 0
    context.between_events["MODELLED_BY"] = core.gpu_rows[given], chosen.owner[given]
    _costs(context, chosen.codes, chosen.costs, chosen.reasons)
    _short_names(context, core)
    add_modules(context, core)
    add_memory(context, core)
    add_layers(context, core)
    add_gaps(context, core)
    found = arch or detect(core.info.metadata.get("deviceProperties"))
    if isinstance(found, Architecture):
        _devices(context, found)


def _gpu_classes(context: Context, core: Core) -> None:
    rows = core.gpu_rows
    context.of_events["gpu_class"] = EventProperty(rows, gpu_classes(core, rows), CLASS_NAMES)


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
    """Of ops and calls that launch GPU work or whose model covers it, and of GPU events by their names.

    A GPU event that stands for itself has the category of its own launch, too.
    """
    core, c, found, rules = w.core, w.core.columns, launchers(w), extension_of(w).all_kernel_rules
    given, alone = attributed_calls(w)
    is_op = c.kind[found.rows] == Kind.Op

    def category_of(code: int) -> int:
        return _category(context, "op", found.categories[code])

    context.join_events("IN_CATEGORY", found.rows[is_op], found.category[is_op], category_of)
    names, of = np.unique(c.name[core.gpu_rows], return_inverse=True)
    texts = [
        *found.categories,
        *given.categories,
        *(kernel_category(core.names[name], rules=rules) for name in names.tolist()),
    ]
    # Of an op in several places the first counts: that of the launcher.
    rows, first = np.unique(np.concatenate((found.rows, given.rows[~alone], core.gpu_rows)), return_index=True)
    codes = (found.category, given.category[~alone] + len(found.categories), of + len(texts) - len(names))
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


def _signatures(context: Context, core: Core, found: Modelled) -> None:
    """Costs stand on signatures as far as all calls agree: models may look at more than arguments."""
    rows, numbers = context.from_events["HAS_SIGNATURE"]
    number, code = numbers[np.searchsorted(rows, found.rows)], found.code
    pairs = np.unique(np.stack((number, code), axis=1), axis=0)
    keys = list(context.nodes)
    for at, one in zip(*(part.tolist() for part in np.unique(pairs[:, 0], return_index=True)[::-1]), strict=True):
        calls = pairs[at : np.searchsorted(pairs[:, 0], one, "right"), 1].tolist()
        said = [_cost(found.costs[c]) if c >= 0 else {"no_model": found.reasons[-1 - c]} for c in calls]
        context.nodes[keys[one]] |= {
            name: value for name, value in said[0].items() if all(other.get(name) == value for other in said)
        }


def _cost(cost: Cost) -> dict[str, Any]:
    known = {"flops": cost.flops, "moved_bytes": cost.bytes, "compute_spec": cost.compute_spec}
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
    told = np.array([bool(spec) for spec in specs], bool)[code] if len(code) else applies[:0]
    context.of_events["compute_spec"] = EventProperty(rows[told], code[told], specs)
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
