"""Joining a graph with the execution trace of the same run: which nodes of both stand for one operator.

Methods are tried in order, and the first is taken by which at least 95 % of the pairs have equal names: ids of record
functions that are equal, or equal but for a constant; External ids that are these ids, as in old traces of one thread;
names in the order of their beginnings, thread by thread; the same where one of the two traces is a part of the other.

A constant, or a place, is chosen so that names are equal; so it takes several different names to believe in it. Equal
ids are believed with fewer, unless a constant pairs more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tracelens_graph.errors import LinkError
from tracelens_graph.execution.joining.by_ids import by_ids, offsets
from tracelens_graph.execution.joining.by_order import by_order, within_longer
from tracelens_graph.execution.joining.other_process import is_same_process, other_process
from tracelens_graph.execution.joining.sides import Pairs, Side
from tracelens_graph.execution.link import Link
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.core import Core

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
        core: the graph.
        execution: the execution trace.
        record_ids: per row of the graph the id of its record function, 0 for none.

    Raises:
        LinkError: they are not of one program, or not of one rank, or too little is there to tell; the message names
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
            f"{_both(core, execution)}: too little to tell whether they are of one run: what fits has "
            f"{most_names} different name{'' if most_names == 1 else 's'}, {_FEWEST_NAMES} are needed"
        )
    raise LinkError(
        f"{_both(core, execution)}: not of one run: at most {best:.1f} % of the names are equal, "
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
    found: list[str] = np.select(conditions, words, f"not in the {other.what}").tolist()
    return found
