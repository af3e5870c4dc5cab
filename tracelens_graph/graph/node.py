"""A node of the graph, as one reads it: a light handle on a row, with no state of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tracelens_graph.graph import traversals
from tracelens_graph.graph.arguments import ARGUMENTS, INSTRUCTION
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import FLAG_MEANING, GPU_KINDS, PYTHON_KINDS, STORED, Flag, Kind, OwnerRule, Property

if TYPE_CHECKING:
    from tracelens_graph.graph.autograd import Autograd

PLAIN = tuple(p for p in STORED if not p.code_of and p.name not in ("parent", "last", "owner", "flags"))
"""Properties that are attributes of nodes as they stand in their columns."""
_WITHOUT_TIMES = tuple(p for p in PLAIN if p.name not in ("start_ns", "dur_ns"))


def plain_properties(core: Core) -> tuple[Property, ...]:
    """The same of the nodes of a graph: with times only where the trace has any."""
    return PLAIN if core.framework.has_times else _WITHOUT_TIMES


class GpuTime(NamedTuple):
    """GPU time of a subtree, in ns: `sum` of durations adds up over parts, `busy` is the length of their union."""

    sum: int
    busy: int


class Node:
    """One event of the trace and its place in the graph.

    Two handles are equal if they show the same node of the same graph.
    """

    __slots__ = ("graph", "row")

    def __init__(self, graph: Core, row: int) -> None:
        self.graph = graph
        self.row = row

    # --- the event -------------------------------------------------------------------------------------------

    @property
    def uid(self) -> int:
        """Position of the event in the file's event list."""
        return int(self.graph.columns.uid[self.row])

    @property
    def kind(self) -> Kind:
        """What the node is."""
        return Kind(int(self.graph.columns.kind[self.row]))

    @property
    def name(self) -> str:
        """Name of the event."""
        return self.graph.names[self.graph.columns.name[self.row]]

    @property
    def pid(self) -> Any:
        """Process as in the file; for a device event, the device."""
        return self.graph.threads[self.graph.columns.thread[self.row]][0]

    @property
    def tid(self) -> Any:
        """Thread as in the file; for a device event, the stream."""
        return self.graph.threads[self.graph.columns.thread[self.row]][1]

    @property
    def start_ns(self) -> int:
        """Start in ns from the trace's start."""
        return int(self.graph.columns.start_ns[self.row])

    @property
    def dur_ns(self) -> int:
        """Duration in ns, as recorded."""
        return int(self.graph.columns.dur_ns[self.row])

    @property
    def end_ns(self) -> int:
        """End in ns from the trace's start."""
        return self.start_ns + self.dur_ns

    @property
    def external_id(self) -> int | None:
        """External id, as Perfetto UI shows it among the arguments."""
        return self._optional("external_id")

    @property
    def device(self) -> int | None:
        """Device of a device event."""
        return self._optional("device")

    @property
    def stream(self) -> int | None:
        """Stream of a device event."""
        return self._optional("stream")

    @property
    def flags(self) -> list[str]:
        """Irregularities of the event, in words."""
        bits = int(self.graph.columns.flags[self.row])
        return [FLAG_MEANING[flag] for flag in Flag if bits & flag]

    @property
    def event(self) -> dict[str, Any]:
        """The complete original event, read from the file again; empty if the graph has no file."""
        return self.graph.details.events([self.uid]).get(self.uid, {})

    @property
    def args(self) -> dict[str, Any]:
        """The event's original arguments."""
        args = self.event.get("args")
        return args if isinstance(args, dict) else {}

    @property
    def shapes(self) -> dict[str, Any]:
        """Dims, types, strides and concrete inputs of an op, by their names in the file; for JAX also `Instruction`."""
        code = int(self.graph.columns.argset[self.row])
        if code < 0:
            return {}
        texts = [*self.graph.argsets[code], *self.graph.instructions[code : code + 1]]
        names = (*ARGUMENTS, INSTRUCTION)
        return {name: json.loads(text) for name, text in zip(names, texts, strict=False) if text}

    def attributes(self) -> dict[str, Any]:
        """All recorded properties, absent ones left out: what networkx shows as node data."""
        row, columns = self.row, self.graph.columns
        found: dict[str, Any] = {"kind": self.kind.name, "name": self.name, "pid": self.pid, "tid": self.tid}
        for prop in plain_properties(self.graph):
            value = int(getattr(columns, prop.name)[row])
            if value != prop.absent:
                found[prop.name] = value
        if columns.argset[row] >= 0:
            found |= self.shapes
        if self.kind in GPU_KINDS:
            found["owner_rule"] = OwnerRule(int(columns.owner_rule[row])).name
        if flags := self.flags:
            found["flags"] = flags
        return found

    # --- its place -------------------------------------------------------------------------------------------

    @property
    def parent(self) -> Node | None:
        """The caller; for a GPU event, the runtime call that launched it."""
        return self._at(int(self.graph.columns.parent[self.row]))

    @property
    def children(self) -> list[Node]:
        """Calls made and GPU events launched, by start."""
        return nodes_at(self.graph, traversals.children(self.graph.columns, self.row).tolist())

    @property
    def ancestors(self) -> list[Node]:
        """Callers, the nearest first."""
        return nodes_at(self.graph, traversals.ancestors(self.graph.columns, self.row))

    @property
    def subtree(self) -> list[Node]:
        """All descendants in pre-order, the node itself first."""
        return nodes_at(self.graph, range(self.row, int(self.graph.columns.last[self.row]) + 1))

    @property
    def depth(self) -> int:
        """Number of ancestors."""
        return int(self.graph.columns.depth[self.row])

    @property
    def kernels(self) -> list[Node]:
        """GPU events in the subtree (kernels, copies, fills), in pre-order."""
        gpu = self.graph.gpu_rows
        low, high = np.searchsorted(gpu, (self.row, int(self.graph.columns.last[self.row]) + 1))
        return nodes_at(self.graph, gpu[low:high].tolist())

    @property
    def gpu_time(self) -> GpuTime:
        """GPU time of the subtree in ns: sum of durations, and length of their union."""
        rows = np.array([self.row])
        return GpuTime(int(self.graph.gpu_sum_ns[self.row]), int(self.graph.gpu_busy_ns(rows)[0]))

    @property
    def launcher(self) -> Node | None:
        """For a GPU event: the op that launched it, or the runtime call if no op did."""
        if self.kind not in GPU_KINDS:
            return None
        return self._at(int(traversals.launcher(self.graph.columns, np.array([self.row]))[0]))

    @property
    def owner(self) -> Node | None:
        """For a GPU event: the op that it is charged to."""
        return self._at(int(self.graph.columns.owner[self.row]))

    @property
    def modules(self) -> list[Node]:
        """Modules around the event, the outermost first; its own module included if it is one."""
        chain = [self, *self.ancestors]
        return [node for node in reversed(chain) if node.kind is Kind.Module]

    @property
    def module_path(self) -> str:
        """Modules around the event as a path, from the Python frames or, in old traces, `Module Hierarchy`."""
        if found := self.modules:
            return "/".join(node.name.removeprefix("nn.Module: ") for node in found)
        start = self.owner or self
        for node in [start, *start.ancestors]:
            if node.kind is Kind.Op and (path := node.args.get("Module Hierarchy")):
                return str(path)
            if node.kind in PYTHON_KINDS:
                break
        return ""

    @property
    def python_line(self) -> str:
        """The user's or the model's line that the event comes from, `file(line): function`.

        Of backward work it is the line of the forward op. Frames of frameworks are passed over (`graph.user_code`).
        It is empty where the trace has none.
        """
        from tracelens_graph.graph.user_code import line_names

        return line_names(self.graph, np.array([self.row]))[0]

    @property
    def step(self) -> Node | None:
        """The step that holds the event."""
        return self._at(int(self.graph.step[self.row]))

    @property
    def annotation(self) -> Node | None:
        """The innermost annotation that holds the event."""
        return self._at(int(self.graph.annotation[self.row]))

    @property
    def backward(self) -> list[Node]:
        """Backward ops of a forward op."""
        return nodes_at(self.graph, self._passes.backward_of(self.row))

    @property
    def forward(self) -> list[Node]:
        """Forward ops of a backward op, recomputed ones included."""
        return nodes_at(self.graph, self._passes.forward_of(self.row))

    @property
    def is_recompute(self) -> bool:
        """Whether the event recomputes activations for the backward pass."""
        return bool(self._passes.recompute[self.row])

    @property
    def _passes(self) -> Autograd:
        from tracelens_graph.graph.autograd import autograd_of

        return autograd_of(self.graph)

    def _at(self, row: int) -> Node | None:
        return Node(self.graph, row) if row >= 0 else None

    def _optional(self, column: str) -> int | None:
        value = int(getattr(self.graph.columns, column)[self.row])
        return value if value != -1 else None

    # --- showing ---------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and other.graph is self.graph and other.row == self.row

    def __hash__(self) -> int:
        return hash((id(self.graph), self.row))

    def __repr__(self) -> str:
        name = self.name if len(self.name) <= 64 else self.name[:64] + "..."
        when = f" at {self.start_ns / 1000:.3f} us for {self.dur_ns / 1000:.3f} us"
        arguments = "" if self.graph.link is None else self.graph.link.arguments(self.graph, self.row)
        arguments = arguments and f" {arguments}"
        return f"<{self.kind.name} {self.uid}: {name!r}{arguments}{when if self.graph.framework.has_times else ''}>"

    def _repr_html_(self) -> str:
        import html

        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(key)}</th><td>{html.escape(str(value))}</td></tr>"
            for key, value in self.attributes().items()
        )
        return f"<table><caption>{html.escape(self.kind.name)} {self.uid}</caption>{rows}</table>"


def nodes_at(core: Core, rows: Iterable[int]) -> list[Node]:
    """The nodes of these rows, in the given order."""
    return [Node(core, int(row)) for row in rows]
