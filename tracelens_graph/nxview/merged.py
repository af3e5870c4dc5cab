"""What joins the ranks of a job: collectives, process groups and critical paths, and the edges between and to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.analyses.critical_path.critical_path import JobPaths
from tracelens_graph.analyses.ranks.figures import Figures, transfers
from tracelens_graph.graph.trace_set import NODES_PER_TRACE
from tracelens_graph.nxview.lazy import FrozenDict
from tracelens_graph.nxview.views import NOTHING

FIRST_GROUP, FIRST_PATH, FIRST_SEGMENT = 2**39, 2**39 + 2**37, 2**39 + 2**38
"""Nodes that belong to no trace are numbered as if they were of one more: collectives from 0, groups, paths and their
segments from here on."""

_OF_COLLECTIVES = (
    "key", "group", "sequence", "step", "dtype", "ranks", "group_size", "hosts", "message_bytes", "last_rank",
    "last_trace", "start_ns", "dur_ns", "start_skew_ns", "wait_ns", "latency_ns", "end_skew_ns", "algbw_gb_s",
    "busbw_gb_s",
)  # fmt: skip
"""Figures of a collective that are attributes of its node."""

Neighbours = dict[int, dict[int, FrozenDict]]
"""node -> neighbour -> type of the edge -> its attributes, as networkx keeps the edges of a MultiDiGraph."""


class Merged:
    """Nodes that ranks share, and the edges that join ranks.

    Args:
        figures: what the collectives cost.
        paths: the critical paths.

    Attributes:
        edges: how many edges there are.
    """

    def __init__(self, figures: Figures, paths: JobPaths) -> None:
        self._nodes: dict[int, FrozenDict] = {}
        self._out: Neighbours = {}
        self._into: Neighbours = {}
        self._figures, self._matched = figures, figures.matched
        self._base = len(self._matched.ranks) * NODES_PER_TRACE
        self._steps = [path.step for path in paths.paths]
        self.edges = 0
        self._add_collectives()
        self._add_groups()
        self._join_members()
        self._join_transfers()
        self._add_paths(paths)

    @property
    def keys(self) -> list[int]:
        """The nodes by their numbers in the set: collectives in their order, process groups, paths, their segments."""
        return list(self._nodes)

    def attributes(self, key: int) -> FrozenDict:
        """The attributes of a node."""
        return self._nodes[key]

    def out(self, key: int) -> dict[int, FrozenDict]:
        """The edges from a node, also of a trace: neighbour -> type -> attributes."""
        return self._out.get(key, {})

    def into(self, key: int) -> dict[int, FrozenDict]:
        """The edges to a node; they show the same attributes as `out`."""
        return self._into.get(key, {})

    def collective(self, number: int) -> int:
        """The node of a collective, by its number in `MatchedCollectives`."""
        return self._base + number

    def path_of_step(self, step: int | None) -> int | None:
        """The node of the critical path of a step, or with None of everything; None where there is no such path."""
        return self._base + FIRST_PATH + self._steps.index(step) if step in self._steps else None

    def _add_collectives(self) -> None:
        columns = {"name": self._figures.columns["kind"], "collective": self._figures.columns["number"]}
        columns |= {name: self._figures.columns[name] for name in _OF_COLLECTIVES}
        for number, values in enumerate(zip(*columns.values(), strict=True)):
            self._add(self.collective(number), "Collective", **dict(zip(columns, values, strict=True)))

    def _add_groups(self) -> None:
        """A group is its ranks; where these are not recorded, its name. Where neither is, there is no node for it."""
        m, groups = self._matched, self._figures.groups
        for number, ranks in enumerate(groups.ranks):
            members = np.flatnonzero(groups.number == number).tolist()
            known = [one for at in members for one in m.members(at)]
            if ranks is None and known[0].group is None:
                continue
            node = self._base + FIRST_GROUP + number
            self._add(
                node, "ProcessGroup", name=_listed([one.group for one in known]),
                description=_listed([one.group_description for one in known]),
                ranks=None if ranks is None else json.dumps(ranks),
                size=known[0].group_size if ranks is None else len(ranks),
            )  # fmt: skip
            for at in members:
                self._join("IN_GROUP", self.collective(at), node)

    def _join_members(self) -> None:
        m = self._matched
        for part in m.order.tolist():
            times = FrozenDict(
                wait_ns=int(m.wait_ns[part]), transfer_ns=int(m.transfer_ns[part]), end_skew_ns=int(m.end_skew_ns[part])
            )
            first, *others = self._kernels(part)
            collective = self.collective(int(m.number[part]))
            self._join("MEMBER_OF", first, collective, times)
            for kernel in others:  # times are of the whole part, so that they stand once
                self._join("MEMBER_OF", kernel, collective)

    def _join_transfers(self) -> None:
        for at, source, target in zip(*(each.tolist() for each in transfers(self._matched)), strict=True):
            collective = self._nodes[self.collective(at)]
            shown = ("collective", "message_bytes", "latency_ns", "start_skew_ns")
            about = FrozenDict({name: collective[name] for name in shown if name in collective})
            self._join("SENDS", self._kernels(source)[0], self._kernels(target)[0], about)

    def _add_paths(self, paths: JobPaths) -> None:
        """A node per path and per segment; events lead to their segments, and these to their path and the next one."""
        first_path, first = self._base + FIRST_PATH, self._base + FIRST_SEGMENT
        for number in range(len(paths.paths)):
            self._nodes[first_path + number] = _known("CriticalPath", paths.about(number))
        for number, values in enumerate(zip(*paths.columns.values(), strict=True)):
            self._nodes[first + number] = _known("PathSegment", dict(zip(paths.columns, values, strict=True)))
        segment, ordinal, uid = paths.events
        events = ordinal.astype(np.int64) * NODES_PER_TRACE + uid
        for event, number in zip(events.tolist(), segment.tolist(), strict=True):
            self._join("ON_PATH", event, first + number)
        of = paths.path.tolist()
        for number, path in enumerate(of):
            self._join("OF_PATH", first + number, first_path + path)
            if of[number + 1 : number + 2] == [path]:
                self._join("NEXT_ON_PATH", first + number, first + number + 1)

    def _kernels(self, part: int) -> list[int]:
        base = int(self._matched.trace[part]) * NODES_PER_TRACE
        return [base + uid for uid in self._matched.parts.collective(part).uids]

    def _add(self, node: int, kind: str, **attributes: Any) -> None:
        self._nodes[node] = _known(kind, {name: None if value == "" else value for name, value in attributes.items()})

    def _join(self, name: str, source: int, target: int, attributes: FrozenDict = NOTHING) -> None:
        joined = FrozenDict({**self._out.get(source, {}).get(target, {}), name: attributes})
        self._out.setdefault(source, {})[target] = joined
        self._into.setdefault(target, {})[source] = joined
        self.edges += 1


def _listed(names: Sequence[str | None]) -> str:
    """The different names, the more frequent first where several ranks call one group by other names."""
    return ", ".join(dict.fromkeys(name for name in names if name))


def _known(kind: str, attributes: Mapping[str, Any]) -> FrozenDict:
    """The attributes of a node, without those that are absent."""
    return FrozenDict({"kind": kind, **{name: value for name, value in attributes.items() if value is not None}})
