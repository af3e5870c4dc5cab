"""Running a plan in this process, with the PyTorch that is installed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from importlib import import_module
from typing import Any

from tracelens_graph.errors import MissingExtraError
from tracelens_graph.replay.arguments import Argument, Value
from tracelens_graph.replay.plan_json import value_json
from tracelens_graph.replay.replay_plan import CannotReplay, ReplayPlan
from tracelens_graph.replay.schemas import Parameter, Schema, parse

_NO_SUCH = "the installed PyTorch has no such operator"


class NoTorchError(MissingExtraError):
    """PyTorch is not installed here."""

    def __init__(self) -> None:
        ImportError.__init__(self, "PyTorch is not installed here: write a script and run it where it is")


def run(plan: ReplayPlan, device: str | None = None) -> Any:
    """Call the planned operation once.

    Args:
        plan: the plan.
        device: such as `cuda`; by default a GPU where there is one.

    Returns:
        What the operation returns.

    Raises:
        CannotReplay: the installed PyTorch has no such operator, or not with these parameters.
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
    try:
        import torch
    except ImportError as error:
        raise NoTorchError from error
    from tracelens_graph.replay.program import values

    for module in plan.imports:
        import_module(module)
    schema = installed_schema(plan)
    positional, keyword = by_name(plan, schema)
    values.build_on(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    namespace, _, op = schema.op.partition("::")
    function = getattr(getattr(getattr(torch.ops, namespace), op), schema.overload or "default")

    def called(*positional: Any, **keyword: Any) -> Any:
        with values.entered(plan.modes):
            return function(*positional, **keyword)

    return partial(called, *(made(one.value) for one in positional), **{one.name: made(one.value) for one in keyword})


def installed_schema(plan: ReplayPlan) -> Schema:
    """The schema by which the installed PyTorch has the planned operator.

    Raises:
        CannotReplay: it has none.
    """
    import torch

    for one in torch._C._jit_get_schemas_for_operator(plan.op):
        if one.overload_name == plan.overload:
            return parse(str(one))
    raise CannotReplay(_NO_SUCH, "the version of PyTorch that recorded the trace")


def by_name(plan: ReplayPlan, schema: Schema) -> tuple[list[Argument], list[Argument]]:
    """The planned arguments as another version of the schema takes them, positional and by keyword.

    What that version has besides takes its default; what it lacks must have been the default.

    Raises:
        CannotReplay: it lacks a parameter that was given, or needs one that was not.
    """
    if schema.text == plan.schema:
        return list(plan.positional), list(plan.keyword)
    given = {one.name: one for one in plan.arguments}
    for name in given.keys() - set(schema.names):
        if not _is_default(given[name], parse(plan.schema).parameters):
            raise CannotReplay(
                f"{_NO_SUCH} with the parameter {name}", "the version of PyTorch that recorded the trace"
            )
    positional: list[Argument] = []
    keyword: list[Argument] = []
    for parameter in schema.parameters:
        found = given.get(parameter.name)
        if found is None and parameter.default is None:
            raise CannotReplay(f"{_NO_SUCH} without {parameter.name}", "the version of PyTorch that recorded the trace")
        by_keyword = parameter.is_keyword or len(positional) < schema.parameters.index(parameter)
        if found is not None:
            (keyword if by_keyword else positional).append(found)
    return positional, keyword


def _is_default(argument: Argument, parameters: Iterable[Parameter]) -> bool:
    """Whether an argument is what it would be if it were not given."""
    parameter = next((one for one in parameters if one.name == argument.name), None)
    if parameter is None or parameter.default is None:
        return argument.value is None
    default = parameter.default_value
    return argument.value == (tuple(default) if isinstance(default, list) else default)


def made(value: Value) -> Any:
    """A planned value, made: tensors, dtypes and the like as PyTorch has them."""
    from tracelens_graph.replay.program import values

    return values.built(value_json(value))
