"""What a performance model is: functions from arguments to costs, and where their results are shown.

Models of times predict them by something other than the roofline, such as a simulator of the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import Cost

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture


@dataclass(frozen=True)
class CallContext:
    """What a model may know of a call beside its arguments.

    Attributes:
        kernels: names of the GPU events of the call, in the order of their launches.
        annotation: text of the innermost annotation around the call; serving engines write their batches there.
        forward: of a backward op, the arguments of the forward op that it belongs to.
        inside: the ops below that the model wants to see (`looks_inside`) -> arguments of the first of each name.
        grids: where it wants these, kernels below and their grids in blocks, None where not recorded.

    Of an op made for a part of fused work, `inside` and `grids` are what is below the fused op.
    """

    kernels: tuple[str, ...] = ()
    annotation: str = ""
    forward: Arguments | None = None
    inside: Mapping[str, Arguments] = field(default_factory=dict)
    grids: tuple[tuple[str, tuple[int, ...] | None], ...] = ()


Estimate = Callable[[Arguments, CallContext], Cost]
"""The cost of a call. Raises CannotModel where the model does not apply."""

_Reader = TypeVar("_Reader", bound=Callable[..., Any])


def looks_at_context(reader: _Reader) -> _Reader:
    """Mark an estimate, or a class of estimates, that depends on the context (`OpModel.uses_context`)."""
    reader.uses_context = True  # type: ignore[attr-defined]
    return reader


def looks_inside(*ops: str, grids: bool = False) -> Callable[[_Reader], _Reader]:
    """Mark an estimate that depends on the context, on arguments of ops below the call among it.

    Args:
        ops: names of the ops below that it wants to see.
        grids: whether it wants to see the grids of kernels.
    """

    def marked(reader: _Reader) -> _Reader:
        reader.inside, reader.grids = ops, grids  # type: ignore[attr-defined]
        return looks_at_context(reader)

    return marked


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
    inside: tuple[str, ...] = ()
    grids: bool = False

    @property
    def sheets(self) -> tuple[str, ...]:
        """Tables in which its calls and their backward passes are shown; none if it has no table."""
        return sheets_of(self.sheet, self.backward is not None)


def sheets_of(sheet: str, has_backward: bool) -> tuple[str, ...]:
    """A table by family, and of `X_fwd` with a formula for the backward pass also `X_bwd`; none for ""."""
    if not sheet:
        return ()
    forward = sheet.removesuffix("_fwd")
    return (sheet, f"{forward}_bwd") if has_backward and forward != sheet else (sheet,)


@dataclass(frozen=True)
class Work:
    """What a call has to do, as a performance model sees it.

    Attributes:
        op: name of the op, as the row says.
        cost: operations, bytes, precision, and in `params` the sizes that they follow from.
        backward: whether it is a backward pass, costed by what is known of the forward op.
    """

    op: str
    cost: Cost
    backward: bool = False


@dataclass(frozen=True)
class TimeModel:
    """A prediction of the time that work takes on a device.

    Attributes:
        label: how the columns are called: `<label> Time (µs)` and `Pct <label>`.
        time_us: the time in us; None, or CannotModel raised, where the model does not apply. The device is None if
            none was named.
    """

    label: str
    time_us: Callable[[Work, Architecture | None], float | None]
