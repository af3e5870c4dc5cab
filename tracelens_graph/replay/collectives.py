"""Collectives of a trace as one program for torchrun: kinds, sizes, types and groups as recorded.

Equal collectives are one entry of the program. What they move and how bandwidths follow from it are the rules of
`analyses.ranks.sizes`; the program gets them as numbers. Values do not matter to a collective, so none are recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import Any, ClassVar

import numpy as np

from tracelens_graph.analyses.ranks.sizes import rule_of
from tracelens_graph.errors import AnalysisError
from tracelens_graph.execution.arguments import group_address
from tracelens_graph.execution.link import link_of
from tracelens_graph.graph.collective_kinds import UNKNOWN, kind_of
from tracelens_graph.graph.collectives import Collective, collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.traversals import ancestors
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.perf.scalar_types import DTYPES, torch_dtype
from tracelens_graph.replay.collective_calls import Called, called
from tracelens_graph.replay.program_text import HasProgram, LeftOut, ProgramKind, left_out
from tracelens_graph.schema import Kind

_CALLS: Mapping[str, str] = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce_coalesced", "broadcast": "broadcast",
    "reduce": "reduce", "all_gather": "all_gather", "_allgather_base": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter_tensor", "gather": "gather",
    "scatter": "scatter", "all_to_all": "all_to_all_single", "all_to_allv": "all_to_all_single", "send": "transfer",
    "recv": "transfer", "send_recv": "ring", "barrier": "barrier",
}  # fmt: skip
"""Kind of a collective -> the call of `torch.distributed` in the program, or what stands for it there."""

_SEVERAL = ("all_gather_into_tensor", "reduce_scatter_tensor")
"""Calls that PyTorch has a coalesced form of, beside that of the all-reduce."""

_ROOTED = ("broadcast", "reduce", "gather", "scatter")

_SCALARS: Mapping[str, str] = {
    "byte": "uint8", "char": "int8", "short": "int16", "int": "int32", "long": "int64", "half": "float16",
    "float": "float32", "double": "float64", "complexhalf": "complex32", "complexfloat": "complex64",
    "complexdouble": "complex128",
}  # fmt: skip
"""Types as collectives have them, in lower case -> as torch has them."""

_MOST_RANKS = 100_000

RUN_AGAIN = "--collectives -o DIR writes a program for torchrun"
"""What helps with collectives, which have no programs of their own."""

_REAL_PERCENT = 10
"""Share of the time of all collectives from which on a program of them is worth its name."""


@dataclass(frozen=True)
class CollectiveCall:
    """Equal collectives of a trace.

    Attributes:
        kind: PyTorch's name of the kind.
        call: the call of `torch.distributed`, as the program has it.
        dtype: type of the elements, as torch names it; empty for a barrier.
        into, out: elements that this rank puts in and gets out.
        ranks: ranks of the job in the group; of a transfer of the whole job, as far as it is known.
        place: place of the traced rank in the group.
        root: place of the root in the group, of the kinds that have one.
        in_split, out_split: elements that this rank sends to each other one, and gets; empty for an even exchange.
        parts: elements of each tensor of a coalesced form, of the larger side.
        source, target: ranks of a transfer; None for all else.
        calls: how many there are.
        traced_us: median of their durations, in us.
        total_us: sum of their durations, in us.
        uid: the longest of them.
        assumed: what the trace does not show, in words.
    """

    kind: str
    call: str
    dtype: str
    into: int
    out: int
    ranks: tuple[int, ...]
    place: int = 0
    root: int = 0
    in_split: tuple[int, ...] = ()
    out_split: tuple[int, ...] = ()
    parts: tuple[int, ...] = ()
    source: int | None = None
    target: int | None = None
    calls: int = 1
    traced_us: float = 0.0
    total_us: float = 0.0
    uid: int = -1
    assumed: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """The entry of the program, without what is as in its `DEFAULTS`."""
        rule = rule_of(self.kind)
        facts = {
            "dtype": self.dtype, "in": self.into, "out": self.out, "ranks": list(self.ranks), "place": self.place,
            "root": self.root, "in_split": list(self.in_split), "out_split": list(self.out_split),
            "parts": list(self.parts),
            "message": rule.message if rule else "", "factor": rule.factor if rule else 0.0,
            "all_ranks": bool(rule and rule.all_ranks), "calls": self.calls, "traced_us": round(self.traced_us, 3),
            "assumed": list(self.assumed),
        }  # fmt: skip
        ends = {} if self.source is None else {"source": self.source, "target": self.target}
        return {"kind": self.kind, "call": self.call, **{key: one for key, one in facts.items() if one}, **ends}


@dataclass(frozen=True)
class CollectivePlan(HasProgram):
    """The collectives of a trace, those with the most time first.

    Attributes:
        calls: what the program runs.
        left_out: what it cannot.
        rank: the traced rank; None where it is not known.
        world_size: ranks of the job: as recorded, else as many as the groups need.
    """

    kind: ClassVar[ProgramKind] = "collectives"

    calls: tuple[CollectiveCall, ...]
    left_out: tuple[LeftOut, ...]
    rank: int | None
    world_size: int

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the trace does not show, each once."""
        return tuple(dict.fromkeys(chain.from_iterable(call.assumed for call in self.calls)))

    def json(self) -> dict[str, Any]:
        """What its program runs. With fewer ranks than recorded it shrinks groups, and says so."""
        member = "the traced rank" if self.rank is None else f"rank {self.rank}"
        return {
            "job": f"{member} of {self.world_size}",
            "left_out": [one.line for one in self.left_out],
            "collectives": [call.data() for call in self.calls],
        }

    @property
    def about(self) -> str:
        """The heading of its program, which `torchrun --nproc-per-node N` runs."""
        calls, kinds = sum(call.calls for call in self.calls), len(self.calls)
        return (
            f"The collectives of one rank of a job of {self.world_size}: {calls:,} calls, {kinds:,} different ones.\n\n"
            f"    torchrun --nproc-per-node {self.world_size} THIS_FILE\n\n"
            "With fewer processes groups become smaller, and the table says which. NCCL runs them on GPUs, gloo on\n"
            "CPUs (--device cpu). Made from a profiler's trace by tracelens-graph.\n"
        )


def collective_plan(graph: Core | Window) -> CollectivePlan:
    """The collectives of a trace, or of a window of it, as a program can run them.

    Args:
        graph: the trace of one rank.

    Raises:
        AnalysisError: there are no collectives, or none of them can be run again.
    """
    w = window_of(graph)
    found = _planned(w, nodes := _nodes(w))
    if not nodes:
        raise AnalysisError("no collectives: the trace, or the part of it that was asked for, has none of any library")
    if not found.calls:
        raise AnalysisError(f"none of the {len(nodes):,} collectives can be replayed: {_reasons(found.left_out)}")
    return found


def what_helps(graph: Core | Window) -> str:
    """How the collectives of a window can be replayed, or what must be recorded before most of their time can."""
    w = window_of(graph)
    found = _planned(w, _nodes(w))
    lost = found.left_out
    if sum(one.percent for one in lost) > 100 - _REAL_PERCENT:
        return lost[0].remedy
    return RUN_AGAIN if found.calls else _to_record(w.core)


def _nodes(w: Window) -> list[Collective]:
    return [one for one in collectives_of(w.core).nodes if w.holds(np.array(one.rows[:1]))[0]]


def _planned(w: Window, nodes: Sequence[Collective]) -> CollectivePlan:
    """A plan of some collectives, which may have no call."""
    rank = w.core.info.rank
    world = w.core.info.world_size or 1 + max(
        (max((*(one.ranks or ()), (one.group_size or 1) - 1)) for one in nodes), default=0
    )
    found: dict[Any, list[Called]] = {}
    for one in called(w.core, _with_groups(w.core, nodes)):
        found.setdefault((_identity(one.collective), one.root), []).append(one)
    calls: list[CollectiveCall] = []
    lost: dict[tuple[str, str, str], list[float]] = {}
    for same in found.values():
        us = np.array([_us(w.core, one.collective) for one in same])
        longest = same[int(us.argmax())].collective
        made = _call(w.core, longest, same[0].root, world)
        if isinstance(made, CollectiveCall):
            median, total = float(np.median(us)), float(us.sum())
            calls.append(replace(made, calls=len(same), traced_us=median, total_us=total, uid=longest.uids[0]))
        else:
            lost.setdefault((_what(w.core, longest), *made), []).extend(us.tolist())
    calls.sort(key=lambda one: one.total_us, reverse=True)
    return CollectivePlan(tuple(calls), left_out(lost, sum(_us(w.core, one) for one in nodes)), rank, world)


def _with_groups(core: Core, nodes: Iterable[Collective]) -> Iterator[Collective]:
    """Collectives; those without a known group have that of others in the same one, where that is proven."""
    labelled = [(one, _group(core, one)) for one in nodes]
    known = {group: one for one, group in labelled if group is not None and (one.group_size or one.ranks)}
    for one, group in labelled:
        like = None if group is None or one.group_size or one.ranks else known.get(group)
        yield one if like is None else replace(one, ranks=like.ranks, group_size=like.group_size)


def _group(core: Core, one: Collective) -> str | int | None:
    """What shows the group of a collective: its name, else its address in an execution trace; None for neither."""
    owner, link = int(core.columns.owner[one.rows[0]]), link_of(core)
    if one.group is not None or link is None or owner < 0:
        return one.group
    node = int(link.node_of_row[owner])
    return group_address(link.execution, node) if node >= 0 else None


def _identity(one: Collective) -> tuple[Any, ...]:
    return (
        one.kind, one.dtype, one.in_elements, one.out_elements, one.in_split, one.out_split, one.ranks, one.group_size,
        one.source_rank, one.target_rank,
    )  # fmt: skip


def _us(core: Core, one: Collective) -> float:
    return float(core.columns.dur_ns[list(one.rows)].sum()) / 1e3


def _what(core: Core, one: Collective) -> str:
    name = core.names[core.columns.name[one.rows[0]]]
    return one.kind if one.kind != UNKNOWN else name[:40]


def _reasons(lost: Iterable[LeftOut]) -> str:
    """Why collectives are left out, each reason with all that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for one in lost:
        by_reason.setdefault(f"{one.reason}; {one.remedy}", []).append(one.what)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())


def _call(core: Core, one: Collective, root: int | None, world: int) -> CollectiveCall | tuple[str, str]:
    """The call of a collective; else why there is none, and what would help."""
    call = _CALLS.get(one.kind) or _CALLS.get(kind_of(one.kind), "")
    if not call:
        return "its kind is not known", "name it in a rule of an extension"
    size = one.group_size or len(one.ranks or ()) or (world if call == "transfer" else 0)
    if not 0 < size <= _MOST_RANKS:
        return "its group is not recorded", _to_record(core)
    assumed = []
    ranks = one.ranks
    if not ranks or len(ranks) != size:
        ranks = tuple(range(size))
        assumed.append("the ranks of the group are the first ones of the job")
    rank = one.rank if one.rank is not None else ranks[0]
    place = ranks.index(rank) if rank in ranks else 0
    if call == "barrier":
        return CollectiveCall(one.kind, call, "", 0, 0, ranks, place)
    dtype = _dtype(one.dtype)
    if not dtype or (one.in_elements is None and one.out_elements is None):
        return "its sizes are not recorded", _to_record(core)
    into, out = _both_sides(call, one, size)
    if min(into, out) < 0:
        return "its sizes are negative", "record it again"
    source = target = None
    if call == "transfer":
        source, target = one.source_rank, one.target_rank
        if source is None or target is None or not (0 <= source < _MOST_RANKS and 0 <= target < _MOST_RANKS):
            return "its other end is not recorded", "record with a newer PyTorch"
        ranks = tuple(range(max(world, source + 1, target + 1)))
    if call in _ROOTED and not 0 <= (-1 if root is None else root) < size:
        root = 0
        assumed.append("the first rank of the group is the root")
    if call == "ring":
        assumed.append("each rank sends to the next one")
    sent, got = _splits(one, into, out, size) if call == "all_to_all_single" else ((), ())
    if one.kind == "all_to_allv" and not sent:
        assumed.append("all ranks get as much")
    if sent:
        assumed.append("what other ranks exchange follows from what this one sends and gets")
    several = _parts(core, one, max(into, out), max(into, out) == into) if "coalesced" in one.kind else ()
    if several and call in _SEVERAL:
        call = f"{call}_coalesced"
    elif "coalesced" in one.kind and not several:
        call, several = call.removesuffix("_coalesced"), ()
        assumed.append("one tensor in place of several")
    return CollectiveCall(
        one.kind, call, dtype, into, out, ranks, place, root or 0, sent, got, several, source, target,
        assumed=tuple(assumed),
    )  # fmt: skip


def _to_record(core: Core) -> str:
    """What would show more of a collective."""
    if core.link is not None:
        return "record with a newer PyTorch"
    return "record with execution_trace_observer, and give the file with --et"


def _dtype(recorded: str | None) -> str:
    """PyTorch's name of a type of elements; empty where it is none."""
    plain = (recorded or "").removeprefix("c10::").removeprefix("torch.")
    lower = plain.lower()
    return _SCALARS.get(lower) or torch_dtype(recorded or "") or (lower if lower in DTYPES else "")


def _both_sides(call: str, one: Collective, size: int) -> tuple[int, int]:
    """Elements in and out; what is not recorded follows from the other."""
    into, out = one.in_elements, one.out_elements
    if out is None and into and one.in_split and one.out_split and sum(one.in_split):
        return into, into // sum(one.in_split) * sum(one.out_split)
    if call.startswith(("all_gather", "gather")):
        # Of a gather the root alone has the whole, and says it.
        part = into if into is not None else (out or 0) // size
        return part, part * size
    if call.startswith(("reduce_scatter", "scatter")):
        part = out if out else (into or 0) // size
        return part * size, part
    whole = into if into is not None else out or 0
    return whole, whole if out is None else out


def _splits(one: Collective, into: int, out: int, size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Elements sent to each rank and got from it, from rows; both empty where the exchange is even."""
    sent, got = one.in_split, one.out_split
    if not sent or not got or len(sent) != size or len(got) != size or min(*sent, *got) < 0:
        return (), ()
    rows = sum(sent) or sum(got)
    width = (into if sum(sent) else out) // rows if rows else 0
    return tuple(width * part for part in sent), tuple(width * part for part in got)


def _parts(core: Core, one: Collective, elements: int, of_input: bool) -> tuple[int, ...]:
    """Elements of each tensor of a coalesced form: of the first list of tensors above that adds up to the whole."""
    c = core.columns
    for row in ancestors(c, one.rows[0]):
        if c.kind[row] != Kind.Op:
            continue
        dims = Node(core, row).shapes.get("Input Dims") or []
        for sizes in dims:
            if sizes and all(isinstance(shape, list) and all(type(n) is int for n in shape) for shape in sizes):
                counts = tuple(prod(shape) for shape in sizes)
                if sum(counts) == elements and min(counts) >= 0:
                    return counts
    return ()
