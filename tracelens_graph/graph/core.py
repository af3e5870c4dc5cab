"""The graph in memory: columns, the tables that they point into, and what is derived from these once and kept.

`Core` knows nothing of networkx, pandas or files, nor of what can be derived from it: whoever derives something, as
`graph.autograd`, `graph.collectives` and most analyses do, gives a function to `once`. What makes reading comfortable
is in `graph.graph.Graph`, and `nxview.trace_graph.TraceGraph` is that with a networkx face.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, TypeVarTuple

import numpy as np

from tracelens_graph.errors import NodeNotFoundError
from tracelens_graph.frameworks import Framework
from tracelens_graph.graph import membership, traversals
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.details import Details, content_id
from tracelens_graph.graph.flows import Flow
from tracelens_graph.graph.info import TraceInfo
from tracelens_graph.schema import GPU_KINDS
from tracelens_graph.utils.arrays import Ns, Rows

if TYPE_CHECKING:
    from tracelens_graph.graph.programs import CompiledPrograms

_Result = TypeVar("_Result")
_Key = TypeVarTuple("_Key")


class Memo:
    """Something that keeps what functions find out about it."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Callable[..., Any], tuple[Any, ...]], Any] = {}

    def once(self, function: Callable[[Self, *_Key], _Result], *key: *_Key) -> _Result:
        """`function(self, *key)`, called the first time only; later calls with an equal key give the same result."""
        slot = (function, key)
        if slot not in self._kept:
            self._kept[slot] = function(self, *key)
        return self._kept[slot]

    def remember(self, result: _Result, function: Callable[[Self, *_Key], _Result], *key: *_Key) -> None:
        """Have `once(function, *key)` give this result without calling the function."""
        self._kept[function, key] = result


class OpLink(Protocol):
    """What links a graph with the execution trace of its run; `execution.link.link_of` gives it its type."""

    @property
    def summary(self) -> str:
        """One line: how much is linked, and how."""

    @property
    def damage(self) -> str:
        """What was repaired in the execution trace, or lost of it; empty if it is sound."""

    def arguments(self, core: Core, row: int) -> str:
        """Tensors that the op of a row takes and makes, in one line; empty for none."""


@dataclass(eq=False, repr=False)
class Core(Memo):
    """A trace as a property graph in columns.

    Nodes are rows of `columns`; their identity is `uid`, the position of the event in the file. Everything that
    a question does not need is computed on first use and kept.

    Attributes:
        columns: properties of nodes; `name`, `thread` and `argset` are positions in the three tables that follow.
        names: texts, each once.
        threads: (process, thread) as the file gives them.
        argsets: dims, types, strides and concrete inputs as JSON; empty where not recorded.
        autograd_flows: ends of the arrows from forward to backward ops.
        depends_on: rows of GPU events (successor, predecessor), one pair per line.
        collective_args: uid -> arguments of the collective that the event takes part in.
        info: facts beside the events.
        details: where the original events are found again.
        link: what links the graph with an execution trace; None without one.
        programs: compiled programs that ops are of; None where the trace names none.
        instructions: of profiles of JAX, for each argument set what is known of the instruction beside its operands, as
            JSON (`hlo.facts.Facts`), or empty; of other traces there are none.
    """

    columns: Columns
    names: list[str]
    threads: list[tuple[Any, Any]]
    argsets: list[tuple[str, str, str, str]]
    autograd_flows: Sequence[Flow]
    depends_on: np.ndarray
    collective_args: Mapping[int, dict[str, Any]]
    info: TraceInfo
    details: Details
    link: OpLink | None = None
    programs: CompiledPrograms | None = None
    instructions: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def framework(self) -> Framework:
        """The framework that the trace comes from."""
        return self.info.framework

    # --- derived columns -------------------------------------------------------------------------------------

    @cached_property
    def step(self) -> Rows:
        """For each row, the row of its step, -1 for none."""
        return membership.step_rows(self.columns, self.threads)

    @cached_property
    def gpu_step(self) -> Rows:
        """Like `step`, but only for GPU events; -1 for all others."""
        if "step" in self.__dict__:
            return np.where(is_kind(self.columns.kind, GPU_KINDS), self.step, -1)
        return membership.step_rows(self.columns, self.threads, gpu_only=True)

    @cached_property
    def annotation(self) -> Rows:
        """For each row, the row of the innermost annotation over it, -1 for none."""
        return membership.annotation_rows(self.columns)

    @cached_property
    def gpu_sum_ns(self) -> Ns:
        """For each row, the sum of the durations of the GPU events in its subtree, itself included, ns."""
        c = self.columns
        return traversals.subtree_sums(c, np.where(is_kind(c.kind, GPU_KINDS), c.dur_ns, 0))

    def gpu_busy_ns(self, rows: Rows) -> Ns:
        """For each row, the length of the union of the GPU events in its subtree, itself included, ns."""
        return traversals.busy_below(self.columns, rows, self.gpu_rows)

    @cached_property
    def gpu_rows(self) -> Rows:
        """Rows of GPU events, ascending."""
        return traversals.gpu_rows(self.columns)

    @cached_property
    def device_order(self) -> Rows:
        """Rows of GPU events by device, stream, start."""
        rows, c = self.gpu_rows, self.columns
        return rows[np.lexsort((c.uid[rows], c.start_ns[rows], c.stream[rows], c.device[rows]))]

    def read_all(self) -> None:
        """Read all lazy parts of a saved graph, except the original events, and forget its index.

        Raises:
            TraceError: the saved graph is damaged.
        """
        self.columns = self.columns.only(self.columns.names)
        self.autograd_flows = list(self.autograd_flows)
        self.collective_args = dict(self.collective_args)

    # --- identity --------------------------------------------------------------------------------------------

    @cached_property
    def trace_id(self) -> str:
        """Id of the trace: a hash of the file's decompressed bytes, or of the graph if it comes from no file.

        Raises:
            ChangedTraceError: the file is no longer the one that was loaded.
        """
        return self.details.identity() or content_id(
            self.columns, [self.names, self.threads, self.argsets, *filter(None, [self.instructions])], self.programs
        )

    @cached_property
    def _uid_order(self) -> Rows:
        return np.argsort(self.columns.uid, kind="stable")

    def rows_of(self, uids: Iterable[int]) -> Rows:
        """Rows of uids; -1 for a uid that is not a node."""
        wanted = np.fromiter(uids, np.int64)
        order = self._uid_order
        if not len(order):
            return np.full(len(wanted), -1, np.int64)
        at = np.minimum(np.searchsorted(self.columns.uid, wanted, sorter=order), len(order) - 1)
        rows = order[at]
        return np.where(self.columns.uid[rows] == wanted, rows, -1)

    def row(self, uid: int) -> int:
        """The row of a uid.

        Raises:
            NodeNotFoundError: no node has it; the message says what stands there in the file, if anything.
        """
        found = int(self.rows_of([uid])[0]) if 0 <= uid < 2**63 else -1
        if found < 0:
            inside = "; that entry of the file is not a node" if 0 <= uid < self.info.events else ""
            raise NodeNotFoundError(f"no node has uid {uid}{inside}")
        return found

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def equals(self, other: Core) -> bool:
        """Whether two graphs are equal in columns, strings, links and metadata."""
        return (
            len(self.columns) == len(other.columns)
            and all(np.array_equal(a, b) for (_, a), (_, b) in zip(self.columns, other.columns, strict=True))
            and self.names == other.names
            and [tuple(t) for t in self.threads] == [tuple(t) for t in other.threads]
            and [tuple(a) for a in self.argsets] == [tuple(a) for a in other.argsets]
            and [tuple(f) for f in self.autograd_flows] == [tuple(f) for f in other.autograd_flows]
            and np.array_equal(self.depends_on, other.depends_on)
            and self.collective_args == other.collective_args
            and self.info == other.info
            and self.programs == other.programs
            and list(self.instructions) == list(other.instructions)
        )
