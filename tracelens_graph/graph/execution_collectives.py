"""Collectives in an execution trace: what each `record_param_comms` was called with, in every schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tracelens_graph.graph.execution_trace import Argument, ExecutionTrace

_OP = "record_param_comms"
_LIST = "GenericList["
_NO_SPLITS = ("", "[]", None)


@dataclass(frozen=True)
class ProcessGroup:
    """The group that a collective is of, as far as it is recorded.

    Attributes:
        id: whatever tells groups of one process apart.
        name, description: as PyTorch names it; empty where only a number of the process is recorded.
        size: number of its ranks, None if unknown.
        rank: this process's rank in it.
        start, stride: global rank of its first member, and how far they are apart; None if unknown.
    """

    id: str
    name: str = ""
    description: str = ""
    size: int | None = None
    rank: int | None = None
    start: int | None = None
    stride: int | None = None

    @property
    def ranks(self) -> list[int] | None:
        """Global ranks of the members."""
        if self.size is None or self.start is None or self.stride is None or self.start < 0 or self.stride < 1:
            return None
        return [self.start + self.stride * i for i in range(self.size)] if self.size <= _MOST_RANKS else None


@dataclass(frozen=True)
class RecordedCollective:
    """One call of a collective.

    Attributes:
        row: row of the execution trace.
        kind: PyTorch's name, such as `allreduce`.
        group: the process group.
        sequence: number of the collective in its group.
        dtype: PyTorch's name of the element type; empty without tensors.
        in_elements, out_elements: number of elements put in, and got out; None without tensors.
        in_split, out_split: rows per rank of an uneven all-to-all.
    """

    row: int
    kind: str
    group: ProcessGroup
    sequence: int | None
    dtype: str
    in_elements: int | None
    out_elements: int | None
    in_split: list[int]
    out_split: list[int]

    def arguments(self) -> dict[str, Any]:
        """The arguments under the names that `Core.collective_args` has."""
        group, ranks = self.group, self.group.ranks
        found = {
            "kind": self.kind,
            "group": group.name or None,
            "group_description": group.description or None,
            "ranks": ranks,
            "group_size": group.size,
            "dtype": self.dtype or None,
            "in_elements": self.in_elements,
            "out_elements": self.out_elements,
            "in_split": self.in_split,
            "out_split": self.out_split,
            "rank": group.rank,
        }
        return {key: value for key, value in found.items() if value is not None}


_MOST_RANKS = 1 << 20


def recorded_collectives(execution: ExecutionTrace) -> list[RecordedCollective]:
    """The collectives of an execution trace, in the order in which they began.

    Schemas differ in where facts stand: from 1.1.0 on in attributes, before in the inputs. There the name of the
    collective is the text that has the number of the rank before it, the process group before that, and behind it the
    splits; where the group is a pointer, its size is that of splits over it.
    """
    wanted = [code for code, name in enumerate(execution.names) if name == _OP]
    rows = np.flatnonzero(np.isin(execution.name, wanted))
    found = [one for row in rows.tolist() if (one := _recorded(execution, row)) is not None]
    sizes: dict[str, int] = {}
    for one in found:
        if size := one.group.size or len(one.in_split) or len(one.out_split):
            sizes.setdefault(one.group.id, size)
    return [replace(one, group=replace(one.group, size=sizes.get(one.group.id, one.group.size))) for one in found]


def _recorded(execution: ExecutionTrace, row: int) -> RecordedCollective | None:
    arguments = execution.inputs[row].decoded()
    more = execution.more.get(row, {})
    place = next((i for i, one in enumerate(arguments) if one.type == "String" and i), None)
    if place is None or not isinstance(arguments[place].value, str):
        return None
    before, behind = arguments[:place], arguments[place + 1 :]
    numbers = [_number(one.value) for one in behind[2:]]
    group = _group(before[-2].value if len(before) > 1 else None, _number(before[-1].value), numbers, more)
    tensors = [before[0]] if before and "Tensor(" in before[0].type else []
    dtype, in_elements = _elements(tensors)
    out_dtype, out_elements = _elements(execution.outputs[row].decoded())
    splits = [_split(more.get(key), behind[i].value if len(behind) > i else []) for i, key in enumerate(_SPLITS)]
    return RecordedCollective(
        row=row,
        kind=str(more.get("collective_name") or arguments[place].value),
        group=group,
        sequence=_sequence(before),
        dtype=str(more.get("dtype") or dtype or out_dtype),
        in_elements=_first_number(more.get("in_msg_nelems"), in_elements),
        out_elements=_first_number(more.get("out_msg_nelems"), out_elements),
        in_split=splits[0],
        out_split=splits[1],
    )


_SPLITS = ("in_split_size", "out_split_size")


def _group(told: Any, rank: int | None, numbers: list[int | None], more: Mapping[str, Any]) -> ProcessGroup:
    """The process group from the argument that names it, those behind the splits, and attributes."""
    name, description = (str(part) for part in told[:2]) if isinstance(told, list) and len(told) > 1 else ("", "")
    start, stride = (numbers[0], numbers[1]) if len(numbers) > 2 else (None, None)
    name, description = str(more.get("pg_name") or name), str(more.get("pg_desc") or description)
    return ProcessGroup(
        id=name or str(told),
        name=name,
        description=description,
        size=_positive(_first_number(more.get("pg_size"), numbers[-1] if numbers else None)),
        rank=rank,
        start=_first_number(more.get("global_rank_start"), start),
        stride=_first_number(more.get("global_rank_stride"), stride),
    )


def _sequence(before: list[Argument]) -> int | None:
    """The number of the collective, which newer versions give with whether it is point to point."""
    told = before[-3].value if len(before) > 2 else None
    return _number(told[0] if isinstance(told, list) and told else told)


def _elements(arguments: list[Argument]) -> tuple[str, int | None]:
    """Type and number of elements of the tensors among arguments."""
    dtype, total = "", None
    for one in arguments:
        if one.type.startswith("Tensor("):
            tensors, types = [one.value], one.type
        elif one.type.startswith(_LIST) and "Tensor(" in one.type:
            tensors, types = one.value if isinstance(one.value, list) else [], one.type.removeprefix(_LIST)
        else:
            continue
        for tensor in _flat(tensors):
            total = (total or 0) + (_number(tensor[3]) or 0)
        dtype = dtype or types.partition("Tensor(")[2].partition(")")[0]
    return dtype, total


def _flat(tensors: Any) -> list[list[Any]]:
    """Tensors of a list, which may hold lists of them."""
    found: list[list[Any]] = []
    pending = [tensors]
    while pending:
        one = pending.pop()
        if isinstance(one, list) and len(one) >= 6 and isinstance(one[5], str):
            found.append(one)
        elif isinstance(one, list):
            pending += reversed(one)
    return found


def _split(told: Any, argument: Any) -> list[int]:
    if told not in _NO_SPLITS and isinstance(told, str):
        argument = _numbers_in(told)
    numbers = [_number(one) for one in argument] if isinstance(argument, list) else []
    return [one for one in numbers if one is not None]


@lru_cache(maxsize=4096)
def _numbers_in(text: str) -> list[int]:
    return [int(part) for part in text.strip("[] ").split(",") if part.strip().lstrip("-").isdigit()]


def _first_number(*told: Any) -> int | None:
    return next((number for one in told if (number := _number(one)) is not None), None)


def _number(told: Any) -> int | None:
    if isinstance(told, str) and told.lstrip("-").isdigit() and len(told) < 20:
        told = int(told)
    return told if type(told) is int and abs(told) < 2**62 else None


def _positive(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None
