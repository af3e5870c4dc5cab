"""Facts of a trace: cells of the answers of many questions, and the nodes and edges of its context that hold them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.alignment.setups import recorded_setup
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.performance.unified import unified
from tracelens_graph.analyses.report.knowledge import add_modules
from tracelens_graph.graph.arrays import distinct_pairs
from tracelens_graph.graph.context import Context, build_context, content_key, signature
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import version_text
from tracelens_graph.graph.window import Window, narrow, window_of
from tracelens_graph.registry import HOMES
from tracelens_graph.schema.facts import KERNELS, SOURCES, VERSIONS, Fact, Fold, Source
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Rows

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

Key = tuple[Any, ...]
"""Cells that say which node a fact is about."""
Values = dict[str, Any]
"""Facts by name; those that are not known are left out."""


def facts_of(w: Window, source: Source) -> dict[Key, Values]:
    """The facts of a window that one question holds, by what they are about; the key () is the window itself."""
    home = HOMES[source.question]
    table: Table = getattr(home.load(), home.function)(w, **source.given)
    if not len(table):
        return {}
    first = next(iter(table.columns))
    kinds = [str(cell) for cell in table[first]]
    rows: dict[Key, list[int]] = {}
    keys = zip(*(table[name] for name in source.key), strict=True) if source.key else [()] * len(table)
    for row, key in enumerate(keys):
        if kinds[row] not in source.without and (len(key) != 1 or _known(key[0])):
            rows.setdefault(tuple(cell if _known(cell) else None for cell in key), []).append(row)
    columns = {fact.column: list(table[fact.column]) for fact in source.facts if fact.column in table.columns}
    return {
        key: {
            fact.name: value
            for fact in source.facts
            if (value := _folded(fact, columns.get(fact.column, ()), kinds, of_key)) is not None
        }
        for key, of_key in rows.items()
    }


def _known(cell: Any) -> bool:
    return cell is not None and cell == cell  # NaN is not known


def _folded(fact: Fact, column: Any, kinds: list[str], rows: Iterable[int]) -> Any:
    """A fact of some rows of a table; None for none."""
    if not column:
        return None
    cells = [column[row] for row in rows if fact.row in ("", kinds[row])]
    known = [cell for cell in cells if _known(cell)]
    value = _FOLDS[fact.fold](known) if known else None
    if value is None or fact.type == "str":
        return value
    return round(value * fact.scale) if fact.type == "int" else float(value) * fact.scale


_FOLDS: Mapping[Fold, Callable[[list[Any]], Any]] = {
    "only": lambda cells: cells[0] if len(set(cells)) == 1 else None,
    "sum": sum, "min": min, "max": max, "median": median, "count": len,
}  # fmt: skip


def add_facts(context: Context, g: Core | Window, arch: Architecture | None = None) -> None:
    """Add to the context of a graph the facts that people ask about many traces.

    Totals, times of steps and idle time by cause stand on its Trace, on its Devices, and on a StepTime for each step.
    SPENT leads from the Trace to what it spent GPU time on, with the kernels that ran for signatures and places of
    modules, SHOWS to the findings of its verdict.

    Args:
        context: what `build_context` and `add_knowledge` made.
        g: the graph; of a window the extension counts, and the whole graph is looked at.
        arch: the device; None for the one that the trace names, if it is known.
    """
    w = window_of(g).whole
    keys = list(context.nodes)
    trace = next(number for number, key in enumerate(keys) if context.nodes[key]["kind"] == "Trace")
    of_trace = context.nodes[keys[trace]]
    devices = {node["device"]: node for node in context.nodes.values() if node["kind"] == "Device"}
    of_trace |= setup_of(w.core) | facts_of_trace(w)
    ran = _kernels_of(context, w)
    for source in SOURCES:
        if source.of == "Device":
            for device, values in _of_devices(w, source, list(devices)):
                devices[device] |= values
        elif source.of == "StepTime":
            for (uid,), values in facts_of(w, source).items():
                context.join("TOOK", trace, context.add(f"step:{uid}", "StepTime"))
                context.nodes[f"step:{uid}"] |= values
        elif source.of != "Trace":
            for key, node, spent in w.once(spent_by, source.of):
                kernels = {KERNELS.name: ran[key]} if key in ran else {}
                context.join("SPENT", trace, context.add(key, source.of, **node), **spent, **kernels)
    for place, one in enumerate(verdict(w, arch)):
        number = context.add(f"finding:{one.id}", "Finding", name=one.id, topic=one.topic)
        shown = {name: one.evidence[name] for name in ("kind", "percent", "percent_of") if name in one.evidence}
        context.join(
            "SHOWS", trace, number, place=place, text=one.text, severity=one.severity,
            evidence=json.dumps(dict(one.evidence)), **shown,
        )  # fmt: skip


def facts_of_trace(w: Window) -> Values:
    """The facts of a window that stand on its Trace."""
    found: Values = {}
    for source in SOURCES:
        if source.of == "Trace":
            found |= facts_of(w, source).get((), {})
    return found


def setup_of(core: Core) -> Values:
    """What a trace ran on: versions, clocks and the like, as far as its file names them."""
    named = core.info.metadata
    versions = {f"{name}_version": named.get(f"{name}_version") for name in VERSIONS}
    texts = {key: version_text(key, value) for key, value in versions.items() if value is not None}
    recorded = recorded_setup(core)
    found = {**texts, "world_size": core.info.world_size, "setup": json.dumps(recorded) if recorded else None}
    return {key: value for key, value in found.items() if value is not None}


def _of_devices(w: Window, source: Source, devices: list[int]) -> Iterator[tuple[int, Values]]:
    """Facts of each device: from rows about it, else from the answer about its part of the trace."""
    if source.key:
        for (cell,), values in facts_of(w, source).items():
            number = int(str(cell).rpartition(":")[2])
            if number in devices:
                yield number, values
        return
    there = np.unique(w.core.columns.device[w.gpu_rows]).tolist()
    for number in set(devices) & set(there):
        alone = w if len(there) == 1 else narrow(w, device=number)
        yield number, facts_of(alone, source).get((), {})


def spent_by(w: Window, label: str) -> list[tuple[str, Values, Values]]:
    """What a window spent GPU time on, of one label: key and properties of each node, and the facts of its edge.

    Rows that are about one node are added up, as far as facts add up.
    """
    found: dict[str, tuple[Values, list[Values]]] = {}
    (source,) = (one for one in SOURCES if one.of == label)
    for cells, values in facts_of(w, source).items():
        key, node = _identity(w.core, label, cells)
        found.setdefault(key, (node, []))[1].append(values)
    return [(key, node, _together(source, rows)) for key, (node, rows) in found.items()]


def _together(source: Source, rows: list[Values]) -> Values:
    """Facts of several rows about one node."""
    if len(rows) == 1:
        return rows[0]
    cells = {fact: [row[fact.name] for row in rows if fact.name in row] for fact in source.facts}
    folded = {fact.name: _FOLDS[fact.fold](known) for fact, known in cells.items() if known}
    return {name: value for name, value in folded.items() if value is not None}


def _identity(core: Core, label: str, cells: Key) -> tuple[str, Values]:
    """Key and properties of a node that time was spent on."""
    name = str(cells[0] or "")
    if label == "Signature":
        row = int(core.rows_of(cells)[0])
        return signature(core, int(core.columns.name[row]), int(core.columns.argset[row]))
    if label == "Category":
        return f"category:kernel:{name}", {"name": name, "of": "kernel"}
    if label == "ModulePlace":
        return place_key(name), {"name": name.rpartition("/")[2], "path": name}
    if label == "CollectiveKind":
        _, group, description, size = cells
        text = "\n".join(str(cell) for cell in cells)
        return content_key("collective", text), {
            "name": name, "group": group, "description": description, "group_size": size,
        }  # fmt: skip
    return content_key("kname", name), {"name": name}


def place_key(path: str) -> str:
    """Key of a place of modules."""
    return content_key("place", path)


def kernels_of(w: Window) -> dict[str, list[str]]:
    """Keys of signatures and of places of modules with those of the kernel names that ran for them."""
    context = build_context(w.core)
    add_modules(context, w.core)
    return _kernels_of(context, w)


def _kernels_of(context: Context, w: Window) -> dict[str, list[str]]:
    gpu, keys = w.core.gpu_rows, list(context.nodes)
    rows, named = context.from_events["NAMED"]
    kernel = named[np.searchsorted(rows, gpu)] if len(gpu) else gpu
    owner = unified(w).owner
    rows, signatures = context.from_events["HAS_SIGNATURE"]
    given = owner >= 0
    paths = _paths_of(context, gpu)
    found: dict[str, set[str]] = {}
    for sources, kernels in (
        (signatures[np.searchsorted(rows, owner[given])], kernel[given]),
        (paths[paths >= 0], kernel[paths >= 0]),
    ):
        for source, target in zip(*(side.tolist() for side in distinct_pairs(sources, kernels)), strict=True):
            node = context.nodes[keys[source]]
            key = place_key(node.get("path", "")) if node["kind"] == "ModulePath" else keys[source]
            found.setdefault(key, set()).add(keys[target])
    return {key: sorted(kernels) for key, kernels in found.items()}


def _paths_of(context: Context, gpu: Rows) -> np.ndarray:
    """Numbers of the ModulePath nodes that GPU events belong to; -1 for none."""
    call = gpu.copy()
    inside, of = context.between_events["IN_MODULE"]
    if len(inside):
        order = np.argsort(inside)
        at = order[np.minimum(np.searchsorted(inside, gpu, sorter=order), len(inside) - 1)]
        call = np.where(inside[at] == gpu, of[at], gpu)
    members, paths = context.from_events["PART_OF"]
    if not len(members):
        return np.full(len(gpu), -1, np.int64)
    at = np.minimum(np.searchsorted(members, call), len(members) - 1)
    return np.where(members[at] == call, paths[at], -1)
