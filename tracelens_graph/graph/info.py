"""Facts about a trace beside its events, and what people are shown of damage."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tracelens_graph.errors import NoTimesError
from tracelens_graph.frameworks import Framework, framework_of
from tracelens_graph.schema import REPAIR_MEANING, REPAIRS_OF_FILE

_GPU_PLANE = "/device:GPU:"
_HOST_PLANES = {"/host:CPU": "threads", "/host:metadata": "programs"}
"""Planes of a profile of JAX, and what is in them."""
_NAMED_PLANES = 4

LEFT_OUT_ITERATIONS = "iterationsLeftOut"
"""Key beside the events of a piece of a trace: what `graph.iterations.LeftOut` holds."""

SEGMENTS = "memorySegments"
"""Key beside the events of a snapshot of memory: what `loaders.memory_snapshot.snapshot.segments_of` gives."""

BEFORE_HISTORY = "Before History"
"""Argument of an instant that stands for what a snapshot of memory shows as allocated before its history: 1."""

OF_SIGNATURES = "of signatures in a database, without what the calls called and what stood around them"
"""`TraceInfo.inferred` of a graph that was made of the facts of a trace."""

FAR_TIME = "time far from all others"
NOT_A_NODE = "not a node"
OLD_MEMORY = "[memory] without an address"
"""Reason in `TraceInfo.left_out`: allocations of 2021, which no address joins to their releases."""
UNREADABLE = ("unreadable", "not an event", NOT_A_NODE, FAR_TIME)
"""Reasons in `TraceInfo.left_out` that are losses: entries of the event list that nothing could be made of."""


@dataclass
class ReplayedGraph:
    """What became of the replays of one captured graph, when a trace was joined with captures.

    Attributes:
        launches: uids of the launches.
        sizes: least and greatest batch of the steps of the server that they are in; empty where no step says it.
        gpu_events, joined: GPU events that they ran, and those with a captured call.
        doubtful: joined ones that would fit another call, too; implausible: those whose kernels cannot be the work of
            the ops that they stand for, which are left out unless they were joined by names.
        lost, extra: captured calls that replays lack, and GPU events of replays without a captured call.
        lost_names, extra_names: the most frequent of these, with their numbers.
        file, graph: the trace of the capture, and which of the graphs in it; empty and 0 where none fits.
        batch_size, mode: what it was captured for; None and empty where that is not known.
        calls: number of captured calls.
        rule: how they were joined.
        others, other_sizes: number of other captured graphs that fit as well and say something else, and the batches
            that these were captured for.
        note: what else is odd, in words.
    """

    launches: list[int]
    sizes: list[int]
    gpu_events: int
    joined: int = 0
    doubtful: int = 0
    implausible: int = 0
    lost: int = 0
    extra: int = 0
    lost_names: dict[str, int] = field(default_factory=dict)
    extra_names: dict[str, int] = field(default_factory=dict)
    file: str = ""
    graph: int = 0
    batch_size: int | None = None
    mode: str = ""
    calls: int = 0
    rule: str = ""
    others: int = 0
    other_sizes: list[int] = field(default_factory=list)
    note: str = ""

    @property
    def what(self) -> str:
        """What keeps the join from being whole and sure, in words; empty for nothing."""
        parts = [one for one in (self.unsure_shapes, self.note) if one]
        if self.lost:
            parts.append(f"captured and not replayed: {_named(self.lost_names, self.lost)}")
        if self.extra:
            parts.append(f"replayed and not captured: {_named(self.extra_names, self.extra)}")
        if self.implausible:
            parts.append(f"{self.implausible:,} kernels cannot be the work of the ops in their place")
        if self.doubtful:
            parts.append(f"{self.doubtful:,} fit another call, too")
        return "; ".join(parts)

    @property
    def unsure_shapes(self) -> str:
        """That other captured graphs fit as well, so that shapes may be theirs; empty for nothing."""
        if not self.others:
            return ""
        if self.other_sizes and self.batch_size is not None:
            sizes = " and ".join(map(str, self.other_sizes))
            return f"shapes are those of batch {self.batch_size}; captures of batch {sizes} fit as well"
        number = "1 other captured graph fits" if self.others == 1 else f"{self.others:,} other captured graphs fit"
        return f"{number} as well, so shapes may be theirs"


def _named(names: dict[str, int], in_all: int) -> str:
    """The most frequent names with their numbers."""
    shown = list(names.items())[:_SHOWN]
    more = in_all - sum(count for _, count in shown)
    return ", ".join(f"{count:,} x {name:.60}" for name, count in shown) + (f" and {more:,} more" if more else "")


_SHOWN = 2


@dataclass
class TraceInfo:
    """Facts about a trace beside its events.

    Attributes:
        source: where it was read from, for messages.
        start_epoch_ns: absolute time of `start_ns == 0`, in ns since 1970 (0 where the file does not say).
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
        has_times: whether it has times. An execution trace does not: starts and durations of its graph are places in
            the order of all begins and ends, so that calls nest; nobody is shown them.
        inferred: what of the graph no trace recorded, in one line; empty for nothing.
        replays: of a graph that was joined with captures, what became of its replays, by captured graph and rule.
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
    replays: list[ReplayedGraph] = field(default_factory=list)
    inferred: str = ""

    def __post_init__(self) -> None:
        self.replays = [ReplayedGraph(**one) if isinstance(one, dict) else one for one in self.replays]

    @property
    def unsure_shapes(self) -> str:
        """What of the shapes of replayed kernels is not sure, in one line; empty for nothing."""
        found = {text for one in self.replays if (text := one.unsure_shapes)}
        if len(found) < 2:
            return "".join(found)
        launches = sum(len(one.launches) for one in self.replays if one.others)
        return f"several captured graphs fit {launches:,} replays equally, so shapes may be those of another batch"

    def check_times(self) -> None:
        """Raise NoTimesError for an execution trace alone."""
        if not self.has_times:
            raise NoTimesError(self.source)

    @property
    def framework(self) -> Framework:
        """The framework that the trace comes from: what differs between traces of one and of another."""
        return framework_of(self.metadata, self.has_times)

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
        parts = [
            REPAIR_MEANING.get(fault, fault) + (f" ({count:,})" if fault not in REPAIRS_OF_FILE else "")
            for fault, count in self.repairs.items()
        ]
        if self.cut_short:
            what = self.framework.bytes
            parts.append(f"the compressed file is cut short: {self.cut_short:,} {what} could be read")
        lost = []
        if self.lost_in_all:
            lost.append(f"entries lost: {'at least ' if self.lost_at_least else ''}{self.lost_in_all:,}")
        elif self.lost_at_least:
            lost.append("entries may be lost")
        if self.lost_bytes or self.lost_in_all:
            lost.append(f"bytes lost: {self.lost_bytes:,}")
        if lost:
            parts.append(", ".join(lost))
        if self.doubtful_from is not None and self.doubtful_from < self.events:
            parts.append(f"uids from {self.doubtful_from:,} on may be smaller than the positions in the file")
        if self.ends_early:
            left = self.events - self.lost_in_all
            parts.append(f"{left:,} {'entry is' if left == 1 else 'entries are'} left, {self._cut_off}")
        return "; ".join(parts)

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
        """Number of entries that could not be read: broken JSON, and JSON that is not an event."""
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
        given = (("world_size", self.world_size), ("rank", self.rank))
        return [
            f"{key} {self._job[key]!r:.40}" for key, read in given if self._job.get(key) is not None and read is None
        ]

    @property
    def _job(self) -> Mapping[str, Any]:
        job = self.metadata.get("distributedInfo")
        return job if isinstance(job, dict) else {}


MOST_RANKS = 1_000_000
"""Ranks that a job can have; what says more is damaged."""


def _whole_number(given: Any) -> int | None:
    """A whole number that ranks can be counted with, which may stand as text; None for anything else."""
    if isinstance(given, str) and re.fullmatch(r"[0-9]{1,7}", given):
        given = int(given)
    return given if type(given) is int and 0 <= given <= MOST_RANKS else None


def version_text(key: str, value: Any) -> str:
    """A version that a file names, by its key, in words: CUDA writes 12040 for 12.4, HIP 60443483 for 6.4.43483."""
    if isinstance(value, int) and key.startswith("cuda_"):
        return f"{value // 1000}.{value % 1000 // 10}"
    if isinstance(value, int) and key.startswith("hip_"):
        return f"{value // 10**7}.{value // 10**5 % 100}.{value % 10**5}"
    return str(value)
