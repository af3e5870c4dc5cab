"""Transfers through ranks without a file: what is sent to one, and what leaves it for another then."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.analyses.ranks.parts import POINT_TO_POINT, ends_of
from tracelens_graph.utils.arrays import Rows


def bridged(m: MatchedCollectives) -> MatchedCollectives:
    """The same, where a transfer to a rank without a file and what it sends on are one.

    A stage of a pipeline sends on what it has received and computed, in the order in which it comes: its receiver
    follows from who sent to it. The transfer takes what the stage computed as well.
    """
    if not (pairs := through(m)):
        return m
    number = m.number.copy()
    for sends, receives in pairs:
        number[sends] = number[receives] = number.max() + 1 + np.arange(len(sends))
    return m.numbered(number)


def through(m: MatchedCollectives) -> list[tuple[Rows, Rows]]:
    """Parts sent to a rank without a file, and what another receives from it, each from what was sent at its place."""
    there = {one.rank for one in m.ranks}
    ends = ends_elsewhere(m)
    sent: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    received: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    rows = np.flatnonzero(np.isin(m.parts.form, list(ends)))
    for part in rows[np.argsort(m.start_ns[rows], kind="stable")].tolist():
        source, target = ends[m.parts.form[part]]
        if source in there:
            sent[target][source].append(part)
        else:
            received[source][target].append(part)
    found = []
    for rank, of in sent.items():
        for source, sends in of.items():
            # The last stage sends back to where it receives from.
            targets = [target for target in received[rank] if target != source] or [source]
            fits = [one for target in targets if len(one := received[rank][target]) == len(sends)]
            if len(fits) == 1 and (m.start_ns[sends] < m.end_ns[fits[0]]).all():
                found.append((np.array(sends), np.array(fits[0])))
    return found


def ends_elsewhere(m: MatchedCollectives) -> dict[int, tuple[int, int]]:
    """Form of transfers on the GPU -> source and target, one of which has no file."""
    there, found = {one.rank for one in m.ranks}, {}
    for at, one in enumerate(m.parts.forms):
        source, target = ends_of(one) if one.kind in POINT_TO_POINT and not one.on_host else (None, None)
        if source is not None and target is not None and (source in there) != (target in there):
            found[at] = source, target
    return found
