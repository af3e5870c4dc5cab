"""What a graph takes from the execution trace that it is linked with: arguments that its own trace does not record."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from tracelens_graph.execution.arguments import ArgumentSet, ArgumentSets, collective_arguments
from tracelens_graph.execution.link import Link
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.schema import Kind

_NOTHING: ArgumentSet = ("", "", "", "")


def linked_graph(core: Core, link: Link) -> Graph:
    """The graph with a link, and with arguments from there where its own trace has none.

    An op takes dims, types, strides and concrete inputs, each where it lacks it; if both sides count other numbers of
    arguments, it keeps what it has. A collective takes what is not recorded of it.
    """
    parts: dict[str, Any] = {"collective_args": _collectives(core, link), "link": link}
    if "argset" in core.columns.names:
        codes, parts["argsets"] = _argument_sets(core, link)
        parts["columns"] = Columns({**dict(core.columns), "argset": codes})
    return changed(core, **parts)


def _argument_sets(core: Core, link: Link) -> tuple[np.ndarray, list[ArgumentSet]]:
    c, node = core.columns, link.node_of_row
    old = c.argset.astype(np.int64)
    lacks = np.array([not all(one) for one in (*core.argsets, _NOTHING)], bool)
    rows = np.flatnonzero((node >= 0) & (c.kind == Kind.Op) & lacks[old])
    sets = ArgumentSets()
    order = np.argsort(node[rows], kind="stable")
    new = np.empty(len(rows), np.int64)
    new[order] = sets.codes(link.execution.inputs, node[rows][order])
    rows, new = rows[new >= 0], new[new >= 0]
    recorded = sets.sets
    pairs, place = np.unique(np.column_stack((old[rows], new)), axis=0, return_inverse=True)
    every: list[ArgumentSet] = [(one[0], one[1], one[2], one[3]) for one in core.argsets]
    known = {one: code for code, one in enumerate(every)}
    found = np.empty(len(pairs), np.int64)
    for at, (mine, theirs) in enumerate(pairs.tolist()):
        whole = _completed(every[mine] if mine >= 0 else _NOTHING, recorded[theirs])
        if whole not in known:
            known[whole] = len(every)
            every.append(whole)
        found[at] = known[whole]
    old[rows] = found[place.reshape(-1)]
    return old.astype(c.argset.dtype), every


def _completed(mine: ArgumentSet, theirs: ArgumentSet) -> ArgumentSet:
    """An argument set with the parts that it lacks, if both count as many arguments."""
    if len({_length(part) for part in (*mine, *theirs) if part}) > 1:
        return mine
    dims, types, strides, concrete = (own or other for own, other in zip(mine, theirs, strict=True))
    return dims, types, strides, concrete


def _length(part: str) -> int:
    try:
        return len(msgspec.json.decode(part))
    except (msgspec.DecodeError, TypeError, RecursionError):
        return -1


def _collectives(core: Core, link: Link) -> dict[int, dict[str, Any]]:
    found = dict(core.collective_args)
    recorded = collective_arguments(link.execution)
    rows = link.row_of_node[list(recorded)]
    uids = core.columns.uid[rows].tolist()
    for row, uid, told in zip(rows.tolist(), uids, recorded.values(), strict=True):
        if row >= 0:
            own = {key: value for key, value in found.get(uid, {}).items() if value is not None}
            found[uid] = {**told, **own}
    return found
