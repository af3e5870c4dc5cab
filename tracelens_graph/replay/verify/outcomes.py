"""How a replayed call compares with the call of the trace that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.replay.verify.observed import Observed, as_tuples

EQUAL, OTHER, UNKNOWN = "equal", "other", "not compared"

_PARTS = {"types": "type", "dims": "sizes", "strides": "strides", "values": "value"}
"""Attributes of `Recorded`, and what one entry of them is called."""
_LONGEST = 60
"""Characters of a value that a difference shows."""


@dataclass(frozen=True)
class Outcome:
    """How a call compares.

    Attributes:
        outcome: one of `replay.tables.OUTCOMES`.
        arguments, children, kernels: `equal`, `other`, or `not compared`; empty where the call did not run.
        why: what differs, or why it did not run, in one line.
    """

    outcome: str
    arguments: str = ""
    children: str = ""
    kernels: str = ""
    why: str = ""


def compared(plan: ReplayPlan, seen: Observed, on_gpu: bool) -> Outcome:
    """Hold a replayed call against what the trace says of the traced one.

    Ops below it and kernels are compared if both ran on a GPU, or neither did.

    Args:
        plan: the call, with what was recorded of it.
        seen: the replayed call.
        on_gpu: whether it ran on a GPU.
    """
    traced = plan.traced
    is_same_kind = on_gpu == bool(traced.kernels or traced.gpu)
    is_told = is_same_kind and traced.uid >= 0
    in_arguments = _differing_arguments(plan, seen)
    in_children = _differing_names(traced.children, seen.children, "op") if is_told else ""
    in_kernels = _differing_names(traced.kernels, seen.kernels, "kernel") if is_told and on_gpu else ""
    told = (
        OTHER if in_arguments else EQUAL,
        (OTHER if in_children else EQUAL) if is_told else UNKNOWN,
        (OTHER if in_kernels else EQUAL) if is_told and on_gpu else UNKNOWN,
    )
    if in_arguments:
        return Outcome("other arguments", *told, in_arguments)
    if in_children:
        return Outcome("other children", *told, in_children)
    if in_kernels:
        return Outcome("other kernel", *told, in_kernels)
    assumed = "; ".join(plan.assumed)
    if not is_same_kind:
        return Outcome("equal arguments", *told, assumed)
    return Outcome("equal but assumed" if assumed else "equal", *told, assumed)


def _differing_arguments(plan: ReplayPlan, seen: Observed) -> str:
    if plan.op != seen.name:
        return f"{seen.name} ran"
    return next(
        (
            difference
            for part, word in _PARTS.items()
            if (difference := _differing_part(getattr(plan.recorded, part), getattr(seen.recorded, part), word, plan))
        ),
        "",
    )


def _differing_part(expected: Sequence[Any], found: Sequence[Any], word: str, plan: ReplayPlan) -> str:
    """The first entry that differs; nothing where the trace has none at all."""
    if not expected:
        return ""
    wanted, there = as_tuples(expected), as_tuples(found)
    if len(wanted) != len(there):
        return f"{len(there)} arguments are recorded, not {len(wanted)}"
    names = [one.name for one in plan.arguments]
    for at, (want, have) in enumerate(zip(wanted, there, strict=True)):
        if want != have:
            name = names[at] if at < len(names) else f"argument {at + 1}"
            return f"{word} of {name}: {_text(have)}, not {_text(want)}"
    return ""


def _differing_names(expected: Sequence[str], found: Sequence[str], word: str) -> str:
    """The first place at which two sequences of names part."""
    for at, (want, have) in enumerate(zip(expected, found, strict=False)):
        if want != have:
            return f"{word} {at + 1} of {len(expected)}: {_text(have)}, not {_text(want)}"
    if len(expected) != len(found):
        longer, verb = (expected, "is missing") if len(expected) > len(found) else (found, "is too many")
        return f"{word} {min(len(expected), len(found)) + 1}: {_text(longer[min(len(expected), len(found))])} {verb}"
    return ""


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else str(_as_lists(value))
    text = text or "nothing"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _as_lists(value: Any) -> Any:
    return [_as_lists(one) for one in value] if isinstance(value, tuple) else value
