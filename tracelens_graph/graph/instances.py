"""Calls that were recorded elsewhere, or inferred, as nodes below the launches that ran their GPU work.

A launch of a graph runs the GPU work of many calls. Each launch gets an instance of them, which takes no host time: the
launch's start, no duration. GPU events stand below the calls that they are the work of, so that subtrees, owners and
all that follows from these are as if each call had launched its work itself. Instances of one pattern are laid out
once, and repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import Graph, changed
from tracelens_graph.graph.traversals import climb
from tracelens_graph.schema import FIRST_MADE_UID, STORED, Flag, Kind, OwnerRule
from tracelens_graph.utils.arrays import Codes, Rows


@dataclass(frozen=True, eq=False)
class CallTree:
    """Calls, in pre-order.

    Attributes:
        kind, parent: of each call; -1 is the parent of what stands right below the launch.
        name, argset: positions in the tables `names` and `argsets`; -1 for no argument set.
        names, argsets: as of a graph.
        collectives: position of a call -> arguments of the collective that it takes part in.
    """

    kind: Codes
    parent: Rows
    name: Codes
    argset: Codes
    names: Sequence[str]
    argsets: Sequence[tuple[str, str, str, str]]
    collectives: Mapping[int, dict[str, Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True, eq=False)
class Instance:
    """The calls that one launch ran.

    Attributes:
        launch: row of the launch.
        tree: its calls.
        call: position in the tree of the call of each GPU event that hangs below the launch, in row order; -1 for none.
    """

    launch: int
    tree: CallTree
    call: Rows


@dataclass(frozen=True, eq=False)
class _Layout:
    """How the rows below a launch are laid out. Positions count from the first of them.

    Attributes:
        source: of each row the position of its call in the tree, or `~k` for the k-th GPU event.
        parent, last: positions; -1 is the launch.
        depth: below the launch, from 1.
        owner: of each row the position of the op above it, -1 for none.
        at: of each GPU event its position.
    """

    source: Rows
    parent: Rows
    last: Rows
    depth: Rows
    owner: Rows
    at: Rows


def with_instances(core: Core, instances: Iterable[Instance], rule: OwnerRule, flag: Flag) -> Graph:
    """The graph with the calls of some launches below these, and their GPU events below the calls.

    Calls without GPU events below them are left out. A GPU event is charged to the nearest op among the calls above it,
    by this rule; one without stays charged as it was.
    """
    wanted = sorted(instances, key=lambda one: one.launch)
    if not wanted:
        return changed(core)
    c = core.columns
    layouts, which = _layouts(wanted)
    launch = np.array([one.launch for one in wanted], np.int64)
    size = np.array([len(layout.source) for layout in layouts], np.int64)[which]
    events = np.array([len(one.call) for one in wanted], np.int64)
    low = c.last[launch].astype(np.int64) + 1 - events  # a launch's GPU events are the last rows below it
    added = size - events
    base = low + np.cumsum(added) - added
    # Old rows move down by what is inserted before them.
    shift = np.zeros(len(c) + 1, np.int64)
    np.add.at(shift, low + events, added)
    new_row = np.arange(len(c)) + np.cumsum(shift[:-1])
    end = new_row.copy()
    inserted = _flat(layouts, which, "source")
    at_base = np.repeat(base, size)
    place = np.arange(len(inserted)) + np.repeat(base - np.cumsum(size) + size, size)
    is_event = inserted < 0
    old = np.repeat(low, events) + ~inserted[is_event]
    new_row[old] = place[is_event]
    end[old] = np.repeat(base + size - 1, events)
    source = np.empty(len(c) + int(added.sum()), np.int64)
    source[new_row] = np.arange(len(c))
    calls = place[~is_event]
    source[calls] = np.repeat(launch, added)

    columns: dict[str, np.ndarray] = {name: column[source] for name, column in c}
    for name, old_rows, moved in (("parent", c.parent, new_row), ("last", c.last, end), ("owner", None, new_row)):
        if name in columns:
            rows = c.owner if old_rows is None else old_rows
            columns[name] = np.where(rows >= 0, moved[rows], -1).astype(np.int32)[source]
    of_tree = inserted[~is_event]
    tables = _Tables(core)
    values = _of_calls(columns, tables, wanted, which, layouts)
    for prop in STORED:
        if prop.name in columns and prop.name not in _KEPT:
            columns[prop.name][calls] = values.get(prop.name, -1 if prop.absent is None else prop.absent)
    uid = max(FIRST_MADE_UID, int(c.uid.max()) + 1) + np.arange(len(calls))
    columns["uid"][calls] = uid
    parent = _flat(layouts, which, "parent")
    columns["parent"][place] = np.where(parent >= 0, at_base + parent, np.repeat(new_row[launch], size))
    columns["last"][place] = at_base + _flat(layouts, which, "last")
    if "depth" in columns:
        columns["depth"][place] = np.repeat(c.depth[launch], size) + _flat(layouts, which, "depth")
    if "flags" in columns:
        columns["flags"][calls] = flag.value
    if "owner" in columns:
        owner = _flat(layouts, which, "owner")
        owned = np.flatnonzero(is_event & (owner >= 0))
        columns["owner"][place[owned]] = at_base[owned] + owner[owned]
        columns["owner_rule"][place[owned]] = rule.value
        columns["owner_rule"][calls] = OwnerRule.none
    return changed(
        core,
        columns=Columns(columns),
        names=tables.names,
        argsets=tables.argsets,
        depends_on=new_row[core.depends_on] if len(core.depends_on) else core.depends_on,
        collective_args=_collectives(core, wanted, which, uid, of_tree, size, is_event),
    )


_KEPT = frozenset(("uid", "thread", "start_ns", "parent", "last", "depth", "owner", "owner_rule", "flags"))
"""Columns of calls that are those of the launch, or set one by one."""


def _layouts(instances: Sequence[Instance]) -> tuple[list[_Layout], Rows]:
    """The different layouts, and which one each instance has."""
    known: dict[tuple[int, bytes], int] = {}
    layouts: list[_Layout] = []
    which = np.empty(len(instances), np.int64)
    for number, one in enumerate(instances):
        key = id(one.tree), one.call.astype(np.int64).tobytes()
        if key not in known:
            known[key] = len(layouts)
            layouts.append(_layout(one.tree, one.call.astype(np.int64)))
        which[number] = known[key]
    return layouts, which


def _layout(tree: CallTree, call: Rows) -> _Layout:
    """The rows below a launch whose GPU events are the work of these calls."""
    size, parent = len(tree), tree.parent.astype(np.int64)
    depth, last = _depths(parent), _lasts(parent)
    events = np.bincount(call[call >= 0], minlength=size)
    running = np.concatenate(([0], np.cumsum(events)))
    calls = np.flatnonzero(running[last + 1] > running[:-1])  # those with GPU events below them
    joined, place = call >= 0, np.maximum(call, 0)
    # A call's GPU events stand behind the last call below it; what is of no call comes last.
    slot = np.concatenate((calls, np.where(joined, last[place] if size else 0, size)))
    level = np.concatenate((np.full(len(calls), -size - 2), np.where(joined, -depth[place] if size else 0, 0)))
    source = np.concatenate((calls, ~np.arange(len(call))))
    order = np.lexsort((level, slot))
    source, total = source[order], len(order)
    position = np.full(size + 1, -1, np.int64)  # the last entry is where -1 leads
    is_call = source >= 0
    position[source[is_call]] = np.flatnonzero(is_call)
    above = np.where(is_call, parent[np.maximum(source, 0)] if size else -1, call[~np.minimum(source, -1)])
    own_depth = np.where(is_call, depth[np.maximum(source, 0)] if size else 0, 1)
    own_depth = np.where(~is_call & (above >= 0), depth[above] + 1 if size else 1, own_depth)
    own_parent = position[above]
    op = np.zeros(total, bool)
    op[is_call] = tree.kind[source[is_call]] == Kind.Op
    at = np.empty(len(call), np.int64)
    at[~source[~is_call]] = np.flatnonzero(~is_call)
    return _Layout(source, own_parent, _lasts(own_parent), own_depth, climb(own_parent, own_parent, op), at)


def _depths(parent: Rows) -> Rows:
    """How far each row of a forest stands below its root, from 1."""
    depth, above = np.ones(len(parent), np.int64), parent
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return depth


def _lasts(parent: Rows) -> Rows:
    """The last row below each row of a forest in pre-order, itself included."""
    last, above = np.arange(len(parent)), parent.astype(np.int64)
    reached = above >= 0
    while reached.any():
        np.maximum.at(last, above[reached], np.flatnonzero(reached))
        above = np.where(reached, parent[above], -1)
        reached = above >= 0
    return last


def _flat(layouts: Sequence[_Layout], which: Rows, name: str) -> Rows:
    """A property of all rows of all instances, one instance after the other."""
    parts = [getattr(layout, name) for layout in layouts]
    return np.concatenate([parts[one] for one in which.tolist()])


class _Tables:
    """Names and argument sets of a graph, to which those of trees are added once each."""

    def __init__(self, core: Core) -> None:
        self.names, self.argsets = list(core.names), list(core.argsets)
        self._name = {name: code for code, name in enumerate(self.names)}
        self._argset = {tuple(argset): code for code, argset in enumerate(self.argsets)}

    def codes(self, tree: CallTree) -> tuple[Codes, Codes]:
        """Codes of the names and of the argument sets of a tree's calls."""
        names = np.array([_added(self.names, self._name, name) for name in tree.names] or [0], np.int64)
        argsets = [_added(self.argsets, self._argset, tuple(argset)) for argset in tree.argsets]
        return names[tree.name], np.array([*argsets, -1], np.int64)[tree.argset]


def _added(table: list[Any], codes: dict[Any, int], value: Any) -> int:
    if value not in codes:
        codes[value] = len(table)
        table.append(value)
    return codes[value]


def _of_calls(
    columns: Mapping[str, np.ndarray], tables: _Tables, instances: Sequence[Instance], which: Rows,
    layouts: Sequence[_Layout],
) -> dict[str, np.ndarray]:  # fmt: skip
    """What is known of the calls of all instances, one instance after the other."""
    tree_of = {int(number): one.tree for number, one in zip(which, instances, strict=True)}
    coded: dict[int, tuple[Codes, Codes]] = {}
    parts: dict[int, tuple[np.ndarray, ...]] = {}
    for number, tree in tree_of.items():
        if id(tree) not in coded:
            coded[id(tree)] = tables.codes(tree)
        source = layouts[number].source
        picked = source[source >= 0]
        parts[number] = tree.kind[picked], *(codes[picked] for codes in coded[id(tree)])
    kind, name, argset = (np.concatenate([parts[one][i] for one in which.tolist()]) for i in range(3))
    zero = np.zeros(len(kind), np.int64)
    return {name_: value for name_, value in
            (("kind", kind), ("name", name), ("argset", argset), ("dur_ns", zero)) if name_ in columns}  # fmt: skip


def _collectives(
    core: Core, instances: Sequence[Instance], which: Rows, uid: np.ndarray, of_tree: Rows, size: Rows, is_event: Any
) -> Mapping[int, dict[str, Any]]:
    """Arguments of collectives of the graph, and of its calls."""
    if not any(one.tree.collectives for one in instances):
        return core.collective_args
    of = np.repeat(np.arange(len(instances)), size)[~is_event]
    found = dict(core.collective_args)
    trees = {id(one.tree): one.tree for one in instances}
    number = np.array([list(trees).index(id(one.tree)) for one in instances])[of]
    for place, tree in enumerate(trees.values()):
        takes_part = np.flatnonzero((number == place) & np.isin(of_tree, list(tree.collectives)))
        calls = zip(uid[takes_part].tolist(), of_tree[takes_part].tolist(), strict=True)
        found |= {one: tree.collectives[call] for one, call in calls}
    return found
