"""The graph in memory: columns, what was derived from them, and the reading API.

`Core` knows nothing of networkx, pandas or files. `nxview.trace_graph.TraceGraph` is this with a networkx face; the
command line works on the core alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.errors import NodeNotFoundError, NoTimesError
from tracelens_graph.frameworks import Framework, framework_of
from tracelens_graph.graph import membership, traversals
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.details import Details
from tracelens_graph.graph.flows import Flow, Flows
from tracelens_graph.graph.identity import content_id
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.window import Threads, Window, narrow
from tracelens_graph.schema import (
    FOREST_KINDS,
    GPU_KINDS,
    HOST_KINDS,
    PYTHON_KINDS,
    REPAIR_MEANING,
    REPAIRS_OF_FILE,
    Kind,
)
from tracelens_graph.utils.suggest import hint

if TYPE_CHECKING:
    from tracelens_graph.execution.graph_tensors import GraphTensors
    from tracelens_graph.execution.joining.link import Link
    from tracelens_graph.graph.autograd import Autograd
    from tracelens_graph.graph.collectives import Collectives
    from tracelens_graph.graph.programs import CompiledPrograms
    from tracelens_graph.tables.table import Table


_GPU_PLANE = "/device:GPU:"
_HOST_PLANES = {"/host:CPU": "threads", "/host:metadata": "programs"}
"""Planes of a profile of JAX, and what is in them."""
_NAMED_PLANES = 4

FAR_TIME = "time far from all others"
NOT_A_NODE = "not a node"
UNREADABLE = ("unreadable", "not an event", NOT_A_NODE, FAR_TIME)
"""Reasons in `TraceInfo.left_out` that are losses: entries of the event list that nothing could be made of."""


@dataclass
class TraceInfo:
    """Facts about a trace beside its events.

    Attributes:
        source: where it was read from, for messages.
        start_epoch_ns: absolute time of `start_ns == 0`, in ns since 1970 (0 where the file does not tell).
        lead_ns: how much earlier than `start_ns == 0` the first entry of the file is that viewers draw, such as the
            profiler's own span. Perfetto UI counts from there, and so does whatever people are shown or type.
        metadata: the file's top-level keys, without those that may hold secrets.
        processes: [pid, name, labels]; threads: [pid, tid, name]: names from metadata events.
        events: number of entries in the file's event list.
        accelerator: what its device is called if it is no GPU, such as `MTIA`; empty for a GPU.
        left_out: why -> number of entries that became no node (flows, metadata, spans).
        repairs: fault -> number of events it was repaired in; empty for a sound file.
        lost_events, lost_bytes: what no repair could save; at least that, where `doubtful_from` is given.
        doubtful_from: uid from which on uids may be smaller than the position in the file, because more events may be
            lost before it than could be counted; None where all lost events are counted.
        cut_short: bytes that could be read of a compressed file that ends before its end; 0 of a whole one.
        planes: of a profile of JAX whose end is missing, the parts (devices, the host, programs) that could be read, in
            the order of the file; the last of them in part.
        has_times: whether it tells times. An execution trace does not: starts and durations of its graph are places in
            the order of all begins and ends, so that calls nest; nobody is shown them.
    """

    source: str = ""
    start_epoch_ns: int = 0
    lead_ns: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    processes: list[list[Any]] = field(default_factory=list)
    threads: list[list[Any]] = field(default_factory=list)
    events: int = 0
    accelerator: str = ""
    left_out: dict[str, int] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)
    lost_events: int = 0
    lost_bytes: int = 0
    doubtful_from: int | None = None
    cut_short: int = 0
    planes: list[str] = field(default_factory=list)
    has_times: bool = True

    def check_times(self) -> None:
        """Raise NoTimesError for an execution trace alone."""
        if not self.has_times:
            raise NoTimesError(self.source)

    @property
    def framework(self) -> Framework:
        """The framework that the trace comes from: what differs between traces of one and of another."""
        return framework_of(self.metadata, self.has_times)

    @property
    def is_xla(self) -> bool:
        """Old name, for one version: whether ops are instructions of XLA; ask `framework` instead."""
        return self.framework.compiles_programs

    @property
    def link_command(self) -> str:
        """The command that links an execution trace with the profiler's trace of the same run."""
        is_file = not self.source.startswith("<")  # standard input, and what was parsed already, have no name
        return f"tracelens-graph report KINETO --et {shlex.quote(self.source) if is_file else 'ET'}"

    def shown_ms(self, ns: Any) -> Any:
        """Moments of the trace, in ns from its start, as Perfetto UI shows them: in ms from its zero."""
        return (ns + self.lead_ns) / 1e6

    @property
    def damage(self) -> str:
        """One line on what was repaired in the file and what was lost, with counts; empty for a sound file."""
        said = [
            REPAIR_MEANING.get(fault, fault) + (f" ({count:,})" if fault not in REPAIRS_OF_FILE else "")
            for fault, count in self.repairs.items()
        ]
        if self.cut_short:
            what = self.framework.bytes
            said.append(f"the compressed file is cut short: {self.cut_short:,} {what} could be read")
        lost = []
        if self.lost_in_all:
            lost.append(f"entries lost: {'at least ' if self.lost_at_least else ''}{self.lost_in_all:,}")
        elif self.lost_at_least:
            lost.append("entries may be lost")
        if self.lost_bytes or self.lost_in_all:
            lost.append(f"bytes lost: {self.lost_bytes:,}")
        if lost:
            said.append(", ".join(lost))
        if self.doubtful_from is not None and self.doubtful_from < self.events:
            said.append(f"uids from {self.doubtful_from:,} on may be smaller than the positions in the file")
        if self.ends_early:
            left = self.events - self.lost_in_all
            said.append(f"{left:,} {'entry is' if left == 1 else 'entries are'} left, {self._cut_off}")
        return "; ".join(said)

    @property
    def _cut_off(self) -> str:
        """What stood in the part of the file that is missing."""
        if self.framework.missing_end:
            return self.framework.missing_end
        listed = f"of {', '.join(self.planes[:_NAMED_PLANES])}" if self.planes else "of no plane"
        more = len(self.planes) - _NAMED_PLANES
        inside = f"the rest of {self.planes[-1]} and " if self.planes else ""
        lacking = [what for plane, what in _HOST_PLANES.items() if plane not in self.planes]
        behind = f" ({', '.join(lacking)})" if lacking else ""
        return f"{listed}{f' and {more:,} more' if more > 0 else ''}; {inside}planes behind it{behind} are missing"

    @property
    def lost_in_all(self) -> int:
        """Number of entries that could not be read: broken JSON, and JSON that is no event."""
        return self.lost_events + sum(self.left_out.get(why, 0) for why in UNREADABLE)

    @property
    def lost_at_least(self) -> bool:
        """Whether more entries may be lost than were counted."""
        return self.doubtful_from is not None or self.ends_early

    @property
    def ends_early(self) -> bool:
        """Whether the end of the file is missing, and with it events nobody knows of."""
        return bool(self.cut_short) or "truncated" in self.repairs

    @property
    def gpu_ends_early(self) -> bool:
        """Whether GPU events may be missing with the end of the file. Profiles of JAX have them before the host's."""
        if not self.planes:
            return self.ends_early
        return self.planes[-1].startswith(_GPU_PLANE) or not any(name.startswith(_GPU_PLANE) for name in self.planes)

    @property
    def rank(self) -> int | None:
        """Rank in its job, from the metadata: a whole number below the number of ranks; None for anything else."""
        rank, size = _whole_number(self._job.get("rank")), self.world_size
        return rank if rank is not None and rank < (size or MOST_RANKS) else None

    @property
    def world_size(self) -> int | None:
        """Number of ranks of its job, from the metadata: a whole number from 1 on; None for anything else."""
        return _whole_number(self._job.get("world_size")) or None

    @property
    def odd_job(self) -> list[str]:
        """What the metadata says of rank and job that cannot be, such as `world_size -5`."""
        told = (("world_size", self.world_size), ("rank", self.rank))
        return [
            f"{key} {self._job[key]!r:.40}" for key, read in told if self._job.get(key) is not None and read is None
        ]

    @property
    def _job(self) -> Mapping[str, Any]:
        job = self.metadata.get("distributedInfo")
        return job if isinstance(job, dict) else {}


MOST_RANKS = 1_000_000
"""Ranks that a job can have; what says more is damaged."""


def _whole_number(told: Any) -> int | None:
    """A whole number that ranks can be counted with, which may stand as text; None for anything else."""
    if isinstance(told, str) and re.fullmatch(r"[0-9]{1,7}", told):
        told = int(told)
    return told if type(told) is int and 0 <= told <= MOST_RANKS else None


class Core:
    """A trace as a property graph in columns.

    Nodes are rows of `columns`; their identity is `uid`, the position of the event in the file. Everything that
    a question does not need is computed on first use and kept.
    """

    def __init__(
        self,
        columns: Columns,
        names: list[str],
        threads: list[tuple[Any, Any]],
        argsets: list[tuple[str, str, str, str]],
        autograd_flows: Sequence[Flow],
        depends_on: np.ndarray,
        collectives: Mapping[int, dict[str, Any]],
        info: TraceInfo,
        details: Details,
        link: Link | None = None,
        programs: CompiledPrograms | None = None,
    ) -> None:
        self.columns = columns
        self.names = names
        self.threads = threads
        self.argsets = argsets
        self.autograd_flows = autograd_flows
        self.depends_on = depends_on
        self.collective_args = collectives
        self.info = info
        self.details = details
        self.link = link
        self.programs = programs
        self.edge_cache: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.class_cache: dict[tuple[bool, bool], np.ndarray] = {}

    @property
    def framework(self) -> Framework:
        """The framework that the trace comes from."""
        return self.info.framework

    # --- derived columns -------------------------------------------------------------------------------------

    @cached_property
    def step(self) -> np.ndarray:
        """Per row the row of its step, -1 for none."""
        return membership.step_rows(self.columns, self.threads)

    @cached_property
    def gpu_step(self) -> np.ndarray:
        """As `step`, but said of GPU events only; -1 for all others."""
        if "step" in self.__dict__:
            return np.where(is_kind(self.columns.kind, GPU_KINDS), self.step, -1)
        return membership.step_rows(self.columns, self.threads, gpu_only=True)

    @cached_property
    def annotation(self) -> np.ndarray:
        """Per row the row of the innermost annotation over it, -1 for none."""
        return membership.annotation_rows(self.columns)

    @cached_property
    def autograd(self) -> Autograd:
        """Forward ops, their backward ops, and what was recomputed."""
        from tracelens_graph.graph.autograd import link_autograd

        return link_autograd(self)

    @property
    def recompute(self) -> np.ndarray:
        """Per row whether the event belongs to a recomputation of activations."""
        return self.autograd.recompute

    @cached_property
    def collectives(self) -> Collectives:
        """Collective operations, this rank's part of each."""
        from tracelens_graph.graph.collectives import collectives

        return collectives(self)

    @cached_property
    def tensors(self) -> GraphTensors | None:
        """Tensors and storages; None without an execution trace."""
        if self.link is None:
            return None
        from tracelens_graph.execution.graph_tensors import GraphTensors

        return GraphTensors(self.columns, self.link, self.framework.has_times)

    @cached_property
    def gpu_sum_ns(self) -> np.ndarray:
        """Per row the sum of the durations of the GPU events in its subtree, itself included, ns."""
        c = self.columns
        return traversals.subtree_sums(c, np.where(is_kind(c.kind, GPU_KINDS), c.dur_ns, 0))

    def gpu_busy_ns(self, rows: np.ndarray) -> np.ndarray:
        """For each row the length of the union of the GPU events in its subtree, itself included, ns."""
        return traversals.busy_below(self.columns, rows, self.gpu_rows)

    @cached_property
    def gpu_rows(self) -> np.ndarray:
        """Rows of GPU events, ascending."""
        return traversals.gpu_rows(self.columns)

    @cached_property
    def device_order(self) -> np.ndarray:
        """Rows of GPU events by device, stream, start."""
        rows, c = self.gpu_rows, self.columns
        return rows[np.lexsort((c.uid[rows], c.start_ns[rows], c.stream[rows], c.device[rows]))]

    def lean(self, columns: Iterable[str]) -> Core:
        """The graph with some of its columns only, and those that every graph has.

        Argument sets and autograd arrows, which are of no use without `argset` and `sequence`, go with these columns.
        All else is shared.

        Args:
            columns: names of `schema.STORED`.
        """
        kept = self.columns.only(columns)
        return Core(
            kept, self.names, self.threads, self.argsets if "argset" in kept.names else [],
            self.autograd_flows if "sequence" in kept.names else Flows.of(), self.depends_on,
            self.collective_args, self.info, self.details, self.link, self.programs,
        )  # fmt: skip

    def read_all(self) -> None:
        """Read whatever a saved graph gives on request only, but for the original events.

        Raises:
            TraceError: the saved graph is damaged.
        """
        for name in self.columns.names:
            getattr(self.columns, name)
        len(self.autograd_flows)
        len(self.collective_args)

    # --- windows ---------------------------------------------------------------------------------------------

    @cached_property
    def everything(self) -> Window:
        """The window that holds the whole trace."""
        return Window(self)

    def window(
        self,
        *,
        step: int | Iterable[int] | None = None,
        annotation: str | re.Pattern[str] | None = None,
        threads: Threads = "own",
        after_ns: int | None = None,
        before_ns: int | None = None,
        under: int | str | re.Pattern[str] | None = None,
        device: int | Sequence[int] | None = None,
        stream: int | Sequence[int] | None = None,
    ) -> Window:
        """The part of the trace that meets all conditions, to be given to any analysis.

        A node is in or out as a whole, so neighbouring windows share nothing and lack nothing. GPU events follow
        their launch where steps and annotations are concerned, and their own start where times are.

        Args:
            step: the number in `ProfilerStep#n`, or several, such as `range(2, 6)`.
            annotation: name of record_function ranges, or a compiled pattern: what starts inside one of them.
            threads: of an annotation: "own" for its thread, "all" for the threads of its process.
            after_ns, before_ns: nodes that start in [after_ns, before_ns), in ns from the trace's start.
            under: uid of a node, or the name of modules (`nn.Module: ` may be left out), functions, ops, or
                runtime calls, or a compiled pattern for names: their subtrees.
            device, stream: GPU events on these, and the calls that lead to them.

        Raises:
            AnalysisError: nothing in the trace has the step, annotation, name, device or stream asked for.
            NodeNotFoundError: no node has the uid asked for.
        """
        return narrow(
            self.everything, step=step, annotation=annotation, threads=threads, after_ns=after_ns,
            before_ns=before_ns, under=under, device=device, stream=stream,
        )  # fmt: skip

    # --- identity --------------------------------------------------------------------------------------------

    @cached_property
    def trace_id(self) -> str:
        """Id of the trace: a hash of the file's decompressed bytes, or of the graph if it comes from no file.

        Raises:
            ChangedTraceError: the file is no longer the one that was loaded.
        """
        return self.details.identity() or content_id(self)

    @cached_property
    def _uid_order(self) -> np.ndarray:
        return np.argsort(self.columns.uid, kind="stable")

    def rows_of(self, uids: Iterable[int]) -> np.ndarray:
        """Rows of uids; -1 for a uid that is no node."""
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
            inside = "; that entry of the file is no node" if 0 <= uid < self.info.events else ""
            raise NodeNotFoundError(f"no node has uid {uid}{inside}")
        return found

    # --- reading ---------------------------------------------------------------------------------------------

    def node(self, uid: int) -> Node:
        """The node with this uid (position of the event in the file's event list).

        Raises:
            NodeNotFoundError: there is none.
        """
        return Node(self, self.row(uid))

    def nodes_at(self, rows: Iterable[int]) -> list[Node]:
        """Nodes of rows, in the order given."""
        return [Node(self, int(row)) for row in rows]

    def find(
        self,
        kind: Kind | str | Iterable[Kind | str] | None = None,
        name: str | re.Pattern[str] | None = None,
        *,
        pattern: str | None = None,
        external_id: int | None = None,
        pid: int | str | None = None,
        tid: int | str | None = None,
        after_ns: int | None = None,
        before_ns: int | None = None,
    ) -> list[Node]:
        """Nodes that meet all conditions, in row order (a parent before its children).

        Args:
            kind: one or more of `schema.Kind`, as such or by name; "gpu" and "host" stand for their groups.
            name: the exact name, or a compiled regular expression.
            pattern: a regular expression searched in the name.
            external_id: External id, as Perfetto UI shows it among the arguments.
            pid, tid: process and thread as the file gives them; for device events also device and stream.
            after_ns, before_ns: a time window; nodes that overlap [after_ns, before_ns) are found.

        Raises:
            NodeNotFoundError: `kind` is no kind of node.
        """
        c = self.columns
        keep = np.ones(len(c), bool)
        if kind is not None:
            keep &= is_kind(c.kind, kinds_named(kind))
        tests = [name, None if pattern is None else re.compile(pattern)]
        for test in tests:
            if test is not None and len(c):
                keep &= self._names_like(test)[c.name]
        if external_id is not None:
            keep &= c.external_id == external_id
        if pid is not None or tid is not None:
            keep &= self._on_thread(pid, tid)
        if after_ns is not None:
            keep &= (c.end_ns > after_ns) | (c.start_ns >= after_ns)
        if before_ns is not None:
            keep &= c.start_ns < before_ns
        return self.nodes_at(np.flatnonzero(keep).tolist())

    def _names_like(self, test: str | re.Pattern[str]) -> np.ndarray:
        if isinstance(test, str):
            return np.fromiter((name == test for name in self.names), bool, len(self.names))
        return np.fromiter((test.search(name) is not None for name in self.names), bool, len(self.names))

    def _on_thread(self, pid: int | str | None, tid: int | str | None) -> np.ndarray:
        c = self.columns
        match = [(pid is None or str(p) == str(pid)) and (tid is None or str(t) == str(tid)) for p, t in self.threads]
        on_thread = np.array(match, bool)[c.thread] if match else np.zeros(len(c), bool)
        on_device = c.device != -1
        for column, value in ((c.device, pid), (c.stream, tid)):
            if value is not None:
                number = int(value) if str(value).lstrip("-").isdigit() else None
                on_device = on_device & (column == number) if number is not None else np.zeros(len(c), bool)
        return on_thread | on_device

    def classes(self, shapes: bool = True, kernel_names: bool = False) -> Table:
        """Classes of equal call subtrees with GPU work; see `graph.classes.class_table`."""
        from tracelens_graph.graph.classes import class_table

        return class_table(self, shapes, kernel_names)

    def same_as(self, node: Node, shapes: bool = True, kernel_names: bool = False) -> list[Node]:
        """Nodes whose call subtree equals this one's, itself included; see `graph.classes.same_as`."""
        from tracelens_graph.graph.classes import same_as

        return same_as(self, node, shapes, kernel_names)

    def steps(self) -> list[Node]:
        """The steps (`ProfilerStep#n`), by process and start."""
        return self.nodes_at(traversals.rows_of_kind(self.columns, (Kind.Step,)))

    def roots(self) -> list[Node]:
        """Roots of the call forest, thread by thread, then GPU events without a launch."""
        c = self.columns
        return self.nodes_at(np.flatnonzero((c.parent < 0) & is_kind(c.kind, FOREST_KINDS)))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def equals(self, other: Core) -> bool:
        """Whether two graphs hold the same: columns, strings, links, metadata."""
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
        )


def kinds_named(kind: Kind | str | Iterable[Kind | str]) -> list[Kind]:
    """Kinds from their names; "gpu", "host" and "python" stand for groups.

    Raises:
        NodeNotFoundError: no kind has that name; the message lists those there are.
    """
    if isinstance(kind, Kind):
        return [kind]
    if not isinstance(kind, str):
        return [found for one in kind for found in kinds_named(one)]
    groups = {"gpu": list(GPU_KINDS), "host": list(HOST_KINDS), "python": list(PYTHON_KINDS)}
    lookup = {k.name.lower(): [k] for k in Kind} | groups
    try:
        return lookup[kind.lower()]
    except KeyError:
        raise NodeNotFoundError(f"no kind of node is called {kind!r}; {hint(str(kind), lookup)}") from None
