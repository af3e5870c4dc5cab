"""Modes that PyTorch was in during a call, where they change what it calls: autocast, gradients off."""

from __future__ import annotations

import re

from tracelens_graph.replay.call import Call

_CAST = "aten::to"
_HALVES = {"c10::BFloat16": "bfloat16", "c10::Half": "float16"}
_WITHOUT_GRADIENTS = re.compile(r"linear|matmul|(lstm|gru|rnn_tanh|rnn_relu)(_cell)?|mkldnn_rnn_layer")
"""Ops that call others where gradients are off though a tensor needs one."""


def modes(call: Call) -> tuple[str, ...]:
    """What PyTorch was in: `no_grad`, `below_autograd`, `autocast bfloat16`."""
    found = []
    if dtype := autocast(call):
        found.append(f"autocast {dtype}")
    name = call.op.partition("::")[2]
    if _WITHOUT_GRADIENTS.fullmatch(name) and call.around.is_without_gradients:
        found.append("no_grad")
    # Autograd has a function of its own for this op, which is recorded below it.
    if name == "detach" and call.around.is_traced and not call.around.children:
        found.append("below_autograd")
    return tuple(found)


def autocast(call: Call) -> str:
    """The dtype that autocast casts to; empty where it does not stand above the call.

    It casts some of the arguments, and then calls the op again. Of ops that it casts to float32 alone, no dtype shows;
    these are cast alike with any.
    """
    below = call.around.calls_below()
    again = [recorded for name, recorded in below if name == call.op]
    if len(again) != 1 or call.op == _CAST or any(name not in (call.op, _CAST) for name, _ in below):
        return ""
    if again[0].dims != call.recorded.dims:
        return ""  # one of a tensor's own kind, such as a part of a distributed one
    return next((_HALVES[one] for one in again[0].types if one in _HALVES), "bfloat16")
