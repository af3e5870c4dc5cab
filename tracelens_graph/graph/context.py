"""What surrounds the events: run, trace, processes, threads, devices, streams, and knowledge shared by traces.

Context nodes are made here from columns and metadata, when someone asks. Their keys are texts (`stream:0:7`).
Knowledge nodes (signatures, kernel names, subtree classes) are keyed by a hash of their content alone, so that
the same knowledge of many traces is one node.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.graph.arguments import ARGSET_PARTS, argset_text, instructions_of
from tracelens_graph.graph.classes import (
    class_rows,
    distinct_classes,
    hex_of,
    normal_name,
    subtree_classes,
)
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.programs import RUNS, CompiledPrograms
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.schema import DEVICE_KINDS, Kind
from tracelens_graph.utils.arrays import Codes, Rows
from tracelens_graph.utils.texts import file_name

SHOWN_FACTS = (
    "kind", "flops", "transcendentals", "bytes", "xla_flops", "xla_transcendentals", "xla_bytes", "departs",
)  # fmt: skip
"""Facts of instructions that signatures have as properties of their own, behind `hlo_`."""


class EventProperty(NamedTuple):
    """What is known of some events.

    Attributes:
        rows: their rows, ascending.
        values: one per row; codes into `texts`, if there are any.
        texts: the texts that values are codes of.
    """

    rows: Rows
    values: np.ndarray
    texts: Sequence[str] | None = None


class EdgeTexts(NamedTuple):
    """A property of edges that is one of a few texts.

    Attributes:
        name: its name.
        codes: one per edge.
        texts: the texts that codes stand for.
    """

    name: str
    codes: Codes
    texts: Sequence[str]


class Context:
    """Context and knowledge nodes of one graph, and the edges to and among them.

    Attributes:
        nodes: key -> attributes; `kind` is one of `schema.CONTEXT_KINDS`.
        from_events: edge type -> (rows of events, numbers of context nodes), one edge per place.
        to_events: edge type -> (numbers of context nodes, rows of events).
        between_events: edge type -> (rows of events, rows of events), for knowledge that joins events.
        of_edges: edge type in `between_events` or `from_events` -> the property of its edges, where they have one.
        of_events: name of a property -> what is known of events.

    The number of a context node is its place in `nodes`.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.from_events: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.to_events: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.between_events: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.of_edges: dict[str, EdgeTexts] = {}
        self.of_events: dict[str, EventProperty] = {}
        self._numbers: dict[str, int] = {}
        self._pairs: dict[str, dict[tuple[int, int], dict[str, Any]]] = {}

    @property
    def among(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Edge type -> (numbers of sources, numbers of targets)."""
        arrays = {name: np.array(list(pairs), np.int64) for name, pairs in self._pairs.items()}
        return {name: (pairs[:, 0], pairs[:, 1]) for name, pairs in arrays.items()}

    def add(self, key: str, kind: str, /, **attributes: Any) -> int:
        """The number of a node, which is made unless it is there; empty attributes are left out."""
        if key not in self._numbers:
            self._numbers[key] = len(self.nodes)
            self.nodes[key] = {"kind": kind, **{k: v for k, v in attributes.items() if v not in (None, "")}}
        return self._numbers[key]

    def of_pairs(self, edge_type: str) -> list[dict[str, Any]]:
        """Properties of the edges of a type in `among`."""
        return list(self._pairs[edge_type].values())

    def join(self, edge_type: str, source: int, target: int, **properties: Any) -> None:
        """An edge between two context nodes; the same one twice is one. Databases hold its properties."""
        self._pairs.setdefault(edge_type, {})[source, target] = properties

    def join_events(self, edge_type: str, rows: Rows, codes: Codes, node: Callable[[int], int]) -> None:
        """Edges from events; `node` gives the context node of a code and is asked once per distinct code."""
        found, back = np.unique(codes, return_inverse=True)
        numbers = np.fromiter((node(code) for code in found.tolist()), np.int64, len(found))
        self.from_events[edge_type] = rows, numbers[back] if len(rows) else numbers


def build_context(core: Core, run: str = "") -> Context:
    """Context and knowledge nodes of a graph.

    Args:
        run: name of the run it belongs to; by default the trace is a run of its own.

    Raises:
        ChangedTraceError: the file, whose hash names the trace, is no longer the one that was loaded.
    """
    context = Context()
    trace = _add_trace(context, core, run)
    _add_threads(context, core, trace)
    _add_streams(context, core, trace)
    _add_signatures(context, core)
    _add_kernel_names(context, core)
    _add_classes(context, core)
    _add_collectives(context, core)
    _add_captured_graphs(context, core)
    if core.programs is not None:
        _add_programs(context, core, core.programs, trace)
    return context


def content_key(prefix: str, *texts: str) -> str:
    """Key of a knowledge node: a hash of its texts."""
    text = "\n".join(texts).encode("utf-8", "surrogatepass")
    return f"{prefix}:{blake2b(text, digest_size=16).hexdigest()}"


def _add_trace(context: Context, core: Core, run: str) -> int:
    info, name = core.info, run or core.trace_id
    trace = context.add(
        f"trace:{core.trace_id}", "Trace", name=os.path.basename(info.source), source=info.source,
        start_epoch_ns=info.start_epoch_ns, rank=info.rank, events=info.events,
    )  # fmt: skip
    context.join("OF_RUN", trace, context.add(f"run:{name}", "Run", name=name))
    return trace


def _add_threads(context: Context, core: Core, trace: int) -> None:
    c = core.columns
    process_names = {str(pid): (name, labels) for pid, name, labels in core.info.processes}
    thread_names = {(str(pid), str(tid)): name for pid, tid, name in core.info.threads}

    def thread_of(code: int) -> int:
        pid, tid = core.threads[code]
        name, labels = process_names.get(str(pid), (None, None))
        process = context.add(f"process:{pid}", "Process", pid=pid, name=name, labels=labels)
        context.join("IN_TRACE", process, trace)
        name = thread_names.get((str(pid), str(tid)))
        thread = context.add(f"thread:{pid}:{tid}", "Thread", pid=pid, tid=tid, number=code, name=name)
        context.join("IN_PROCESS", thread, process)
        return thread

    rows = rows_of_kind(c, [kind for kind in Kind if kind not in DEVICE_KINDS])
    context.join_events("ON_THREAD", rows, c.thread[rows], thread_of)


def _add_streams(context: Context, core: Core, trace: int) -> None:
    c = core.columns
    rows = rows_of_kind(c, DEVICE_KINDS)
    rows = rows[(c.device[rows] != -1) & (c.stream[rows] != -1)]
    pairs, codes = np.unique(np.stack((c.device[rows], c.stream[rows]), axis=1), axis=0, return_inverse=True)
    properties = core.info.metadata.get("deviceProperties")
    listed = properties if isinstance(properties, list) else []
    of_device = {one["id"]: one for one in listed if isinstance(one, dict) and isinstance(one.get("id"), int)}

    def stream_of(code: int) -> int:
        device, stream = pairs[code].tolist()
        known = {key: value for key, value in of_device.get(device, {}).items() if key not in ("id", "kind", "device")}
        on = context.add(f"device:{device}", "Device", device=device, **known)
        context.join("IN_TRACE", on, trace)
        number = context.add(f"stream:{device}:{stream}", "Stream", device=device, stream=stream)
        context.join("OF_DEVICE", number, on)
        return number

    context.join_events("ON_STREAM", rows, codes.reshape(-1), stream_of)


def signature(core: Core, name: int, argset: int) -> tuple[str, dict[str, Any]]:
    """Key and properties of an op's signature, by the codes of its name and of its arguments, -1 for none."""
    text = core.names[name]
    if argset < 0:
        return content_key("sig", text), {"name": text}
    known: dict[str, Any] = dict(zip(ARGSET_PARTS, core.argsets[argset], strict=True))
    if (facts := instructions_of(core).get(argset)) is not None:
        known["instruction"] = core.instructions[argset]
        known |= {f"hlo_{key}": getattr(facts, key) for key in SHOWN_FACTS}
    return content_key("sig", text, argset_text(core, argset)), {"name": text, **known}


def _add_signatures(context: Context, core: Core) -> None:
    c = core.columns
    rows = rows_of_kind(c, (Kind.Op,))
    width = len(core.argsets) + 1

    def signature_of(code: int) -> int:
        key, known = signature(core, code // width, code % width - 1)
        return context.add(key, "Signature", **known)

    codes = c.name[rows].astype(np.int64) * width + c.argset[rows] + 1
    context.join_events("HAS_SIGNATURE", rows, codes, signature_of)


def _add_kernel_names(context: Context, core: Core) -> None:
    rows = core.gpu_rows

    def name_of(code: int) -> int:
        return context.add(content_key("kname", core.names[code]), "KernelName", name=core.names[code])

    context.join_events("NAMED", rows, core.columns.name[rows], name_of)


def _add_classes(context: Context, core: Core) -> None:
    c, rows = core.columns, class_rows(core)
    lanes = subtree_classes(core)[rows]
    first, codes = distinct_classes(lanes)
    keys, without = hex_of(lanes[first]), hex_of(subtree_classes(core, shapes=False)[rows[first]])

    def class_of(code: int) -> int:
        row = int(rows[first[code]])
        kind = Kind(int(c.kind[row]))
        name = normal_name(kind, core.names[c.name[row]])
        return context.add(
            f"class:{keys[code]}", "SubtreeClass", name=name, root=kind.name, without_shapes=without[code]
        )

    context.join_events("INSTANCE_OF", rows, codes, class_of)


def _add_collectives(context: Context, core: Core) -> None:
    """Collectives with this rank's amounts; their keys and those of their groups are the same on all ranks."""
    found = collectives_of(core)

    def collective_of(position: int) -> int:
        one = found.nodes[position]
        ranks = json.dumps(one.ranks) if one.ranks else None
        group = context.add(
            one.group_key, "ProcessGroup", name=one.group, description=one.group_description, size=one.group_size,
            ranks=ranks,
        )  # fmt: skip
        number = context.add(
            one.key, "Collective", name=one.kind, sequence=one.sequence, dtype=one.dtype, in_bytes=one.in_bytes,
            out_bytes=one.out_bytes, source_rank=one.source_rank, target_rank=one.target_rank,
        )  # fmt: skip
        context.join("IN_GROUP", number, group)
        return number

    rows = np.array(sorted(found.of_row), np.int64)
    positions = np.array([found.of_row[row] for row in rows.tolist()], np.int64)
    context.join_events("MEMBER_OF", rows, positions, collective_of)


def _add_captured_graphs(context: Context, core: Core) -> None:
    """The captured graphs that are replayed, each once."""
    found = [one for one in core.info.replays if one.file]
    rows = [core.rows_of(one.launches) for one in found]
    codes = np.repeat(np.arange(len(found)), [*map(len, rows)])

    def graph_of(code: int) -> int:
        one = found[code]
        return context.add(
            f"captured:{code}", "CapturedGraph", name=f"{file_name(one.file)} {one.graph}", file=file_name(one.file),
            graph=one.graph, batch_size=one.batch_size, mode=one.mode, rule=one.rule, calls=one.calls,
            gpu_events=one.gpu_events, joined=one.joined, doubtful=one.doubtful, implausible=one.implausible,
            lost=one.lost, extra=one.extra, what=one.what, least_batch=min(one.sizes, default=None),
            greatest_batch=max(one.sizes, default=None),
        )  # fmt: skip

    if found:
        context.join_events("REPLAY_OF", np.concatenate(rows), codes, graph_of)


def _add_programs(context: Context, core: Core, programs: CompiledPrograms, trace: int) -> None:
    """Compiled programs, and the ops that are instances of their instructions."""
    rows, place = rows_of_kind(core.columns, (Kind.Op,)), programs.place
    known = place >= 0

    def program_of(code: int) -> int:
        one = programs.listed[code]
        numbers, recorded = [str(number) for number in one.numbers], one.compiler_fingerprint
        number = context.add(
            f"program:{one.fingerprint}", "Program", name=one.name, fingerprint=one.fingerprint,
            instructions=one.instructions, replicas=one.replicas, partitions=one.partitions, shapes=one.shapes,
            numbers=", ".join(numbers), compiler_fingerprint=recorded, xla_flops=one.xla_flops,
            xla_transcendentals=one.xla_transcendentals, xla_bytes=one.xla_bytes,
        )  # fmt: skip
        context.join("RAN", trace, number, numbers=numbers or None, compiler_fingerprint=recorded or None)
        return number

    context.join_events("OF_PROGRAM", rows[known], place[known], program_of)
    context.of_edges["OF_PROGRAM"] = EdgeTexts("runs", programs.runs[known], RUNS)
