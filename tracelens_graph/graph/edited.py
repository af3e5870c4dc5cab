"""A graph with other names, other arguments or further ops: what an extension, or a rule for fused work, may change.

A graph is never changed; these return a new one that shares everything else with the old one. The nodes that there
were keep their uids, times and links.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.graph.arguments import ARGUMENTS
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.graph.traversals import outermost_above
from tracelens_graph.schema import FIRST_MADE_UID, GPU_KINDS, HOST_KINDS, STORED, Flag, Kind, OwnerRule
from tracelens_graph.utils.arrays import Codes, Ns, Rows
from tracelens_graph.utils.suggest import hint


def renamed(core: Core, names: Mapping[int, str]) -> Graph:
    """The graph with other names for some nodes.

    Args:
        names: uid -> name.

    Raises:
        NodeNotFoundError: there is no node of a uid.
    """
    every, codes = _with_names(core, names.values())
    column = core.columns.name.astype(np.int64)
    column[_rows(core, names)] = codes
    return changed(core, columns=_with(core, name=column), names=every)


def with_arguments(core: Core, arguments: Mapping[int, Mapping[str, Sequence[Any]]]) -> Graph:
    """The graph with other recorded arguments for some ops, such as shapes that the profiler does not know.

    Args:
        arguments: uid -> the parts that change, by their names in traces: `Input Dims`, `Input type`,
            `Input Strides`, `Concrete Inputs`, each a list with an entry per argument.

    Raises:
        NodeNotFoundError: there is no node of a uid.
        ValueError: a part has another name.
    """
    argsets, instructions = list(core.argsets), list(core.instructions)
    codes = {(*argset, *instructions[code : code + 1]): code for code, argset in enumerate(argsets)}
    column = core.columns.argset.astype(np.int64)
    for row, parts in zip(_rows(core, arguments), arguments.values(), strict=True):
        if unknown := sorted(parts.keys() - set(ARGUMENTS)):
            raise ValueError(f"{unknown[0]!r} is not part of arguments; {hint(unknown[0], ARGUMENTS)}")
        code = int(column[row])
        old = argsets[code] if code >= 0 else ("",) * 4
        texts = [json.dumps(list(parts[key])) if key in parts else old[i] for i, key in enumerate(ARGUMENTS)]
        own = [instructions[code] if code >= 0 else ""] if core.instructions else []
        if (*texts, *own) not in codes:
            codes[*texts, *own] = len(argsets)
            argsets.append((texts[0], texts[1], texts[2], texts[3]))
            instructions += own
        column[row] = codes[*texts, *own]
    return changed(core, columns=_with(core, argset=column), argsets=argsets, instructions=instructions)


def _with_names(core: Core, names: Iterable[str]) -> tuple[list[str], Codes]:
    """The names of a graph and further ones, and the code of each of the latter."""
    every = list(core.names)
    codes = {name: code for code, name in enumerate(every)}
    found = [codes.setdefault(name, len(codes)) for name in names]
    return [*every, *list(codes)[len(every) :]], np.array(found, np.int64)


def _with(core: Core, **columns: np.ndarray) -> Columns:
    return Columns({**dict(core.columns), **columns})


def _rows(core: Core, uids: Mapping[int, Any]) -> list[int]:
    rows = core.rows_of(uids)
    for uid in np.fromiter(uids, np.int64, len(uids))[rows < 0].tolist():
        core.row(uid)  # says what is wrong with it
    return rows.tolist()


def wrapped(core: Core, tops: Rows, names: Sequence[str], argsets: Codes) -> Graph:
    """The graph with an op more above each of some nodes, to which GPU events below are charged.

    The op begins and ends with the node that it stands above; above a GPU event it has no host time. It takes over the
    events that are charged to an op further up, or to none; those of ops below it stay theirs.

    Args:
        tops: rows, ascending, none below another: of host calls, or of GPU events with a launch.
        names: the name of the op above each.
        argsets: the code of its arguments.
    """
    c, n = core.columns, len(tops)
    moved = np.arange(len(c)) + np.searchsorted(tops, np.arange(len(c)), "right")
    # Row -1 stands for none, and stays so.
    place = np.append(moved, -1)
    new, top = moved[tops] - 1, moved[tops]
    every, codes = _with_names(core, names)
    on_host = is_kind(c.kind[tops], HOST_KINDS)
    host = np.where(on_host, tops, c.parent[tops])
    values: dict[str, Any] = {
        "uid": max(FIRST_MADE_UID, int(c.uid.max()) + 1) + np.arange(n), "kind": Kind.Op, "name": codes,
        "thread": c.thread[host], "start_ns": c.start_ns[host], "dur_ns": np.where(on_host, c.dur_ns[tops], 0),
        "argset": argsets, "depth": c.depth[tops], "flags": c.flags[host] & Flag.captured,
    }  # fmt: skip
    absent = {prop.name: prop.absent for prop in STORED}
    arrays = {name: np.insert(column, tops, values.get(name, absent[name] or 0)) for name, column in c}
    parent, last, owner = (np.insert(place[column], tops, -1) for column in (c.parent, c.last, c.owner))
    parent[new], last[new] = parent[top], last[top]
    parent[top] = new
    ends = np.zeros(len(parent) + 1, np.int64)
    np.add.at(ends, top, 1)
    np.add.at(ends, last[new] + 1, -1)
    arrays["depth"] = (arrays["depth"] + np.cumsum(ends)[:-1]).astype(c.depth.dtype)
    gpu = np.flatnonzero(is_kind(arrays["kind"], GPU_KINDS))
    above = outermost_above(last, new, gpu)
    taken = (above >= 0) & (owner[gpu] < above)
    owner[gpu[taken]], arrays["owner_rule"][gpu[taken]] = above[taken], OwnerRule.pseudo_op
    arrays |= {"parent": parent, "last": last, "owner": owner}
    narrowed = {name: array.astype(getattr(c, name).dtype, copy=False) for name, array in arrays.items()}
    return changed(core, columns=Columns(narrowed), names=every, depends_on=place[core.depends_on])


def with_events(core: Core, ops: Rows, start: Ns, dur: Ns) -> tuple[Graph, Rows]:
    """The graph with one kernel below each of some ops in place of all its GPU events, a stream for each thread.

    Args:
        ops: rows, ascending.
        start, dur: times of the kernel of each, ns; its name is that of the op.

    Returns:
        The graph, and for each of its rows the row that it was, or that of its op.
    """
    c, n = core.columns, len(ops)
    kept = ~is_kind(c.kind, GPU_KINDS)
    rows = np.flatnonzero(kept)
    # Right behind its op stands the event; row -1 stands for none, and stays so.
    place = np.append(np.cumsum(kept) - 1 + np.searchsorted(ops, np.arange(len(c))), -1)
    has_event = np.isin(rows, ops)
    end_of = place[rows] + has_event
    source = np.empty(len(rows) + n, np.int64)
    event = place[ops] + 1
    source[place[rows]], source[event] = rows, ops
    values: dict[str, Any] = {
        "uid": max(FIRST_MADE_UID, int(c.uid.max()) + 1) + np.arange(n), "kind": Kind.Kernel, "name": c.name[ops],
        "thread": c.thread[ops], "start_ns": start, "dur_ns": dur, "device": 0, "stream": c.thread[ops],
        "parent": place[ops], "last": event, "depth": c.depth[ops] + 1, "owner": place[ops],
        "owner_rule": OwnerRule.nearest_op,
    }  # fmt: skip
    absent = {prop.name: prop.absent for prop in STORED}
    arrays = {name: column[source] for name, column in c}
    arrays["parent"] = place[arrays["parent"]]
    arrays["last"] = end_of[np.searchsorted(rows, arrays["last"], "right") - 1]
    for name, array in arrays.items():
        array[event] = values.get(name, absent[name] or 0)
    narrowed = {name: array.astype(getattr(c, name).dtype, copy=False) for name, array in arrays.items()}
    none = np.empty((0, 2), core.depends_on.dtype)
    return changed(core, columns=Columns(narrowed), depends_on=none), source
