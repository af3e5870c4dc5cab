"""Events of a graph, and edges between them, as they stand in a database."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.analyses.serving.iterations import served_in
from tracelens_graph.db.image import Edges, Nodes, Options
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.classes import class_rows, hex_of, subtree_classes
from tracelens_graph.graph.context import Context, EdgeTexts
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edges import EdgeRows, edge_rows
from tracelens_graph.graph.traversals import climb, rows_of_kind, subtree_sums
from tracelens_graph.schema import EVENT_EDGES, FOREST_KINDS, GPU_KINDS, HOST_KINDS, Flag, Kind, OwnerRule
from tracelens_graph.schema.database import (
    ARGUMENTS_OF_TABLES,
    EDGE_PROPERTIES,
    EVENT,
    EVENT_PROPERTIES,
    HEAT,
    event_labels,
)
from tracelens_graph.stores.frames import Frame, Texts, recorded_columns, step_numbers
from tracelens_graph.utils.arrays import Mask, Rows


class _FlagNames:
    """A column: names of the flags of each row, None where there is none."""

    def __init__(self, bits: np.ndarray) -> None:
        self.bits = bits

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, rows: Any) -> _FlagNames:
        return _FlagNames(self.bits[rows])

    def tolist(self) -> list[list[str] | None]:
        names = {bits: [flag.name for flag in Flag if bits & flag] or None for bits in np.unique(self.bits).tolist()}
        return [names[bits] for bits in self.bits.tolist()]


def kept_rows(core: Core, options: Options) -> Mask:
    """Per row whether the event is taken."""
    kind = core.columns.kind
    kept: Mask = np.isin(kind, [Kind[name] for name in options.kinds])
    if options.min_gpu_time_ns:
        kept &= ~is_kind(kind, HOST_KINDS) | (core.gpu_sum_ns >= options.min_gpu_time_ns)
    return kept


def columns(core: Core, context: Context, options: Options) -> dict[str, Any]:
    """The properties of all events by name, one value per row."""
    c = core.columns
    rows = np.arange(len(c))
    below = subtree_sums(c, is_kind(c.kind, GPU_KINDS).astype(np.int64))
    recorded: Frame = recorded_columns(core)
    found: dict[str, Any] = {prop.name: recorded[prop.name] for prop in EVENT_PROPERTIES if prop.name in recorded}
    found |= {
        "pre": rows,
        "last": c.last,
        "depth": c.depth,
        "end_ns": c.end_ns,
        "thread": c.thread,
        "annotation": _annotations(core),
        "gpu_events": np.ma.masked_equal(below, 0),
        "gpu_sum_ns": np.ma.masked_where(below == 0, core.gpu_sum_ns),
        "gpu_busy_ns": np.ma.masked_where(below == 0, core.gpu_busy_ns(rows)),
        "step": step_numbers(core),
        "recompute": np.ma.masked_where(~autograd_of(core).recompute, autograd_of(core).recompute),
        "owner_rule": _spread(len(c), core.gpu_rows, c.owner_rule[core.gpu_rows], [rule.name for rule in OwnerRule]),
        "flags": _FlagNames(c.flags),
        "class_with_kernels": _classes(core),
    }
    found |= _iterations(core)
    for name, of in context.of_events.items():
        found[name] = _spread(len(c), of.rows, of.values, of.texts)
    arguments = {uid: msgspec.json.encode(one).decode() for uid, one in core.collective_args.items()}
    found["collective"] = _texts_of(core, arguments)
    found["arrows"] = _texts_of(core, _arrows(core))
    if core.programs is not None and core.programs.sources:
        ops = np.flatnonzero(c.kind == Kind.Op)
        found["source"] = _spread(len(c), ops, core.programs.source_place, core.programs.sources)
    found["args"] = _texts_of(core, dict(_arguments(core, options.with_args)))
    return found


def _annotations(core: Core) -> np.ma.MaskedArray:
    found = core.annotation
    return np.ma.masked_where(found < 0, core.columns.uid[found])


def _iterations(core: Core) -> dict[str, Any]:
    """Of every event the iteration of a server that holds it, and where one begins what it computes."""
    served = served_in(core)
    rows, length = served.found.rows, len(core.columns)
    times = {
        "host": served.found.dur_ns / 1e6, "host_gap": served.host_gap_ms, "device": served.device_ms,
        "idle": served.idle_ms,
    }  # fmt: skip
    figures = {**served.counts, **{f"{name}_ns": np.round(ms * 1e6) for name, ms in times.items()}}
    columns: dict[str, Any] = {"iteration": np.ma.masked_equal(served.found.of, -1)}
    columns["phase"] = _spread(length, rows, np.arange(len(rows)), served.phases.tolist())
    for name, values in figures.items():
        known = np.isfinite(values)
        columns[name] = _spread(length, rows[known], values[known].astype(np.int64), None)
    return columns


def _classes(core: Core) -> Texts:
    rows = class_rows(core)
    return _spread(
        len(core.columns), rows, np.arange(len(rows)), hex_of(subtree_classes(core, kernel_names=True)[rows])
    )


def _spread(length: int, rows: Rows, values: np.ndarray, texts: Sequence[str] | None) -> Any:
    """A column that has values in some rows only."""
    if texts is not None:
        codes = np.full(length, -1, np.int32)
        codes[rows] = values
        return Texts.of(codes, texts, empty_is_absent=True)
    absent = np.ones(length, bool)
    absent[rows] = False
    filled = np.zeros(length, values.dtype)
    filled[rows] = values
    return np.ma.MaskedArray(filled, absent)


def _texts_of(core: Core, texts: Mapping[int, str]) -> Texts:
    """A column from uid -> text."""
    rows = core.rows_of(texts)
    there = np.flatnonzero(rows >= 0)
    return _spread(len(core.columns), rows[there], there, list(texts.values()))


def _arrows(core: Core) -> dict[int, str]:
    """uid of a backward op -> uids of the forward ops whose arrows lead to it, in the order of the arrows."""
    found: dict[int, list[int]] = {}
    arrows = autograd_of(core).by_arrow
    for forward, backward in zip(*(core.columns.uid[rows].tolist() for rows in arrows), strict=True):
        found.setdefault(backward, []).append(forward)
    return {uid: json.dumps(uids) for uid, uids in found.items()}


def _arguments(core: Core, is_all: bool) -> Iterator[tuple[int, str]]:
    """uid and recorded arguments as JSON of the events that have some: all, or those that tables are made of."""
    c = core.columns
    lacks = {Kind.Op: core.programs is None, Kind.RuntimeCall: not any(name.startswith("hip") for name in core.names)}
    kinds = [kind for kind in ARGUMENTS_OF_TABLES if not lacks.get(kind)]
    rows = np.arange(len(c)) if is_all else rows_of_kind(c, kinds)
    rows = rows[np.argsort(c.uid[rows])]
    kind_of = dict(zip(c.uid[rows].tolist(), c.kind[rows].tolist(), strict=True))
    for uid, event in core.details.each(c.uid[rows].tolist()):
        arguments = event.get("args")
        if isinstance(arguments, dict) and not is_all:
            names = ARGUMENTS_OF_TABLES[kind_of[uid]]
            arguments = {name: arguments[name] for name in names if name in arguments}
        if arguments:
            yield uid, msgspec.json.encode(arguments).decode()


def nodes(core: Core, columns: Mapping[str, Any], kept: Mask) -> Iterator[Nodes]:
    """Events by kind and heat, in pre-order each; columns without any value are left out."""
    kind, heat = core.columns.kind, _heat(core, kept)
    there = [prop for prop in EVENT_PROPERTIES if prop.name in columns]
    sizes = np.zeros(len(kind), np.int64)
    for column in columns.values():
        if isinstance(column, Texts):
            sizes += _sizes(column)
    for one in Kind:
        for level, label in enumerate(("", *HEAT)):
            rows = np.flatnonzero(kept & (kind == one) & (heat == level))
            if not len(rows):
                continue
            taken = [(prop, columns[prop.name][rows]) for prop in there]
            taken = [(prop, column) for prop, column in taken if _has_values(column)]
            labels = (*event_labels(one), label) if label else event_labels(one)
            properties, of_rows = zip(*taken, strict=True)
            yield Nodes(labels, properties, of_rows, sizes[rows])


def _sizes(column: Texts) -> np.ndarray:
    lengths: np.ndarray = np.fromiter(map(len, (*column.texts, "")), np.int64)
    return lengths[column.codes]


def _heat(core: Core, kept: Mask) -> np.ndarray:
    """Per row the place of its label in HEAT, from 1 on; 0 for none."""
    kind, time = core.columns.kind, core.gpu_sum_ns
    heat = np.zeros(len(kind), np.int8)
    for one in FOREST_KINDS:
        rows = np.flatnonzero(kept & (kind == one))
        rows = rows[np.argsort(-time[rows], kind="stable")]
        low = 0
        for level, share in enumerate(HEAT.values(), 1):
            high = low + int(np.ceil(share * len(rows)))
            picked = rows[low:high]
            # However few nodes there are of a kind, one without GPU time is not hot.
            heat[picked[time[picked] > 0]] = level
            low = high
    return heat


def _has_values(column: Any) -> bool:
    if isinstance(column, Texts):
        return bool((column.codes >= 0).any())
    if isinstance(column, _FlagNames):
        return bool(column.bits.any())
    return not np.ma.getmaskarray(column).all()


def edges(core: Core, context: Context, kept: Mask, options: Options) -> tuple[list[Edges], int]:
    """Edges between events that are taken, and the number of those left out with one of their ends."""
    names = [edge.name for edge in EVENT_EDGES if options.takes(edge.name)]
    pairs: dict[str, EdgeRows] = {name: edge_rows(core, name) for name in names}
    pairs |= context.between_events
    left_out = 0
    if not kept.all():
        # A call goes below the next caller that is kept, so only the drop in their number is left out.
        left_out = len(pairs["CALLS"][0])
        pairs["CALLS"] = _calls_among(core, kept)
        left_out -= len(pairs["CALLS"][0])
    found = []
    for name, (source, target) in pairs.items():
        whole = kept[source] & kept[target]
        left_out += int((~whole).sum())
        if whole.any():
            found.append(_together(core, name, np.flatnonzero(whole), pairs[name], context.of_edges.get(name)))
    return found, left_out


def _together(core: Core, name: str, taken: Rows, pairs: EdgeRows, texts: EdgeTexts | None) -> Edges:
    """Edges with those of one node together, on the side that has fewer nodes."""
    source, target = pairs[0][taken], pairs[1][taken]
    by_source = bool(np.count_nonzero(np.bincount(source)) < np.count_nonzero(np.bincount(target)))
    order = np.argsort(source if by_source else target, kind="stable")
    uid = core.columns.uid
    columns: tuple[Any, ...] = (uid[source[order]], uid[target[order]])
    if texts is not None:
        columns = (*columns, Texts.of(texts.codes[taken][order], texts.texts))
    return Edges(name, EVENT, EVENT, columns, by_source, EDGE_PROPERTIES.get(name, ()))


def _calls_among(core: Core, kept: Mask) -> EdgeRows:
    """Calls that are taken, each with the nearest call above it that is taken."""
    c = core.columns
    callers = kept & is_kind(c.kind, HOST_KINDS)
    rows = np.flatnonzero(callers)
    above = climb(c.parent, c.parent[rows], callers)
    order = np.argsort(above, kind="stable")
    order = order[above[order] >= 0]
    return above[order], rows[order]
