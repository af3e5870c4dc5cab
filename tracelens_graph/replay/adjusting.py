"""What the arguments of a call are besides what was recorded of them, as children, kernels and neighbours show.

Each function takes the arguments of a call and gives them back with one thing settled: dtypes in lists, the host,
numbers of Python, storages, gradients, conjugates; `modes` says what PyTorch was in during the call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import prod

from msgspec.structs import replace

from tracelens_graph.perf.scalar_types import item_size, torch_dtype
from tracelens_graph.replay.calls import Call, sizes
from tracelens_graph.replay.replay_plan import Argument, Fill, Named, Recorded, TensorValue, Value, tensors
from tracelens_graph.replay.schemas import Schema

# --- dtypes in lists, which the profiler does not record -----------------------------------------------------------

_FLOATS_ALWAYS = {"state_steps": "float32", "lr": "float32"}
"""Lists whose dtype PyTorch prescribes."""
_LIKE_TENSOR = frozenset((
    "lstm", "gru", "rnn_tanh", "rnn_relu", "_cudnn_rnn", "_cudnn_rnn_backward", "miopen_rnn",
    "_cudnn_rnn_flatten_weight",
))  # fmt: skip
"""Ops whose lists have the dtype of their first tensor."""
_LIKE_CHILD = {
    "stack": ("aten::unsqueeze",),
    "cat": ("aten::narrow", "aten::slice", "aten::copy_"),
    "concat": ("aten::narrow", "aten::slice"),
    "hstack": ("aten::atleast_1d",), "vstack": ("aten::atleast_2d",), "dstack": ("aten::atleast_3d",),
    "column_stack": ("aten::reshape",), "meshgrid": ("aten::view", "aten::expand"),
    "broadcast_tensors": ("aten::expand",), "block_diag": ("aten::narrow", "aten::copy_"),
    "cartesian_prod": ("aten::flatten", "aten::reshape"), "einsum": ("aten::permute", "aten::bmm", "aten::mul"),
    "tensordot": ("aten::permute",), "linalg_multi_dot": ("aten::mm",), "chain_matmul": ("aten::mm",),
}  # fmt: skip
"""Ops whose lists have the dtype that an op below them was recorded with."""


def with_dtypes(call: Call, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with dtypes in their lists: from other arguments, ops below, or ops nearby."""
    if all(tensor.dtype for one in arguments for tensor in tensors(one.value)):
        return list(arguments)
    prescribed = _prescribed(call, arguments)
    return [_typed(call, one, _FLOATS_ALWAYS.get(one.name, prescribed)) for one in arguments]


def _typed(call: Call, argument: Argument, prescribed: str) -> Argument:
    why = ""

    def typed(tensor: TensorValue, place: int) -> Value:
        nonlocal why
        if tensor.dtype or prescribed:
            return replace(tensor, dtype=tensor.dtype or prescribed)
        if dtype := call.around.dtype_near(tensor.shape):
            why = why or "dtypes in lists are not recorded; that of tensors of these sizes nearby"
            return replace(tensor, dtype=dtype)
        why = "dtypes in lists are not recorded; the one most tensors have"
        return replace(tensor, dtype=call.around.common_dtype)

    found = argument.changed(typed)
    return replace(found, assumed=argument.assumed or why)


def _prescribed(call: Call, arguments: Sequence[Argument]) -> str:
    """The dtype that another argument, or an op below, prescribes to the lists; empty if none does."""
    given = {one.name: one.value.dtype for one in arguments if isinstance(one.value, TensorValue)}
    if "out" in given or call.name in _LIKE_TENSOR:
        return given.get("out") or next(iter(given.values()), "")
    below = (call.around.recorded_of(child) for child in _LIKE_CHILD.get(call.name, ()))
    return next((dtype for one in below if one and one.types and (dtype := torch_dtype(one.types[0]))), "")


# --- the host ------------------------------------------------------------------------------------------------------

_ON_HOST = {
    ("_pack_padded_sequence", "lengths"), ("_pad_packed_sequence", "batch_sizes"),
    ("_pack_padded_sequence_backward", "batch_sizes"), ("lstm", "batch_sizes"), ("gru", "batch_sizes"),
    ("rnn_tanh", "batch_sizes"), ("rnn_relu", "batch_sizes"), ("tensor_split", "tensor_indices_or_sections"),
    ("_cudnn_ctc_loss", "targets"), ("_cudnn_ctc_loss", "input_lengths"), ("_cudnn_ctc_loss", "target_lengths"),
}  # fmt: skip
"""(op, argument) that PyTorch demands on the host."""
_COPIES = {"copy_": "src", "_to_copy": "self", "to": "self"}
"""Ops that copy between host and device -> the argument that is copied."""


def with_hosts(call: Call, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with those tensors on the host that belong there.

    An execution trace has devices. Without one, the kind of a copy below the call does: `Memcpy HtoD`.
    """
    host = {argument for op, argument in _ON_HOST if op == call.name}
    device = ""
    if call.name in _COPIES and len(call.observed) != len(call):
        copies = " ".join(call.around.kernels)
        if "HtoD" in copies or "HostToDevice" in copies:
            device, host = "device", host | {_COPIES[call.name]}
        elif "DtoH" in copies or "DeviceToHost" in copies:
            device, host = "cpu", host | ({"self"} if call.name == "copy_" else set())

    def placed(one: Argument) -> Argument:
        if device and one.type.startswith("Device"):
            return replace(one, value=Named("device", device))
        if one.name not in host and call.has_gpu:
            return one
        return one.changed(lambda tensor, place: replace(tensor, on_cpu=one.name in host))

    return list(map(placed, arguments))


# --- Python's numbers, which are recorded as tensors without dimensions --------------------------------------------

_OF_PYTHON: dict[str, Value] = {"float64": 2.0, "int64": 2, "bool": True, "complex128": complex(2.0, 0.0)}
"""Dtypes that Python's numbers have as tensors, and a number of each that nearly every op can take."""
_BINARY = frozenset((
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "remainder", "fmod", "pow", "float_power",
    "atan2", "arctan2", "hypot", "copysign", "eq", "ne", "lt", "le", "gt", "ge", "less", "greater", "less_equal",
    "greater_equal", "not_equal", "maximum", "minimum", "fmax", "fmin", "max", "min", "where", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "logical_and", "logical_or",
    "logical_xor", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "xlogy", "heaviside", "nextafter",
    "divide", "multiply", "subtract", "ldexp", "result_type", "masked_fill", "fill", "clamp", "clamp_min",
    "clamp_max", "lerp", "special_xlog1py", "special_xlogy", "special_zeta", "gcd", "lcm", "logaddexp",
    "logaddexp2",
))  # fmt: skip
"""Ops that Python's operators, or functions that take a number for a tensor, lead to; in-place forms by plain names."""
_TAKING_NUMBERS = frozenset(
    ("add", "div", "divide", "mul", "multiply", "sub", "subtract", "true_divide", "floor_divide")
)
"""Those to which PyTorch lets one pass a number for a tensor when they are called by overload; to the others a tensor
on the host is passed, which is what PyTorch makes of a number."""


def with_numbers(call: Call, schema: Schema, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with numbers for those tensors that most likely were Python's numbers, as in `x * 2.0`.

    Such a tensor has no dimensions and the dtype of a Python number, is not written, and stands beside one with
    dimensions or of another dtype. Where an execution trace has devices, it is on the host beside one that is not.
    A number is recorded alike, promotes types as it did, and needs no copy to a device.
    """
    name = call.name if call.name.endswith("__") else call.name.removesuffix("_")
    if name not in _BINARY:
        return list(arguments)
    given = [one.value for one in arguments if isinstance(one.value, TensorValue)]
    is_known = len(call.observed) == len(call) and any(one.on_cpu for one in given)
    on_device = is_known and any(not one.on_cpu for one in given)
    kept = schema.written | {_kept(call, arguments)}

    def is_number(one: Argument) -> bool:
        value = one.value
        if not isinstance(value, TensorValue) or value.shape or value.dtype not in _OF_PYTHON or one.name in kept:
            return False
        beside = on_device or any(other.shape or other.dtype != value.dtype for other in given)
        return beside and (value.on_cpu or not is_known)

    def as_number(value: TensorValue) -> Value:
        return _OF_PYTHON[value.dtype] if name in _TAKING_NUMBERS else replace(value, on_cpu=True)

    why = "a Python number, as far as types and sizes show; its value is not recorded"
    return [replace(one, value=as_number(one.value), assumed=why) if is_number(one) else one for one in arguments]


def _kept(call: Call, arguments: Sequence[Argument]) -> str:
    """Name of the operand that stays a tensor where none has dimensions; empty if that need not be said.

    A number beside a tensor of a lower kind makes the result of the default dtype, to which both are cast. Where only
    one is, the tensor has the floating dtype of the result.
    """
    given = {one.name: one.value for one in arguments if isinstance(one.value, TensorValue)}
    if not call.around.is_traced or any(value.shape for value in given.values()):
        return ""
    floating = [name for name, value in given.items() if value.dtype == "float64"]
    return floating[0] if len(floating) == 1 and list(call.around.children).count("aten::to") == 1 else ""


# --- storages ------------------------------------------------------------------------------------------------------

_ALIGNED = 512
"""Bytes to which allocators align storages: offsets are kept within."""
_VIEWS = frozenset({"as_strided", "as_strided_", "as_strided_copy", "as_strided_scatter", "_reinterpret_tensor"})
"""Ops that may view more than the tensor that they are given."""


def with_storages(call: Call, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with storages numbered from 0, those that no two share left out, and large enough for views."""
    users: dict[int, list[TensorValue]] = {}
    for tensor in (one for argument in arguments for one in tensors(argument.value)):
        if tensor.storage is not None and 0 not in tensor.shape:  # all without memory have one number for it
            users.setdefault(tensor.storage, []).append(tensor)
    shared = {storage: at for at, storage in enumerate(s for s, of in users.items() if len(of) > 1)}

    def placed(tensor: TensorValue, place: int) -> TensorValue:
        if tensor.storage is None or tensor.storage not in users or 0 in tensor.shape:
            return tensor if tensor.storage is None else replace(tensor, storage=None, offset=0)
        first = min(one.offset * item_size(one.dtype) for one in users[tensor.storage]) // _ALIGNED * _ALIGNED
        offset = tensor.offset - first // item_size(tensor.dtype)
        return replace(tensor, storage=shared.get(tensor.storage), offset=offset)

    return _reaching(call, [one.changed(placed) for one in arguments])


def _reaching(call: Call, arguments: list[Argument]) -> list[Argument]:
    """The arguments with a storage that is large enough for what the op views."""
    by_name = {one.name: one.value for one in arguments}
    tensor, shape, stride = (by_name.get(name) for name in ("self", "size", "stride"))
    if call.name not in _VIEWS or not (isinstance(tensor, TensorValue) and type(shape) is type(stride) is tuple):
        return arguments
    whole, steps = (tuple(one for one in of if type(one) is int) for of in (shape, stride))
    begin = by_name.get("storage_offset", by_name.get("offset_increment"))
    count = min(len(whole), len(steps))
    viewed = TensorValue(whole[:count], tensor.dtype, steps[:count])
    reach = (begin if type(begin) is int else tensor.offset) + viewed.span
    return [replace(one, value=replace(tensor, reach=reach)) if one.name == "self" else one for one in arguments]


# --- gradients -----------------------------------------------------------------------------------------------------

_DEPENDING = re.compile(
    r"linear|bilinear|matmul|einsum|tensordot|embedding_bag|(lstm|gru|rnn_tanh|rnn_relu)(_cell)?|"
    r"scaled_dot_product_attention|max_pool1d|.*_loss"
)
_FOLDING = re.compile(r"linear|matmul|lstm|gru|rnn_tanh|rnn_relu")
"""Ops that fold dimensions of one operand where the other one needs a gradient, even while gradients are off."""
_NOT_FOLLOWED = frozenset({"weight", "pos_weight", "target", "attn_mask", "per_sample_weights"})
"""Arguments that rarely need a gradient; of some ops, such as losses, they cannot have one."""
_FOLLOWED = re.compile(r"linear|bilinear|embedding_bag")
"""Ops whose weights do."""
_DTYPES = frozenset({"float16", "bfloat16", "float32", "float64", "complex64", "complex128"})


def with_gradients(call: Call, schema: Schema, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with those tensors followed that autograd followed, where that changes what an op calls.

    Nothing records which tensors needed gradients. That autograd followed a call shows in its numbers of nodes, and
    below ops that write in place in a copy of what they overwrite.
    """
    below = list(call.around.children)
    copies = bool(schema.written) and call.name.endswith("_") and below[:1] == ["aten::clone"]
    folds = bool(_FOLDING.fullmatch(call.name)) and "aten::reshape" in below
    if not copies and not folds and not (_DEPENDING.fullmatch(call.name) and call.around.is_followed):
        return list(arguments)
    left_out = _NOT_FOLLOWED - ({"weight"} if _FOLLOWED.fullmatch(call.name) else set())
    return [one if one.name in left_out else one.changed(_followed) for one in arguments]


def _followed(tensor: TensorValue, place: int) -> Value:
    steps = zip(tensor.shape, tensor.strides or (), strict=False)
    overlaps = any(size > 1 and not step for size, step in steps)
    return replace(tensor, grad=tensor.grad or (tensor.dtype in _DTYPES and not overlaps and tensor.is_filled))


# --- views that stand for conjugates -------------------------------------------------------------------------------

_CLONE, _RESOLVES = "aten::clone", "aten::resolve_conj"
_COPIED_FOR = re.compile(
    r"aten::(resolve_conj|(add|sub|rsub|mul|div|pow|addcmul|addcdiv|lerp|where|abs|angle|exp|log|sqrt|reciprocal|sgn|"
    r"sin|cos|tanh|sigmoid|sum|mean|prod|cumsum|vdot|dot)_?|_fft_c2r)"
)
"""Ops that copy an argument for no other reason."""
_OPENS = {"aten::imag": "aten::_conj", "aten::real": "aten::_conj"}
"""Ops that turn such a view back instead, and what they call for that."""


def with_conjugates(call: Call, schema: Schema, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with the complex tensor that was a view of conjugates, if a copy of one shows.

    Nothing records such views. Of several tensors that look alike the last one is taken: derivatives are multiplied by
    a conjugate on the right.
    """
    found, below = list(arguments), call.around.children
    opens = bool(below) and below[0] == _OPENS.get(call.op)
    begins = bool(below) and below[0] == _CLONE and bool(_COPIED_FOR.fullmatch(call.op))
    if not opens and not begins and (_RESOLVES, _CLONE) not in pairwise(below):
        return found
    copied = call.around.recorded_of(_CLONE)
    form = [sizes(part[0]) if part else None for part in (copied.dims, copied.strides)] if copied else [None, None]
    for at, one in reversed(list(enumerate(arguments))):
        value = one.value
        if not isinstance(value, TensorValue) or not value.dtype.startswith("complex") or one.name in schema.written:
            continue
        if value.layout == "strided" and (opens or [value.shape, value.strides] == form):
            found[at] = replace(one, value=replace(value, conj=True))
            break
    return found


# --- modes ---------------------------------------------------------------------------------------------------------

_CAST = "aten::to"
_HALVES = {"c10::BFloat16": "bfloat16", "c10::Half": "float16"}
_WITHOUT_GRADIENTS = re.compile(r"linear|matmul|(lstm|gru|rnn_tanh|rnn_relu)(_cell)?|mkldnn_rnn_layer")
"""Ops that call others where gradients are off though a tensor needs one."""


def modes(call: Call) -> tuple[str, ...]:
    """What PyTorch was in where that changes what it calls: `no_grad`, `below_autograd`, `autocast bfloat16`."""
    found = [f"autocast {dtype}"] if (dtype := autocast(call)) else []
    if _WITHOUT_GRADIENTS.fullmatch(call.name) and call.around.is_without_gradients:
        found.append("no_grad")
    # Autograd has a function of its own for this op, which is recorded below it.
    if call.name == "detach" and call.around.is_traced and not call.around.children:
        found.append("below_autograd")
    return tuple(found)


def autocast(call: Call) -> str:
    """The dtype that autocast casts to; empty where it does not stand above the call.

    It casts some of the arguments, and then calls the op again. Of ops that it casts to float32 alone, no dtype shows;
    these are cast alike with any. Others, such as `einsum`, call an op that is cast.
    """
    children = call.around.children
    if (again := _cast(call.op, call.recorded, call.around.calls_below())) is not None:
        return next((_HALVES[one] for one in again.types if one in _HALVES), "bfloat16")
    for name in [] if call.op in children else [one for one, times in Counter(children).items() if times > 1]:
        recorded = call.around.recorded_of(name)
        again = _cast(name, recorded, call.around.calls_below(name)) if recorded else None
        if again is not None and (halves := [_HALVES[one] for one in again.types if one in _HALVES]):
            return halves[0]
    return ""


def _cast(op: str, recorded: Recorded, below: Sequence[tuple[str, Recorded]]) -> Recorded | None:
    """The arguments with which an op calls itself again, if it does nothing but that and casts."""
    again = [one for name, one in below if name == op]
    if len(again) != 1 or op == _CAST or any(name not in (op, _CAST) for name, _ in below):
        return None
    # With other sizes it is one of a tensor's own kind, such as a part of a distributed one.
    return again[0] if again[0].dims == recorded.dims else None


# --- sparse tensors: a trace has their sizes and dtype alone --------------------------------------------------------

_SHARE = 10
"""One in so many places has an entry."""
_MERGES = "aten::_coalesce"
"""Merges entries at one place; it is called only for tensors that may have several there."""


def filled_sparse(tensor: TensorValue, call: Call) -> TensorValue:
    """A sparse tensor with as many entries as it was made with, if the trace shows that, else a guess."""
    shape = tensor.shape
    options: dict[str, int] = {"entries": max(prod(shape) // _SHARE, min(prod(shape), 1))}
    if tensor.layout == "sparse_coo":
        if made := call.around.sparse_made(shape):
            options["entries"] = made[1]
            if made[0] < len(shape):
                options["dense"] = len(shape) - made[0]
        if _MERGES in (call.op, *call.around.children):
            options["coalesced"] = False
            options["entries"] = max(options["entries"], min(prod(shape), 2))
    return replace(tensor, fill=Fill("normal", options))
