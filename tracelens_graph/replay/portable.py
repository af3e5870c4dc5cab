"""Calls of one vendor's library as the operation of PyTorch that leads to them on its GPUs, and runs on all others.

What such a call is given besides, and what its kernels show, are settings of PyTorch: `cudnn.benchmark=True`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tracelens_graph.categories.kernel_names import parse_name
from tracelens_graph.errors import CannotReplay
from tracelens_graph.execution.arguments import value_text
from tracelens_graph.perf.scalar_types import profiler_type
from tracelens_graph.replay.calls import recorded_at
from tracelens_graph.replay.replay_plan import Argument, Recorded, ReplayPlan, TensorValue, Value, default_of, tensors
from tracelens_graph.replay.schemas import Schema, schemas_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracelens_graph.graph.core import Core

_NO_OTHER = "no operation of all vendors is the same call"

Given = Mapping[str, Value]
"""Arguments of a call by name."""
Source = str | Callable[[Given], Value]
"""Where an argument comes from: another one by name, or what is made of them."""


def _constant(value: Value) -> Source:
    return lambda given: value


def _zeros(given: Given) -> Value:
    padding = given["padding"]
    return (0,) * len(padding) if isinstance(padding, tuple) else 0


def _channels(given: Given) -> Value:
    shape = _tensor(given["self"]).shape
    return shape[1] if len(shape) > 1 else 1


def _tensor(value: Value) -> TensorValue:
    if not isinstance(value, TensorValue):
        raise CannotReplay(_NO_OTHER)
    return value


def _swapped(name: str, given: Given) -> Value:
    """A tensor with its dimensions of heads and of tokens exchanged."""
    tensor = _tensor(given[name])
    if len(tensor.shape) != 4:
        raise CannotReplay(_NO_OTHER)

    def swap(of: tuple[int, ...]) -> tuple[int, ...]:
        return of[0], of[2], of[1], of[3]

    steps = tensor.strides
    if steps is None:
        sizes = tensor.shape
        steps = (sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1)
    return replace(tensor, shape=swap(tensor.shape), strides=swap(steps))


def _shares_heads(query: Source, key: Source, given: Given) -> Value:
    heads = [_tensor(_value(of, given)).shape[1] for of in (query, key)]
    return heads[0] != heads[1]


def _is_causal(given: Given) -> Value:
    if given["custom_mask_type"] not in (0, 1):
        raise CannotReplay(_NO_OTHER)
    return given["custom_mask_type"] == 1


def _states(given: Given) -> Value:
    """Hidden and cell states of an LSTM, the hidden ones of all else."""
    return given["hx"] if given.get("cx") is None else (given["hx"], given["cx"])


def _value(source: Source, given: Given) -> Value:
    return given[source] if isinstance(source, str) else source(given)


_NO: Source = _constant(None)
_CONVOLUTION: Mapping[str, Source] = {"input": "self", "transposed": _constant(False), "output_padding": _zeros}
_NORM: Mapping[str, Source] = {"momentum": "exponential_average_factor", "eps": "epsilon",
                               "cudnn_enabled": _constant(True)}  # fmt: skip
_OF_NORM: Mapping[str, Source] = {"training": "train", "momentum": _constant(0.1), "bias": "weight"}
_OF_VENDORS_NORM: Mapping[str, Source] = {**_OF_NORM, "training": _constant(True), "eps": "epsilon",
                                          "cudnn_enabled": _constant(True)}  # fmt: skip
_HEADS_FIRST: Mapping[str, Source] = {"attn_mask": "attn_bias", "enable_gqa": partial(_shares_heads, "query", "key")}
_SWAPPED = {name: partial(_swapped, name) for name in ("query", "key", "value")}
_TOKENS_FIRST: Mapping[str, Source] = {
    **_SWAPPED, "attn_mask": "attn_bias", "enable_gqa": partial(_shares_heads, _SWAPPED["query"], _SWAPPED["key"]),
}  # fmt: skip
_LAYERS: Mapping[str, Source] = {
    "hx": _states, "params": "weight",
    "has_biases": lambda given: given["weight_stride0"] == 4 + bool(given.get("proj_size")),
}  # fmt: skip
_ATTENTION = "scaled_dot_product_attention"

_OTHERS: tuple[tuple[str, str, Mapping[str, Source], Sequence[str]], ...] = (
    ("(cudnn|miopen|mkldnn)_convolution", "convolution", _CONVOLUTION, ()),
    ("(cudnn|miopen)_convolution_transpose", "convolution", {"input": "self", "transposed": _constant(True)}, ()),
    ("miopen_depthwise_convolution", "convolution", _CONVOLUTION, ()),
    ("_conv_depthwise2d|conv_depthwise3d", "convolution", {**_CONVOLUTION, "groups": _channels}, ()),
    ("(cudnn|miopen)_batch_norm", "batch_norm", _NORM, ()),
    ("(cudnn|miopen)_batch_norm_backward", "batch_norm", _OF_VENDORS_NORM, ()),
    ("native_batch_norm_backward", "native_batch_norm", _OF_NORM, ()),
    ("_scaled_dot_product_(flash|efficient|cudnn|fused)_attention(_overrideable|_for_cpu)?", _ATTENTION,
     _HEADS_FIRST, ()),
    ("_(flash|cudnn)_attention_forward", _ATTENTION, _TOKENS_FIRST,
     ("cum_seq_q", "cum_seq_k", "window_size_left", "window_size_right", "seqused_k", "alibi_slopes", "block_table")),
    ("_efficient_attention_forward", _ATTENTION,
     {**_TOKENS_FIRST, "attn_mask": "bias", "is_causal": _is_causal},
     ("cu_seqlens_q", "cu_seqlens_k", "seqlen_k", "window_size")),
    ("_scaled_dot_product_(flash|cudnn|fused)_attention(_overrideable|_for_cpu)?_backward", _ATTENTION,
     _HEADS_FIRST, ("attn_bias",)),
    ("_scaled_dot_product_efficient_attention_backward", _ATTENTION, _HEADS_FIRST, ("attn_bias",)),
    ("_(flash|cudnn)_attention_backward", _ATTENTION, _TOKENS_FIRST,
     ("cum_seq_q", "cum_seq_k", "window_size_left", "window_size_right", "attn_bias")),
    ("_efficient_attention_backward", _ATTENTION,
     {**_TOKENS_FIRST, "attn_mask": "bias", "is_causal": _is_causal},
     ("bias", "cu_seqlens_q", "cu_seqlens_k", "window_size")),
    ("(_cudnn|miopen)_rnn(_backward)?", "", _LAYERS, ()),
)  # fmt: skip
"""Pattern of names, what stands for these calls, where its arguments come from that have other names there or do not
exist, and arguments that must not be given, as nothing stands for them. Sources: the functions of PyTorch that call
them (`Convolution.cpp`, `Normalization.cpp`, `transformers/attention.cpp`, `RNN.cpp`)."""

_RNNS = ("rnn_relu", "rnn_tanh", "lstm", "gru")
"""By the number of the mode in cuDNN and MIOpen."""


def portable(plan: ReplayPlan, core: Core) -> ReplayPlan:
    """The plan of a call that runs on the GPUs of every vendor, under the settings that the trace shows.

    Args:
        plan: the call as it was traced, with its kernels.
        core: its trace.

    Returns:
        The same call, if it is of no vendor's library, or no operation of all vendors is the same.
    """
    given: Given = {one.name: one.value for one in plan.arguments}
    for pattern, op, sources, refused in _OTHERS:
        if re.fullmatch(pattern, plan.op.removeprefix("aten::")) and all(given.get(one) is None for one in refused):
            try:
                found = _converted(plan, _schema(op, given), sources, given)
            except CannotReplay:
                continue
            modes = () if found.gradient else plan.modes
            return replace(found, modes=(*modes, *_settings(plan, core, given)))
    return replace(plan, modes=(*plan.modes, *_settings(plan, core, given)))


def _schema(op: str, given: Given) -> Schema:
    """The newest schema of what stands for a call."""
    if op:
        return schemas_of(f"aten::{op}")[0]
    mode = given["mode"]
    if type(mode) is not int or not 0 <= mode < len(_RNNS) or given.get("batch_sizes"):
        raise CannotReplay(_NO_OTHER)
    return next(one for one in schemas_of(f"aten::{_RNNS[mode]}") if one.overload == "input")


def _converted(plan: ReplayPlan, schema: Schema, sources: Mapping[str, Source], given: Given) -> ReplayPlan:
    assumed = {one.name: one.assumed for one in plan.arguments}
    arguments = []
    for one in schema.parameters:
        source = sources.get(one.name, one.name)
        missing = isinstance(source, str) and source not in given
        value = default_of(one) if missing else _value(source, given)
        arguments.append(Argument(one.name, one.declared, value, assumed.get(one.name, "")))
    positional = sum(not one.is_keyword for one in schema.parameters)
    gradient: tuple[TensorValue | None, ...] = ()
    if plan.op.endswith("_backward"):
        arguments = [_followed(one) if one.name in _FOLLOWED else one for one in arguments]
        swap = sources.get("query") == _SWAPPED["query"]
        gradient = tuple(_result_gradient(name, swap, given) for name in _GRADIENTS if name in given)
    return replace(
        plan, op=schema.op, overload=schema.overload, schema=schema.text, positional=tuple(arguments[:positional]),
        keyword=tuple(arguments[positional:]), recorded=plan.recorded if gradient else as_recorded(arguments),
        gradient=gradient,
        traced=replace(plan.traced, within=plan.op),
    )  # fmt: skip


_GRADIENTS = ("grad_out", "grad_out_", "grad_output", "grad_hy", "grad_cy")
"""Arguments of gradients that are gradients of the results of the operation, in the order of these."""
_FOLLOWED = frozenset({"query", "key", "value", "input", "weight", "bias", "hx", "params"})
"""Arguments of operations that gradients are of."""


def _followed(one: Argument) -> Argument:
    """The argument with its tensors followed by autograd."""
    return one.changed(lambda tensor, _: replace(tensor, grad=True))


def _result_gradient(name: str, is_swapped: bool, given: Given) -> TensorValue | None:
    if given[name] is None:
        return None
    found = _swapped(name, given) if is_swapped else given[name]
    return replace(_tensor(found), grad=False, storage=None)


def as_recorded(arguments: Sequence[Argument]) -> Recorded:
    """Arguments as the profiler writes them."""
    parts = list(zip(*map(_as_recorded, arguments), strict=True)) or [()] * 4
    return Recorded(*map(tuple, parts))


def _as_recorded(one: Argument) -> tuple[object, str, object, str]:
    """Sizes, type, strides and value."""
    value = one.value
    if isinstance(value, TensorValue):
        return value.shape, profiler_type(value.dtype), value.strides or (), ""
    if isinstance(value, tuple) and (of := list(tensors(value))):
        return tuple(of.shape for of in of), "TensorList", tuple(of.strides or () for of in of), ""
    if isinstance(value, tuple):
        return (), "ScalarList", (), value_text(list(value))
    return ((), "", (), "") if value is None else ((), "Scalar", (), value_text(value))


# --- settings ------------------------------------------------------------------------------------------------------

_FLAGS = {"benchmark": True, "deterministic": True, "allow_tf32": False}
"""Settings of cuDNN and MIOpen that are arguments of convolutions, and the value that PyTorch does not start with."""
_LIBRARY = re.compile(r"conv|rnn|lstm|gru")
"""Names of operations that read them."""
_ROUNDED = re.compile("tf32|xf32|_S_MX_")
_TELLING = re.compile(r"aten::(_convolution|(cudnn|miopen)_(depthwise_)?convolution(_transpose)?)")


def _settings(plan: ReplayPlan, core: Core, given: Given) -> Iterator[str]:
    """Settings of PyTorch that the call ran under, where they are not those that it starts with."""
    is_float = any(one.dtype == "float32" for argument in plan.arguments for one in tensors(argument.value))
    if _LIBRARY.search(plan.op):
        of_trace = core.once(_flags)
        for name, value in _FLAGS.items():
            if given.get(name, of_trace.get(name)) is value and (is_float or name != "allow_tf32"):
                yield f"cudnn.{name}={value}"
    elif is_float and any(map(_is_rounded, plan.traced.kernels)):
        yield "cuda.matmul.allow_tf32=True"


def _is_rounded(kernel: str) -> bool:
    """Whether a kernel takes float32 rounded to TF32; Tensile's names say `MX` where its unit does that."""
    return bool(_ROUNDED.search(kernel)) or ((parsed := parse_name(kernel)) is not None and parsed.dtype == "tf32")


def _flags(core: Core) -> dict[str, bool]:
    """Flags that all convolutions of a trace were called with, as gradients do not show theirs."""
    found: dict[str, set[str]] = {}
    c = core.columns
    for code in [code for code, name in enumerate(core.names) if _TELLING.fullmatch(name)]:
        rows = (c.name == code).nonzero()[0]
        firsts = {int(c.argset[row]): int(row) for row in rows.tolist()}
        for first in firsts.values():
            recorded = recorded_at(core, first)
            names = next(
                (one.names for one in schemas_of(core.names[code]) if len(one.names) == len(recorded.types)), ()
            )
            for name, value in zip(names, recorded.values, strict=False):
                if name in _FLAGS and value in ("True", "False"):
                    found.setdefault(name, set()).add(value)
    return {name: values == {"True"} for name, values in found.items() if len(values) == 1}
