"""Running a plan in this process, with the PyTorch that is installed."""

from __future__ import annotations

from functools import partial
from typing import Any

from tracelens_graph.errors import CannotReplay, NoTorchError
from tracelens_graph.replay.plan_json import value_json
from tracelens_graph.replay.replay_plan import ReplayPlan, Value

_NO_SUCH = "the installed PyTorch has no such operator"
_REMEDY = "the version of PyTorch that recorded the trace"


def run(plan: ReplayPlan, device: str | None = None) -> Any:
    """Call the planned operation once.

    Args:
        plan: the plan.
        device: such as `cuda`; by default a GPU where there is one.

    Returns:
        What the operation returns.

    Raises:
        CannotReplay: the installed PyTorch has no such operator, or not with these parameters; or it is a kernel whose
            source the trace does not have.
        NoTorchError: PyTorch is not installed.
        RuntimeError: PyTorch refuses the call.
        ImportError: a module that registers a custom operation is not installed.
    """
    return prepared(plan, device)()


def prepared(plan: ReplayPlan, device: str | None = None) -> partial[Any]:
    """The call that `run` makes, with its arguments made and yet to be called.

    Raises:
        CannotReplay, NoTorchError: as `run`.
    """
    if plan.launch is not None:
        raise CannotReplay("the source of the kernel is not in the trace", "a program of it, and its source beside it")
    try:
        import torch
    except ImportError as error:
        raise NoTorchError from error
    from tracelens_graph.replay.program import measure, values

    try:
        function = measure.operator({"op": plan.op, "overload": plan.overload, "imports": plan.imports})
    except (AttributeError, TypeError):
        raise CannotReplay(_NO_SUCH, _REMEDY) from None
    positional, keyword = plan.given
    known = {one.name for one in function._schema.arguments}
    if lacking := [one.name for one in (*positional, *keyword) if one.name not in known]:
        raise CannotReplay(f"{_NO_SUCH} with the parameter {lacking[0]}", _REMEDY)
    values.build_on(device or ("cuda" if torch.cuda.is_available() else "cpu"))

    def called(*positional: Any, **keyword: Any) -> Any:
        with values.entered(plan.modes):
            return function(*positional, **keyword)

    return partial(called, *(made(one.value) for one in positional), **{one.name: made(one.value) for one in keyword})


def made(value: Value) -> Any:
    """A planned value, made: tensors, dtypes and the like as PyTorch has them."""
    from tracelens_graph.replay.program import values

    return values.built(value_json(value))
