"""Strings among arguments, which the profiler does not record: what child ops or kernels tell of them, else a guess."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracelens_graph.replay.call import Call


class Choice(NamedTuple):
    """A rule for one string.

    Attributes:
        op: pattern of the op's whole name, without namespace.
        parameter: name of the parameter.
        signs: (pattern, value): the first one whose pattern is found among the names of child ops and kernels tells.
        else_: what is assumed without a sign.
    """

    op: str
    parameter: str
    signs: tuple[tuple[str, str | None], ...]
    else_: str | None


_REDUCTIONS = (
    ("ReduceMean|::div_|true_divide", "mean"), ("ReduceMultiply|::prod|::mul", "prod"), ("ReduceMaximum|amax", "amax"),
    ("ReduceMinimum|amin", "amin"), ("ReduceAdd|scatter_add", "sum"),
)  # fmt: skip

CHOICES = (
    Choice(
        "pad",
        "mode",
        (
            ("constant_pad", "constant"),
            ("reflection_pad", "reflect"),
            ("replication_pad", "replicate"),
            ("_pad_circular|circular", "circular"),
        ),
        "constant",
    ),
    Choice(
        "gelu_?(backward)?(_backward)?",
        "approximate",
        (
            (r"Gelu\w*KernelImpl\(.*lambda\(\)#1", "tanh"),
            (r"Gelu\w*KernelImpl\(.*lambda\(\)#2", "none"),
        ),
        "none",
    ),
    Choice(
        "(div|divide)_?",
        "rounding_mode",
        (("div_floor|floor_div", "floor"), ("div_trunc", "trunc"), ("div_true|DivFunctor", None)),
        "floor",
    ),
    Choice("scatter_reduce_?", "reduce", _REDUCTIONS, "sum"),
    Choice("index_reduce_?", "reduce", _REDUCTIONS, "prod"),
    Choice("_?segment_reduce(_backward)?", "reduce", (), "sum"),
    Choice("scatter_?", "reduce", (("ReduceMultiply|multiply", "multiply"), ("ReduceAdd", "add")), "add"),
    Choice("meshgrid", "indexing", (("::(transpose|swap|swapaxes)", "xy"),), "ij"),
    Choice("_linalg_check_errors", "api_name", (), "replay"),
    Choice("_assert_(async|scalar)|_functional_assert_(async|scalar)", "assert_msg", (), "replay"),
    Choice("linalg_norm", "ord", (("svd", "nuc"),), "fro"),
    Choice("linalg_matrix_norm", "ord", (("svd", "nuc"),), "fro"),
    Choice("linalg_cond", "p", (("svd", "nuc"),), "fro"),
    Choice("conv[123]d|_convolution_mode", "padding", (("::constant_pad|::pad", "same"),), "valid"),
)
"""What is known of strings; the first choice whose op and parameter match counts."""

_COMPILED = [(re.compile(one.op), one) for one in CHOICES]


class NoStringError(Exception):
    """Nothing is known of a string that must be given."""


def choose_string(call: Call, parameter: str, default: str | None, has_default: bool) -> tuple[str | None, str]:
    """A string that was not recorded, and why it was chosen; no reason where the trace tells.

    Args:
        call: the call.
        parameter: name of the parameter.
        default: what the schema has as default.
        has_default: whether it has one.

    Raises:
        NoStringError: the schema has no default, and no rule is known.
    """
    name = call.op.partition("::")[2]
    for pattern, choice in _COMPILED:
        if choice.parameter == parameter and pattern.fullmatch(name):
            evidence = [*call.around.children, *call.around.kernels]
            for sign, value in choice.signs:
                if any(re.search(sign, one) for one in evidence):
                    return value, ""
            return choice.else_, "strings are not recorded, and nothing below the call tells"
    if has_default:
        return default, "strings are not recorded; this is the default"
    raise NoStringError
