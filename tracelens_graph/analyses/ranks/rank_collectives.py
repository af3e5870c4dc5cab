"""What one rank of a job took part in: its collectives, what is known of the rank itself, and on which node it runs.

Nothing here holds a graph, so that traces can be loaded one by one, in other processes or on other machines.

Recordings seldom name their host. Where all do, ranks of one host are on one node; else ranks count through the nodes,
as many on each as a recording sees devices.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tracelens_graph.analyses.ranks.held import Entry, Forms, Held
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, COMPUTATION, gpu_classes
from tracelens_graph.analyses.shared.thinned import is_thinned
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.collectives import Collective, collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.deferred import Deferred
from tracelens_graph.graph.intervals import Intervals, merge, union
from tracelens_graph.graph.trace_set import TraceMember, TraceSet
from tracelens_graph.graph.window import Window, step_number, whole_window
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, narrow
from tracelens_graph.utils.hosts import switch_in

INTRA_NODE, INTER_NODE, UNKNOWN_SPAN = "intra_node", "inter_node", "unknown"


@dataclass(frozen=True)
class Nodes:
    """Nodes by number, in the order of their first ranks.

    Attributes:
        by_host: rank -> its node, of ranks that say where they ran; empty where hosts are not known.
        per_node: number of ranks per node, None where not known. Counts only without hosts.
    """

    by_host: Mapping[int, int]
    per_node: int | None = None

    @classmethod
    def of(
        cls, ranks: Sequence[int], hosts: Sequence[str | None], devices: Sequence[int], per_node: int | None = None
    ) -> Nodes:
        """The nodes of the ranks of a job.

        Args:
            ranks: the ranks.
            hosts: where each ran, see `host_of`.
            devices: how many devices the recording of each lists.
            per_node: number of ranks per node, if the user says so; it goes before what recordings say.

        Raises:
            AnalysisError: `per_node` is below 1.
        """
        if per_node is not None:
            if type(per_node) is not int or per_node < 1:
                raise AnalysisError(f"{per_node!r} ranks per node: expected a whole number of at least 1")
            return cls({}, per_node)
        host_by_rank = dict(sorted(zip(ranks, hosts, strict=True), key=lambda pair: pair[0]))
        if host_by_rank and all(hosts):
            numbers = {host: number for number, host in enumerate(dict.fromkeys(host_by_rank.values()))}
            return cls({rank: numbers[host] for rank, host in host_by_rank.items()})
        counts = set(devices)
        found = counts.pop() if len(counts) == 1 else 0
        # A process that sees one device may have been kept from seeing the others of its node.
        return cls({}, found if found > 1 else None)

    def node_of(self, rank: int) -> int | None:
        """Number of the node of a rank; None if it is not known."""
        if self.by_host:
            return self.by_host.get(rank)
        return None if self.per_node is None else rank // self.per_node

    def span(self, ranks: Iterable[int] | None) -> str:
        """Whether some ranks are on one node: `intra_node`, `inter_node`, or `unknown`."""
        nodes = {self.node_of(rank) for rank in ranks or ()}
        if len(nodes - {None}) > 1:
            return INTER_NODE
        return INTRA_NODE if nodes and None not in nodes else UNKNOWN_SPAN


def host_of(trace: TraceMember) -> str | None:
    """Where a rank ran: the label `host=...` of its trace, else what the recording says; None for nothing."""
    found = trace.value_of("host") or trace.core.info.metadata.get("host")
    return str(found) if found else None


def switch_of(trace: TraceMember) -> str | None:
    """What the names of hosts at one switch share: of the label `host=...`, else as the recording says."""
    label = trace.value_of("host")
    found = switch_in(str(label)) if label else trace.core.info.metadata.get("switch")
    return str(found) if found else None


def has_gpu_work(trace: TraceMember) -> bool:
    """Whether anything of a trace ran on a GPU."""
    return trace.graph.left[0].has_gpu_work if isinstance(trace.graph, Deferred) else len(trace.core.gpu_rows) > 0


def devices_of(core: Core) -> int:
    """How many devices a recording lists."""
    properties = core.info.metadata.get("deviceProperties")
    return len(properties) if isinstance(properties, list) else 0


_NEVER: Intervals = (np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class Step:
    """A step on the device: it begins with the first GPU event that was launched in it. Without any, one on the host.

    Attributes:
        number: its number, None where it has none.
        start_ns: first start of its GPU events.
        end_ns: first start of those of the next step; of the last one the last end of its GPU events.
    """

    number: int | None
    start_ns: int
    end_ns: int


class GpuTime:
    """When the GPUs of a rank were at work, on the clock of its trace; packed, as thousands of ranks are held at once.

    Args:
        busy: when any GPU event ran.
        computing: when computation ran.
        communicating: when communication ran, also what is no collective that is known.

    Attributes:
        span_ns: when the first of it began and the last ended; None for nothing.
    """

    def __init__(
        self, busy: Intervals = _NEVER, computing: Intervals = _NEVER, communicating: Intervals = _NEVER
    ) -> None:
        start, end = (np.append(one, 0) for one in union(computing, communicating))
        at = np.searchsorted(start[:-1], busy[0])
        other = (start[at] != busy[0]) | (end[at] != busy[1])
        self._packed = [_packed(one) for one in ((busy[0][other], busy[1][other]), computing, communicating)]
        self.span_ns = (int(busy[0][0]), int(busy[1][-1])) if len(busy[0]) else None

    @property
    def busy(self) -> Intervals:
        """When any GPU event ran."""
        return union(*map(_unpacked, self._packed))

    @property
    def computing(self) -> Intervals:
        """When computation ran."""
        return _unpacked(self._packed[1])

    @property
    def communicating(self) -> Intervals:
        """When communication ran."""
        return _unpacked(self._packed[2])

    @classmethod
    def of(cls, w: Window) -> GpuTime:
        """That of a window."""
        c, rows = w.core.columns, w.gpu_rows
        start, end, what = c.start_ns[rows], c.start_ns[rows] + c.dur_ns[rows], gpu_classes(w.core, rows)
        every = np.ones(len(rows), bool)
        return cls(*(merge(start[s], end[s]) for s in (every, what == COMPUTATION, what == COMMUNICATION)))


def _packed(times: Intervals) -> bytes:
    """Intervals in a few bytes each: from edge to edge, the bytes of one weight side by side."""
    edges = np.diff(np.stack(times, axis=1).ravel(), prepend=0)
    if np.abs(edges).max(initial=0) < 2**31:
        edges = edges.astype(np.int32)
    return bytes([edges.itemsize]) + zlib.compress(edges.view(np.uint8).reshape(-1, edges.itemsize).T.tobytes(), 1)


@lru_cache(maxsize=32)  # the tables ask for those of one rank after the other, each several times
def _unpacked(text: bytes) -> Intervals:
    parts = np.frombuffer(zlib.decompress(text[1:]), np.uint8).reshape(text[0], -1).T
    edges = np.cumsum(np.ascontiguousarray(parts).view(f"i{text[0]}").ravel(), dtype=np.int64).reshape(-1, 2)
    return edges[:, 0].copy(), edges[:, 1].copy()


@dataclass(frozen=True, eq=False)
class RankCollectives:
    """The collectives that one rank took part in.

    Attributes:
        name, rank: of the trace.
        world_size: ranks of its job, None where not recorded.
        host: what identifies the host of the rank, None where not recorded.
        devices: number of devices that the trace lists, 0 where it lists none.
        offset_ns: what to add to its times to compare them with those of other ranks.
        held: each with the first start and the last end of its kernels in the window, ns.
        cut: keys of collectives without kernels in the window.
        step_of: for each of `held` the place in `steps` of the step that launched it, -1 for none.
        steps: the steps that launched GPU work, by start on the device; without GPU work those of the host.
        gpu: when its GPUs were at work.
        properties: what the trace records of its devices.
        part: what part of the trace was looked at; empty for all of it.
        damage: what of its file was repaired or lost; empty if it is sound.
        switch: what the names of hosts at one switch share, None where not known.
        lacks: why it has nothing of the part that was asked for, such as a step; all of it is there then.
        is_thinned: whether most events were left out of its file.
        repeated: how many of its collectives have sequence numbers that repeat in their group, and count for nothing.
        unassigned: how many communication kernels are of no collective that is known.
    """

    name: str
    rank: int | None
    world_size: int | None
    host: str | None
    devices: int
    offset_ns: int
    held: Held
    cut: frozenset[str] = frozenset()
    step_of: Codes = field(default_factory=lambda: np.zeros(0, np.int8))
    steps: tuple[Step, ...] = ()
    gpu: GpuTime = field(default_factory=GpuTime)
    properties: tuple[Mapping[str, Any], ...] = ()
    part: str = ""
    damage: str = ""
    switch: str | None = None
    lacks: str = ""
    is_thinned: bool = False
    repeated: int = 0
    unassigned: int = 0

    @property
    def has_gpu_work(self) -> bool:
        """Whether anything ran on a GPU."""
        return self.gpu.span_ns is not None

    @property
    def span_ns(self) -> tuple[int, int]:
        """When its GPU work began and ended; of a trace without any its steps, else its collectives. Else 0, 0."""
        if self.gpu.span_ns is not None:
            return self.gpu.span_ns
        stretches = [(one.start_ns, one.end_ns) for one in self.steps]
        stretches = stretches or list(zip(self.held.start_ns.tolist(), self.held.end_ns.tolist(), strict=True))
        return min((start for start, _ in stretches), default=0), max((end for _, end in stretches), default=0)

    @property
    def measured_ns(self) -> tuple[int, int]:
        """From the start of its first step to the end of its last one; without steps as `span_ns`."""
        return (self.steps[0].start_ns, self.steps[-1].end_ns) if self.steps else self.span_ns

    @classmethod
    def of(cls, trace: TraceMember) -> RankCollectives:
        """That of a member of a set."""
        if isinstance(trace.graph, Deferred):
            left: RankCollectives = trace.graph.left[0]
            return replace(left, name=trace.name, rank=trace.rank, offset_ns=trace.offset_ns)
        w = trace.window
        held = tuple(_held(w))
        steps, step_of = _steps(w, [one for one, _, _ in held])
        keys = {one.key for one, _, _ in held}
        cut = frozenset(one.key for one in collectives_of(trace.core).nodes if one.key not in keys)
        info = trace.core.info
        properties = info.metadata.get("deviceProperties")
        return cls(
            trace.name,
            trace.rank,
            info.world_size,
            host_of(trace),
            devices_of(trace.core),
            trace.offset_ns,
            Held.of(held),
            cut,
            step_of,
            steps,
            GpuTime.of(w),
            tuple(properties) if isinstance(properties, list) else (),
            w.title,
            info.damage,
            switch_of(trace),
            # Lean graphs are asked for what is there, and do not hold the numbers of launches.
            is_thinned="correlation" in trace.core.columns.names and is_thinned(whole_window(trace.core)),
            repeated=collectives_of(trace.core).repeated,
            unassigned=len(collectives_of(trace.core).unassigned),
        )


def _steps(w: Window, held: Sequence[Collective]) -> tuple[tuple[Step, ...], Codes]:
    """The steps of a window, and for each collective the place of its step."""
    core, c, gpu = w.core, w.core.columns, w.gpu_rows
    if not len(gpu):
        return _host_steps(w, held)
    of_gpu = core.gpu_step[gpu]
    gpu, of_gpu = gpu[of_gpu >= 0], of_gpu[of_gpu >= 0]
    rows, group = np.unique(of_gpu, return_inverse=True)
    if not len(rows):
        return (), np.full(len(held), -1, np.int8)
    start = np.full(len(rows), np.iinfo(np.int64).max)
    np.minimum.at(start, group, c.start_ns[gpu])
    order = np.argsort(start, kind="stable")
    rows, start = rows[order], start[order]
    ends = [*start[1:].tolist(), int(c.end_ns[gpu].max())]
    steps = zip(c.name[rows].tolist(), start.tolist(), ends, strict=True)
    place = np.full(len(c) + 1, -1)
    place[rows] = np.arange(len(rows))
    of_held = place[core.gpu_step[[one.rows[0] for one in held]]] if held else place[:0]
    # Threads of a backend are in no step of their own: what counts is the time on the host.
    by_host = np.argsort(c.start_ns[rows], kind="stable")
    begun = np.searchsorted(c.start_ns[rows][by_host], [one.start_ns for one in held], "right") - 1
    is_host = np.array([one.on_host for one in held], bool) & (of_held < 0) & (begun >= 0)
    of_held = np.where(is_host, by_host[begun], of_held)
    return tuple(Step(step_number(core.names[name]), *times) for name, *times in steps), narrow(of_held, 1)


def _host_steps(w: Window, held: Sequence[Collective]) -> tuple[tuple[Step, ...], Codes]:
    """As `_steps`, of a trace without GPU work: steps are as long as on the host."""
    core, c, rows = w.core, w.core.columns, w.rows_of_kind(Kind.Step)
    rows = rows[np.argsort(c.start_ns[rows], kind="stable")]
    # Threads of a backend are in no step of their own: what counts is the time.
    begun = np.searchsorted(c.start_ns[rows], [one.start_ns for one in held], "right") - 1
    steps = zip(c.name[rows].tolist(), c.start_ns[rows].tolist(), c.end_ns[rows].tolist(), strict=True)
    return tuple(Step(step_number(core.names[name]), *times) for name, *times in steps), narrow(begun, 1)


def _held(w: Window) -> Iterator[Entry]:
    """The collectives with kernels in a window, and the first start and last end of these kernels, ns."""
    nodes = collectives_of(w.core).nodes
    if not w.title:  # a whole graph
        yield from ((one, one.start_ns, one.end_ns) for one in nodes)
        return
    c = w.core.columns
    for one in nodes:
        rows = np.array(one.rows)
        rows = rows[w.holds(rows)]
        if len(rows):
            yield one, int(c.start_ns[rows].min()), int(c.end_ns[rows].max())


class ReadRank:
    """What a rank leaves where it is read: what it took part in, in all of its trace and in a part of it.

    Args:
        part: the part that was asked for; None for all.
    """

    def __init__(self, part: Callable[[Core], Window] | None = None) -> None:
        self.part = part
        self._forms = Forms()
        self._properties: dict[str, tuple[Mapping[str, Any], ...]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadRank, (self.part,)

    def __call__(self, core: Core) -> tuple[RankCollectives, ...] | None:
        """What a graph leaves; None for a profile of JAX, whose devices only all hosts together number."""
        if core.framework.devices_are_ranks:
            return None
        whole = TraceMember(whole_window(core), "")
        return (RankCollectives.of(whole), *([] if self.part is None else [self._part_of(whole)]))

    def _part_of(self, trace: TraceMember) -> RankCollectives:
        """What a trace took part in, in the part that was asked for."""
        try:
            w = trace.window if self.part is None else self.part(trace.core)
        except AnalysisError as error:
            return replace(RankCollectives.of(trace), lacks=str(error))
        return RankCollectives.of(replace(trace, graph=w))

    def shared(self, left: tuple[RankCollectives, ...]) -> tuple[RankCollectives, ...]:
        """The same, with what other ranks left, too, held once."""
        return tuple(
            replace(
                one,
                held=self._forms.shared(one.held),
                properties=self._properties.setdefault(repr(one.properties), one.properties),
            )
            for one in left
        )

    def parts_of(self, traces: TraceSet) -> list[RankCollectives]:
        """What each trace took part in, in the part that was asked for; `lacks` says where there is nothing."""
        found = []
        for one in traces:
            if isinstance(one.graph, Deferred):
                part = one.graph.left[-1]
                found.append(replace(part, name=one.name, rank=one.rank, offset_ns=one.offset_ns))
            else:
                found.append(self._part_of(one))
        return found


def read_alone(trace: TraceMember) -> RankCollectives:
    """What one rank took part in, where the other ranks are not known yet.

    Its offset is the absolute time at which its clock is 0; `gathered` makes that one to the clock of the job.
    """
    return replace(RankCollectives.of(trace), offset_ns=trace.clock_ns or 0)


def gathered(ranks: Sequence[RankCollectives]) -> list[RankCollectives]:
    """Ranks that were read alone on one clock, as in a `TraceSet`, and in the order of their numbers.

    A trace that does not record when it began has the offset 0.
    """
    zero = min((one.offset_ns for one in ranks if one.offset_ns), default=0)
    found = [replace(one, offset_ns=one.offset_ns - zero if one.offset_ns else 0) for one in ranks]
    return sorted(found, key=lambda one: (one.rank is None, one.rank or 0, one.name))
