"""Attribute dictionaries of many event nodes at once: what `Node.attributes()` gives of one."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node, plain_properties
from tracelens_graph.schema import FLAG_MEANING, GPU_KINDS, Flag, Kind, OwnerRule


def attributes_of(core: Core, low: int, high: int) -> list[dict[str, Any]]:
    """Attributes of the nodes in rows low..high-1, absent ones left out."""
    c, part = core.columns, slice(low, high)
    kind = c.kind[part]
    kinds, names, threads = [k.name for k in Kind], core.names, core.threads
    found: list[dict[str, Any]] = [
        {"kind": kinds[k], "name": names[n], "pid": threads[t][0], "tid": threads[t][1]}
        for k, n, t in zip(kind.tolist(), c.name[part].tolist(), c.thread[part].tolist(), strict=True)
    ]
    for prop in plain_properties(core):
        values = getattr(c, prop.name)[part]
        if prop.absent is None:
            for attributes, value in zip(found, values.tolist(), strict=True):
                attributes[prop.name] = value
        else:
            present = np.flatnonzero(values != prop.absent)
            for place, value in zip(present.tolist(), values[present].tolist(), strict=True):
                found[place][prop.name] = value
    # Every node gets lists of its own; to unpickle them takes a tenth of the time of parsing the JSON again.
    packed: dict[int, bytes] = {}
    argsets = c.argset[part]
    present = np.flatnonzero(argsets >= 0)
    for place, argset in zip(present.tolist(), argsets[present].tolist(), strict=True):
        if argset not in packed:
            packed[argset] = pickle.dumps(Node(core, low + place).shapes)
        found[place].update(pickle.loads(packed[argset]))
    rules = [rule.name for rule in OwnerRule]
    on_gpu = np.flatnonzero(is_kind(kind, GPU_KINDS))
    for place, rule in zip(on_gpu.tolist(), c.owner_rule[part][on_gpu].tolist(), strict=True):
        found[place]["owner_rule"] = rules[rule]
    flags = c.flags[part]
    for place in np.flatnonzero(flags).tolist():
        found[place]["flags"] = [FLAG_MEANING[flag] for flag in Flag if flags[place] & flag]
    return found
