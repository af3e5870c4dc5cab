"""TraceLens's `TraceToTree`, over the graph: the same calls give the same answers and the same lines.

    tree = TraceToTree(json.load(open("trace.json"))["traceEvents"])   # or TraceToTree("trace.json.gz")
    tree.build_tree(add_python_func=True)
    tree.traverse_subtree_and_print(tree.get_node_by_ext_id_pid_tid(1234, 5678, 5678))

Where it departs: events are read-only views (`TraceEvent`), entries of the file that are not events (flow arrows,
metadata) are not among them, and an event that outlives the one it started in stays in the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np

from tracelens_graph.compat.event import TraceEvent
from tracelens_graph.compat.event_tree import EventTree
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import readable
from tracelens_graph.graph.node import Node
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports import tree_text
from tracelens_graph.schema import GPU_KINDS, PYTHON_KINDS, Kind

_FOUND_FIRST = (Kind.Op, Kind.Annotation, Kind.Step, *PYTHON_KINDS, Kind.RuntimeCall, *GPU_KINDS)
"""Which of several events with one External id is meant: the first of these kinds."""


class TraceToTree(EventTree):
    """The call tree of a trace.

    Args:
        events_data: the list of events, a dict with `traceEvents`, whatever `tracelens_graph.load` takes, or a
            graph that is loaded already.
        prune_nongpu_paths: whether `prune_non_gpu` of the printing methods has an effect.
        event_to_category: what to call an event; by default its `cat`.
        compute_end_times, linking_key: accepted and not needed: ends are always there, and GPU work is linked by
            correlation id, else by flow arrow.

    Attributes:
        add_python_func: whether Python frames are part of the tree.
        graph, clock_ns, in_tree, is_root_op: as in `EventTree`.
    """

    def __init__(
        self,
        events_data: Any,
        prune_nongpu_paths: bool = True,
        compute_end_times: bool = True,
        linking_key: str | None = None,
        event_to_category: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        super().__init__(events_data if isinstance(events_data, Core) else load_core(events_data))
        self.prune_nongpu_paths = prune_nongpu_paths
        self.event_to_category = event_to_category or (lambda event: event["cat"])
        self.build_tree()

    def build_tree(self, add_python_func: bool = False, link_fwd_bwd: bool = True) -> None:
        """Say whether Python frames are part of the tree.

        Args:
            add_python_func: with False, calls hang under the nearest op or runtime call instead.
            link_fwd_bwd: accepted and not needed: the links are found when someone asks for them.
        """
        self.add_python_func = add_python_func
        self.arrange(add_python_func)

    # --- finding events ----------------------------------------------------------------------------------------

    @cached_property
    def events(self) -> list[TraceEvent]:
        """All events, in file order."""
        return self._events(np.argsort(self.graph.columns.uid).tolist())

    @cached_property
    def events_by_uid(self) -> dict[int, TraceEvent]:
        """UID -> event."""
        return dict(zip(np.sort(self.graph.columns.uid).tolist(), self.events, strict=True))

    @property
    def cpu_root_nodes(self) -> list[int]:
        """UIDs of the ops under no other op, by start."""
        c, rows = self.graph.columns, np.flatnonzero(self.is_root_op)
        return c.uid[rows[np.argsort(c.start_ns[rows], kind="stable")]].tolist()

    def get_UID2event(self, UID: int) -> TraceEvent:  # noqa: N802, N803 (the name users know)
        """The event with this UID.

        Raises:
            NodeNotFoundError: there is none (also a KeyError).
        """
        return self._event(self.graph.row(UID))

    @overload
    def get_node_by_ext_id_pid_tid(
        self, ext_id: int, pid: Any, tid: Any, all: Literal[False] = False
    ) -> TraceEvent | None: ...

    @overload
    def get_node_by_ext_id_pid_tid(self, ext_id: int, pid: Any, tid: Any, all: Literal[True]) -> list[TraceEvent]: ...

    def get_node_by_ext_id_pid_tid(
        self, ext_id: int, pid: Any, tid: Any, all: bool = False
    ) -> TraceEvent | list[TraceEvent] | None:
        """The event with this External id on this thread, or on this device and stream.

        Of several the op, else the annotation, Python frame, runtime call or GPU event, and of those the
        earliest; with `all` every one, in that order. None (an empty list) if there is none.
        """
        c = self.graph.columns
        rows = [node.row for node in readable(self.graph).find(external_id=ext_id, pid=pid, tid=tid)]
        place = {kind: i for i, kind in enumerate(_FOUND_FIRST)}
        rows.sort(key=lambda r: (place.get(Kind(int(c.kind[r])), len(place)), int(c.start_ns[r]), int(c.uid[r])))
        found = self._events(rows)
        return found if all else next(iter(found), None)

    def get_parent_event(self, event: Mapping[str, Any]) -> TraceEvent | None:
        """The caller of an event; of GPU work its launch."""
        parent = self.parent_row(self._row(event))
        return self._event(parent) if parent >= 0 else None

    def get_children_events(self, event: Mapping[str, Any]) -> list[TraceEvent]:
        """Calls made and GPU work launched, by start."""
        return self._events(self.child_rows(self._row(event)).tolist())

    def get_gpu_events(self, event: Mapping[str, Any]) -> list[TraceEvent]:
        """GPU events launched below an event."""
        return self._events([node.row for node in Node(self.graph, self._row(event)).kernels])

    def get_nn_module_children(self, nn_module_event: Mapping[str, Any]) -> list[int]:
        """UIDs of the nn.Module frames below an event, with no other module in between."""
        return self.uids(self.module_rows_in(self._row(nn_module_event)))

    def get_nn_module_parent(self, nn_module_event: Mapping[str, Any]) -> int | None:
        """UID of the nn.Module frame around an event, None outside of modules."""
        above = self.module_around(self._row(nn_module_event))
        return int(self.graph.columns.uid[above]) if above >= 0 else None

    def _row(self, event: Mapping[str, Any]) -> int:
        return event.row if isinstance(event, TraceEvent) else self.graph.row(event["UID"])

    def _events(self, rows: Iterable[int]) -> list[TraceEvent]:
        return [self._event(row) for row in rows]

    def _event(self, row: int) -> TraceEvent:
        return TraceEvent(self, row)

    # --- forward and backward, annotations -----------------------------------------------------------------------

    def get_seq_nums_for_node_subtree(self, node_UID: int) -> set[int]:  # noqa: N803
        """Autograd sequence numbers in the subtree of an event."""
        c, row = self.graph.columns, self.graph.row(node_UID)
        numbers = c.sequence[row : int(c.last[row]) + 1]
        return set(numbers[numbers >= 0].tolist())

    def get_subtree_bwd_events(self, event_UID: int) -> list[int]:  # noqa: N803
        """UIDs of the backward ops of the forward ops in the subtree of an event."""
        c, row, links = self.graph.columns, self.graph.row(event_UID), autograd_of(self.graph)
        inside = (links.forward >= row) & (links.forward <= int(c.last[row]))
        return c.uid[np.unique(links.backward[inside])].tolist()

    def link_all_fwd_bwd_events(self) -> None:
        """Nothing to do: forward and backward ops are linked in the graph."""

    def apply_annotation(self, name_filters: Sequence[str]) -> dict[int, str]:
        """The outermost annotation around every event whose name begins with one of the filters.

        Returns:
            UID -> name of the annotation, "NA" outside of all. TraceLens writes it into the events, which are
            read-only here.
        """
        c, names = self.graph.columns, self.graph.names
        wanted = np.fromiter((name.startswith(tuple(name_filters)) for name in names), bool, len(names))
        over = self.graph.annotation
        found = {}
        for row in np.flatnonzero(wanted[c.name] if len(c) else wanted).tolist():
            annotation = int(over[row])
            while annotation >= 0 and over[annotation] >= 0:
                annotation = int(over[annotation])
            found[int(c.uid[row])] = names[c.name[annotation]] if annotation >= 0 else "NA"
        return found

    # --- printing ------------------------------------------------------------------------------------------------

    def traverse_and_print(
        self,
        node: Mapping[str, Any],
        prune_non_gpu: bool = False,
        cpu_op_fields: Sequence[str] = (),
        gpu_time: bool = False,
        categories: Sequence[str] | None = None,
        depth: int | None = None,
    ) -> None:
        """Print the subtree of an event, one line per event with its category and name.

        Args:
            node: where to begin.
            prune_non_gpu: leave out what leads to no GPU work.
            cpu_op_fields: arguments of ops to print below them: "Input Dims", "Input type", "Input Strides",
                "Concrete Inputs".
            gpu_time: add the GPU time of every line's subtree: sum of durations, and time any of it ran.
            categories: only events of these; the others hand their children on.
            depth: levels below `node`.
        """
        labels = self._labels(gpu_time=gpu_time, fields=cpu_op_fields)
        self._print_subtree(node, labels, self._choice(prune_non_gpu, categories, depth))

    def traverse_subtree_and_print(
        self,
        node: Mapping[str, Any],
        prune_non_gpu: bool = True,
        cpu_op_fields: Sequence[str] = (),
        gpu_time: bool = False,
        categories: Sequence[str] | None = None,
        depth: int | None = None,
    ) -> None:
        """Print the subtree of an event with UIDs and the durations of GPU work; see `traverse_and_print`."""
        labels = self._labels(uid=True, duration=True, gpu_time=gpu_time, fields=cpu_op_fields)
        self._print_subtree(node, labels, self._choice(prune_non_gpu, categories, depth))

    def traverse_parents_and_print(
        self,
        node: Mapping[str, Any],
        cpu_op_fields: Sequence[str] = (),
        gpu_time: bool = False,
        categories: Sequence[str] | None = None,
    ) -> TraceEvent:
        """Print an event and what it was called from, the nearest first; see `traverse_and_print`.

        Returns:
            The outermost caller, whether or not its category is printed; the event itself if it has no parent.
        """
        row = self._row(node)
        places = tree_text.ladder(self.graph, row, self._choice(False, categories, None))
        labels = self._labels(gpu_time=gpu_time, fields=cpu_op_fields)
        _print(tree_text.ladder_lines(self.graph, places, labels))
        return self._event(self.root_row(row))

    def traverse_parents_and_get_callstack(
        self, node: Mapping[str, Any], filter: Sequence[str] | None = None
    ) -> list[str]:
        """Names of an event and of what it was called from, the nearest first.

        Args:
            node: where to begin; its name is always there.
            filter: of the others only names that hold one of these texts; None for all.
        """
        row = self._row(node)
        frames: list[str] = []
        while row >= 0:
            name = self.graph.names[self.graph.columns.name[row]]
            if not frames or filter is None or any(text in name for text in filter):
                frames.append(name)
            row = self.parent_row(row)
        return frames

    def _category_for_people(self, row: int) -> str:
        return self.event_to_category(self._event(row))

    def _labels(self, **wanted: Any) -> tree_text.Labels:
        return tree_text.Labels(self._category_for_people, **wanted)

    def _choice(self, prune: bool, categories: Sequence[str] | None, depth: int | None) -> tree_text.Choice:
        only = self.in_tree
        if categories is not None:
            wanted = set(categories)
            only = only & np.array([self._category_for_people(row) in wanted for row in range(len(only))], bool)
        return tree_text.Choice(only, prune and self.prune_nongpu_paths, depth)

    def _print_subtree(self, node: Mapping[str, Any], labels: tree_text.Labels, choice: tree_text.Choice) -> None:
        _print(tree_text.lines(self.graph, tree_text.subtree(self.graph, self._row(node), choice), labels))


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)
