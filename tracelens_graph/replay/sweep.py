"""Calls of a trace at other sizes: some sizes of their arguments take other values, and nothing else changes.

A position names a size: `query.0` or `0.0` is the first size of a tensor, `tensors.2.0` that of one in a list, `size.1`
a number in a list, `max_q` a number. A number as in `559=64` stands for all positions that hold it and are sizes by the
schema; `batch` for the first size of the first tensor that is no weight and no bias, where that stands nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as with_field
from math import prod
from typing import Any

from msgspec.structs import replace

from tracelens_graph.errors import AnalysisError, CannotReplay, NotAValueError
from tracelens_graph.perf.scalar_types import torch_dtype
from tracelens_graph.replay.calls import Call, number, numbers, sizes, traced_call
from tracelens_graph.replay.choosing import SCALAR, SCALARS, TENSORS, choose
from tracelens_graph.replay.planned import Estimates, Plans, complete, cost_of
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.portable import portable
from tracelens_graph.replay.replay_plan import Recorded, ReplayPlan, Traced, Work
from tracelens_graph.replay.schemas import Parameter

BATCH = "batch"
_SWEEP = re.compile(r"(\w+(?:\.\d+)*(?:,\w+(?:\.\d+)*)*)=(\d{1,12}(?:,\d{1,12})*)", re.ASCII)
_JOINING = frozenset({"aten::cat", "aten::concat", "aten::concatenate"})
"""Operations that join tensors in the dimension of their second argument."""
_MOST, _SHOWN = 64, 30
"""Values of a sweep, and positions that an error lists."""
_NO_BATCH = frozenset({"weight", "bias"})
"""Tensors whose first size is no batch."""
_NO_SIZES = frozenset((
    "stride", "padding", "output_padding", "dilation", "kernel_size", "groups", "start", "end", "step", "index",
    "padding_idx", "storage_offset", "shifts", "diagonal", "offset", "dim", "k", "ignore_index", "repeats",
))  # fmt: skip
"""Parameters that PyTorch has as `SymInt`, as it has sizes, and that are none."""
_TIED = {
    op: letters.split(",")
    for ops, letters in {
        "mm": "mk,kn", "bmm": "bmk,bkn", "addmm addmm_": "-mn,mk,kn", "baddbmm": "-bmn,bmk,bkn", "mv": "mk,k",
        "addmv": "m,mk,k", "dot": "k,k", "matmul": "-k,-kn", "linear": "-k,nk,n",
        "convolution _convolution miopen_convolution cudnn_convolution": "bc,oc,o",
        "convolution_backward": "bo,bc,oc", "cat concat concatenate stack": "abcdefgh",
        "batch_norm native_batch_norm miopen_batch_norm cudnn_batch_norm": "bc,c,c,c,c",
        "native_batch_norm_backward miopen_batch_norm_backward cudnn_batch_norm_backward":
            "bcdefgh,bcdefgh,c,c,c,c,c",
        "layer_norm native_layer_norm native_layer_norm_backward rms_norm": ",".join(["-abcdefgh"] * 7),
        "group_norm": "bc, ,c,c", "native_group_norm": "bc,c,c,b,c",
        "native_group_norm_backward": "bcde,bcde,b,b,c,b,c",
        "scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention "
        "_scaled_dot_product_cudnn_attention": "bhqd,bhkd,bhkd",
        "_flash_attention_forward _efficient_attention_forward": "bqhd,bkhd,bkhd",
        "_scaled_dot_product_flash_attention_backward _scaled_dot_product_cudnn_attention_backward":
            "bhqd,bhqd,bhkd,bhkd,bhqd,bhq",
        "_scaled_dot_product_efficient_attention_backward": "bhqd,bhqd,bhkd,bhkd, ,bhqd,bhq",
        "_flash_attention_backward": "bqhd,bqhd,bkhd,bkhd,bqhd,bhq",
        "_efficient_attention_backward": "bqhd,bqhd,bkhd,bkhd, ,bqhd",
        "add add_ sub sub_ mul mul_ div div_ copy_ maximum minimum eq ge gt le lt ne": "-abcdefgh,-abcdefgh",
        "addcmul addcmul_ addcdiv addcdiv_ where": "-abcdefgh,-abcdefgh,-abcdefgh",
    }.items()
    for op in ops.split()
}  # fmt: skip
"""Operations -> letters for the sizes of their arguments: equal letters are one size; behind a minus those of the
last dimensions."""
_VIEWED = frozenset({"aten::view", "aten::reshape", "aten::_unsafe_view", "aten::_reshape_alias", "aten::view_copy"})
"""Operations whose `size` or `shape` holds as many elements as their tensor."""


@dataclass(frozen=True)
class Sweep:
    """What a sweep changes.

    Attributes:
        where: positions, or a number, or `batch`.
        values: what stands there instead.
    """

    where: tuple[str, ...]
    values: tuple[int, ...]

    @classmethod
    def parsed(cls, text: str) -> Sweep:
        """A sweep from words such as `batch=1,2,4,8` or `query.0,key.0=1,2`.

        Raises:
            AnalysisError: it is none.
        """
        found = _SWEEP.fullmatch(text.replace(" ", ""))
        values = tuple(dict.fromkeys(map(int, found[2].split(",")))) if found else ()
        if found is None or not 0 < len(values) <= _MOST or 0 in values or found[1] == "0":
            raise AnalysisError(
                f"{text[:60]!r} is no sweep such as batch=1,2,4,8 or 4096=1024,2048 or query.0,key.0=1,2"
            )
        return cls(tuple(found[1].split(",")), values)


@dataclass(frozen=True)
class Swept:
    """Plans of a sweep.

    Attributes:
        plans: the traced call, if its size is among the values, and those of other sizes; these count no calls.
        places: the positions that change -> the traced sizes there.
        elsewhere: positions that hold one of these sizes and do not change, where it is not known what they mean.
    """

    plans: list[ReplayPlan]
    places: Mapping[str, int]
    elsewhere: Sequence[str] = ()

    @property
    def doubled(self) -> list[str]:
        """Tensors with several changed sizes, which may mean different things."""
        tensors = [name.rpartition(".")[0] for name in self.places if "." in name]
        return sorted({one for one in tensors if tensors.count(one) > 1})


def swept(plans: Plans, place: int, sweep: Sweep, estimates: Estimates) -> Swept:
    """The plan of a signature, and the same at each other size.

    Raises:
        AnalysisError: it has no plan, is no operation of PyTorch, has no such size, or one that its program lacks; or
            other sizes have to change as well.
    """
    made = complete(plans, place, estimates).plan
    core, row, name = plans.signatures.core, int(plans.signatures.rows[place]), plans.signatures.names[place]
    if not isinstance(made, ReplayPlan):
        raise AnalysisError(f"{name}: nothing to sweep: {plans[place].why}")
    if made.imports or made.launch is not None:
        raise AnalysisError(f"{name}: only sizes of operations of PyTorch are swept")
    call = traced_call(core, row)
    parameters = choose(call).parameters
    places = _places(call, parameters, sweep)
    elsewhere = _elsewhere(call, parameters, places)
    found: list[ReplayPlan] = []
    for value in sweep.values:
        if set(places.values()) == {value}:
            found.append(made)
            continue
        try:
            recorded = _resized(call, parameters, places, value)
            other = plan_of(with_field(call, recorded=recorded, observed=()))
        except CannotReplay as error:
            raise AnalysisError(f"{name}: cannot be made with {value} at {', '.join(places)}: {error.reason}") from None
        changes = ", ".join(f"{place} = {value} for {size}" for place, size in places.items())
        other = portable(other.with_traced(Traced(calls=0, gpu=made.traced.gpu, trace=made.traced.trace), Work()), core)
        if (other.op, other.positional, other.keyword) == (made.op, made.positional, made.keyword):
            raise AnalysisError(f"{name}: {', '.join(places)} is no argument of its program; name sizes of its tensors")
        work = estimates.of_cost(cost_of(other.op, other.recorded, made.traced.kernels))
        found.append(replace(other, work=work, modes=made.modes, notes=(*other.notes, f"a sweep: {changes}")))
    return Swept(found, places, elsewhere)


def _elsewhere(call: Call, parameters: Sequence[Parameter], places: Mapping[str, int]) -> list[str]:
    """Positions that hold a changed size, do not change, and may be the same size.

    Raises:
        AnalysisError: some are the same size by what the operation computes.
    """
    letters = dict(_letters(call, parameters))
    changed = {(letters.get(place, ""), size) for place, size in places.items()}
    others = {place: size for place, size in _sizes(call, parameters, _is_size) if place not in places}
    apart = {place.partition(".")[0] == "grad_output" for place in places if place.partition(".")[2] > "1"}
    if call.op == "aten::convolution_backward" and len(apart) == 1:
        raise AnalysisError(f"{call.op}: sizes of grad_output follow from those of input and weight: change both")
    if tied := [place for place, size in others.items() if place in letters and (letters[place], size) in changed]:
        together = ",".join([*places, *tied])
        are = "is the same size" if len(tied) == 1 else "are the same size"
        raise AnalysisError(f"{call.op}: {', '.join(tied)} {are}, so they change together: --sweep {together}=...")
    return [place for place, size in others.items() if size > 1 and size in places.values() and place not in letters]


def _letters(call: Call, parameters: Sequence[Parameter]) -> Iterator[tuple[str, str]]:
    """Positions of sizes, and their letters in `_TIED`, as far as they have any."""
    joined = _joined(call)
    for at, named in enumerate(_TIED.get(call.op.removeprefix("aten::"), ())[: len(call)]):
        name, found = parameters[at].name, _nested(call.recorded, at)
        is_list = call.recorded.types[at] in TENSORS
        listed = [(f"{name}.{place}", one) for place, one in enumerate(found)] if is_list else [(name, found)]
        for of, numbers_there in listed:
            places = [place for place, _ in _flat(numbers_there, of)]
            letters = named[1:].rjust(len(places))[-len(places) or None :] if named[:1] == "-" else named
            for dim, (place, letter) in enumerate(zip(places, letters, strict=False)):
                if letter != " " and dim not in (joined, joined + len(places)):
                    yield place, letter


def _joined(call: Call) -> int:
    """The dimension in which a call joins tensors one behind another, whose sizes differ there; beyond all for none."""
    if call.op not in _JOINING:
        return _MOST
    found = _nested(call.recorded, 1) if len(call) > 1 else 0
    return found if type(found) is int else 0


def _sizes(
    call: Call, parameters: Sequence[Parameter], which: Callable[[Parameter], bool] = bool
) -> Iterator[tuple[str, int]]:
    """Positions of the whole numbers in arguments that are such parameters, and the numbers."""
    for at, one in enumerate(parameters):
        if which(one):
            yield from _flat(_nested(call.recorded, at), one.name)


def _places(call: Call, parameters: Sequence[Parameter], sweep: Sweep) -> dict[str, int]:
    """The positions that change, and what stands there.

    Raises:
        AnalysisError: there are no such, or which size is the batch is not clear.
    """
    every, known = dict(_sizes(call, parameters)), dict(_sizes(call, parameters, _is_size))
    listed = [f"{place}={size}" for place, size in known.items()]
    sizes_are = "its sizes are " + (", ".join(listed[:_SHOWN]) + ", ..." * (len(listed) > _SHOWN) or "none")
    (first, *others) = sweep.where
    if first == BATCH and not others:
        size, alike = _batch(call, parameters)
        if not size:
            example = f", as in {','.join(alike)}=1,2" if alike else ""
            raise AnalysisError(f"{call.op}: which size is the batch is not clear; name it{example}: {sizes_are}")
        first = str(size)
    if first.isdigit() and not others:
        if not (found := {place: size for place, size in known.items() if size == int(first)}):
            raise AnalysisError(f"{call.op}: has no size {first}; {sizes_are}")
        return found
    numbered = {str(at): one.name for at, one in enumerate(parameters)}
    words = [one.partition(".") for one in sweep.where]
    named = [numbered.get(word, word) + dot + rest for word, dot, rest in words]
    if unknown := [one for one in named if one not in every]:
        raise AnalysisError(f"{call.op}: has no size {unknown[0]}; {sizes_are}")
    return {place: every[place] for place in named}


def _is_size(parameter: Parameter) -> bool:
    """Whether numbers of a parameter are sizes, as all of tensors are."""
    return parameter.kind.base == "Tensor" or (parameter.kind.base == "SymInt" and parameter.name not in _NO_SIZES)


def _batch(call: Call, parameters: Sequence[Parameter]) -> tuple[int, list[str]]:
    """The size of the batch, 0 where it is not clear, and the positions at which it stands first."""
    shapes = [(one.name, sizes(dims) or ()) for one, dims in zip(parameters, call.recorded.dims, strict=True)]
    data = [(at, *one) for at, one in enumerate(shapes) if one[1] and one[0] not in _NO_BATCH]
    if not data:
        return 0, []
    at, first, shape = next((one for one in data if len(one[2]) > 1), data[0])
    steps = sizes(call.recorded.strides[at]) if at < len(call.recorded.strides) else None
    others = [size for _, one in shapes for size in (one[1:] if len(one) >= len(shape) else one)]
    # A transposed matrix begins with features.
    is_clear = shape[0] not in others and (not steps or steps[0] == max(steps))
    # Of two matrices one at most has the batch in front.
    alike = [name for _, name, one in data if one[0] == shape[0] and len(one) == len(shape) > 2]
    return shape[0] * is_clear, [f"{name}.0" for name in alike or [first]]


def _nested(recorded: Recorded, at: int) -> Any:
    """Sizes and whole numbers of an argument: of a tensor, of a list of tensors or numbers, or one number."""
    kind, dims = recorded.types[at], recorded.dims[at]
    text = recorded.values[at] if at < len(recorded.values) else ""
    if kind in TENSORS:
        return tuple(sizes(one) or () for one in dims)
    if torch_dtype(kind):
        return sizes(dims) or ()
    if not text or kind not in (SCALAR, SCALARS):
        return ()
    try:
        return numbers(text) if kind == SCALARS else number(text)
    except NotAValueError:
        return ()


def _flat(nested: Any, name: str) -> Iterator[tuple[str, int]]:
    """Positions of whole numbers, and the numbers."""
    if isinstance(nested, tuple):
        for at, one in enumerate(nested):
            yield from _flat(one, f"{name}.{at}")
    elif type(nested) is int:
        yield name, nested


def _put(nested: Any, name: str, places: Mapping[str, int], value: int) -> Any:
    """The same numbers with another at some positions."""
    if isinstance(nested, tuple):
        return tuple(_put(one, f"{name}.{at}", places, value) for at, one in enumerate(nested))
    return value if name in places else nested


def _resized(call: Call, parameters: Sequence[Parameter], places: Mapping[str, int], value: int) -> Recorded:
    """The arguments with other sizes; tensors that lie densely in memory still do, in their order.

    Raises:
        AnalysisError: sizes that it is given would not hold what its tensor does.
    """
    recorded = call.recorded
    dims, strides, values = list(recorded.dims), list(recorded.strides), list(recorded.values)
    if {"size", "stride"} <= {one.name for one in parameters}:
        raise AnalysisError(f"{call.op}: is given strides of its result, so its sizes are not swept alone")
    for at, (kind, parameter) in enumerate(zip(recorded.types, parameters, strict=True)):
        old = _nested(recorded, at)
        new = _put(old, parameter.name, places, value)
        if kind == SCALARS and call.op in _VIEWED and -1 not in new and prod(new) != prod(dims[0]):
            raise AnalysisError(f"{call.op}: a size is part of one of {list(old)}, so it is not swept alone")
        if new == old:
            continue
        if kind in (SCALAR, SCALARS):
            values[at] = str(list(new)) if kind == SCALARS else str(new)
            continue
        dims[at] = new
        steps = strides[at] if at < len(strides) else ()
        if kind in TENSORS and len(steps) == len(old):
            strides[at] = tuple(map(_restrided, old, steps, new))
        elif kind not in TENSORS and len(sizes(steps) or ()) == len(old):
            strides[at] = _restrided(old, steps, new)
    return Recorded(tuple(dims), recorded.types, tuple(strides), tuple(values))


def _restrided(shape: Sequence[int], steps: Sequence[int], now: Sequence[int]) -> tuple[int, ...]:
    """Strides of changed sizes: gaps between rows and dimensions of stride 0 stay as they are."""
    order = sorted(range(len(shape)), key=lambda dim: (-steps[dim], dim))
    made = [0] * len(shape)
    reach, old_reach = 1, 1
    for dim in reversed(order):
        if steps[dim] == 0:
            continue
        gap = max(steps[dim] - old_reach, 0)
        made[dim] = reach + gap
        old_reach, reach = steps[dim] * shape[dim], made[dim] * now[dim]
    return tuple(made)
