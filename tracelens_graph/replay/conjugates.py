"""Views that stand for conjugates: nothing records them, but ops that cannot read them copy them first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from tracelens_graph.replay.arguments import Argument, TensorValue
from tracelens_graph.replay.call import Call
from tracelens_graph.replay.recorded_values import sizes
from tracelens_graph.replay.schemas import Schema

_COPY = "aten::clone"
_COPIED_FOR = re.compile(
    r"aten::(resolve_conj|(add|sub|rsub|mul|div|pow|addcmul|addcdiv|lerp|where|abs|angle|exp|log|sqrt|reciprocal|sgn|"
    r"sin|cos|tanh|sigmoid|sum|mean|prod|cumsum|vdot|dot)_?|_fft_c2r)"
)
"""Ops that copy an argument for no other reason."""
_RESOLVES = "aten::resolve_conj"
_OPENS = {"aten::imag": "aten::_conj", "aten::real": "aten::_conj"}
"""Ops that turn such a view back instead, and what they call for that."""


def with_conjugates(call: Call, schema: Schema, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with the complex tensor that was such a view, if a copy of one shows.

    Of several tensors that look alike the last one is taken: derivatives are multiplied by a conjugate on the right.
    """
    found, below = list(arguments), call.around.children
    written = {one.name for one in schema.parameters if one.is_written}
    able = {at: one for at, one in enumerate(arguments) if _is_complex(one) and one.name not in written}
    if not able or not below:
        return found
    opens = below[0] == _OPENS.get(call.op)
    if not opens and not _is_copied(call.op, below):
        return found
    copied = call.around.recorded_of(_COPY)
    shape = sizes(copied.dims[0]) if copied and copied.dims else None
    strides = sizes(copied.strides[0]) if copied and copied.strides else None
    for at, argument in reversed(able.items()):
        value = argument.value
        if isinstance(value, TensorValue) and (opens or (value.shape, value.strides) == (shape, strides)):
            found[at] = replace(argument, value=replace(value, conj=True))
            break
    return found


def _is_complex(one: Argument) -> bool:
    return (
        isinstance(one.value, TensorValue) and one.value.dtype.startswith("complex") and one.value.layout == "strided"
    )


def _is_copied(op: str, below: Sequence[str]) -> bool:
    """Whether the call begins with a copy, or one stands where views of conjugates are resolved."""
    if below[0] == _COPY and _COPIED_FOR.fullmatch(op):
        return True
    return any(one == _RESOLVES and next_ == _COPY for one, next_ in pairwise(below))
