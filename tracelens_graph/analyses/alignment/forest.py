"""What of a call tree leads to GPU work, in columns: the two sides of an alignment.

Nodes are modules, frames, ops and graph launches with GPU work of the window below them; other runtime calls are
transparent. A **leaf** is a run of GPU events that one op launched in a row (a fill and the GEMM behind it, the parts
of a split-K GEMM); below frames, modules and graph launches, and without a launch, each event is a leaf. All work of
a thread, or of a stream where launches are not in the trace, is below a root of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, calls_named, fitting_names, gpu_classes
from tracelens_graph.captures.recording import arguments_of, captured_calls
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.arguments import argset_text
from tracelens_graph.graph.arrays import distinct, expanded, is_kind
from tracelens_graph.graph.classes import mixed, normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import climb, launches_of
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind
from tracelens_graph.schema.categories import copy_direction


def captured_launches(w: Window) -> dict[int, str]:
    """Rows of launches below ops that were recorded into a graph, ascending -> what they launch.

    Of ROCm that is the name of the kernel; of CUDA, whose calls do not say it, `launch`, `copy` or `fill`. None where
    the window also holds a replay: then the replay shows what ran.
    """
    return w.once(_captured_launches)


def _captured_launches(w: Window) -> dict[int, str]:
    core, c = w.core, w.core.columns
    captures = captured_calls(core)
    if not captures:
        return {}
    # Normalising every name is costly; a trace without a capture has returned above.
    apis = {name: normal_name(Kind.RuntimeCall, name) for name in core.names}
    launches = calls_named(w, lambda name: apis[name] == _GRAPH_LAUNCH)
    if np.isin(launches, launches_of(c, w.gpu_rows)).any():
        return {}
    rows = np.unique(np.concatenate([one.rows for one in captures]))
    rows = rows[(c.parent[rows] >= 0) & w.holds(rows)]
    kernels = [arguments.get("kernel") for arguments in arguments_of(core, rows)]
    names = [core.names[code] for code in c.name[rows].tolist()]
    return {
        row: kernel if isinstance(kernel, str) and kernel else apis[name]
        for row, kernel, name in zip(rows.tolist(), kernels, names, strict=True)
    }


_NODES = (Kind.Module, Kind.PythonFunction, Kind.Op)
_GRAPH_LAUNCH = "launch graph"
_HELPERS = "Elementwise", "Memory Ops"
"""Categories of kernels that prepare and finish the work of others: what a call does, these say last."""
_MULTIPLIERS = np.array((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9), np.uint64)


class Vocabulary(dict[object, int]):
    """Numbers for texts and tuples, the same on both sides; 0 is that of the empty text."""

    def __init__(self) -> None:
        super().__init__({"": 0})

    def __missing__(self, key: object) -> int:
        self[key] = len(self)
        return self[key]


@dataclass(eq=False)
class Forest:
    """One side of an alignment.

    Nodes stand in pre-order, then the roots, one per thread with launches and per stream without. Leaves stand in the
    order of their events; the leaves below a node are `low[node] .. high[node] - 1`.

    Attributes:
        window: the part of the trace.
        row: row of each node in the graph; -1 for roots.
        parent: node above each node; -1 for roots.
        called: number of each node's kind and name.
        name: the same, but backward ops bear the number of what their forward op is matched with, once that is known.
        args, dims: numbers of each node's arguments, and of their dims alone; 0 for none.
        is_op: whether it is an op.
        low, high: leaves below it.
        linked_roots, lone_roots: the roots of threads, and those of streams.
        leaf_parent: node above each leaf.
        category, kernel: numbers of what it does, and of the name of the event that shows it.
        ns: sum of the durations of its events.
        events: rows of GPU events, leaf after leaf; of a capture also those of the launches that it recorded.
        captured: rows of these launches -> what they launch.
        first_event: position in `events` of each leaf's first, and behind the last leaf their number.
        child_start, child: the items below each node in order, `child[child_start[node]:child_start[node + 1]]`: a
            node, or ~leaf.
        copied: number of the bytes of each leaf that is a copy or fill; 0 for others, and where they are not recorded.
    """

    window: Window
    row: np.ndarray
    parent: np.ndarray
    called: np.ndarray
    name: np.ndarray
    args: np.ndarray
    dims: np.ndarray
    is_op: np.ndarray
    low: np.ndarray
    high: np.ndarray
    linked_roots: np.ndarray
    lone_roots: np.ndarray
    leaf_parent: np.ndarray
    category: np.ndarray
    kernel: np.ndarray
    ns: np.ndarray
    events: np.ndarray
    first_event: np.ndarray
    child_start: np.ndarray
    child: np.ndarray
    captured: dict[int, str]
    copied: np.ndarray

    @property
    def leaves(self) -> int:
        """Number of leaves."""
        return len(self.ns)

    @cached_property
    def op(self) -> np.ndarray:
        """Per leaf the number of the name of the op that launched it; 0 without one."""
        return self._of_op(self.name)

    @cached_property
    def leaf_args(self) -> np.ndarray:
        """Per leaf the number of that op's arguments; of a copy or fill without an op that of its bytes."""
        return np.where(self.is_op[self.leaf_parent], self.args[self.leaf_parent], self.copied)

    @cached_property
    def leaf_dims(self) -> np.ndarray:
        """Per leaf the number of the dims of these arguments."""
        return self._of_op(self.dims)

    def _of_op(self, values: np.ndarray) -> np.ndarray:
        """Per leaf what the op has that launched it; 0 without one."""
        return np.where(self.is_op[self.leaf_parent], values[self.leaf_parent], 0)

    @cached_property
    def sized_token(self) -> np.ndarray:
        """Per leaf a hash of op, category and dims."""
        return mixed(self.token + self.leaf_dims.astype(np.uint64) * _MULTIPLIERS[1])

    @cached_property
    def is_communication(self) -> np.ndarray:
        """Per leaf whether its first event is communication."""
        return gpu_classes(self.window.core, self.events[self.first_event[:-1]]) == COMMUNICATION

    @cached_property
    def kernel_token(self) -> np.ndarray:
        """Per leaf a hash of op, category and kernel."""
        return mixed(self.token + self.kernel.astype(np.uint64) * _MULTIPLIERS[1])

    @cached_property
    def token(self) -> np.ndarray:
        """Per leaf a hash of op and category."""
        return mixed(self.op.astype(np.uint64) * _MULTIPLIERS[0] + self.category.astype(np.uint64) * _MULTIPLIERS[2])

    @cached_property
    def ns_before(self) -> np.ndarray:
        """Sum of `ns` of all leaves before each, and behind the last of all."""
        return np.concatenate(([0], np.cumsum(self.ns)))

    @cached_property
    def bag(self) -> np.ndarray:
        """Per node a hash of what is below it by op, category and dims, in any order."""
        # Sums wrap around at 2**64, and differences of them are right all the same.
        running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(self.sized_token, dtype=np.uint64)))
        return running[self.high] - running[self.low]

    @cached_property
    def leaf_identity(self) -> np.ndarray:
        """Per leaf a hash of op, arguments and category."""
        return mixed(self.token + self.leaf_args.astype(np.uint64) * _MULTIPLIERS[1])

    @cached_property
    def leaf_place(self) -> np.ndarray:
        """Per leaf a hash of the same and of the names of all nodes above it."""
        return mixed(self.leaf_identity + self.path[self.leaf_parent] * _MULTIPLIERS[0])

    @cached_property
    def levels(self) -> list[np.ndarray]:
        """Nodes by their depth in the trace, the roots first."""
        is_root = self.row < 0
        depth = np.where(is_root, 0, self.window.core.columns.depth[self.row].astype(np.int64) + 1)
        order = np.argsort(depth, kind="stable")
        return np.split(order, np.searchsorted(depth[order], np.arange(1, depth.max(initial=0) + 1)))

    @cached_property
    def path(self) -> np.ndarray:
        """Per node a hash of its name and of the names above it."""
        found = np.zeros(len(self.parent), np.uint64)
        for here in self.levels[1:]:
            found[here] = mixed(found[self.parent[here]] + self.name[here].astype(np.uint64) * _MULTIPLIERS[1])
        return found

    @cached_property
    def identity(self) -> np.ndarray:
        """Per node a hash of its subtree; equal subtrees have equal ones, on both sides."""
        return self._identities[0]

    @cached_property
    def structure(self) -> np.ndarray:
        """The same without the arguments."""
        return self._identities[1]

    @cached_property
    def _identities(self) -> np.ndarray:
        return _identities(self)

    @cached_property
    def root(self) -> np.ndarray:
        """Per leaf the root it is below."""
        roots = np.concatenate((self.linked_roots, self.lone_roots))
        roots = roots[np.argsort(self.low[roots], kind="stable")]
        return np.repeat(roots, self.high[roots] - self.low[roots])

    def items(self, node: int) -> list[int]:
        """What stands right below a node: nodes, and leaves as ~leaf."""
        return self.child[self.child_start[node] : self.child_start[node + 1]].tolist()

    def event_name(self, row: int) -> str:
        """Name of a GPU event, or of what a launch in a capture launches."""
        core = self.window.core
        return self.captured.get(row) or core.names[core.columns.name[row]]

    def events_of(self, leaf: int) -> np.ndarray:
        """Rows of a leaf's events."""
        return self.events[self.first_event[leaf] : self.first_event[leaf + 1]]

    def events_of_all(self, leaves: Sequence[int]) -> np.ndarray:
        """Rows of the events of some leaves, leaf after leaf."""
        of = np.asarray(leaves, np.int64)
        return self.events[expanded(self.first_event[of], self.first_event[of + 1])[0]]


def forest(w: Window, names: Vocabulary, arguments: Vocabulary) -> Forest:
    """The pruned forest of a window."""
    core, c = w.core, w.core.columns
    captured = captured_launches(w)
    gpu = np.union1d(w.gpu_rows, [*captured]).astype(np.int64) if captured else w.gpu_rows
    linked = gpu[c.parent[gpu] >= 0]
    row = _bearing(core, linked)
    # One entry more than there are rows: index -1, which is no row, finds it and stays -1.
    node_of = np.full(len(c) + 1, -1, np.int64)
    node_of[row] = np.arange(len(row))
    kept = node_of[:-1] >= 0
    parent = node_of[climb(c.parent, c.parent[row], kept)]
    above = np.full(len(gpu), -1, np.int64)
    above[c.parent[gpu] >= 0] = node_of[climb(c.parent, c.parent[linked], kept)]

    # Each thread with launches and each stream without is a root. Rows are in their order.
    is_linked = c.parent[gpu] >= 0
    stream = (c.device[gpu].astype(np.int64) + 1) * 2**32 + c.stream[gpu] + 1
    lane = np.where(is_linked, c.thread[c.parent[gpu]].astype(np.int64), stream)
    fresh = np.ones(len(gpu), bool)
    # A thread and a stream may bear the same number, so whether events are linked is compared, too.
    fresh[1:] = (lane[1:] != lane[:-1]) | (is_linked[1:] != is_linked[:-1])
    root = np.cumsum(fresh) - 1 + len(row)
    roots = np.arange(len(row), len(row) + int(fresh.sum()))
    above = np.where(above < 0, root, above)

    is_op = np.zeros(len(row) + len(roots), bool)
    is_op[: len(row)] = c.kind[row] == Kind.Op
    new = np.ones(len(gpu), bool)
    new[1:] = (above[1:] != above[:-1]) | ~is_op[above[1:]]
    leaf = np.cumsum(new) - 1
    begin = np.flatnonzero(new)
    low = leaf_at = np.searchsorted(gpu, row)
    high = np.searchsorted(gpu, c.last[row], "right")
    # searchsorted may answer with the place behind the last event, where the last leaf ends.
    to_leaf = np.append(leaf, len(begin))
    low, high = to_leaf[leaf_at], to_leaf[high]
    root_low = to_leaf[np.flatnonzero(fresh)]
    root_high = np.append(root_low[1:], len(begin))
    # A node's first root is where its first leaf is.
    parent = np.where(parent < 0, root[begin][np.minimum(low, max(len(begin) - 1, 0))] if len(begin) else -1, parent)

    name, (args, dims) = _names(core, row, names), _arguments(core, row, arguments)
    parent = np.concatenate((parent, np.full(len(roots), -1)))
    name = np.concatenate((name, np.full(len(roots), names["(root)"])))
    args, dims = (np.concatenate((numbers, np.zeros(len(roots), np.int64))) for numbers in (args, dims))
    low, high = np.concatenate((low, root_low)), np.concatenate((high, root_high))
    leaf_parent = above[begin]
    dur_ns = np.where(np.isin(gpu, [*captured]), 0, c.dur_ns[gpu]) if captured else c.dur_ns[gpu]
    ns = sum_by_group(leaf, dur_ns, len(begin))
    category, kernel = _category_and_kernel(w, gpu, captured, leaf, begin, row, above, is_op, names)
    child_start, child = _children(parent, leaf_parent, low)
    is_lone = ~is_linked[np.flatnonzero(fresh)]
    return Forest(
        w, np.concatenate((row, np.full(len(roots), -1))), parent, name, name, args, dims, is_op, low, high,
        roots[~is_lone], roots[is_lone], leaf_parent, category, kernel, ns, gpu, np.append(begin, len(gpu)),
        child_start, child, captured, _copied(core, gpu[begin], arguments),
    )  # fmt: skip


def _copied(core: Core, events: np.ndarray, arguments: Vocabulary) -> np.ndarray:
    """Numbers of the bytes of events that copy or fill, 0 for others."""
    c = core.columns
    is_copy = is_kind(c.kind[events], (Kind.Memcpy, Kind.Memset)) & (c.bytes[events] > 0)
    size, back = distinct(np.where(is_copy, c.bytes[events].astype(np.int64), 0))
    return np.array([arguments["bytes", one] if one else 0 for one in size.tolist()], np.int64)[back]


def _bearing(core: Core, linked: np.ndarray) -> np.ndarray:
    """Rows of modules, frames, ops and graph launches above some GPU events, ascending."""
    c = core.columns
    launches = fitting_names(core, lambda name: normal_name(Kind.RuntimeCall, name) == _GRAPH_LAUNCH)
    wanted = is_kind(c.kind, _NODES)
    if launches.any():
        wanted |= (c.kind == Kind.RuntimeCall) & launches[c.name]
    rows = np.flatnonzero(wanted)
    return rows[np.searchsorted(linked, rows) < np.searchsorted(linked, c.last[rows], "right")]


def _names(core: Core, rows: np.ndarray, names: Vocabulary) -> np.ndarray:
    """Numbers of names and kinds, without what differs between instances and platforms."""
    c = core.columns
    pairs, back = distinct(c.name[rows].astype(np.int64) * len(Kind) + c.kind[rows])
    found = [
        names[(kind := Kind(pair % len(Kind))).name, normal_name(kind, core.names[pair // len(Kind)])]
        for pair in pairs.tolist()
    ]
    return np.array(found, np.int64)[back]


def _arguments(core: Core, rows: np.ndarray, arguments: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the arguments of some rows, and of their dims alone; 0 without any."""
    sets, back = distinct(core.columns.argset[rows])
    found = [
        (arguments[argset_text(core, code)], arguments["dims", core.argsets[code][0]]) if code >= 0 else (0, 0)
        for code in sets.tolist()
    ]
    numbers = np.array(found, np.int64).reshape(-1, 2)[back]
    return numbers[:, 0], numbers[:, 1]


def _category_and_kernel(
    w: Window, gpu: np.ndarray, captured: dict[int, str], leaf: np.ndarray, begin: np.ndarray, row: np.ndarray,
    above: np.ndarray, is_op: np.ndarray, names: Vocabulary,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Per leaf the number of the category (direction of a copy) and of the name of the event that says what it does.

    Which of its categories comes first is fixed, so that equal runs are equal whatever their times are; of that
    category it is the longest event.
    """
    core, c = w.core, w.core.columns
    op_row = np.where(is_op[above], row[np.minimum(above, len(row) - 1)] if len(row) else -1, -1)
    op_name = np.where(op_row >= 0, c.name[op_row], -1)
    event_name = c.name[gpu].astype(np.int64)
    more = Vocabulary()
    for place in np.flatnonzero(np.isin(gpu, [*captured])).tolist() if captured else ():
        event_name[place] = len(core.names) + more[captured[int(gpu[place])]]
    known = [*core.names, *map(str, more)]
    pairs, back = distinct(event_name * (len(core.names) + 1) + op_name + 1)
    texts = [
        (known[pair // (len(core.names) + 1)], core.names[op - 1] if (op := pair % (len(core.names) + 1)) else "")
        for pair in pairs.tolist()
    ]
    rules = extension_of(w).all_kernel_rules
    categories = kernel_categories(texts, rules)
    ranks = {category: rank for rank, category in enumerate((*rules.categories, rules.other, *_HELPERS))}
    is_kernel = is_kind(c.kind[gpu], (Kind.Kernel, Kind.RuntimeCall))
    rank = np.where(is_kernel, np.array([ranks[category] for category in categories], np.int64)[back], len(ranks))
    # Leaves ascend along the events, so each still begins where it did: now with the event that stands for it.
    main = np.lexsort((-c.dur_ns[gpu], rank, leaf))[begin]
    of_kernel, of_copy, called = (
        np.array([names[what, text] for text in found], np.int64)[back[main]]
        for what, found in (
            ("category", categories),
            ("copy", [copy_direction(kernel) for kernel, _ in texts]),
            ("event", [kernel for kernel, _ in texts]),
        )
    )
    of_other = np.where(c.kind[gpu[main]] == Kind.Memcpy, of_copy, names["category", "fill"])
    return np.where(is_kernel[main], of_kernel, of_other), called


def _children(parent: np.ndarray, leaf_parent: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Items below each node in their order: by first leaf, the outer before the inner."""
    nodes = np.flatnonzero(parent >= 0)
    above = np.concatenate((parent[nodes], leaf_parent))
    item = np.concatenate((nodes, ~np.arange(len(leaf_parent))))
    place = np.concatenate((low[nodes], np.arange(len(leaf_parent))))
    order = np.lexsort((place, above))
    start = np.searchsorted(above[order], np.arange(len(parent) + 1))
    return start, item[order]


def _identities(forest: Forest) -> np.ndarray:
    """Two hashes of each subtree: of names, arguments, and in order what is below; and the same without arguments.

    Of leaves the category counts. Both are made in one pass, a level of the tree after the other.
    """
    parent, start, child = forest.parent, forest.child_start, forest.child
    args = np.stack((forest.args, np.zeros_like(forest.args)), axis=1).astype(np.uint64)
    own = mixed(forest.name.astype(np.uint64)[:, None] * _MULTIPLIERS[0] + args * _MULTIPLIERS[1])
    size = np.diff(start)
    above = np.repeat(np.arange(len(parent)), size)
    # Hashes of what is below are added up, which forgets their order: each is mixed with its place first.
    place = (np.arange(len(child)) - np.repeat(start[:-1], size)).astype(np.uint64) + np.uint64(1)
    is_leaf = child < 0
    below = np.zeros((len(parent), 2), np.uint64)
    leaves = mixed(forest.category.astype(np.uint64) * _MULTIPLIERS[2] + np.uint64(1))[~child[is_leaf]]
    np.add.at(below, above[is_leaf], mixed(leaves + place[is_leaf] * _MULTIPLIERS[0])[:, None])
    place_of = np.zeros((len(parent), 1), np.uint64)
    place_of[child[~is_leaf], 0] = place[~is_leaf]
    found = np.zeros((len(parent), 2), np.uint64)
    # From the deepest level up: when a level is reached, all below it are final.
    for here in reversed(forest.levels):
        found[here] = mixed(own[here] ^ mixed(below[here] + _MULTIPLIERS[2]))
        lower = here[parent[here] >= 0]
        np.add.at(below, parent[lower], mixed(found[lower] + place_of[lower] * _MULTIPLIERS[0]))
    return np.ascontiguousarray(found.T)
