"""What an op reads and writes by its recorded arguments: sizes of its inputs and of its result."""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from typing import NamedTuple

from tracelens_graph.analyses.opportunities.launched import Does, Launched
from tracelens_graph.analyses.performance.unified import arguments_of
from tracelens_graph.errors import CannotModel
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.families.elementwise import broadcast
from tracelens_graph.perf.scalar_types import known


class Sizes(NamedTuple):
    """A tensor: number of elements, bits of each (0 where not recorded), sizes."""

    elements: int
    bits: int
    shape: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of it."""
        return self.elements * self.bits // 8


class Traffic(NamedTuple):
    """What a call reads and writes.

    Attributes:
        reads: tensors that it reads, scalars left out.
        result: what it writes; None where sizes do not show it.
        reduced: whether the result is a part of what `result` says, by an unknown number of dimensions.
        name: of the op.
    """

    reads: tuple[Sizes, ...]
    result: Sizes | None
    reduced: bool = False
    name: str = ""

    @property
    def bytes(self) -> int:
        """Bytes that are moved at least."""
        written = self.result.bytes if self.result and not self.reduced else 0
        return sum(one.bytes for one in self.reads) + written


NOTHING = Traffic((), None)

_LIKE_FIRST = (Does.NORM, Does.SOFTMAX)
_COMPARES = re.compile(r"aten::(?:eq|ne|lt|le|gt|ge|logical_\w+|isnan|isinf)(?:_out)?$")
"""Ops whose results are truth values."""


_TAKEN = {
    f"aten::{name}": number
    for number, names in (
        (1, "abs neg exp log sqrt rsqrt reciprocal sin cos tanh sigmoid erf silu relu bitwise_not logical_not sign"),
        (2, "clamp_min clamp_max mul div pow maximum minimum atan2 remainder fmod bitwise_and bitwise_or gelu"),
        (3, "add sub clamp threshold"),
    )
    for name in names.split()
}
"""How many arguments ops take; one more is the result, which overloads `out` are given."""


def traffic_of(work: Launched, at: int) -> Traffic:
    """What an op reads and writes; nothing where its arguments are not recorded or no sizes."""
    row = int(work.row[at])
    if row < 0:
        return NOTHING
    try:
        found = _traffic(work.name(at), Does(int(work.does[at])), arguments_of(work.core, row))
    except CannotModel:
        return NOTHING
    return found._replace(name=work.name(at))


def _traffic(name: str, does: Does, arguments: Arguments) -> Traffic:
    inputs = [one for i in range(_TAKEN.get(name, len(arguments))) if (one := _input(arguments, i))]
    listed = [
        Sizes(one.elements, 0, one.shape)
        for i in range(len(arguments))
        if arguments.type(i) in ("TensorList", "GenericList", "")
        for one in (arguments.tensors(i) if _is_nested(arguments, i) else [])
    ]
    if does == Does.COPY and name == "aten::copy_" and len(inputs) > 1:
        return Traffic((inputs[1],), inputs[0])
    if does == Does.FILL:
        return Traffic((), inputs[0] if inputs else None)
    if name in ("aten::cat", "aten::stack"):
        return Traffic(tuple(listed), Sizes(sum(one.elements for one in listed), 0)) if listed else NOTHING
    if does == Does.PRODUCT:
        return Traffic(tuple(inputs), _product([one for one in inputs if len(one.shape) > 1]))
    if does in (Does.CONVOLUTION, Does.ATTENTION):
        return Traffic(tuple(inputs), inputs[0] if inputs and does == Does.ATTENTION else None)
    reads = tuple(one for one in inputs if one.elements > 1)
    if not reads:
        return NOTHING
    if does == Does.REDUCE:
        return Traffic(reads, reads[0], reduced=True)
    if does in _LIKE_FIRST:
        return Traffic(reads, reads[0])
    shape = broadcast(*(one.shape for one in reads))
    bits = 8 if _COMPARES.match(name) else max(one.bits for one in reads)
    return Traffic(reads, Sizes(prod(shape), bits, shape))


def _product(factors: list[Sizes]) -> Sizes | None:
    """The result of a product: its factors are the last two of the inputs, [..., M, K] and [..., K, N]."""
    if len(factors) < 2 or factors[-2].shape[-1] != factors[-1].shape[-2]:
        return None
    left, right = factors[-2:]
    shape = (*left.shape[:-1], right.shape[-1])
    return Sizes(prod(shape), left.bits, shape)


def _input(arguments: Arguments, index: int) -> Sizes | None:
    one = arguments.optional(index)
    return Sizes(one.stored, known(one.dtype).bits, one.shape) if one else None


def _is_nested(arguments: Arguments, index: int) -> bool:
    dims = arguments.parts[0]
    return index < len(dims) and isinstance(dims[index], list) and any(isinstance(one, list) for one in dims[index])


class Chain(NamedTuple):
    """Ops of a run whose results the next ones take.

    Attributes:
        places: positions in the run.
        moved: bytes that they move, one by one.
        needed: bytes that the inputs and results of all of them together are.
    """

    places: tuple[int, ...]
    moved: int
    needed: int


def chains_in(run: list[Traffic], is_optimizer: bool = False) -> list[Chain]:
    """The chains in a run: an op belongs to the one before it whose result it may take, by number and type of elements.

    Which tensor an op reads is not recorded. So a result counts as taken by the next op that reads as many elements of
    its type. Inputs of an op that are alike are different tensors: if results that nobody took cannot be all of them,
    the others come from outside. Where two ops come again that began a chain, another one begins, such as that of the
    keys behind that of the queries. An op that is called three times in a row with equal arguments is a loop, whose
    calls read nothing of each other; where one of an optimizer comes again, it is for the next parameter.
    """
    run = _typed(run)
    results: list[tuple[int, Sizes, bool]] = []
    taken: set[int] = set()
    group = list(range(len(run)))
    inside = [0] * len(run)
    began: list[int] = []
    first = own = 0
    for op, one in enumerate(run):
        again = any(run[at : at + 2] == run[op : op + 2] and run[at] != run[at + 1] for at in began)
        again |= any(run[at : at + 3] == [one] * 3 for at in (op - 2, op - 1) if at >= 0)
        if is_optimizer and one in run[first : op - 1]:
            first, own = op, len(results)
        reads = Counter(() if again else one.reads)
        for key, count in reads.items():
            fitting = [place for place in range(own, len(results)) if _fits(key, *results[place][1:])]
            free = [place for place in reversed(fitting) if place not in taken][:count]
            for place in free or fitting[-1:]:
                taken.add(place)
                inside[op] += key.bytes
                _join(group, results[place][0], op)
        if not inside[op]:
            began.append(op)
        if one.result is not None:
            results.append((op, one.result, one.reduced))
    # An op in place with inputs from outside writes what was there before the chain, such as an optimizer's state.
    in_place = [one.name.endswith("_") and one.name != "aten::copy_" for one in run]
    outside = [inside[op] < sum(read.bytes for read in one.reads) for op, one in enumerate(run)]
    kept = {place for place, (op, *_) in enumerate(results) if place not in taken or (in_place[op] and outside[op])}
    found = []
    for root in dict.fromkeys(group):
        places = [op for op in range(len(run)) if group[op] == root]
        if len(places) < 2:
            continue
        moved = sum(run[op].bytes for op in places)
        written = sum(made.bytes for place, (op, made, reduced) in enumerate(results)
                      if place in kept and not reduced and group[op] == root)  # fmt: skip
        read = sum(sum(one.bytes for one in run[op].reads) - inside[op] for op in places)
        found.append(Chain(tuple(places), moved, min(read + written, moved)))
    return found


def _typed(run: list[Traffic]) -> list[Traffic]:
    """The run with types for lists of tensors, whose types are not recorded: that of the result before."""
    found: list[Traffic] = []
    bits = next((one.result.bits for one in run if one.result and one.result.bits), 0)
    for one in run:
        result = one.result and one.result._replace(bits=one.result.bits or bits)
        reads = tuple(read._replace(bits=read.bits or bits) for read in one.reads)
        found.append(one._replace(reads=reads, result=result))
        bits = result.bits if result else bits
    return found


def _fits(wanted: Sizes, made: Sizes, reduced: bool) -> bool:
    if wanted.bits and made.bits != wanted.bits:
        return False
    if reduced:
        return wanted.elements < made.elements and made.elements % wanted.elements == 0
    return wanted.elements == made.elements


def _join(group: list[int], one: int, other: int) -> None:
    old, new = group[other], group[one]
    for place, root in enumerate(group):
        if root == old:
            group[place] = new
