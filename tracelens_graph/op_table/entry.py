"""What the table says of an op, and how its rows are written."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model in plain values: nothing of its family is imported until somebody needs the model.

    Attributes:
        family: module in `tracelens_graph.perf.families`.
        reader: what reads the arguments of a call there: a class, made with the parameters, or a function, which takes
            them as keywords; or a formula that takes tensors.
        parameters: names and values, sorted by name.
        tensors: positions of the tensors that a formula takes; None for a reader of the whole call.
    """

    family: str
    reader: str
    parameters: tuple[tuple[str, Hashable], ...] = ()
    tensors: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class OpEntry:
    """What is known of an op by its name.

    Attributes:
        category: in TraceLens's vocabulary; None where the name alone does not show it.
        model: what a call should cost; None if there is no model.
        sheet: table by family in which calls are shown, such as `GEMM` or `CONV_bwd`; "" without a model.
        backward: what the backward pass of a call should cost; None if no formula is known.
        in_tracelens: whether TraceLens has a model of the op. Only then does ours claim GPU events, so that both tools
            give every event to the same op.
        is_part: whether it is an op made for a part of fused work (`pseudo`), which has the events of that part.
    """

    category: str | None = None
    model: ModelSpec | None = None
    sheet: str = ""
    backward: ModelSpec | None = None
    in_tracelens: bool = False
    is_part: bool = False


Rows = list[tuple[str, OpEntry]]
"""Names of ops, and what is known of each."""


def model(reader: str, *, tensors: tuple[int, ...] | None = None, **parameters: Hashable) -> ModelSpec:
    """A model: `model("gemm.Product", weight=True, out=4)`, `model("training.cross_entropy", tensors=(0, 1))`.

    Args:
        reader: the family's module and a class or function in it, joined by a dot.
        tensors: of a formula, the positions of the tensors that it takes.
        parameters: its parameters.
    """
    family, _, name = reader.partition(".")
    return ModelSpec(family, name, tuple(sorted(parameters.items())), tensors)


def ops(
    *names: str,
    category: str | None = None,
    model: ModelSpec | None = None,
    sheet: str = "",
    backward: ModelSpec | None = None,
    in_tracelens: bool = False,
    is_part: bool = False,
) -> Rows:
    """Rows of ops that have the same facts; see `OpEntry`."""
    entry = OpEntry(category, model, sheet, backward, in_tracelens, is_part)
    return [(name, entry) for name in names]
