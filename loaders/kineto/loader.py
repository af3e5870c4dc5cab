"""Loading a Kineto trace: one pass, in two processes where that pays, then the graph.

The second process takes the second half of the events. Where to split is a boundary found by its bytes alone;
the first process proves it, because its last chunk decodes only if the boundary lies between two events. If
anything about the second process fails, its result is thrown away and the first goes on alone.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from tracelens_graph.errors import NotATraceError
from tracelens_graph.frameworks import GENERIC
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.build import EventTable, build_core
from tracelens_graph.graph.flows import FlowEnds, Flows
from tracelens_graph.graph.graph import Graph
from tracelens_graph.graph.info import FAR_TIME, TraceInfo
from tracelens_graph.loaders.kineto.chunks import Walker
from tracelens_graph.loaders.kineto.collect import Collected, Collector
from tracelens_graph.loaders.kineto.details import FileDetails
from tracelens_graph.loaders.kineto.events import (
    context_of,
    event_table,
    first_ns,
    merge,
    metadata_of,
    without_strays,
)
from tracelens_graph.loaders.kineto.records import CATEGORIES, Family, FlowEvent
from tracelens_graph.loaders.kineto.times import digits_to_ns, epoch_ns
from tracelens_graph.loaders.sources import Source
from tracelens_graph.schema import GPU_KINDS
from tracelens_graph.utils.arrays import Numbering

SPLIT_FROM = 24 * 1024 * 1024
"""Bytes of JSON from which a second process pays."""

_SPLIT_AT = {"plain": 0.5, "gzip": 0.52}
"""Share of the file that the first process takes; of gzip more, because the second must inflate it all."""

Progress = Callable[[int, int], None]
"""Called with bytes done and bytes in all (an estimate for compressed files)."""


def load_kineto(source: Source, progress: Progress | None = None, processes: int | None = None) -> Graph:
    """The graph of a Kineto trace.

    Args:
        source: where its bytes are.
        progress: called about every 256 KiB.
        processes: 1 to stay in this process; by default two for large files where fork is safe.

    Raises:
        NotATraceError: it is something else; the message says what.
        TraceError: it cannot be read.
    """
    try:
        out, walker = _collect(source, progress, processes)
    except NotATraceError as error:
        if not source.cut_short:
            raise
        raise type(error)(f"{error}{source.packing_fault}") from None
    if out.lost_bytes and not out.columns:
        raise NotATraceError(
            f"{source.name}: begins like a trace, but no event in it can be read{source.packing_fault}"
        )
    keys = {**walker.head, **walker.tail}
    if source.is_generic and _KINETO_KEYS.isdisjoint(keys):
        keys["profiler"] = GENERIC.profiler
    table = event_table(out)
    if strays := without_strays(table):
        out.left_out[FAR_TIME] = strays
        kept = set(table.columns["uid"].tolist())
        out.collectives = [one for one in out.collectives if one[0] in kept]
    out.repairs.update(walker.faults)
    context = context_of(out.metadata_events)
    if not out.columns and _is_foreign(keys, out):
        names = [name for _, name, _ in context["processes"]]
        from tracelens_graph.loaders.foreign import what_chrome_trace_is

        raise NotATraceError(f"{source.name}: {what_chrome_trace_is(keys, names, _unknown_categories(out))}")
    if walker.bare and out.left_out.keys() == {"not an event"} and not out.columns:
        from tracelens_graph.loaders.foreign import NO_EVENTS

        raise NotATraceError(f"{source.name}: {NO_EVENTS}")
    left_out = dict(out.left_out)
    if out.launch_flows:
        left_out["launch flows"] = out.launch_flows
    if out.autograd_flows:
        left_out["forward-backward flows"] = len(out.autograd_flows)
    table.info = TraceInfo(
        source=source.name,
        start_epoch_ns=epoch_ns(keys.get("baseTimeNanoseconds")),
        metadata=metadata_of(keys),
        processes=context["processes"],
        threads=context["threads"],
        events=out.events,
        accelerator=", ".join(sorted(out.accelerators)),
        left_out=left_out,
        repairs={**out.repairs, **dict.fromkeys(sorted(source.faults), 1)},
        lost_events=out.lost_events,
        lost_bytes=out.lost_bytes,
        doubtful_from=out.doubtful_from,
        cut_short=source.cut_short,
    )
    table.first_ns = first_ns(out, table.columns["start_ns"])
    table.details = FileDetails(source, out.chunks)
    table.autograd_flows = out.autograd_flows.flows()
    table.collectives = out.collectives
    if _needs_flows(table, out):
        table.launch_flows = _launch_flows(source, out)
        table.threads = list(out.threads)
    del out  # its tables of codes are as large as the names
    return build_core(table)


def _collect(source: Source, progress: Progress | None, processes: int | None) -> tuple[Collected, Walker]:
    if source.packing == "sqlite":
        from tracelens_graph.loaders.reports import collect_database

        collector = Collector(is_generic=source.is_generic)
        if (beside := collect_database(source.database, source.name, collector)) is not None:
            walker = Walker(io.BytesIO(), source.name)
            walker.head = beside
            return collector.out, walker
    total = source.raw_size()
    on_progress = (lambda done: progress(min(done, total), total)) if progress else None
    with source.open() as stream:
        walker = Walker(stream, source.name)
        walker.read_head()
        collector = Collector(on_progress, source.is_generic)
        if processes == 1 or not _may_fork(source, total):
            walker.walk(collector)
            return collector.out, walker
        target = int(total * _SPLIT_AT[source.packing])
        helper = _Helper.start(source, target, walker.bare)
        second = None
        if helper is not None:
            try:
                if helper.split >= 0 and walker.walk(collector, stop=helper.split):
                    second = helper.result()
            finally:
                helper.abandon()
        if second is None:
            walker.walk(collector)
            return collector.out, walker
        theirs, walker.tail, faults, cut_short, source_faults = second
        if "second_list" in faults:  # the list of which the first half was read does not count
            collector.forget()
        walker.faults.update(faults)
        source.cut_short = max(source.cut_short, cut_short)
        source.faults |= source_faults
        return merge(collector.out, theirs), walker


def _may_fork(source: Source, total: int) -> bool:
    """Whether a second process pays and is safe: Linux, one thread, a free core, a large enough file."""
    return (
        total >= SPLIT_FROM
        and source.packing in _SPLIT_AT
        and sys.platform == "linux"
        and threading.active_count() == 1
        and len(os.sched_getaffinity(0)) > 1
    )


_Half = tuple[Collected, dict[str, Any], dict[str, int], int, set[str]]
"""What the second process sends: its events, the keys behind them, their faults, and what is wrong with the file."""


class _Helper:
    """The second process: reads from the split to the end, and leaves what it collected in shared memory.

    Attributes:
        split: the boundary at which it began; -1 if it found none.
    """

    def __init__(self, pid: int, answer: int, shared: int) -> None:
        self._pid: int | None = pid
        self._shared = shared
        with os.fdopen(answer, "rb") as pipe:
            written = pipe.read()
        self.split = int(written or b"-1")

    @classmethod
    def start(cls, source: Source, target: int, bare: bool) -> _Helper | None:
        """Fork; None where that fails."""
        descriptors: list[int] = []
        try:
            descriptors += os.pipe()
            descriptors.append(os.memfd_create("tracelens-graph"))
            with warnings.catch_warnings():
                # Python warns of threads of native libraries; none of them is used by the child.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
        except OSError:
            for descriptor in descriptors:
                os.close(descriptor)
            return None
        read, write, shared = descriptors
        if pid == 0:
            os.close(read)
            _second_half(source, target, bare, write, shared)
        os.close(write)
        return cls(pid, read, shared)

    def result(self) -> _Half | None:
        """What the second process found; None if it failed."""
        try:
            if self._wait() != 0:
                return None
            with os.fdopen(os.dup(self._shared), "rb") as file:
                file.seek(0)
                found: _Half = pickle.load(file)
                return found
        except (EOFError, pickle.UnpicklingError, OSError, MemoryError):
            return None

    def abandon(self) -> None:
        """End the second process, if it still runs, and forget what it did."""
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            self._wait()
        if self._shared >= 0:
            os.close(self._shared)
            self._shared = -1

    def _wait(self) -> int:
        pid, self._pid = self._pid, None
        return os.waitpid(pid, 0)[1] if pid is not None else -1


def _second_half(source: Source, target: int, bare: bool, answer: int, shared: int) -> None:
    """Body of the second process; never returns."""
    code = 1
    try:
        with source.open() as stream:
            walker = Walker(stream, source.name)
            walker.bare = bare
            with os.fdopen(answer, "wb") as pipe:
                pipe.write(b"%d" % walker.skip_to(target))
            collector = Collector(is_generic=source.is_generic)
            walker.walk(collector)
            with os.fdopen(shared, "wb", buffering=1 << 20) as file:
                half: _Half = (collector.out, walker.tail, walker.faults, source.cut_short, source.faults)
                pickle.dump(half, file, protocol=5)
        code = 0
    except BaseException:  # whatever it is, the first process reads on by itself and meets it again
        code = 1
    finally:
        os._exit(code)


_KINETO_KEYS = {"schemaVersion", "deviceProperties", "baseTimeNanoseconds", "distributedInfo"}
"""Keys that the profiler of PyTorch writes beside its events, also where it recorded none."""

_NOT_OURS = ("no category", "other category")


def _is_foreign(keys: Mapping[str, Any], out: Collected) -> bool:
    """Whether a trace without a node has events of somebody else."""
    known = out.launch_flows or out.autograd_flows or not _KINETO_KEYS.isdisjoint(keys)
    return not known and bool(_unknown_categories(out) or not set(_NOT_OURS).isdisjoint(out.left_out))


def _unknown_categories(out: Collected) -> list[str]:
    named = (why.removeprefix("category ") for why in out.left_out if why.startswith("category "))
    return [category for category in named if category not in CATEGORIES]


def _needs_flows(table: EventTable, out: Collected) -> bool:
    """Whether arrows say more than correlation ids: GPU events without one, or recorded dependencies."""
    if not out.launch_flows:
        return False
    kind, correlation = table.columns["kind"], table.columns["correlation"]
    gpu = is_kind(kind, GPU_KINDS)
    return out.big_flows or bool((correlation[gpu] == -1).any())


def _launch_flows(source: Source, out: Collected) -> Flows:
    collector = _FlowCollector(out.threads)
    with source.open() as stream:
        walker = Walker(stream, source.name)
        walker.read_head()
        walker.walk(collector)
    return collector.ends.flows()


_RAW_LIST = msgspec.json.Decoder(list[Raw])
_KEYS = msgspec.json.Decoder(dict[str, Raw])
_FLOW = msgspec.json.Decoder(FlowEvent)


class _FlowCollector:
    """A second pass for launch arrows: takes chunks in file order, as `Collector` does, and keeps both ends of each."""

    def __init__(self, threads: Numbering) -> None:
        self.threads = threads
        self.ends = FlowEnds()

    def chunk(self, text: memoryview, offset: int) -> None:
        """Take the launch flows of a chunk."""
        self._take(_RAW_LIST.decode(text))

    def broken(self, text: bytes, offset: int, last: bool) -> bytes | None:
        """Take the launch flows of a stretch that needs repair."""
        from tracelens_graph.loaders.kineto.repair import repair_events

        repaired = repair_events(text, last=last)
        self._take(map(Raw, repaired.events))
        return repaired.tail

    def forget(self) -> None:
        """Forget all that was taken."""
        self.ends = FlowEnds()

    def _take(self, raws: Iterable[Raw]) -> None:
        for raw in raws:
            try:
                flow = _FLOW.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if CATEGORIES.get(flow.cat, (None,))[0] is Family.launch_flow and flow.ph in ("s", "f", "t"):
                time = _KEYS.decode(raw)["ts"]
                thread = self.threads[flow.pid, flow.tid]
                self.ends.add((flow.ph,), (flow.id,), (thread,), (int(digits_to_ns([time])[0]),))
