"""Calls of ops with the GPU events that belong to them, and the calls that GPU events are charged to: launchers.

The tables of ops are groupings of these, so they are found once per window and kept with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import (
    COMMUNICATION,
    fitting_names,
    gpu_categories,
    gpu_classes,
    is_in_tracelens_layout,
)
from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.analyses.shared.op_names import OpNames
from tracelens_graph.categories.ops import GRAPH, OpRules, call_category, op_category
from tracelens_graph.extensions.extension import Extension, extension_of
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length_by_group
from tracelens_graph.graph.traversals import busy_below, launcher, nearest_above
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Rows

NO_LAUNCH = "(no launch in trace)"
UNLINKED = "unlinked"


@dataclass
class OpCalls:
    """Calls and their GPU events. Arrays over calls are in the order of their starts.

    Attributes:
        window: the window they were looked for in.
        rows: row of each call.
        gpu: rows of the GPU events, call by call, in the order of their launches.
        of: position of the call of each of them, ascending.
        unlinked: rows of GPU events without a launch in the trace, which belong to no call.
    """

    window: Window
    rows: np.ndarray
    gpu: np.ndarray
    of: np.ndarray
    unlinked: np.ndarray

    @classmethod
    def ordered(cls, w: Window, order: Rows, rows: Rows, gpu: Rows, of: Rows, unlinked: Rows | None = None) -> OpCalls:
        """Calls in an order, and their GPU events.

        Args:
            order: positions of the calls in `rows`, in the order that is wanted.
            rows: row of each call.
            gpu, of: GPU events, and the position in `rows` of the call of each.
            unlinked: GPU events of no call.
        """
        call = np.argsort(order)[of]
        by_call = np.lexsort((gpu, call))
        return cls(w, rows[order], gpu[by_call], call[by_call], gpu[:0] if unlinked is None else unlinked)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def core(self) -> Core:
        """The graph."""
        return self.window.core

    @property
    def rules(self) -> OpRules:
        """The rules that give them their categories."""
        return extension_of(self.window).all_op_rules

    @cached_property
    def count(self) -> np.ndarray:
        """Number of GPU events charged to each."""
        return np.bincount(self.of, minlength=len(self.rows))

    @cached_property
    def first(self) -> np.ndarray:
        """Position in `gpu` of the first GPU event of each."""
        return np.searchsorted(self.of, np.arange(len(self.rows)))

    @cached_property
    def direct_ns(self) -> np.ndarray:
        """Busy time of the GPU events charged to each."""
        return busy_by_group(self.core, self.gpu, self.of, len(self.rows))

    @cached_property
    def subtree_ns(self) -> np.ndarray:
        """Busy time of all linked GPU events of the window below each, communication included."""
        c, below = self.core.columns, self.window.linked_gpu_rows
        low, high = np.searchsorted(below, self.rows), np.searchsorted(below, c.last[self.rows], "right")
        busy = self.direct_ns.copy()
        # Most calls launch all that runs below them; only for the others a union is worked out anew.
        more = np.flatnonzero(high - low != self.count)
        busy[more] = busy_below(c, self.rows[more], below)
        return busy

    @cached_property
    def _leading(self) -> np.ndarray:
        """Of each the first GPU event that it launches itself, else the first: an op may fill its result before."""
        own = np.flatnonzero(self.core.columns.owner[self.gpu] == self.rows[self.of])
        calls, at = np.unique(self.of[own], return_index=True)
        found: np.ndarray = self.gpu[self.first]
        found[calls] = self.gpu[own[at]]
        return found

    @cached_property
    def _categories(self) -> tuple[list[str], np.ndarray]:
        in_theirs = is_in_tracelens_layout(self.core)
        texts, code = self._by_rules(self.rules) if in_theirs else self._by_main_kernels()
        labels = sorted({texts[i] for i in distinct(code)[0].tolist()})
        place = np.array([labels.index(text) if text in labels else -1 for text in texts], np.int64)
        return labels, place[code]

    def _by_rules(self, rules: OpRules) -> tuple[list[str], np.ndarray]:
        """Categories by names, else by first kernels: texts, and the place of each among them."""
        c, names, known = self.core.columns, self.core.names, self.core.once(OpNames)
        kernels = max(len(names), 1)
        pair = known.codes(self.rows).astype(np.int64) * kernels + c.name[self._leading]
        pairs, back = np.unique(pair, return_inverse=True)
        return [op_category(known.names[p // kernels], names[p % kernels], rules) for p in pairs.tolist()], back

    def _by_main_kernels(self) -> tuple[list[str], np.ndarray]:
        """Categories by the kernels with most of the time: for ops those of all calls of the name.

        Ops that launch nothing themselves go by their names, if these show it. A launch that replays several GPU events
        is a graph. What an extension says of ops comes first.
        """
        names, extension = self.core.once(OpNames), extension_of(self.window)
        name, is_op = names.called(self.rows), self.is_op
        code = _with_most_time(self, np.where(is_op, name, len(names.names) + np.arange(len(name))))
        texts = [*gpu_categories(self.window)[0], GRAPH]
        if is_op.any():
            launched = self.window.whole.once(_main_of_names)[name]
            code = np.where(is_op & (launched >= 0), launched, code)
            for one in distinct(name[is_op & (launched < 0)])[0].tolist():
                if known := _known_by_name(names.names[one], extension):
                    code[is_op & (name == one)] = len(texts)
                    texts.append(known)
        replays = fitting_names(self.core, lambda text: call_category(text, self.rules) == GRAPH)
        calls = np.flatnonzero(~is_op & (self.count > 1))
        code[calls[replays[self.core.columns.name[self.rows[calls]]]]] = texts.index(GRAPH)
        if extension.op_rules == OpRules():
            return texts, code
        given, of = self._by_rules(replace(extension.op_rules, other=""))
        known = np.array([bool(one) for one in given], bool)[of]
        return texts + given, np.where(known, len(texts) + of, code)

    @property
    def categories(self) -> list[str]:
        """The categories there are, sorted."""
        return self._categories[0]

    @property
    def category(self) -> np.ndarray:
        """Category of each, as a position in `categories`: TraceLens's in its layout, else that of its main kernels."""
        return self._categories[1]

    @cached_property
    def is_op(self) -> Mask:
        """Whether each is an op; else it is a runtime call."""
        return self.core.columns.kind[self.rows] == Kind.Op

    @cached_property
    def module(self) -> np.ndarray:
        """Row of the nearest module above each, -1 for none."""
        return nearest_above(self.core.columns, self.rows, (Kind.Module,))


def _with_most_time(found: OpCalls, key: Codes) -> Codes:
    """For each call the category (of `gpu_categories`) with most GPU time among the calls of equal keys."""
    c, kind, call_key = found.core.columns, gpu_categories(found.window)[1][found.gpu], key[found.of]
    pair, first = group_by(call_key, kind)
    # Events without a length count, too.
    ns = sum_by_group(pair, c.dur_ns[found.gpu] + 1, len(first))
    order = np.lexsort((kind[first], ns, call_key[first]))
    keys, last = call_key[first][order], kind[first][order]
    at = np.searchsorted(keys, key, "right") - 1
    return last[at] if len(last) else at


def main_categories(w: Window) -> list[str]:
    """For each name of a graph the category of ops of that name that launch GPU work; empty for none."""
    labels = [*gpu_categories(w)[0], ""]
    return [labels[code] for code in w.whole.once(_main_of_names)[: len(w.core.names)].tolist()]


def _known_by_name(op: str, extension: Extension) -> str:
    """The category that an op's name shows; empty for none."""
    from tracelens_graph.categories.kernels import category_of_op

    found = category_of_op(op, extension.all_kernel_rules)
    return "" if found == extension.all_kernel_rules.other else found


def _main_of_names(w: Window) -> Codes:
    """For each of `OpNames` the category with most GPU time that is charged to ops of that name; -1 for none."""
    found, names = launchers(w), w.core.once(OpNames)
    main, name = np.full(len(names.names), -1, np.int64), names.called(found.rows)
    ops = np.flatnonzero(found.is_op)
    main[name[ops]] = _with_most_time(found, np.where(found.is_op, name, -1))[ops]
    return main


def busy_by_group(core: Core, gpu: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Busy time of the GPU events of each group, ns; `group` ascends."""
    c = core.columns
    busy = sum_by_group(group, c.dur_ns[gpu], groups)
    # The busy time of a single event is its duration, so that only groups of several need a union.
    several = np.bincount(group, minlength=groups) > 1
    if several.any():
        picked = several[group]
        start = c.start_ns[gpu[picked]]
        number = np.cumsum(several) - 1
        busy[several] = union_length_by_group(
            number[group[picked]], start, start + c.dur_ns[gpu[picked]], int(several.sum())
        )
    return busy


def launchers(w: Window, linked_only: bool = False, communication: bool | None = None) -> OpCalls:
    """The launchers in a window; found once per window.

    Args:
        linked_only: without GPU events whose launch is not in the trace.
        communication: whether communication kernels are charged; by default unless `linked_only`, as TraceLens does.
    """
    if communication is None:
        communication = not linked_only
    return w.once(_launchers, linked_only, communication)


def _launchers(w: Window, linked_only: bool, communication: bool) -> OpCalls:
    core, c = w.core, w.core.columns
    gpu = w.gpu_rows
    if not communication:
        gpu = gpu[gpu_classes(core, gpu) != COMMUNICATION]
    owner = np.asarray(launcher(c, gpu), np.int64)
    unlinked = gpu[owner < 0]
    gpu, owner = gpu[owner >= 0], owner[owner >= 0]
    rows, of = distinct(owner)
    by_start = np.lexsort((rows, c.start_ns[rows]))
    return OpCalls.ordered(w, by_start, rows, gpu, of, unlinked[:0] if linked_only else unlinked)
