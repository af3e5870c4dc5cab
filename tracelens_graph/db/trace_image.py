"""The image of a whole trace: its Trace node, knowledge, context and events."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

from tracelens_graph._version import __version__
from tracelens_graph.db import context_image, event_image
from tracelens_graph.db.image import Image, Options, Placement
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.context import Context
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import SCHEMA_VERSION
from tracelens_graph.schema.database import CONTEXT_PROPERTIES, DATABASE_VERSION, PULLED_EDGES
from tracelens_graph.stores.frames import Texts


def image_of(core: Core, context: Context, placement: Placement, options: Options) -> Image:
    """The nodes and edges that stand for a graph.

    Calls that are left out pass their callees on to the nearest call above that is taken, as CALLS. Other edges need
    both their ends; those that have not are counted.

    Args:
        core: the graph.
        context: its context, with what analyses know.
        placement: its run and name.
        options: what is taken.

    Raises:
        ChangedTraceError: the file, whose hash names the trace, is no longer the one that was loaded.
    """
    trace = _trace(core, context, placement, options)
    kept = event_image.kept_rows(core, options)
    columns = event_image.columns(core, context, options)
    replaced = 0
    for name, column in columns.items():
        if isinstance(column, Texts):
            columns[name], places = column.without(context_image.SURROGATES)
            replaced += places
    image = Image(trace, replaced=replaced, left_out_nodes=int((~kept).sum()))
    used = context_image.used_nodes(context, kept)
    image.nodes = [*context_image.nodes(context, used, trace), *event_image.nodes(core, columns, kept)]
    image.edges, image.left_out_edges = event_image.edges(core, context, kept)
    image.left_out_edges += sum(int((~kept[rows]).sum()) for rows, _ in context.from_events.values())
    image.left_out_edges += sum(int((~kept[rows]).sum()) for _, rows in context.to_events.values())
    image.left_out_edges += sum(int((~used[source]).sum()) for source, _ in context.among.values())
    image.edges += context_image.edges(core, context, kept, used, trace)
    edges: Counter[str] = Counter()
    for one in image.edges:
        edges[one.type] += len(one)
    of_types = json.dumps({name: edges[name] for name in PULLED_EDGES})
    trace |= {"nodes": image.events, "edges": edges.total(), "pulled_edges": of_types}
    return image


def _trace(core: Core, context: Context, placement: Placement, options: Options) -> dict[str, Any]:
    info = replace(core.info, source=os.path.basename(core.info.source))
    known = next(node for node in context.nodes.values() if node["kind"] == "Trace")
    found = {
        "id": core.trace_id,
        "name": placement.name,
        "run": placement.run,
        "path": f"{placement.run}/{placement.name}",
        "source": info.source,
        "rank": info.rank,
        "start_epoch_ns": info.start_epoch_ns,
        "lead_ns": info.lead_ns,
        "dur_ns": int(core.columns.end_ns.max(initial=0)),
        "events": info.events,
        "damage": info.damage or None,
        "lost_arrows": autograd_of(core).lost_arrows or None,
        "labels": list(placement.labels) or None,
        "lean": options.lean or None,
        "options": options.text,
        "schema_version": SCHEMA_VERSION,
        "database_version": DATABASE_VERSION,
        "tool_version": __version__,
        "architecture": known.get("architecture"),
        "info": json.dumps(asdict(info)),
        "threads": json.dumps(core.threads),
    }
    return {
        prop.name: context_image.cast(prop, found[prop.name])
        for prop in CONTEXT_PROPERTIES["Trace"]
        if prop.name in found
    }
