"""From events and instructions to the table that the graph is built of: kinds, names, argument sets, modules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.build import EventTable
from tracelens_graph.graph.programs import CompiledProgram, code_type, source_type
from tracelens_graph.hlo.origin import Origin, common_origin, origin_of
from tracelens_graph.hlo.program import Instruction, Program
from tracelens_graph.loaders.xplane.collect import ABSENT, Events
from tracelens_graph.loaders.xplane.collectives import collective_arguments
from tracelens_graph.loaders.xplane.command_buffers import NODE
from tracelens_graph.loaders.xplane.details import Sources
from tracelens_graph.loaders.xplane.ops import Instructions
from tracelens_graph.loaders.xplane.programs import InstructionArguments, Programs, instruction_arguments
from tracelens_graph.loaders.xplane.scopes import NO_SCOPES, Host, Scopes, scopes
from tracelens_graph.schema import NESTING_RANK, STORED, Kind
from tracelens_graph.utils.arrays import Codes, Rows

_FRAME = re.compile(r"\$(.+):(\d+) (.+)", re.DOTALL)
_BUILTIN = re.compile(r"\$(\S+) (.+)", re.DOTALL)

_OF_XLA = re.compile(
    r"""
    .*::                                                    # PjRtStreamExecutorLoadedExecutable::Execute
  | end:\ | Wait                                            # end: dot.43, Wait for donation holds, Wait: pending_..
  | (?:Pjit|Xla|PJRT|Pj[rR]t|Py|TfrtCpu|Thunk|Rendezvous|Memory|Handle|Build|Make|Allocate|Compute|Execute|Compile)
  | (?:ParseArguments|RecordUsage|DevicePut|ThenExecuteCallback|Resolve\ constant\ globals)$
  | (?:cpp_|shard_args|backend_compile|compile|lower|infer_params|cache|tracing|trace_to|xla_|jit_.+:XLA)
  | (?:cuda|cu|hip|nccl|rccl|cudnn|cublas)[A-Z]
  | np\.asarray\(jax\.Array\)|InitialAllReduce|InvokeRendezvous|all-|collective|reduce-scatter
    """,
    re.VERBOSE,
)
_OWN_THREADS = re.compile(r"tf_|py_xla|xla|XLA|pjrt|Host Threads|jax_|StreamExecutor|Eigen|cuda|hip", re.IGNORECASE)

FILLS, COPIES = re.compile(r"(?:cuda|cu|hip)\w*Memset"), re.compile(r"(?:cuda|cu|hip)\w*Memcpy")
"""What launches of fills and of copies are called."""


def host_kind(name: str, thread: str) -> Kind:
    """The kind of an event on a thread of the host; only its name says it.

    >>> host_kind("$profiler.py:91 start_trace", "python").name
    'PythonFunction'
    >>> host_kind("PjitFunction(f)", "python").name
    'RuntimeCall'
    >>> host_kind("load batch", "python").name
    'Annotation'
    """
    if name.startswith("$"):
        return Kind.PythonFunction
    if _OF_XLA.match(name) or _OWN_THREADS.match(thread):
        return Kind.RuntimeCall
    return Kind.Annotation


def frame_name(name: str) -> str:
    """A Python frame in the form that PyTorch's profiler gives it.

    >>> frame_name("$pxla.py:125 shard_args")
    'pxla.py(125): shard_args'
    >>> frame_name("$builtins len")
    '<built-in function len>'
    >>> frame_name("$<unknown> append")
    '<built-in method append>'
    """
    if found := _FRAME.fullmatch(name):
        return f"{found[1]}({found[2]}): {found[3]}"
    if found := _BUILTIN.fullmatch(name):
        what = "function" if found[1] == "builtins" else "method"
        return f"<built-in {what} {found[2]}>"
    return name


_SIZE = re.compile(r"(?:^|\s)(?:size|num_bytes):(\d{1,18})(?:\s|$)")


def bytes_in(details: str) -> int | None:
    """The size in the details of a copy or fill (`kind:Unknown size:655360 dest:2 async:1`); None if it has none."""
    found = _SIZE.search(details)
    return int(found[1]) if found else None


_NEVER = ("external_id", "sequence", "forward_thread")
"""What a profile never holds."""

_KNOWN = ("parent", "last", "depth", "owner", "owner_rule", "uid", "device", "stream")
"""What the graph has from other columns."""

_SLICE = 1 << 18
"""Events that are looked at together where any number will do."""


@dataclass(frozen=True)
class _FromPrograms:
    """What programs say of ops.

    Attributes:
        argset: per event the code of its argument set.
        argsets: argument sets, with the facts of instructions.
        place: per event the position of its instruction in the lists below; -1 for what is none of a known program.
        origins, facts: of instructions.
        program: per event the code of its program, as in `CompiledPrograms`.
        programs: the programs of ops.
    """

    argset: Codes
    argsets: list[InstructionArguments]
    place: Rows
    origins: list[Origin]
    facts: list[dict[str, Any]]
    program: Codes
    programs: tuple[CompiledProgram, ...]


def event_table(events: Events, which: Instructions, known: Programs) -> tuple[EventTable, Sources]:
    """The table of events: recorded ones, instances of instructions that only launches name, calls of scopes.

    Uids of what was not recorded follow those of the file's events. Columns of `events` and `which` are taken over, one
    by one, and must not be used again: each is as large as one of the graph's.

    Returns:
        The table without facts of the trace, and what ops are instances of.
    """
    kind, name = _kinds(events, which)
    recorded, parts = len(events), which.nodes
    collectives = collective_arguments(events, kind, which.program, which.hlo, known)
    columns = {
        "kind": kind,
        "name": name,
        "thread": events.thread,
        "start_ns": events.start_ns,
        "dur_ns": events.dur_ns,
    }
    del kind, name
    events.thread = events.start_ns = events.dur_ns = events.name = np.zeros(0, np.int32)
    start, dur, thread, program, hlo = which.made
    _append(columns, {
        "kind": np.full(len(hlo), Kind.Op), "name": hlo, "thread": thread, "start_ns": start, "dur_ns": dur
    })  # fmt: skip
    ops = np.flatnonzero(columns["kind"] == Kind.Op)
    old = ops[: len(ops) - len(hlo)]
    program, hlo = np.concatenate((which.program[old], program)), np.concatenate((which.hlo[old], hlo))
    which.program = which.hlo = np.zeros(0, np.int32)
    start, dur, thread, *_ = parts.calls
    calls = np.arange(len(start)) + len(columns["kind"])
    if len(calls):
        _append(columns, {
            "kind": np.full(len(calls), Kind.RuntimeCall), "name": np.full(len(calls), events.code(NODE)),
            "thread": thread, "start_ns": start, "dur_ns": dur,
        })  # fmt: skip
    known_of = _from_programs(events, len(columns["kind"]), ops, program, hlo, known)
    columns["argset"], columns["program"] = known_of.argset, known_of.program
    lines, columns["source"] = _lines(known_of)
    found = _scopes(events, columns, known_of.place, known_of.origins)
    count = len(columns["kind"]) + len(found.name)
    _append(columns, {
        "kind": np.full(len(found.name), Kind.Module),
        "name": np.array([events.code(one) for one in found.names], np.int32)[found.name],
        "thread": found.thread, "start_ns": found.start_ns, "dur_ns": found.dur_ns,
        "argset": np.full(len(found.name), -1), "program": np.zeros(len(found.name), known_of.program.dtype),
        "source": np.zeros(len(found.name), columns["source"].dtype),
    })  # fmt: skip
    events.names = list(events.codes)
    ops = ops[known_of.place[ops] >= 0]
    uid = ops
    if not events.is_whole:
        columns["uid"] = np.concatenate((events.uid, events.count + np.arange(count - recorded)))
        uid = columns["uid"][ops]
    sources = Sources(uid, known_of.place[ops], known_of.facts)
    names, columns["name"] = _renamed(events, columns["name"])
    if "correlation_id" in events.numbers:
        rows, ids = events.numbers.entries("correlation_id")
        most = max(int(ids.max(initial=0)), int(parts.correlation.max(initial=0)))
        columns["correlation"] = np.full(count, -1, np.int32 if most < 2**31 else np.int64)
        columns["correlation"][rows] = np.where(ids > 0, ids, -1)
        columns["correlation"][parts.kernels] = parts.of_kernels
        columns["correlation"][calls] = parts.correlation
    columns["bytes"] = _bytes(events, count)
    for prop in STORED:
        if prop.name not in (*_KNOWN, *columns):
            absent = np.array(prop.absent or 0, prop.dtype)
            # One value that is repeated takes no memory, and `build_core` keeps it that way.
            columns[prop.name] = np.broadcast_to(absent, count) if prop.name in _NEVER else np.full(count, absent)
    return EventTable(
        columns, names, events.threads, [one.argset for one in known_of.argsets], autograd_flows=found.arrows,
        collectives=list(collectives.items()), of_graphs=parts.kernels, programs=known_of.programs,
        sources=lines, instructions=[one.facts for one in known_of.argsets],
    ), sources  # fmt: skip


def _append(columns: dict[str, np.ndarray], more: Mapping[str, np.ndarray]) -> None:
    """Append to columns, one by one, in their types."""
    if len(more["kind"]):
        for key, added in more.items():
            columns[key] = np.concatenate((columns[key], added.astype(columns[key].dtype)))


def _scopes(events: Events, columns: Mapping[str, np.ndarray], place: Rows, origins: list[Origin]) -> Scopes:
    if not any(one.scopes for one in origins):
        return NO_SCOPES
    run = events.numbers.get("run_id")
    host = np.flatnonzero(is_kind(columns["kind"], NESTING_RANK))
    runs = np.zeros(len(place), np.int64)
    if run is not None:
        runs[: len(run)] = run
    rank = np.zeros(256, np.uint8)
    for outer, number in NESTING_RANK.items():
        rank[outer] = number
    return scopes(
        Host(
            columns["thread"][host], columns["start_ns"][host], columns["dur_ns"][host], rank[columns["kind"][host]],
            place[host], runs[host], columns["program"][host],
        ),
        origins,
    )  # fmt: skip


def _bytes(events: Events, count: int) -> np.ndarray:
    """Bytes of copies and fills, from what is known of them."""
    absent = next(prop.absent for prop in STORED if prop.name == "bytes")
    size = np.broadcast_to(np.array(absent, np.int64), count)
    for stat in ("memcpy_details", "memset_details"):
        if stat in events.texts:
            rows, codes = events.texts.entries(stat)
            sizes = {code: bytes_in(events.names[code]) for code in np.unique(codes).tolist()}
            size = np.array(size)
            for place, code in zip(rows.tolist(), codes.tolist(), strict=True):
                if events.on_gpu[place] and (known_of := sizes[code]) is not None:
                    size[place] = known_of
    return size


def _kinds(events: Events, which: Instructions) -> tuple[np.ndarray, np.ndarray]:
    """Kind of each event, and the code of its name: steps get their number."""
    width = max(len(events.threads), 1)
    kind, known = np.zeros(len(events), np.uint8), dict[int, Kind]()
    for first in range(0, len(events), _SLICE):
        here = slice(first, first + _SLICE)
        codes, of = distinct(events.name[here].astype(np.int64) * width + events.thread[here])
        for code in codes.tolist():
            if code not in known:
                known[code] = host_kind(events.names[code // width], str(events.threads[code % width][1]))
        kind[here] = np.array([known[code] for code in codes.tolist()], np.uint8)[of]
    name = events.name
    kind[which.is_launch] = Kind.RuntimeCall
    kind[which.is_op] = Kind.Op
    gpu = np.flatnonzero(events.on_gpu)
    kind[gpu] = _gpu_kinds(events, gpu)
    numbers = events.numbers.get("step_num")
    if numbers is not None:
        for at in np.flatnonzero((numbers != ABSENT) & ~events.on_gpu).tolist():
            kind[at] = Kind.Step
            name[at] = events.code(f"{events.names[int(name[at])]}#{int(numbers[at])}")
    return kind, name


def _gpu_kinds(events: Events, gpu: Rows) -> Codes:
    """Kinds of GPU events: copies and fills by their details, else by the name of their launch, else by their own."""
    kind = _per_name(events, gpu, _of_name)
    correlation = events.numbers.get("correlation_id")
    if correlation is not None:
        calls = np.flatnonzero(~events.on_gpu & (correlation > 0))
        launched = _per_name(events, calls, _of_launch)
        calls, launched = calls[launched != Kind.Kernel], launched[launched != Kind.Kernel]
        order = np.argsort(correlation[calls], kind="stable")
        if len(order):
            ids = correlation[calls[order]]
            at = np.minimum(np.searchsorted(ids, correlation[gpu]), len(ids) - 1)
            kind = np.where((ids[at] == correlation[gpu]) & (kind == Kind.Kernel), launched[order[at]], kind)
    for stat, value in (("memcpy_details", Kind.Memcpy), ("memset_details", Kind.Memset)):
        if stat in events.texts:
            kind[events.texts[stat][gpu] >= 0] = value
    return kind


def _per_name(events: Events, rows: Rows, kind: Callable[[str], Kind]) -> Codes:
    """The kind of each of some events, found once per name."""
    kinds = np.zeros(len(events.names), np.uint8)
    for code in distinct(events.name[rows])[0].tolist():
        kinds[code] = kind(events.names[code])
    found: np.ndarray = kinds[events.name[rows]]
    return found


def _of_launch(name: str) -> Kind:
    return Kind.Memset if FILLS.match(name) else Kind.Memcpy if COPIES.match(name) else Kind.Kernel


def _of_name(name: str) -> Kind:
    plain = name.lower()
    return Kind.Memset if plain.startswith("memset") else Kind.Memcpy if plain.startswith("memcpy") else Kind.Kernel


def _from_programs(events: Events, count: int, ops: Rows, program: Codes, hlo: Codes, known: Programs) -> _FromPrograms:
    """What programs say of ops, found once per instruction.

    Args:
        events: the events.
        count: number of all events.
        ops: positions of ops.
        program, hlo: number of the program, and code of the instruction's name, of each of these.
        known: the programs.
    """
    order = np.flatnonzero((program != ABSENT) & (hlo >= 0))
    order = order[np.lexsort((hlo[order], program[order]))]
    ops, program, hlo = ops[order], program[order], hlo[order]
    new = np.ones(len(order), bool)
    new[1:] = (program[1:] != program[:-1]) | (hlo[1:] != hlo[:-1])
    first = np.flatnonzero(new)
    sets: dict[InstructionArguments, int] = {}
    origins: list[Origin] = []
    facts: list[dict[str, Any]] = []
    codes = np.full((2, len(first)), -1, np.int32)
    of_program = np.zeros(len(first), np.int32)
    for i, at in enumerate(first.tolist()):
        named = int(program[at]), events.names[int(hlo[at])]
        if not (found := known.find(*named)):
            continue
        of_program[i] = known.code(*found)
        with known.damage_counted(*named):
            arguments, origin = instruction_arguments(*found), _origin(*found)
            codes[:, i] = sets.setdefault(arguments, len(sets)), len(origins)
            origins.append(origin)
            facts.append(_facts(*found, origin))
    compiled = known.compiled
    times = np.diff([*first.tolist(), len(order)])
    argset, place = (np.full(count, -1, np.int32) for _ in range(2))
    for column, code in ((argset, codes[0]), (place, codes[1])):
        column[ops] = np.repeat(code, times)
    ran = np.broadcast_to(np.uint8(0), count)
    if compiled:
        ran = np.zeros(count, code_type(len(compiled)))
        ran[ops] = np.repeat(of_program, times)
    return _FromPrograms(argset, list(sets), place, origins, facts, ran, compiled)


def _lines(known_of: _FromPrograms) -> tuple[tuple[str, ...], np.ndarray]:
    """Lines of source that instructions come from, and per event the place of its line there, from 1 on; 0 for none."""
    places: dict[str, int] = {}
    codes = [places.setdefault(one["source"], len(places) + 1) if "source" in one else 0 for one in known_of.facts]
    if not places:
        return (), np.broadcast_to(np.uint8(0), len(known_of.place))
    return tuple(places), np.array([*codes, 0], source_type(len(places)))[known_of.place]


def _origin(program: Program, one: Instruction) -> Origin:
    body = program.body(one) if one.opcode == "call" and not one.op_name else None
    if body is None:
        return origin_of(program.origin(one))
    return common_origin(origin_of(name) for inner in body.instructions if (name := program.origin(inner)))


def _facts(program: Program, one: Instruction, origin: Origin) -> dict[str, Any]:
    """What is shown of an instruction beside its arguments."""
    known_of = {
        "program": f"{program.name}({program.id})",
        "opcode": one.opcode,
        "fusion kind": one.fusion_kind,
        "op_name": one.op_name if one.opcode == "call" else program.origin(one),
        "pass": origin.part.value,
        "source": f"{one.file}:{one.line}" if one.file else "",
        "custom call": one.target,
    }
    return {key: value for key, value in known_of.items() if value}


def _renamed(events: Events, code: Codes) -> tuple[list[str], np.ndarray]:
    """Names and their codes, with frames of Python as PyTorch's profiler writes them, and without unused texts."""
    used = np.zeros(len(events.names), bool)
    used[code] = True
    place = np.full(len(used), -1, np.int32)
    names: dict[str, int] = {}
    for one in np.flatnonzero(used).tolist():
        name = events.names[one]
        place[one] = names.setdefault(frame_name(name) if name.startswith("$") else name, len(names))
    return list(names), place[code]
