"""Arguments of collectives, which PyTorch's profiler records and XLA's programs hold.

A collective has a number in its group that is the same on all devices of a file: its instruction, how many times that
ran before, and where executions are numbered, which of them it was. Groups that hold devices of other hosts are given
whole, because a file does not say which of a job's devices its own are (`graph.device_ranks`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.collective_kinds import communication
from tracelens_graph.hlo.collectives import Collective, collective_of
from tracelens_graph.hlo.program import Instruction, Program
from tracelens_graph.hlo.shapes import Groups
from tracelens_graph.loaders.xplane.collect import ABSENT, Events
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Rows

_LONGEST = 60
"""Characters of the name of a group."""

_MOST_MEMBERS = 1 << 22
"""Members of groups that are listed, equal groups of a program once; a file of a few bytes can stand for any number."""


class Programs(Protocol):
    """Programs by their numbers."""

    def find(self, number: int, name: str) -> tuple[Program, Instruction] | None:
        """An instruction with its program; None if the file does not hold it."""

    def damage_counted(self, number: int, name: str) -> AbstractContextManager[None]:
        """Let no instruction end the reading of a profile."""


class _Part(NamedTuple):
    """A device's part of a collective.

    Attributes:
        uid, start_ns, device: of its event.
        run: number of the execution; 0 where these are not numbered.
        instruction: program and name.
    """

    uid: int
    start_ns: int
    device: int
    run: int
    instruction: tuple[int, str]


def collective_arguments(
    events: Events, kind: Codes, program: Codes, hlo: Codes, known: Programs
) -> dict[int, dict[str, Any]]:
    """Uid -> arguments of the collective: of kernels, and in a file without devices of instructions on the host.

    Args:
        events: the events.
        kind: kind of each.
        program, hlo: number of the program and code of the instruction's name of each, `ABSENT` and -1 for none.
        known: the programs.
    """
    rows = _rows(events, kind, program, hlo)
    devices = set(_devices(events, rows))
    found: dict[tuple[int, str], Collective] = {}
    is_whole: dict[tuple[int, str], bool] = {}
    listed = _Listed()
    programs, code = distinct(program[rows])
    width = len(events.names)
    pairs, pair = distinct(code * width + hlo[rows])
    is_found = np.zeros(len(pairs), bool)
    for at, key in enumerate(pairs.tolist()):
        one = int(programs[key // width]), events.names[key % width]
        if not (instruction := known.find(*one)):
            continue
        with known.damage_counted(*one):
            listed.check()
            collective = collective_of(*instruction, len(devices) if len(devices) > 1 else 0)
            if collective is None:
                continue
            found[one] = collective._replace(groups=listed.on_devices(collective.groups, instruction[0]))
            is_whole[one] = instruction[1].opcode != "fusion"
            is_found[at] = True
    if not found:
        return {}
    rows = rows[is_found[pair]]
    parts = list(_parts(events, rows, program, hlo))
    names = events.names
    kept = []
    for at, part in zip(rows.tolist(), parts, strict=True):
        # Other kernels of a fusion compute.
        if is_whole[part.instruction] or communication(names[int(events.name[at])]):
            kept.append(part)
    numbers = _numbers(kept, {one: _name(collective.groups) for one, collective in found.items()})
    ordered = sorted(devices)
    shared: dict[tuple[int, tuple[int, str]], dict[str, Any]] = {}
    arguments = {}
    for part, number in zip(kept, numbers, strict=True):
        key = part.device, part.instruction
        if key not in shared:
            shared[key] = _arguments(part.device, found[part.instruction], ordered)
        arguments[part.uid] = shared[key] if number is None else {**shared[key], "sequence": number}
    return arguments


def _rows(events: Events, kind: Codes, program: Codes, hlo: Codes) -> Rows:
    """Positions of what instructions did on devices."""
    count = len(events)
    kind, program, hlo = kind[:count], program[:count], hlo[:count]
    if events.on_gpu.any():
        rows = events.on_gpu & (kind == Kind.Kernel)
    elif "device_ordinal" in events.numbers:
        rows = (kind == Kind.Op) & (events.numbers["device_ordinal"] >= 0)
    else:
        return np.zeros(0, np.int64)
    return np.flatnonzero(rows & (hlo >= 0) & (program != ABSENT))


def _devices(events: Events, rows: Rows) -> list[int]:
    """The device of each."""
    if not len(rows):
        return []
    if events.on_gpu[rows[0]]:
        codes, of = distinct(events.thread[rows])
        device = np.array([int(events.threads[code][0]) for code in codes.tolist()])
        return device[of].tolist()
    return events.numbers["device_ordinal"][rows].tolist()


def _parts(events: Events, rows: Rows, program: Codes, hlo: Codes) -> Iterator[_Part]:
    run = events.numbers["run_id"][rows] if "run_id" in events.numbers else np.full(len(rows), ABSENT, np.int64)
    uid = events.uid[rows]
    for i, (at, device) in enumerate(zip(rows.tolist(), _devices(events, rows), strict=True)):
        execution = int(run[i]) if run[i] != ABSENT else 0
        instruction = int(program[at]), events.names[int(hlo[at])]
        yield _Part(int(uid[i]), int(events.start_ns[at]), device, execution, instruction)


class _Listed:
    """Groups that name devices instead of places in a program's device assignment, equal ones once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[Groups, Groups]] = {}
        self._members = 0

    def check(self) -> None:
        """Raise OverflowError if more members are listed than any job has."""
        if self._members > _MOST_MEMBERS:
            raise OverflowError("more members of groups than any job has")

    def on_devices(self, groups: Groups, program: Program) -> Groups:
        """Some groups of a program, which is to give the same object for the same groups."""
        key = program.id, id(groups)
        if key not in self._known:
            self._members += sum(map(len, groups))
            self._known[key] = groups, _on_devices(groups, program.devices)
        return self._known[key][1]


def _on_devices(groups: Groups, devices: tuple[int, ...]) -> Groups:
    if not devices or any(not 0 <= one < len(devices) for group in groups for one in group):
        return groups
    return tuple(tuple(devices[one] for one in group) for group in groups)


def _name(groups: Groups) -> str:
    text = ",".join(f"{{{','.join(map(str, group[:_LONGEST]))}}}" for group in groups[:_LONGEST])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _numbers(parts: list[_Part], group: Mapping[tuple[int, str], str]) -> list[int | None]:
    """For each part the number of its collective among those of its groups, by time; None where devices disagree."""
    times: dict[tuple[Any, ...], int] = {}
    keys: list[tuple[Any, ...]] = []
    for at in sorted(range(len(parts)), key=lambda at: parts[at].start_ns):
        part = parts[at]
        of_device = (part.device, part.run, part.instruction)
        times[of_device] = times.get(of_device, -1) + 1
        keys.append((at, (part.run, part.instruction, times[of_device])))
    odd = _uneven(parts, group)
    number: dict[tuple[Any, ...], int] = {}
    seen: dict[str, int] = {}
    found: list[int | None] = [None] * len(parts)
    for at, key in keys:
        if (name := group[parts[at].instruction]) in odd:
            continue
        if key not in number:
            number[key] = seen[name] = seen.get(name, -1) + 1
        found[at] = number[key]
    return found


def _uneven(parts: list[_Part], group: Mapping[tuple[int, str], str]) -> set[str]:
    """Groups with an instruction that devices ran a different number of times, where executions are not numbered."""
    counts: dict[tuple[int, str], Counter[int]] = {}
    for part in parts:
        if not part.run:
            counts.setdefault(part.instruction, Counter())[part.device] += 1
    return {group[one] for one, count in counts.items() if len(set(count.values())) > 1}


def _arguments(device: int, collective: Collective, devices: list[int]) -> dict[str, Any]:
    """What is known of a collective on a device, but for its number: the same for all of its executions."""
    groups = collective.groups or ((tuple(devices),) if len(devices) > 1 else ())
    arguments: dict[str, Any] = {
        "kind": collective.kind,
        "group": _name(collective.groups),
        "group_size": len(groups[0]) if groups else None,
        "in_elements": collective.in_elements,
        "out_elements": collective.out_elements,
        "dtype": collective.dtype,
        "device": device,
    }
    if max((one for group in groups for one in group), default=0) > devices[-1]:
        arguments["groups"] = [list(group) for group in groups]
    else:
        arguments["ranks"] = next((list(group) for group in groups if device in group), None)
    return {key: value for key, value in arguments.items() if value is not None}
