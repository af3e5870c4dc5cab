"""What a performance model is: functions from arguments to costs, and where their results are shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import Cost


@dataclass(frozen=True)
class Context:
    """What a model may know of a call beside its arguments.

    Attributes:
        kernels: names of the GPU events of the call, in the order of their launches.
        annotation: text of the innermost annotation around the call; serving engines write their batches there.
        forward: of a backward op, the arguments of the forward op that it belongs to.
    """

    kernels: tuple[str, ...] = ()
    annotation: str = ""
    forward: Arguments | None = None


Estimate = Callable[[Arguments, Context], Cost]
"""The cost of a call. Raises CannotModel where the model does not apply."""


@dataclass(frozen=True)
class OpModel:
    """The model of an operation.

    Attributes:
        estimate: the cost of a call of the op itself.
        sheet: table in which it is shown, such as `GEMM` or `CONV_bwd`.
        backward: the cost of the backward pass that belongs to a call of this op; None if no formula is known.
        uses_context: whether the estimate depends on the context, so that it is made per call and not per signature.
        claims: whether the GPU events below the op are given to it where each has one op; if not, the op has those
            that it would have without a model, and the model only says what they should cost.
    """

    estimate: Estimate
    sheet: str
    backward: Estimate | None = None
    uses_context: bool = False
    claims: bool = True
