"""From events and instructions to the table that the graph is built of: kinds, names, argument sets, modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.build import EventTable
from tracelens_graph.graph.hlo.origin import Origin, common_origin, origin_of
from tracelens_graph.graph.hlo.program import Instruction, Program
from tracelens_graph.loaders.xplane.arguments import ArgumentSet, argument_set
from tracelens_graph.loaders.xplane.collect import ABSENT, Events
from tracelens_graph.loaders.xplane.collectives import collective_arguments
from tracelens_graph.loaders.xplane.command_buffers import NODE
from tracelens_graph.loaders.xplane.details import Sources
from tracelens_graph.loaders.xplane.hlo import read_program
from tracelens_graph.loaders.xplane.names import COPIES, FILLS, bytes_told, frame_name, host_kind
from tracelens_graph.loaders.xplane.ops import Instructions
from tracelens_graph.loaders.xplane.scopes import NO_SCOPES, Host, Scopes, scopes
from tracelens_graph.loaders.xplane.space import Span
from tracelens_graph.loaders.xplane.wire import Buffer
from tracelens_graph.schema import NESTING_RANK, STORED, Kind

_NEVER = ("external_id", "sequence", "forward_thread")
"""What a profile never tells."""

_STRUCTURE = ("parent", "last", "depth", "owner", "owner_rule")


@dataclass(frozen=True)
class _Told:
    """What programs tell of ops.

    Attributes:
        argset: per event the code of its argument set.
        argsets: argument sets.
        place: per event the position of its instruction in the lists below; -1 for what is none of a known program.
        origins, facts: of instructions.
    """

    argset: np.ndarray
    argsets: list[ArgumentSet]
    place: np.ndarray
    origins: list[Origin]
    facts: list[dict[str, Any]]


class Programs:
    """Programs that events name, each read when the first of them is looked up."""

    def __init__(self, data: Buffer, spans: Mapping[int, Span]) -> None:
        self._data, self._spans = data, spans
        self._read: dict[int, Program | None] = {}

    def get(self, number: int) -> Program | None:
        """A program; None if the file does not hold it."""
        if number not in self._read:
            span = self._spans.get(number)
            self._read[number] = None if span is None else read_program(self._data, *span, number)
        return self._read[number]

    def find(self, number: int, name: str) -> tuple[Program, Instruction] | None:
        """An instruction with its program; None if the file does not hold it."""
        program = self.get(number)
        one = None if program is None else program.by_name.get(name)
        return None if program is None or one is None else (program, one)


def event_table(events: Events, which: Instructions, known: Programs) -> tuple[EventTable, Sources]:
    """The table of events: recorded ones, instances of instructions that only launches tell of, calls of scopes.

    Uids of what was not recorded follow those of the file's events.

    Returns:
        The table without facts of the trace, and what ops are instances of.
    """
    kind, name = _kinds(events, which)
    parts, program, hlo = which.nodes, which.program, which.hlo
    columns: dict[str, np.ndarray] = {"kind": kind, "name": name, "thread": events.thread}
    columns |= {"start_ns": events.start_ns, "dur_ns": events.dur_ns}
    for made, of_kind in ((which.made, Kind.Op), (parts.calls, Kind.RuntimeCall)):
        if len(made[0]):
            start, dur, thread, of_program, code = made
            named = code if of_kind is Kind.Op else np.full(len(code), events.code(NODE))
            added: dict[str, np.ndarray] = {"kind": np.full(len(code), of_kind, np.uint8), "start_ns": start}
            added |= {"name": named.astype(np.int32), "thread": thread.astype(np.int32), "dur_ns": dur}
            columns = {key: np.concatenate((column, added[key])) for key, column in columns.items()}
            program, hlo = np.concatenate((program, of_program)), np.concatenate((hlo, code))
    del kind, name
    told = _told(events, columns["kind"] == Kind.Op, program, hlo, known)
    calls = _scopes(events, columns, told.place, told.origins)
    count, recorded = len(columns["kind"]) + len(calls.name), len(events)
    modules = {
        "kind": np.full(len(calls.name), Kind.Module, np.uint8),
        "name": np.array([events.code(one) for one in calls.names], np.int32)[calls.name],
        "thread": calls.thread.astype(np.int32),
        "start_ns": calls.start_ns,
        "dur_ns": calls.dur_ns,
        "argset": np.full(len(calls.name), -1, np.int32),
    }
    events.names = list(events.codes)
    ops = np.flatnonzero(told.place >= 0)
    columns["argset"] = told.argset
    for key, column in modules.items():
        if len(column):
            columns[key] = np.concatenate((columns[key], column))
    columns["uid"] = np.concatenate((events.uid, events.count + np.arange(count - recorded)))
    for prop in STORED:
        if prop.name not in (*_STRUCTURE, *columns):
            absent = np.array(prop.absent or 0, prop.dtype)
            columns[prop.name] = np.broadcast_to(absent, count) if prop.name in _NEVER else np.full(count, absent)
    correlation = events.numbers.get("correlation_id")
    if correlation is not None:
        columns["correlation"][:recorded] = np.where(correlation > 0, correlation, -1)
        columns["correlation"][parts.kernels] = parts.of_kernels
        columns["correlation"][len(hlo) - len(parts.correlation) : len(hlo)] = parts.correlation
    _fill_bytes(events, columns["bytes"])
    sources = Sources(columns["uid"][ops], told.place[ops], told.facts)
    collectives = collective_arguments(events, columns["kind"], program, hlo, known)
    names, columns["name"] = _renamed(events, columns["name"])
    return EventTable(
        columns, names, events.threads, told.argsets, autograd_flows=calls.arrows,
        collectives=list(collectives.items()), of_graphs=parts.kernels,
    ), sources  # fmt: skip


def _scopes(events: Events, columns: Mapping[str, np.ndarray], place: np.ndarray, origins: list[Origin]) -> Scopes:
    if not any(one.scopes for one in origins):
        return NO_SCOPES
    run = events.numbers.get("run_id")
    on_gpu = np.zeros(len(place), bool)
    on_gpu[: len(events)] = events.on_gpu
    host = np.flatnonzero(~on_gpu & is_kind(columns["kind"], NESTING_RANK))
    runs = np.zeros(len(place), np.int64)
    if run is not None:
        runs[: len(run)] = run
    rank = np.zeros(256, np.uint8)
    for outer, number in NESTING_RANK.items():
        rank[outer] = number
    return scopes(
        Host(
            columns["thread"][host], columns["start_ns"][host], columns["dur_ns"][host], rank[columns["kind"][host]],
            place[host], runs[host],
        ),
        origins,
    )  # fmt: skip


def _fill_bytes(events: Events, size: np.ndarray) -> None:
    """Bytes of copies and fills, from what is told of them."""
    for stat in ("memcpy_details", "memset_details"):
        if stat in events.texts:
            codes = events.texts[stat]
            at = np.flatnonzero((codes >= 0) & events.on_gpu)
            sizes = {code: bytes_told(events.names[code]) for code in np.unique(codes[at]).tolist()}
            for place in at.tolist():
                if (told := sizes[int(codes[place])]) is not None:
                    size[place] = told


def _kinds(events: Events, which: Instructions) -> tuple[np.ndarray, np.ndarray]:
    """Kind of each event, and the code of its name: steps get their number."""
    width = max(len(events.threads), 1)
    codes, first = distinct(events.name.astype(np.int64) * width + events.thread)
    told = [host_kind(events.names[code // width], str(events.threads[code % width][1])) for code in codes.tolist()]
    kind = np.array([int(one) for one in told] or [0], np.uint8)[first] if len(codes) else np.zeros(0, np.uint8)
    name = events.name.copy()
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


def _gpu_kinds(events: Events, gpu: np.ndarray) -> np.ndarray:
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


def _per_name(events: Events, rows: np.ndarray, kind: Callable[[str], Kind]) -> np.ndarray:
    """The kind of each of some events, told once per name."""
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


def _told(events: Events, is_op: np.ndarray, program: np.ndarray, hlo: np.ndarray, known: Programs) -> _Told:
    """What programs tell of ops, found once per instruction."""
    ops = np.flatnonzero(is_op & (program != ABSENT) & (hlo >= 0))
    order = ops[np.lexsort((hlo[ops], program[ops]))]
    new = np.ones(len(order), bool)
    new[1:] = (program[order][1:] != program[order][:-1]) | (hlo[order][1:] != hlo[order][:-1])
    first = np.flatnonzero(new)
    sets: dict[ArgumentSet, int] = {}
    origins: list[Origin] = []
    facts: list[dict[str, Any]] = []
    codes = np.full((2, len(first)), -1, np.int32)
    for i, at in enumerate(order[first].tolist()):
        if found := known.find(int(program[at]), events.names[int(hlo[at])]):
            codes[:, i] = sets.setdefault(argument_set(*found), len(sets)), len(origins)
            origins.append(_origin(*found))
            facts.append(_facts(*found, origins[-1]))
    told = np.full((2, len(is_op)), -1, np.int32)
    told[:, order] = np.repeat(codes, np.diff([*first.tolist(), len(order)]), axis=1)
    return _Told(told[0], list(sets), told[1], origins, facts)


def _origin(program: Program, one: Instruction) -> Origin:
    body = program.body(one) if one.opcode == "call" and not one.op_name else None
    if body is None:
        return origin_of(program.origin(one))
    return common_origin(origin_of(name) for inner in body.instructions if (name := program.origin(inner)))


def _facts(program: Program, one: Instruction, origin: Origin) -> dict[str, Any]:
    """What is shown of an instruction beside its arguments."""
    told = {
        "program": f"{program.name}({program.id})",
        "opcode": one.opcode,
        "fusion kind": one.fusion_kind,
        "op_name": one.op_name if one.opcode == "call" else program.origin(one),
        "pass": origin.part.value,
        "source": f"{one.file}:{one.line}" if one.file else "",
        "custom call": one.target,
    }
    return {key: value for key, value in told.items() if value}


def _renamed(events: Events, code: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Names and their codes, with frames of Python as PyTorch's profiler writes them, and without unused texts."""
    used = np.zeros(len(events.names), bool)
    used[code] = True
    place = np.full(len(used), -1, np.int32)
    names: dict[str, int] = {}
    for one in np.flatnonzero(used).tolist():
        name = events.names[one]
        place[one] = names.setdefault(frame_name(name) if name.startswith("$") else name, len(names))
    return list(names), place[code]
