"""Where an instruction comes from in the Python program, read from its `op_name`.

JAX writes the names of scopes, of functions and of what transformed them: `jit(step)/transpose(jvp(mlp))/dot_general`
is the backward pass of a product in `jax.named_scope("mlp")`, which Flax opens for each of its modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from itertools import takewhile
from typing import NamedTuple


class Pass(Enum):
    """Which part of a training step an instruction belongs to."""

    forward = "forward"
    backward = "backward"
    recompute = "recompute"


class Origin(NamedTuple):
    """Where an instruction comes from.

    Attributes:
        scopes: named scopes around it, the outermost first.
        part: which pass it belongs to; everything outside of differentiation is forward.
        primitive: what it does in JAX, such as `dot_general`.
    """

    scopes: tuple[str, ...]
    part: Pass
    primitive: str


_FUNCTION = re.compile(r"(?:jit|pjit|pmap|xmap|shard_map|core_call|xla_call|name|custom_\w+)\(.*\)", re.DOTALL)
"""Functions that were compiled or called, which are no scopes."""

_TRANSFORMED = re.compile(r"(jvp|transpose|vmap|linearize|remat|checkpoint)\((.*)\)", re.DOTALL)

_REMATTED = "rematted_computation"
_WORDS = frozenset(
    f"{_REMATTED} checkpoint remat remat2 while body cond scan closed_call core_call pjit shard_map custom_jvp_call "
    "custom_vjp_call custom_vjp_call_jaxpr custom_lin xla_call run_scoped main".split()
)
_BRANCH = re.compile(r"branch_\d+_fun")
"""Parts of a name that JAX writes for control flow and the like."""

_MOST_PARTS = 64
"""Parts of a name that are read."""

_MOST_TRANSFORMATIONS = 32
"""Transformations of a part that are looked through; real names have three or four."""


def origin_of(op_name: str) -> Origin:
    """Where an instruction comes from. Of a name joined of several by `;` the first counts.

    >>> origin_of("jit(step)/transpose(jvp(layer_0))/mlp/dot_general")
    Origin(scopes=('layer_0', 'mlp'), part=<Pass.backward: 'backward'>, primitive='dot_general')
    >>> origin_of("w['kernel']").scopes
    ()
    """
    parts = _parts(op_name)
    if len(parts) < 2:
        return Origin((), Pass.forward, "")
    part = Pass.forward
    scopes: list[str] = []
    for text in parts[:-1]:
        if text == _REMATTED:
            part = Pass.recompute
        for _ in range(_MOST_TRANSFORMATIONS):
            if not (found := _TRANSFORMED.fullmatch(text)):
                break
            if found[1] == "transpose":
                part = Pass.backward
            text = found[2]
        # What is differentiated a second time, as under checkpointing, is named again: transpose(jvp(a))/jvp(a)/..
        if text and not _is_word(text) and scopes[-1:] != [text]:
            scopes.append(text)
    return Origin(tuple(scopes), part, parts[-1])


def common_origin(origins: Iterable[Origin]) -> Origin:
    """Where a call of several instructions comes from: the scopes that hold all of them, and their pass if it is one.

    >>> common_origin(map(origin_of, ("jit(f)/jvp(a)/b/mul", "jit(f)/jvp(a)/c/dot_general")))
    Origin(scopes=('a',), part=<Pass.forward: 'forward'>, primitive='')
    """
    known = list(origins)
    parts = {one.part for one in known}
    levels = takewhile(lambda level: len(set(level)) == 1, zip(*(one.scopes for one in known), strict=False))
    return Origin(tuple(level[0] for level in levels), parts.pop() if len(parts) == 1 else Pass.forward, "")


def _is_word(text: str) -> bool:
    # `->` stands in the text of an einsum, for which JAX opens a scope.
    return text in _WORDS or "->" in text or bool(_FUNCTION.fullmatch(text) or _BRANCH.fullmatch(text))


def _parts(op_name: str) -> list[str]:
    """Parts of a name, which slashes outside of brackets separate."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(op_name):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth = max(depth - 1, 0)
        elif depth == 0 and letter in "/;":
            parts.append(op_name[begin:at])
            begin = at + 1
            if letter == ";" or len(parts) == _MOST_PARTS:
                return parts
    return [*parts, op_name[begin:]]
