"""Joining a graph with the execution trace of the same run: which nodes of both stand for one operator.

Methods are tried in order, and the first is taken by which at least 95 % of the pairs have equal names: ids of record
functions that are equal, or equal but for a constant; External ids that are these ids, as in old traces of one thread;
names in the order of their beginnings, thread by thread; the same where one of the two traces is a part of the other.

A constant, or a place, is chosen so that names are equal; so it takes several different names to believe in it. Equal
ids are believed with fewer, unless a constant pairs more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.errors import LinkError
from tracelens_graph.execution.arguments import ArgumentSet, ArgumentSets, collective_arguments
from tracelens_graph.execution.link import Link
from tracelens_graph.execution.matching import Pairs, Side, by_ids, by_order, offsets, within_longer
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.schema import GPU_KINDS, Kind

_DEVICE = re.compile(rb'"(?:cuda|xpu|hpu|mtia):([0-9]{1,4})"')
_DEFAULT = "default_pg"
_NODES = 2000
"""Nodes in which devices are looked for."""


def other_process(core: Core, execution: ExecutionTrace) -> str:
    """What says that they are of two ranks; empty if nothing does.

    One process id on both sides is one process. Two may be two runs of a program; then ranks may not differ where both
    sides record them, nor devices where a side is of a job and has no rank.
    """
    if is_same_process(core, execution):
        return ""
    collectives = collective_arguments(execution)
    size = core.info.world_size
    own = core.info.rank if core.info.rank is not None else _rank(core.collective_args.values(), size)
    ranks = own, _rank(collectives.values(), size)
    if None not in ranks:
        return f"of two ranks, {ranks[0]} and {ranks[1]}" if ranks[0] != ranks[1] else ""
    if not collectives and core.info.rank is None and not core.collective_args:
        return ""
    c = core.columns
    used = {int(one) for one in c.device[is_kind(c.kind, GPU_KINDS)].tolist()}
    named = _devices(execution)
    if used and named and not used & named:
        shown = [", ".join(map(str, sorted(one))) for one in (used, named)]
        return f"of two ranks, on devices {shown[0]} and {shown[1]}"
    return ""


def is_same_process(core: Core, execution: ExecutionTrace) -> bool | None:
    """Whether both name one process; None if one of them names none."""
    pids = {str(pid) for pid, _ in core.threads}
    return None if execution.info.pid is None or not pids else str(execution.info.pid) in pids


def _rank(collectives: Iterable[Mapping[str, Any]], world_size: int | None) -> int | None:
    """The rank of a process in its job, from collectives of the group of all ranks; None if it is not recorded."""
    for one in collectives:
        rank = one.get("rank")
        is_all = world_size is not None and one.get("group_size") == world_size
        if type(rank) is int and (is_all or one.get("group_description") == _DEFAULT):
            return rank
    return None


def _devices(execution: ExecutionTrace) -> set[int]:
    found: set[int] = set()
    for side in (execution.inputs, execution.outputs):
        for arguments in side[:_NODES]:
            found |= {int(one) for one in _DEVICE.findall(bytes(arguments.values))}
    return found


_FEWEST_NAMES = 5
"""Different names among the pairs from which on a method is believed that fits the two to one another."""

ENOUGH_PERCENT = 95
"""Share of pairs with equal names from which on a method is believed."""
_FEWEST_BY_ID = 0.1
"""Share of the nodes of the smaller side that ids have to pair: both may have recorded other parts of a run."""


def join(core: Core, execution: ExecutionTrace, record_ids: np.ndarray) -> Link:
    """The link of a graph and an execution trace.

    Pairs have equal names. Nodes that a method pairs although their names differ are left unjoined.

    Args:
        record_ids: per row of the graph the id of its record function, 0 for none.

    Raises:
        LinkError: they are not of one program, or not of one rank, or too little is there to decide; the message names
            both files and the share.
    """
    trace, nodes = Side.of_graph(core, record_ids), Side.of_execution_trace(execution, core)
    best, most_names = 0.0, 0
    for method, pairs, of, is_fitted in _methods(trace, nodes):
        if not len(pairs[0]):
            continue
        equal = trace.name[pairs[0]] == nodes.name[pairs[1]]
        share = 100 * int(equal.sum()) / of
        best = max(best, share)
        if share >= ENOUGH_PERCENT:
            names = len(np.unique(trace.name[pairs[0][equal]]))
            if names < _FEWEST_NAMES and (is_fitted or _a_constant_pairs_more(trace, nodes, len(pairs[0]))):
                most_names = max(most_names, names)
                continue
            if other := other_process(core, execution):
                raise LinkError(f"{_both(core, execution)}: {other}; {share:.1f} % of the names are equal")
            kept = pairs[0][equal], pairs[1][equal]
            reasons = dict(_reasons(trace, nodes, kept, (pairs[0][~equal], pairs[1][~equal])))
            return _link(core, execution, trace, nodes, kept, method, share, reasons)
    if not len(trace) or not len(nodes):
        lacking = core.info.source if not len(trace) else execution.info.source
        raise LinkError(f"{_both(core, execution)}: nothing to join: {lacking} has no ops")
    if most_names:
        raise LinkError(
            f"{_both(core, execution)}: too little to decide whether they come from one run: what fits has "
            f"{most_names} different name{'' if most_names == 1 else 's'}, {_FEWEST_NAMES} are needed"
        )
    raise LinkError(
        f"{_both(core, execution)}: not from one run: at most {best:.1f} % of the names are equal, "
        f"{ENOUGH_PERCENT} % are needed"
    )


def _both(core: Core, execution: ExecutionTrace) -> str:
    return f"{core.info.source} and {execution.info.source}"


def _methods(trace: Side, nodes: Side) -> Iterator[tuple[str, Pairs, int, bool]]:
    """What is tried, in order: how it is called, the pairs, how many of them there should be, whether it was fitted."""
    fewest = _FEWEST_BY_ID * min(len(trace), len(nodes))

    def ids(method: str, of_trace: np.ndarray, offset: int = 0) -> Iterator[tuple[str, Pairs, int, bool]]:
        pairs = by_ids(of_trace, nodes.record_id, offset)
        if len(pairs[0]) >= fewest:
            yield method, pairs, len(pairs[0]), offset != 0

    yield from ids("Record function id = rf_id", trace.record_id)
    for offset in offsets(trace, nodes):
        yield from ids(
            f"Record function id = rf_id {'+' if offset > 0 else '-'} {abs(offset):,}", trace.record_id, offset
        )
    yield from ids("External id = rf_id", trace.external_id)
    yield "names in order, by thread", by_order(trace, nodes), (len(trace) + len(nodes)) // 2, True
    for method, pairs, of in within_longer(trace, nodes):
        yield method, pairs, of, True


def _a_constant_pairs_more(trace: Side, nodes: Side, count: int) -> bool:
    """Whether ids of record functions that differ by a constant are more than those that are equal."""
    return any(len(by_ids(trace.record_id, nodes.record_id, one)[0]) > count for one in offsets(trace, nodes))


def _link(
    core: Core,
    execution: ExecutionTrace,
    trace: Side,
    nodes: Side,
    pairs: Pairs,
    method: str,
    share: float,
    reasons: dict[str, int],
) -> Link:
    node_of_row, row_of_node = np.full(len(core.columns), -1), np.full(len(execution), -1)
    rows, partners = trace.row[pairs[0]], nodes.row[pairs[1]]
    node_of_row[rows], row_of_node[partners] = partners, rows
    same = is_same_process(core, execution)
    return Link(execution, node_of_row, row_of_node, method, share, reasons, same)


def _reasons(trace: Side, nodes: Side, pairs: Pairs, differ: Pairs) -> Iterator[tuple[str, int]]:
    """Why nodes of either side have no partner, with their number."""
    for side, other, mine, named_otherwise in (
        (trace, nodes, pairs[0], differ[0]),
        (nodes, trace, pairs[1], differ[1]),
    ):
        why = Counter(_why(side, other, mine, named_otherwise))
        yield from ((f"{side.what}: {reason}", count) for reason, count in why.most_common())


def _why(side: Side, other: Side, joined: np.ndarray, named_otherwise: np.ndarray) -> list[str]:
    """For each node of a side without a partner, why it has none: the first reason that applies."""
    alone = np.ones(len(side), bool)
    alone[joined] = False
    at = np.flatnonzero(alone)
    first, last = side.order[joined].min(), side.order[joined].max()
    reasons = [
        (side.is_step[at], "ProfilerStep"),
        (np.isin(at, named_otherwise), f"another name in the {other.what}"),
        (side.order[at] < first, f"began before the {other.what}"),
        (side.order[at] > last, f"began after the {other.what}"),
        (~np.isin(side.thread[at], side.thread[joined]), f"on a thread that the {other.what} lacks"),
    ]
    conditions, words = [applies for applies, _ in reasons], [reason for _, reason in reasons]
    return np.select(conditions, words, f"not in the {other.what}").tolist()


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
    # The entry appended serves argument set -1, of an op that lacks everything.
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
    for row, uid, shown in zip(rows.tolist(), uids, recorded.values(), strict=True):
        if row >= 0:
            own = {key: value for key, value in found.get(uid, {}).items() if value is not None}
            found[uid] = {**shown, **own}
    return found
