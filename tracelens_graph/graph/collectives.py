"""Collectives: what the kernels of a rank communicate, one node per collective operation.

A node is this rank's part of a collective; its key is the same on all ranks of the group, so putting ranks
together is a matter of equal keys. Arguments of the kernel count most, those of its op `record_param_comms` fill
in. Old traces have neither: there the op around it, the annotation or the kernel's name say what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.collective_kinds import HOST_BACKENDS, UNKNOWN, communication, kind_of, kind_of_kernel
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.sequence_numbers import groups_of_repeats
from tracelens_graph.graph.traversals import ancestors
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Rows

DTYPE_BYTES = {
    "bool": 1, "byte": 1, "char": 1, "uint8": 1, "int8": 1, "qint8": 1, "quint8": 1, "unsigned char": 1,
    "signed char": 1, "short": 2, "short int": 2, "int16": 2, "uint16": 2, "int": 4, "int32": 4, "uint32": 4,
    "qint32": 4, "long": 8, "long int": 8, "int64": 8, "uint64": 8,
    "half": 2, "float16": 2, "bfloat16": 2, "float": 4, "float32": 4, "double": 8, "float64": 8,
    "complexhalf": 4, "complexfloat": 8, "complexdouble": 16, "complex<half>": 4, "complex<float>": 8,
    "complex<double>": 16, "complex32": 4, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1, "quint4x2": 1, "quint2x4": 1, "bits1x8": 1, "bits2x4": 1, "bits4x2": 1, "bits8": 1,
    "bits16": 2, **{f"{sign}int{bits}": 1 for sign in ("", "u") for bits in range(1, 8)},
}  # fmt: skip
"""Bytes of one element, by the names that PyTorch gives types, in lower case and without `c10::`.

A packed type (`_x2`, `4x2`) has several numbers in an element, and the elements are what is counted. Integers of fewer
than 8 bits take a byte each.
"""

_OP = "record_param_comms"
_KERNEL = int(Kind.Kernel)
_MOST = 2**62
"""Numbers from here on are damaged, and no 64 bits hold what is made of them."""
_POINT_TO_POINT = ("send", "recv")
_THREADS_OF_GROUP = 2
"""Threads on which gloo runs the collectives of a group."""


@dataclass(frozen=True)
class Collective:
    """One collective operation, as far as this rank took part in it.

    Attributes:
        key: identity over all ranks: group, hash of its ranks, and sequence number or place in the group. Where a
            collective on the host may be of several groups, the rank as well: then keys of ranks never meet.
        group, group_description: name and description of the process group, None where not recorded.
        ranks: global ranks of the group, None where not recorded, or not in full.
        group_size: number of ranks in the group.
        kind: PyTorch's name (`allreduce`, `_allgather_base`, …), `unknown` where nothing shows it.
        sequence: number of the collective in its group, if recorded.
        index: place among the group's nodes on this rank, by start.
        dtype: PyTorch's name of the element type.
        in_elements, out_elements: number of elements this rank puts in and gets out.
        in_split, out_split: rows of the tensors per rank of an uneven all-to-all; None where not recorded in full.
        source_rank, target_rank: of a point-to-point transfer.
        rank: this rank, if known for certain.
        rows, uids: the kernels, by start; of a collective on the host its span, an annotation or an instruction of XLA.
        start_ns, end_ns: first start and last end of these, ns from the trace's start.
        on_host: whether it ran on the host (gloo, MPI): then no kernel carried it out.
    """

    key: str
    group: str | None
    group_description: str | None
    ranks: tuple[int, ...] | None
    group_size: int | None
    kind: str
    sequence: int | None
    index: int
    dtype: str | None
    in_elements: int | None
    out_elements: int | None
    in_split: tuple[int, ...] | None
    out_split: tuple[int, ...] | None
    source_rank: int | None
    target_rank: int | None
    rank: int | None
    rows: tuple[int, ...]
    uids: tuple[int, ...]
    start_ns: int
    end_ns: int
    on_host: bool = False

    @property
    def group_key(self) -> str:
        """Identity of the process group over all ranks."""
        return "group:" + self.key.split(":", 1)[1].rsplit(":", 1)[0]

    @property
    def in_bytes(self) -> int | None:
        """Bytes this rank puts in, None where count or type are unknown."""
        return _bytes(self.in_elements, self.dtype)

    @property
    def out_bytes(self) -> int | None:
        """Bytes this rank gets out, None where count or type are unknown."""
        return _bytes(self.out_elements, self.dtype)


@dataclass(frozen=True)
class Collectives:
    """The collectives of a trace.

    Attributes:
        nodes: by start of their first kernel or span.
        of_row: row of a kernel or span -> position in `nodes`.
        unassigned: rows of communication kernels that belong to no node: neither their launch nor arguments
            of theirs are in the trace.
        repeated: number of nodes whose recorded sequence numbers repeat in their group, and count for nothing.
    """

    nodes: list[Collective]
    of_row: dict[int, int]
    unassigned: Rows
    repeated: int = 0


def collectives_of(core: Core) -> Collectives:
    """One node for each collective that kernels of the trace carried out, or that ran on the host.

    A kernel takes part if it has collective arguments, if it is charged to `record_param_comms` (of several only
    those named as communication, if there are any), or if it is named so and its launch is in the trace. Kernels
    of one sequence number, or else of one op, are one collective; numbers that repeat in a group count for nothing.

    On the host each span of gloo or MPI is a collective; it lasts from the moment in which this rank begins to run it,
    and so holds the wait for the others. Found once per graph.
    """
    return core.once(_collectives)


def _collectives(core: Core) -> Collectives:
    kernels, unassigned = kernels_of_collectives(core)
    spans = _spans(core)
    rows = np.concatenate((kernels, spans))
    # Equal starts go by file order: the place in a lane is the identity of what has no sequence number.
    rows = rows[np.lexsort((core.columns.uid[rows], core.columns.start_ns[rows]))]
    on_host = _groups_on_host(core, spans) if len(spans) else {}
    c = core.columns
    start, uid = c.start_ns[rows], c.uid[rows].tolist()
    times = zip(start.tolist(), (start + c.dur_ns[rows]).tolist(), strict=True)
    every = [_Part(core, *one, on_host) for one in zip(rows.tolist(), uid, times, strict=True)]
    counted = (
        (one.lane, one.sequence, one.op, one.row) for one in every if one.is_recorded and one.sequence is not None
    )
    repeats = groups_of_repeats(core, counted)
    parts: dict[object, list[_Part]] = {}
    for part in every:
        if part.lane in repeats:
            part.sequence = None
        parts.setdefault(part.op if part.sequence is None else (part.lane, part.sequence), []).append(part)
    seen: dict[object, int] = {}
    nodes, of_row = [], {}
    for position, members in enumerate(parts.values()):
        lane = members[0].lane
        index = seen[lane] = seen.get(lane, -1) + 1
        nodes.append(_node(core, members, index))
        of_row.update(dict.fromkeys(nodes[-1].rows, position))
    return Collectives(nodes, of_row, unassigned, sum(members[0].lane in repeats for members in parts.values()))


def kernels_of_collectives(core: Core) -> tuple[Rows, Rows]:
    """Rows of kernels that take part in collectives; and of kernels named so whose collective is not known."""
    c = core.columns
    kernels = np.flatnonzero(c.kind == Kind.Kernel)
    if not len(kernels):
        return kernels, kernels
    named = fitting(core.names, c.name[kernels], communication)
    is_op = np.fromiter((name == _OP for name in core.names), bool, len(core.names))
    owner = c.owner[kernels]
    has_args = np.isin(kernels, core.rows_of(core.collective_args)) if core.collective_args else np.zeros_like(named)
    of_op = (owner >= 0) & is_op[c.name[owner]]
    only_others = ~np.isin(owner, owner[of_op & (named | has_args)])
    takes_part = has_args | (named & (c.parent[kernels] >= 0)) | (of_op & only_others)
    found = kernels[takes_part]
    return found, kernels[named & ~takes_part]


def _spans(core: Core) -> Rows:
    """Rows of the spans of collectives on the host: annotations of gloo and MPI, instructions of XLA."""
    rows = core.rows_of(core.collective_args) if core.collective_args else np.empty(0, np.int64)
    rows = rows[rows >= 0]
    return rows[core.columns.kind[rows] == core.framework.host_collective]


def _groups_on_host(core: Core, spans: np.ndarray) -> dict[Any, dict[str, Any]]:
    """What is certain of the groups of collectives on the host: thread that runs them -> arguments; None -> any other.

    Spans do not name their group. It is certain if this rank is in one group only, and its ranks are if they are those
    of all its groups. Else threads show it: gloo gives each group threads of its own when it is made. Where all of them
    ran something, they are those of the groups in the same order.
    """
    groups = []
    for entry in _group_entries(core):
        ranks = _integers(entry.get("ranks"))
        if (
            ranks
            and core.info.rank in ranks
            and any(name in str(entry.get("backend_config")) for name in HOST_BACKENDS)
        ):
            known = {"ranks": list(ranks), "group_size": len(ranks)}
            groups.append({"group": entry.get("pg_name"), "group_description": entry.get("pg_desc"), **known})
    if not groups:
        return {}
    same = {key: value for key, value in groups[0].items() if all(one[key] == value for one in groups)}
    arguments = [core.collective_args[uid] for uid in core.columns.uid[spans].tolist()]
    threads = {one.get("thread") for one in arguments if one.get("kind") not in _POINT_TO_POINT}
    numbers = sorted(thread for thread in threads if isinstance(thread, int))
    found: dict[Any, dict[str, Any]] = {None: same if "ranks" in same else {}}
    if len(numbers) == len(threads) == _THREADS_OF_GROUP * len(groups):
        found |= {thread: groups[place // _THREADS_OF_GROUP] for place, thread in enumerate(numbers)}
    return found


class _Part:
    """One kernel of a collective, or its span on the host, with the arguments that are known of it."""

    def __init__(
        self, core: Core, row: int, uid: int, times: tuple[int, int], on_host: dict[Any, dict[str, Any]]
    ) -> None:
        c, args = core.columns, core.collective_args
        self._core, self.row, self.uid, (self.start_ns, self.end_ns) = core, row, uid, times
        self.on_host = int(c.kind[row]) != _KERNEL
        owner = int(c.owner[row])
        self._op = owner if owner >= 0 and core.names[c.name[owner]] == _OP else -1
        own, outer = args.get(uid), args.get(int(c.uid[self._op])) if self._op >= 0 else None
        self._args = {**_recorded(outer), **_recorded(own)}
        if self.on_host:
            self._args = {**on_host.get(self._args.get("thread"), on_host.get(None, {})), **self._args}
        self.ranks = self.numbers("ranks")
        self.ranks_text = _spelled(self.ranks) if self.ranks is not None else _packed(self._args.get("ranks"))
        self.kind = self.text("kind") or self._kind_by_name()
        self.sequence = self.number("sequence") if self.text("group") is not None else None
        self.source, self.target = self._ends()
        pair = (self.source, self.target) if self.kind in _POINT_TO_POINT else None
        # Devices of one process, such as those of JAX, are ranks that their process records together.
        self.lane = (self.text("group"), self.ranks_text, pair, self.number("device"))
        self.op: object = self._op if self._op >= 0 else (row,)
        # Numbers of devices of XLA are not recorded: the loader counts.
        self.is_recorded = not self.on_host and self.number("device") is None

    def text(self, field: str) -> str | None:
        """An argument as text."""
        value = self._args.get(field)
        return None if value is None else str(value)

    def number(self, field: str) -> int | None:
        """An argument as an integer; None if it is none."""
        return _integer(self._args.get(field))

    def numbers(self, field: str) -> tuple[int, ...] | None:
        """An argument as a list of integers; None if it is none, or cut short."""
        return _integers(self._args.get(field))

    def rank(self) -> int | None:
        """This rank: of the trace, else of the op where rank in the group and rank in the job are the same."""
        if self._core.info.rank is not None:
            return self._core.info.rank
        rank, ranks = self.number("rank"), self.ranks
        return rank if ranks and ranks == tuple(range(len(ranks))) else None

    def out_elements(self) -> int | None:
        """Number of elements that this rank gets out; spans on the host do not say it."""
        taken, ranks = self.number("in_elements"), self.number("group_size")
        if self.on_host and taken is not None and self.kind in ("allreduce", "broadcast"):
            return taken
        if self.on_host and taken is not None and ranks is not None and self.kind == "all_gather":
            return taken * ranks
        return self.number("out_elements")

    def _ends(self) -> tuple[int | None, int | None]:
        source, target = self.number("source_rank"), self.number("target_rank")
        if self.kind == "send" and source is None:
            source = self.rank()
        if self.kind == "recv" and target is None:
            target = self.rank()
        return source, target

    def _kind_by_name(self) -> str:
        """The kind by the op above, else by the annotation around, else by the kernel's name."""
        kernel = self._core.names[self._core.columns.name[self.row]]
        # One by one: annotations take columns that graphs loaded for collectives alone do not have.
        kinds = (kind for kind in map(kind_of, self._names_around()) if kind != UNKNOWN)
        return next(kinds, None) or kind_of_kernel(kernel)

    def _names_around(self) -> Iterator[str]:
        c, names = self._core.columns, self._core.names
        above = (names[c.name[row]] for row in ancestors(c, self.row) if c.kind[row] == Kind.Op)
        yield from (name.split("::")[-1] for name in above if name.startswith(("c10d::", "_c10d_functional::")))
        annotation = int(self._core.annotation[self.row])
        if annotation >= 0 and (name := names[c.name[annotation]]).startswith("nccl:"):
            yield name.removeprefix("nccl:")


def _node(core: Core, members: Sequence[_Part], index: int) -> Collective:
    first = members[0]
    group, ranks = first.text("group"), first.ranks
    place = f"#{index}" if first.sequence is None else str(first.sequence)
    if first.on_host and ranks is None:
        # It may be of any of several groups: its place says nothing to other ranks.
        place = f"{first.rank()}{place}"
    if first.kind in _POINT_TO_POINT:
        # Each rank counts its own transfers, so that their numbers say nothing to the other end.
        source, target = ("?" if end is None else end for end in (first.source, first.target))
        place = f"{source}>{target}#{index}"
    return Collective(
        key=f"coll:{'?' if group is None else group}:{_digest(first.ranks_text)}:{place}",
        group=group,
        group_description=first.text("group_description"),
        ranks=ranks or _integers(core.once(_ranks_of_groups).get(group)) or None,
        group_size=first.number("group_size"),
        kind=first.kind,
        sequence=first.sequence,
        index=index,
        dtype=first.text("dtype"),
        in_elements=first.number("in_elements"),
        out_elements=first.out_elements(),
        in_split=first.numbers("in_split"),
        out_split=first.numbers("out_split"),
        source_rank=first.source,
        target_rank=first.target,
        rank=first.rank(),
        rows=tuple(part.row for part in members),
        uids=tuple(part.uid for part in members),
        start_ns=min(part.start_ns for part in members),
        end_ns=max(part.end_ns for part in members),
        on_host=first.on_host,
    )


def _recorded(args: dict[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (args or {}).items() if value is not None}


def element_bytes(dtype: str | None) -> int | None:
    """Bytes of one element of a type as PyTorch names it in collective arguments; None for an unknown one."""
    return DTYPE_BYTES.get((dtype or "").lower().removeprefix("c10::").removeprefix("torch."))


def _bytes(elements: int | None, dtype: str | None) -> int | None:
    size = element_bytes(dtype)
    return None if elements is None or size is None else elements * size


def _integer(value: Any) -> int | None:
    try:
        # `int` would take these, and make 1 of True and 2 of 2.7.
        number = None if isinstance(value, bool | float) else int(value)
    except (TypeError, ValueError):
        return None
    return number if number is not None and abs(number) < _MOST else None


def _integers(value: Any) -> tuple[int, ...] | None:
    """A list of integers, or the text of one."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return None
    if not isinstance(value, list) or not all(isinstance(one, int) for one in value):
        return None
    return _shared(tuple(value))


@lru_cache(maxsize=4096)
def _shared(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """One tuple for all that are equal: every collective of every rank has the ranks of its group."""
    return numbers


@lru_cache(maxsize=4096)
def _spelled(ranks: tuple[int, ...]) -> str:
    """One spelling of the ranks of a group, for its identity."""
    return ",".join(map(str, ranks))


def _packed(ranks: Any) -> str:
    """The same of ranks that are cut short; empty where they are not recorded."""
    return "".join(str(ranks or "").split())


@lru_cache(maxsize=4096)
def _digest(ranks: str) -> str:
    return blake2b(ranks.encode(), digest_size=8).hexdigest() if ranks else "-"


def _ranks_of_groups(core: Core) -> dict[Any, Any]:
    """Name of a process group -> the ranks that the trace's metadata lists for it."""
    entries = [entry for entry in _group_entries(core) if isinstance(entry.get("pg_name"), str)]
    return {entry["pg_name"]: entry.get("ranks") for entry in reversed(entries)}  # the first of a name counts


def _group_entries(core: Core) -> Iterator[dict[str, Any]]:
    entries = (core.info.metadata.get("distributedInfo") or {}).get("pg_config")
    yield from (entry for entry in entries if isinstance(entry, dict)) if isinstance(entries, list) else ()
