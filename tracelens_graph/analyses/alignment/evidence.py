"""What the traces show about a place in which two of them differ."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.alignment.argument_words import other_sizes, other_strides, other_types
from tracelens_graph.analyses.alignment.cause_words import (
    Other,
    extra_of,
    is_compiled,
    is_move,
    listed,
    of_any_build,
    other_kernels,
    words,
)
from tracelens_graph.analyses.alignment.contexts import AUTOGRAD, MODULE, OUTSIDE_OF_OPS, highest
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.alignment.host_work import is_of_host
from tracelens_graph.analyses.alignment.places import Place
from tracelens_graph.analyses.shared.gpu_work import communication_names
from tracelens_graph.categories.kernels import kernel_categories
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.collective_kinds import UNKNOWN, kind_of, kind_of_kernel
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.schema import Kind

_MATERIAL = 0.1
"""Part of the changes at a place from which on that of its equal kernels is shown beside that of the others."""

_COPIES = (Kind.Memcpy, Kind.Memset)
_OTHER_BYTES = 0.02
"""Share by which bytes of copies, or their rate, must differ to be a cause."""

_COLLECTIVES = {
    "allreduce": "all-reduce", "allreduce_coalesced": "all-reduce", "_reduce_scatter_base": "reduce-scatter",
    "reduce_scatter": "reduce-scatter", "_allgather_base": "all-gather", "all_gather": "all-gather",
    "all_to_allv": "all-to-all", "all_to_all": "all-to-all", "send_recv": "send/receive", "recv": "receive",
}  # fmt: skip
"""Kinds of collectives -> what they are called."""

_MADE_OF = {
    "Normalization": ("Reduction", {"Elementwise", "Memory Ops"}),
    "Softmax": ("Reduction", {"Elementwise", "Memory Ops"}),
    "Flash Attention Forward": ("GEMM", {"Softmax", "Elementwise", "Reduction", "Memory Ops"}),
    "Flash Attention Backward": ("GEMM", {"Softmax", "Elementwise", "Reduction", "Memory Ops"}),
    "Optimizer": ("Elementwise", {"Memory Ops"}),
    "RoPE": ("Elementwise", {"Memory Ops"}),
    "Quantisation": ("Elementwise", {"Reduction", "Memory Ops"}),
}
"""Categories of kernels that may do the work of several -> which category one of these has, and others the rest."""


class Evidence:
    """What the traces show about a place."""

    def __init__(self, difference: Diff, place: Place) -> None:
        self.diff, self.place = difference, place
        self.sides = difference.alignment.sides

    @cached_property
    def only(self) -> int | None:
        """The side that alone has GPU work there; None where both have."""
        first, second = self.place.kernels
        return None if first and second else 0 if first else 1

    @cached_property
    def leaves(self) -> tuple[list[int], list[int]]:
        """Leaves of both sides."""
        return self.place.leaves(0), self.place.leaves(1)

    def rows(self, side: int) -> np.ndarray:
        """Rows of the nodes right above the leaves of a side, without roots."""
        forest = self.sides[side]
        rows = np.unique(forest.row[forest.leaf_parent[self.leaves[side]]])
        return rows[rows >= 0]

    def ops(self, side: int) -> set[str]:
        """Names of the ops that launched there, or of what else did."""
        core = self.sides[side].window.core
        pairs = {(int(core.columns.kind[row]), int(core.columns.name[row])) for row in self.rows(side).tolist()}
        return {normal_name(Kind(kind), core.names[code]) for kind, code in pairs}

    def is_graph_launch(self, side: int) -> bool:
        """Whether all of it was launched as graphs."""
        rows = self.rows(side)
        return len(rows) > 0 and bool((self.sides[side].window.core.columns.kind[rows] == Kind.RuntimeCall).all())

    def is_captured(self, side: int) -> bool:
        """Whether none of it ran: it was recorded into a graph."""
        forest = self.sides[side]
        if not forest.captured:
            return False
        events = forest.events_of_all(self.leaves[side])
        return len(events) > 0 and all(row in forest.captured for row in events.tolist())

    @cached_property
    def is_of_equal_kernels(self) -> bool:
        """Whether both sides run the same kernels equally often, whatever build they are of."""
        first, second = self.place.kernels
        return bool(first) and of_any_build(first) == of_any_build(second)

    @cached_property
    def extra(self) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
        """Of both sides the kernels that the other does not run, or not as often."""
        first, second = self.place.kernels
        return extra_of(first, second), extra_of(second, first)

    @cached_property
    def other(self) -> Other:
        """How these differ."""
        found = other_kernels(*self.place.kernels, len(self.place.points))
        if is_of_host(self.sides[0].window):
            return Other(found.kind, *(text.replace("same kernels", "same calls") for text in found[1:]))
        return found

    @cached_property
    def shared_ns(self) -> tuple[int, int]:
        """Time of the kernels that both sides run, on both."""
        first, second = (
            ns - sum(one for _, one in extra.values()) for ns, extra in zip(self.place.ns, self.extra, strict=True)
        )
        return first, second

    @property
    def shared_change_ns(self) -> int:
        """How much more time these take on the second side."""
        return self.shared_ns[1] - self.shared_ns[0]

    @property
    def extra_change_ns(self) -> int:
        """How much of the change the others explain."""
        return self.place.change_ns - self.shared_change_ns

    @cached_property
    def is_of_time(self) -> bool:
        """Whether most of the change is the time of kernels that both sides run."""
        return self.is_of_equal_kernels or abs(self.shared_change_ns) > abs(self.extra_change_ns)

    @cached_property
    def ratio(self) -> float:
        """Time of the kernels that both sides run, on the second over that on the first."""
        return self.shared_ns[1] / max(self.shared_ns[0], 1)

    @cached_property
    def is_communication(self) -> bool:
        """Whether all of it is communication."""
        return all(
            communication_names(side.window.core).issuperset(kernels)
            for side, kernels in zip(self.sides, self.place.kernels, strict=True)
        )

    @cached_property
    def copied(self) -> tuple[str, str] | None:
        """What is known of the copies or fills that a place consists of, `bytes` or `rate` by what differs, in words.

        None where they move as many bytes at the same rate, or where bytes are not recorded.
        """
        first, second = self._moved(0), self._moved(1)
        if first is None or second is None:
            return None
        (before, ns), (after, now) = first, second
        what = words(self.place.kernels[0])
        rates = f"{before / ns:,.3g} -> {after / now:,.3g} GB/s"
        if abs(after - before) > _OTHER_BYTES * before:
            return "bytes", f"{what}: {before / 1e6:,.3g} -> {after / 1e6:,.3g} MB, {rates}"
        if abs(after / now - before / ns) > _OTHER_BYTES * before / ns:
            return "rate", f"{what}: {before / 1e6:,.3g} MB, {rates}"
        return None

    def moved(self, side: int) -> str:
        """How much the copies or fills of a side move, and how fast, behind their names; empty where not recorded."""
        found = self._moved(side)
        return "" if found is None else f": {found[0] / 1e6:,.3g} MB, {found[0] / found[1]:,.3g} GB/s"

    def _moved(self, side: int) -> tuple[int, int] | None:
        """Bytes and ns of the copies or fills that a side consists of; None where it does other work, or not known."""
        c, rows = self.sides[side].window.core.columns, self.sides[side].events_of_all(self.leaves[side])
        if not len(rows) or not np.isin(c.kind[rows], _COPIES).all() or (c.bytes[rows] <= 0).any():
            return None
        return int(c.bytes[rows].sum()), max(int(c.dur_ns[rows].sum()), 1)

    def collectives(self, side: int) -> str:
        """What kinds of collectives a side runs, in words; `communication` where no kind is known."""
        forest = self.sides[side]
        nodes = collectives_of(forest.window.core)
        rows = forest.events_of_all(self.leaves[side]).tolist()
        kinds = {
            nodes.nodes[nodes.of_row[row]].kind if row in nodes.of_row else kind_of_kernel(forest.event_name(row))
            for row in rows
        }
        names = {_COLLECTIVES.get(kind_of(kind), kind) for kind in kinds if kind != UNKNOWN}
        return listed(sorted(names)) or "communication"

    @cached_property
    def arguments(self) -> tuple[str, str] | None:
        """What differs in the arguments of matched leaves of one op (`types`, `sizes` or `strides`), and how.

        Of several sets of arguments those count whose leaves changed most; None where none differs.
        """
        first, second = self.sides
        partner = self.diff.alignment.leaves[0]
        changes: dict[tuple[_Arguments, _Arguments], int] = {}
        for leaf in self.leaves[0]:
            other = int(partner[leaf])
            if other < 0 or first.op[leaf] != second.op[other] or first.leaf_args[leaf] == second.leaf_args[other]:
                continue
            one, another = _argument_set(first, leaf), _argument_set(second, other)
            if one is not None and another is not None:
                changes[one, another] = changes.get((one, another), 0) + int(second.ns[other] - first.ns[leaf])
        for one, another in sorted(changes, key=lambda pair: -abs(changes[pair])):
            for what, part, in_words in _ARGUMENTS:
                if text := in_words(one[part], another[part]):
                    return what, text
        return None

    @property
    def took(self) -> str:
        """How long the kernels that both sides run took, in words."""
        if not self.is_of_equal_kernels:
            change, whole = self.shared_change_ns, self.place.change_ns
            return f"{self._shared}, {times(self.ratio)} ({_ms(change)} of {_ms(whole)} ms)"
        return f"{self.same}, {times(self.ratio)}"

    @property
    def parts(self) -> str:
        """Which ops have most of the change where a place is all work of some layers, in words; empty elsewhere."""
        a, b = self.sides
        leaves, partner = np.array(self.leaves[0], np.int64), self.diff.alignment.leaves[0]
        changes: dict[str, int] = {}
        for leaf in leaves[partner[leaves] >= 0].tolist():
            row = int(a.row[a.leaf_parent[leaf]])
            name = a.window.core.names[a.window.core.columns.name[row]] if row >= 0 else OUTSIDE_OF_OPS
            changes[name] = changes.get(name, 0) + int(b.ns[partner[leaf]] - a.ns[leaf])
        most = sorted(changes, key=lambda name: -abs(changes[name]))
        if len(most) < 2 or self.place.among is None or not self.place.names[0].startswith(MODULE):
            return ""
        return f"; most in {listed(f'{name} ({_ms(changes[name])} ms)' for name in most)}"

    @property
    def same(self) -> str:
        """Which kernels both sides run, in words."""
        if not self.is_of_equal_kernels:
            return self._shared
        if is_of_host(self.sides[0].window):
            return "the same calls"
        is_same = self.place.kernels[0].keys() == self.place.kernels[1].keys()
        return "the same kernels" if is_same else "the same kernels of another build"

    @property
    def beside(self) -> str:
        """What else differs where most of the change is the time of equal kernels; empty for nothing."""
        return "" if self.is_of_equal_kernels else f"; {self.other} ({_ms(self.extra_change_ns)} ms)"

    def with_shares(self, text: str) -> str:
        """A text about other kernels, with what they explain where equal ones explain the rest."""
        shared, extra = self.shared_change_ns, self.extra_change_ns
        if abs(shared) < _MATERIAL * (abs(shared) + abs(extra)) or not shared:
            return text
        share = f"{_ms(extra)} of {_ms(self.place.change_ns)} ms"
        return f"{text} ({share}); {self._shared}, {times(self.ratio)} ({_ms(shared)} ms)"

    @property
    def _shared(self) -> str:
        number = self.place.events(0) - sum(count for count, _ in self.extra[0].values())
        what = "call" if is_of_host(self.sides[0].window) else "kernel"
        return f"the {what} that both run" if number == 1 else f"the {number:,} {what}s that both run"

    def passed(self, side: int) -> str:
        """The call with the most time that moved work stands behind on a side and before on the other; or empty."""
        point = max(self.place.points, key=lambda one: max(one.ns))
        forest, partner = self.sides[side], self.diff.alignment.leaves[side]
        before = np.arange(forest.low[point.container[side]], point.leaves[side][0])
        passed = before[partner[before] > point.leaves[1 - side][-1]].tolist()
        if not passed:
            return ""
        core, row = forest.window.core, int(forest.row[highest(forest, passed)[0]])
        name = normal_name(Kind(int(core.columns.kind[row])), core.names[core.columns.name[row]])
        return name.removeprefix(AUTOGRAD)

    # -- fusion ----------------------------------------------------------------------------------------------------

    @cached_property
    def extra_leaves(self) -> tuple[list[int], list[int]]:
        """Leaves that run the kernels that the other side does not."""
        first, second = (
            [leaf for leaf in leaves if side.event_name(int(side.events[side.first_event[leaf]])) in extra]
            for side, leaves, extra in zip(self.sides, self.leaves, self.extra, strict=True)
        )
        return first, second

    def extra_ops(self, side: int) -> set[str]:
        """Names of the ops that launched these."""
        forest, core = self.sides[side], self.sides[side].window.core
        rows = np.unique(forest.row[forest.leaf_parent[self.extra_leaves[side]]])
        rows = rows[rows >= 0]
        return {core.names[code] for code in core.columns.name[rows[core.columns.kind[rows] == Kind.Op]].tolist()}

    @cached_property
    def is_replaced_by_ops(self) -> bool:
        """Whether kernels became others because other ops launched them."""
        ops = self.extra_ops(0), self.extra_ops(1)
        return all(ops) and not ops[0] & ops[1]

    @cached_property
    def fused_side(self) -> tuple[int, str] | None:
        """The side that does in one kernel the work of several of the other, and what made it: a compiler, or an op.

        A compiler, where it wrote kernels of one side only, and there are fewer on that side. An op, where it launches
        one kernel and nothing else, which the other side does not run, and its name or the kernel's category covers
        the several ops of the other side; or where both stand in one place between the same neighbours.
        """
        if not all(self.extra):
            return None
        compiled = [any(map(is_compiled, kernels)) for kernels in self.extra]
        counts = self.extra_counts
        side = int(counts[1] < counts[0])
        if not min(counts) or counts[0] == counts[1]:
            return None
        if compiled[0] != compiled[1]:
            return (side, "a compiler") if compiled[side] else None
        return (side, "an op") if self._is_covered_by(side) else None

    @cached_property
    def extra_counts(self) -> tuple[int, int]:
        """How many kernels there are of both sides that the other does not run, without copies and fills."""
        first, second = (
            sum(count for name, (count, _) in kernels.items() if not is_move(name)) for kernels in self.extra
        )
        return first, second

    def _is_covered_by(self, side: int) -> bool:
        ops, others = self.extra_ops(side), self.extra_ops(1 - side)
        if len(ops) != 1 or len(others) < 2 or self.extra_counts[side] != len(self.place.points):
            return False
        forest, leaves = self.sides[side], set(self.extra_leaves[side])
        parents = np.unique(forest.leaf_parent[sorted(leaves)]).tolist()
        if not all(leaf in leaves for node in parents for leaf in range(int(forest.low[node]), int(forest.high[node]))):
            return False
        (name,) = map(_plain_op, ops)
        is_known = self.place.points[0].is_replaced or "fused" in name
        if is_known or all(_plain_op(other) in name for other in others):
            return True
        category, *_ = _categories(self.extra[side])
        core, rest = _MADE_OF.get(category, ("", set()))
        found = {*_categories(self.extra[1 - side])}
        return core in found and found <= {core, *rest}


_ARGUMENTS = (("types", 1, other_types), ("sizes", 0, other_sizes), ("strides", 2, other_strides))
"""What may differ in argument sets, which part of them it is, and how to put it in words."""

_Arguments = tuple[str, str, str, str]


def _argument_set(side: Forest, leaf: int) -> _Arguments | None:
    core, row = side.window.core, int(side.row[side.leaf_parent[leaf]])
    code = int(core.columns.argset[row]) if row >= 0 else -1
    return core.argsets[code] if code >= 0 else None


def _plain_op(name: str) -> str:
    return name.split("::")[-1].strip("_")


def _categories(kernels: Iterable[str]) -> list[str]:
    return kernel_categories([(name, "") for name in kernels if not is_move(name)])


def _ms(ns: int) -> str:
    return f"{ns / 1e6:+,.3f}"


def times(ratio: float) -> str:
    """A ratio of times in words."""
    is_plain = ratio >= 0.1 or ratio < 1e-6  # 0 for kernels that are recorded without a duration
    return f"{ratio:.2f}x as long" if is_plain else f"{1 / ratio:,.0f} times as fast"
